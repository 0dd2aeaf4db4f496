//! Reads tables of a page.

/// Median, and half of the distance between the quartiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) median: f64,
    pub(super) spread: f64,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: String,
    /// One for each column. `None` if the table has none.
    pub(super) figures: Vec<Option<Figure>>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// The head of the first column: the unit, or the name of the metric of a curve.
    pub(super) corner: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
}

impl Table {
    pub(super) fn figures(&self) -> impl Iterator<Item = Figure> + Clone {
        self.rows.iter().flat_map(|row| row.figures.iter().flatten().copied())
    }
}

/// All tables of a section. Rows with ratios, which are in italics, are omitted.
pub(super) fn all(section: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut inside = false;
    for line in section.lines() {
        let cells = cells(line);
        match cells.as_slice() {
            [] => inside = false,
            [first, ..] if first.starts_with("---") || first.starts_with('*') => {}
            [first, others @ ..] if inside => {
                let row =
                    Row { name: first.clone(), figures: others.iter().map(|cell| figure(cell)).collect() };
                tables.last_mut().expect("inside means that a table has begun").rows.push(row);
            }
            [first, others @ ..] => {
                inside = true;
                tables.push(Table { corner: first.clone(), columns: others.to_vec(), rows: Vec::new() });
            }
        }
    }
    tables
}

/// The cells of a line without the marks of bold text. Empty if the line is no part of a table.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    let inner = inner.map(|line| line.split('|').map(|cell| cell.trim().replace("**", "")));
    inner.map_or(Vec::new(), Iterator::collect)
}

/// `138 ±17%`.
fn figure(cell: &str) -> Option<Figure> {
    let (median, percent) = cell.strip_suffix('%')?.split_once('±')?;
    let median: f64 = median.trim().parse().ok()?;
    let percent: f64 = percent.trim().parse().ok()?;
    Some(Figure { median, spread: median * percent / 100.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_missing_figures_are_left_out() {
        let tables = all("text\n\n| µs | a | b |\n|---|---:|---:|\n| **millpond** | **2.50 ±10%** | - |\n\
            | *best peer / millpond* | *1.00* (x) | - |\n\nafter\n\n| x | y |\n|---|---:|\n| 1 | 3.00 ± 0% |\n");
        assert_eq!(tables.len(), 2);
        assert_eq!((tables[0].corner.as_str(), tables[0].columns.len(), tables[0].rows.len()), ("µs", 2, 1));
        assert_eq!(tables[0].rows[0].name, "millpond");
        assert_eq!(tables[0].rows[0].figures, [Some(Figure { median: 2.5, spread: 0.25 }), None]);
        assert_eq!(tables[1].rows[0].figures, [Some(Figure { median: 3.0, spread: 0.0 })]);
    }
}
