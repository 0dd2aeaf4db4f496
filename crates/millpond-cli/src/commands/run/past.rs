//! The jobs that an earlier run has done, according to its log. Needs a few bytes per job.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};

use super::joblog::{OK, escape};

/// The finished jobs by command, as a multiset: a command that occurs twice in the log is skipped
/// twice. The job number does not matter, so order and length of the input may change between runs.
#[derive(Debug, Default)]
pub(super) struct Past {
    jobs: HashMap<u64, Counts>,
    /// Failed jobs by number and command. `--resume-failed` repeats them under the same number if
    /// the input is unchanged; this does not count as another job.
    failures: HashSet<(u64, u64)>,
    /// How many jobs of this run were found in the log.
    matched: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    succeeded: u32,
    failed: u32,
}

impl Past {
    /// Adds a line of the log. Ignores a line that cannot be parsed, so its job runs again.
    pub(super) fn add(&mut self, line: &[u8]) {
        let Ok(line) = str::from_utf8(line) else { return };
        let mut fields = line.splitn(6, '\t');
        let (Some(number), Some(outcome), Some(command)) =
            (fields.next().and_then(|number| number.parse::<u64>().ok()), fields.nth(3), fields.next())
        else {
            return;
        };
        let key = hash(command);
        let counts = self.jobs.entry(key).or_default();
        if self.failures.remove(&(number, key)) {
            counts.failed -= 1;
        }
        if outcome == OK {
            counts.succeeded += 1;
        } else {
            counts.failed += 1;
            self.failures.insert((number, key));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether a job with this command may be skipped. Each finished job is used once.
    pub(super) fn take(&mut self, command: &[u8], only_succeeded: bool) -> bool {
        let Some(counts) = self.jobs.get_mut(&hash(&escape(command))) else { return false };
        self.matched += u64::from(counts.succeeded + counts.failed > 0);
        if counts.succeeded > 0 {
            counts.succeeded -= 1;
            return true;
        }
        if counts.failed > 0 {
            counts.failed -= 1;
            return !only_succeeded;
        }
        false
    }

    /// Whether the log has jobs, but none of this run.
    pub(super) fn matched_nothing(&self) -> bool {
        !self.is_empty() && self.matched == 0
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(lines: &[(u64, &str, &str)]) -> Past {
        let mut past = Past::default();
        for (number, outcome, command) in lines {
            past.add(format!("{number}\t1.0\t0.5\t1\t{outcome}\t{command}").as_bytes());
        }
        past
    }

    #[test]
    fn a_job_is_known_by_its_command_whatever_its_number() {
        let mut past = past(&[(1, OK, "echo a"), (2, OK, "echo b")]);
        assert!(past.take(b"echo b", false) && past.take(b"echo a", false));
        assert!(!past.take(b"echo c", false));
        assert!(!past.matched_nothing());
    }

    #[test]
    fn a_command_is_skipped_as_often_as_it_is_in_the_log() {
        let mut past = past(&[(1, OK, "true"), (2, OK, "true")]);
        assert_eq!([(); 3].map(|()| past.take(b"true", false)), [true, true, false]);
    }

    #[test]
    fn failures_are_skipped_unless_they_are_to_run_again() {
        let lines = [(1, "exit 1", "false"), (2, OK, "true")];
        assert!(past(&lines).take(b"false", false));
        assert!(!past(&lines).take(b"false", true));
        assert!(past(&lines).take(b"true", true));
    }

    #[test]
    fn a_repeated_failure_is_one_job() {
        let mut past = past(&[(1, "exit 1", "x"), (1, "exit 1", "x"), (1, OK, "x")]);
        assert_eq!([(); 2].map(|()| past.take(b"x", true)), [true, false]);
    }

    #[test]
    fn a_log_of_other_commands_is_noticed() {
        let mut past = past(&[(1, OK, "echo a")]);
        assert!(!past.take(b"echo x", false));
        assert!(past.matched_nothing());
        assert!(!Past::default().matched_nothing(), "an empty log has nothing to match");
    }
}
