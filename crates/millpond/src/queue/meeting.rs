//! The meeting: nothing is kept, every item goes from hand to hand.
//!
//! The synchronous queue is a meeting. Who comes serves one who waits on the other side, or waits. Both lines are under one
//! lock, which is held for moments only; at any moment threads wait on one side at most, but for those that are interrupted
//! and about to leave. A waiting thread is woken when its call is done, so nobody is woken in vain.
//!
//! What a meeting costs is how the threads wait. If the partner runs on another core it comes within less than a
//! microsecond, and it is best to look for it. If it has to run on the same core, looking only keeps it from coming, and it is
//! best to let it run. If strangers want to run here too then they, not the partner, run first, and may run for
//! milliseconds: it is best to sleep until woken. None of this can be asked, but what it was last time is a good guess: see
//! [`Habit`].

use std::fmt::DebugStruct;
use std::time::{Duration, Instant};

use super::error::OfferError;
use super::wait::{Line, Patience, Waiter};
use crate::brief::{Brief, BriefGuard};
use crate::interrupt::{self, Interrupted};
use crate::sync::{AtomicUsize, Ordering};

/// In cache lines of its own: all that both sides write is in it.
#[repr(align(128))]
pub(super) struct Meeting<T> {
    lines: Brief<Lines<T>>,
    habit: Habit,
}

/// Invariants, whenever the lock is free:
/// 1. On one of the two sides nobody waits, or only those who are interrupted and about to leave.
/// 2. A waiter stands in its line if and only if it is not settled.
struct Lines<T> {
    takers: Line<T>,
    putters: Line<T>,
}

impl<T> Meeting<T> {
    /// A meeting that serves who waits longest.
    pub(super) fn first_come_first_served() -> Self {
        Self::new(Line::first_come_first_served)
    }

    /// A meeting that serves who waits least.
    pub(super) fn last_come_first_served() -> Self {
        Self::new(Line::last_come_first_served)
    }

    fn new(line: fn() -> Line<T>) -> Self {
        Meeting { lines: Brief::new(Lines { takers: line(), putters: line() }), habit: Habit::new() }
    }

    pub(super) fn offer(&self, item: T) -> Result<(), T> {
        self.give(item).map_err(|(item, _)| item)
    }

    /// Hands `item` to a taker, waiting for one as long as there is patience.
    pub(super) fn put(&self, item: T, patience: Patience) -> Result<(), OfferError<T>> {
        if interrupt::interrupted() {
            return Err(OfferError::Interrupted(item));
        }
        let (item, mut lines) = match self.give(item) {
            Ok(()) => return Ok(()),
            Err(alone) => alone,
        };
        if patience.is_none() {
            drop(lines);
            return Err(OfferError::TimedOut(item));
        }
        let me = Waiter::new(Some(item));
        lines.putters.join(&me);
        drop(lines);

        self.wait(&me, patience);
        if me.is_settled() || !self.lines.lock().putters.leave(&me) {
            return Ok(());
        }
        let item = me.take_hand().expect("a putter that was not served holds its item");
        Err(if me.take_interrupt() { OfferError::Interrupted(item) } else { OfferError::TimedOut(item) })
    }

    pub(super) fn poll(&self) -> Option<T> {
        self.relieve().ok()
    }

    /// Takes an item from a putter, waiting for one as long as there is patience.
    pub(super) fn take(&self, patience: Patience) -> Result<Option<T>, Interrupted> {
        interrupt::check()?;
        let mut lines = match self.relieve() {
            Ok(item) => return Ok(Some(item)),
            Err(alone) => alone,
        };
        if patience.is_none() {
            return Ok(None);
        }
        let me = Waiter::new(None);
        lines.takers.join(&me);
        drop(lines);

        self.wait(&me, patience);
        if me.is_settled() || !self.lines.lock().takers.leave(&me) {
            return Ok(Some(me.take_hand().expect("a taker that was served holds its item")));
        }
        if me.take_interrupt() { Err(Interrupted) } else { Ok(None) }
    }

    pub(super) fn len(&self) -> usize {
        0
    }

    pub(super) fn remaining_capacity(&self) -> usize {
        0
    }

    /// Relieves waiting putters of their items, up to `max`, and no more than wait now: others may come as fast as these go.
    pub(super) fn drain_to(&self, into: &mut Vec<T>, max: usize) -> usize {
        let before = into.len();
        let waiting = self.lines.lock().putters.len();
        into.extend((0..max.min(waiting)).map_while(|_| self.poll()));
        into.len() - before
    }

    pub(super) fn remove_if(&self, _matches: &mut dyn FnMut(&T) -> bool) -> Vec<T> {
        Vec::new()
    }

    pub(super) fn clear(&self) {}

    pub(super) fn for_each(&self, _see: &mut dyn FnMut(&T)) {}

    pub(super) fn peek(&self) -> Option<T> {
        None
    }

    /// Adds what is going on to a description: that there are no items, and how many threads wait.
    pub(super) fn describe(&self, f: &mut DebugStruct<'_, '_>) {
        let lines = self.lines.lock();
        let (takers, putters) = (lines.takers.len(), lines.putters.len());
        drop(lines);
        f.field("len", &self.len()).field("waiting_takers", &takers).field("waiting_putters", &putters);
    }

    /// Hands `item` to a taker that waits, or back with the lock still held, so that the caller can join the line.
    #[inline]
    fn give(&self, item: T) -> Result<(), (T, BriefGuard<'_, Lines<T>>)> {
        let mut lines = self.lines.lock();
        let Some(taker) = lines.takers.next() else { return Err((item, lines)) };
        taker.give(item);
        drop(lines);
        self.wake(&taker);
        Ok(())
    }

    /// Relieves a putter that waits of its item, or returns the lock still held, so that the caller can join the line.
    #[inline]
    fn relieve(&self) -> Result<T, BriefGuard<'_, Lines<T>>> {
        let mut lines = self.lines.lock();
        let Some(putter) = lines.putters.next() else { return Err(lines) };
        let item = putter.relieve();
        drop(lines);
        self.wake(&putter);
        Ok(item)
    }

    /// Blocks until `me` is served, interrupted or out of patience.
    fn wait(&self, me: &Waiter<T>, patience: Patience) {
        if !self.habit.look_until(|| me.is_settled()) {
            me.sleep(patience.deadline());
        }
    }

    fn wake(&self, served: &Waiter<T>) {
        if served.is_asleep() {
            served.wake();
            self.habit.expect_somebody();
        }
    }
}

/// How to look for a partner before going to sleep: a guess, from how it went the last times.
///
/// Relaxed, all of it, and some of what is written at the same time is lost: a wrong guess costs time and nothing else. In a
/// model looking again is a wait without end: there is no looking.
#[derive(Debug)]
struct Habit {
    /// So many waits in a row ended when the core had been left to others: the partner runs here, on the same core.
    together: AtomicUsize,
    /// Strangers run here too. For so many waits more the core is not left to them.
    crowded: AtomicUsize,
    /// A sleeper was woken and will be here soon; else 0. Who waits next knows whom it waits for.
    expected: AtomicUsize,
}

/// So many looks, while the partner seems to run on another core: more than half a microsecond. It takes a third.
const LOOKS: usize = 32;
/// After so many waits in a row that ended when the core had been left to others, one look will do.
const FEW: usize = 4;
/// After so many of them one sleeps all the same. Who is woken may be given an idle core, and the next look is not in
/// vain; threads that only leave the core to each other stay on it, with an idle one beside.
const MANY: usize = 128;
/// So often the core is left to others: some fifteen microseconds, if nobody wants it.
const YIELDS: usize = 64;
/// To be woken on another core takes tens of microseconds. If one went to sleep meanwhile then both would sleep at each
/// meeting from then on, and be woken by the other.
const YIELDS_FOR_A_SLEEPER: usize = 4 * YIELDS;
/// Who gets the core back later than this has left it to strangers.
const LONG: Duration = Duration::from_micros(100);
/// A turn of a stranger takes milliseconds: as much as a thousand sleeps.
const CROWDED: usize = 1000;
/// To read the clock takes long enough that it is done at one of so many waits.
const WATCHED: usize = 4;

impl Habit {
    fn new() -> Self {
        Habit { together: AtomicUsize::new(0), crowded: AtomicUsize::new(0), expected: AtomicUsize::new(0) }
    }

    fn expect_somebody(&self) {
        self.expected.store(1, Ordering::Relaxed);
    }

    /// True as soon as `served` is; false: it is time to sleep.
    fn look_until(&self, served: impl Fn() -> bool) -> bool {
        if cfg!(loom) {
            return served();
        }
        // 1. The partner runs on another core.
        let together = self.together.load(Ordering::Relaxed);
        for _ in 0..if together < FEW { LOOKS } else { 1 } {
            if served() {
                if together > 0 {
                    self.together.store(0, Ordering::Relaxed);
                }
                return true;
            }
            std::hint::spin_loop();
        }
        // 2. Only sleep helps.
        let crowded = self.crowded.load(Ordering::Relaxed);
        if crowded > 0 || together >= MANY {
            self.crowded.store(crowded.saturating_sub(1), Ordering::Relaxed);
            self.together.store(FEW - 2, Ordering::Relaxed);
            return served();
        }
        // 3. The partner runs on this core, or has yet to be woken.
        let mut yields = YIELDS;
        if self.expected.load(Ordering::Relaxed) != 0 {
            self.expected.store(0, Ordering::Relaxed);
            yields = YIELDS_FOR_A_SLEEPER;
        }
        self.leave_the_core(yields, together, served)
    }

    fn leave_the_core(&self, yields: usize, together: usize, served: impl Fn() -> bool) -> bool {
        let mut left = together.is_multiple_of(WATCHED).then(Instant::now);
        for _ in 0..yields {
            std::thread::yield_now();
            let come = served();
            if let Some(left) = &mut left {
                let back = Instant::now();
                if back - *left > LONG {
                    self.crowded.store(CROWDED, Ordering::Relaxed);
                    self.together.store(0, Ordering::Relaxed);
                    return come;
                }
                *left = back;
            }
            if come {
                self.together.store(together + 1, Ordering::Relaxed);
                return true;
            }
        }
        false
    }
}
