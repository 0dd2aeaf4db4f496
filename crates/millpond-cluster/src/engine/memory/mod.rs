//! The memory engine: the state machine and a map. For tests, for simulation, and for tasks that
//! need not survive the process.

mod calls;
mod check;
mod store;

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[cfg(feature = "sqlite")]
pub(crate) use self::calls::retry_of;
use self::store::Store;
pub(crate) use self::store::millis;
#[cfg(feature = "sqlite")]
pub(crate) use self::store::{count_operation, new_record};
use super::clock::EngineClock;
use super::types::*;
use super::{BATCH_LIMIT, Engine, EngineResult};
use crate::id::{TaskId, WorkerId};
use crate::periodic::occurrence;
use crate::state::{Millis, Operation, Priority, Record, State};

/// Workers that did not announce themselves for this long are no longer listed.
pub(crate) const WORKER_LISTED_MS: i64 = 3600 * 1000;

/// Keeps all tasks in this process. They are lost with it.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    clock: EngineClock,
    store: Mutex<Guarded>,
    work: Condvar,
    notice: Condvar,
}

/// The store and the number of threads that wait for it.
#[derive(Debug, Default)]
struct Guarded {
    store: Store,
    /// Threads in `wait_work`. If it is 0, notifications are skipped.
    work_waiters: usize,
    notice_waiters: usize,
    /// Incremented by each `wake`.
    wakes: u64,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> MemoryEngine {
        MemoryEngine::default()
    }

    /// An empty engine with the given clock.
    pub fn with_clock(clock: EngineClock) -> MemoryEngine {
        MemoryEngine { clock, ..MemoryEngine::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` on the store, then wakes the threads that wait for its effects.
    fn with_store<R>(&self, f: impl FnOnce(&mut Store, Millis) -> R) -> R {
        let now = self.clock.now();
        let mut guarded = self.lock();
        let before = (guarded.store.notices_written, guarded.store.tasks_readied);
        let result = f(&mut guarded.store, now);
        let wake_notice = guarded.store.notices_written != before.0 && guarded.notice_waiters > 0;
        let wake_work = guarded.store.tasks_readied != before.1 && guarded.work_waiters > 0;
        drop(guarded);
        if wake_notice {
            self.notice.notify_all();
        }
        if wake_work {
            self.work.notify_all();
        }
        result
    }
}

/// For tests of crashes: an engine that restarts without its latest writes.
#[cfg(test)]
impl MemoryEngine {
    pub(crate) fn snapshot(&self) -> Box<dyn std::any::Any> {
        Box::new(self.lock().store.clone())
    }

    pub(crate) fn restore(&self, snapshot: &dyn std::any::Any) {
        self.lock().store = snapshot.downcast_ref::<Store>().expect("a snapshot of this engine").clone();
    }

    /// Changes a record directly, as a faulty engine would.
    pub(crate) fn tamper(&self, id: TaskId, f: impl FnOnce(&mut Record)) {
        self.lock().store.tamper(id, f);
    }

    /// Checks those invariants that a single state can violate.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        self.lock().store.check()
    }
}

impl Store {
    fn claim_one(&mut self, id: TaskId, ask: &Claim, now: Millis) -> Option<Claimed> {
        let operation = Operation::Claim { worker: &ask.worker, lease: millis(ask.lease) };
        let change = self.change(id, &operation, now, None).ok()?;
        (change.to == State::Running).then(|| claimed(&self.records[&id], now))
    }

    fn promote_due(&mut self, queue: &str, limit: usize, now: Millis) -> usize {
        self.repeat(queue, limit, now, &Operation::Promote, |queue| {
            queue.delayed.first().filter(|(due, ..)| *due <= now).map(|(.., id)| *id)
        })
    }

    fn pass_deadlines(&mut self, queue: &str, limit: usize, now: Millis) -> usize {
        self.repeat(queue, limit, now, &Operation::PassDeadline, |queue| {
            queue.waiting_deadlines.first().filter(|(deadline, ..)| *deadline <= now).map(|(.., id)| *id)
        })
    }

    /// Applies `operation` to the record that `next` returns, until there is none or the limit is
    /// reached.
    fn repeat(
        &mut self,
        queue: &str,
        limit: usize,
        now: Millis,
        operation: &Operation<'_>,
        next: impl Fn(&store::Queue) -> Option<TaskId>,
    ) -> usize {
        for done in 0..limit {
            let Some(id) = self.queues.get(queue).and_then(&next) else { return done };
            self.change(id, operation, now, None).expect("the list says that it is due");
        }
        limit
    }

    /// Takes tasks from the head of one list. Tasks whose deadline has passed end here and do not
    /// count.
    fn claim_from(
        &mut self,
        ask: &Claim,
        max: usize,
        now: Millis,
        head: impl Fn(&store::Queue) -> Option<(&(Priority, u64), &TaskId)>,
        taken: &mut Vec<Claimed>,
    ) {
        let end = taken.len() + max;
        for _ in 0..BATCH_LIMIT {
            if taken.len() >= end {
                break;
            }
            let Some(id) = self.queues.get(&ask.queue).and_then(|queue| head(queue).map(|(_, id)| *id))
            else {
                break;
            };
            taken.extend(self.claim_one(id, ask, now));
        }
    }

    fn claim_ids(&mut self, ask: &Claim, now: Millis) -> Vec<Claimed> {
        let mut taken = Vec::new();
        for id in ask.ids.iter().take(ask.max) {
            let Some(record) = self.records.get(id).filter(|record| record.queue == ask.queue) else {
                continue;
            };
            if record.is_suspect() && ask.max_suspects == 0 {
                continue;
            }
            let _ = self.change(*id, &Operation::Promote, now, None);
            taken.extend(self.claim_one(*id, ask, now));
        }
        taken
    }

    fn claim(&mut self, ask: &Claim, now: Millis) -> Vec<Claimed> {
        let max = ask.max.min(BATCH_LIMIT);
        if self.queue(&ask.queue).stats.mode == Mode::Paused {
            return Vec::new();
        }
        if !ask.ids.is_empty() {
            return self.claim_ids(ask, now);
        }
        if max == 0 || !self.queue(&ask.queue).has_work(ask.max_suspects > 0, now) {
            return Vec::new();
        }
        self.pass_deadlines(&ask.queue, BATCH_LIMIT, now);
        self.promote_due(&ask.queue, max, now);
        let mut taken = Vec::new();
        self.claim_from(
            ask,
            ask.max_suspects.min(max),
            now,
            |queue| queue.suspects.first_key_value(),
            &mut taken,
        );
        self.claim_from(ask, max - taken.len(), now, |queue| queue.ready.first_key_value(), &mut taken);
        taken
    }

    fn settle_one(&mut self, settle: &Settle<'_>, report: &Report, now: Millis) -> bool {
        let operation = operation(settle.worker, report);
        let is_accepted = self.change(report.fence.id, &operation, now, settle.local).is_ok();
        if !is_accepted && let Some(record) = self.records.get(&report.fence.id) {
            let queue = record.queue.clone();
            self.queue(&queue).stats.fence_refused += 1;
        }
        is_accepted
    }

    fn tick(&mut self, queue: &str, limit: usize, now: Millis) -> Tick {
        self.queue(queue);
        let mut tick = Tick { promoted: self.promote_due(queue, limit, now), ..Tick::default() };
        tick.expired = self.repeat(queue, limit, now, &Operation::Expire, |queue| {
            queue.leases.first().filter(|(lease, ..)| *lease < now).map(|(.., id)| *id)
        });
        tick.timed_out = self.pass_deadlines(queue, limit, now);
        tick.submitted = self.run_periodics(queue, limit, now);
        while tick.purged < limit
            && let Some(id) = self.queue(queue).next_purge(now)
        {
            self.purge(id);
            tick.purged += 1;
        }
        self.free_timed_keys(queue, limit, now);
        self.workers.retain(|_, row| row.seen > now - WORKER_LISTED_MS);
        let counts = [tick.promoted, tick.expired, tick.timed_out, tick.submitted, tick.purged];
        tick.is_full = counts.contains(&limit);
        tick
    }

    fn free_timed_keys(&mut self, queue: &str, limit: usize, now: Millis) {
        let queue = self.queue(queue);
        for _ in 0..limit {
            match queue.unique_until.first() {
                Some((until, _)) if *until <= now => {}
                _ => break,
            }
            let (until, key) = queue.unique_until.pop_first().expect("there is a first");
            if queue.unique_keys.get(&key).is_some_and(|(_, of)| *of == Some(until)) {
                queue.unique_keys.remove(&key);
            }
        }
    }

    fn run_periodics(&mut self, queue: &str, limit: usize, now: Millis) -> usize {
        let mut submitted = 0;
        for _ in 0..limit {
            let due =
                self.queue(queue).periodics.values().filter(|row| row.next <= now).min_by_key(|row| row.next);
            let Some(row) = due.cloned() else { break };
            let last = row.last.and_then(|id| self.records.get(&id));
            let occurrence = occurrence(queue, &row, last, now);
            let id = occurrence.task.as_ref().map(|task| task.id);
            if let Some(task) = &occurrence.task {
                self.submit(task, now);
                submitted += 1;
            }
            let row = self.queue(queue).periodics.get_mut(&row.name).expect("it is there");
            row.next = occurrence.next;
            row.last = id.or(row.last);
        }
        submitted
    }
}

/// Converts a claimed record for the worker.
pub(crate) fn claimed(record: &Record, now: Millis) -> Claimed {
    let left = |deadline: Millis| Duration::from_millis(u64::try_from(deadline - now).unwrap_or(0));
    Claimed {
        fence: Fence { id: record.id, attempt: record.attempt },
        name: record.name.clone(),
        codec: record.codec,
        args: record.args.clone().unwrap_or_default(),
        options: record.options.clone(),
        failures: record.failures,
        is_suspect: record.is_suspect(),
        deadline_in: record.deadline.map(left),
        age: Duration::from_millis(u64::try_from(now - record.created).unwrap_or(0)),
    }
}

/// The operation that corresponds to a report.
pub(crate) fn operation<'a>(worker: &'a WorkerId, report: &'a Report) -> Operation<'a> {
    let attempt = report.fence.attempt;
    match &report.verdict {
        Verdict::Succeeded(result) => Operation::Succeed { worker, attempt, result },
        Verdict::Failed { error, retry } => {
            let retry = match retry {
                Retry::After(wait) => Ok(millis(*wait)),
                Retry::Never(reason) => Err(*reason),
            };
            Operation::Fail { worker, attempt, error, retry }
        }
        Verdict::GivenBack => Operation::GiveBack { worker, attempt },
        Verdict::NoHandler => Operation::NoHandler { worker, attempt },
        Verdict::Cancelled => Operation::ConfirmCancel { worker, attempt },
    }
}
