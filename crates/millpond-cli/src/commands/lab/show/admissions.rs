//! The table of admissions: what the pool did with each task.

use std::time::Duration;

use super::super::record::{How, Record, TaskRecord, percentile};
use super::{count, palette};
use crate::picture::{Align, Table};
use crate::term::Screen;
use crate::units;

/// Longer tables are summarised.
const MOST_ROWS: usize = 16;
/// A longer bar of places is replaced by a number.
const MOST_PLACES: usize = 8;

/// The table: a row per task, or per run of consecutive tasks with the same admission, or, if that
/// is still too long, per kind of admission. `None` if there are no tasks.
pub(super) fn table(record: &Record, screen: &Screen) -> Option<Table> {
    let rows: Vec<&[TaskRecord]> = if record.tasks.len() <= MOST_ROWS {
        record.tasks.chunks(1).collect()
    } else {
        record.tasks.chunk_by(fared_alike).collect()
    };
    match rows.len() {
        0 => None,
        1..=MOST_ROWS => Some(by_task(rows, record, screen)),
        _ => Some(by_kind(record, screen)),
    }
}

fn by_task(rows: Vec<&[TaskRecord]>, record: &Record, screen: &Screen) -> Table {
    let mut table = Table::new([
        ("task", Align::Left),
        ("admission", Align::Left),
        ("threads", Align::Left),
        ("queue", Align::Left),
        ("waited", Align::Right),
        ("ran on", Align::Left),
    ]);
    let mut first = 1;
    for tasks in rows {
        table.row(row(first, tasks, record, screen));
        first += tasks.len();
    }
    table
}

fn by_kind(record: &Record, screen: &Screen) -> Table {
    let mut table = Table::new([
        ("admission", Align::Left),
        ("tasks", Align::Right),
        ("share", Align::Right),
        ("wait p50", Align::Right),
        ("wait p99", Align::Right),
    ]);
    for how in How::ALL {
        let count = record.count(how);
        if count == 0 {
            continue;
        }
        let mut waits: Vec<Duration> =
            record.tasks.iter().filter(|task| task.how == how).filter_map(TaskRecord::wait).collect();
        waits.sort_unstable();
        let wait = |share| match waits.as_slice() {
            [] => "-".to_owned(),
            waits => units::show(percentile(waits, share)),
        };
        table.row([
            screen.paint(palette::terminal(how), how.name()).to_string(),
            units::show_count(count as u64),
            format!("{:.1}%", 100.0 * count as f64 / record.tasks.len() as f64),
            wait(0.5),
            wait(0.99),
        ]);
    }
    table
}

fn fared_alike(one: &TaskRecord, next: &TaskRecord) -> bool {
    let key =
        |task: &TaskRecord| (task.how, task.runs.is_empty(), task.blocked.is_some(), task.was_discarded());
    key(one) == key(next)
}

/// A row for consecutive tasks, of which the first has this number. Several tasks are named by
/// number, because they may share a name.
fn row(number: usize, tasks: &[TaskRecord], record: &Record, screen: &Screen) -> [String; 6] {
    let (first, last) = (&tasks[0], &tasks[tasks.len() - 1]);
    let label = match tasks.len() {
        1 => first.label.clone(),
        several => format!("{number}-{}", number + several - 1),
    };
    let waits = || tasks.iter().filter_map(TaskRecord::wait);
    let waited = match (waits().min(), waits().max()) {
        (Some(_), Some(most)) if tasks.len() == 1 => units::show(most),
        (Some(_), Some(most)) => format!("up to {}", units::show(most)),
        _ => "-".to_owned(),
    };
    [
        label,
        screen.paint(palette::terminal(first.how), admission(tasks, record.caller)).to_string(),
        places(last.threads_after, record.peak_threads, '█'),
        match record.queue_capacity {
            Some(0) => "-".to_owned(),
            Some(capacity) => places(last.queued_after, capacity, '▒'),
            None => last.queued_after.to_string(),
        },
        waited,
        ran_on(tasks),
    ]
}

/// How the pool admitted tasks with the same admission, and their outcome if it is not obvious.
fn admission(tasks: &[TaskRecord], caller: &str) -> String {
    let task = &tasks[0];
    let mut text = task.how.name().to_owned();
    if let Some(blocked) = tasks.iter().filter_map(|task| task.blocked).max() {
        let up_to = if tasks.len() > 1 { "up to " } else { "" };
        text.push_str(&format!(", {caller} waited {up_to}{}", units::show(blocked)));
    }
    if tasks.len() > 1 && task.was_discarded() && task.how != How::Discarded {
        text.push_str(", discarded for others");
    } else if let Some(other) = task.gone.as_ref().and_then(|gone| gone.in_favour_of.as_ref()) {
        text.push_str(&format!(", discarded for {other}"));
    } else if task.how == How::Queued && task.gone.is_some() {
        text.push_str(", handed back");
    }
    text
}

fn ran_on(tasks: &[TaskRecord]) -> String {
    let mut names: Vec<&str> =
        tasks.iter().flat_map(|task| &task.runs).map(|run| run.thread.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => "-".to_owned(),
        [only] => (*only).to_owned(),
        several => count(several.len(), "thread"),
    }
}

/// `used` of `all` places as marks, the rest as dots; a number if there are too many.
fn places(used: usize, all: usize, mark: char) -> String {
    if all > MOST_PLACES || used > all {
        return used.to_string();
    }
    (0..all).map(|place| if place < used { mark } else { '·' }).collect()
}

/// The number of tasks per kind of admission: `2 new core threads, 4 queued, 1 rejected`.
pub(super) fn totals(record: &Record) -> String {
    let told = How::ALL.into_iter().filter_map(|how| match record.count(how) {
        0 => None,
        n => Some(format!("{} {}", units::show_count(n as u64), plural(how, n))),
    });
    let mut text = told.collect::<Vec<_>>().join(", ");
    let blocked = record.tasks.iter().filter(|task| task.blocked.is_some()).count();
    if blocked > 0 {
        text.push_str(&format!("; the {} had to wait for {blocked} of them", record.caller));
    }
    if text.is_empty() { "no tasks".to_owned() } else { text }
}

fn plural(how: How, n: usize) -> String {
    let name = how.name();
    if n > 1 && name.ends_with("thread") { format!("{name}s") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::lab::record::{CALLER, Ended, Ending, RunRecord};

    const PLAIN: Screen = Screen { is_terminal: false, width: 80, colours: false };

    fn task(number: usize, how: How) -> TaskRecord {
        let (begin, end) = (Duration::from_millis(5), Duration::from_millis(9));
        let run = RunRecord { thread: "thread-1".to_owned(), begin, end, ended: Ended::Returned };
        TaskRecord {
            label: number.to_string(),
            arrived: Duration::ZERO,
            entered: Duration::ZERO,
            how,
            threads_after: 1,
            queued_after: 1,
            blocked: None,
            runs: if how == How::Rejected { Vec::new() } else { vec![run] },
            gone: None,
            error: None,
            series: false,
        }
    }

    fn record(tasks: Vec<TaskRecord>) -> Record {
        Record {
            title: String::new(),
            says: None,
            group: None,
            pool: String::new(),
            queue_capacity: Some(1),
            core_threads: None,
            max_threads: None,
            speed: 1.0,
            caller: CALLER,
            tasks,
            threads: Vec::new(),
            steps: Vec::new(),
            notes: Vec::new(),
            ending: Ending {
                outcome: millpond::ShutdownOutcome::Drained,
                elapsed: Duration::ZERO,
                never_run: Vec::new(),
                asked_for: false,
            },
            threads_at_end: 1,
            peak_threads: 1,
            end: Duration::from_millis(9),
            unmet: Vec::new(),
            expected: 0,
        }
    }

    fn drawn(tasks: impl IntoIterator<Item = How>) -> String {
        let tasks = (1..).zip(tasks).map(|(number, how)| task(number, how)).collect();
        table(&record(tasks), &PLAIN).expect("there are tasks").draw("")
    }

    #[test]
    fn a_row_for_each_task_or_for_those_that_fared_alike_or_for_each_kind() {
        let few = drawn([How::CoreThread, How::Queued, How::Rejected]);
        assert_eq!(few.lines().count(), 2 + 3, "{few}");
        let alike = drawn([How::CoreThread].into_iter().chain([How::Queued; 30]));
        assert_eq!(alike.lines().count(), 2 + 2, "{alike}");
        assert!(alike.contains("2-31  queued"), "{alike}");
        let mixed = drawn([How::Queued, How::Rejected].into_iter().cycle().take(40));
        assert_eq!(
            mixed,
            "admission  tasks  share  wait p50  wait p99\n\
             ─────────  ─────  ─────  ────────  ────────\n\
             queued        20  50.0%   5.00 ms   5.00 ms\n\
             rejected      20  50.0%         -         -\n"
        );
        assert!(table(&record(Vec::new()), &PLAIN).is_none());
    }
}
