//! The invariants of the design, checked after each step.

use std::collections::BTreeMap;

use super::world::{Call, LEASE, POLL, Reply, TICK, TICK_LIMIT, World};
use crate::engine::Verdict;
use crate::id::{TaskId, WorkerId};
use crate::state::{Record, State};

impl World {
    /// Checks one call: only reports of the holder count, only runs that returned succeed, batches
    /// are bounded.
    pub(super) fn check_call(
        &mut self,
        call: &Call,
        reply: &Reply,
        holders: &BTreeMap<TaskId, (WorkerId, u32)>,
    ) -> Result<(), String> {
        if let (Call::Settle(worker, reports), Reply::Settled(answers)) = (call, reply) {
            for (report, _) in reports.iter().zip(answers).filter(|(_, accepted)| **accepted) {
                let fence = report.fence;
                if holders.get(&fence.id) != Some(&(worker.clone(), fence.attempt)) {
                    let holder = holders.get(&fence.id);
                    return Err(format!(
                        "a report of {worker} about {fence:?} counted, but the holder is {holder:?}"
                    ));
                }
                let run = (worker.clone(), fence.id, fence.attempt);
                if matches!(report.verdict, Verdict::Succeeded(_)) && !self.completed.contains(&run) {
                    return Err(format!("{fence:?} succeeded before {worker} had run it"));
                }
            }
        }
        if let Reply::Ticked(tick) = reply {
            let counts = [tick.promoted, tick.expired, tick.timed_out, tick.purged, tick.submitted];
            if counts.iter().any(|count| *count > TICK_LIMIT) {
                return Err(format!("a tick went over its limit: {tick:?}"));
            }
            let changed = self.records().iter().filter(|record| self.has_expired_since(record)).count();
            if changed > TICK_LIMIT {
                return Err(format!("a tick expired {changed} leases, but its limit is {TICK_LIMIT}"));
            }
        }
        Ok(())
    }

    fn has_expired_since(&self, record: &Record) -> bool {
        record.crashes > self.truth.crashes.get(&record.id).copied().unwrap_or(0)
    }

    /// Checks the invariants of every state.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.engine.check_invariants()?;
        let records = self.records();
        self.forget_purged(&records);
        for record in records {
            self.check_record(&record)?;
        }
        Ok(())
    }

    /// A late submission may bring back a purged record as a new task. The guarantees allow this.
    fn forget_purged(&mut self, records: &[Record]) {
        let kept: Vec<TaskId> = records.iter().map(|record| record.id).collect();
        let is_kept = |id: &TaskId| kept.contains(id);
        self.truth.ends.retain(|id, _| is_kept(id));
        self.truth.attempts.retain(|id, _| is_kept(id));
        self.truth.crashes.retain(|id, _| is_kept(id));
    }

    fn check_record(&mut self, record: &Record) -> Result<(), String> {
        let id = record.id;
        let attempt = self.truth.attempts.insert(id, record.attempt).unwrap_or(0);
        if record.attempt < attempt {
            return Err(format!("the attempt of task {id} fell from {attempt} to {}", record.attempt));
        }
        if self.has_expired_since(record) {
            self.check_expiry(record)?;
        }
        self.truth.crashes.insert(id, record.crashes);
        if record.state != State::Running {
            self.truth.holders.remove(&id);
        }
        let outcome = (record.state, record.result.clone());
        match self.truth.ends.get(&id) {
            Some(end) if *end != outcome => Err(format!("task {id} ended as {end:?} and is now {outcome:?}")),
            None if record.state.is_end() => {
                self.truth.ends.insert(id, outcome);
                self.truth.done.insert(id);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A live, connected worker keeps its leases. The effects of a fault last for some time.
    fn check_expiry(&self, record: &Record) -> Result<(), String> {
        let owner = record.history.last().map(|attempt| &attempt.owner);
        let is_alive = self.workers.iter().any(|worker| worker.is_alive && Some(&worker.id) == owner);
        if is_alive && self.now > self.last_fault + 3 * LEASE {
            return Err(format!(
                "the lease of task {} ran out while {owner:?} was alive and well",
                record.id
            ));
        }
        Ok(())
    }

    /// While a worker has room, a due task waits at most for a tick and a safety poll, although all
    /// hints are lost. The effects of a fault last for some time, so only the time after the last
    /// fault is checked.
    pub(super) fn check_promptness(&mut self) -> Result<(), String> {
        if !self.is_quiet() || self.now <= self.last_fault {
            self.promptness = Promptness::default();
            return Ok(());
        }
        let (now, engine_now) = (self.now, self.clock.clock().now());
        let mut promptness = std::mem::take(&mut self.promptness);
        for (number, worker) in self.workers.iter().enumerate() {
            let has_room = self.has_room(number);
            promptness.note(now, Waits::Worker(number, false), has_room);
            promptness.note(now, Waits::Worker(number, true), has_room && worker.ledger.allows_suspects());
        }
        let records = self.records();
        promptness.since.retain(|waits, _| match waits {
            Waits::Task(id) => records.iter().any(|record| record.id == *id),
            Waits::Worker(..) => true,
        });
        for record in &records {
            let is_due = match record.state {
                State::Ready => true,
                State::Delayed => record.due.is_some_and(|due| due <= engine_now),
                State::Running => record.lease.is_some_and(|lease| lease < engine_now),
                _ => false,
            };
            promptness.note(now, Waits::Task(record.id), is_due);
            // A task whose lease has expired becomes a suspect.
            let is_suspect = record.is_suspect() || record.state == State::Running;
            let workers = (0..self.workers.len()).map(|number| Waits::Worker(number, is_suspect));
            if let Some(time) = workers.filter_map(|worker| promptness.both(worker, record.id, now)).max()
                && time > TICK + POLL + 100
            {
                return Err(format!(
                    "task {} is {} and due, but waits for {time} ms although a worker is idle",
                    record.id, record.state
                ));
            }
        }
        self.promptness = promptness;
        Ok(())
    }
}

/// Since when, without interruption, tasks have been due and workers have had room.
#[derive(Debug, Default)]
pub(super) struct Promptness {
    since: BTreeMap<Waits, u64>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waits {
    Task(TaskId),
    /// The worker's number, and whether the room is for suspects.
    Worker(usize, bool),
}

impl Promptness {
    fn note(&mut self, now: u64, waits: Waits, does_wait: bool) {
        if does_wait {
            self.since.entry(waits).or_insert(now);
        } else {
            self.since.remove(&waits);
        }
    }

    /// For how long both the worker and the task have been waiting.
    fn both(&self, worker: Waits, id: TaskId, now: u64) -> Option<u64> {
        Some(now - self.since.get(&worker)?.max(self.since.get(&Waits::Task(id))?))
    }
}
