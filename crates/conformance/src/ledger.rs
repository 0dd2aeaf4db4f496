//! The ledger of one run: the names of the tasks and all events, in one list under one lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond::{Hooks, Panic, TaskId, TaskInfo, WorkerInfo};

use crate::trace::Event;

/// Names and events of one run.
#[derive(Debug, Default)]
pub struct Ledger {
    names: Mutex<HashMap<TaskId, i64>>,
    events: Mutex<Events>,
    /// Worker threads that have started and not yet decided to end.
    threads: AtomicUsize,
}

#[derive(Debug, Default)]
struct Events {
    /// Events since the last [`Ledger::take`].
    recent: Vec<Event>,
    /// Number of events ever recorded.
    count: u64,
}

impl Ledger {
    /// Gives the task with this id its name in the scenario. Called before the pool gets the task.
    pub fn name(&self, id: TaskId, t: i64) {
        lock(&self.names).insert(id, t);
    }

    /// The name of a task; -1, which occurs in no trace, for an unknown task.
    pub fn name_of(&self, id: TaskId) -> i64 {
        lock(&self.names).get(&id).copied().unwrap_or(-1)
    }

    /// Records an event.
    pub fn record(&self, event: Event) {
        let mut events = lock(&self.events);
        events.recent.push(event);
        events.count += 1;
    }

    /// Number of events ever recorded.
    pub fn count(&self) -> u64 {
        lock(&self.events).count
    }

    /// Number of worker threads that have started and not yet decided to end.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Acquire)
    }

    /// Takes the events recorded since the last call.
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut lock(&self.events).recent)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool's hooks, which write into the ledger.
#[derive(Debug)]
pub struct Recorder(pub Arc<Ledger>);

impl Hooks for Recorder {
    fn before_execute(&self, task: &TaskInfo) {
        self.0.record(Event::Before(self.0.name_of(task.id())));
    }

    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        self.0.record(Event::After(self.0.name_of(task.id()), panic.is_some()));
    }

    fn terminated(&self) {
        self.0.record(Event::Terminated);
    }

    fn worker_started(&self, _: &WorkerInfo) {
        self.0.threads.fetch_add(1, Ordering::Release);
    }

    fn worker_stopped(&self, _: &WorkerInfo) {
        self.0.threads.fetch_sub(1, Ordering::Release);
    }
}
