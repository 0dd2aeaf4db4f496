//! The test whether the process may use more than one core, repeated every few seconds.
//!
//! The affinity mask and the CPU quota of a process may change while it runs. All accesses are
//! Relaxed: an outdated answer only costs time.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use crate::sync::OnceLock;

const UNKNOWN: u8 = 0;
const ONE: u8 = 1;
const SEVERAL: u8 = 2;

/// [`UNKNOWN`], [`ONE`] or [`SEVERAL`].
static CORES: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Returns true if another thread can run while this one spins.
pub(super) fn has_other_core() -> bool {
    match CORES.load(Ordering::Relaxed) {
        UNKNOWN => {
            let several = ask_system();
            CORES.store(if several { SEVERAL } else { ONE }, Ordering::Relaxed);
            several
        }
        cores => cores == SEVERAL,
    }
}

/// Queries the system. This takes tens of microseconds, because it reads the files of the control
/// group.
fn ask_system() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Queries the number of cores again if the last result is old. Called by a thread that is about to
/// park, so the delay does not matter.
pub(super) fn refresh_core_count(now: Instant) {
    static REFRESH: Refresh = Refresh::new();
    static START: OnceLock<Instant> = OnceLock::new();
    let second = now.saturating_duration_since(*START.get_or_init(|| now)).as_secs();
    if REFRESH.is_due(second) {
        let several = REFRESH.combine(second, ask_system());
        CORES.store(if several { SEVERAL } else { ONE }, Ordering::Relaxed);
    }
}

/// When the system was queried for the number of cores, in seconds.
#[derive(Debug)]
struct Refresh {
    asked: AtomicU64,
    /// When the result was last "more than one".
    several: AtomicU64,
}

impl Refresh {
    /// A result is valid for this many seconds.
    const GOOD_FOR: u64 = 3;
    /// The result applies to the calling thread, which may be pinned to one core. So "several"
    /// overrides results of "one" for this many seconds.
    const SEVERAL_FOR: u64 = 10;

    const fn new() -> Refresh {
        Refresh { asked: AtomicU64::new(0), several: AtomicU64::new(0) }
    }

    /// Returns true to one caller if the last result is too old.
    fn is_due(&self, second: u64) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        second >= asked + Self::GOOD_FOR
            && self.asked.compare_exchange(asked, second, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Combines this result with the earlier ones.
    fn combine(&self, second: u64, several: bool) -> bool {
        if several {
            self.several.store(second, Ordering::Relaxed);
        }
        several || second < self.several.load(Ordering::Relaxed) + Self::SEVERAL_FOR
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", not(miri)))]
    mod in_a_process_on_one_core {
        use std::env;
        use std::process::{self, Command};
        use std::time::{Duration, Instant};

        use super::super::has_other_core;
        use crate::sync::backoff::{AdaptiveBackoff, snooze};

        /// Passes the cores of the test to its child process.
        const CORES: &str = "MILLPOND_TEST_CORES";
        const LONG: Duration = Duration::from_secs(60);

        /// Returns the cores that this process may use, as `taskset` lists them.
        fn allowed_cores() -> Option<String> {
            let status = std::fs::read_to_string("/proc/self/status").ok()?;
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            Some(list.trim().to_owned())
        }

        /// Starts a child process on one core, which gets the other cores back later. Calls `wait`
        /// there until the child notices.
        fn assert_noticed_by(test: &str, wait: impl Fn()) {
            match env::var(CORES) {
                Ok(cores) => notices(&cores, wait),
                Err(_) => run_on_one_core(test),
            }
        }

        fn notices(cores: &str, wait: impl Fn()) {
            assert!(!has_other_core(), "this process begins on one core");
            let id = process::id().to_string();
            let widened = Command::new("taskset").args(["-a", "-p", "-c", cores, &id]).output().unwrap();
            assert!(widened.status.success(), "{widened:?}");
            let begin = Instant::now();
            while !has_other_core() {
                assert!(begin.elapsed() < LONG, "not noticed");
                wait();
            }
        }

        fn run_on_one_core(test: &str) {
            let Some(cores) = allowed_cores().filter(|_| super::ask_system()) else {
                return println!("SKIPPED: this process may use only one core");
            };
            let first = cores.split([',', '-']).next().unwrap_or(&cores);
            let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
            let mut child = Command::new("taskset");
            child.args(["-c", first]).arg(env::current_exe().unwrap()).args([
                &test,
                "--exact",
                "--nocapture",
            ]);
            let output = match child.env(CORES, &cores).output() {
                Ok(output) => output,
                Err(error) => return println!("SKIPPED: there is no taskset here: {error}"),
            };
            let out = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && out.contains("1 passed"), "{test}: {output:?}");
        }

        #[test]
        fn a_search_before_a_park_notices_another_core() {
            assert_noticed_by("a_search_before_a_park_notices_another_core", || {
                assert!(!snooze(|| false));
            });
        }

        #[test]
        fn a_wait_at_a_rendezvous_notices_another_core() {
            assert_noticed_by("a_wait_at_a_rendezvous_notices_another_core", || {
                AdaptiveBackoff::default().snooze(|| false, || 0);
            });
        }
    }

    #[test]
    fn the_number_of_cores_is_asked_again_every_few_seconds() {
        let refresh = Refresh::new();
        let asked: Vec<u64> = (0..12).filter(|second| refresh.is_due(*second)).collect();
        assert_eq!(asked, [3, 6, 9]);
    }

    #[test]
    fn a_pinned_thread_does_not_speak_for_the_process() {
        let refresh = Refresh::new();
        let answers = [(3, true), (6, false), (12, false), (13, false), (15, true), (18, false)];
        let believed = answers.map(|(second, several)| refresh.combine(second, several));
        assert_eq!(believed, [true, true, true, false, true, true]);
    }
}
