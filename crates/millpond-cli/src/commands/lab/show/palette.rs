//! One colour per admission, the same on the terminal, in SVG and in HTML.

use super::super::record::How;
use crate::term::Colour;

/// The admissions in the order of a legend.
pub(super) const ORDER: [How; 8] = How::ALL;

pub(super) fn terminal(how: How) -> Colour {
    match how {
        How::CoreThread | How::NewThread => Colour::Green,
        How::Queued => Colour::Blue,
        How::IdleThread => Colour::Cyan,
        How::ExtraThread => Colour::Yellow,
        How::RanInCaller => Colour::Magenta,
        How::Rejected | How::Discarded => Colour::Red,
    }
}

/// The class in `canvas.rs`.
pub(super) fn class(how: How) -> &'static str {
    match how {
        How::CoreThread | How::NewThread => "p-core",
        How::Queued => "p-queued",
        How::IdleThread => "p-idle",
        How::ExtraThread => "p-extra",
        How::RanInCaller => "p-caller",
        How::Rejected | How::Discarded => "p-refused",
    }
}
