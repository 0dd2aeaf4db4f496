//! The records of the memory engine and the lists that index them. One lock guards all of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::engine::BATCH_LIMIT;
use crate::engine::types::{Mode, NewTask, PeriodicRow, QueueStats, Submitted, WorkerRow};
use crate::id::{TaskId, WorkerId};
use crate::state::{Change, Millis, Operation, Priority, Record, Refused, State, Unique, apply};

/// Notices to keep. A reader that falls further behind finds the rest in its safety poll.
const NOTICE_LIMIT: usize = 65_536;

/// The complete state of the engine.
#[derive(Debug, Clone, Default)]
pub(super) struct Store {
    pub(super) records: HashMap<TaskId, Record>,
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) workers: BTreeMap<WorkerId, WorkerRow>,
    /// Ids of tasks that ended, oldest first; the first has the number `first_notice`.
    pub(super) notices: VecDeque<TaskId>,
    pub(super) first_notice: u64,
    /// Grows with each notice. A change means: wake readers.
    pub(super) notices_written: u64,
    /// Grows with each task that became ready or delayed. A change means: wake feeders.
    pub(super) tasks_readied: u64,
    last_seq: u64,
}

/// The lists of one queue.
///
/// Invariant: a record is in exactly one list. Ready records are in `ready` or `suspects`, delayed
/// ones in `delayed`, running ones in `leases`, ended ones in `ends`. In addition,
/// `waiting_deadlines` holds ready and delayed records that have a deadline. The counts in `stats`
/// are the sizes of these lists.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    pub(super) stats: QueueStats,
    pub(super) ready: BTreeMap<(Priority, u64), TaskId>,
    pub(super) suspects: BTreeMap<(Priority, u64), TaskId>,
    pub(super) delayed: BTreeSet<(Millis, u64, TaskId)>,
    pub(super) leases: BTreeSet<(Millis, u64, TaskId)>,
    pub(super) ends: BTreeSet<(Millis, u64, TaskId)>,
    pub(super) waiting_deadlines: BTreeSet<(Millis, u64, TaskId)>,
    pub(super) unique_keys: HashMap<String, (TaskId, Option<Millis>)>,
    pub(super) unique_until: BTreeSet<(Millis, String)>,
    pub(super) periodics: BTreeMap<String, PeriodicRow>,
}

impl Queue {
    fn new(name: &str) -> Queue {
        Queue { stats: QueueStats { queue: name.to_owned(), ..QueueStats::default() }, ..Queue::default() }
    }

    fn count(&mut self, state: State) -> &mut u64 {
        let stats = &mut self.stats;
        match state {
            State::Ready => &mut stats.ready,
            State::Delayed => &mut stats.delayed,
            State::Running => &mut stats.running,
            State::Succeeded => &mut stats.succeeded,
            State::Dead => &mut stats.dead,
            State::Cancelled => &mut stats.cancelled,
        }
    }

    /// Adds a record to the list of its state.
    pub(super) fn link(&mut self, record: &Record) {
        *self.count(record.state) += 1;
        let (seq, id) = (record.seq, record.id);
        match record.state {
            State::Ready if record.is_suspect() => drop(self.suspects.insert((record.class, seq), id)),
            State::Ready => drop(self.ready.insert((record.class, seq), id)),
            State::Delayed => drop(self.delayed.insert((record.due.unwrap_or(0), seq, id))),
            State::Running => drop(self.leases.insert((record.lease.unwrap_or(0), seq, id))),
            _ => {
                self.ends.insert((record.expires.unwrap_or(0), seq, id));
                self.stats.finished_bytes += record.bytes();
            }
        }
        if let (State::Ready | State::Delayed, Some(deadline)) = (record.state, record.deadline) {
            self.waiting_deadlines.insert((deadline, seq, id));
        }
    }

    /// Removes a record from the list of its state.
    pub(super) fn unlink(&mut self, record: &Record) {
        *self.count(record.state) -= 1;
        let (seq, id) = (record.seq, record.id);
        match record.state {
            State::Ready if record.is_suspect() => drop(self.suspects.remove(&(record.class, seq))),
            State::Ready => drop(self.ready.remove(&(record.class, seq))),
            State::Delayed => drop(self.delayed.remove(&(record.due.unwrap_or(0), seq, id))),
            State::Running => drop(self.leases.remove(&(record.lease.unwrap_or(0), seq, id))),
            _ => {
                self.ends.remove(&(record.expires.unwrap_or(0), seq, id));
                self.stats.finished_bytes -= record.bytes();
            }
        }
        if let (State::Ready | State::Delayed, Some(deadline)) = (record.state, record.deadline) {
            self.waiting_deadlines.remove(&(deadline, seq, id));
        }
    }

    fn free_unique(&mut self, key: &str, id: TaskId) {
        if self.unique_keys.get(key).is_some_and(|(holder, _)| *holder == id) {
            self.unique_keys.remove(key);
        }
    }

    pub(super) fn has_work(&self, suspects: bool, now: Millis) -> bool {
        self.stats.mode != Mode::Paused
            && (!self.ready.is_empty()
                || suspects && !self.suspects.is_empty()
                || self.delayed.first().is_some_and(|(due, ..)| *due <= now))
    }

    /// Returns true above the limit of finished records or bytes.
    fn is_over_retention(&self) -> bool {
        let limits = self.stats.retention;
        self.ends.len() as u64 > limits.records || self.stats.finished_bytes > limits.bytes
    }

    /// The finished record to purge next, if one is due.
    pub(super) fn next_purge(&self, now: Millis) -> Option<TaskId> {
        let (expires, _, id) = self.ends.first()?;
        (*expires < now || self.is_over_retention()).then_some(*id)
    }
}

impl Store {
    pub(super) fn queue(&mut self, name: &str) -> &mut Queue {
        if !self.queues.contains_key(name) {
            self.queues.insert(name.to_owned(), Queue::new(name));
        }
        self.queues.get_mut(name).expect("it was just inserted")
    }

    /// Applies one operation to one record and updates the lists. Writes a notice of an end for the
    /// submitter, unless that is `told`: the caller informs it directly.
    pub(super) fn change(
        &mut self,
        id: TaskId,
        operation: &Operation<'_>,
        now: Millis,
        told: Option<crate::id::SubmitterId>,
    ) -> Result<Change, Refused> {
        let record = self.records.get_mut(&id).ok_or(Refused::NotHeld)?;
        let queue = self.queues.get_mut(&record.queue).expect("a record has a queue");
        queue.unlink(record);
        let change = apply(record, operation, now);
        queue.link(record);
        let change = change?;
        count_operation(&mut queue.stats, operation, change);
        queue.stats.ended_here.count(change);
        if let Some(unique) = &record.options.unique {
            let is_free = match unique.until {
                Unique::UntilDone => change.is_end(),
                Unique::UntilStarted => change.is_end() || change.to == State::Running,
                Unique::For(_) => false,
            };
            if is_free {
                queue.free_unique(&unique.key, id);
            }
        }
        self.tasks_readied += u64::from(matches!(change.to, State::Ready | State::Delayed));
        if change.is_end() && record.submitter.0 != 0 && told != Some(record.submitter) {
            self.announce(id);
        }
        Ok(change)
    }

    fn announce(&mut self, id: TaskId) {
        self.notices_written += 1;
        self.notices.push_back(id);
        if self.notices.len() > NOTICE_LIMIT {
            self.notices.pop_front();
            self.first_notice += 1;
        }
    }

    pub(super) fn submit(&mut self, task: &NewTask, now: Millis) -> Submitted {
        if let Some(record) = self.records.get(&task.id) {
            return Submitted::Known(record.state);
        }
        let queue = self.queue(&task.queue);
        if queue.stats.mode == Mode::Closed {
            return Submitted::Closed;
        }
        if let Some(unique) = &task.options.unique {
            match queue.unique_keys.get(&unique.key) {
                Some((holder, until)) if until.is_none_or(|until| until > now) => {
                    return Submitted::Duplicate(*holder);
                }
                _ => {}
            }
        }
        let waiting = queue.stats.ready + queue.stats.delayed;
        if let Some(capacity) = queue.stats.capacity
            && waiting >= capacity
            && !task.over_capacity
        {
            return Submitted::Full { waiting, capacity };
        }
        self.accept(task, now);
        Submitted::New
    }

    fn accept(&mut self, task: &NewTask, now: Millis) {
        self.last_seq += 1;
        self.tasks_readied += 1;
        let record = new_record(task, self.last_seq, now);
        let queue = self.queue(&task.queue);
        if let Some(unique) = &task.options.unique {
            let until = match unique.until {
                Unique::For(time) => Some(now.saturating_add(millis(time))),
                Unique::UntilDone | Unique::UntilStarted => None,
            };
            queue.unique_keys.insert(unique.key.clone(), (task.id, until));
            if let Some(until) = until {
                queue.unique_until.insert((until, unique.key.clone()));
            }
        }
        queue.stats.submitted += 1;
        queue.link(&record);
        self.records.insert(record.id, record);
    }

    /// Removes up to [`BATCH_LIMIT`] records of a queue, and the queue if none is left. Returns
    /// true if the queue is gone.
    pub(super) fn delete_queue(&mut self, name: &str) -> bool {
        let Some(queue) = self.queues.get_mut(name) else { return true };
        let timed = queue.delayed.iter().chain(&queue.leases).chain(&queue.ends).map(|(.., id)| *id);
        let ids = queue.ready.values().chain(queue.suspects.values()).copied().chain(timed);
        let ids: Vec<TaskId> = ids.take(BATCH_LIMIT).collect();
        for record in ids.iter().filter_map(|id| self.records.remove(id)) {
            queue.unlink(&record);
            queue.stats.purged += 1;
        }
        let is_empty = ids.len() < BATCH_LIMIT;
        if is_empty {
            self.queues.remove(name);
        }
        is_empty
    }

    /// Removes a record that has ended.
    pub(super) fn purge(&mut self, id: TaskId) {
        let Some(record) = self.records.remove(&id) else { return };
        debug_assert!(record.state.is_end(), "only ends are purged");
        let queue = self.queues.get_mut(&record.queue).expect("a record has a queue");
        queue.unlink(&record);
        queue.stats.purged += 1;
    }
}

pub(crate) fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

/// The record of a task that is being accepted.
pub(crate) fn new_record(task: &NewTask, seq: u64, now: Millis) -> Record {
    let is_delayed = !task.delay.is_zero();
    Record {
        id: task.id,
        seq,
        queue: task.queue.clone(),
        name: task.name.clone(),
        class: task.class,
        state: if is_delayed { State::Delayed } else { State::Ready },
        attempt: 0,
        owner: None,
        lease: None,
        due: is_delayed.then(|| now.saturating_add(millis(task.delay))),
        deadline: task.deadline.map(|deadline| now.saturating_add(millis(deadline))),
        expires: None,
        failures: 0,
        crashes: 0,
        cancel: false,
        codec: task.codec,
        args: Some(task.args.clone()),
        options: task.options.clone(),
        result: None,
        error: None,
        reason: None,
        submitter: task.submitter,
        retry_of: task.retry_of,
        created: now,
        started: None,
        finished: None,
        unhandled_since: None,
        progress: None,
        history: Vec::new(),
    }
}

/// Updates the counters of events, such as claims and failures, but no counts of records.
pub(crate) fn count_operation(stats: &mut QueueStats, operation: &Operation<'_>, change: Change) {
    match operation {
        Operation::Claim { .. } if change.to == State::Running => stats.started += 1,
        Operation::Fail { .. } => stats.failed += 1,
        Operation::Expire => stats.crashed += 1,
        Operation::GiveBack { .. } | Operation::NoHandler { .. } => stats.given_back += 1,
        _ => {}
    }
}
