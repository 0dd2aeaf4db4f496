//! Recorded tasks: columns of a CSV file.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use millpond_sim::Nanos;
use toml::value::{Datetime, Offset};

use super::words::{FileWords, TimeUnit};
use super::workload::MOST_TASKS;
use crate::error::Error;
use crate::units;

/// The longest duration of a task: a hundred years.
const LONGEST: i128 = 3_153_600_000_000_000_000;

/// Times or durations.
type Times = Arc<[Nanos]>;

/// Arrival times: sorted, counted from the first.
pub(super) fn times(file: &FileWords) -> Result<Times, Error> {
    with_file(file, |name, text| {
        let mut moments = Vec::new();
        columns(name, text, [(file, moment)], |[at]| {
            moments.push(at);
            Ok(())
        })?;
        moments.sort_unstable();
        since_first(name, moments.iter().copied())
    })
}

/// Durations, in the order of the file.
pub(super) fn durations(file: &FileWords) -> Result<Times, Error> {
    with_file(file, |name, text| {
        let mut durations = Vec::new();
        columns(name, text, [(file, number)], |[duration]| {
            durations.push(as_duration(duration)?);
            Ok(())
        })?;
        Ok(durations.into())
    })
}

/// Arrival times and durations, sorted by arrival.
pub(super) fn requests(at: &FileWords, takes: &FileWords) -> Result<(Times, Times), Error> {
    with_file(at, |name, text| {
        let mut requests = Vec::new();
        columns(name, text, [(at, moment), (takes, number)], |[at, duration]| {
            requests.push((at, as_duration(duration)?));
            Ok(())
        })?;
        requests.sort_by_key(|(at, _)| *at);
        let times = since_first(name, requests.iter().map(|(at, _)| *at))?;
        Ok((times, requests.iter().map(|(_, duration)| *duration).collect()))
    })
}

fn as_duration(nanos: i128) -> Result<Nanos, String> {
    match Nanos::try_from(nanos) {
        Ok(nanos) if i128::from(nanos) <= LONGEST => Ok(nanos),
        _ => Err("a duration is negative or longer than a hundred years; is the unit right?".to_owned()),
    }
}

fn since_first(name: &str, moments: impl Iterator<Item = i128> + Clone) -> Result<Times, String> {
    let first = moments.clone().next().unwrap_or(0);
    let whole: Option<Times> = moments.map(|at| Nanos::try_from(at - first).ok()).collect();
    whole.ok_or_else(|| format!("{name}: the times are more than 500 years apart; is the unit right?"))
}

/// Opens the file and reads it with `read`, which gets its name and its text.
fn with_file<T>(
    file: &FileWords,
    read: impl FnOnce(&str, &mut dyn BufRead) -> Result<T, String>,
) -> Result<T, Error> {
    let name = file.path.display().to_string();
    let opened =
        File::open(&file.path).map_err(|error| Error::new(format_args!("cannot read {name}: {error}")))?;
    let mut text = BufReader::with_capacity(1 << 16, opened);
    skip_mark(&name, &mut text).and_then(|()| read(&name, &mut text)).map_err(Error::new)
}

/// Skips a byte order mark and refuses binary data: a device or a binary file may have no line end
/// for gigabytes.
fn skip_mark(name: &str, text: &mut dyn BufRead) -> Result<(), String> {
    let start = text.fill_buf().map_err(|error| format!("cannot read {name}: {error}"))?;
    if start.contains(&0) {
        return Err(format!("{name} is not a CSV file; it contains zero bytes"));
    }
    if start.starts_with(b"\xef\xbb\xbf") {
        text.consume(3);
    }
    Ok(())
}

/// Reads a cell as nanoseconds.
type Parse = fn(&str, TimeUnit) -> Option<i128>;

/// Passes the cells of some columns to `row`, row by row.
///
/// A heading is required if a column is named, otherwise optional.
fn columns<const N: usize>(
    name: &str,
    text: &mut dyn BufRead,
    wanted: [(&FileWords, Parse); N],
    mut row: impl FnMut([i128; N]) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .from_reader(text);
    let mut places = [0; N];
    let mut rows = 0;
    let mut is_first = true;
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(|error| format!("{name}: {error}"))? {
        let line = record.position().map_or(0, csv::Position::line);
        let with_line = |error: String| format!("{name}:{line}: {error}");
        if std::mem::take(&mut is_first) {
            refuse_other_separators(&record).map_err(with_line)?;
            if let Some(found) = heading(&record, wanted).map_err(with_line)? {
                places = found;
                continue;
            }
        }
        let mut cells = [0; N];
        for ((cell, at), (file, parse)) in cells.iter_mut().zip(places).zip(wanted) {
            *cell = read_cell(&record, at, file.unit, parse).map_err(with_line)?;
        }
        row(cells).map_err(with_line)?;
        rows += 1;
        if rows > MOST_TASKS {
            return Err(format!(
                "{name}: more than {} rows; a plan simulates at most that many tasks",
                units::show_count(MOST_TASKS)
            ));
        }
    }
    match rows {
        0 => Err(format!("{name}: no rows; the file needs a row for each task")),
        _ => Ok(()),
    }
}

/// Semicolons often come with decimal commas, which would be read as two cells.
fn refuse_other_separators(first: &csv::StringRecord) -> Result<(), String> {
    let has = |separator: char| first.iter().any(|cell| cell.contains(separator));
    let separator = match (has(';'), has('\t')) {
        (true, _) => "semicolons",
        (_, true) => "tabs",
        _ => return Ok(()),
    };
    Err(format!("the columns are separated by {separator}; convert the file to commas and decimal points"))
}

/// The indices of the columns, if the first row is a heading.
fn heading<const N: usize>(
    first: &csv::StringRecord,
    wanted: [(&FileWords, Parse); N],
) -> Result<Option<[usize; N]>, String> {
    let mut places = [0; N];
    let mut is_heading = false;
    for (place, (file, parse)) in places.iter_mut().zip(wanted) {
        match &file.column {
            Some(column) => {
                *place = place_of(column, first)?;
                is_heading = true;
            }
            None => is_heading |= first.get(0).is_some_and(|cell| parse(cell, file.unit).is_none()),
        }
    }
    Ok(is_heading.then_some(places))
}

fn place_of(column: &str, headings: &csv::StringRecord) -> Result<usize, String> {
    headings.iter().position(|cell| cell == column).ok_or_else(|| {
        let columns: Vec<&str> = headings.iter().collect();
        format!("there is no column '{column}'; the columns are {}", columns.join(", "))
    })
}

fn read_cell(row: &csv::StringRecord, at: usize, unit: TimeUnit, parse: Parse) -> Result<i128, String> {
    let cell = row.get(at).unwrap_or("");
    parse(cell, unit).ok_or_else(|| {
        format!(
            "'{cell}' is not a time in {} such as 12.25, nor a date and time; name another column or unit: FILE.csv \
             column started in ms",
            unit.name()
        )
    })
}

/// Nanoseconds since 1970, or since the zero of the file's own clock.
fn moment(text: &str, unit: TimeUnit) -> Option<i128> {
    number(text, unit).or_else(|| date(text))
}

/// A date and time as in RFC 3339, such as 2031-05-17T09:30:00.25Z. Without an offset it counts as
/// UTC: only differences matter.
fn date(text: &str) -> Option<i128> {
    let Datetime { date, time, offset } = text.parse().ok()?;
    let (date, time) = date.zip(time)?;
    let minutes = match offset {
        Some(Offset::Custom { minutes }) => i128::from(minutes),
        Some(Offset::Z) | None => 0,
    };
    // In a year that begins in March the leap day is the last day, and the months follow a pattern.
    let (year, month) = match date.month {
        1 | 2 => (i128::from(date.year) - 1, i128::from(date.month) + 9),
        month => (i128::from(date.year), i128::from(month) - 3),
    };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + i128::from(date.day)
        - 1
        - 719_468; // days before 1970
    let of_day = i128::from(time.hour) * 60 + i128::from(time.minute) - minutes;
    let seconds = (days * 24 * 60 + of_day) * 60 + i128::from(time.second.unwrap_or(0));
    Some(seconds * 1_000_000_000 + i128::from(time.nanosecond.unwrap_or(0)))
}

/// A decimal number, in nanoseconds. Parsed digit by digit: a time since 1970 in nanoseconds does
/// not fit into an `f64`.
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
mod tests;
