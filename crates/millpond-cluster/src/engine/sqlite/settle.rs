//! Reports, renewals and cancels.

use rusqlite::{OptionalExtension, params};

use super::row;
use super::tx::Tx;
use crate::engine::memory::{millis, operation};
use crate::engine::types::{CancelAnswer, Fence, Renewed, Report, Settle, Verdict};
use crate::id::{SubmitterId, TaskId, WorkerId};
use crate::state::{Change, Operation, RESULT_TTL_MS, State};
use std::time::Duration;

impl Tx<'_> {
    pub(super) fn settle(&mut self, settle: &Settle<'_>, report: &Report) -> rusqlite::Result<bool> {
        if let Verdict::Succeeded(result) = &report.verdict
            && self.succeed(settle, report.fence, result)?
        {
            return Ok(true);
        }
        let Some(mut record) = row::find(self.conn, report.fence.id)? else { return Ok(false) };
        let operation = operation(settle.worker, report);
        let is_accepted = self.change(&mut record, &operation, settle.local)?.is_ok();
        if !is_accepted {
            self.count_refused(&record.queue);
        }
        Ok(is_accepted)
    }

    /// The common case in one statement: a task with default options succeeds.
    fn succeed(&mut self, settle: &Settle<'_>, fence: Fence, result: &[u8]) -> rusqlite::Result<bool> {
        let sql = "UPDATE task SET state = 3, result = ?4, args = NULL, lease = NULL, finished = ?5, expires = ?6 \
                   WHERE id = ?1 AND state = 1 AND attempt = ?2 AND owner = ?3 AND options IS NULL \
                   RETURNING queue, submitter, coalesce(length(CAST(error AS BLOB)), 0)";
        let (now, expires) = (self.now, self.now + RESULT_TTL_MS);
        let values =
            params![fence.id.as_bytes(), fence.attempt, settle.worker.as_str(), result, now, expires];
        let settled = self
            .conn
            .prepare_cached(sql)?
            .query_row(values, |row| {
                Ok((row.get::<_, String>(0)?, SubmitterId(row.get(1)?), row.get::<_, u64>(2)?))
            })
            .optional()?;
        let Some((queue, submitter, error)) = settled else { return Ok(false) };
        let bytes = result.len() as u64 + error + 200;
        self.moved(&queue, Change { from: State::Running, to: State::Succeeded }, bytes);
        self.announce(fence.id, submitter, settle.local)?;
        Ok(true)
    }

    pub(super) fn renew(
        &mut self,
        worker: &WorkerId,
        lease: Duration,
        (fence, progress): &(Fence, Option<Vec<u8>>),
    ) -> rusqlite::Result<Renewed> {
        let sql = "UPDATE task SET lease = ?4, progress = coalesce(?5, progress) \
                   WHERE id = ?1 AND state = 1 AND attempt = ?2 AND owner = ?3 RETURNING cancel";
        let lease = self.now.saturating_add(millis(lease));
        let values = params![fence.id.as_bytes(), fence.attempt, worker.as_str(), lease, progress];
        let cancel = self.conn.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?;
        Ok(match cancel {
            None => Renewed::Lost,
            Some(true) => Renewed::Cancel,
            Some(false) => Renewed::Held,
        })
    }

    pub(super) fn cancel(&mut self, id: TaskId) -> rusqlite::Result<CancelAnswer> {
        let Some(mut record) = row::find(self.conn, id)? else { return Ok(CancelAnswer::Unknown) };
        Ok(match self.change(&mut record, &Operation::Cancel, None)? {
            Err(_) => CancelAnswer::AlreadyDone,
            Ok(change) if change.is_end() => CancelAnswer::Cancelled,
            Ok(_) => CancelAnswer::Requested,
        })
    }
}
