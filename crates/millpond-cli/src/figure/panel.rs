//! A curve over time with its scale and its bounds.

use std::time::Duration;

use super::TimeAxis;
use crate::canvas::{Anchor, Canvas, Px, TEXT};
use crate::units;

const HEIGHT: f64 = 56.0;
/// With more steps than this per pixel column, draws a band and a mean.
const STEPS_PER_COLUMN: usize = 2;

/// A step function of time.
#[derive(Debug)]
pub(crate) struct Panel {
    name: &'static str,
    /// The class of the filled area; `None` draws a line only.
    area: Option<&'static str>,
    steps: Vec<(Duration, usize)>,
    /// Summarised values by time. If there are any, they replace `steps`.
    columns: Vec<(Duration, Column)>,
    bounds: Vec<(&'static str, usize)>,
    /// The top of the scale, if several panels share it.
    scale: Option<usize>,
}

impl Panel {
    /// Height including the heading, in pixels.
    pub(crate) const FULL_HEIGHT: f64 = TEXT + 6.0 + HEIGHT;

    pub(crate) fn line(name: &'static str, steps: Vec<(Duration, usize)>) -> Panel {
        Panel { name, area: None, steps, columns: Vec::new(), bounds: Vec::new(), scale: None }
    }

    pub(crate) fn area(name: &'static str, class: &'static str, steps: Vec<(Duration, usize)>) -> Panel {
        Panel { area: Some(class), ..Panel::line(name, steps) }
    }

    /// A panel of summarised values: a mean, and a band from minimum to maximum.
    pub(crate) fn band(name: &'static str, class: &'static str, columns: Vec<(Duration, Column)>) -> Panel {
        Panel { columns, ..Panel::area(name, class, Vec::new()) }
    }

    /// A dashed line with a label.
    pub(crate) fn bound(&mut self, name: &'static str, value: usize) {
        self.bounds.push((name, value));
    }

    /// Gives several panels the same scale.
    pub(crate) fn scaled_to(self, most: usize) -> Panel {
        Panel { scale: Some(most), ..self }
    }

    pub(crate) fn peak(&self) -> usize {
        let columns = self.columns.iter().map(|(_, column)| column.most);
        self.steps.iter().map(|(_, value)| *value).chain(columns).max().unwrap_or(0)
    }

    /// Draws the panel below `top`. Returns its lower end.
    pub(crate) fn draw(&self, canvas: &mut Canvas, axis: TimeAxis, top: f64) -> f64 {
        let most = self.bounds.iter().map(|(_, value)| *value).chain([self.peak()]).max().unwrap_or(1);
        let most = self.scale.unwrap_or(most).max(1);
        let (upper, lower) = (top + TEXT + 6.0, top + TEXT + 6.0 + HEIGHT);
        let y = |value: f64| lower - value / most as f64 * HEIGHT;
        let peak = units::show_count(self.peak() as u64);
        let banded = !self.columns.is_empty() || self.steps.len() > STEPS_PER_COLUMN * axis.columns();
        canvas.text("p-ink", (axis.left, top + TEXT), Anchor::Start, &format!("{}, peak {peak}", self.name));
        for (value, base) in [(most, upper + 9.0), (0, lower)] {
            let text = units::show_count(value as u64);
            canvas.text("p-faint", (axis.left - 6.0, base), Anchor::End, &text);
        }
        canvas.line("p-grid", (axis.left, upper), (axis.right(), upper));
        canvas.line("p-grid", (axis.left, lower), (axis.right(), lower));
        if banded {
            self.draw_band(canvas, axis, y);
        } else {
            self.draw_steps(canvas, axis, y);
        }
        self.draw_bounds(canvas, axis, y);
        lower
    }

    fn draw_steps(&self, canvas: &mut Canvas, axis: TimeAxis, y: impl Fn(f64) -> f64) {
        let mut path = format!("M{} {}", Px(axis.left), Px(y(0.0)));
        for (at, value) in &self.steps {
            path.push_str(&format!("H{}V{}", Px(axis.x(*at)), Px(y(*value as f64))));
        }
        path.push_str(&format!("H{}", Px(axis.right())));
        let class = self.area.unwrap_or("p-line");
        if self.area.is_some() {
            canvas.path(&format!("{class} p-area"), "", &format!("{path}V{}Z", Px(y(0.0))));
        }
        canvas.path(&format!("{class} p-path"), " style=\"stroke-width:1.6\"", &path);
    }

    /// Draws minimum, mean and maximum of each pixel column.
    fn draw_band(&self, canvas: &mut Canvas, axis: TimeAxis, y: impl Fn(f64) -> f64) {
        let columns: Vec<(f64, Column)> = if self.columns.is_empty() {
            let columns = summarise(&self.steps, axis).into_iter().enumerate();
            columns.map(|(at, column)| (axis.left + at as f64, column)).collect()
        } else {
            self.columns.iter().map(|(at, column)| (axis.x(*at), *column)).collect()
        };
        let class = self.area.unwrap_or("p-line");
        let (mut upper, mut lower, mut mean) = (String::new(), String::new(), String::new());
        for (at, (x, column)) in columns.iter().enumerate() {
            let x = Px(*x);
            let go = if at == 0 { 'M' } else { 'L' };
            upper.push_str(&format!("{go}{x} {}", Px(y(column.most as f64))));
            mean.push_str(&format!("{go}{x} {}", Px(y(column.mean))));
        }
        for (x, column) in columns.iter().rev() {
            lower.push_str(&format!("L{} {}", Px(*x), Px(y(column.least as f64))));
        }
        canvas.path(&format!("{class} p-area"), " stroke=\"none\"", &format!("{upper}{lower}Z"));
        canvas.path(&format!("{class} p-path"), " style=\"stroke-width:1.6\"", &mean);
    }

    /// Dashed lines; labels that would touch each other move down.
    fn draw_bounds(&self, canvas: &mut Canvas, axis: TimeAxis, y: impl Fn(f64) -> f64) {
        let mut bounds = self.bounds.clone();
        bounds.sort_by_key(|(_, value)| std::cmp::Reverse(*value));
        let mut last = f64::MIN;
        for (name, value) in bounds {
            let at = y(value as f64);
            canvas.line("p-bound", (axis.left, at), (axis.right(), at));
            let base = (at + 4.0).max(last + TEXT + 1.0);
            let text = format!("{name} {}", units::show_count(value as u64));
            canvas.text("p-faint", (axis.right() + 5.0, base), Anchor::Start, &text);
            last = base;
        }
    }
}

/// A summary of a value over an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Column {
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// The mean over time.
    pub(crate) mean: f64,
}

fn summarise(steps: &[(Duration, usize)], axis: TimeAxis) -> Vec<Column> {
    let per_column = axis.end / axis.columns() as f64;
    let mut columns = Vec::with_capacity(axis.columns());
    let (mut next, mut value) = (0, 0);
    for at in 0..axis.columns() {
        let (from, to) = (at as f64 * per_column, (at + 1) as f64 * per_column);
        let (mut least, mut most, mut sum, mut since) = (value, value, 0.0, from);
        while let Some((moment, after)) = steps.get(next).filter(|(moment, _)| moment.as_secs_f64() < to) {
            let moment = moment.as_secs_f64().max(from);
            sum += (moment - since) * value as f64;
            (since, value, next) = (moment, *after, next + 1);
            (least, most) = (least.min(value), most.max(value));
        }
        sum += (to - since) * value as f64;
        columns.push(Column { least, most, mean: sum / per_column });
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_knows_least_most_and_mean() {
        let axis = TimeAxis::new(0.0, 2.0, Duration::from_millis(20));
        let at = Duration::from_millis;
        let columns = summarise(&[(at(0), 0), (at(5), 4), (at(15), 2)], axis);
        assert_eq!(columns[0], Column { least: 0, most: 4, mean: 2.0 });
        assert_eq!(columns[1], Column { least: 2, most: 4, mean: 3.0 });
    }
}
