//! A table whose columns are as wide as their content.

use super::columns;

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Minimum width of a column that is cut.
const MOST_CUT: usize = 8;

/// A table: headers, a rule below them, rows.
#[derive(Debug)]
pub(crate) struct Table {
    headers: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<'a>(headers: impl IntoIterator<Item = (&'a str, Align)>) -> Table {
        Table {
            headers: headers.into_iter().map(|(name, align)| (name.to_owned(), align)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; cells may hold colour codes.
    pub(crate) fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub(crate) fn headers(&self) -> Vec<&str> {
        self.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// The table as text, two columns between cells and no spaces at the ends of lines.
    pub(crate) fn draw(&self, indent: &str) -> String {
        self.draw_within(indent, usize::MAX)
    }

    /// Like `draw`, but at most `width` columns wide: cuts the widest column of text. If that is
    /// not enough, each row becomes a block with one line per column.
    pub(crate) fn draw_within(&self, indent: &str, width: usize) -> String {
        let mut widths: Vec<usize> = (0..self.headers.len()).map(|at| self.width(at)).collect();
        let whole = columns(indent) + widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let text_columns = (0..widths.len()).filter(|at| self.headers[*at].1 == Align::Left);
        if let (Some(widest), true) = (text_columns.max_by_key(|at| widths[*at]), whole > width) {
            widths[widest] = widths[widest].saturating_sub(whole - width).max(MOST_CUT);
        }
        if columns(indent) + widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1) > width {
            return self.draw_blocks(indent);
        }
        let headers = self.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        let mut text = String::new();
        for cells in [&headers, &rule].into_iter().chain(&self.rows) {
            text.push_str(indent);
            text.push_str(self.line(cells, &widths).trim_end());
            text.push('\n');
        }
        text
    }

    fn draw_blocks(&self, indent: &str) -> String {
        let longest = self.headers.iter().skip(1).map(|(name, _)| columns(name)).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            for (at, (cell, (header, _))) in row.iter().zip(&self.headers).enumerate() {
                match at {
                    0 => text.push_str(&format!("{indent}{cell}\n")),
                    _ => text.push_str(&format!("{indent}  {header:<longest$}  {cell}\n")),
                }
            }
        }
        text
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(cell));
        cells.chain([columns(&self.headers[at].0)]).max().unwrap_or(0)
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let padded = cells.iter().zip(widths).zip(&self.headers).map(|((cell, width), (_, align))| {
            let cell = console::truncate_str(cell, *width, "…");
            let pad = " ".repeat(width.saturating_sub(columns(&cell)));
            match align {
                Align::Left => format!("{cell}{pad}"),
                Align::Right => format!("{pad}{cell}"),
            }
        });
        padded.collect::<Vec<_>>().join("  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_stand_to_their_side() {
        let mut table = Table::new([("name", Align::Left), ("n", Align::Right)]);
        table.row(["a", "1234"]);
        table.row(["longer", "5"]);
        assert_eq!(table.draw(" "), " name       n\n ──────  ────\n a       1234\n longer     5\n");
    }

    #[test]
    fn what_is_too_wide_is_cut_from_the_widest_text_and_figures_are_never_cut() {
        let mut table = Table::new([("name", Align::Left), ("figure", Align::Right)]);
        table.row(["a very long name indeed", "12345678901234567890"]);
        table.row(["short", "1"]);
        let text = table.draw_within("  ", 36);
        assert!(text.lines().all(|line| columns(line) <= 36), "{text}");
        assert!(text.contains("  a very long…  12345678901234567890\n"), "{text}");
        assert!(text.contains("short"), "{text}");
    }

    #[test]
    fn a_table_that_cannot_fit_becomes_blocks() {
        let mut table = Table::new([("pool", Align::Left), ("ran", Align::Right), ("wait", Align::Right)]);
        table.row(["fixed", "1234567", "12.0 ms"]);
        let text = table.draw_within("", 18);
        assert_eq!(text, "fixed\n  ran   1234567\n  wait  12.0 ms\n");
    }

    #[test]
    fn colour_codes_take_no_room() {
        let mut table = Table::new([("x", Align::Right)]);
        table.row(["\x1b[31m7\x1b[0m"]);
        table.row(["42"]);
        assert_eq!(table.draw(""), " x\n──\n \x1b[31m7\x1b[0m\n42\n");
    }
}
