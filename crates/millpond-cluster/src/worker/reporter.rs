//! Sends reports to the engine, in batches.
//!
//! A pool thread without further tasks settles its own report, which saves a thread switch.
//! Otherwise the reporter sends all pending reports.

use std::sync::{Arc, PoisonError};

use super::feeder::Backoff;
use super::shared::{Counts, Shared, lock};
use crate::engine::{BATCH_LIMIT, Report, Settle, Verdict};
use crate::hub::Outcome;

impl Shared {
    /// Queues a report. With `is_last`, the calling thread has no further tasks and settles it.
    pub(super) fn report(&self, report: Report, is_last: bool) {
        let mut reports = lock(&self.reports);
        if is_last && !reports.is_settling && reports.list.is_empty() {
            reports.is_settling = true;
            drop(reports);
            let left = self.settle(vec![report]).err().unwrap_or_default();
            return self.end_settling(left);
        }
        reports.list.push(report);
        if !reports.is_settling {
            self.reported.notify_one();
        }
    }

    fn end_settling(&self, mut left: Vec<Report>) {
        let mut reports = lock(&self.reports);
        left.append(&mut reports.list);
        reports.list = left;
        reports.is_settling = false;
        let has_reports = !reports.list.is_empty();
        drop(reports);
        if has_reports {
            self.reported.notify_one();
        }
    }

    /// Settles one batch. Returns the reports if the engine did not answer.
    fn settle(&self, mut batch: Vec<Report>) -> Result<(), Vec<Report>> {
        {
            let ledger = self.ledger();
            // After a lost lease the engine would refuse: another worker may hold the task.
            batch.retain(|report| ledger.holds(report.fence));
        }
        if batch.is_empty() {
            return Ok(());
        }
        let settle = Settle { worker: &self.id, local: Some(self.submitter), reports: &batch };
        let Ok(accepted) = self.engine.settle(&settle) else {
            self.failed();
            return Err(batch);
        };
        {
            let mut ledger = self.ledger();
            batch.iter().for_each(|report| ledger.settled(report.fence));
            drop(ledger);
            self.room.notify_all();
        }
        self.tell_handles(batch, &accepted);
        Ok(())
    }

    /// Informs the handles of this process: the engine leaves no notice for them.
    fn tell_handles(&self, batch: Vec<Report>, accepted: &[bool]) {
        let mut unsure = Vec::new();
        for (report, is_accepted) in batch.into_iter().zip(accepted) {
            let id = report.fence.id;
            match report.verdict {
                _ if !is_accepted => Counts::add(&self.counts.refused, 1),
                Verdict::Succeeded(result) => self.hub.deliver(id, &Outcome::Succeeded(result)),
                Verdict::Cancelled => self.hub.deliver(id, &Outcome::Cancelled),
                // Only the engine decides whether this ended the task.
                _ if self.hub.has_handle(id) => unsure.push(id),
                _ => {}
            }
        }
        // On failure the safety poll finds them.
        let _ = self.hub.look_up(&unsure);
    }
}

pub(super) fn report(shared: &Arc<Shared>) {
    let mut backoff = Backoff::default();
    while let Some(batch) = next_batch(shared) {
        let result = shared.settle(batch);
        let is_away = result.is_err();
        shared.end_settling(result.err().unwrap_or_default());
        if is_away {
            shared.pause(backoff.next());
        } else {
            backoff = Backoff::default();
        }
    }
}

/// Waits for reports. `None`: the worker is stopped.
fn next_batch(shared: &Shared) -> Option<Vec<Report>> {
    let mut reports = lock(&shared.reports);
    loop {
        if shared.is_stopped() {
            return None;
        }
        if !reports.is_settling && !reports.list.is_empty() {
            reports.is_settling = true;
            let len = reports.list.len().min(BATCH_LIMIT);
            let rest = reports.list.split_off(len);
            return Some(std::mem::replace(&mut reports.list, rest));
        }
        reports = shared.reported.wait(reports).unwrap_or_else(PoisonError::into_inner);
    }
}
