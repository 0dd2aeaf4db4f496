//! The queue of a scheduled pool: tasks ordered by due time, and the workers that watch the time.
//!
//! Two idle workers, the *leader* and the *standby*, park until the first entry is due. Other
//! workers park without a deadline. When the leader wakes and takes its task, the standby is about
//! to wake too and handles the next entry. Without a standby, the leader would have to wake another
//! worker before it runs its task. That takes as long as waking up, and would make the task late.
//!
//! Race "insert / leader parks". All steps hold the queue's lock:
//!
//! ```text
//! worker                                      inserting thread (or one that moves a manual clock)
//! watch:   become leader, if there is none    insert:  add the entry
//!          or it wakes too late; else         ensure_watched:
//!          standby, if there is none             watched in time by leader or standby? done
//! enlist in `idle`                               due? wake a worker and give it the task
//! recheck: entry not watched? stay awake         no leader? wake a worker
//! ... parked ...                                 leader wakes too late? wake the leader
//! stop_watching
//! ```
//!
//! If the insertion comes before the recheck, the worker stays awake and starts over. If the
//! recheck comes before `ensure_watched`, then `ensure_watched` sees which worker watches and until
//! when. That worker is listed in `idle`, or has been woken and is on its way to `stop_watching`.
//! After `stop_watching` a worker takes a task and then calls `ensure_watched` for the rest, or
//! parks again, or exits, which ends with `ensure_watched` too. So for the first entry there is
//! always a worker that is awake and will check the queue, or a worker that wakes in time. If
//! `idle` reports a waking worker, `ensure_watched` may do nothing: that worker has not checked the
//! queue yet, and checks it later than this thread.
//!
//! The lock also orders a submitter's insertion against the other races of `README.md`.
//!
//! In this protocol, "due" means that the wheel must be checked. The wheel sorts entries shortly
//! before they are due, so its `look_by` may be earlier than the first due time. It is never later.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::super::idle::{Dequeued, IdleWorkers, ParkOptions, ParkSlot, WakeReason};
use super::watch::{Watch, Watchers, WatchingWorker};
use crate::interrupt::wait::WaitCell;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, Weak, deadline_after};
use crate::sys::TimerSlack;
use crate::task::{CancelQueue, Help, Place, Removal, Removed};
use crate::task::{Task, TaskId, TimerTask};
use crate::time::clock::{Clock, Tick};
use crate::time::wheel::{Look, NOWHERE, TimerWheel};

mod inspect;

/// The kinds of task that may still run after a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShutdownPolicy {
    Periodic,
    Delayed,
}

pub(in crate::pool) struct DelayedQueue {
    clock: Clock,
    /// Number of entries, for reads without the lock. Written under the lock, after the change.
    len: AtomicUsize,
    /// True if the first entry is watched, or there is none. For reads without the lock; written
    /// under the lock, after the change. Always false with a manual clock, whose time may move at
    /// any moment.
    watched: AtomicBool,
    entries: Mutex<Entries>,
    /// True if cancelled tasks leave the queue at once.
    remove_on_cancel: AtomicBool,
    /// The shutdown policies. SeqCst: a setter writes a policy and then reads the run state.
    /// `shutdown` writes the run state and then reads the policies.
    keep_periodic: AtomicBool,
    keep_delayed: AtomicBool,
}

struct Entries {
    wheel: TimerWheel<TimerTask>,
    /// The number of the next new entry: the order of arrival among entries with equal due times.
    next_number: u64,
    /// Number of entries accepted so far and not taken back.
    pushed: u64,
    /// Number of entries removed because they were cancelled.
    cancelled: u64,
    /// The latest clock reading of a polling worker. Tasks due by then need no new reading.
    seen: Tick,
    /// The due time of the task that was taken last.
    last_due: Tick,
    watchers: Watchers,
    /// The wait cells of workers that join a task which is not due on a manual clock.
    joiners: Vec<Weak<WaitCell>>,
}

/// The end of a worker's keep-alive time. With a manual clock, it ends when either the manual clock
/// or the real time reaches it.
#[derive(Debug, Clone, Copy)]
pub(in crate::pool) struct KeepAliveEnd {
    until: Tick,
    deadline: Option<Instant>,
}

/// The action that the first entry needs.
enum Need {
    Nothing,
    /// The entry is due: a worker must run it.
    Run,
    /// No worker watches the time: wake one to become leader.
    Watch,
    /// The leader wakes too late: wake it now.
    Earlier(Arc<ParkSlot>),
}

impl Entries {
    /// Removes the task `id`. `place` is its position, if known.
    fn take(&mut self, id: TaskId, place: Option<&Place>) -> Option<Task> {
        match place {
            Some(place) => self.take_at(id, place).map(TimerTask::into_task),
            None => self.take_if(|task, _| task.id() == id).pop(),
        }
    }

    fn take_at(&mut self, id: TaskId, place: &Place) -> Option<TimerTask> {
        self.wheel.remove(place.get(), |entry| entry.id() == id)
    }

    fn take_if(&mut self, unwanted: impl Fn(&Task, Tick) -> bool) -> Vec<Task> {
        self.wheel.take_out(|entry, due| entry.into_task_if(|task| unwanted(task, due)))
    }
}

impl DelayedQueue {
    pub(in crate::pool) fn new(clock: Clock) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // only uniqueness matters
        DelayedQueue {
            clock,
            len: AtomicUsize::new(0),
            watched: AtomicBool::new(false),
            entries: Mutex::new(Entries {
                wheel: TimerWheel::new(number),
                next_number: 0,
                pushed: 0,
                cancelled: 0,
                seen: Tick::from_nanos(0),
                last_due: Tick::from_nanos(0),
                watchers: Watchers::default(),
                joiners: Vec::new(),
            }),
            remove_on_cancel: AtomicBool::new(false),
            keep_periodic: AtomicBool::new(false),
            keep_delayed: AtomicBool::new(true),
        }
    }

    pub(in crate::pool) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(in crate::pool) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(in crate::pool) fn pushed(&self) -> u64 {
        self.entries.lock().pushed
    }

    /// Returns the number of entries removed so far because they were cancelled.
    pub(in crate::pool) fn removed_on_cancel(&self) -> u64 {
        self.entries.lock().cancelled
    }

    pub(in crate::pool) fn removes_on_cancel(&self) -> bool {
        self.remove_on_cancel.load(Ordering::Relaxed)
    }

    pub(in crate::pool) fn set_remove_on_cancel(&self, remove: bool) {
        self.remove_on_cancel.store(remove, Ordering::Relaxed);
    }

    fn policy(&self, policy: ShutdownPolicy) -> &AtomicBool {
        match policy {
            ShutdownPolicy::Periodic => &self.keep_periodic,
            ShutdownPolicy::Delayed => &self.keep_delayed,
        }
    }

    pub(in crate::pool) fn keeps(&self, policy: ShutdownPolicy) -> bool {
        self.policy(policy).load(Ordering::SeqCst)
    }

    pub(in crate::pool) fn set_keeps(&self, policy: ShutdownPolicy, keep: bool) {
        self.policy(policy).store(keep, Ordering::SeqCst);
    }
}

/// Access to the entries.
impl DelayedQueue {
    /// Adds `task`, to be taken when it is `due`. A periodic task keeps the number of its first
    /// run.
    pub(in crate::pool) fn insert(&self, task: TimerTask, due: Tick) {
        let mut entries = self.entries.lock();
        let fresh = entries.next_number;
        if entries.wheel.is_empty() {
            entries.wheel.begin_at(self.clock.tick());
        }
        let number = task.timing().map_or(fresh, |timing| timing.number_or(fresh));
        if number == fresh {
            entries.next_number += 1;
        }
        entries.wheel.insert(due, number, task);
        entries.pushed += 1;
        self.changed(&entries);
    }

    /// Orders a change before a read of the queue, see `TaskQueue::order`.
    pub(in crate::pool) fn order(&self) {
        drop(self.entries.lock());
    }

    /// Called after every change of the entries.
    fn changed(&self, entries: &Entries) {
        self.note_len(entries);
        self.note_watched(entries);
    }

    #[inline]
    fn note_len(&self, entries: &Entries) {
        self.len.store(entries.wheel.len(), Ordering::Relaxed);
    }

    /// Called after every change of the watchers, and of the entries if `look_by` may have changed.
    fn note_watched(&self, entries: &Entries) {
        let watched = entries.wheel.look_by().is_none_or(|by| entries.watchers.are_in_time(by));
        self.watched.store(watched && !self.is_manual(), Ordering::Relaxed);
    }

    /// Takes the first task if it is due. Returns it with its due time.
    pub(in crate::pool) fn poll(&self) -> Option<Dequeued> {
        if self.len() == 0 {
            return None;
        }
        // Reading the clock takes as long as running a small task. So a task that was due at an
        // earlier reading is taken without a new one.
        let mut now = None;
        loop {
            let mut entries = self.entries.lock();
            entries.seen = entries.seen.max(now.unwrap_or(entries.seen));
            let seen = now.unwrap_or(entries.seen);
            match entries.wheel.look(seen) {
                Look::Due => {}
                Look::Again => continue, // releases the lock in between
                Look::Later | Look::Ahead if now.is_some() => return None,
                Look::Later | Look::Ahead => {
                    drop(entries);
                    now = Some(self.clock.tick());
                    continue;
                }
            }
            let (due, task) = entries.wheel.pop()?;
            entries.last_due = due;
            self.changed(&entries);
            return Some((task.into_task(), Some(due)));
        }
    }

    /// Returns when a worker that joins the task `id` should try again to run it. `None` if the
    /// task is due or not queued.
    pub(in crate::pool) fn not_due(&self, id: TaskId, place: &Place) -> Option<Help> {
        let mut entries = self.entries.lock();
        let due = entries.wheel.due(place.get(), |entry| entry.id() == id)?;
        if due <= self.clock.tick() {
            return None;
        }
        if !self.is_manual() {
            return Some(self.clock.deadline(due).map_or(Help::Done, Help::NotBefore));
        }
        let cell = WaitCell::among_other_conditions();
        entries.joiners.retain(|joiner| joiner.strong_count() > 0);
        entries.joiners.push(Arc::downgrade(&cell));
        Some(Help::WhenNotified(cell))
    }

    pub(in crate::pool) fn remove(&self, id: TaskId, place: Option<&Place>) -> Option<Task> {
        let mut entries = self.entries.lock();
        let task = entries.take(id, place)?;
        self.changed(&entries);
        Some(task)
    }

    /// Like `remove`, for a task that was not admitted: it does not count as pushed.
    pub(in crate::pool) fn take_back(&self, id: TaskId, place: Option<&Place>) -> Option<Task> {
        let mut entries = self.entries.lock();
        let task = entries.take(id, place)?;
        entries.pushed -= 1;
        self.changed(&entries);
        Some(task)
    }

    /// Removes all tasks for which `unwanted` returns true, in order. It receives their due times.
    pub(in crate::pool) fn remove_if(&self, unwanted: impl Fn(&Task, Tick) -> bool) -> Vec<Task> {
        let mut entries = self.entries.lock();
        let removed = entries.take_if(unwanted);
        self.changed(&entries);
        removed
    }
}

/// Waiting for due times.
impl DelayedQueue {
    /// Returns the end of a keep-alive time that begins now.
    pub(in crate::pool) fn keep_alive_end(&self, time: Duration) -> KeepAliveEnd {
        let until = self.clock.tick_after(time);
        let deadline = if self.is_manual() { deadline_after(time) } else { self.clock.deadline(until) };
        KeepAliveEnd { until, deadline }
    }

    /// Parks until woken, or until `keep_alive` is over. A leader or standby also wakes when the
    /// first entry is due. `stays` means that the worker stays only for the queued entries.
    /// `recheck` has the contract of [`IdleWorkers::park`].
    pub(in crate::pool) fn park(
        &self,
        idle: &IdleWorkers,
        slot: &Arc<ParkSlot>,
        keep_alive: Option<KeepAliveEnd>,
        stays: bool,
        recheck: impl FnOnce() -> bool,
    ) -> WakeReason {
        if keep_alive.is_some_and(|end| self.is_manual() && end.until <= self.clock.tick()) {
            return WakeReason::TimedOut;
        }
        let Some((leads, watch)) = self.watch(slot) else {
            return WakeReason::Woken; // an entry is due
        };
        let due = watch.and_then(|watch| self.clock.deadline(watch.until));
        let end = keep_alive.and_then(|end| end.deadline);
        let due_first = due.is_some_and(|due| end.is_none_or(|end| due < end));
        let options = ParkOptions {
            deadline: if due_first { due } else { end },
            timed: keep_alive.is_some(),
            leads,
            stays,
        };
        let slack = due.and(watch).map(|watch| TimerSlack::at_most(watch.slack(idle.parked_count())));
        let wake = idle.park(slot, options, false, || recheck() || !self.is_watched());
        drop(slack);
        self.stop_watching(slot);
        match wake {
            WakeReason::TimedOut if due_first => WakeReason::Woken,
            wake => wake,
        }
    }

    /// Makes the calling worker leader or standby, if needed. Returns `None` if an entry is due.
    /// Otherwise returns whether the worker leads and what it waits for; without a `Watch`, other
    /// workers watch or there are no entries.
    fn watch(&self, slot: &Arc<ParkSlot>) -> Option<(bool, Option<Watch>)> {
        let mut entries = self.entries.lock();
        if entries.wheel.is_empty() {
            return Some((false, None));
        }
        if entries.wheel.look(self.clock.tick()) != Look::Later {
            return None;
        }
        let by = entries.wheel.look_by()?;
        let Some(leads) = entries.watchers.join(WatchingWorker::new(slot, by)) else {
            return Some((false, None));
        };
        self.note_watched(&entries);
        Some((leads, Some(Watch { until: by, after: by.since(entries.last_due) })))
    }

    /// Returns true if a watcher wakes in time. This is the recheck of a worker that has enlisted.
    fn is_watched(&self) -> bool {
        let entries = self.entries.lock();
        let Some(by) = entries.wheel.look_by() else {
            return true;
        };
        entries.watchers.are_in_time(by) && !self.is_overdue(by)
    }

    /// Returns true if a manual clock has been moved past `due`.
    fn is_overdue(&self, due: Tick) -> bool {
        self.is_manual() && due <= self.clock.tick()
    }

    fn is_manual(&self) -> bool {
        self.clock.tells()
    }

    fn stop_watching(&self, slot: &Arc<ParkSlot>) {
        let mut entries = self.entries.lock();
        if entries.watchers.leave(slot) {
            self.note_watched(&entries);
        }
    }

    /// Returns true if a thread that has just inserted an entry need not call `ensure_watched`.
    ///
    /// The value was written with that entry or later. If it is true, the first entry was watched
    /// at that time. A thread that has changed this since then calls `ensure_watched` itself.
    #[inline]
    pub(in crate::pool) fn is_watched_hint(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Ensures that a worker is awake for the first entry, or wakes in time for it.
    pub(in crate::pool) fn ensure_watched(&self, idle: &IdleWorkers) {
        if !idle.should_wake() {
            return;
        }
        match self.need() {
            Need::Nothing => {}
            Need::Run => idle.wake_one(|| self.poll()),
            Need::Watch => idle.wake_one(|| None),
            Need::Earlier(slot) => idle.wake_slot(&slot),
        }
    }

    fn need(&self) -> Need {
        let mut entries = self.entries.lock();
        if entries.wheel.look_by().is_none_or(|by| entries.watchers.are_in_time(by) && !self.is_overdue(by)) {
            return Need::Nothing;
        }
        let look = entries.wheel.look(self.clock.tick());
        if matches!(look, Look::Due | Look::Again) {
            return Need::Run;
        }
        self.note_watched(&entries);
        // `look` may have found that the first entry is due later than `look_by` said.
        match (entries.watchers.leader(), entries.wheel.look_by()) {
            (Some(leader), Some(by)) if !leader.is_in_time(by) || look == Look::Ahead => {
                Need::Earlier(leader.slot())
            }
            (None, Some(_)) => Need::Watch,
            _ => Need::Nothing,
        }
    }

    /// Called when a manual clock was moved. Notifies the workers that join tasks.
    pub(in crate::pool) fn notify_joiners(&self) {
        let joiners = std::mem::take(&mut self.entries.lock().joiners);
        joiners.iter().filter_map(Weak::upgrade).for_each(|joiner| joiner.notify());
    }

    /// Called when a manual clock was moved. Assigns due tasks to parked workers, and wakes workers
    /// whose keep-alive time may be over.
    pub(in crate::pool) fn time_moved(&self, idle: &IdleWorkers) {
        while self.first_is_due() && idle.hand_head_to_idle(|| self.poll()) {}
        idle.wake_if(|options| options.timed);
        self.ensure_watched(idle);
    }

    pub(in crate::pool) fn first_is_due(&self) -> bool {
        self.due_since(self.clock.tick()).is_some()
    }
}

impl CancelQueue for DelayedQueue {
    fn remove_cancelled(&self, removal: Removal<'_>) -> Removed {
        if !self.removes_on_cancel() {
            return Removed::No;
        }
        let removed; // dropped after the lock: a propagated context is user code
        let mut entries = self.entries.lock();
        let look_by = entries.wheel.look_by_or_never();
        let (id, place) = (removal.id(), removal.place());
        // A thread that has seen a due entry has made it near. So the owner learns of the cancel of
        // the last due entry, which may make the pool idle. Most cancelled timers are not near.
        let was_near = TimerWheel::<TimerTask>::is_near(place.get());
        if removal.may_forget() && entries.wheel.forget(place.get()) {
            // SAFETY: 1. The entry was a `TimerTask`, which gives a place that `forget` accepts
            // only to a `Place` inside the cell that it refers to. `place` is that `Place`: the
            // wheel changes it under this lock whenever the entry moves or leaves, and no two
            // entries have the same place.
            // 2. `forget` is true once for an entry, and nothing reads or drops the entry after it.
            unsafe { removal.release_forgotten() };
        } else {
            removed = entries.take_at(id, place);
            if removed.is_none() {
                return Removed::No;
            }
        }
        place.set(NOWHERE);
        entries.cancelled += 1;
        self.note_len(&entries);
        if entries.wheel.look_by_or_never() != look_by {
            self.note_watched(&entries);
        }
        if was_near || entries.wheel.is_empty() { Removed::First } else { Removed::Yes }
    }
}

impl fmt::Debug for DelayedQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedQueue")
            .field("len", &self.len())
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
