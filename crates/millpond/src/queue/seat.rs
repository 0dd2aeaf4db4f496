//! Where threads wait for a meeting: a seat for each, and the row of them.
//!
//! A seat is on the stack of the thread that waits, and the row has pointers to them. So a wait allocates nothing and counts
//! no references, and a hand-over between two cores takes little more than to carry three cache lines over: the row with
//! its lock, then the seat there and back.
//!
//! This file is one of the rooms with `unsafe`; its outside is safe. What all of it rests on:
//! 1. A pointer is in the row only while the thread that waits is inside of [`wait_in`], which has the seat: it ends with the
//!    seat settled or taken out of the row.
//! 2. Who serves takes the pointer out of the row and settles the seat without letting go of the lock in between, and does
//!    not touch the seat after it has settled it. So if a seat is in the row, for who holds the lock, it is there, and it is
//!    not settled.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::time::Instant;

use crate::brief::{Brief, BriefGuard};
use crate::interrupt::Sleeper;
use crate::sync::{Arc, AtomicU8, Ordering, SharedCell};

/// What somebody has come for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Take,
    Put,
}

/// Who is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    FirstFirst,
    LastFirst,
}

/// The owner looks whether it is served.
const LOOKING: u8 = 0;
/// The owner sleeps, or is about to: who serves it wakes it.
const ASLEEP: u8 = 1;
/// It has been served. The last state.
const SETTLED: u8 = 2;

/// A thread that waits, its owner, and what is handed over between it and the one who serves it. In a line of its own.
#[repr(align(64))]
pub(super) struct Seat<'a, T> {
    /// LOOKING -> ASLEEP             the owner, by an exchange
    /// LOOKING | ASLEEP -> SETTLED   who serves it
    ///
    /// As long as the seat is in the row `item` belongs to who holds the lock of the row; so does `to_wake`, if the seat is
    /// `ASLEEP`. All else is the owner's. Each state is set with Release and read with Acquire, so who has something next sees
    /// what the other has done with it.
    state: AtomicU8,
    /// Of one who wants to put: the item, until it is served. Of one who wants to take: the item, once it is served.
    item: SharedCell<Option<T>>,
    /// The owner, once it is `ASLEEP`. The one who serves it takes it away: to wake somebody who may be gone.
    to_wake: SharedCell<Option<Arc<Sleeper>>>,
    /// The owner, to see whether it is interrupted, and to wake it.
    owner: &'a Arc<Sleeper>,
}

impl<T> Seat<'_, T> {
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.state.load(Ordering::Acquire) == SETTLED
    }

    /// Blocks until settled, interrupted or past `deadline`. Only the owner, and only once.
    ///
    /// Leaves the interrupt flag as it is: as long as the seat is in the row the flag tells others not to serve it. Once it
    /// is out the owner takes the flag, unless it was served: then it is for the next call.
    fn sleep(&self, deadline: Option<Instant>) {
        // SAFETY: the seat is not ASLEEP, so the cell is the owner's.
        self.to_wake.with_mut(|to_wake| unsafe { *to_wake = Some(Arc::clone(self.owner)) });
        let asleep = self.state.compare_exchange(LOOKING, ASLEEP, Ordering::Release, Ordering::Acquire);
        if asleep.is_ok() {
            let over = || self.is_settled() || self.owner.is_interrupted();
            self.owner.wait_through_interrupts(deadline, over);
        }
    }
}

/// The threads that wait. Guarded by the lock of the meeting.
///
/// As a rule all of them wait on one side: where one could serve another it does. But those who are interrupted and about
/// to leave are served by nobody.
pub(super) struct Row<T> {
    /// Who is to be served first.
    first: Option<Waiting<T>>,
    /// Those who wait too, by order of arrival.
    others: VecDeque<Waiting<T>>,
}

struct Waiting<T> {
    side: Side,
    /// See the top of the file. The lifetime of what the seat borrows is longer than that of the seat.
    seat: NonNull<Seat<'static, T>>,
}

// SAFETY: a row is the right to reach the seats in it, whose items are handed to the threads that have the row, and whose
// other parts may be used from any thread.
unsafe impl<T: Send> Send for Row<T> {}

impl<T> Waiting<T> {
    /// One whose interrupt came first is not served: it is about to leave with an error, as a call that finds the flag
    /// set does.
    ///
    /// # Safety
    /// The caller holds the lock of the row, and `self` is in it.
    unsafe fn is_next(&self, side: Side) -> bool {
        // SAFETY: the seat is in the row, so it is there.
        self.side == side && !unsafe { (*self.seat.as_ptr()).owner.is_interrupted() }
    }

    /// Marks the seat as served. Returns whom to wake once the lock is free; `None`: it does not sleep.
    ///
    /// # Safety
    /// The caller holds the lock of the row, and has taken `self` out of it since it has it.
    unsafe fn settle(self) -> Option<Arc<Sleeper>> {
        let seat = self.seat.as_ptr();
        // SAFETY: the seat was in the row, so it is there until it is settled, which is the last that is done to it here.
        // If it is ASLEEP then `to_wake` is ours.
        unsafe {
            let looking =
                (*seat).state.compare_exchange(LOOKING, SETTLED, Ordering::Release, Ordering::Acquire);
            if looking.is_ok() {
                return None;
            }
            let to_wake = (*seat).to_wake.with_mut(|to_wake| (*to_wake).take());
            (*seat).state.store(SETTLED, Ordering::Release);
            to_wake
        }
    }
}

impl<T> Row<T> {
    pub(super) fn new() -> Self {
        Row { first: None, others: VecDeque::new() }
    }

    /// Serves who is next on `side`, if anybody: `serve` is given what it has in its hand. Also returns whom to wake once the
    /// lock is free.
    #[inline]
    pub(super) fn serve<R>(
        &mut self,
        side: Side,
        order: Order,
        serve: impl FnOnce(&mut Option<T>) -> R,
    ) -> Option<(R, Option<Arc<Sleeper>>)> {
        let next = self.next(side, order)?;
        // SAFETY: the seat was in the row, so it is there, and its item belongs to who holds the lock: the caller, who has
        // a `&mut` of the row.
        let result = unsafe { (*next.seat.as_ptr()).item.with_mut(|item| serve(&mut *item)) };
        // SAFETY: as above.
        Some((result, unsafe { next.settle() }))
    }

    /// Takes out who is to be served next.
    #[inline]
    fn next(&mut self, side: Side, order: Order) -> Option<Waiting<T>> {
        let first = self.first.as_ref()?;
        // SAFETY: it is in the row, and the caller has a `&mut` of that.
        if unsafe { first.is_next(side) } {
            return self.remove_first(order);
        }
        self.next_of_others(side, order)
    }

    #[cold]
    fn next_of_others(&mut self, side: Side, order: Order) -> Option<Waiting<T>> {
        // SAFETY: as in `next`.
        let is_next = |waiting: &Waiting<T>| unsafe { waiting.is_next(side) };
        let mut others = self.others.iter();
        let at = if order == Order::LastFirst { others.rposition(is_next) } else { others.position(is_next) };
        self.others.remove(at?)
    }

    #[inline]
    fn remove_first(&mut self, order: Order) -> Option<Waiting<T>> {
        let next = if order == Order::LastFirst { self.others.pop_back() } else { self.others.pop_front() };
        std::mem::replace(&mut self.first, next)
    }

    fn push(&mut self, order: Order, waiting: Waiting<T>) {
        match &mut self.first {
            None => self.first = Some(waiting),
            Some(first) if order == Order::LastFirst => {
                self.others.push_back(std::mem::replace(first, waiting))
            }
            Some(_) => self.others.push_back(waiting),
        }
    }

    /// Takes `seat` out, if it is here.
    fn leave(&mut self, order: Order, seat: NonNull<Seat<'static, T>>) {
        if self.first.as_ref().is_some_and(|first| first.seat == seat) {
            self.remove_first(order);
        } else if let Some(at) = self.others.iter().position(|other| other.seat == seat) {
            self.others.remove(at);
        }
    }

    /// How many wait on `side`.
    pub(super) fn len(&self, side: Side) -> usize {
        self.first.iter().chain(&self.others).filter(|waiting| waiting.side == side).count()
    }
}

/// Has the calling thread wait in the row, of which it holds the lock, until it is served, interrupted or past `deadline`.
/// Before it sleeps it calls `look`.
///
/// What it then has in its hand; true if it was served.
pub(super) fn wait_in<T>(
    (row, order): (&Brief<Row<T>>, Order),
    mut locked: BriefGuard<'_, Row<T>>,
    (side, item): (Side, Option<T>),
    deadline: Option<Instant>,
    look: impl FnOnce(&Seat<'_, T>),
) -> (Option<T>, bool) {
    Sleeper::with_current(|owner| {
        let seat = Seat {
            state: AtomicU8::new(LOOKING),
            item: SharedCell::new(item),
            to_wake: SharedCell::new(None),
            owner,
        };
        let pointer = NonNull::from(&seat).cast::<Seat<'static, T>>();
        locked.push(order, Waiting { side, seat: pointer });
        let leaving = Leaving { row, order, seat: &seat, pointer };
        drop(locked);

        look(&seat);
        if !seat.is_settled() {
            seat.sleep(deadline);
        }
        drop(leaving);
        // SAFETY: the seat is out of the row, and who took it out has settled it, if it was not us: it is all ours.
        let item = seat.item.with_mut(|item| unsafe { (*item).take() });
        (item, seat.is_settled())
    })
}

/// Sees to it that the seat is out of the row and nobody else touches it, also if something panics.
struct Leaving<'a, 'b, T> {
    row: &'a Brief<Row<T>>,
    order: Order,
    seat: &'a Seat<'b, T>,
    pointer: NonNull<Seat<'static, T>>,
}

impl<T> Drop for Leaving<'_, '_, T> {
    fn drop(&mut self) {
        // Who serves it settles it before it frees the lock: once we have had the lock, it is settled or was here.
        if !self.seat.is_settled() {
            self.row.lock().leave(self.order, self.pointer);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::queue::{BlockingQueue, SynchronousQueue};
    use crate::sync::{AtomicUsize, Ordering};

    #[test]
    fn items_go_from_hand_to_hand_and_who_leaves_takes_its_own_along() {
        const EACH: usize = if cfg!(miri) { 8 } else { 1000 };
        const A_MOMENT: Duration = Duration::from_micros(20);
        for queue in [SynchronousQueue::new(), SynchronousQueue::fair()] {
            let (taken, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        for n in 1..=EACH {
                            let mut item = Box::new(n); // on the heap: to be lost or dropped twice is an error
                            while let Err(error) = queue.offer_timeout(item, A_MOMENT) {
                                item = error.into_inner();
                            }
                        }
                    });
                    s.spawn(|| {
                        while taken.load(Ordering::Relaxed) < 2 * EACH {
                            if let Ok(Some(item)) = queue.poll_timeout(A_MOMENT) {
                                sum.fetch_add(*item, Ordering::Relaxed);
                                taken.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            assert_eq!(sum.into_inner(), EACH * (EACH + 1));
            assert_eq!(queue.poll(), None);
        }
    }
}
