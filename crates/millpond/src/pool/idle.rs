//! Workers without work: who sleeps, and who is to be woken.
//!
//! Waking is what costs, so a submit wakes at most one worker, and none while one that was woken is still on its
//! way: that one looks at the queue, and if there is more than it can take, wakes the next. The last to fall asleep is
//! the first to be woken: it is the warm one, and the cold ones age out. A worker that is woken gets its task along, so
//! that a sleeping worker counts as room: a bounded pool takes as many tasks as it has idle workers and places.
//!
//! The handshake
//!
//! ```text
//! submit                               worker
//! S1 put the task into the queue       W1 list myself, raise `sleeping`
//! S2 order                             W2 order
//! S3 look at `sleeping`, `calling`     W3 look at the queue; sleep only if it is empty
//! ```
//!
//! To order is to take one's turn with the lock of the queue's tail, under which S1 to S3 happen, or to fence (see
//! `Feed::order`). One of the two turns comes first. If S2 does, W3 sees the task. If W2 does, S3 sees the sleeper, and
//! calls it unless `calling` says that another one is on its way; that one lowers `calling` before its own
//! turn and look (W4, W5 below), so by the same argument either it sees the task or we see `calling` lowered.
//! Model: `loom_tests::pool::announce_idle_against_publish`.

use std::time::Instant;

use crate::interrupt::Wake;
use crate::interrupt::wait::{Key, OnInterrupt, WaitCell, WaitList};
use crate::sync::backoff::SearchBudget;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::task::Task;

/// The park slot of one worker. A waker stores a task here before it notifies the worker.
#[derive(Debug)]
pub(super) struct Seat {
    cell: WaitCell,
    /// The task that came with the wake-up, if one did. Filled before the cell is notified.
    handed: Mutex<Option<Task>>,
}

impl Seat {
    /// A seat for the calling thread.
    pub(super) fn for_this_thread() -> Arc<Seat> {
        Arc::new(Seat { cell: WaitCell::for_this_thread(), handed: Mutex::new(None) })
    }
}

/// How a sleep ended.
pub(super) enum Rest {
    /// Somebody wants us to look around.
    Called,
    /// A task was put into our hands. There may be more in the queue.
    Handed(Task),
    /// The time is over.
    TimedOut,
}

/// The list of sleeping workers.
#[derive(Debug)]
pub(super) struct Idle {
    list: Mutex<List>,
    /// The length of the list, for a look without the lock. Written under the lock.
    sleeping: AtomicUsize,
    /// Workers that were called and have not looked at the queue yet, and the one that looks for work.
    calling: AtomicUsize,
    /// If one looks for work: how many tasks may be put before it counts as late. Otherwise `NOBODY`, or old.
    patience: AtomicUsize,
    /// How long a worker looks for work before it parks.
    search: SearchBudget,
}

/// For [`Idle::patience`]: nobody looks for work.
const NOBODY: usize = usize::MAX;
/// A worker that looks finds a task sooner than so many others are put, unless it had to leave its processor to others.
const PATIENCE: usize = if cfg!(loom) { 1 } else { 16 };

impl Default for Idle {
    fn default() -> Self {
        Idle {
            list: Mutex::new(List::default()),
            sleeping: AtomicUsize::new(0),
            calling: AtomicUsize::new(0),
            patience: AtomicUsize::new(NOBODY),
            search: SearchBudget::default(),
        }
    }
}

/// How a worker sleeps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Nap {
    /// When it wakes by itself.
    pub(super) deadline: Option<Instant>,
    /// It waits for the end of the keep-alive time.
    pub(super) timed: bool,
    /// It watches the time for others, and is called last; see `timed.rs`.
    pub(super) leads: bool,
    /// It is past its keep-alive time, and stays only because the queue is not empty.
    pub(super) stays: bool,
}

#[derive(Debug, Default)]
struct List {
    /// The newest is woken first.
    seats: WaitList<(Arc<Seat>, Nap)>,
    /// Tasks handed over so far.
    handed: u64,
}

/// The number of workers that sleep, and of those that do it with a time-out.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParkedWorkers {
    /// All that sleep: nobody has called them, and nothing was handed to them.
    pub all: usize,
    /// Those among them that will wake by themselves, at the end of the keep-alive time.
    pub timed: usize,
}

impl Idle {
    /// Sleeps until called, or until `nap.deadline`. `look_again` is asked after we are on the list (W2, W3), and true keeps
    /// us awake: it must see everything for which somebody would call us. `expect_task`: tasks come by hand, so it is
    /// here, on the list, that a short wait before the sleep pays.
    pub(super) fn rest(
        &self,
        seat: &Arc<Seat>,
        nap: Nap,
        expect_task: bool,
        look_again: impl FnOnce() -> bool,
    ) -> Rest {
        let key = self.enlist(seat, nap); // W1
        if look_again() && self.withdraw(key) {
            return Rest::Called;
        }
        let called = (expect_task && self.search.search(|| seat.cell.is_notified()))
            || seat.cell.wait(nap.deadline, OnInterrupt::Keep) == Wake::Ready;
        if !called && self.withdraw(key) {
            return Rest::TimedOut;
        }
        self.answer(seat)
    }

    pub(super) fn enlist(&self, seat: &Arc<Seat>, nap: Nap) -> Key {
        let mut list = self.list.lock();
        let key = list.seats.push((Arc::clone(seat), nap));
        self.sleeping.store(list.seats.len(), Ordering::Relaxed);
        key
    }

    /// Takes the calling worker off the list. False: it is not there, because it is being woken.
    fn withdraw(&self, key: Key) -> bool {
        let mut list = self.list.lock();
        let found = list.seats.remove(key).is_some();
        self.sleeping.store(list.seats.len(), Ordering::Relaxed);
        found
    }

    /// Answers the wake-up that was, or is just being, made.
    fn answer(&self, seat: &Seat) -> Rest {
        seat.cell.wait(None, OnInterrupt::Keep);
        seat.cell.reset();
        self.calling.fetch_sub(1, Ordering::Relaxed); // W4; W5 is up to the caller
        match seat.handed.lock().take() {
            Some(task) => Rest::Handed(task),
            None => Rest::Called,
        }
    }

    /// Looks for work for a short while, before we sleep. Whoever looks counts as called: a task that is put
    /// meanwhile wakes nobody. So as one who was called it lowers `calling` (W4), and the caller does the rest: W5, a last
    /// look, and if there is a task it passes the call on.
    pub(super) fn look_for(&self, found: impl FnMut() -> bool) -> bool {
        // More than one that looks would only keep the processors from those who bring work.
        if self.calling.load(Ordering::Relaxed) > 0 {
            return false;
        }
        self.patience.store(PATIENCE, Ordering::Relaxed);
        self.calling.fetch_add(1, Ordering::Relaxed);
        let found = self.search.search(found);
        self.patience.store(NOBODY, Ordering::Relaxed);
        self.calling.fetch_sub(1, Ordering::Relaxed); // W4
        found
    }

    /// After a task was taken: if there is another, somebody should look at it. The one who put it there may have
    /// relied on us, whom it saw on the way.
    #[inline]
    pub(super) fn pass_on(&self, another_waits: impl FnOnce() -> bool, take: impl FnOnce() -> Option<Task>) {
        if self.may_be_called() && another_waits() {
            self.call_with(take);
        }
    }

    /// After a task was put into the queue: makes sure that somebody who is awake will look at it. The caller has
    /// done S2. Whoever is called gets the next task along, which `take` takes: so it is out of the queue at once,
    /// and not only when the worker has woken up.
    pub(super) fn call_one(&self, take: impl FnOnce() -> Option<Task>) {
        if self.may_be_called() {
            self.call_with(take);
        }
    }

    /// S3: somebody sleeps, and nobody is on the way, or nobody but one who is late. Relaxed: S2 orders them.
    #[inline]
    pub(super) fn may_be_called(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed) != 0
            && match self.calling.load(Ordering::Relaxed) {
                0 => true,
                1 => self.patience.load(Ordering::Relaxed) == 0,
                _ => false,
            }
    }

    /// As `may_be_called`, for who has put a task: another one for whoever looks.
    ///
    /// Who looks yields between its looks, and if its processor has other work it does not come back soon, though it counts as
    /// called. Then a sleeper is called all the same. One call too many does no harm, so nothing rests on the count.
    #[inline]
    pub(super) fn may_be_called_for_another(&self) -> bool {
        self.someone_sleeps() && self.may_be_called_if_late()
    }

    /// The rest of it, if somebody sleeps.
    fn may_be_called_if_late(&self) -> bool {
        let may = self.may_be_called();
        if !may {
            let patience = self.patience.load(Ordering::Relaxed);
            if (1..NOBODY).contains(&patience) {
                self.patience.store(patience - 1, Ordering::Relaxed);
            }
        }
        may
    }

    /// Calls this worker, if it sleeps.
    pub(super) fn call_seat(&self, seat: &Arc<Seat>) {
        self.call_those(|listed, _| Arc::ptr_eq(listed, seat));
    }

    /// Calls all that sleep in this way.
    pub(super) fn call_if(&self, wanted: impl Fn(&Nap) -> bool) {
        self.call_those(|_, nap| wanted(nap));
    }

    fn call_those(&self, wanted: impl Fn(&Arc<Seat>, &Nap) -> bool) {
        let mut list = self.list.lock();
        let called = list.seats.take_all(|(seat, nap)| wanted(seat, nap));
        self.sleeping.store(list.seats.len(), Ordering::Relaxed);
        self.calling.fetch_add(called.len(), Ordering::Relaxed);
        drop(list);
        for (seat, _) in called {
            seat.cell.notify();
        }
    }

    /// When the queue is full: relieves it of its next task, if somebody sleeps who can have it.
    pub(super) fn relieve(&self, take: impl FnOnce() -> Option<Task>) -> bool {
        self.sleeping.load(Ordering::Relaxed) != 0 && self.call_with(take)
    }

    #[inline(never)]
    fn call_with(&self, take: impl FnOnce() -> Option<Task>) -> bool {
        let mut list = self.list.lock();
        // At most two workers watch the time, so this looks at three entries at most.
        let newest = list.seats.take_last(|(_, nap)| !nap.leads);
        let Some((seat, _)) = newest.or_else(|| list.seats.pop_last()) else {
            return false;
        };
        self.sleeping.store(list.seats.len(), Ordering::Relaxed);
        self.calling.fetch_add(1, Ordering::Relaxed);
        if self.patience.load(Ordering::Relaxed) == 0 {
            self.patience.store(16 * PATIENCE, Ordering::Relaxed); // one is enough, as a rule
        }
        drop(list);
        *seat.handed.lock() = take();
        seat.cell.notify();
        true
    }

    /// Wakes all: a setting or the run state has changed. A worker that enlists after this must itself see the
    /// change: it looks after it has held the same lock.
    pub(super) fn call_all(&self) {
        self.call_those(|_, _| true);
    }

    /// Puts `task` into the hands of a sleeping worker; gives it back if there is none.
    pub(super) fn hand_over(&self, task: Task) -> Result<(), Task> {
        let mut list = self.list.lock();
        let Some((seat, _)) = list.seats.pop_last() else {
            return Err(task);
        };
        self.sleeping.store(list.seats.len(), Ordering::Relaxed);
        self.calling.fetch_add(1, Ordering::Relaxed);
        list.handed += 1;
        drop(list);
        *seat.handed.lock() = Some(task);
        seat.cell.notify();
        Ok(())
    }

    /// So many are on their way to the queue.
    pub(super) fn called(&self) -> usize {
        self.calling.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn someone_sleeps(&self) -> bool {
        self.sleepers() > 0
    }

    /// So many sleep, or are about to.
    #[inline]
    pub(super) fn sleepers(&self) -> usize {
        self.sleeping.load(Ordering::Relaxed)
    }

    /// Tasks handed over so far.
    pub(super) fn handed(&self) -> u64 {
        self.list.lock().handed
    }

    pub(super) fn parked(&self) -> ParkedWorkers {
        let list = self.list.lock();
        ParkedWorkers { all: list.seats.len(), timed: list.seats.iter().filter(|(_, nap)| nap.timed).count() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Whether a submitter calls after each of so many tasks, all put between two looks of one who looks.
    fn calls_between_two_looks(tasks: usize) -> Vec<bool> {
        let (idle, sleeper) = (Idle::default(), Seat::for_this_thread());
        idle.enlist(&sleeper, Nap::default());
        let mut calls = Vec::new();
        let found = idle.look_for(|| {
            calls = (0..tasks).map(|_| idle.may_be_called_for_another()).collect();
            true
        });
        assert!(found && idle.may_be_called(), "nobody looks any more");
        calls
    }

    #[test]
    fn nobody_is_called_while_one_looks() {
        assert_eq!(calls_between_two_looks(PATIENCE), [false; PATIENCE]);
    }

    #[test]
    fn a_sleeper_is_called_if_who_looks_does_not_come_back() {
        assert_eq!(calls_between_two_looks(PATIENCE + 2)[PATIENCE..], [true, true]);
    }

    // Four workers that all came for tasks of nothing made bursts slower by a half.
    #[test]
    fn the_next_sleeper_is_called_only_after_many_more_tasks() {
        let idle = Idle::default();
        let seats = [Seat::for_this_thread(), Seat::for_this_thread()];
        seats.iter().for_each(|seat| _ = idle.enlist(seat, Nap::default()));
        let mut called = Vec::new();
        idle.look_for(|| {
            for task in 0..50 * PATIENCE {
                if idle.may_be_called_for_another() {
                    idle.call_one(|| None);
                    seats.iter().rev().filter(|seat| seat.cell.is_notified()).for_each(|seat| {
                        idle.answer(seat);
                    });
                    called.push(task);
                }
            }
            true
        });
        assert_eq!(called, [PATIENCE, 17 * PATIENCE + 1]);
    }
}
