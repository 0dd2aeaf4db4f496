//! Counts jobs, and reports them at the end: in the summary, and in the exit status.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stop::Reason;

/// The number of failed jobs that are named at the end.
const NAMED: usize = 10;

/// The longest name of a job, in characters.
const LONGEST_NAME: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    finished: u64,
    failed: u64,
    /// The first few failures.
    failures: Vec<Failure>,
    /// Read but not run, or ended by this command before they finished.
    not_run: u64,
}

/// A failed job, for the summary.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) number: u64,
    /// The argument, quoted for a shell.
    pub(super) name: String,
    /// Such as `exit 1`.
    pub(super) outcome: String,
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a finished job. Returns the numbers of finished and failed jobs so far.
    pub(super) fn finished(&self, failure: Option<Failure>) -> (u64, u64) {
        let mut counts = self.lock();
        counts.finished += 1;
        if let Some(failure) = failure {
            counts.failed += 1;
            if counts.failures.len() < NAMED {
                counts.failures.push(failure);
            }
        }
        (counts.finished, counts.failed)
    }

    pub(super) fn not_run(&self) {
        self.lock().not_run += 1;
    }

    /// The numbers of finished and failed jobs so far.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let counts = self.lock();
        (counts.finished, counts.failed)
    }

    /// The lines to print at the end; none if all jobs succeeded.
    pub(super) fn summary(&self, reason: Option<&Reason>, all_read: bool, has_log: bool) -> Vec<String> {
        let mut counts = self.lock();
        let mut lines = Vec::new();
        if let Some(Reason::Trouble { message, .. }) = reason {
            lines.push(message.clone());
        }
        lines.extend(counts.failure_lines(has_log));
        let cause = match reason {
            Some(Reason::Halt) => "ended by --halt".to_owned(),
            Some(Reason::Signal(signal)) => {
                let name = signal_hook::low_level::signal_name(*signal).unwrap_or("a signal");
                format!("ended by {name}")
            }
            Some(Reason::Trouble { .. } | Reason::ReaderGone) | None => return lines,
        };
        let rest = if all_read { "" } else { ", and the rest of the input was not read" };
        let hint = if has_log { "; --resume runs the rest" } else { "" };
        lines.push(format!(
            "{cause}: {} finished, {} did not{rest}{hint}",
            jobs(counts.finished),
            counts.not_run
        ));
        lines
    }
}

impl Counts {
    fn failure_lines(&mut self, has_log: bool) -> Vec<String> {
        if self.failed == 0 {
            return Vec::new();
        }
        self.failures.sort_by_key(|failure| failure.number);
        let named = self.failures.iter();
        let mut lines: Vec<String> = named
            .map(|failure| format!("failed: {} ({})", shorten(&failure.name), failure.outcome))
            .collect();
        let more = match (self.failed - lines.len() as u64, has_log) {
            (0, _) => String::new(),
            (more, true) => format!("; {more} are not listed here, but in the job log"),
            (more, false) => format!("; {more} are not listed, --joblog FILE lists all"),
        };
        lines.push(format!("{} of {} failed{more}", self.failed, jobs(self.finished)));
        lines
    }
}

fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

fn shorten(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

/// The exit status. The help text and docs/run.md have the same list.
pub(super) fn status(reason: Option<Reason>, tally: &Tally) -> u8 {
    match reason {
        Some(Reason::Trouble { status, .. }) => status,
        Some(Reason::Signal(signal)) => 128 + u8::try_from(signal).unwrap_or(0),
        Some(Reason::Halt) => status::HALTED,
        Some(Reason::ReaderGone) | None => {
            u8::try_from(tally.lock().failed).unwrap_or(u8::MAX).min(status::MANY_FAILED)
        }
    }
}

/// Exit statuses other than the number of failed jobs.
pub(super) mod status {
    /// This many jobs, or more, failed.
    pub(in super::super) const MANY_FAILED: u8 = 100;
    pub(in super::super) const HALTED: u8 = 101;
    pub(in super::super) const TROUBLE: u8 = 102;
    pub(in super::super) const NOT_EXECUTABLE: u8 = 126;
    pub(in super::super) const NOT_FOUND: u8 = 127;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(failed: u64) -> Tally {
        let tally = Tally::default();
        for number in (1..=failed).rev() {
            let failure = Failure { number, name: format!("'a {number}'"), outcome: "exit 1".to_owned() };
            tally.finished(Some(failure));
        }
        tally.finished(None);
        tally
    }

    #[test]
    fn the_status_is_the_number_of_failed_jobs_up_to_a_hundred() {
        for (failed, expected) in
            [(0, 0), (1, 1), (7, 7), (99, 99), (100, 100), (101, 100), (256, 100), (1000, 100)]
        {
            assert_eq!(status(None, &tally(failed)), expected);
        }
    }

    #[test]
    fn a_signal_decides_the_status_and_is_named() {
        let interrupt = Some(Reason::Signal(2));
        let tally = tally(0);
        tally.not_run();
        assert_eq!(status(interrupt.clone(), &tally), 130);
        assert_eq!(
            tally.summary(interrupt.as_ref(), true, false),
            ["ended by SIGINT: 1 job finished, 1 did not"]
        );
        assert_eq!(
            tally.summary(interrupt.as_ref(), false, true),
            [
                "ended by SIGINT: 1 job finished, 1 did not, and the rest of the input was not read; --resume runs \
              the rest"
            ]
        );
    }

    #[test]
    fn failures_are_named_by_argument_in_the_order_of_the_input() {
        let expected = ["failed: 'a 1' (exit 1)", "failed: 'a 2' (exit 1)", "2 of 3 jobs failed"];
        assert_eq!(tally(2).summary(None, true, false), expected);
        assert_eq!(tally(0).summary(None, true, false), Vec::<String>::new());
        let many = tally(13).summary(None, true, false);
        assert_eq!(many.len(), NAMED + 1);
        assert_eq!(many[NAMED], "13 of 14 jobs failed; 3 are not listed, --joblog FILE lists all");
    }

    #[test]
    fn a_long_name_is_cut() {
        let name = "é".repeat(LONGEST_NAME + 1);
        assert_eq!(shorten(&name), format!("{}...", "é".repeat(LONGEST_NAME)));
        assert_eq!(shorten("short"), "short");
    }
}
