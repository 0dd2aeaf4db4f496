//! Back-off: how a thread waits for an event that another thread is about to cause.
//!
//! This is the only file of the library that pauses, yields or sleeps.
//!
//! - [`Backoff`] waits for the holder of a spin lock.
//! - [`SearchBudget`] polls a condition before its caller parks, for up to 100 µs if that has paid
//!   recently.
//! - [`snooze`] always polls that long, for submitters that wait for room.
//! - [`AdaptiveBackoff`] waits for the other side of a rendezvous.
//! - [`Contention`] makes a thread pause if it repeatedly finds a lock taken.
//!
//! A loom model explores polling as an endless wait. So in a model every function polls once.

mod adaptive;
#[cfg_attr(all(loom, test), allow(dead_code, reason = "a model locks a mutex instead"))]
mod contention;
mod cores;

use std::cell::Cell;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

pub(crate) use adaptive::AdaptiveBackoff;
pub(super) use contention::Contention;
use cores::{has_other_core, refresh_core_count};

use super::IN_MODEL;

/// Waits for a spin lock, or for another thread that is between two instructions.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    step: u32,
}

impl Backoff {
    /// Steps that pause, each twice as long as the one before: about 4 µs in total.
    ///
    /// The lock holder usually runs on another core and finishes before a context switch would.
    /// While no other thread polls, the holder can lock again without fetching the cache line.
    const PAUSES: u32 = 8;
    /// Steps that yield, because the holder may have been preempted.
    const YIELDS: u32 = 64;
    /// The length of all later steps, on a machine so busy that yielding does not help.
    const SLEEP: Duration = Duration::from_micros(50);

    /// Takes one step.
    pub(crate) fn spin(&mut self) {
        let step = if IN_MODEL { Self::PAUSES } else { self.step }; // a model only yields
        match step {
            step if step < Self::PAUSES => pause(1 << step),
            step if step < Self::PAUSES + Self::YIELDS => yield_now(),
            _ => return std::thread::sleep(Self::SLEEP),
        }
        self.step += 1;
    }
}

/// Polls `ready` for up to 100 µs, before the caller parks. Returns true as soon as `ready` does.
pub(crate) fn snooze(ready: impl FnMut() -> bool) -> bool {
    search(LONG, ready) != Found::No
}

/// Like [`snooze`], with the [`SearchBudget`] of the calling thread. For a thread that waits for
/// results.
pub(crate) fn snooze_as_it_paid(ready: impl FnMut() -> bool) -> bool {
    THREAD.with(|thread| thread.budget.search(ready))
}

/// Polls `ready` for at most `pauses` pauses, without yielding.
///
/// For a thread that other threads rely on to take work at once. On a busy machine, a thread that
/// yields runs again only after all other threads.
pub(crate) fn spin_briefly(pauses: u32, ready: impl FnMut() -> bool) {
    if !IN_MODEL && has_other_core() {
        let _ = pause_until(std::iter::repeat_n(1, pauses as usize), ready);
    }
}

/// Yields while `waits` returns true, for at most `limit`.
pub(crate) fn yield_while(limit: Duration, mut waits: impl FnMut() -> bool) {
    let begin = Instant::now();
    let mut is_over = || !waits() || begin.elapsed() >= limit;
    if !is_over() {
        yield_until(u32::MAX, is_over);
    }
}

/// Yields of a long search, which takes up to 100 µs: longer than the wake-up of another thread.
const LONG: u32 = 64;

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The first poll succeeded, so there was no wait.
    AtOnce,
    /// In less time than a park and a wake-up take.
    Soon,
    /// After more time than that.
    Late,
    No,
}

/// Pauses of a search before its first yield.
const PAUSES: u32 = 4;

/// Returns the number of polls after which a search of the calling thread has lasted about 2 µs:
/// all pauses and two yields. Returns 0 if the search begins with a yield, which may take long.
pub(crate) fn polls_of_short_search() -> u32 {
    let pauses = has_other_core() && THREAD.with(|thread| !thread.shares_core.get());
    if pauses { PAUSES + 2 } else { 0 }
}

/// Polls `ready` before the caller parks.
///
/// A park and a wake-up on another core cost as much as hundreds of small tasks. So some pauses and
/// yields pay if the other side is about to act. Each poll takes the cache line from the other
/// side, so the time between two polls doubles.
///
/// `yields` is at most [`LONG`].
fn search(yields: u32, mut ready: impl FnMut() -> bool) -> Found {
    #[cfg(all(test, not(loom)))]
    in_next_snooze::happen();
    if ready() {
        return Found::AtOnce;
    }
    if IN_MODEL {
        return Found::No;
    }
    let found =
        if has_other_core() { search_beside(yields, ready) } else { search_on_one_core(yields, ready) };
    if found == Found::No {
        refresh_core_count(Instant::now());
    }
    found
}

/// A search on a machine with several cores.
///
/// A yield lasts as long as other threads want the core, which may be milliseconds on a busy
/// machine. Then parking is better. So a short search ends with the first yield that let another
/// thread run. A long search is bounded in time as well as in yields.
fn search_beside(yields: u32, mut ready: impl FnMut() -> bool) -> Found {
    const LIMIT: Duration = Duration::from_micros(100);
    /// A rough estimate of the cost of a park and a wake-up, both sides together.
    const COST_OF_PARKING: Duration = Duration::from_micros(10);
    /// A longer yield has switched to another thread.
    const SWITCH: Duration = Duration::from_nanos(800);
    THREAD.with(|thread| {
        if !thread.shares_core.get() && pause_until((0..PAUSES).map(|step| 1 << step), &mut ready) {
            return Found::Soon;
        }
        let (begin, mut found) = (Instant::now(), Found::No);
        let mut before = begin;
        yield_until(yields, || {
            let now = Instant::now();
            thread.shares_core.set(now - before > SWITCH);
            before = now;
            if ready() {
                found = if now - begin < COST_OF_PARKING { Found::Soon } else { Found::Late };
                return true;
            }
            now - begin > LIMIT || (yields < LONG && thread.shares_core.get())
        });
        found
    })
}

/// A search on a single core, where the other side runs only while this thread does not.
fn search_on_one_core(yields: u32, ready: impl FnMut() -> bool) -> Found {
    /// Each yield lets the other side run. Three yields save nine of ten futex calls when items of
    /// 1 µs pass through a queue.
    const ENOUGH: u32 = 3;
    if yield_until(yields.min(ENOUGH), ready) { Found::Soon } else { Found::No }
}

/// Decides how long to search before parking, based on the outcome of recent searches.
///
/// A search pays if it finds something in less time than a park and a wake-up take. The state is
/// one number from -96 to 8. A search that pays raises the number by one, other searches lower it
/// by two.
///
/// - Above zero, searches are long. The number stays there while two of three searches pay.
/// - From 0 to -31, searches are short, with a few yields.
/// - From -32 on, 32 searches are even shorter. Then one is long, as a probe: only a search that
///   lasts longer than a wake-up can detect that two threads park for each other every time. If the
///   probe pays, the next two searches are long too.
///
/// Relaxed: a lost update only costs time.
#[derive(Debug)]
pub(crate) struct SearchBudget {
    number: AtomicI32,
    /// Yields of a search while searches rarely pay.
    fewest: u32,
}

impl SearchBudget {
    const MOST: i32 = 8;
    /// A search that pays counts from here at least. So five such searches suffice for a long one.
    const NEAR: i32 = -4;
    /// At or below this number, searches rarely pay.
    const RARE: i32 = -32;
    /// At this number, the next search is a probe.
    const PROBE: i32 = -96;
    /// The number after a probe that paid.
    const PROBED: i32 = 3;
    /// Yields of a short search.
    const FEW: u32 = 4;

    /// For threads that wait for a task, an item or a free slot. While searches rarely pay, such
    /// threads do not yield. A yield costs two context switches, 4 µs of processor time. On a busy
    /// machine it lasts until all other threads have run. With four busy loops on two cores, 6000
    /// items passed an array queue of one slot in 35 s with yields, in 5 s without. A thread that
    /// parks at once may also be scheduled sooner when it is woken. On one core, a task every 200
    /// µs began after 8 µs with yields, after 3 µs without.
    pub(crate) const fn for_task() -> Self {
        SearchBudget::new(0)
    }

    /// For a thread that waits for a result. A yield lets a worker on the same core produce the
    /// result. If the thread parked, the worker would have to wake it.
    const fn for_result() -> Self {
        SearchBudget::new(Self::FEW)
    }

    /// Searches are long at first.
    const fn new(fewest: u32) -> Self {
        SearchBudget { number: AtomicI32::new(Self::MOST), fewest }
    }

    /// Polls `ready`. Returns false if it is time to park.
    pub(crate) fn search(&self, ready: impl FnMut() -> bool) -> bool {
        let number = self.number.load(Ordering::Relaxed);
        let found = search(self.yields(number), ready);
        let next = Self::after(number, found);
        if next != number {
            self.number.store(next, Ordering::Relaxed);
        }
        found != Found::No
    }

    fn yields(&self, number: i32) -> u32 {
        match number {
            Self::PROBE | 1.. => LONG,
            ..=Self::RARE => self.fewest,
            _ => Self::FEW,
        }
    }

    fn after(number: i32, found: Found) -> i32 {
        match found {
            Found::AtOnce => number,
            Found::Soon if number == Self::PROBE => Self::PROBED,
            Found::Soon => (number.max(Self::NEAR) + 1).min(Self::MOST),
            Found::Late | Found::No if number == Self::PROBE => Self::RARE,
            Found::Late | Found::No => (number - 2).max(Self::PROBE),
        }
    }
}

std::thread_local! {
    static THREAD: ThreadHistory = const { ThreadHistory::new() };
}

/// The outcome of earlier waits of one thread. Needs no destructor, so it is always readable.
#[derive(Debug)]
struct ThreadHistory {
    /// True if the last yield let another thread run. The awaited thread may be on the same core,
    /// and pausing would only delay it.
    shares_core: Cell<bool>,
    budget: SearchBudget,
    contention: Cell<Contention>,
}

impl ThreadHistory {
    const fn new() -> ThreadHistory {
        ThreadHistory {
            shares_core: Cell::new(false),
            budget: SearchBudget::for_result(),
            contention: Cell::new(Contention::NONE),
        }
    }
}

/// Pauses for each of `lengths` and polls `ready` after each pause. Returns true as soon as `ready`
/// does.
fn pause_until(lengths: impl Iterator<Item = u32>, mut ready: impl FnMut() -> bool) -> bool {
    for length in lengths {
        pause(length);
        if ready() {
            return true;
        }
    }
    false
}

/// Yields at most `yields` times and calls `ends` after each yield. Returns true as soon as `ends`
/// does.
fn yield_until(yields: u32, mut ends: impl FnMut() -> bool) -> bool {
    (0..yields).any(|_| {
        yield_now();
        ends()
    })
}

fn yield_now() {
    #[cfg(not(all(loom, test)))]
    std::thread::yield_now();
    #[cfg(all(loom, test))]
    loom::thread::yield_now();
}

fn pause(times: u32) {
    (0..times).for_each(|_| std::hint::spin_loop());
}

/// Lets a test run code between the first attempt of a thread and its park.
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Returns the yields of the next searches if they end as `found` says, and the number
    /// afterwards.
    fn yields(mut number: i32, found: &[Found]) -> (Vec<u32>, i32) {
        let budget = SearchBudget::for_task();
        let step = |found: &Found| {
            let yields = budget.yields(number);
            number = SearchBudget::after(number, *found);
            yields
        };
        (found.iter().map(step).collect(), number)
    }

    #[test]
    fn searches_become_shorter_while_none_pays_and_one_in_thirty_three_is_long() {
        for found in [Found::No, Found::Late] {
            let (all, _) = yields(SearchBudget::MOST, &[found; 4 + 16 + 10 * 33]);
            let (at_first, later) = all.split_at(4 + 16);
            assert_eq!(at_first, [[LONG; 4].as_slice(), &[SearchBudget::FEW; 16]].concat());
            let cycle = [[0; 32].as_slice(), &[LONG]].concat();
            assert!(later.chunks(33).all(|of_cycle| of_cycle == cycle));
        }
    }

    #[test]
    fn a_thread_that_waits_for_a_result_always_yields() {
        let budget = SearchBudget::for_result();
        let all = (SearchBudget::PROBE..=SearchBudget::MOST).map(|number| budget.yields(number));
        assert_eq!(all.min(), Some(SearchBudget::FEW));
    }

    #[test]
    fn two_more_searches_are_long_after_a_probe_that_paid() {
        let (all, _) = yields(SearchBudget::PROBE, &[Found::Soon, Found::No, Found::No, Found::No]);
        assert_eq!(all, [LONG, LONG, LONG, SearchBudget::FEW]);
    }

    #[test]
    fn searches_are_long_again_after_five_that_paid() {
        for number in SearchBudget::PROBE..=0 {
            assert!(yields(number, &[Found::Soon; 5]).1 > 0, "from {number}");
        }
    }

    #[test]
    fn searches_stay_short_when_every_second_one_pays_and_long_when_three_of_four_do() {
        let half = [Found::Soon, Found::No].repeat(100);
        let (of_half, _) = yields(0, &half);
        assert!(of_half[4..].iter().all(|yields| *yields == SearchBudget::FEW));
        let most = [Found::Soon, Found::Soon, Found::Soon, Found::No].repeat(100);
        let (of_most, _) = yields(0, &most);
        assert!(of_most[100..].iter().all(|yields| *yields == LONG));
        assert_eq!(yields(3, &[Found::AtOnce; 9]).1, 3, "no search, no lesson");
    }

    #[test]
    fn snooze_returns_as_soon_as_it_is_ready() {
        let mut polls = 0;
        let mut third = || {
            polls += 1;
            polls == 3
        };
        assert!(snooze(&mut third));
        assert_eq!(polls, 3);
        assert!(!snooze(|| false));
    }
}
