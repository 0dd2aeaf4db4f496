//! The work of a task, then what came of it, in one place in memory; and the word that says whose the place is.
//!
//! No lock guards the place. Whoever changes the state in the word gets it, or gives it away:
//!
//! - Pending: it has the work, and is nobody's. Who makes it anything else (to begin, to cancel, to abandon, to decorate) has
//!   the place from then on, and takes the work out. One exchange decides who.
//! - TimerTask, Running, finishing: it belongs to who made it so, and so it stays if the task is cancelled meanwhile: who cancels
//!   what runs changes the word and keeps away from the place. Before it gives the place away by the next exchange the owner
//!   puts the result there, or the work again.
//! - Succeeded, Failed: it has the result, and belongs to who has the [`ResultToken`], of which there is one. If the handle went
//!   before that, to the runner, who takes the result out again.
//! - Cancelled, Abandoned: there is nothing in it, or it is the owner's who has not noticed yet. Nobody else looks.
//!
//! So each exchange that gives the place away is a Release, and each look after which it is used is an Acquire.
//!
//! Who waits is told without the runner looking at a lock: a waiter is left under the lock of `state.rs`, and `WAITED` is set
//! under it too. The exchange that ends the task finds the bit or it does not. If it does, who ends the task takes that lock,
//! after the waiter was left, for it was held when the bit was set. If it does not, setting the bit comes later, and is told
//! that the task is done.
//!
//! This file is one of the rooms with `unsafe`; its outside is safe.

use std::fmt;
use std::mem::{self, ManuallyDrop};

use super::TaskState;
use crate::sync::backoff::Backoff;
use crate::sync::{AtomicU8, AtomicU32, Ordering, UnsafeCell};
use crate::task::TaskId;

/// The one right to the result of a task: the task's number, which no other has.
#[derive(Debug)]
pub(crate) struct ResultToken(TaskId);

impl ResultToken {
    /// For a task that is to be made.
    #[inline]
    pub(crate) fn fresh() -> ResultToken {
        ResultToken(TaskId::fresh())
    }

    /// The number of its task.
    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        self.0
    }
}

const PENDING: u8 = TaskState::Pending as u8;
const RUNNING: u8 = TaskState::Running as u8;
const CANCELLED: u8 = TaskState::Cancelled as u8;
/// Pending, but the work is elsewhere: it is being decorated.
const HELD: u8 = 6;
/// Abandoned, because it had waited for too long.
const EXPIRED: u8 = 7;
/// The bits of a state: a [`TaskState`], `HELD` or `EXPIRED`.
const STATE: u8 = 7;
/// Running, and too late to be cancelled: how it ends is decided, and about to be said. If cancelled it means nothing.
const FINISHING: u8 = 8;
/// Somebody waits, or has waited.
const WAITED: u8 = 16;
/// The handle went before the task was done.
const DETACHED: u8 = 32;

/// What the word said at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u8);

impl Word {
    pub(super) fn state(self) -> TaskState {
        match self.0 & STATE {
            HELD => TaskState::Pending,
            EXPIRED => TaskState::Abandoned,
            state => TaskState::from_u8(state),
        }
    }

    #[inline]
    pub(super) fn is_done(self) -> bool {
        !matches!(self.0 & STATE, PENDING | RUNNING | HELD)
    }

    pub(super) fn is_expired(self) -> bool {
        self.0 & STATE == EXPIRED
    }

    /// Whoever ends the task has somebody to wake, perhaps.
    pub(super) fn is_waited_for(self) -> bool {
        self.0 & WAITED != 0
    }

    /// It is over without a result, and nobody has waited for it: once nobody works on it any more, nothing is in the place.
    #[inline]
    pub(super) fn is_left_empty(self) -> bool {
        self.is_done() && !self.has_result() && !self.is_waited_for()
    }

    #[inline]
    fn has_result(self) -> bool {
        const SUCCEEDED: u8 = TaskState::Succeeded as u8;
        const FAILED: u8 = TaskState::Failed as u8;
        matches!(self.0 & STATE, SUCCEEDED | FAILED)
    }

    fn is_finishing(self) -> bool {
        self.0 & STATE == RUNNING && self.0 & FINISHING != 0
    }

    fn is_detached(self) -> bool {
        self.0 & DETACHED != 0
    }

    fn with(self, state: u8) -> u8 {
        self.0 & !STATE | state
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Word")
            .field("state", &self.state())
            .field("finishing", &self.is_finishing())
            .field("waited", &self.is_waited_for())
            .field("detached", &self.is_detached())
            .finish()
    }
}

/// In this order in memory: see `Core`.
#[repr(C)]
pub(super) struct Slot<W, R> {
    id: TaskId,
    /// A [`Word`].
    ///
    /// Pending -> Running                  `begin`
    /// Pending -> TimerTask -> Pending          `hold` and `TimerTask::put_back`
    /// Pending -> Cancelled, Abandoned     `cancel`, `abandon`
    /// TimerTask, Running -> Cancelled          `cancel`
    /// Running -> finishing                `Running::finish`; from here on it cannot be cancelled
    /// finishing -> Succeeded, Failed      `Finishing::end`
    /// finishing -> Expired                `Finishing::expire`: its work was dropped, not run
    /// finishing -> Pending                `Finishing::put_back`: a series waits for its next run
    ///
    /// Succeeded, Failed, Cancelled, Abandoned and Expired are final. The two bits on who waits and whether the handle is gone are
    /// set at any time, and never cleared.
    word: AtomicU8,
    /// The number of the pool that has it; 0: none.
    ///
    /// A periodic task enters its pool again while another thread cancels it:
    ///
    /// ```text
    /// entered_again                   try_cancel
    /// E1 store `home`                 C1 exchange the state (SeqCst, in `Slot::cancel`)
    /// E2 fence (SeqCst)               C2 load `home` (SeqCst)
    /// E3 load the state
    /// ```
    ///
    /// E3 sees the cancel, or C2 sees the pool. E2, C1 and C2 have one total order, in which C1 comes
    /// before C2. If E3 misses C1 then E2 is before C1; if C2 misses E1 then C2 is before E2. Both
    /// would make a circle. Model: `loom_tests::timed::cancel_against_queueing_a_series_again`.
    ///
    /// `entered` needs no fence: the worker that takes the task finds it cancelled.
    ///
    /// Here and not in `Core`, because there is room beside the word.
    home: AtomicU32,
    /// Not dropped by itself: of what was cancelled nothing is left there, which the word says without a look. See `clear`.
    place: ManuallyDrop<UnsafeCell<Holds<W, R>>>,
}

enum Holds<W, R> {
    Work(W),
    Result(R),
    Nothing,
}

// SAFETY: threads that share a slot move the work and the result through it, one at a time, as is told above; none of them
// gets a reference to what is inside. So what is asked for is that both may be sent.
unsafe impl<W: Send, R: Send> Sync for Slot<W, R> {}

/// What a cancel did.
pub(super) enum Cancel<W> {
    /// It was done before.
    TooLate,
    /// It had not begun: here is its work.
    Unstarted(W, Word),
    /// Its work is elsewhere: it runs, or is held.
    Started(Word),
}

impl<W, R> Slot<W, R> {
    #[inline(always)]
    pub(super) fn new(id: TaskId, work: W) -> Self {
        Slot {
            id,
            word: AtomicU8::new(PENDING),
            home: AtomicU32::new(0),
            place: ManuallyDrop::new(UnsafeCell::new(Holds::Work(work))),
        }
    }

    #[inline]
    pub(super) fn id(&self) -> TaskId {
        self.id
    }

    /// The number of the pool that has the task; 0: none.
    #[inline]
    pub(super) fn home(&self, order: Ordering) -> u64 {
        u64::from(self.home.load(order))
    }

    #[inline]
    pub(super) fn set_home(&self, home: u64) {
        let home = u32::try_from(home).expect("an `OwnerEntry` has 32 bits");
        self.home.store(home, Ordering::Relaxed);
    }

    /// Drops what is in the place. To be called before the slot is dropped, unless the word says that nothing is left there.
    pub(super) fn clear(&mut self) {
        let empty = ManuallyDrop::new(UnsafeCell::new(Holds::Nothing));
        drop(ManuallyDrop::into_inner(mem::replace(&mut self.place, empty)));
    }

    /// Who sees "done" sees what was written before.
    #[inline]
    pub(super) fn look(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Takes the work, to run it here. `None`: it is not there.
    #[inline]
    pub(super) fn begin(&self) -> Option<(W, Running<'_, W, R>)> {
        let (work, _) = self.leave_pending(RUNNING)?;
        Some((work, Running(self)))
    }

    /// Takes the work, to put another in its place. `None`: it is not there.
    pub(super) fn hold(&self) -> Option<(W, TimerTask<'_, W, R>)> {
        let (work, _) = self.leave_pending(HELD)?;
        Some((work, TimerTask(self)))
    }

    /// Ends a task that has not begun, and gives its work back. `None`: it has begun, or is done.
    pub(super) fn abandon(&self) -> Option<(W, Word)> {
        self.leave_pending(TaskState::Abandoned as u8)
    }

    /// Makes a pending task something else, and takes the work out, with the word as it was.
    #[inline]
    fn leave_pending(&self, to: u8) -> Option<(W, Word)> {
        let mut seen = Word(self.word.load(Ordering::Relaxed));
        while seen.0 & STATE == PENDING {
            // Acquire: pairs with who put the work there. Release: who finds it running sees what was written for that.
            match self.word.compare_exchange(seen.0, seen.with(to), Ordering::AcqRel, Ordering::Relaxed) {
                // SAFETY: it was pending, and we have made it something else.
                Ok(_) => return Some((unsafe { self.take_work() }, seen)),
                Err(now) => seen = Word(now),
            }
        }
        None
    }

    /// Cancels the task, unless it is done. Waits a moment if it is just about to be.
    pub(super) fn cancel(&self) -> Cancel<W> {
        let mut seen = self.look();
        loop {
            if seen.is_done() {
                return Cancel::TooLate;
            }
            if seen.is_finishing() {
                seen = self.look_when_said();
                continue;
            }
            // As in `leave_pending`. Acquire also makes the runner's mark visible. SeqCst: C1 of `home`.
            let to = seen.with(CANCELLED);
            match self.word.compare_exchange(seen.0, to, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) if seen.0 & STATE == PENDING => {
                    // SAFETY: it was pending, and we have made it something else.
                    return Cancel::Unstarted(unsafe { self.take_work() }, seen);
                }
                Ok(_) => return Cancel::Started(seen),
                Err(now) => seen = Word(now),
            }
        }
    }

    /// Between two exchanges of the runner, with a few instructions between them. The state would say "running", though a
    /// cancel can do nothing any more.
    #[cold]
    fn look_when_said(&self) -> Word {
        let mut backoff = Backoff::default();
        loop {
            let seen = self.look();
            if !seen.is_finishing() {
                return seen;
            }
            backoff.spin();
        }
    }

    /// Somebody is about to wait, and holds the lock under which waiters are left. False: it is done, nobody will look there.
    pub(super) fn announce_waiter(&self) -> bool {
        // Acquire: as in `look`. The waiter itself is under the lock.
        !Word(self.word.fetch_or(WAITED, Ordering::Acquire)).is_done()
    }

    /// The result of a task that has one, if it is still there.
    #[inline]
    pub(super) fn take(&self, claim: &mut ResultToken) -> Option<R> {
        assert_eq!(claim.0, self.id, "a claim is good for its own task");
        let seen = self.look();
        if !seen.has_result() || seen.is_detached() {
            return None;
        }
        // SAFETY: the task has ended with a result, and the runner has not found the claim gone, for else the bit would be
        // there. So the place is the claim's, and that is borrowed exclusively.
        unsafe { self.take_result() }
    }

    /// The claim is given up: gives the result back if there is one, and else it will be the runner's.
    pub(super) fn detach(&self, claim: &mut ResultToken) -> Option<R> {
        if self.look().is_done() {
            return self.take(claim);
        }
        assert_eq!(claim.0, self.id, "a claim is good for its own task");
        // Acquire: pairs with the Release in `end`, if that was first.
        let seen = Word(self.word.fetch_or(DETACHED, Ordering::Acquire));
        if !seen.has_result() || seen.is_detached() {
            return None;
        }
        // SAFETY: the task has ended with a result, before the bit was set: as in `take`.
        unsafe { self.take_result() }
    }

    /// # Safety
    /// The caller has made a pending task something else, and the place is still its own.
    #[inline]
    unsafe fn take_work(&self) -> W {
        // SAFETY: the place is the caller's.
        match unsafe { self.swap(Holds::Nothing) } {
            Holds::Work(work) => work,
            _ => unreachable!("a pending task has its work"),
        }
    }

    /// # Safety
    /// The place is the caller's.
    #[inline]
    unsafe fn take_result(&self) -> Option<R> {
        // SAFETY: the place is the caller's.
        match unsafe { self.swap(Holds::Nothing) } {
            Holds::Result(result) => Some(result),
            _ => None,
        }
    }

    /// As `swap`, but drops what was there: nothing.
    ///
    /// # Safety
    /// The place is the caller's.
    #[inline]
    unsafe fn put(&self, holds: Holds<W, R>) {
        // SAFETY: as in `swap`.
        self.place.with_mut(|place| unsafe { *place = holds });
    }

    /// # Safety
    /// The place is the caller's.
    #[inline]
    unsafe fn swap(&self, holds: Holds<W, R>) -> Holds<W, R> {
        // SAFETY: the place is the caller's, so nobody else reads it or writes to it meanwhile; and what was written before
        // is visible, for the caller got it by an Acquire.
        self.place.with_mut(|place| mem::replace(unsafe { &mut *place }, holds))
    }
}

/// The right to the place of a task that is being decorated.
pub(super) struct TimerTask<'a, W, R>(&'a Slot<W, R>);

impl<W, R> TimerTask<'_, W, R> {
    /// Makes the task pending again, with this work. Gives it back if the task has been cancelled.
    pub(super) fn put_back(self, work: W) -> Option<W> {
        let TimerTask(slot) = self;
        // SAFETY: who holds a task has its place.
        unsafe { slot.put(Holds::Work(work)) };
        let mut seen = Word(slot.word.load(Ordering::Relaxed));
        while seen.0 & STATE == HELD {
            // Release: pairs with who takes the work.
            let to = seen.with(PENDING);
            match slot.word.compare_exchange(seen.0, to, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return None,
                Err(now) => seen = Word(now),
            }
        }
        // SAFETY: it is cancelled, and the place still ours. There is the work that we have put there.
        Some(unsafe { slot.take_work() })
    }
}

/// The right to the place of a task that runs.
pub(super) struct Running<'a, W, R>(&'a Slot<W, R>);

impl<'a, W, R> Running<'a, W, R> {
    /// The closure has returned. `None`: the task was cancelled meanwhile. Otherwise it can't be any more, and who tries
    /// waits until we have said how it ended.
    #[inline]
    pub(super) fn finish(self) -> Option<Finishing<'a, W, R>> {
        // The bit is not set: only we set it, once in each run. An addition is one instruction where an "or" is a loop.
        // Acquire: after a cancel we see what was written before it.
        let seen = Word(self.0.word.fetch_add(FINISHING, Ordering::Acquire));
        (seen.0 & STATE == RUNNING).then_some(Finishing(self.0))
    }
}

/// The right to the place of a task that has run, and to say how that ended.
pub(super) struct Finishing<'a, W, R>(&'a Slot<W, R>);

impl<W, R> Finishing<'_, W, R> {
    /// Says that the task has ended in `state`, with this result. Gives it back if nobody can want it.
    #[inline]
    pub(super) fn end(self, state: TaskState, result: R) -> (Option<R>, Word) {
        let Finishing(slot) = self;
        // SAFETY: who runs a task has its place.
        unsafe { slot.put(Holds::Result(result)) };
        // Release: pairs with `look`, after which the result is taken.
        let seen = slot.go_from_finishing(state as u8, Ordering::Release);
        if !seen.is_detached() {
            return (None, seen);
        }
        // SAFETY: the handle has gone before, and has left the place to us.
        (unsafe { slot.take_result() }, seen)
    }

    /// Says that the task has ended without a run: the place is empty, and nobody looks there.
    pub(super) fn expire(self) -> Word {
        let Finishing(slot) = self;
        // Release: as in `end`, so that who sees the end sees what was done before.
        slot.go_from_finishing(EXPIRED, Ordering::Release)
    }

    /// Makes a series pending again, with this work.
    pub(super) fn put_back(self, work: W) {
        let Finishing(slot) = self;
        // SAFETY: who runs a task has its place.
        unsafe { slot.put(Holds::Work(work)) };
        // Release: pairs with who takes the work.
        slot.go_from_finishing(PENDING, Ordering::Release);
    }
}

impl<W, R> Slot<W, R> {
    /// For who runs it: in this state nobody else changes it, so the difference can be added, and leaves the bits alone.
    #[inline]
    fn go_from_finishing(&self, state: u8, order: Ordering) -> Word {
        Word(self.word.fetch_add(state.wrapping_sub(RUNNING | FINISHING), order))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::{Cancel, ResultToken, Slot};
    use crate::task::TaskState;

    /// Counts how many there are, by its references.
    type Thing = Arc<()>;

    /// A slot that is cleared at its end.
    struct Cleared(Slot<Thing, Thing>);

    impl std::ops::Deref for Cleared {
        type Target = Slot<Thing, Thing>;

        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }

    impl Drop for Cleared {
        fn drop(&mut self) {
            self.0.clear();
        }
    }

    fn slot(work: &Thing) -> (Cleared, ResultToken) {
        let claim = ResultToken::fresh();
        (Cleared(Slot::new(claim.id(), Arc::clone(work))), claim)
    }

    /// One round of everybody at once: who runs, who cancels, and who has the claim and looks for the result or gives it up.
    fn round(thing: &Thing, waits: bool) {
        let (slot, mut claim) = slot(thing);
        let (ran, cancelled, taken) = thread::scope(|s| {
            let runner = s.spawn(|| {
                let (work, running) = slot.begin()?;
                let (unwanted, _) = running.finish()?.end(TaskState::Succeeded, work);
                Some(unwanted)
            });
            let canceller = s.spawn(|| !matches!(slot.cancel(), Cancel::TooLate));
            let claimant = s.spawn(|| {
                while waits && !slot.look().is_done() {
                    thread::yield_now();
                }
                if waits { slot.take(&mut claim) } else { slot.detach(&mut claim) }
            });
            (runner.join().unwrap(), canceller.join().unwrap(), claimant.join().unwrap())
        });
        assert!(slot.look().is_done());
        assert_eq!(ran.is_some(), !cancelled, "one of them decides");
        assert_eq!(ran.flatten().is_some() as usize + taken.is_some() as usize, usize::from(!cancelled));
        drop((slot, taken));
        assert_eq!(Arc::strong_count(thing), 1, "nothing is kept, and nothing dropped twice");
    }

    #[test]
    fn the_result_goes_to_exactly_one_of_those_who_may_have_it() {
        const ROUNDS: usize = if cfg!(miri) { 10 } else { 500 };
        let thing = Thing::default();
        for waits in [true, false] {
            (0..ROUNDS).for_each(|_| round(&thing, waits));
        }
    }

    #[test]
    fn work_that_is_held_is_not_there_until_it_is_put_back() {
        let thing = Thing::default();
        let (slot, _claim) = slot(&thing);
        let (work, held) = slot.hold().unwrap();
        assert_eq!(slot.look().state(), TaskState::Pending);
        assert!(slot.begin().is_none() && slot.hold().is_none() && slot.abandon().is_none());
        assert!(held.put_back(work).is_none());
        let (work, held) = slot.hold().unwrap();
        assert!(matches!(slot.cancel(), Cancel::Started(_)));
        assert!(held.put_back(work).is_some());
        assert_eq!(slot.look().state(), TaskState::Cancelled);
        assert_eq!(Arc::strong_count(&thing), 1);
    }

    #[test]
    fn a_series_comes_back_and_keeps_who_waits() {
        let thing = Thing::default();
        let (slot, mut claim) = slot(&thing);
        assert!(slot.announce_waiter());
        for _ in 0..2 {
            let (work, running) = slot.begin().unwrap();
            running.finish().unwrap().put_back(work);
            assert_eq!(slot.look().state(), TaskState::Pending);
        }
        let (work, running) = slot.begin().unwrap();
        let (unwanted, seen) = running.finish().unwrap().end(TaskState::Failed, work);
        assert!(unwanted.is_none() && seen.is_waited_for());
        assert!(!slot.announce_waiter(), "too late");
        assert!(slot.take(&mut claim).is_some() && slot.take(&mut claim).is_none());
        assert_eq!(slot.look().state(), TaskState::Failed);
    }

    #[test]
    #[should_panic(expected = "a claim is good for its own task")]
    fn a_claim_to_another_task_is_of_no_use() {
        let thing = Thing::default();
        let ((slot, _claim), (_other_slot, mut other)) = (slot(&thing), slot(&thing));
        let (work, running) = slot.begin().unwrap();
        running.finish().unwrap().end(TaskState::Succeeded, work);
        slot.take(&mut other);
    }
}
