//! The queue of a scheduled pool: tasks that wait for their time, and who watches the time for all of them.
//!
//! Of the workers that have nothing to do, two, the leader and its second, sleep until the first entry is due; the others
//! sleep until they are called. When the leader wakes and takes its task, the second is about to wake too, and sees to
//! what comes next. Without it the leader would have to call somebody before it runs its task, which costs as much
//! as to wake, and makes the task late. The steps:
//!
//! ```text
//! worker                                         whoever puts an entry in (or moves a manual clock)
//! T1 lock; nobody leads, or not until so early   T4 lock; put the entry in
//!    as the first entry is due? then I lead;     T5 lock; is the first entry watched by one of the two? then that is all;
//!    has the leader no second? then I am that       is it due? call a sleeper and give it the task;
//! W1 list myself as idle                            does nobody lead? call a sleeper;
//! T2 lock; is the first entry watched by            does the leader sleep too long? call the leader
//!    one of the two? else stay awake
//!    ... sleep ...
//! T3 lock; I watch no more
//! ```
//!
//! All of it happens under one lock, so for every entry either T4 came before T2, and the worker stays awake
//! and begins anew; or T2 came before T5, and T5 sees who watches until when, and finds that one on the list,
//! or woken and on its way to T3. After T3 a worker always does one of three things: it takes a task, and
//! then makes sure that what it leaves behind is watched (T5); it rests again (T1); or it leaves the pool,
//! which ends with T5 too. So there is always somebody on the way for the first entry, or asleep until it is
//! due. `IdleWorkers::calling` may keep T5 from calling: then a worker that was called has not come to its own look
//! yet, and looks after us. The same lock orders what else a submitter and others must see of each other, where
//! the README beside this file speaks of fences: T4 is A2 and S2, and the others take a turn with it (`order`).

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::super::idle::{IdleWorkers, ParkOptions, ParkSlot, WakeReason};
use crate::interrupt::wait::WaitCell;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, Weak, deadline_after};
use crate::sys::TimerSlack;
use crate::task::{CancelQueue, Help, LeakedRef, Place, Removal, Removed};
use crate::task::{Task, TaskId, TimerTask};
use crate::time::clock::{Clock, Tick};
use crate::time::wheel::{Look, NOWHERE, TimerWheel};

pub(in crate::pool) struct DelayedQueue {
    clock: Clock,
    /// Entries, for a look without the lock. Written under the lock, after the change.
    len: AtomicUsize,
    /// The first entry is watched by a leader, or there is none; for a look without the lock. Written under the lock,
    /// after the change. Never true with a manual clock, whose time may move meanwhile.
    watched: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Tasks that are cancelled leave at once.
    pub(in crate::pool) remove_on_cancel: AtomicBool,
    /// What runs after a shutdown. SeqCst: a setter writes one and then looks at the run state, `shutdown`
    /// does it the other way round.
    pub(in crate::pool) keep_periodic: AtomicBool,
    pub(in crate::pool) keep_delayed: AtomicBool,
}

struct Waiting {
    entries: TimerWheel<TimerTask>,
    /// The number of the next entry that has none: order of arrival among those that are due at the same time.
    next_number: u64,
    /// Entries accepted so far and not taken back.
    pushed: u64,
    /// Entries that were struck off because they were cancelled.
    struck: u64,
    /// A time that is over: the last that the clock told one who looked for a task.
    seen: Tick,
    /// When the task was due that was taken last.
    last_due: Tick,
    leader: Option<Watcher>,
    second: Option<Watcher>,
    /// Workers that join a task whose time has not come by a manual clock.
    joiners: Vec<Weak<WaitCell>>,
}

/// A worker that sleeps, or is about to, and will look at the queue at the latest when it is `until`.
struct Watcher {
    slot: Arc<ParkSlot>,
    until: Tick,
}

/// For one who watches.
#[derive(Debug, Clone, Copy)]
struct Watch {
    until: Tick,
    /// So long after the one before is the entry due that is waited for.
    after: Duration,
}

impl Watch {
    /// So far apart that each needs a wake-up of its own, however late that is.
    const APART: Duration = Duration::from_micros(100);
    const PUNCTUAL: Duration = Duration::from_micros(1);
    /// What Linux does by itself.
    const USUAL: Duration = Duration::from_micros(50);
    const LEAST: Duration = Duration::from_micros(20);

    /// How late one may wake. To wake for each of many timers that follow one another costs more than to run them, so there it
    /// is better to be late and to find several; less so if there are others who have nothing to do.
    fn slack(self, idle: &IdleWorkers) -> Duration {
        if self.after > Self::APART {
            return Self::PUNCTUAL;
        }
        let pairs = u32::try_from(idle.threads() / 2).unwrap_or(u32::MAX);
        (Self::USUAL / pairs.saturating_add(1)).max(Self::LEAST)
    }
}

impl Watcher {
    fn is(&self, slot: &Arc<ParkSlot>) -> bool {
        Arc::ptr_eq(&self.slot, slot)
    }
}

/// When a worker's keep-alive time is over. Threads are real: with a manual clock that is when either clock
/// says so.
#[derive(Debug, Clone, Copy)]
pub(in crate::pool) struct Keep {
    until: Tick,
    deadline: Option<Instant>,
}

/// What the first entry needs of those who sleep.
enum Need {
    Nothing,
    /// It is due.
    Hand,
    /// Nobody watches the time.
    Watch,
    /// The leader would sleep too long.
    Earlier(Arc<ParkSlot>),
}

impl Waiting {
    /// Somebody leads, and looks at the queue when it is `due`, or before.
    fn is_led(&self, due: Tick) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.until <= due)
    }

    /// Somebody, the leader or its second, looks at the queue when it is `due`, or before.
    fn is_watched(&self, due: Tick) -> bool {
        self.is_led(due) || self.second.as_ref().is_some_and(|second| second.until <= due)
    }

    /// Finds the task `id` and takes it out. `place` says where it is, if it has one.
    fn take(&mut self, id: TaskId, place: Option<&Place>) -> Option<Task> {
        match place {
            Some(place) => self.take_from(id, place).map(TimerTask::into_task),
            None => self.take_if(|task, _| task.id() == id).pop(),
        }
    }

    fn take_from(&mut self, id: TaskId, place: &Place) -> Option<TimerTask> {
        self.entries.remove(place.get(), |held| held.id() == id)
    }

    fn take_if(&mut self, unwanted: impl Fn(&Task, Tick) -> bool) -> Vec<Task> {
        self.entries.take_out(|held, due| held.into_task_if(|task| unwanted(task, due)))
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
            waiting: Mutex::new(Waiting {
                entries: TimerWheel::new(number),
                next_number: 0,
                pushed: 0,
                struck: 0,
                seen: Tick::from_nanos(0),
                last_due: Tick::from_nanos(0),
                leader: None,
                second: None,
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
        self.waiting.lock().pushed
    }

    /// So many tasks have been struck off.
    pub(in crate::pool) fn struck(&self) -> u64 {
        self.waiting.lock().struck
    }

    // ---- entries

    /// Puts `task` in, to be had when it is `due` (T4). A series keeps the number that it was given first.
    pub(in crate::pool) fn insert(&self, task: TimerTask, due: Tick) {
        let mut waiting = self.waiting.lock();
        let fresh = waiting.next_number;
        if waiting.entries.is_empty() {
            waiting.entries.begin_at(self.clock.tick());
        }
        let number = task.timing().map_or(fresh, |timing| timing.number_or(fresh));
        if number == fresh {
            waiting.next_number += 1;
        }
        waiting.entries.insert(due, number, task);
        waiting.pushed += 1;
        self.changed(&waiting);
    }

    /// Between a change that a submitter looks for after T4, and a look at the queue; see `TaskQueue::order`.
    pub(in crate::pool) fn order(&self) {
        drop(self.waiting.lock());
    }

    /// After every change of the entries.
    fn changed(&self, waiting: &Waiting) {
        self.note_len(waiting);
        self.note_watch(waiting);
    }

    #[inline]
    fn note_len(&self, waiting: &Waiting) {
        self.len.store(waiting.entries.len(), Ordering::Relaxed);
    }

    /// After every change of who watches, and of the entries if that changes when somebody has to look.
    fn note_watch(&self, waiting: &Waiting) {
        let watched = waiting.entries.look_by().is_none_or(|by| waiting.is_watched(by));
        self.watched.store(watched && !self.is_manual(), Ordering::Relaxed);
    }

    /// Takes the first task if it is due.
    pub(in crate::pool) fn poll(&self) -> Option<Task> {
        if self.len() == 0 {
            return None;
        }
        // To read the clock takes as long as to run a small task: what is due by an earlier look at it needs no other.
        let mut now = None;
        loop {
            let mut waiting = self.waiting.lock();
            waiting.seen = waiting.seen.max(now.unwrap_or(waiting.seen));
            let seen = now.unwrap_or(waiting.seen);
            match waiting.entries.look(seen) {
                Look::Due => {}
                Look::Again => continue, // and let others have the lock in between
                Look::Later | Look::Ahead if now.is_some() => return None,
                Look::Later | Look::Ahead => {
                    drop(waiting);
                    now = Some(self.clock.tick());
                    continue;
                }
            }
            let (due, task) = waiting.entries.pop()?;
            waiting.last_due = due;
            self.changed(&waiting);
            return Some(task.into_task());
        }
    }

    /// If the task `id` waits for its time: when a worker that joins it should come back to run it.
    pub(in crate::pool) fn not_yet(&self, id: TaskId, place: &Place) -> Option<Help> {
        let mut waiting = self.waiting.lock();
        let due = waiting.entries.due(place.get(), |held| held.id() == id)?;
        if due <= self.clock.tick() {
            return None;
        }
        if !self.is_manual() {
            return Some(self.clock.deadline(due).map_or(Help::Done, Help::NotBefore));
        }
        let cell = WaitCell::among_other_conditions();
        waiting.joiners.retain(|joiner| joiner.strong_count() > 0);
        waiting.joiners.push(Arc::downgrade(&cell));
        Some(Help::WhenNotified(cell))
    }

    pub(in crate::pool) fn remove(&self, id: TaskId, place: Option<&Place>) -> Option<Task> {
        let mut waiting = self.waiting.lock();
        let task = waiting.take(id, place)?;
        self.changed(&waiting);
        Some(task)
    }

    /// As `remove`, for a task that turned out not to be accepted.
    pub(in crate::pool) fn take_back(&self, id: TaskId, place: Option<&Place>) -> Option<Task> {
        let mut waiting = self.waiting.lock();
        let task = waiting.take(id, place)?;
        waiting.pushed -= 1;
        self.changed(&waiting);
        Some(task)
    }

    /// Takes out all tasks that `unwanted` accepts, in order; it is told when they are due.
    pub(in crate::pool) fn remove_if(&self, unwanted: impl Fn(&Task, Tick) -> bool) -> Vec<Task> {
        let mut waiting = self.waiting.lock();
        let removed = waiting.take_if(unwanted);
        self.changed(&waiting);
        removed
    }

    /// The ids of all tasks, in order.
    pub(in crate::pool) fn ids(&self) -> Vec<TaskId> {
        let mut ids = Vec::new();
        self.waiting.lock().entries.for_each(|held| ids.push(held.id()));
        ids
    }

    // ---- who watches the time

    /// The end of a keep-alive time that begins now.
    pub(in crate::pool) fn keep_for(&self, time: Duration) -> Keep {
        let until = self.clock.tick_after(time);
        let deadline = if self.is_manual() { deadline_after(time) } else { self.clock.deadline(until) };
        Keep { until, deadline }
    }

    /// Rests until called, until the first entry is due if we are to lead, or until the keep-alive time is
    /// over. `stays`: the entries are all that keeps us. `look_again` is as for [`IdleWorkers::rest`].
    pub(in crate::pool) fn rest(
        &self,
        idle: &IdleWorkers,
        slot: &Arc<ParkSlot>,
        keep: Option<Keep>,
        stays: bool,
        look_again: impl FnOnce() -> bool,
    ) -> WakeReason {
        if keep.is_some_and(|keep| self.is_manual() && keep.until <= self.clock.tick()) {
            return WakeReason::TimedOut;
        }
        let Some((leads, watch)) = self.watch(slot) else {
            return WakeReason::Called; // there is something to do
        };
        let due = watch.and_then(|watch| self.clock.deadline(watch.until));
        let keep_alive = keep.and_then(|keep| keep.deadline);
        let due_first = due.is_some_and(|due| keep_alive.is_none_or(|end| due < end));
        let options = ParkOptions {
            deadline: if due_first { due } else { keep_alive },
            timed: keep.is_some(),
            leads,
            stays,
        };
        let slack = due.and(watch).map(|watch| TimerSlack::at_most(watch.slack(idle)));
        let rest = idle.rest(slot, options, false, || look_again() || !self.is_watched());
        drop(slack);
        self.stop_watching(slot);
        match rest {
            WakeReason::TimedOut if due_first => WakeReason::Called,
            rest => rest,
        }
    }

    /// T1. `None`: the first entry is due, or a look is needed before it is. Otherwise whether we lead, and until when we may
    /// sleep; without an end if others watch the time, or if there is nothing to watch.
    fn watch(&self, slot: &Arc<ParkSlot>) -> Option<(bool, Option<Watch>)> {
        let mut waiting = self.waiting.lock();
        if waiting.entries.is_empty() {
            return Some((false, None));
        }
        if waiting.entries.look(self.clock.tick()) != Look::Later {
            return None;
        }
        let by = waiting.entries.look_by()?;
        let leads = !waiting.is_led(by);
        if !leads && waiting.second.is_some() {
            return Some((false, None));
        }
        let place = if leads { &mut waiting.leader } else { &mut waiting.second };
        *place = Some(Watcher { slot: Arc::clone(slot), until: by });
        self.note_watch(&waiting);
        Some((leads, Some(Watch { until: by, after: by.since(waiting.last_due) })))
    }

    /// T2. False: stay awake.
    fn is_watched(&self) -> bool {
        let waiting = self.waiting.lock();
        let Some(by) = waiting.entries.look_by() else {
            return true;
        };
        waiting.is_watched(by) && !self.is_overdue(by)
    }

    /// A manual clock may have been moved past `due` without anybody having been there to be told.
    fn is_overdue(&self, due: Tick) -> bool {
        self.is_manual() && due <= self.clock.tick()
    }

    fn is_manual(&self) -> bool {
        self.clock.tells()
    }

    /// T3.
    fn stop_watching(&self, slot: &Arc<ParkSlot>) {
        let mut waiting = self.waiting.lock();
        let led = waiting.leader.take_if(|leader| leader.is(slot));
        let was_second = waiting.second.take_if(|second| second.is(slot));
        if led.or(was_second).is_some() {
            self.note_watch(&waiting);
        }
    }

    /// T5 for one who has just put an entry in: true if nothing is to be done.
    ///
    /// What is read was written with our entry or later. If it is true the first entry was watched then, and whoever
    /// changed that since, by T3 or by T4, does T5 after it.
    #[inline]
    pub(in crate::pool) fn is_seen_to(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// T5: makes sure that somebody is on the way for the first entry, or asleep until it is due.
    pub(in crate::pool) fn ensure_watched(&self, idle: &IdleWorkers) {
        if !idle.may_be_called() {
            return;
        }
        match self.need() {
            Need::Nothing => {}
            Need::Hand => idle.call_one(|| self.poll()),
            Need::Watch => idle.call_one(|| None),
            Need::Earlier(slot) => idle.call_seat(&slot),
        }
    }

    fn need(&self) -> Need {
        let mut waiting = self.waiting.lock();
        if waiting.entries.look_by().is_none_or(|by| waiting.is_watched(by) && !self.is_overdue(by)) {
            return Need::Nothing; // or who watches wakes in time, if it has not already
        }
        let look = waiting.entries.look(self.clock.tick());
        if matches!(look, Look::Due | Look::Again) {
            return Need::Hand;
        }
        self.note_watch(&waiting);
        // The look may have shown that it is due later than it seemed.
        match (&waiting.leader, waiting.entries.look_by()) {
            (Some(leader), Some(by)) if by < leader.until || look == Look::Ahead => {
                Need::Earlier(Arc::clone(&leader.slot))
            }
            (None, Some(_)) => Need::Watch,
            _ => Need::Nothing,
        }
    }

    /// A manual clock was moved: gives what is due to those who sleep, and has those look around whose
    /// keep-alive time may be over.
    pub(in crate::pool) fn time_moved(&self, idle: &IdleWorkers) {
        let joiners = std::mem::take(&mut self.waiting.lock().joiners);
        joiners.iter().filter_map(Weak::upgrade).for_each(|joiner| joiner.notify());
        while self.first_is_due() && idle.hand_head_to_idle(|| self.poll()) {}
        idle.call_if(|options| options.timed);
        self.ensure_watched(idle);
    }

    pub(in crate::pool) fn first_is_due(&self) -> bool {
        let now = self.clock.tick();
        loop {
            match self.waiting.lock().entries.look(now) {
                Look::Due => return true,
                Look::Again => {}
                Look::Later | Look::Ahead => return false,
            }
        }
    }
}

impl CancelQueue for DelayedQueue {
    fn remove_cancelled(&self, removal: Removal<'_>) -> Removed {
        if !self.remove_on_cancel.load(Ordering::Relaxed) {
            return Removed::default();
        }
        let mut waiting = self.waiting.lock();
        let look_by = waiting.entries.look_by_or_never();
        let (id, place) = (removal.id(), removal.place());
        let leaked = removal.is_leakable() && waiting.entries.forget(place.get());
        if !leaked && waiting.take_from(id, place).is_none() {
            return Removed::default();
        }
        // SAFETY: 1. The entry at `place` is never used or dropped any more: `forget` was true. It held a
        // `Shared` to the state that `place` belongs to, by the contract of `Removal::may_leak`: the
        // wheel sets the place of each entry under this lock whenever the entry is moved or leaves, and
        // `TimerTask` gives no place that `forget` accepts to entries that hold anything else. 2. `forget` is
        // true once for an entry, and this is the only caller.
        let leaked = leaked.then(|| unsafe { LeakedRef::new(id) });
        place.set(NOWHERE);
        waiting.struck += 1;
        self.note_len(&waiting);
        if waiting.entries.look_by_or_never() != look_by {
            self.note_watch(&waiting);
        }
        Removed { was_last: waiting.entries.is_empty(), leaked }
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn slack(after: Duration, threads: usize) -> Duration {
        let idle = IdleWorkers::default();
        (0..threads).for_each(|_| _ = idle.enlist(&ParkSlot::for_this_thread(), ParkOptions::default()));
        Watch { until: Tick::NEVER, after }.slack(&idle)
    }

    #[test]
    fn who_watches_for_a_timer_by_itself_is_punctual() {
        for threads in [0, 1, 3, 9] {
            assert_eq!(slack(Duration::from_millis(1), threads), Watch::PUNCTUAL);
        }
    }

    #[test]
    fn who_watches_for_many_is_as_late_as_usual_unless_others_are_idle() {
        let close = Duration::from_micros(5);
        assert_eq!([0, 1].map(|threads| slack(close, threads)), [Watch::USUAL; 2]);
        assert_eq!([2, 3].map(|threads| slack(close, threads)), [Watch::USUAL / 2; 2]);
        assert_eq!([4, 100].map(|threads| slack(close, threads)), [Watch::LEAST; 2]);
    }
}
