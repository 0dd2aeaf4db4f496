//! How the demonstration looks: plain text, at most 80 columns. Shows what was seen and decides nothing.

use std::fmt::{self, Write};
use std::time::Duration;

use millpond::ShutdownOutcome;

use super::demo::{Admission, CORE, How, KEEP_ALIVE, MAXIMUM, QUEUE, Run, Seen, TASKS};

/// Columns of the whole.
const WIDTH: usize = 80;
/// Columns for the time line.
const SCALE_WIDTH: usize = 48;

pub(crate) fn draw(seen: &Seen) -> String {
    let mut text = String::new();
    write_all(&mut text, seen).expect("a String takes everything");
    text
}

fn write_all(out: &mut String, seen: &Seen) -> fmt::Result {
    writeln!(out, "How a pool grows: core {CORE}, maximum {MAXIMUM}, a queue of {QUEUE}, {TASKS} tasks.")?;
    writeln!(out, "All tasks are handed in before the first can finish: they wait at a gate.")?;
    writeln!(out)?;
    table(out, seen)?;
    writeln!(out)?;
    totals(out, seen)?;
    writeln!(out)?;
    timeline(out, seen)?;
    writeln!(out)?;
    life(out, seen)
}

/// One line per task: how it came in, what the pool looked like then, and who ran it.
fn table(out: &mut String, seen: &Seen) -> fmt::Result {
    writeln!(out, "task  the pool gave it   threads  queue  ran on")?;
    writeln!(out, "----  -----------------  -------  -----  ------")?;
    for admission in &seen.admissions {
        let Admission { task, how, threads, queued } = *admission;
        let threads = bar(threads, MAXIMUM, '█');
        let queue = bar(queued, QUEUE, '▒');
        let ran_on = seen.runs.iter().find(|run| run.task == task).map_or("-", |run| &run.thread);
        writeln!(out, "{task:>4}  {:<17}  {threads:<7}  {queue:<5}  {ran_on}", name_of(how))?;
    }
    Ok(())
}

fn name_of(how: How) -> &'static str {
    match how {
        How::CoreThread => "a new core thread",
        How::Queued => "a queue place",
        How::ExtraThread => "an extra thread",
        How::Rejected => "a rejection",
    }
}

/// `used` of `all` places, the rest as dots.
fn bar(used: usize, all: usize, mark: char) -> String {
    (0..all).map(|place| if place < used { mark } else { '·' }).collect()
}

fn totals(out: &mut String, seen: &Seen) -> fmt::Result {
    let count = |how| seen.admissions.iter().filter(|admission| admission.how == how).count();
    writeln!(
        out,
        "{} core threads, {} queued, {} extra threads, {} rejected; {} tasks ran.",
        count(How::CoreThread),
        count(How::Queued),
        count(How::ExtraThread),
        count(How::Rejected),
        seen.runs.len()
    )?;
    if let Some(error) = &seen.rejection {
        writeln!(out, "What the caller was told, with the task in the error to try again:")?;
        wrapped(out, "  ", error, ", ")?;
    }
    Ok(())
}

/// One line per thread: its tasks, drawn by their number over the time they took, and when it left.
fn timeline(out: &mut String, seen: &Seen) -> fmt::Result {
    let last_run = seen.runs.iter().map(|run| run.end);
    let end = last_run.chain(seen.departures.iter().map(|(_, at)| *at)).max().unwrap_or_default();
    let scale = Scale::up_to(end);
    writeln!(out, "The gate opens. Which thread ran which task, over time; x: the thread left.")?;
    for thread in threads(seen) {
        let mut line = [' '; SCALE_WIDTH];
        let runs: Vec<&Run> = seen.runs.iter().filter(|run| run.thread == thread).collect();
        for run in &runs {
            let columns = scale.column(run.begin)..scale.column(run.end).max(scale.column(run.begin) + 1);
            line[columns].fill(digit(run.task));
        }
        if let Some((_, at)) = seen.departures.iter().find(|(name, _)| name == thread) {
            line[scale.column(*at)] = 'x';
        }
        let order: Vec<String> = runs.iter().map(|run| run.task.to_string()).collect();
        let line: String = line.iter().collect();
        writeln!(out, "  {thread:<7} |{line}| {}", order.join(" then "))?;
    }
    let (zero, last) = ("0", format!("{} ms", end.as_millis()));
    writeln!(out, "          {zero}{last:>width$}", width = SCALE_WIDTH)
}

/// The threads that ran something, in the order of their names.
fn threads(seen: &Seen) -> Vec<&str> {
    let mut names: Vec<&str> = seen.runs.iter().map(|run| run.thread.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn digit(task: usize) -> char {
    char::from_digit((task % 10) as u32, 10).expect("below ten")
}

/// Turns a time into a column.
struct Scale {
    end: Duration,
}

impl Scale {
    fn up_to(end: Duration) -> Scale {
        Scale { end: end.max(Duration::from_millis(1)) }
    }

    fn column(&self, at: Duration) -> usize {
        let part = at.as_secs_f64() / self.end.as_secs_f64();
        ((part * SCALE_WIDTH as f64) as usize).min(SCALE_WIDTH - 1)
    }
}

/// What the pool says of itself, and how it ended.
fn life(out: &mut String, seen: &Seen) -> fmt::Result {
    writeln!(out, "What the pool says of itself:")?;
    for (moment, line) in &seen.lines {
        writeln!(out, "  {moment}")?;
        wrapped(out, "    ", line, ", ")?;
    }
    writeln!(out)?;
    let idle: Vec<&str> = seen.departures[..seen.left_idle].iter().map(|(name, _)| name.as_str()).collect();
    let ending = &seen.ending;
    let outcome = match ending.outcome {
        ShutdownOutcome::Drained => "all that was accepted had run",
        ShutdownOutcome::Interrupted => "running tasks had to be interrupted",
        ShutdownOutcome::StillRunning => "some task still runs",
    };
    let story = format!(
        "Above its core size a pool keeps no idle thread for long: {} left after {} ms without work (which \
         ones is chance). The others stayed until the graceful shutdown, which took {:.1} ms: {outcome}, {} \
         tasks came back unrun.",
        idle.join(" and "),
        KEEP_ALIVE.as_millis(),
        ending.elapsed.as_secs_f64() * 1000.0,
        ending.never_run,
    );
    wrapped(out, "", &story, " ")
}

/// Writes `text` in lines of at most [`WIDTH`] columns, broken after `separator`. Each begins with `indent`, and all
/// but the first with two columns more if there is any.
fn wrapped(out: &mut String, indent: &str, text: &str, separator: &str) -> fmt::Result {
    let hanging = if indent.is_empty() { String::new() } else { format!("{indent}  ") };
    let mut line = String::new();
    for piece in text.split_inclusive(separator) {
        let columns = line.chars().count() + piece.trim_end().chars().count();
        if line.is_empty() {
            line.push_str(indent);
        } else if columns > WIDTH {
            writeln!(out, "{}", line.trim_end())?;
            line.clone_from(&hanging);
        }
        line.push_str(piece);
    }
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_at_spaces_and_short_text_is_not() {
        let mut out = String::new();
        wrapped(&mut out, "  ", "a few words", " ").unwrap();
        assert_eq!(out, "  a few words\n");

        let long = ["word"; 40].join(" ");
        out.clear();
        wrapped(&mut out, "  ", &long, " ").unwrap();
        assert!(out.lines().all(|line| line.chars().count() <= WIDTH), "{out}");
        assert!(out.lines().skip(1).all(|line| line.starts_with("    word")), "{out}");
        assert_eq!(out.split_whitespace().collect::<Vec<_>>().join(" "), long);
    }

    #[test]
    fn a_bar_shows_the_used_places_and_the_free_ones() {
        assert_eq!(bar(0, 4, '#'), "····");
        assert_eq!(bar(3, 4, '#'), "###·");
    }

    #[test]
    fn the_scale_keeps_every_time_on_the_line() {
        let scale = Scale::up_to(Duration::from_millis(100));
        assert_eq!(scale.column(Duration::ZERO), 0);
        assert_eq!(scale.column(Duration::from_millis(50)), SCALE_WIDTH / 2);
        assert_eq!(scale.column(Duration::from_millis(100)), SCALE_WIDTH - 1);
        assert_eq!(Scale::up_to(Duration::ZERO).column(Duration::ZERO), 0);
    }
}
