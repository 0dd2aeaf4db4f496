//! Checks those invariants that a single state of the store can violate.

use super::store::{Queue, Store};
use crate::state::{Record, State};

impl Store {
    /// Ready, delayed, running and ended records are each in exactly one list, counts add up, and
    /// budgets hold.
    pub(super) fn check(&self) -> Result<(), String> {
        self.records.values().try_for_each(|record| self.check_record(record))?;
        self.queues.values().try_for_each(|queue| self.check_counts(queue))
    }

    fn check_record(&self, record: &Record) -> Result<(), String> {
        let queue = &self.queues[&record.queue];
        let (seq, id) = (record.seq, record.id);
        let lists = [
            (State::Ready, queue.ready.get(&(record.class, seq)) == Some(&id) && !record.is_suspect()),
            (State::Ready, queue.suspects.get(&(record.class, seq)) == Some(&id) && record.is_suspect()),
            (State::Delayed, record.due.is_some_and(|due| queue.delayed.contains(&(due, seq, id)))),
            (State::Running, record.lease.is_some_and(|lease| queue.leases.contains(&(lease, seq, id)))),
            (State::Succeeded, record.expires.is_some_and(|at| queue.ends.contains(&(at, seq, id)))),
        ];
        let expected = if record.state.is_end() { State::Succeeded } else { record.state };
        let found: Vec<State> = lists.iter().filter(|(_, is_in)| *is_in).map(|(state, _)| *state).collect();
        if found != [expected] {
            return Err(format!("task {id} is {} but in the lists of {found:?}", record.state));
        }
        if record.failures > record.options.max_attempts() || record.crashes > record.options.max_crashes() {
            return Err(format!("task {id} has {} failures and {} crashes", record.failures, record.crashes));
        }
        if record.attempt < record.failures + record.crashes {
            return Err(format!("task {id} is in attempt {} after more ends than that", record.attempt));
        }
        Ok(())
    }

    fn check_counts(&self, queue: &Queue) -> Result<(), String> {
        let stats = &queue.stats;
        let lists = [
            ("ready", stats.ready, queue.ready.len() + queue.suspects.len()),
            ("delayed", stats.delayed, queue.delayed.len()),
            ("running", stats.running, queue.leases.len()),
            ("ended", stats.succeeded + stats.dead + stats.cancelled, queue.ends.len()),
        ];
        for (list, count, len) in lists {
            if count != len as u64 {
                return Err(format!("queue '{}' counts {count} {list} tasks but lists {len}", stats.queue));
            }
        }
        let here =
            stats.ready + stats.delayed + stats.running + stats.succeeded + stats.dead + stats.cancelled;
        if stats.submitted != here + stats.purged {
            return Err(format!(
                "queue '{}' accepted {} tasks but holds {here} and purged {}",
                stats.queue, stats.submitted, stats.purged
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
impl Store {
    pub(super) fn tamper(&mut self, id: crate::id::TaskId, f: impl FnOnce(&mut Record)) {
        let Some(record) = self.records.get_mut(&id) else { return };
        let queue = self.queues.get_mut(&record.queue).expect("a record has a queue");
        queue.unlink(record);
        f(record);
        queue.link(record);
    }
}
