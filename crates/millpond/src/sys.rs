//! System calls beyond the standard library. No other file declares system calls.
//!
//! Linux ends a sleep up to 50 µs late, to end several sleeps at once. For a pool with an
//! occasional timer, that is half of the timer's lateness and saves nothing, because each timer
//! needs its own wake-up. So a worker that waits for a timer requests less slack while it sleeps.
//! Tasks, and threads that tasks start, run with the previous setting.
//!
//! Linux keeps 15 bytes of a thread's name. The standard library passes the first 15, so `top -H`
//! shows all workers of `image-resizer-thread-` as `image-resizer-t`. This file shortens the
//! beginning of a long name instead, which keeps the number visible. The name known to Rust is
//! unchanged.
//!
//! On other systems these functions do nothing. A refusal by the system is harmless: timers fire up
//! to 50 µs later, and names are cut at the end.

use std::ffi::{CString, c_ulong};
use std::marker::PhantomData;
use std::time::Duration;

/// Lowers the timer slack of the calling thread until dropped.
#[must_use]
#[derive(Debug)]
pub(crate) struct TimerSlack {
    /// The slack to restore; `None` if it was not changed.
    before: Option<c_ulong>,
    /// The setting belongs to one thread, so the guard must not move to another thread.
    _not_send: PhantomData<*const ()>,
}

impl TimerSlack {
    /// Lowers the slack to `slack`, unless it is already lower or the system refuses.
    pub(crate) fn at_most(slack: Duration) -> TimerSlack {
        let nanos = c_ulong::try_from(slack.as_nanos()).unwrap_or(c_ulong::MAX).max(1);
        let before = system::slack().filter(|before| *before > nanos && system::set_slack(nanos));
        TimerSlack { before, _not_send: PhantomData }
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            system::set_slack(before);
        }
    }
}

/// Returns the system's id of the calling thread, or `None` if it is unknown. Linux has it as the
/// target of a link.
pub(crate) fn thread_id() -> Option<u64> {
    if cfg!(any(loom, miri, not(target_os = "linux"))) {
        return None;
    }
    let target = std::fs::read_link("/proc/thread-self").ok()?;
    target.file_name()?.to_str()?.parse().ok()
}

/// Gives the calling thread a shorter name for the system, if the system would cut off the number
/// at the end of `name`.
pub(crate) fn show_thread_number(name: &str) {
    if let Some(shown) = short_name(name).and_then(|short| CString::new(short).ok()) {
        system::set_name(&shown);
    }
}

/// Shortens `name` to 15 bytes. Keeps the number at its end and the character before the number.
/// Returns `None` if the name fits, or does not end with a number.
fn short_name(name: &str) -> Option<String> {
    const SHOWN: usize = 15;
    if name.len() <= SHOWN {
        return None;
    }
    let before_number = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let prefix = before_number.strip_suffix(|c: char| c.is_ascii_punctuation() || c == ' ');
    let prefix = prefix.unwrap_or(before_number);
    let end = &name[prefix.len()..];
    let room = SHOWN.checked_sub(end.len()).filter(|_| before_number.len() < name.len())?;
    let cut = (0..=room).rev().find(|at| prefix.is_char_boundary(*at))?;
    Some(format!("{}{end}", &prefix[..cut]))
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use std::ffi::{CStr, c_int, c_ulong};

    const PR_SET_NAME: c_int = 15;

    const PR_SET_TIMERSLACK: c_int = 29;
    const PR_GET_TIMERSLACK: c_int = 30;

    unsafe extern "C" {
        fn prctl(option: c_int, ...) -> c_int;
    }

    /// Returns the slack of the calling thread in nanoseconds, or `None` if the system refuses.
    pub(super) fn slack() -> Option<c_ulong> {
        // SAFETY: `prctl` has this signature on Linux. The option takes no further arguments and
        // writes to no memory.
        c_ulong::try_from(unsafe { prctl(PR_GET_TIMERSLACK) }).ok()
    }

    /// Sets the slack of the calling thread. `nanos` must not be zero, which would mean the
    /// default.
    pub(super) fn set_slack(nanos: c_ulong) -> bool {
        // SAFETY: `prctl` has this signature on Linux. The option takes one `unsigned long` and
        // writes to no memory.
        unsafe { prctl(PR_SET_TIMERSLACK, nanos) == 0 }
    }

    /// Sets the name of the calling thread. The system keeps 15 bytes.
    pub(super) fn set_name(name: &CStr) {
        // SAFETY: `prctl` has this signature on Linux. The option takes a pointer to a string that
        // ends with a NUL, which `name` is, reads at most 16 bytes of it up to the NUL, and writes
        // to no memory.
        unsafe { prctl(PR_SET_NAME, name.as_ptr()) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::ffi::{CStr, c_ulong};

    pub(super) fn slack() -> Option<c_ulong> {
        None
    }
    pub(super) fn set_name(_name: &CStr) {}
    pub(super) fn set_slack(_nanos: c_ulong) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux", not(loom), not(miri)))]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    #[test]
    fn slack_is_lowered_while_the_guard_lives() {
        let Some(usual) = system::slack() else {
            return println!("SKIPPED: this system does not tell its timer slack");
        };
        {
            let _slack = TimerSlack::at_most(MICRO);
            assert_eq!(system::slack(), Some(1000));
            let _higher = TimerSlack::at_most(20 * MICRO);
            assert_eq!(system::slack(), Some(1000), "a guard never raises it");
            let _none = TimerSlack::at_most(Duration::ZERO);
            assert_eq!(system::slack(), Some(1));
        }
        assert_eq!(system::slack(), Some(usual));
    }

    /// Threads that a task starts inherit the setting, and the task itself may sleep.
    #[test]
    fn tasks_and_their_threads_have_the_usual_slack() {
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

    /// The first task of a scheduler is delayed, so the timer thread starts its thread.
    #[test]
    fn threads_of_a_scheduler_keep_the_usual_slack() {
        use crate::schedulers::SchedulerExt;
        let usual = system::slack();
        let scheduler = crate::schedulers::new_single("slack").expect("the name is valid");
        let (give, seen) = std::sync::mpsc::channel();
        for delay in [MICRO, 5000 * MICRO] {
            let give = give.clone();
            scheduler
                .schedule_after(delay, move || give.send(system::slack()).expect("we wait"))
                .expect("it is open");
            assert_eq!(seen.recv().expect("it runs"), usual);
        }
    }
}
