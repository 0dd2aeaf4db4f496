//! The tail of a distribution: the share of all tasks that take longer than a given time.

use std::time::Duration;

use super::TimeAxis;
use crate::canvas::{Anchor, Canvas, Px, TEXT, text_width};
use crate::units;

const HEIGHT: f64 = 72.0;

/// A tail with two logarithmic axes. A refused task never ends, so the curve ends at the share of
/// refused tasks.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) title: &'static str,
    /// Times in seconds, ascending, each with the share of all tasks that take longer.
    pub(crate) curve: Vec<(f64, f64)>,
    /// The share of refused tasks.
    pub(crate) lost: f64,
    /// A time to mark, in seconds, with its label.
    pub(crate) limit: Option<(f64, String)>,
    /// The first and the last time of the axis, in seconds, both powers of ten.
    pub(crate) times: (f64, f64),
    /// The lower end of the axis of shares.
    pub(crate) least_share: f64,
}

impl Tail {
    /// Draws the tail below `top`. Returns its lower end.
    pub(crate) fn draw(&self, canvas: &mut Canvas, axis: TimeAxis, top: f64) -> f64 {
        let (upper, lower) = (top + TEXT + 8.0, top + TEXT + 8.0 + HEIGHT);
        let x = |time: f64| axis.left + part(time, self.times) * axis.width;
        let y = |share: f64| lower - part(share, (self.least_share, 1.0)) * HEIGHT;
        canvas.text("p-ink", (axis.left, top + TEXT), Anchor::Start, self.title);
        for share in decades(self.least_share, 1.0) {
            canvas.line("p-grid", (axis.left, y(share)), (axis.right(), y(share)));
            let text = format!("{}%", trimmed(share * 100.0));
            canvas.text("p-faint", (axis.left - 4.0, y(share) + 4.0), Anchor::End, &text);
        }
        let mut label_end = f64::MIN;
        for time in decades(self.times.0, self.times.1) {
            canvas.line("p-grid", (x(time), upper), (x(time), lower));
            let text = short(Duration::from_secs_f64(time));
            let half = text_width(&text) / 2.0;
            if x(time) - half > label_end {
                canvas.text("p-faint", (x(time), lower + TEXT + 3.0), Anchor::Middle, &text);
                label_end = x(time) + half;
            }
        }
        if let Some((limit, label)) = &self.limit {
            canvas.line("p-bound", (x(*limit), upper), (x(*limit), lower));
            canvas.text("p-faint", (x(*limit) + 3.0, upper + 10.0), Anchor::Start, label);
        }
        self.draw_curve(canvas, axis, x, y);
        lower + TEXT + 8.0
    }

    fn draw_curve(
        &self,
        canvas: &mut Canvas,
        axis: TimeAxis,
        x: impl Fn(f64) -> f64,
        y: impl Fn(f64) -> f64,
    ) {
        let mut path = format!("M{} {}", Px(axis.left), Px(y(1.0)));
        let mut last = (f64::MIN, f64::MIN);
        for (time, share) in &self.curve {
            let at = (x(*time).round(), y(*share).round());
            if at != last {
                path.push_str(&format!("H{}V{}", at.0, at.1));
                last = at;
            }
        }
        canvas.path("p-line", "", &path);
        if self.lost > 0.0 {
            let from = self.curve.last().map_or(axis.left, |(time, _)| x(*time));
            let plateau = format!("M{} {}H{}", Px(from), Px(y(self.lost)), Px(axis.right()));
            canvas.path("p-refused p-path", " style=\"stroke-width:3\"", &plateau);
        }
    }
}

/// The position of a value between two others on a logarithmic axis, from 0 to 1.
fn part(value: f64, (from, to): (f64, f64)) -> f64 {
    ((value.max(from) / from).log10() / (to / from).log10()).clamp(0.0, 1.0)
}

/// The powers of ten times `from`, up to `to`.
fn decades(from: f64, to: f64) -> impl Iterator<Item = f64> {
    (0..).map(move |power| from * 10f64.powi(power)).take_while(move |value| *value <= to * 1.001)
}

fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A power of ten as a duration: `1 ms`, not `1.00 ms`.
fn short(duration: Duration) -> String {
    let text = units::show(duration);
    match text.split_once(' ') {
        Some((value, unit)) if value.contains('.') => {
            format!("{} {unit}", value.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_placed_by_their_logarithm() {
        assert_eq!(part(0.01, (0.0001, 1.0)), 0.5);
        assert_eq!(part(0.0, (0.0001, 1.0)), 0.0);
        assert_eq!(part(10.0, (0.0001, 1.0)), 1.0);
        assert_eq!(decades(0.001, 1.0).count(), 4);
        assert_eq!((trimmed(0.1), trimmed(100.0)), ("0.1".to_owned(), "100".to_owned()));
        assert_eq!(short(Duration::from_millis(1)), "1 ms");
    }

    #[test]
    fn the_refused_end_the_curve_as_a_plateau() {
        let tail = Tail {
            title: "t",
            curve: vec![(0.001, 0.9), (0.01, 0.5)],
            lost: 0.5,
            limit: Some((0.1, "p99".to_owned())),
            times: (0.0001, 1.0),
            least_share: 0.01,
        };
        let mut canvas = Canvas::default();
        tail.draw(&mut canvas, TimeAxis::new(0.0, 100.0, Duration::from_secs(1)), 0.0);
        let svg = canvas.finish(100.0, 100.0, "");
        assert!(svg.contains("class=\"p-refused p-path\"") && svg.contains(">p99</text>"), "{svg}");
    }
}
