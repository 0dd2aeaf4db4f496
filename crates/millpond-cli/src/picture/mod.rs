//! Pictures made of text: tables, bars, curves, lanes over time, wrapped prose. All fit into the width that they are given.

mod area;
mod lanes;
mod scale;
mod table;

use std::fmt::{Display, Write};

pub(crate) use area::area;
pub(crate) use lanes::{Lane, Look, Span};
pub(crate) use scale::Scale;
pub(crate) use table::{Align, Table};

/// `text` in lines of at most `width` columns, broken at spaces. Each begins with `indent`.
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

/// How many columns `text` takes. Colour codes take none.
pub(crate) fn columns(text: &str) -> usize {
    console::measure_text_width(text)
}

/// A bar of `width` columns at most, as long as `value` is of `most`, in steps of an eighth of a column.
pub(crate) fn bar(value: f64, most: f64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if most.is_nan() || value.is_nan() || most <= 0.0 || value <= 0.0 {
        return String::new();
    }
    let eighths = ((value / most).min(1.0) * width as f64 * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    } else if eighths == 0 {
        bar.push(EIGHTHS[1]); // something is not nothing
    }
    bar
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

    #[test]
    fn a_bar_is_in_proportion_and_something_is_never_nothing() {
        assert_eq!(bar(0.0, 10.0, 8), "");
        assert_eq!(bar(5.0, 10.0, 8), "████");
        assert_eq!(bar(10.0, 10.0, 8), "████████");
        assert_eq!(bar(1e-9, 10.0, 8), "▏");
        assert_eq!(bar(1.0, 0.0, 8), "");
    }
}
