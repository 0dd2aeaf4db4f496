//! Text graphics: tables, curves, lanes over time, wrapped prose. All fit into a given width.

mod area;
mod lanes;
mod scale;
mod table;

use std::fmt::{Display, Write};

pub(crate) use area::area;
pub(crate) use lanes::{Lane, Look, Span};
pub(crate) use scale::Scale;
pub(crate) use table::{Align, Table};

/// `text` in lines of at most `width` columns, broken at spaces and prefixed with `indent`.
pub(crate) fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            push_line(&mut out, &line);
            line.clear();
        }
        line.push_str(if line.is_empty() { indent } else { " " });
        line.push_str(word);
    }
    if !line.is_empty() {
        push_line(&mut out, &line);
    }
    out
}

fn push_line(out: &mut String, line: impl Display) {
    writeln!(out, "{line}").expect("a String takes everything");
}

/// The width of `text` in columns. Colour codes have no width.
pub(crate) fn columns(text: &str) -> usize {
    console::measure_text_width(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_at_spaces_and_keeps_its_words() {
        let long = ["word"; 40].join(" ");
        let text = wrapped(&long, 80, "  ");
        assert!(text.lines().all(|line| columns(line) <= 80 && line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), long);
        assert_eq!(wrapped("a few words", 80, ""), "a few words\n");
    }
}
