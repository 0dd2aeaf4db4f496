//! [`Helpers`]: workers that wait in a completion service, and the tasks that they may run.
//!
//! A worker that waits for a result runs those tasks of the service that are queued in its own pool
//! or scheduler. Tasks are listed by owner, so a worker looks only at tasks that it may run. A
//! worker takes a task off the list before it runs it, and puts it back if it cannot start yet.
//!
//! Invariants
//! 1. Everything here is guarded by one lock, the lock of the service.
//! 2. A worker is in `parked` only while it blocks, or is about to. It lists itself under the lock
//!    in which it found neither a result nor a task that can start.
//! 3. A thread that adds a result or a task notifies one listed worker that can use it, and takes
//!    that worker off the list.
//! 4. A worker that was listed and leaves notifies another one that can use what is left.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::interrupt::wait::WaitCell;
use crate::sync::Arc;
use crate::task::{Canceller, TaskState, owners_of_this_thread};

/// Tasks that a worker may have to run, and the workers that are blocked.
#[derive(Default)]
pub(super) struct Helpers {
    tasks: BTreeMap<Key, Canceller>,
    /// The number of the next task.
    next: u64,
    /// Tasks that have begun are removed when this many are listed.
    prune_at: usize,
    parked: Vec<Parked>,
}

/// The order in which the workers of one owner try the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The pool or scheduler in which the task was queued when it was submitted.
    owner: u64,
    /// The time of the next attempt. `None` for a task that no worker has tried.
    at: Option<Instant>,
    number: u64,
}

impl Key {
    /// Returns the key for the next attempt.
    pub(super) fn again_at(self, at: Instant) -> Key {
        Key { at: Some(at), ..self }
    }
}

/// A worker that waits in the service. Belongs to one call.
pub(super) struct Helper {
    cell: Arc<WaitCell>,
    /// The pool and the schedulers that the thread works for.
    owners: Arc<[u64]>,
    was_listed: bool,
}

struct Parked {
    cell: Arc<WaitCell>,
    owners: Arc<[u64]>,
    /// When the worker looks for tasks again by itself.
    until: Option<Instant>,
}

/// Tasks to be dropped without the lock.
pub(super) type Removed = Vec<(Key, Canceller)>;

impl Helper {
    pub(super) fn for_this_thread() -> Helper {
        let owners = owners_of_this_thread().into();
        Helper { cell: Arc::new(WaitCell::for_this_thread()), owners, was_listed: false }
    }

    pub(super) fn cell(&self) -> &WaitCell {
        &self.cell
    }

    pub(super) fn was_listed(&self) -> bool {
        self.was_listed
    }
}

impl Parked {
    /// Returns true if the worker may run the task and would not try it in time by itself.
    fn needs_wake_for(&self, key: Key) -> bool {
        let will_look = key.at.is_some_and(|at| self.until.is_some_and(|until| until <= at));
        self.owners.contains(&key.owner) && !will_look
    }
}

impl Helpers {
    /// Lists a submitted task. Returns removed tasks, and a worker to notify. The caller notifies
    /// the worker, then drops the tasks, both without the lock.
    pub(super) fn add(&mut self, task: Canceller) -> (Removed, Option<Arc<WaitCell>>) {
        let owner = task.owner();
        if owner == 0 || task.state() != TaskState::Pending {
            return (Vec::new(), None); // it runs or has ended, or no worker could find it
        }
        let removed = self.prune();
        let key = Key { owner, at: None, number: self.next };
        self.next += 1;
        (removed, self.put_back(key, task))
    }

    /// Removes tasks that have begun, if the list is long. The limit doubles with the rest, so the
    /// amortised cost per task is constant.
    fn prune(&mut self) -> Removed {
        if self.tasks.len() < self.prune_at.max(8) {
            return Vec::new();
        }
        let tasks = std::mem::take(&mut self.tasks).into_iter();
        let (waiting, begun): (Vec<_>, Vec<_>) =
            tasks.partition(|(_, task)| task.state() == TaskState::Pending);
        self.tasks = waiting.into_iter().collect();
        self.prune_at = 2 * self.tasks.len();
        begun
    }

    /// Lists a task and returns a worker to notify.
    pub(super) fn put_back(&mut self, key: Key, task: Canceller) -> Option<Arc<WaitCell>> {
        self.tasks.insert(key, task);
        self.unlist_one(|worker| worker.needs_wake_for(key))
    }

    /// Unlists a worker and returns it, to be notified of a result.
    pub(super) fn unlist_for_result(&mut self) -> Option<Arc<WaitCell>> {
        self.unlist_one(|_| true)
    }

    fn unlist_one(&mut self, wanted: impl Fn(&Parked) -> bool) -> Option<Arc<WaitCell>> {
        let at = self.parked.iter().position(wanted)?;
        Some(self.parked.swap_remove(at).cell)
    }

    /// Returns the first task that one of these owners may run.
    fn first_of(&self, owners: &[u64]) -> Option<Key> {
        let first_of = |&owner: &u64| {
            let (key, _) = self.tasks.range(Key { owner, at: None, number: 0 }..).next()?;
            Some(*key).filter(|key| key.owner == owner)
        };
        owners.iter().filter_map(first_of).min_by_key(|key| (key.at, key.number))
    }

    /// Takes a task that the worker may run and that it should try now.
    pub(super) fn take_task(&mut self, helper: &Helper) -> Option<(Key, Canceller)> {
        let key = self.first_of(&helper.owners)?;
        if key.at.is_some_and(|at| at > Instant::now()) {
            return None;
        }
        self.tasks.remove_entry(&key)
    }

    /// Lists a worker that is about to park. Returns when it should look for tasks again.
    pub(super) fn list(&mut self, helper: &mut Helper) -> Option<Instant> {
        helper.cell.reset();
        helper.was_listed = true;
        let until = self.first_of(&helper.owners).and_then(|key| key.at);
        let (cell, owners) = (Arc::clone(&helper.cell), Arc::clone(&helper.owners));
        self.parked.push(Parked { cell, owners, until });
        until
    }

    /// Called by a worker that has parked.
    pub(super) fn unlist(&mut self, helper: &Helper) {
        self.parked.retain(|parked| !Arc::ptr_eq(&parked.cell, &helper.cell));
    }

    /// Called by a worker that leaves. It may have been notified of a result or a task that it does
    /// not take. Unlists another worker that can, and returns it, to be notified.
    pub(super) fn unlist_next(&mut self, has_result: bool) -> Option<Arc<WaitCell>> {
        let wanted = |worker: &Parked| {
            has_result || self.first_of(&worker.owners).is_some_and(|key| worker.needs_wake_for(key))
        };
        let at = self.parked.iter().position(wanted)?;
        Some(self.parked.swap_remove(at).cell)
    }
}
