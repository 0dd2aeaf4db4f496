//! Backing off: what a thread does between two looks at something another thread is about to change.
//!
//! This is the only file of the library that pauses, yields or sleeps between looks. To a loom model
//! looking again is a wait without end, so there a look is made once.
//!
//! - [`Backoff`] waits for the holder of a spin lock.
//! - [`snooze`] waits for an event for up to 100 µs, before its caller parks.
//! - [`SearchBudget`] does the same for as long as that has paid lately.
//!
//! `AdaptiveBackoff`, beside this file, is built from the same steps.

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};
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
pub(crate) fn snooze(ready: impl FnMut() -> bool) -> bool {
    search(Length::Long, ready) != Found::No
}

/// How long a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// About 2 µs: less than parking and being woken costs.
    Short,
    /// Up to 100 µs: longer than another thread needs to wake up.
    Long,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// At the first look: there was nothing to wait for.
    AtOnce,
    /// In less time than parking and being woken costs.
    Soon,
    /// Later than that.
    Late,
    No,
}

/// Looks again and again, before the caller parks.
///
/// Parking and being woken on another core cost as much as hundreds of small tasks, so a few pauses
/// and some yields pay if the other side is about to act. Each look takes the cache line from the
/// other side, so the time between two looks doubles.
///
/// A yield lasts as long as other threads want the core: milliseconds on a busy machine. It is better
/// to be woken then. So a short search ends with the first yield that let another thread run, and a
/// long one is bounded in time as well as in yields.
///
/// On a single core the other side can run only while this thread does not: there are no pauses, and
/// only [`YIELDS_ON_ONE_CORE`].
fn search(length: Length, mut ready: impl FnMut() -> bool) -> Found {
    const PAUSES: u32 = 4;
    const LIMIT: Duration = Duration::from_micros(100);
    /// What parking and being woken cost, roughly, both sides together.
    const COST_OF_PARKING: Duration = Duration::from_micros(10);
    #[cfg(all(test, not(loom)))]
    in_next_snooze::happen();
    if ready() {
        return Found::AtOnce;
    }
    if cfg!(loom) {
        return Found::No;
    }
    if !has_other_core() {
        let found = (0..YIELDS_ON_ONE_CORE).any(|_| {
            yield_now();
            ready()
        });
        if !found {
            refresh_core_count(Instant::now());
        }
        return if found { Found::Soon } else { Found::No };
    }
    if !SHARES_CORE.get() {
        for step in 0..PAUSES {
            pause(1 << step);
            if ready() {
                return Found::Soon;
            }
        }
    }
    let begin = Instant::now();
    let mut before = begin;
    let yields = if length == Length::Long { 64 } else { 4 };
    for _ in 0..yields {
        let now = yield_and_note_switch(before);
        if ready() {
            return if now - begin < COST_OF_PARKING { Found::Soon } else { Found::Late };
        }
        if now - begin > LIMIT || (length == Length::Short && SHARES_CORE.get()) {
            break;
        }
        before = now;
    }
    refresh_core_count(before);
    Found::No
}

/// Decides how long to search before parking, by whether searches have paid lately.
///
/// A search pays if it finds something in less time than parking and being woken would have cost. What
/// is remembered is one number from -64 to 8. Above zero searches are long, otherwise short. A search
/// that pays raises it by one, one that does not lowers it by two; so searches are long as long as two
/// of three pay. After 32 short searches in vain, one is long, as a probe: only that notices when two
/// threads wait for each other and both park each time, because it lasts longer than a wake-up.
///
/// Relaxed: concurrent updates may be lost, which costs time and nothing else.
#[derive(Debug)]
pub(crate) struct SearchBudget(AtomicI32);

impl Default for SearchBudget {
    fn default() -> Self {
        SearchBudget::new()
    }
}

impl SearchBudget {
    const MOST: i32 = 8;
    const LEAST: i32 = -64;
    /// A search that pays counts from here at least, so that five of them suffice for a long one.
    const NEAR: i32 = -4;

    /// Searches are long at first.
    pub(crate) const fn new() -> Self {
        SearchBudget(AtomicI32::new(Self::MOST))
    }

    /// Looks again and again until `ready`; false if it is time to park.
    pub(crate) fn search(&self, ready: impl FnMut() -> bool) -> bool {
        let number = self.0.load(Ordering::Relaxed);
        let found = search(Self::length(number), ready);
        let next = Self::after(number, found);
        if next != number {
            self.0.store(next, Ordering::Relaxed);
        }
        found != Found::No
    }

    fn length(number: i32) -> Length {
        if number > 0 || number == Self::LEAST { Length::Long } else { Length::Short }
    }

    fn after(number: i32, found: Found) -> i32 {
        match found {
            Found::AtOnce => number,
            Found::Soon => (number.max(Self::NEAR) + 1).min(Self::MOST),
            // After a probe the count of short searches begins again.
            Found::Late | Found::No if number == Self::LEAST => 0,
            Found::Late | Found::No => (number - 2).max(Self::LEAST),
        }
    }
}

std::thread_local! {
    static OF_THREAD: SearchBudget = const { SearchBudget::new() };
}

/// As [`snooze`], with a [`SearchBudget`] of the calling thread: for a thread that waits for results.
pub(crate) fn snooze_as_it_paid(mut ready: impl FnMut() -> bool) -> bool {
    OF_THREAD.try_with(|budget| budget.search(&mut ready)).unwrap_or_else(|_| ready())
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

/// Leaves the core to others while `waits`, for at most `limit`.
pub(crate) fn yield_while(limit: Duration, mut waits: impl FnMut() -> bool) {
    let begin = Instant::now();
    while waits() && begin.elapsed() < limit {
        yield_now();
    }
}

/// Lets other threads run.
pub(super) fn yield_now() {
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

    /// The lengths of the next searches if they end like this, and the number afterwards.
    fn lengths(mut number: i32, found: &[Found]) -> (Vec<Length>, i32) {
        let step = |found: &Found| {
            let length = SearchBudget::length(number);
            number = SearchBudget::after(number, *found);
            length
        };
        (found.iter().map(step).collect(), number)
    }

    #[test]
    fn searches_are_short_after_four_in_vain() {
        let (lengths, number) = lengths(SearchBudget::MOST, &[Found::No; 6]);
        assert_eq!(lengths, [[Length::Long; 4].as_slice(), &[Length::Short; 2]].concat());
        assert_eq!(number, -4);
    }

    #[test]
    fn one_search_in_thirty_three_is_long_when_none_pays() {
        for found in [Found::No, Found::Late] {
            let (lengths, _) = lengths(0, &[found; 330]);
            assert_eq!(lengths.iter().filter(|length| **length == Length::Long).count(), 10);
            assert_eq!(lengths[32], Length::Long);
        }
    }

    #[test]
    fn searches_are_long_again_after_five_that_paid() {
        for number in SearchBudget::LEAST..=0 {
            assert!(lengths(number, &[Found::Soon; 5]).1 > 0, "from {number}");
        }
    }

    #[test]
    fn searches_stay_short_when_every_second_one_pays_and_long_when_three_of_four_do() {
        let half = [Found::Soon, Found::No].repeat(100);
        let (of_half, _) = lengths(0, &half);
        assert!(of_half[4..].iter().all(|length| *length == Length::Short));
        let most = [Found::Soon, Found::Soon, Found::Soon, Found::No].repeat(100);
        let (of_most, _) = lengths(0, &most);
        assert!(of_most[100..].iter().all(|length| *length == Length::Long));
        assert_eq!(lengths(3, &[Found::AtOnce; 9]).1, 3, "no search, no lesson");
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
