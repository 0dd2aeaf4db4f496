//! Arrivals from a file: a column of timestamps.

use std::iter;
use std::path::Path;
use std::sync::Arc;

use millpond_sim::Nanos;
use toml::value::{Datetime, Offset};

use super::words::TimeUnit;
use crate::error::Error;
use crate::files;

/// Reads the timestamps in a file of comma-separated values: those in `column`, or in the first. They are sorted, and
/// counted from the first.
pub(super) fn read(path: &Path, column: Option<&str>, unit: TimeUnit) -> Result<Arc<[Nanos]>, Error> {
    parse(&path.display().to_string(), &files::read(path)?, column, unit).map_err(Error::new)
}

fn parse(name: &str, text: &str, column: Option<&str>, unit: TimeUnit) -> Result<Arc<[Nanos]>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let mut at = 0;
    let mut moments: Vec<i128> = Vec::new();
    for (row, is_first) in rows.records().zip(iter::once(true).chain(iter::repeat(false))) {
        let row = row.map_err(|error| format!("{name}: {error}"))?;
        let line = row.position().map_or(0, csv::Position::line);
        match column {
            Some(column) if is_first => {
                at = place_of(column, &row).map_err(|error| format!("{name}:{line}: {error}"))?
            }
            // A heading, if it is no time.
            None if is_first && row.get(0).is_some_and(|cell| moment(cell, unit).is_none()) => {}
            _ => moments.push(read_cell(&row, at, unit).map_err(|error| format!("{name}:{line}: {error}"))?),
        }
    }
    moments.sort_unstable();
    let Some(first) = moments.first().copied() else {
        return Err(format!(
            "{name}: no timestamps; it needs a line for each task, with its time of arrival"
        ));
    };
    let whole: Option<Arc<[Nanos]>> = moments.iter().map(|at| Nanos::try_from(at - first).ok()).collect();
    whole.ok_or_else(|| format!("{name}: the times are more than 500 years apart; is the unit right?"))
}

fn place_of(column: &str, headings: &csv::StringRecord) -> Result<usize, String> {
    headings.iter().position(|cell| cell == column).ok_or_else(|| {
        let columns: Vec<&str> = headings.iter().collect();
        format!("no column is called '{column}'; there are {}", columns.join(", "))
    })
}

fn read_cell(row: &csv::StringRecord, at: usize, unit: TimeUnit) -> Result<i128, String> {
    let cell = row.get(at).unwrap_or("");
    moment(cell, unit).ok_or_else(|| {
        format!(
            "'{cell}' is not a time in {}, such as 12.25, nor a date and time; name another column or unit: FILE.csv \
             column started in ms",
            unit.name()
        )
    })
}

/// Nanoseconds since 1970, or since whatever the file counts from.
fn moment(text: &str, unit: TimeUnit) -> Option<i128> {
    number(text, unit).or_else(|| date(text))
}

/// A date and a time of day as in RFC 3339, such as 2031-05-17T09:30:00.25Z. Without an offset it is Greenwich's: only
/// distances matter.
fn date(text: &str) -> Option<i128> {
    let Datetime { date, time, offset } = text.parse().ok()?;
    let (date, time) = date.zip(time)?;
    let minutes = match offset {
        Some(Offset::Custom { minutes }) => i128::from(minutes),
        Some(Offset::Z) | None => 0,
    };
    // Years that begin in March have their odd day at the end, and months that follow a pattern.
    let (year, month) = match date.month {
        1 | 2 => (i128::from(date.year) - 1, i128::from(date.month) + 9),
        month => (i128::from(date.year), i128::from(month) - 3),
    };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + i128::from(date.day)
        - 1
        - 719_468; // those before 1970
    let of_day = i128::from(time.hour) * 60 + i128::from(time.minute) - minutes;
    let seconds = (days * 24 * 60 + of_day) * 60 + i128::from(time.second.unwrap_or(0));
    Some(seconds * 1_000_000_000 + i128::from(time.nanosecond.unwrap_or(0)))
}

/// A number with a decimal point, in nanoseconds. Digit by digit: a time since 1970 with nanoseconds has more of them than
/// a floating-point number.
fn number(text: &str, unit: TimeUnit) -> Option<i128> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || whole.len() > 24 {
        return None;
    }
    let wanted = unit.digits() as usize;
    let padded: String = part.chars().chain(std::iter::repeat('0')).take(wanted).collect();
    let nanos: i128 = format!("{whole}{padded}").parse().ok()?;
    Some(if negative { -nanos } else { nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Result<Vec<Nanos>, String> {
        parse("a.csv", text, None, TimeUnit::Seconds).map(|times| times.to_vec())
    }

    #[test]
    fn the_first_column_is_read_with_or_without_a_heading_sorted_and_from_the_first_on() {
        let expected = [0, 250_000_000, 1_000_000_000];
        assert_eq!(seconds("12\n12.25\n13.0\n").unwrap(), expected);
        assert_eq!(seconds("\u{feff}at,what\n13,a\n12,\"b, c\"\n# later\n12.25\n").unwrap(), expected);
        assert_eq!(seconds("-1\n-0.75\n0").unwrap(), expected);
    }

    #[test]
    fn times_since_1970_keep_their_nanoseconds() {
        assert_eq!(seconds("1785456789.123456789\n1785456789.123456790").unwrap(), [0, 1]);
        let millis = parse("a.csv", "1785456789123\n1785456789124.5", None, TimeUnit::Millis).unwrap();
        assert_eq!(*millis, [0, 1_500_000]);
    }

    #[test]
    fn dates_are_read_wherever_the_clock_stands() {
        let text = "at\n2031-05-17T09:30:00Z\n2031-05-17 09:30:00.25\n2031-05-17T11:30:01+02:00\n";
        assert_eq!(seconds(text).unwrap(), [0, 250_000_000, 1_000_000_000]);
        let zero = date("1970-01-01T00:00:00Z");
        assert_eq!(zero, Some(0));
        // Known from elsewhere: `date -ud 2000-03-01 +%s` and so on.
        for (day, since) in
            [("2000-02-29", 951_782_400), ("2000-03-01", 951_868_800), ("2100-03-01", 4_107_542_400)]
        {
            assert_eq!(date(&format!("{day}T00:00:00Z")), Some(since * 1_000_000_000), "{day}");
        }
        // The first line of a file without a heading is no heading.
        assert_eq!(seconds("2031-05-17T09:30:00Z\n2031-05-17T09:30:02Z\n").unwrap().len(), 2);
        assert!(seconds("at\n2031-02-30T09:30:00Z\n").is_err());
        assert!(seconds("at\n2031-05-17\n").is_err());
    }

    #[test]
    fn a_column_may_be_named() {
        let text = "id,started\n1,5\n2,7\n";
        let times = parse("a.csv", text, Some("started"), TimeUnit::Micros).unwrap();
        assert_eq!(*times, [0, 2000]);
        assert_eq!(
            parse("a.csv", text, Some("ended"), TimeUnit::Micros).unwrap_err(),
            "a.csv:1: no column is called 'ended'; there are id, started"
        );
    }

    #[test]
    fn what_is_no_time_is_told_with_its_line() {
        let error = seconds("at\n1\n2\nsoon\n").unwrap_err();
        assert!(error.starts_with("a.csv:4: 'soon' is not a time in seconds"), "{error}");
        for text in ["1\n\"2\"\n-\n", "1\n1e9\n", "1\n.5\n", "1\n0x10\n", "1\n,7\n"] {
            assert!(seconds(text).is_err(), "{text:?}");
        }
        assert!(seconds("").unwrap_err().contains("no timestamps"));
        assert!(seconds("only a heading\n").unwrap_err().contains("no timestamps"));
        assert!(seconds("0\n99999999999999\n").unwrap_err().contains("is the unit right?"));
    }
}
