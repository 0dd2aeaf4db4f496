//! Parts of pictures that several commands share: columns, a time axis, panels above it, and tails.
//!
//! Each picture has two widths, because scaled-down text is not legible.

mod panel;
mod tail;

use std::time::Duration;

pub(crate) use panel::{Column, Panel};
pub(crate) use tail::Tail;

use crate::canvas::{Anchor, Canvas, TEXT, nice_step, text_width};
use crate::units;

/// Sizes of a picture in pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    /// Space for the names of lanes and the numbers of axes.
    pub(crate) left: f64,
    /// Space for labels at the right end of a line.
    pub(crate) right: f64,
}

/// For desktop screens.
pub(crate) const WIDE: Layout = Layout { width: 900.0, left: 84.0, right: 92.0 };
/// For phones.
pub(crate) const NARROW: Layout = Layout { width: 344.0, left: 66.0, right: 88.0 };

/// Maximum number of columns in a wide picture.
const MOST_COLUMNS: usize = 3;
/// Minimum width of a column with its margins, and the width of these margins.
const LEAST_COLUMN: f64 = 260.0;
const COLUMN_LEFT: f64 = 48.0;
const COLUMN_RIGHT: f64 = 22.0;

/// Draws `pools` in as many columns as fit, all with a time axis that ends at `end`. `draw` gets
/// the axis and the top of its column and returns its lower end. Returns the lower end of all
/// columns.
pub(crate) fn side_by_side<T>(
    pools: &[T],
    layout: Layout,
    end: Duration,
    top: f64,
    mut draw: impl FnMut(&T, TimeAxis, f64) -> f64,
) -> f64 {
    let columns = ((layout.width / LEAST_COLUMN) as usize).clamp(1, MOST_COLUMNS).min(pools.len().max(1));
    let width = layout.width / columns as f64;
    let mut y = top;
    for row in pools.chunks(columns) {
        let ends = row.iter().enumerate().map(|(at, pool)| {
            let left = at as f64 * width + COLUMN_LEFT;
            draw(pool, TimeAxis::new(left, width - COLUMN_LEFT - COLUMN_RIGHT, end), y)
        });
        y = ends.fold(y, f64::max) + 16.0;
    }
    y
}

/// Maps times to x coordinates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeAxis {
    pub(crate) left: f64,
    pub(crate) width: f64,
    pub(crate) end: f64,
}

impl TimeAxis {
    pub(crate) fn new(left: f64, width: f64, end: Duration) -> TimeAxis {
        TimeAxis { left, width, end: end.as_secs_f64().max(1e-6) }
    }

    pub(crate) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(crate) fn x(&self, at: Duration) -> f64 {
        self.left + (at.as_secs_f64() / self.end).min(1.0) * self.width
    }

    /// The pixel column of a time, from 0.
    pub(crate) fn column(&self, at: Duration) -> usize {
        ((self.x(at) - self.left) as usize).min(self.columns() - 1)
    }

    pub(crate) fn columns(&self) -> usize {
        (self.width as usize).max(1)
    }

    /// Draws marks and labels below `y`, and vertical grid lines up to `top`. Returns the height
    /// used.
    pub(crate) fn draw(&self, canvas: &mut Canvas, top: f64, y: f64) -> f64 {
        let step = nice_step(self.end, (self.width / 90.0) as usize);
        let mut label_end = f64::MIN;
        for mark in (0_u32..).map(|n| f64::from(n) * step).take_while(|mark| *mark <= self.end) {
            let x = self.left + mark / self.end * self.width;
            canvas.line("p-grid", (x, top), (x, y));
            let label = if mark == 0.0 { "0".to_owned() } else { units::show(Duration::from_secs_f64(mark)) };
            let half = text_width(&label) / 2.0;
            if x - half > label_end && x + half < self.right() + 40.0 {
                canvas.text("p-faint", (x, y + TEXT + 3.0), Anchor::Middle, &label);
                label_end = x + half + 6.0;
            }
        }
        TEXT + 10.0
    }
}
