//! Texts that several commands share: ages, sizes, tables of queues.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millpond_cluster::state::Millis;
use millpond_cluster::{Mode, QueueStats, State, WorkerRow};
use serde_json::{Value, json};

use crate::picture::{Align, Table, wrapped};
use crate::term::{Colour, Screen};
use crate::units;

/// A task that is ready for longer than this needs attention.
const OLD: Duration = Duration::from_secs(60);

/// The time of this machine, which is also the clock of an SQLite engine.
pub(super) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// The time from `from` to `to`; zero if the clock was set back.
pub(super) fn between(from: Millis, to: Millis) -> Duration {
    Duration::from_millis(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}

/// A readable duration: `850 ms`, `12 s`, `2m05s`, `3h01m`, `4d 02h`.
pub(super) fn span(time: Duration) -> String {
    match time.as_secs() {
        s if s >= 86_400 => format!("{}d {:02}h", s / 86_400, s / 3600 % 24),
        s if s >= 100 => units::show(time),
        s if s >= 10 => format!("{s} s"),
        s if s >= 1 => format!("{:.1} s", time.as_secs_f64()),
        _ => format!("{} ms", time.as_millis()),
    }
}

/// A time relative to `now`: in the past or in the future.
pub(super) fn relative(at: Millis, now: Millis) -> String {
    if at > now {
        format!("in {}", span(between(now, at)))
    } else {
        format!("{} ago", span(between(at, now)))
    }
}

/// A time in UTC: `2026-01-31 23:59:59Z`.
pub(super) fn date(at: Millis) -> String {
    let seconds = at.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date of a day number, counted from 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // Let years begin in March, so that the leap day is the last day of a year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// A size such as `1.2 MiB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Untrusted text in one line, without control characters.
pub(super) fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `text` in at most `width` columns. Only the end of a longer text is shown, because the end of an
/// address names the database.
pub(super) fn end_within(text: &str, width: usize) -> String {
    let excess = text.chars().count().saturating_sub(width);
    if excess == 0 {
        return text.to_owned();
    }
    let end: String = text.chars().skip(excess + 1).collect();
    format!("…{end}")
}

/// A label and its text, wrapped beside it.
pub(super) fn labelled(label: &str, value: &str, screen: &Screen) -> String {
    const COLUMN: usize = 12;
    let text = wrapped(value, screen.width.max(40), &" ".repeat(COLUMN + 2));
    let label = format!("  {label:<COLUMN$}");
    format!(
        "{}{}",
        screen.paint(Colour::Faint, label),
        text.strip_prefix(&" ".repeat(COLUMN + 2)).unwrap_or("\n")
    )
}

pub(super) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Open => "open",
        Mode::Paused => "paused",
        Mode::Closed => "closed",
    }
}

pub(super) fn state(state: State, screen: &Screen) -> String {
    let colour = match state {
        State::Ready | State::Delayed => return state.name().to_owned(),
        State::Running => Colour::Cyan,
        State::Succeeded => Colour::Green,
        State::Dead => Colour::Red,
        State::Cancelled => Colour::Yellow,
    };
    screen.paint(colour, state.name()).to_string()
}

/// A count, highlighted unless it is zero.
fn alarming(count: u64, screen: &Screen) -> String {
    let text = units::show_count(count);
    if count == 0 { text } else { screen.paint(Colour::Red, text).to_string() }
}

fn mode(stats: &QueueStats, screen: &Screen) -> String {
    let name = mode_name(stats.mode);
    if stats.mode == Mode::Open { name.to_owned() } else { screen.paint(Colour::Yellow, name).to_string() }
}

/// State of each queue, with its rates if they are known.
pub(super) fn queue_table(queues: &[QueueStats], rates: Option<&[Rates]>, screen: &Screen) -> String {
    let mut headers = vec![("queue", Align::Left), ("mode", Align::Left)];
    headers.extend(["ready", "delayed", "running", "dead", "oldest"].map(|name| (name, Align::Right)));
    if rates.is_some() {
        headers.extend([("in/s", Align::Right), ("out/s", Align::Right)]);
    }
    let mut table = Table::new(headers);
    for (at, stats) in queues.iter().enumerate() {
        let mut row = vec![one_line(&stats.queue), mode(stats, screen)];
        row.extend([stats.ready, stats.delayed, stats.running].map(units::show_count));
        row.push(alarming(stats.dead, screen));
        row.push(stats.oldest_ready.map_or_else(|| "-".to_owned(), span));
        if let Some(rates) = rates.and_then(|rates| rates.get(at)) {
            row.extend([rates.accepted, rates.ended].map(Rates::show));
        }
        table.row(row);
    }
    table.draw_within("", screen.width)
}

/// The rates of a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    /// Tasks accepted per second.
    pub(super) accepted: f64,
    /// Tasks ended per second.
    pub(super) ended: f64,
}

impl Rates {
    fn show(rate: f64) -> String {
        if rate < 99.95 { format!("{rate:.1}") } else { units::show_count(rate.round() as u64) }
    }
}

/// A worker that did not announce itself for longer than this may be gone.
const SILENT_MS: Millis = 60_000;

/// Returns true if the worker announced itself within the last minute.
pub(super) fn is_alive(worker: &WorkerRow) -> bool {
    now().saturating_sub(worker.seen) <= SILENT_MS
}

/// The problems that need attention, one sentence each.
pub(super) fn attention(queues: &[QueueStats], workers: &[WorkerRow]) -> Vec<String> {
    let sentences = queues.iter().flat_map(|stats| {
        let queue = one_line(&stats.queue);
        let sentences =
            [mode_trouble(stats), dead_trouble(stats), wait_trouble(stats, workers), full_trouble(stats)];
        sentences.into_iter().flatten().map(move |text| format!("{queue}: {text}"))
    });
    sentences.collect()
}

fn mode_trouble(stats: &QueueStats) -> Option<String> {
    (stats.mode != Mode::Open).then(|| format!("the queue is {}; `resume` opens it", mode_name(stats.mode)))
}

fn dead_trouble(stats: &QueueStats) -> Option<String> {
    (stats.dead > 0).then(|| format!("{}; see `dead list`", counted(stats.dead, "dead letter")))
}

fn wait_trouble(stats: &QueueStats, workers: &[WorkerRow]) -> Option<String> {
    let mut alive = workers.iter().filter(|row| row.queue == stats.queue && is_alive(row)).peekable();
    let waits = stats.ready + stats.delayed + stats.running > 0;
    if waits && alive.peek().is_none() {
        return Some("tasks wait, but no worker was seen in the last minute".to_owned());
    }
    if waits && alive.all(|row| row.draining) {
        return Some("tasks wait, but every worker is draining".to_owned());
    }
    let age = stats.oldest_ready.filter(|age| *age > OLD && stats.mode != Mode::Paused)?;
    Some(format!("the oldest ready task has waited {}; add workers or threads", span(age)))
}

fn full_trouble(stats: &QueueStats) -> Option<String> {
    let is_full = stats.capacity.is_some_and(|capacity| stats.ready + stats.delayed >= capacity);
    is_full.then(|| "the queue is full: submits are refused or wait".to_owned())
}

/// `1 dead letter`, `2 dead letters`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", units::show_count(count), if count == 1 { "" } else { "s" })
}

/// The figures of a queue. Times are in milliseconds, as everywhere in the JSON. Leaves out the
/// counters of this process, which ends no tasks.
pub(super) fn queue_json(stats: &QueueStats) -> Value {
    let mut value = json!(stats);
    if let Some(object) = value.as_object_mut() {
        object.remove("oldest_ready");
        object.remove("ended_here");
        object.insert("ended".to_owned(), json!(stats.ended()));
        object.insert(
            "oldest_ready_ms".to_owned(),
            json!(stats.oldest_ready.map(|age| age.as_millis() as u64)),
        );
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_use_the_unit_that_suits() {
        for (millis, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1500, "1.5 s"),
            (59_900, "59 s"),
            (125_000, "2m05s"),
            (3_600_000 * 3, "3h00m"),
            (86_400_000 * 4 + 7_200_000, "4d 02h"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn sizes_use_the_unit_that_suits() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (256 << 20, "256.0 MiB")] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_709_251_199, "2024-02-29 23:59:59Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
            (-1, "1969-12-31 23:59:59Z"),
        ] {
            assert_eq!(date(seconds * 1000), text);
        }
    }

    #[test]
    fn a_long_text_is_cut_at_its_beginning() {
        assert_eq!(end_within("sqlite:jobs.db", 14), "sqlite:jobs.db");
        assert_eq!(end_within("sqlite:jobs.db", 8), "…jobs.db");
        assert_eq!(end_within("sqlite:tâches.db", 9), "…âches.db");
    }

    #[test]
    fn text_of_others_cannot_move_the_cursor() {
        assert_eq!(one_line("disk\n\x1b[2Jfull\t!"), "disk [2Jfull !");
    }
}
