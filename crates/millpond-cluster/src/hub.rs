//! Delivers the outcome of a task to the handles that wait for it.
//!
//! A worker of the same cluster object calls the hub directly. All other outcomes arrive through
//! one thread. It reads the engine's notices and, because notices are hints, looks up all
//! outstanding tasks once a second.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond::{Task, TaskHandle, TaskOf};

use crate::engine::{BATCH_LIMIT, Cursor, Engine};
use crate::error::DeadLetter;
use crate::id::TaskId;
use crate::state::{DeadReason, Record, State};

/// Interval of the lookup of outstanding ids, whether or not there was a notice.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// The same for tasks of other processes: their end leaves no notice here.
const FOREIGN_POLL: Duration = Duration::from_millis(50);
/// Maximum number of ids per safety poll; the next poll continues after them.
const POLL_LIMIT: usize = 10 * BATCH_LIMIT;

/// How a task ended, as its handle sees it.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Succeeded(Vec<u8>),
    Cancelled,
    Dead(DeadLetter),
    Gone,
}

impl Outcome {
    /// The outcome of a record that has ended, otherwise `None`.
    pub(crate) fn of(record: Record) -> Option<Outcome> {
        match record.state {
            State::Succeeded => Some(Outcome::Succeeded(record.result.unwrap_or_default())),
            State::Cancelled => Some(Outcome::Cancelled),
            State::Dead => Some(Outcome::Dead(dead_letter(record))),
            State::Ready | State::Delayed | State::Running => None,
        }
    }
}

pub(crate) fn dead_letter(record: Record) -> DeadLetter {
    DeadLetter {
        id: record.id,
        name: record.name,
        reason: record.reason.unwrap_or(DeadReason::Permanent),
        attempts: record.attempt,
        error: record.error,
    }
}

/// Resolves one handle. The handle waits on the other side of `promise`, so it can be interrupted,
/// timed out and awaited like the handle of a local task.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Resolves the handle with the content of the cell. Taken by the first delivery.
    promise: Mutex<Option<(Task, OutcomeCell)>>,
    /// Whether the engine has stored the task. If so, a missing record has been purged.
    is_accepted: AtomicBool,
    /// Whether the task was submitted by another process or an earlier run.
    is_foreign: bool,
}

/// Where a delivery puts the outcome for the task that resolves the handle.
type OutcomeCell = Arc<Mutex<Option<Outcome>>>;

/// A slot and the handle that it resolves.
pub(crate) type Place = (Arc<Slot>, TaskHandle<Outcome>);

impl Slot {
    fn new(is_foreign: bool) -> Place {
        let cell = Arc::new(Mutex::new(None));
        let delivered = Arc::clone(&cell);
        let take = move || lock(&delivered).take().expect("it is delivered before the task runs");
        let (task, handle) = TaskOf::new(take).into_parts();
        let promise = Mutex::new(Some((task, cell)));
        (Arc::new(Slot { promise, is_accepted: AtomicBool::new(false), is_foreign }), handle)
    }

    pub(crate) fn accept(&self) {
        // Relaxed: a stale value only delays the lookup to a later safety poll.
        self.is_accepted.store(true, Ordering::Relaxed);
    }

    fn is_accepted(&self) -> bool {
        self.is_accepted.load(Ordering::Relaxed)
    }

    /// Delivers the outcome. Later calls have no effect: they can only bring the same outcome.
    fn deliver(&self, outcome: Outcome) {
        let Some((task, cell)) = lock(&self.promise).take() else { return };
        *lock(&cell) = Some(outcome);
        task.run();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All handles of one cluster object that wait for an outcome.
#[derive(Debug)]
pub(crate) struct Hub {
    engine: Arc<dyn Engine>,
    waiting: Mutex<Waiting>,
    /// The thread waits here while nothing is outstanding.
    begun: Condvar,
    /// Number of slots with `is_foreign`.
    foreign: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    slots: BTreeMap<TaskId, Vec<Arc<Slot>>>,
    is_closed: bool,
    /// Whether the thread waits in `begun`.
    is_idle: bool,
    /// Since when the engine has not answered.
    unreachable_since: Option<Instant>,
    /// The next safety poll continues after this id.
    polled: Option<TaskId>,
}

impl Hub {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Hub {
        Hub { engine, waiting: Mutex::default(), begun: Condvar::new(), foreign: AtomicUsize::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Registers a slot for a task. Called before the task is submitted, so that no outcome is
    /// missed.
    pub(crate) fn register(&self, id: TaskId, is_foreign: bool) -> Place {
        let (slot, handle) = Slot::new(is_foreign);
        self.foreign.fetch_add(usize::from(is_foreign), Ordering::Relaxed);
        let mut waiting = self.lock();
        waiting.slots.entry(id).or_default().push(Arc::clone(&slot));
        if waiting.is_idle {
            self.begun.notify_all();
        }
        (slot, handle)
    }

    /// Removes the slot of a dropped handle.
    pub(crate) fn unregister(&self, id: TaskId, slot: &Arc<Slot>) {
        let mut waiting = self.lock();
        let Some(slots) = waiting.slots.get_mut(&id) else { return };
        let before = slots.len();
        slots.retain(|other| !Arc::ptr_eq(other, slot));
        let removed = before - slots.len();
        if slots.is_empty() {
            waiting.slots.remove(&id);
        }
        drop(waiting);
        if removed > 0 && slot.is_foreign {
            self.foreign.fetch_sub(removed, Ordering::Relaxed);
        }
    }

    /// Returns true if exactly one task has handles.
    pub(crate) fn awaits_one(&self) -> bool {
        self.lock().slots.len() == 1
    }

    /// Returns true if a handle waits for this task.
    pub(crate) fn has_handle(&self, id: TaskId) -> bool {
        self.lock().slots.contains_key(&id)
    }

    /// Delivers an outcome to all handles of this task.
    pub(crate) fn deliver(&self, id: TaskId, outcome: &Outcome) {
        let slots = self.lock().slots.remove(&id);
        for slot in slots.into_iter().flatten() {
            if slot.is_foreign {
                self.foreign.fetch_sub(1, Ordering::Relaxed);
            }
            slot.deliver(outcome.clone());
        }
    }

    pub(crate) fn unreachable_since(&self) -> Option<Instant> {
        self.lock().unreachable_since
    }

    /// Starts the thread.
    pub(crate) fn start(self: &Arc<Hub>) -> std::io::Result<JoinHandle<()>> {
        let hub = Arc::clone(self);
        std::thread::Builder::new().name("cluster-notices".to_owned()).spawn(move || hub.run())
    }

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.begun.notify_all();
        self.engine.wake();
    }

    fn run(&self) {
        let mut cursor = Cursor::default();
        let mut last_poll = Instant::now();
        let mut backoff = Duration::from_millis(50);
        while self.wait_until_needed() {
            let interval = self.poll_interval();
            let result = self.step(&mut cursor, &mut last_poll, interval);
            self.lock().unreachable_since =
                if result.is_ok() { None } else { self.unreachable_since().or(Some(Instant::now())) };
            backoff = match result {
                Ok(()) => Duration::from_millis(50),
                Err(_) => {
                    self.pause(backoff);
                    (backoff * 2).min(Duration::from_secs(5))
                }
            };
        }
    }

    fn poll_interval(&self) -> Duration {
        if self.foreign.load(Ordering::Relaxed) > 0 { FOREIGN_POLL } else { SAFETY_POLL }
    }

    fn step(
        &self,
        cursor: &mut Cursor,
        last_poll: &mut Instant,
        interval: Duration,
    ) -> Result<(), crate::error::EngineError> {
        let timeout = interval.saturating_sub(last_poll.elapsed());
        let mut ids = self.engine.wait_notices(cursor, timeout)?;
        {
            let waiting = self.lock();
            ids.retain(|id| waiting.slots.contains_key(id));
        }
        self.look_up(&ids)?;
        if last_poll.elapsed() >= interval {
            *last_poll = Instant::now();
            let outstanding = self.outstanding();
            outstanding.chunks(BATCH_LIMIT).try_for_each(|ids| self.look_up(ids).map(drop))?;
        }
        Ok(())
    }

    /// Reads records and delivers the outcomes of those that have ended. A missing record
    /// counts as gone. Returns the number of missing records.
    pub(crate) fn look_up(&self, ids: &[TaskId]) -> Result<usize, crate::error::EngineError> {
        if ids.is_empty() {
            return Ok(0);
        }
        let records = self.engine.fetch(ids)?;
        let gone = records.iter().filter(|record| record.is_none()).count();
        for (id, record) in ids.iter().zip(records) {
            let outcome = match record {
                Some(record) => Outcome::of(record),
                None => self.is_accepted(*id).then_some(Outcome::Gone),
            };
            if let Some(outcome) = outcome {
                self.deliver(*id, &outcome);
            }
        }
        Ok(gone)
    }

    fn is_accepted(&self, id: TaskId) -> bool {
        let waiting = self.lock();
        waiting.slots.get(&id).is_some_and(|slots| slots.iter().all(|slot| slot.is_accepted()))
    }

    /// The next ids for the safety poll, in turn, among those that the engine has stored.
    fn outstanding(&self) -> Vec<TaskId> {
        let mut waiting = self.lock();
        let from = waiting.polled.map_or(Bound::Unbounded, Bound::Excluded);
        let is_accepted = |slots: &Vec<Arc<Slot>>| slots.iter().all(|slot| slot.is_accepted());
        let ids = waiting.slots.range((from, Bound::Unbounded)).take(POLL_LIMIT);
        let ids: Vec<TaskId> = ids.filter(|(_, slots)| is_accepted(slots)).map(|(id, _)| *id).collect();
        waiting.polled = ids.last().filter(|_| ids.len() == POLL_LIMIT).copied();
        ids
    }

    /// Waits while nothing is outstanding. Returns false if the hub is closed.
    fn wait_until_needed(&self) -> bool {
        let mut waiting = self.lock();
        while waiting.slots.is_empty() && !waiting.is_closed {
            waiting.is_idle = true;
            waiting = self.begun.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.is_idle = false;
        !waiting.is_closed
    }

    fn pause(&self, time: Duration) {
        let waiting = self.lock();
        let closed = |waiting: &mut Waiting| !waiting.is_closed;
        drop(self.begun.wait_timeout_while(waiting, time, closed));
    }
}
