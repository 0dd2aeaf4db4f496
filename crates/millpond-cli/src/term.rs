//! Properties of stdout and stderr: terminal or not, width, colours.
//!
//! In a pipe there are no colours and no progress, and the width is 80. On a terminal, `NO_COLOR`
//! (with any non-empty value) and `TERM=dumb` disable colours.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use crate::error::Error;

/// The width if it is unknown.
pub(crate) const USUAL_WIDTH: usize = 80;

/// The properties of one stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) is_terminal: bool,
    /// Columns.
    pub(crate) width: usize,
    pub(crate) colours: bool,
}

/// The properties of stdout. `COLUMNS` overrides the width, even in a pipe.
pub(crate) fn stdout() -> Screen {
    look(io::stdout().is_terminal(), &console::Term::stdout())
}

/// The properties of stderr.
pub(crate) fn stderr() -> Screen {
    look(io::stderr().is_terminal(), &console::Term::stderr())
}

fn look(is_terminal: bool, term: &console::Term) -> Screen {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let real = || term.size_checked().map(|(_rows, columns)| usize::from(columns)).filter(|_| is_terminal);
    let width = told.or_else(real).filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH);
    Screen { is_terminal, width, colours: is_terminal && colours_are_welcome() }
}

fn colours_are_welcome() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

impl Screen {
    /// `text` in `colour`, or unchanged.
    pub(crate) fn paint<T: fmt::Display>(&self, colour: Colour, text: T) -> Painted<T> {
        Painted { colour: self.colours.then_some(colour), text }
    }
}

/// The colours in use: those that are legible in every theme of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Bold,
    Faint,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

impl Colour {
    fn code(self) -> u8 {
        match self {
            Colour::Bold => 1,
            Colour::Faint => 2,
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Blue => 34,
            Colour::Magenta => 35,
            Colour::Cyan => 36,
        }
    }
}

/// Displays with colour codes. Padding (`{:>8}`) applies to the text, so columns remain aligned.
#[derive(Debug)]
pub(crate) struct Painted<T> {
    colour: Option<Colour>,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(colour) = self.colour else { return self.text.fmt(f) };
        write!(f, "\x1b[{}m", colour.code())?;
        self.text.fmt(f)?;
        f.write_str("\x1b[0m")
    }
}

/// Writes `text` to stdout.
///
/// # Errors
/// [`Error::ReaderGone`] if the pipe is closed: return it, it ends the command successfully.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    print_bytes(text.as_bytes())
}

/// Writes `bytes`, which need not be UTF-8, to stdout. See [`print`] for errors.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Error::stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paint_adds_codes_on_a_colour_screen_and_nothing_elsewhere() {
        let plain = Screen { is_terminal: false, width: 80, colours: false };
        assert_eq!(format!("{:>4}|", plain.paint(Colour::Red, 7)), "   7|");
        let coloured = Screen { colours: true, ..plain };
        assert_eq!(format!("{:>4}|", coloured.paint(Colour::Red, 7)), "\x1b[31m   7\x1b[0m|");
    }
}
