//! A time axis: maps times to columns, and draws the marks below.

use std::time::Duration;

use crate::units;

/// Maps times from zero to an end to columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    end: f64,
    width: usize,
}

impl Scale {
    pub(crate) fn new(end: Duration, width: usize) -> Scale {
        Scale { end: end.as_secs_f64().max(1e-9), width: width.max(1) }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The column of `at`; times after the end are in the last one.
    pub(crate) fn column(&self, at: Duration) -> usize {
        let part = at.as_secs_f64() / self.end;
        ((part * self.width as f64) as usize).min(self.width - 1)
    }

    /// The columns from one time to another, at least one.
    pub(crate) fn columns(&self, from: Duration, to: Duration) -> std::ops::Range<usize> {
        let begin = self.column(from);
        let part = to.as_secs_f64() / self.end * self.width as f64;
        begin..(part.round() as usize).clamp(begin + 1, self.width.max(begin + 1))
    }

    /// The maximum of a step function in each column. `steps` are sorted by time.
    pub(crate) fn largest(&self, steps: &[(Duration, usize)]) -> Vec<usize> {
        let mut columns = vec![0; self.width];
        for (at, (begin, value)) in steps.iter().enumerate() {
            if begin.as_secs_f64() > self.end {
                break;
            }
            let first = self.column(*begin);
            let last = steps.get(at + 1).map_or(self.width - 1, |(next, _)| self.column(*next));
            for column in &mut columns[first..=last] {
                *column = (*column).max(*value);
            }
        }
        columns
    }

    /// The axis: a line with marks, and a line with labels. Both are indented by `indent` columns.
    pub(crate) fn axis(&self, indent: usize) -> String {
        let step = nice_step(self.end, self.width / 12);
        let mut line: Vec<char> = vec!['─'; self.width];
        let mut labels = String::new();
        let mut mark = 0.0;
        while mark <= self.end * 1.000_001 {
            let column = self.column(Duration::from_secs_f64(mark));
            line[column] = '┴';
            let label = if mark == 0.0 { "0".to_owned() } else { short(mark, step) };
            let taken = labels.chars().count();
            // Keep the last label within the line.
            let begin = column.min(self.width.saturating_sub(label.chars().count()));
            if begin >= taken + 2 * usize::from(taken > 0) {
                labels.push_str(&" ".repeat(begin - taken));
                labels.push_str(&label);
            }
            mark += step;
        }
        let margin = " ".repeat(indent);
        format!("{margin}{}\n{margin}{labels}\n", line.into_iter().collect::<String>())
    }
}

/// The step between marks: 1, 2 or 5 times a power of ten, so that about `marks` of them fit.
fn nice_step(end: f64, marks: usize) -> f64 {
    let rough = end / marks.max(2) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let factor =
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999).unwrap_or(10.0);
    factor * power
}

/// The label of a time, with as many digits as the step needs.
fn short(seconds: f64, step: f64) -> String {
    let (value, step, unit) = match step {
        s if s >= 60.0 => return units::show(Duration::from_secs_f64(seconds)),
        s if s >= 0.01 => (seconds, step, "s"),
        s if s >= 1e-5 => (seconds * 1e3, step * 1e3, "ms"),
        _ => (seconds * 1e6, step * 1e6, "us"),
    };
    let digits = if step >= 0.999 { 0 } else { (-step.log10()).ceil() as usize };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn every_time_has_a_column() {
        let scale = Scale::new(SECOND, 10);
        assert_eq!(scale.column(Duration::ZERO), 0);
        assert_eq!(scale.column(SECOND / 2), 5);
        assert_eq!(scale.column(SECOND), 9);
        assert_eq!(scale.column(SECOND * 7), 9);
        assert_eq!(Scale::new(Duration::ZERO, 10).column(Duration::ZERO), 0);
        assert_eq!(scale.columns(SECOND / 2, SECOND / 2), 5..6);
        assert_eq!(scale.columns(Duration::ZERO, SECOND), 0..10);
        assert_eq!(scale.columns(SECOND, SECOND * 2), 9..10);
    }

    #[test]
    fn a_column_shows_the_largest_value_that_there_was_in_it() {
        let at = |tenths: u32| SECOND * tenths / 10;
        let scale = Scale::new(SECOND, 10);
        let steps = [(at(0), 0), (at(2), 3), (at(4), 1)];
        assert_eq!(scale.largest(&steps), [0, 0, 3, 3, 3, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn the_axis_has_round_marks_that_do_not_touch() {
        let axis = Scale::new(Duration::from_millis(2010), 60).axis(4);
        let labels = axis.lines().nth(1).unwrap();
        assert_eq!(labels.split_whitespace().collect::<Vec<_>>().join(" "), "0 0.5 s 1.0 s 1.5 s 2.0 s");
        assert!(axis.starts_with("    ┴──"), "{axis}");
    }
}
