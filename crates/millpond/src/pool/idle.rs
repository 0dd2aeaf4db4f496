//! The idle workers: the list of parked workers, and the choice of the worker that a submitter
//! wakes.
//!
//! `README.md` defines the states of a worker, and the invariant that connects them with the queue.
//!
//! Waking a thread costs more than a small task, hence four rules:
//! - A submitter wakes at most one worker, and none while another is waking or searching. A worker
//!   that took a task wakes the next one if the queue holds more.
//! - The worker that parked last is woken first: its caches are warm, and the others time out.
//! - The waker dequeues a task and stores it in the park slot. So a parked worker counts as
//!   capacity: a bounded pool accepts as many tasks as it has idle workers and queue slots.
//! - A searching worker counts as waking, up to a budget of tasks: see [`SEARCH_BUDGET`].

use std::time::Instant;

use crate::interrupt::Wake;
use crate::interrupt::wait::{Key, OnInterrupt, WaitCell, WaitList};
use crate::sync::backoff::SearchBudget;
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::task::Task;
use crate::time::clock::Tick;

/// A task and the time at which it was accepted or due, if known.
pub(super) type Dequeued = (Task, Option<Tick>);

/// The park slot of one worker. A waker stores a task here before it notifies the worker.
#[derive(Debug)]
pub(super) struct ParkSlot {
    cell: WaitCell,
    /// The task that the waker assigned, if any. Written before the cell is notified.
    assigned: Mutex<Option<Dequeued>>,
}

impl ParkSlot {
    pub(super) fn for_this_thread() -> Arc<ParkSlot> {
        Arc::new(ParkSlot { cell: WaitCell::for_this_thread(), assigned: Mutex::new(None) })
    }
}

/// How a worker's sleep ended.
pub(super) enum WakeReason {
    /// The worker must check queue, settings and run state again.
    Woken,
    /// The waker assigned a task. The queue may hold more.
    Assigned(Dequeued),
    /// The deadline passed.
    TimedOut,
}

/// How a worker parks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ParkOptions {
    /// When the worker wakes by itself.
    pub(super) deadline: Option<Instant>,
    /// True if the deadline is the end of the keep-alive time.
    pub(super) timed: bool,
    /// The worker watches the time for the others and is woken last, see `queue/delayed.rs`.
    pub(super) leads: bool,
    /// True if the keep-alive time is over and the worker stays only because the queue is not
    /// empty.
    pub(super) stays: bool,
}

/// The number of parked workers.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParkedWorkers {
    /// All parked workers that have not been woken and have not been given a task.
    pub all: usize,
    /// The parked workers that wake by themselves at the end of the keep-alive time.
    pub timed: usize,
}

/// The counts by which a submitter decides whether to wake a worker, readable without a lock.
///
/// All accesses are Relaxed: `TaskQueue::order` orders them, see the race "enqueue / park".
#[derive(Debug)]
struct WakeState {
    /// Length of the list of parked workers. Written under its lock.
    parked: AtomicUsize,
    /// Workers that are waking, plus the searching one.
    waking: AtomicUsize,
    /// Number of tasks that may still arrive before the searching worker counts as late.
    /// [`NO_SEARCH`] or stale if no worker searches.
    search_budget: AtomicUsize,
}

/// The value of `search_budget` while no worker searches.
const NO_SEARCH: usize = usize::MAX;
/// Number of tasks that may arrive during a search before submitters wake a parked worker too. A
/// searching worker finds a task earlier, unless it was preempted or has yielded its core to other
/// threads.
const SEARCH_BUDGET: usize = if cfg!(loom) { 1 } else { 16 };
/// The budget after a submitter woke a worker despite a search: usually one more worker is enough.
const EXTENDED_BUDGET: usize = 16 * SEARCH_BUDGET;

impl WakeState {
    /// Returns true if a worker is parked and none is waking, or only a searching one whose budget
    /// is used up.
    #[inline]
    fn should_wake(&self) -> bool {
        self.parked.load(Ordering::Relaxed) != 0
            && match self.waking.load(Ordering::Relaxed) {
                0 => true,
                1 => self.search_budget.load(Ordering::Relaxed) == 0,
                _ => false,
            }
    }

    /// Like `should_wake`. If the result is false, charges one new task to the searching worker's
    /// budget. Concurrent charges may be lost, which only delays a wake-up that no invariant needs.
    fn should_wake_or_charge(&self) -> bool {
        let wake = self.should_wake();
        let budget = self.search_budget.load(Ordering::Relaxed);
        if !wake && (1..NO_SEARCH).contains(&budget) {
            self.search_budget.store(budget - 1, Ordering::Relaxed);
        }
        wake
    }

    /// Called under the lock of the list, after every change of it.
    fn note_parked(&self, list: &ParkedList) {
        self.parked.store(list.slots.len(), Ordering::Relaxed);
    }

    /// Called under the lock of the list, after `woken` workers were removed to be woken.
    fn note_woken(&self, list: &ParkedList, woken: usize) {
        self.note_parked(list);
        self.waking.fetch_add(woken, Ordering::Relaxed);
    }
}

/// The list of parked workers.
#[derive(Debug)]
pub(super) struct IdleWorkers {
    list: Mutex<ParkedList>,
    state: WakeState,
    /// How long a worker searches before it parks.
    search: SearchBudget,
}

#[derive(Debug, Default)]
struct ParkedList {
    /// The newest entry is woken first.
    slots: WaitList<(Arc<ParkSlot>, ParkOptions)>,
    /// Tasks that `hand_off` has given directly to a parked worker. Synchronous queues only: tasks
    /// of other queues that a waker assigns are counted by `TaskQueue::pushed`.
    handed_off: u64,
}

impl Default for IdleWorkers {
    fn default() -> Self {
        IdleWorkers {
            list: Mutex::new(ParkedList::default()),
            state: WakeState {
                parked: AtomicUsize::new(0),
                waking: AtomicUsize::new(0),
                search_budget: AtomicUsize::new(NO_SEARCH),
            },
            search: SearchBudget::for_task(),
        }
    }
}

/// The worker's side.
impl IdleWorkers {
    /// Parks until woken or until `options.deadline`.
    ///
    /// `recheck` runs while the worker is listed: it may be woken and given a task before `recheck`
    /// returns. If `recheck` returns true, the worker does not park. It must order itself after the
    /// listing and then check every condition for which a waker would wake this worker: race
    /// "enqueue / park". Set `spin_first` if tasks arrive by `hand_off`
    /// only: the worker then spins on its slot, because it has no queue to poll.
    pub(super) fn park(
        &self,
        slot: &Arc<ParkSlot>,
        options: ParkOptions,
        spin_first: bool,
        recheck: impl FnOnce() -> bool,
    ) -> WakeReason {
        let key = self.enlist(slot, options);
        if recheck() && self.unlist(key) {
            return WakeReason::Woken;
        }
        let woken = (spin_first && self.search.search(|| slot.cell.is_notified()))
            || slot.cell.wait(options.deadline, OnInterrupt::Keep) == Wake::Ready;
        // Race "handoff / keep-alive expiry": a waker has chosen a worker that is no longer listed.
        if !woken && self.unlist(key) {
            return WakeReason::TimedOut;
        }
        self.finish_wake(slot)
    }

    pub(super) fn enlist(&self, slot: &Arc<ParkSlot>, options: ParkOptions) -> Key {
        let mut list = self.list.lock();
        let key = list.slots.push((Arc::clone(slot), options));
        self.state.note_parked(&list);
        key
    }

    /// Removes the calling worker. Returns false if it is not listed, because a waker has removed
    /// it.
    fn unlist(&self, key: Key) -> bool {
        let mut list = self.list.lock();
        let found = list.slots.remove(key).is_some();
        self.state.note_parked(&list);
        found
    }

    /// Waits for the notification of the waker that removed this worker, and ends the waking state.
    /// The caller then calls `TaskQueue::order` before it checks the queue.
    pub(super) fn finish_wake(&self, slot: &ParkSlot) -> WakeReason {
        slot.cell.wait(None, OnInterrupt::Keep);
        slot.cell.reset();
        self.state.waking.fetch_sub(1, Ordering::Relaxed);
        match slot.assigned.lock().take() {
            Some(dequeued) => WakeReason::Assigned(dequeued),
            None => WakeReason::Woken,
        }
    }

    /// Polls `found` for a short time before the worker parks. Returns true if it succeeded.
    ///
    /// A searching worker counts as waking, so submitters wake no other worker. As after a wake-up,
    /// the caller calls `TaskQueue::order`, checks the queue once more, and wakes another worker if
    /// it takes a task.
    pub(super) fn search(&self, found: impl FnMut() -> bool) -> bool {
        if self.state.waking.load(Ordering::Relaxed) > 0 {
            return false; // without an exchange, which would take the cache line from the others
        }
        // One exchange, so that one worker searches: a second one would take a core from the
        // submitters, and two that are preempted would hide the queue, whatever the budget.
        if self.state.waking.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        self.state.search_budget.store(SEARCH_BUDGET, Ordering::Relaxed);
        let found = self.search.search(found);
        self.state.search_budget.store(NO_SEARCH, Ordering::Relaxed);
        self.state.waking.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

/// The waker's side.
impl IdleWorkers {
    #[inline]
    pub(super) fn should_wake(&self) -> bool {
        self.state.should_wake()
    }

    /// Like [`should_wake`](Self::should_wake), for a submitter that has enqueued a task. Also
    /// charges the searching worker's budget, so a preempted searcher does not delay the queue.
    #[inline]
    pub(super) fn should_wake_for_new_task(&self) -> bool {
        self.has_parked() && self.state.should_wake_or_charge()
    }

    /// Wakes a parked worker if [`should_wake`](Self::should_wake) is true. `dequeue` takes a task
    /// for the worker out of the queue. So the task leaves the queue now, and not when the thread
    /// runs. The caller has ordered itself after its push.
    ///
    /// `dequeue` must not run user code, here and in the methods below. The worker is neither
    /// listed nor woken while it runs, so no thread would wake a worker for a task of that code.
    pub(super) fn wake_one(&self, dequeue: impl FnOnce() -> Option<Dequeued>) {
        if self.state.should_wake() {
            self.wake_newest(dequeue);
        }
    }

    /// Like `wake_one`, for a caller that may have taken the last task: wakes a worker only if
    /// `queue_has_tasks` returns true. The submitter of the next task may have woken no worker
    /// because the caller was waking. Returns true if it woke a worker.
    #[inline]
    pub(super) fn wake_one_if(
        &self,
        queue_has_tasks: impl FnOnce() -> bool,
        dequeue: impl FnOnce() -> Option<Dequeued>,
    ) -> bool {
        self.state.should_wake() && queue_has_tasks() && self.wake_newest(dequeue)
    }

    /// Gives the head of a full queue to a parked worker, even if another is waking. Returns false
    /// if none is parked.
    pub(super) fn hand_head_to_idle(&self, dequeue: impl FnOnce() -> Option<Dequeued>) -> bool {
        self.has_parked() && self.wake_newest(dequeue)
    }

    #[inline(never)]
    fn wake_newest(&self, dequeue: impl FnOnce() -> Option<Dequeued>) -> bool {
        let mut list = self.list.lock();
        // Inspects few entries: the leader, and former leaders. A worker that another one has
        // replaced as leader stays listed as leading until it wakes.
        let newest = list.slots.take_last(|(_, options)| !options.leads);
        let Some((slot, _)) = newest.or_else(|| list.slots.pop_last()) else {
            return false;
        };
        self.state.note_woken(&list, 1);
        if self.state.search_budget.load(Ordering::Relaxed) == 0 {
            self.state.search_budget.store(EXTENDED_BUDGET, Ordering::Relaxed);
        }
        drop(list);
        *slot.assigned.lock() = dequeue();
        slot.cell.notify();
        true
    }

    /// Assigns `task` to a parked worker. Returns the task if no worker is parked. `now` reads the
    /// clock.
    pub(super) fn hand_off(&self, task: Task, now: impl FnOnce() -> Option<Tick>) -> Result<(), Task> {
        let mut list = self.list.lock();
        let Some((slot, _)) = list.slots.pop_last() else {
            return Err(task);
        };
        self.state.note_woken(&list, 1);
        list.handed_off += 1;
        drop(list);
        *slot.assigned.lock() = Some((task, now()));
        slot.cell.notify();
        Ok(())
    }

    /// Wakes all workers after a change of settings or run state. Race "change / park": a worker
    /// that enlists later takes the list lock after this call, so its recheck sees the change.
    pub(super) fn wake_all(&self) {
        self.wake_matching(|_, _| true);
    }

    pub(super) fn wake_slot(&self, slot: &Arc<ParkSlot>) {
        self.wake_matching(|listed, _| Arc::ptr_eq(listed, slot));
    }

    pub(super) fn wake_if(&self, wanted: impl Fn(&ParkOptions) -> bool) {
        self.wake_matching(|_, options| wanted(options));
    }

    fn wake_matching(&self, wanted: impl Fn(&Arc<ParkSlot>, &ParkOptions) -> bool) {
        let mut list = self.list.lock();
        let woken = list.slots.take_all(|(slot, options)| wanted(slot, options));
        self.state.note_woken(&list, woken.len());
        drop(list);
        for (slot, _) in woken {
            slot.cell.notify();
        }
    }
}

/// Counts.
impl IdleWorkers {
    #[inline]
    pub(super) fn has_parked(&self) -> bool {
        self.parked_count() > 0
    }

    /// Workers that are parked or about to park.
    #[inline]
    pub(super) fn parked_count(&self) -> usize {
        self.state.parked.load(Ordering::Relaxed)
    }

    /// Workers that are waking or searching.
    pub(super) fn waking_count(&self) -> usize {
        self.state.waking.load(Ordering::Relaxed)
    }

    /// Tasks that [`hand_off`](Self::hand_off) has given directly to a parked worker so far.
    pub(super) fn handed_off(&self) -> u64 {
        self.list.lock().handed_off
    }

    pub(super) fn parked_workers(&self) -> ParkedWorkers {
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

    /// Returns for each of `tasks` whether its submitter wakes a worker. All are enqueued between
    /// two polls of a searching worker.
    fn wakes_between_two_polls(tasks: usize) -> Vec<bool> {
        let (idle, thread) = (IdleWorkers::default(), ParkSlot::for_this_thread());
        idle.enlist(&thread, ParkOptions::default());
        let mut wakes = Vec::new();
        let found = idle.search(|| {
            wakes = (0..tasks).map(|_| idle.should_wake_for_new_task()).collect();
            true
        });
        assert!(found && idle.should_wake(), "the search is over");
        wakes
    }

    #[test]
    fn no_worker_is_woken_while_one_searches() {
        assert_eq!(wakes_between_two_polls(SEARCH_BUDGET), [false; SEARCH_BUDGET]);
    }

    #[test]
    fn a_parked_worker_is_woken_if_the_searching_one_is_late() {
        assert_eq!(wakes_between_two_polls(SEARCH_BUDGET + 2)[SEARCH_BUDGET..], [true, true]);
    }

    // A burst of empty tasks runs faster with few workers than with many.
    #[test]
    fn the_next_parked_worker_is_woken_only_after_many_more_tasks() {
        let idle = IdleWorkers::default();
        let slots = [ParkSlot::for_this_thread(), ParkSlot::for_this_thread()];
        slots.iter().for_each(|slot| _ = idle.enlist(slot, ParkOptions::default()));
        let mut woken = Vec::new();
        idle.search(|| {
            for task in 0..50 * SEARCH_BUDGET {
                if idle.should_wake_for_new_task() {
                    idle.wake_one(|| None);
                    slots.iter().rev().filter(|slot| slot.cell.is_notified()).for_each(|slot| {
                        idle.finish_wake(slot);
                    });
                    woken.push(task);
                }
            }
            true
        });
        assert_eq!(woken, [SEARCH_BUDGET, 17 * SEARCH_BUDGET + 1]);
    }
}
