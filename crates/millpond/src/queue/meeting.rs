//! The meeting: nothing is kept, every item goes from hand to hand.
//!
//! The synchronous queue is a meeting. Who comes serves one who waits on the other side, or waits. Both lines are under one
//! lock, which is held for moments only; at any moment threads wait on one side at most, but for those that are interrupted
//! and about to leave. A waiting thread is woken when its call is done, so nobody is woken in vain.
//!
//! What a meeting costs is how the threads wait: see `habit.rs`.

use std::fmt::DebugStruct;

use super::error::OfferError;
use super::habit::Habit;
use super::wait::{Line, Patience, Waiter, is_past};
use crate::brief::{Brief, BriefGuard};
use crate::interrupt::{self, Interrupted};

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
        let deadline = patience.deadline();
        self.habit.look_until(|| me.is_settled() || is_past(deadline));
        if !me.is_settled() {
            me.sleep(deadline);
        }
    }

    fn wake(&self, served: &Waiter<T>) {
        if served.is_asleep() {
            served.wake();
            self.habit.expect_somebody();
        }
    }
}
