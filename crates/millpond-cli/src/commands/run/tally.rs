//! Counts what became of the jobs, and tells it at the end: in a line for people, and in the exit status.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stop::Reason;

/// So many failed jobs are told by number.
const NAMED: usize = 5;

/// What became of the jobs so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    finished: u64,
    failed: u64,
    /// The first few of those.
    failures: Vec<(u64, String)>,
    /// Taken in and not run, or ended by us before they were done.
    never_run: u64,
    /// Other than the log says.
    different: u64,
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a job that was run. Gives how many have finished, and failed, with it.
    pub(super) fn finished(&self, number: u64, failure: Option<&str>) -> (u64, u64) {
        let mut counts = self.lock();
        counts.finished += 1;
        if let Some(failure) = failure {
            counts.failed += 1;
            if counts.failures.len() < NAMED {
                counts.failures.push((number, failure.to_owned()));
            }
        }
        (counts.finished, counts.failed)
    }

    pub(super) fn never_run(&self) {
        self.lock().never_run += 1;
    }

    pub(super) fn different(&self) {
        self.lock().different += 1;
    }

    /// What there is to say at the end; nothing, if all is well.
    pub(super) fn summary(&self, reason: Option<&Reason>, all_taken: bool, logs: bool) -> Vec<String> {
        let counts = self.lock();
        let mut lines = Vec::new();
        if let Some(Reason::Trouble { message, .. }) = reason {
            lines.push(message.clone());
        }
        if counts.different > 0 {
            let again = if counts.different == 1 { "it was" } else { "they were" };
            lines.push(format!(
                "{} had another command in the job log, so {again} run; has the input changed?",
                jobs(counts.different)
            ));
        }
        if counts.failed > 0 {
            lines.push(counts.failures_line());
        }
        let left = format!("{} finished, {} not", counts.finished, counts.never_run);
        let hint = if logs { "; --resume runs the rest" } else { "" };
        match reason {
            Some(Reason::Halt) => lines.push(format!("ended by --halt: {left}, and no more was read{hint}")),
            Some(Reason::Signal(_)) if !counts.are_complete(all_taken) => {
                lines.push(format!("ended by a signal: {left}{hint}"));
            }
            Some(Reason::Signal(_) | Reason::Trouble { .. } | Reason::ReaderGone) | None => {}
        }
        lines
    }
}

impl Counts {
    /// All was done. A signal that kept nothing from being done has not ended anything.
    fn are_complete(&self, all_taken: bool) -> bool {
        all_taken && self.never_run == 0
    }

    fn failures_line(&self) -> String {
        let named: Vec<String> =
            self.failures.iter().map(|(number, failure)| format!("{number} ({failure})")).collect();
        let more = match self.failed - self.failures.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} of {} failed: {}{more}", self.failed, jobs(self.finished), named.join(", "))
    }
}

fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

/// The exit status. The help text and docs/run.md have the same list.
pub(super) fn status(reason: Option<Reason>, all_taken: bool, tally: &Tally) -> u8 {
    let counts = tally.lock();
    match reason {
        Some(Reason::Trouble { status, .. }) => status,
        Some(Reason::Signal(signal)) if !counts.are_complete(all_taken) => {
            128 + u8::try_from(signal).unwrap_or(0)
        }
        Some(Reason::Halt) => status::HALTED,
        Some(Reason::Signal(_) | Reason::ReaderGone) | None => {
            u8::try_from(counts.failed).unwrap_or(u8::MAX).min(status::MANY_FAILED)
        }
    }
}

/// Exit statuses that are not the number of failed jobs.
pub(super) mod status {
    /// So many, or more.
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
        for number in 1..=failed {
            tally.finished(number, Some("exit 1"));
        }
        tally.finished(failed + 1, None);
        tally
    }

    #[test]
    fn the_status_is_the_number_of_failed_jobs_up_to_a_hundred() {
        for (failed, expected) in
            [(0, 0), (1, 1), (7, 7), (99, 99), (100, 100), (101, 100), (256, 100), (1000, 100)]
        {
            assert_eq!(status(None, true, &tally(failed)), expected);
        }
    }

    #[test]
    fn a_signal_is_told_only_if_something_was_left_undone() {
        let interrupt = || Some(Reason::Signal(2));
        assert_eq!(status(interrupt(), false, &tally(0)), 130);
        assert_eq!(status(interrupt(), true, &tally(3)), 3);
        let left = tally(0);
        left.never_run();
        assert_eq!(status(interrupt(), true, &left), 130);
        assert_eq!(left.summary(interrupt().as_ref(), true, false), ["ended by a signal: 1 finished, 1 not"]);
        assert_eq!(tally(0).summary(interrupt().as_ref(), true, false), Vec::<String>::new());
    }

    #[test]
    fn a_few_failures_are_named_and_the_rest_counted() {
        assert_eq!(tally(2).summary(None, true, false), ["2 of 3 jobs failed: 1 (exit 1), 2 (exit 1)"]);
        let many = tally(9).summary(None, true, false);
        assert!(
            many[0].starts_with("9 of 10 jobs failed: 1 (exit 1)") && many[0].ends_with("and 4 more"),
            "{many:?}"
        );
        assert_eq!(tally(0).summary(None, true, false), Vec::<String>::new());
    }
}
