//! A lane per thread, drawn over time: its runs, its idle times, its end.

use std::time::Duration;

use super::Scale;
use crate::term::{Colour, Screen};

/// One lane.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) name: String,
    /// From its start to its end, if it ended within the picture.
    pub(crate) alive: Vec<(Duration, Option<Duration>)>,
    /// Later ones are drawn over earlier ones.
    pub(crate) spans: Vec<Span>,
}

/// An interval in a lane.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) label: String,
    pub(crate) look: Look,
    /// A mark in its last column that shows how it ended.
    pub(crate) tail: Option<char>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Run(Colour),
    /// Waits for room in the queue.
    Waits,
}

type Cell = (char, Option<Colour>);

impl Lane {
    /// The lane as one line, without its name.
    pub(crate) fn draw(&self, scale: Scale, screen: &Screen) -> String {
        let mut cells: Vec<Cell> = vec![(' ', None); scale.width()];
        for (from, to) in &self.alive {
            let last = to.map_or(scale.width() - 1, |to| scale.column(to));
            let first = scale.column(*from);
            cells[first..=last.max(first)].fill(('·', Some(Colour::Faint)));
        }
        for span in &self.spans {
            span.draw(scale, &mut cells);
        }
        for to in self.alive.iter().filter_map(|(_, to)| *to) {
            // Next to the last span, not over it.
            let column = scale.column(to);
            let free = |column: &usize| matches!(cells.get(*column), Some((' ' | '·', _)));
            if let Some(column) = [column, column + 1].into_iter().find(free) {
                cells[column] = ('x', Some(Colour::Red));
            }
        }
        paint(&cells, screen)
    }
}

impl Span {
    fn draw(&self, scale: Scale, cells: &mut [Cell]) {
        let columns = scale.columns(self.from, self.to);
        let (fill, colour) = match self.look {
            Look::Run(colour) => ('━', colour),
            Look::Waits => ('░', Colour::Magenta),
        };
        // Omit a label that does not fit completely.
        let fits = self.label.chars().count() <= columns.len();
        let label: Vec<char> = match self.look {
            Look::Run(_) if !fits || self.label.is_empty() => vec!['┣'],
            _ => self.label.chars().collect(),
        };
        let cells = &mut cells[columns];
        for (at, cell) in cells.iter_mut().enumerate() {
            *cell = (label.get(at).copied().unwrap_or(fill), Some(colour));
        }
        if let (Some(tail), Some(last)) = (self.tail, cells.last_mut()) {
            *last = (tail, Some(Colour::Red));
        }
    }
}

/// Joins cells. Adjacent cells of one colour share their codes.
fn paint(cells: &[Cell], screen: &Screen) -> String {
    let mut line = String::new();
    for piece in cells.chunk_by(|one, next| one.1 == next.1) {
        let text: String = piece.iter().map(|(mark, _)| *mark).collect();
        match piece[0].1 {
            Some(colour) => line.push_str(&screen.paint(colour, text).to_string()),
            None => line.push_str(&text),
        }
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Screen = Screen { is_terminal: false, width: 80, colours: false };

    fn span(from: u64, to: u64, label: &str, tail: Option<char>) -> Span {
        let at = Duration::from_millis;
        Span { from: at(from), to: at(to), label: label.to_owned(), look: Look::Run(Colour::Blue), tail }
    }

    #[test]
    fn a_lane_shows_runs_idleness_and_leaving() {
        let lane = Lane {
            name: "t".to_owned(),
            alive: vec![(Duration::from_millis(1), Some(Duration::from_millis(9)))],
            spans: vec![span(1, 4, "12", None), span(4, 6, "345", Some('!'))],
        };
        assert_eq!(lane.draw(Scale::new(Duration::from_millis(10), 10), &PLAIN), " 12━┣!···x");
    }

    #[test]
    fn neighbours_of_one_colour_share_their_codes() {
        let lane = Lane { spans: vec![span(0, 3, "", None)], ..Lane::default() };
        let screen = Screen { colours: true, ..PLAIN };
        let line = lane.draw(Scale::new(Duration::from_millis(10), 10), &screen);
        assert_eq!(line, "\x1b[34m┣━━\x1b[0m");
    }
}
