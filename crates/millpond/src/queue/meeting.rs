//! The meeting: nothing is kept, every item goes from hand to hand.
//!
//! The synchronous queue is a meeting. Who comes serves one who waits on the other side, or waits. Those who wait are in one
//! row, under a lock that is held for moments only; at any moment threads wait on one side at most, but for those that are
//! interrupted and about to leave. A waiting thread is woken when its call is done, so nobody is woken in vain.
//!
//! What a meeting costs is how the threads wait: see `seat.rs` and `AdaptiveBackoff`.

use std::fmt::DebugStruct;

use super::error::OfferError;
use super::seat::{Order, Row, Seat, Side, wait_in};
use super::wait::{Patience, is_past};
use crate::brief::{Brief, BriefGuard};
use crate::interrupt::{self, Interrupted, Sleeper};
use crate::sync::{AdaptiveBackoff, Arc, AtomicUsize, Ordering};

/// In cache lines of its own. All that is written at each meeting is in the first.
#[repr(C, align(128))]
pub(super) struct Meeting<T> {
    row: Brief<Row<T>>,
    /// How many meetings there were. Written with the lock held. Relaxed: only the back-off reads it.
    met: AtomicUsize,
    backoff: AdaptiveBackoff,
    order: Order,
}

impl<T> Meeting<T> {
    pub(super) fn new(order: Order) -> Self {
        Meeting {
            row: Brief::new(Row::new()),
            met: AtomicUsize::new(0),
            backoff: AdaptiveBackoff::default(),
            order,
        }
    }

    pub(super) fn offer(&self, item: T) -> Result<(), T> {
        self.give(item).map_err(|(item, _)| item)
    }

    /// Hands `item` to a taker, waiting for one as long as there is patience.
    pub(super) fn put(&self, item: T, patience: Patience) -> Result<(), OfferError<T>> {
        if interrupt::interrupted() {
            return Err(OfferError::Interrupted(item));
        }
        let (item, row) = match self.give(item) {
            Ok(()) => return Ok(()),
            Err(alone) => alone,
        };
        if patience.is_none() {
            drop(row);
            return Err(OfferError::TimedOut(item));
        }
        let (item, served) = self.wait(row, (Side::Put, Some(item)), patience);
        if served {
            return Ok(());
        }
        let item = item.expect("a putter that was not served holds its item");
        Err(if interrupt::interrupted() { OfferError::Interrupted(item) } else { OfferError::TimedOut(item) })
    }

    pub(super) fn poll(&self) -> Option<T> {
        self.relieve().ok()
    }

    /// Takes an item from a putter, waiting for one as long as there is patience.
    pub(super) fn take(&self, patience: Patience) -> Result<Option<T>, Interrupted> {
        interrupt::check()?;
        let row = match self.relieve() {
            Ok(item) => return Ok(Some(item)),
            Err(alone) => alone,
        };
        if patience.is_none() {
            return Ok(None);
        }
        let (item, served) = self.wait(row, (Side::Take, None), patience);
        if served {
            return Ok(Some(item.expect("a taker that was served holds its item")));
        }
        if interrupt::interrupted() { Err(Interrupted) } else { Ok(None) }
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
        let waiting = self.row.lock().len(Side::Put);
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
        let row = self.row.lock();
        let (takers, putters) = (row.len(Side::Take), row.len(Side::Put));
        drop(row);
        f.field("len", &self.len()).field("waiting_takers", &takers).field("waiting_putters", &putters);
    }

    /// Hands `item` to a taker that waits, or back with the lock still held, so that the caller can wait.
    #[inline]
    fn give(&self, item: T) -> Result<(), (T, BriefGuard<'_, Row<T>>)> {
        let mut row = self.row.lock();
        let mut item = Some(item);
        let Some(((), to_wake)) = row.serve(Side::Take, self.order, |hand| *hand = item.take()) else {
            return Err((item.expect("nobody was given it"), row));
        };
        self.have_met(row, to_wake);
        Ok(())
    }

    /// Relieves a putter that waits of its item, or returns the lock still held, so that the caller can wait.
    #[inline]
    fn relieve(&self) -> Result<T, BriefGuard<'_, Row<T>>> {
        let mut row = self.row.lock();
        let Some((item, to_wake)) = row.serve(Side::Put, self.order, Option::take) else { return Err(row) };
        self.have_met(row, to_wake);
        Ok(item.expect("a putter in the row holds its item"))
    }

    /// Blocks until served, interrupted or out of patience; true if served.
    fn wait(
        &self,
        row: BriefGuard<'_, Row<T>>,
        hand: (Side, Option<T>),
        patience: Patience,
    ) -> (Option<T>, bool) {
        let deadline = patience.deadline();
        let look = |me: &Seat<'_, T>| {
            self.backoff.snooze(|| me.is_settled() || is_past(deadline), || self.met.load(Ordering::Relaxed));
        };
        wait_in((&self.row, self.order), row, hand, deadline, look)
    }

    #[inline]
    fn have_met(&self, row: BriefGuard<'_, Row<T>>, to_wake: Option<Arc<Sleeper>>) {
        self.met.store(self.met.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        drop(row);
        if let Some(sleeper) = to_wake {
            sleeper.unpark();
            self.backoff.expect_woken();
        }
    }
}
