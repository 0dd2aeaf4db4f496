//! A curve over time as a filled area, in eighths of a line.

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `rows` lines from top to bottom: one column per value, full height for `most`. A value above
/// zero is always visible.
pub(crate) fn area(values: &[usize], most: usize, rows: usize) -> Vec<String> {
    let full = rows * 8;
    let heights: Vec<usize> = values
        .iter()
        .map(|value| match *value {
            0 => 0,
            value => {
                (value as f64 / most.max(1) as f64 * full as f64).round().clamp(1.0, full as f64) as usize
            }
        })
        .collect();
    (0..rows)
        .rev()
        .map(|row| heights.iter().map(|height| EIGHTHS[height.saturating_sub(row * 8).min(8)]).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_in_proportion_and_something_is_never_nothing() {
        assert_eq!(area(&[0, 1, 8, 16], 16, 2), ["   █", " ▁██"]);
        assert_eq!(area(&[0, 1, 1000], 1000, 1), [" ▁█"]);
        assert_eq!(area(&[0, 0], 0, 1), ["  "]);
    }
}
