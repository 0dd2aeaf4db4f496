//! The invariants of the design, checked after each step.

use std::collections::BTreeMap;

use super::world::{Call, LEASE, POLL, Reply, TICK, TICK_LIMIT, World};
use crate::engine::Verdict;
use crate::id::{TaskId, WorkerId};
use crate::state::{Record, State};

impl World {
    /// What one call did: only the holder's reports count, only runs that returned succeed, batches
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

    /// What holds at every moment.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.engine.check_invariants()?;
        let records = self.records();
        self.forget_purged(&records);
        for record in records {
            self.check_record(&record)?;
        }
        Ok(())
    }

    /// A record that was purged may come back by a late submit, as a new task: that is what the
    /// promise says.
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

    /// A worker that lives and can speak keeps its leases. A fault has consequences for some time.
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

    /// A task that is ready while everybody is idle starts within a tick and a safety poll,
    /// although no hint arrives.
    pub(super) fn check_promptness(&self) -> Result<(), String> {
        let Some((id, since)) = self.prompt else { return Ok(()) };
        if self.now <= since + TICK + POLL + 100 {
            return Ok(());
        }
        if self.record(id).is_some_and(|record| record.state == State::Ready) {
            return Err(format!("task {id} waits since {since} ms although workers are idle"));
        }
        Ok(())
    }
}
