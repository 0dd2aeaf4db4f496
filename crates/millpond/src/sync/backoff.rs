//! Backing off: what a thread does between two looks at something another thread is about to change.
//!
//! This is the only file of the library that pauses, yields or sleeps between looks. To a loom model
//! looking again is a wait without end, so there a look is made once.
//!
//! - [`Backoff`] waits for the holder of a spin lock.
//! - [`snooze`] waits for an event for up to 100 µs, before its caller parks.
//!
//! `AdaptiveBackoff`, beside this file, is built from the same steps.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::OnceLock;

/// Waits for a spin lock, or for another thread that is between two instructions.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    step: u32,
}

impl Backoff {
    /// Steps that pause, each twice as long as the one before: about 4 µs in total. The holder
    /// usually runs on another core, and is done before a context switch would be. While nobody looks
    /// it can take the lock again without fetching the cache line from another core.
    const PAUSES: u32 = 8;
    /// Steps that yield: the holder may have been preempted.
    const YIELDS: u32 = 64;
    /// After that the machine is so busy that yielding does not help.
    const NAP: Duration = Duration::from_micros(50);

    /// Takes one step.
    pub(crate) fn spin(&mut self) {
        if cfg!(loom) {
            return yield_now();
        }
        match self.step {
            step if step < Self::PAUSES => pause(1 << step),
            step if step < Self::PAUSES + Self::YIELDS => yield_now(),
            _ => return std::thread::sleep(Self::NAP),
        }
        self.step += 1;
    }
}

/// Looks again and again, for up to 100 µs, before the caller parks: true as soon as `ready` is.
///
/// Parking and being woken on another core cost as much as hundreds of small tasks, so a few pauses
/// and some yields pay if the other side is about to act. Each look takes the cache line from the
/// other side, so the time between two looks doubles.
///
/// A yield lasts as long as other threads want the core: milliseconds on a busy machine. It is better
/// to be woken then, so the time is bounded as well as the number of yields.
///
/// On a single core the other side can run only while this thread does not: there are no pauses, and
/// only [`YIELDS_ON_ONE_CORE`].
pub(crate) fn snooze(mut ready: impl FnMut() -> bool) -> bool {
    const PAUSES: u32 = 4;
    const YIELDS: u32 = 64;
    const LIMIT: Duration = Duration::from_micros(100);
    #[cfg(all(test, not(loom)))]
    in_next_snooze::happen();
    if ready() {
        return true;
    }
    if cfg!(loom) {
        return false;
    }
    if !has_other_core() {
        let found = (0..YIELDS_ON_ONE_CORE).any(|_| {
            yield_now();
            ready()
        });
        if !found {
            refresh_core_count(Instant::now());
        }
        return found;
    }
    if !SHARES_CORE.get() {
        for step in 0..PAUSES {
            pause(1 << step);
            if ready() {
                return true;
            }
        }
    }
    let begin = Instant::now();
    let mut before = begin;
    for _ in 0..YIELDS {
        let now = yield_and_note_switch(before);
        if ready() {
            return true;
        }
        if now - begin > LIMIT {
            break;
        }
        before = now;
    }
    refresh_core_count(before);
    false
}

/// For tests of what happens while a thread is between its first try and its park.
#[cfg(all(test, not(loom)))]
pub(crate) mod in_next_snooze {
    use std::cell::RefCell;

    std::thread_local! {
        static EVENT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    /// Calls `event` when the calling thread next snoozes.
    pub(crate) fn call(event: impl FnOnce() + 'static) {
        EVENT.set(Some(Box::new(event)));
    }

    pub(super) fn happen() {
        if let Some(event) = EVENT.take() {
            event();
        }
    }
}

/// Yields made on a single core before parking. Each gives the other side a chance to run. Three save
/// nine of ten futex calls when items of 1 µs pass through a queue.
const YIELDS_ON_ONE_CORE: u32 = 3;

std::thread_local! {
    /// The last yield of this thread let another thread run: the thread it waits for may be on the
    /// same core, and pausing would only delay it.
    static SHARES_CORE: Cell<bool> = const { Cell::new(false) };
}

/// Yields, and notes whether another thread ran meanwhile. Returns the time.
fn yield_and_note_switch(before: Instant) -> Instant {
    /// A yield that takes longer has switched to another thread.
    const SWITCH: Duration = Duration::from_nanos(800);
    yield_now();
    let now = Instant::now();
    SHARES_CORE.set(now - before > SWITCH);
    now
}

/// Pauses without yielding until `ready`, for at most `pauses`. For a thread that others rely on to
/// take work at once: one that yields on a busy machine would be behind everybody.
pub(crate) fn spin_briefly(pauses: u32, mut ready: impl FnMut() -> bool) {
    if cfg!(loom) || !has_other_core() {
        return;
    }
    for _ in 0..pauses {
        if ready() {
            return;
        }
        pause(1);
    }
}

/// Leaves the core to others until `time` has passed since `begin`.
pub(crate) fn yield_for(begin: Instant, time: Duration) {
    while begin.elapsed() < time {
        yield_now();
    }
}

/// Lets other threads run.
pub(crate) fn yield_now() {
    #[cfg(not(all(loom, test)))]
    std::thread::yield_now();
    #[cfg(all(loom, test))]
    loom::thread::yield_now();
}

pub(super) fn pause(times: u32) {
    (0..times).for_each(|_| std::hint::spin_loop());
}

// ---- the number of cores

const UNKNOWN: u8 = 0;
const ONE: u8 = 1;
const SEVERAL: u8 = 2;

/// Whether the process may use more than one core: [`UNKNOWN`], [`ONE`] or [`SEVERAL`].
static CORES: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether another thread can run while this one spins.
///
/// The affinity mask and the CPU quota of a process may change while it runs, so the answer is
/// refreshed, see [`refresh_core_count`]. Relaxed: an old answer costs time and nothing else.
pub(crate) fn has_other_core() -> bool {
    match CORES.load(Ordering::Relaxed) {
        UNKNOWN => {
            let several = asks_for_several();
            CORES.store(if several { SEVERAL } else { ONE }, Ordering::Relaxed);
            several
        }
        cores => cores == SEVERAL,
    }
}

/// Asks the system, which takes tens of microseconds: it reads the files of the control group.
fn asks_for_several() -> bool {
    std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1)
}

/// Asks for the number of cores again, if the last answer is old. Called by a thread that is about to
/// park, and so has the time.
fn refresh_core_count(now: Instant) {
    static REFRESH: Refresh = Refresh { asked: AtomicU64::new(0), several: AtomicU64::new(0) };
    static START: OnceLock<Instant> = OnceLock::new();
    let second = now.saturating_duration_since(*START.get_or_init(|| now)).as_secs();
    if REFRESH.is_due(second) {
        let several = REFRESH.combine(second, asks_for_several());
        CORES.store(if several { SEVERAL } else { ONE }, Ordering::Relaxed);
    }
}

/// When the number of cores was asked for, in seconds.
#[derive(Debug)]
struct Refresh {
    asked: AtomicU64,
    /// When the answer was more than one.
    several: AtomicU64,
}

impl Refresh {
    /// An answer is good for this long.
    const GOOD_FOR: u64 = 3;
    /// The answer is about the calling thread, which may be pinned to a core. So "several" counts for
    /// this long against answers of "one".
    const SEVERAL_FOR: u64 = 10;

    /// True for one caller, if the last answer is too old.
    fn is_due(&self, second: u64) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        second >= asked + Self::GOOD_FOR
            && self.asked.compare_exchange(asked, second, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// What to believe, given this answer and the ones before.
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

    #[test]
    fn the_number_of_cores_is_asked_again_every_few_seconds() {
        let refresh = Refresh { asked: AtomicU64::new(0), several: AtomicU64::new(0) };
        let asked: Vec<u64> = (0..12).filter(|second| refresh.is_due(*second)).collect();
        assert_eq!(asked, [3, 6, 9]);
    }

    #[test]
    fn a_pinned_thread_does_not_speak_for_the_process() {
        let refresh = Refresh { asked: AtomicU64::new(0), several: AtomicU64::new(0) };
        let answers = [(3, true), (6, false), (12, false), (13, false), (15, true), (18, false)];
        let believed = answers.map(|(second, several)| refresh.combine(second, several));
        assert_eq!(believed, [true, true, true, false, true, true]);
    }

    #[test]
    fn snooze_returns_as_soon_as_it_is_ready() {
        let mut looks = 0;
        let mut third = || {
            looks += 1;
            looks == 3
        };
        assert!(snooze(&mut third));
        assert_eq!(looks, 3);
        assert!(!snooze(|| false));
    }
}
