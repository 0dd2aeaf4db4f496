//! A thread that asks the system to be woken in time.
//!
//! Linux ends a sleep up to 50 µs late, so that it can end several at once. To a pool that has one timer now and then that is
//! half of its lateness, and for nothing: the thread is woken once for each timer in either case. So who watches the time asks
//! for less, for as long as it sleeps: what it runs, and the threads that are started there, have the setting that they had.
//! Elsewhere, and where the system does not want to, nothing is asked.
//!
//! This file is one of the rooms with `unsafe`; its outside is safe.

use std::ffi::c_ulong;
use std::time::Duration;

/// As long as it is there, the sleeps of the calling thread end at most so much later than they should, as far as that is up to
/// the system.
#[must_use]
#[derive(Debug)]
pub(crate) struct Punctual {
    /// What it was before, if it is another now.
    before: Option<c_ulong>,
    /// It is the setting of one thread.
    _of_this_thread: std::marker::PhantomData<*const ()>,
}

impl Punctual {
    pub(crate) fn within(slack: Duration) -> Punctual {
        let nanos = c_ulong::try_from(slack.as_nanos()).unwrap_or(c_ulong::MAX).max(1);
        let before = system::slack().filter(|before| *before > nanos && system::set_slack(nanos));
        Punctual { before, _of_this_thread: std::marker::PhantomData }
    }
}

impl Drop for Punctual {
    fn drop(&mut self) {
        self.before.into_iter().for_each(|before| {
            system::set_slack(before);
        });
    }
}

#[cfg(all(target_os = "linux", not(loom), not(miri)))]
mod system {
    use std::ffi::{c_int, c_ulong};

    const PR_SET_TIMERSLACK: c_int = 29;
    const PR_GET_TIMERSLACK: c_int = 30;

    unsafe extern "C" {
        fn prctl(option: c_int, ...) -> c_int;
    }

    /// By how many nanoseconds the sleeps of this thread may be too long.
    pub(super) fn slack() -> Option<c_ulong> {
        // SAFETY: it is the system's function of this name, and this option has no arguments and writes nowhere.
        c_ulong::try_from(unsafe { prctl(PR_GET_TIMERSLACK) }).ok()
    }

    /// True: it is so now. `nanos` is above 0, which would mean another thing.
    pub(super) fn set_slack(nanos: c_ulong) -> bool {
        // SAFETY: as above; the argument is a number, of the type that the system expects.
        unsafe { prctl(PR_SET_TIMERSLACK, nanos) == 0 }
    }
}

#[cfg(not(all(target_os = "linux", not(loom), not(miri))))]
mod system {
    use std::ffi::c_ulong;

    pub(super) fn slack() -> Option<c_ulong> {
        None
    }
    pub(super) fn set_slack(_nanos: c_ulong) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux", not(loom), not(miri)))]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    #[test]
    fn a_thread_is_punctual_for_as_long_as_it_asked_for_it() {
        let Some(usual) = system::slack() else {
            return println!("skipped: this system does not tell how late a sleep may end");
        };
        {
            let _punctual = Punctual::within(MICRO);
            assert_eq!(system::slack(), Some(1000));
            // Who asks for more than there is gets what there is.
            let _less = Punctual::within(20 * MICRO);
            assert_eq!(system::slack(), Some(1000));
            let _none = Punctual::within(Duration::ZERO);
            assert_eq!(system::slack(), Some(1));
        }
        assert_eq!(system::slack(), Some(usual));
    }

    /// The setting is inherited by threads that a task starts, and is the task's own if it sleeps.
    #[test]
    fn what_a_pool_runs_is_as_it_would_be_without() {
        let usual = system::slack();
        let pool = crate::executors::scheduled(2);
        for delay in [Duration::ZERO, MICRO, 5000 * MICRO] {
            let seen = pool.schedule(delay, || {
                (system::slack(), std::thread::spawn(system::slack).join().expect("it does not panic"))
            });
            assert_eq!(seen.expect("it is open").join().expect("it does not panic"), (usual, usual));
        }
        pool.close();
    }
}
