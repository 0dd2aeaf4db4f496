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
//! S3 look at `sleeping`, `waking`     W3 look at the queue; sleep only if it is empty
//! ```
//!
//! To order is to take one's turn with the lock of the queue's tail, under which S1 to S3 happen, or to fence (see
//! `TaskQueue::order`). One of the two turns comes first. If S2 does, W3 sees the task. If W2 does, S3 sees the sleeper, and
//! calls it unless `waking` says that another one is on its way; that one lowers `waking` before its own
//! turn and look (W4, W5 below), so by the same argument either it sees the task or we see `waking` lowered.
//! Model: `loom_tests::pool::announce_idle_against_publish`.

use std::time::Instant;

use crate::interrupt::Wake;
use crate::interrupt::wait::{Key, OnInterrupt, WaitCell, WaitList};
use crate::sync::backoff::SearchBudget;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::task::Task;

/// The park slot of one worker. A waker stores a task here before it notifies the worker.
#[derive(Debug)]
pub(super) struct ParkSlot {
    cell: WaitCell,
    /// The task that came with the wake-up, if one did. Filled before the cell is notified.
    handed: Mutex<Option<Task>>,
}

impl ParkSlot {
    /// A seat for the calling thread.
    pub(super) fn for_this_thread() -> Arc<ParkSlot> {
        Arc::new(ParkSlot { cell: WaitCell::for_this_thread(), handed: Mutex::new(None) })
    }
}

/// How a sleep ended.
pub(super) enum WakeReason {
    /// Somebody wants us to look around.
    Called,
    /// A task was put into our hands. There may be more in the queue.
    Assigned(Task),
    /// The time is over.
    TimedOut,
}

/// The list of sleeping workers.
#[derive(Debug)]
pub(super) struct IdleWorkers {
    list: Mutex<List>,
    /// The length of the list, for a look without the lock. Written under the lock.
    sleeping: AtomicUsize,
    /// Workers that were called and have not looked at the queue yet, and the one that looks for work.
    waking: AtomicUsize,
    /// If one looks for work: how many tasks may be put before it counts as late. Otherwise `NOBODY`, or old.
    search_budget: AtomicUsize,
    /// How long a worker looks for work before it parks.
    search: SearchBudget,
}

/// For [`IdleWorkers::search_budget`]: nobody looks for work.
const NOBODY: usize = usize::MAX;
/// A worker that looks finds a task sooner than so many others are put, unless it had to leave its processor to others.
const SEARCH_BUDGET: usize = if cfg!(loom) { 1 } else { 16 };

impl Default for IdleWorkers {
    fn default() -> Self {
        IdleWorkers {
            list: Mutex::new(List::default()),
            sleeping: AtomicUsize::new(0),
            waking: AtomicUsize::new(0),
            search_budget: AtomicUsize::new(NOBODY),
            search: SearchBudget::default(),
        }
    }
}

/// How a worker sleeps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ParkOptions {
    /// When it wakes by itself.
    pub(super) deadline: Option<Instant>,
    /// It waits for the end of the keep-alive time.
    pub(super) timed: bool,
    /// It watches the time for others, and is called last; see `delayed.rs`.
    pub(super) leads: bool,
    /// It is past its keep-alive time, and stays only because the queue is not empty.
    pub(super) stays: bool,
}

#[derive(Debug, Default)]
struct List {
    /// The newest is woken first.
    slots: WaitList<(Arc<ParkSlot>, ParkOptions)>,
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

impl IdleWorkers {
    /// Sleeps until called, or until `options.deadline`. `look_again` is asked after we are on the list (W2, W3), and true keeps
    /// us awake: it must see everything for which somebody would call us. `expect_task`: tasks come by hand, so it is
    /// here, on the list, that a short wait before the sleep pays.
    pub(super) fn rest(
        &self,
        slot: &Arc<ParkSlot>,
        options: ParkOptions,
        expect_task: bool,
        look_again: impl FnOnce() -> bool,
    ) -> WakeReason {
        let key = self.enlist(slot, options); // W1
        if look_again() && self.withdraw(key) {
            return WakeReason::Called;
        }
        let called = (expect_task && self.search.search(|| slot.cell.is_notified()))
            || slot.cell.wait(options.deadline, OnInterrupt::Keep) == Wake::Ready;
        if !called && self.withdraw(key) {
            return WakeReason::TimedOut;
        }
        self.answer(slot)
    }

    pub(super) fn enlist(&self, slot: &Arc<ParkSlot>, options: ParkOptions) -> Key {
        let mut list = self.list.lock();
        let key = list.slots.push((Arc::clone(slot), options));
        self.sleeping.store(list.slots.len(), Ordering::Relaxed);
        key
    }

    /// Takes the calling worker off the list. False: it is not there, because it is being woken.
    fn withdraw(&self, key: Key) -> bool {
        let mut list = self.list.lock();
        let found = list.slots.remove(key).is_some();
        self.sleeping.store(list.slots.len(), Ordering::Relaxed);
        found
    }

    /// Answers the wake-up that was, or is just being, made.
    fn answer(&self, slot: &ParkSlot) -> WakeReason {
        slot.cell.wait(None, OnInterrupt::Keep);
        slot.cell.reset();
        self.waking.fetch_sub(1, Ordering::Relaxed); // W4; W5 is up to the caller
        match slot.handed.lock().take() {
            Some(task) => WakeReason::Assigned(task),
            None => WakeReason::Called,
        }
    }

    /// Looks for work for a short while, before we sleep. Whoever looks counts as called: a task that is put
    /// meanwhile wakes nobody. So as one who was called it lowers `waking` (W4), and the caller does the rest: W5, a last
    /// look, and if there is a task it passes the call on.
    pub(super) fn search(&self, found: impl FnMut() -> bool) -> bool {
        // More than one that looks would only keep the processors from those who bring work.
        if self.waking.load(Ordering::Relaxed) > 0 {
            return false;
        }
        self.search_budget.store(SEARCH_BUDGET, Ordering::Relaxed);
        self.waking.fetch_add(1, Ordering::Relaxed);
        let found = self.search.search(found);
        self.search_budget.store(NOBODY, Ordering::Relaxed);
        self.waking.fetch_sub(1, Ordering::Relaxed); // W4
        found
    }

    /// After a task was taken: if there is another, somebody should look at it. The one who put it there may have
    /// relied on us, whom it saw on the way.
    #[inline]
    pub(super) fn wake_another(
        &self,
        another_waits: impl FnOnce() -> bool,
        take: impl FnOnce() -> Option<Task>,
    ) {
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
            && match self.waking.load(Ordering::Relaxed) {
                0 => true,
                1 => self.search_budget.load(Ordering::Relaxed) == 0,
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
            let search_budget = self.search_budget.load(Ordering::Relaxed);
            if (1..NOBODY).contains(&search_budget) {
                self.search_budget.store(search_budget - 1, Ordering::Relaxed);
            }
        }
        may
    }

    /// Calls this worker, if it sleeps.
    pub(super) fn call_seat(&self, slot: &Arc<ParkSlot>) {
        self.call_those(|listed, _| Arc::ptr_eq(listed, slot));
    }

    /// Calls all that sleep in this way.
    pub(super) fn call_if(&self, wanted: impl Fn(&ParkOptions) -> bool) {
        self.call_those(|_, options| wanted(options));
    }

    fn call_those(&self, wanted: impl Fn(&Arc<ParkSlot>, &ParkOptions) -> bool) {
        let mut list = self.list.lock();
        let called = list.slots.take_all(|(slot, options)| wanted(slot, options));
        self.sleeping.store(list.slots.len(), Ordering::Relaxed);
        self.waking.fetch_add(called.len(), Ordering::Relaxed);
        drop(list);
        for (slot, _) in called {
            slot.cell.notify();
        }
    }

    /// When the queue is full: relieves it of its next task, if somebody sleeps who can have it.
    pub(super) fn hand_head_to_idle(&self, take: impl FnOnce() -> Option<Task>) -> bool {
        self.sleeping.load(Ordering::Relaxed) != 0 && self.call_with(take)
    }

    #[inline(never)]
    fn call_with(&self, take: impl FnOnce() -> Option<Task>) -> bool {
        let mut list = self.list.lock();
        // At most two workers watch the time, so this looks at three entries at most.
        let newest = list.slots.take_last(|(_, options)| !options.leads);
        let Some((slot, _)) = newest.or_else(|| list.slots.pop_last()) else {
            return false;
        };
        self.sleeping.store(list.slots.len(), Ordering::Relaxed);
        self.waking.fetch_add(1, Ordering::Relaxed);
        if self.search_budget.load(Ordering::Relaxed) == 0 {
            self.search_budget.store(16 * SEARCH_BUDGET, Ordering::Relaxed); // one is enough, as a rule
        }
        drop(list);
        *slot.handed.lock() = take();
        slot.cell.notify();
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
        let Some((slot, _)) = list.slots.pop_last() else {
            return Err(task);
        };
        self.sleeping.store(list.slots.len(), Ordering::Relaxed);
        self.waking.fetch_add(1, Ordering::Relaxed);
        list.handed += 1;
        drop(list);
        *slot.handed.lock() = Some(task);
        slot.cell.notify();
        Ok(())
    }

    /// So many are on their way to the queue.
    pub(super) fn called(&self) -> usize {
        self.waking.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn someone_sleeps(&self) -> bool {
        self.threads() > 0
    }

    /// So many sleep, or are about to.
    #[inline]
    pub(super) fn threads(&self) -> usize {
        self.sleeping.load(Ordering::Relaxed)
    }

    /// Tasks handed over so far.
    pub(super) fn handed(&self) -> u64 {
        self.list.lock().handed
    }

    pub(super) fn parked(&self) -> ParkedWorkers {
        let list = self.list.lock();
        ParkedWorkers {
            all: list.slots.len(),
            timed: list.slots.iter().filter(|(_, options)| options.timed).count(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Whether a submitter calls after each of so many tasks, all put between two looks of one who looks.
    fn calls_between_two_looks(tasks: usize) -> Vec<bool> {
        let (idle, thread) = (IdleWorkers::default(), ParkSlot::for_this_thread());
        idle.enlist(&thread, ParkOptions::default());
        let mut calls = Vec::new();
        let found = idle.search(|| {
            calls = (0..tasks).map(|_| idle.may_be_called_for_another()).collect();
            true
        });
        assert!(found && idle.may_be_called(), "nobody looks any more");
        calls
    }

    #[test]
    fn nobody_is_called_while_one_looks() {
        assert_eq!(calls_between_two_looks(SEARCH_BUDGET), [false; SEARCH_BUDGET]);
    }

    #[test]
    fn a_sleeper_is_called_if_who_looks_does_not_come_back() {
        assert_eq!(calls_between_two_looks(SEARCH_BUDGET + 2)[SEARCH_BUDGET..], [true, true]);
    }

    // Four workers that all came for tasks of nothing made bursts slower by a half.
    #[test]
    fn the_next_sleeper_is_called_only_after_many_more_tasks() {
        let idle = IdleWorkers::default();
        let slots = [ParkSlot::for_this_thread(), ParkSlot::for_this_thread()];
        slots.iter().for_each(|slot| _ = idle.enlist(slot, ParkOptions::default()));
        let mut called = Vec::new();
        idle.search(|| {
            for task in 0..50 * SEARCH_BUDGET {
                if idle.may_be_called_for_another() {
                    idle.call_one(|| None);
                    slots.iter().rev().filter(|slot| slot.cell.is_notified()).for_each(|slot| {
                        idle.answer(slot);
                    });
                    called.push(task);
                }
            }
            true
        });
        assert_eq!(called, [SEARCH_BUDGET, 17 * SEARCH_BUDGET + 1]);
    }
}
