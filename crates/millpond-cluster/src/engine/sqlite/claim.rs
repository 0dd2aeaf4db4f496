//! Claiming tasks.

use rusqlite::{Connection, params};

use super::row::{self, bytes, options_of, text};
use super::tx::Tx;
use crate::engine::BATCH_LIMIT;
use crate::engine::memory::{claimed, millis};
use crate::engine::types::{Claim, Claimed, Fence, Mode};
use crate::id::TaskId;
use crate::state::{Change, Millis, Operation, State, Unique};
use std::time::Duration;

const HAS_WORK: &str = "SELECT coalesce((SELECT mode FROM queue WHERE name = ?1), 0) <> 1 AND (\
    EXISTS(SELECT 1 FROM task WHERE queue = ?1 AND state = 0 AND crashes = 0) \
    OR ?3 AND EXISTS(SELECT 1 FROM task WHERE queue = ?1 AND state = 0 AND crashes > 0) \
    OR EXISTS(SELECT 1 FROM task WHERE queue = ?1 AND state = 2 AND due <= ?2))";
/// The two lists of ready tasks: non-suspects and suspects.
const READY: &str = "crashes = 0";
const SUSPECTS: &str = "crashes > 0";

/// The statement that claims tasks from the head of one list.
fn claim_sql(list: &str) -> String {
    format!(
        "UPDATE task SET state = 1, attempt = attempt + 1, owner = ?2, lease = ?3, started = ?4 WHERE seq IN (\
         SELECT seq FROM task WHERE queue = ?1 AND state = 0 AND {list} \
         AND (deadline IS NULL OR deadline > ?4) ORDER BY class, seq LIMIT ?5) \
         RETURNING class, seq, id, attempt, name, codec, args, options, failures, crashes, deadline, created"
    )
}

/// Checks without a write lock whether a claim may find a task.
pub(super) fn has_work(
    conn: &Connection,
    queue: &str,
    suspects: bool,
    now: Millis,
) -> rusqlite::Result<bool> {
    conn.prepare_cached(HAS_WORK)?.query_row(params![queue, now, suspects], |row| row.get(0))
}

impl Tx<'_> {
    pub(super) fn claim(&mut self, ask: &Claim) -> rusqlite::Result<Vec<Claimed>> {
        let max = ask.max.min(BATCH_LIMIT);
        if self.queue(&ask.queue)?.mode == Mode::Paused {
            return Ok(Vec::new());
        }
        if !ask.ids.is_empty() {
            return self.claim_ids(ask);
        }
        self.pass_deadlines(&ask.queue, BATCH_LIMIT)?;
        self.promote_due(&ask.queue, max)?;
        let mut taken = self.claim_from(ask, SUSPECTS, ask.max_suspects.min(max))?;
        taken.append(&mut self.claim_from(ask, READY, max - taken.len())?);
        self.count_started(&ask.queue, taken.len() as u64);
        Ok(taken)
    }

    /// Claims tasks from the head of one list, in one statement.
    fn claim_from(&mut self, ask: &Claim, list: &str, max: usize) -> rusqlite::Result<Vec<Claimed>> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let lease = self.now.saturating_add(millis(ask.lease));
        let mut statement = self.conn.prepare_cached(&claim_sql(list))?;
        let values = params![ask.queue, ask.worker.as_str(), lease, self.now, max as i64];
        let now = self.now;
        let rows = statement.query_map(values, |row| {
            let options = options_of(text(row, 7)?.as_deref());
            let left = |until: Millis| Duration::from_millis(u64::try_from(until - now).unwrap_or(0));
            let key: (u8, i64) = (row.get(0)?, row.get(1)?);
            let claimed = Claimed {
                fence: Fence { id: TaskId::from_bytes(row.get(2)?), attempt: row.get(3)? },
                name: row.get(4)?,
                codec: row.get(5)?,
                args: bytes(row, 6)?.unwrap_or_default(),
                options,
                failures: row.get(8)?,
                is_suspect: row.get::<_, u32>(9)? > 0,
                deadline_in: row.get::<_, Option<Millis>>(10)?.map(left),
                age: Duration::from_millis(u64::try_from(now - row.get::<_, Millis>(11)?).unwrap_or(0)),
            };
            Ok((key, claimed))
        })?;
        let mut taken = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        drop(statement);
        // SQLite does not promise to return rows of an update in the order of the subquery.
        taken.sort_unstable_by_key(|(key, _)| *key);
        for (_, task) in &taken {
            self.moved(&ask.queue, Change { from: State::Ready, to: State::Running }, 0);
            if let Some(unique) =
                task.options.unique.as_ref().filter(|unique| unique.until == Unique::UntilStarted)
            {
                self.free_unique(&ask.queue, &unique.key, task.fence.id)?;
            }
        }
        Ok(taken.into_iter().map(|(_, task)| task).collect())
    }

    fn claim_ids(&mut self, ask: &Claim) -> rusqlite::Result<Vec<Claimed>> {
        let operation = Operation::Claim { worker: &ask.worker, lease: millis(ask.lease) };
        let mut taken = Vec::new();
        for id in ask.ids.iter().take(ask.max) {
            let Some(mut record) = row::find(self.conn, *id)?.filter(|record| record.queue == ask.queue)
            else {
                continue;
            };
            if record.is_suspect() && ask.max_suspects == 0 {
                continue;
            }
            let _ = self.change(&mut record, &Operation::Promote, None)?;
            if self.change(&mut record, &operation, None)?.is_ok() && record.state == State::Running {
                taken.push(claimed(&record, self.now));
            }
        }
        Ok(taken)
    }
}

/// Claims find the head of a deep queue through an index.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sqlite::tick::tests::{assert_uses, connection};

    #[test]
    fn claims_read_only_the_head_of_their_list() {
        let conn = connection();
        assert_uses(&conn, &claim_sql(READY), &["task_ready"]);
        assert_uses(&conn, &claim_sql(SUSPECTS), &["task_suspect"]);
        assert_uses(&conn, HAS_WORK, &["task_ready", "task_suspect", "task_due"]);
    }
}
