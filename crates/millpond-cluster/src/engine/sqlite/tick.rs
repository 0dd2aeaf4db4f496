//! Maintenance: promotion, expiry, deadlines, periodic tasks and purging, each in bounded steps.

use rusqlite::{OptionalExtension, params};

use super::row::{self, COLUMNS};
use super::tx::Tx;
use crate::engine::memory::WORKER_LISTED_MS;
use crate::engine::types::{PeriodicRow, PeriodicSpec, Submitted, Tick};
use crate::id::TaskId;
use crate::periodic::occurrence;
use crate::state::{Operation, Record};

/// Notices to keep. A reader that falls further behind finds the rest in its safety poll.
const NOTICE_LIMIT: i64 = 10_000;

/// The size of a finished record in bytes; the same sum as `Record::bytes`.
const BYTES: &str = "200 + coalesce(length(args), 0) + coalesce(length(result), 0) \
                     + coalesce(length(CAST(error AS BLOB)), 0)";

const DUE: &str = "state = 2 AND due <= ?2 ORDER BY due, seq";
const LEASES: &str = "state = 1 AND lease < ?2 ORDER BY lease, seq";
const DEADLINES: &str = "deadline IS NOT NULL AND state IN (0, 2) AND deadline <= ?2 ORDER BY deadline, seq";

/// Each task is in exactly one of these lists, and each list has an index.
const ALL_LISTS: [&str; 5] = [
    "state = 0 AND crashes = 0",
    "state = 0 AND crashes > 0",
    "state = 1",
    "state = 2",
    "expires IS NOT NULL",
];

/// Tasks of a list, with their bytes if they are finished records.
fn members_sql(list: &str) -> String {
    format!("SELECT seq, state, iif(state >= 3, {BYTES}, 0) FROM task WHERE queue = ?1 AND {list} LIMIT ?2")
}

/// The first records of one of these lists.
fn list_sql(list: &str) -> String {
    format!("SELECT {COLUMNS} FROM task WHERE queue = ?1 AND {list} LIMIT ?3")
}

/// Finished records, in the order in which they expire.
fn finished_sql() -> String {
    format!(
        "SELECT seq, state, expires, {BYTES} FROM task \
         WHERE queue = ?1 AND expires IS NOT NULL AND expires < ?2 ORDER BY expires, seq LIMIT ?3"
    )
}

impl Tx<'_> {
    pub(super) fn tick(&mut self, queue: &str, limit: usize) -> rusqlite::Result<Tick> {
        self.queue(queue)?;
        let mut tick = Tick { promoted: self.promote_due(queue, limit)?, ..Tick::default() };
        tick.expired = self.change_all(queue, LEASES, &Operation::Expire, limit)?;
        tick.timed_out = self.pass_deadlines(queue, limit)?;
        tick.submitted = self.run_periodics(queue, limit)?;
        // The purge reads the counts, so they must include the tasks that this transaction ended.
        self.finish()?;
        tick.purged = self.purge_finished(queue, limit)?;
        self.trim(queue, limit)?;
        let counts = [tick.promoted, tick.expired, tick.timed_out, tick.submitted, tick.purged];
        tick.is_full = counts.contains(&limit);
        Ok(tick)
    }

    pub(super) fn promote_due(&mut self, queue: &str, limit: usize) -> rusqlite::Result<usize> {
        self.change_all(queue, DUE, &Operation::Promote, limit)
    }

    pub(super) fn pass_deadlines(&mut self, queue: &str, limit: usize) -> rusqlite::Result<usize> {
        self.change_all(queue, DEADLINES, &Operation::PassDeadline, limit)
    }

    /// Applies one operation to the first records of a list. The operation checks its own guard
    /// again.
    fn change_all(
        &mut self,
        queue: &str,
        list: &str,
        operation: &Operation<'_>,
        limit: usize,
    ) -> rusqlite::Result<usize> {
        let mut statement = self.conn.prepare_cached(&list_sql(list))?;
        let rows = statement.query_map(params![queue, self.now, limit as i64], row::record)?;
        let mut records: Vec<Record> = rows.collect::<rusqlite::Result<_>>()?;
        drop(statement);
        for record in &mut records {
            let changed = self.change(record, operation, None)?;
            debug_assert!(changed.is_ok(), "the list says that it is due");
        }
        Ok(records.len())
    }

    fn purge_finished(&mut self, queue: &str, limit: usize) -> rusqlite::Result<usize> {
        let kept = "SELECT succeeded + dead + cancelled, finished_bytes, keep_records, keep_bytes \
                    FROM queue WHERE name = ?1";
        type Kept = (i64, i64, i64, i64);
        let (mut records, mut bytes, keep_records, keep_bytes): Kept = self
            .conn
            .prepare_cached(kept)?
            .query_row([queue], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        let is_over = |records: i64, bytes: i64| records > keep_records || bytes > keep_bytes;
        // Without the limit on `expires` each tick would read finished records that it does not
        // purge.
        let horizon = if is_over(records, bytes) { i64::MAX } else { self.now };
        let mut statement = self.conn.prepare_cached(&finished_sql())?;
        let rows = statement.query_map(params![queue, horizon, limit as i64], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
        })?;
        let rows: Vec<(i64, u8, i64, i64)> = rows.collect::<rusqlite::Result<_>>()?;
        drop(statement);
        let mut purged = 0;
        for (seq, state, expires, size) in rows {
            if expires >= self.now && !is_over(records, bytes) {
                break;
            }
            self.purge(queue, seq, state, size)?;
            (records, bytes, purged) = (records - 1, bytes - size, purged + 1);
        }
        Ok(purged)
    }

    pub(super) fn purge_dead(&mut self, queue: &str, before: i64, limit: usize) -> rusqlite::Result<usize> {
        let sql = format!(
            "SELECT seq, {BYTES} FROM task WHERE queue = ?1 AND expires IS NOT NULL AND state = 4 \
             AND finished <= ?2 ORDER BY expires, seq LIMIT ?3"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let rows = statement
            .query_map(params![queue, before, limit as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let rows: Vec<(i64, i64)> = rows.collect::<rusqlite::Result<_>>()?;
        drop(statement);
        rows.iter().try_for_each(|(seq, bytes)| self.purge(queue, *seq, 4, *bytes))?;
        Ok(rows.len())
    }

    /// Deletes records of a queue, and the queue if none is left. Returns true if it is gone.
    pub(super) fn delete_queue(&mut self, queue: &str, limit: usize) -> rusqlite::Result<bool> {
        let mut left = limit;
        for list in ALL_LISTS {
            let mut statement = self.conn.prepare_cached(&members_sql(list))?;
            let rows = statement
                .query_map(params![queue, left as i64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let rows: Vec<(i64, u8, i64)> = rows.collect::<rusqlite::Result<_>>()?;
            drop(statement);
            left -= rows.len();
            rows.into_iter().try_for_each(|(seq, state, bytes)| self.purge(queue, seq, state, bytes))?;
        }
        if left == 0 {
            return Ok(false);
        }
        for sql in [
            "DELETE FROM unique_key WHERE queue = ?1",
            "DELETE FROM periodic WHERE queue = ?1",
            "DELETE FROM queue WHERE name = ?1",
        ] {
            self.conn.prepare_cached(sql)?.execute([queue])?;
        }
        Ok(true)
    }

    /// Removes obsolete rows: expired unique keys, old notices, workers that have gone.
    fn trim(&self, queue: &str, limit: usize) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached(
                "DELETE FROM unique_key WHERE (queue, key) IN (SELECT queue, key FROM unique_key \
                 WHERE queue = ?1 AND until IS NOT NULL AND until <= ?2 ORDER BY until LIMIT ?3)",
            )?
            .execute(params![queue, self.now, limit as i64])?;
        self.conn
            .prepare_cached(
                "DELETE FROM notice WHERE seq IN (SELECT seq FROM notice \
                 WHERE seq <= (SELECT max(seq) FROM notice) - ?1 ORDER BY seq LIMIT ?2)",
            )?
            .execute(params![NOTICE_LIMIT, limit as i64])?;
        self.conn
            .prepare_cached("DELETE FROM worker WHERE seen <= ?1")?
            .execute([self.now - WORKER_LISTED_MS])?;
        Ok(())
    }

    fn run_periodics(&mut self, queue: &str, limit: usize) -> rusqlite::Result<usize> {
        let due = "SELECT name, next, last, spec FROM periodic WHERE queue = ?1 AND next <= ?2 \
                   ORDER BY next, name LIMIT 1";
        let mut submitted = 0;
        for _ in 0..limit {
            let row =
                self.conn.prepare_cached(due)?.query_row(params![queue, self.now], periodic).optional()?;
            let Some(row) = row else { break };
            let last = row.last.map(|id| row::find(self.conn, id)).transpose()?.flatten();
            let occurrence = occurrence(queue, &row, last.as_ref(), self.now);
            if let Some(task) = &occurrence.task {
                let _: Submitted = self.submit(task)?;
                submitted += 1;
            }
            let last = occurrence.task.map(|task| task.id).or(row.last);
            self.conn
                .prepare_cached("UPDATE periodic SET next = ?3, last = ?4 WHERE queue = ?1 AND name = ?2")?
                .execute(params![queue, row.name, occurrence.next, last.as_ref().map(TaskId::as_bytes)])?;
        }
        Ok(submitted)
    }
}

/// Reads a schedule: name, next, last, spec.
pub(super) fn periodic(row: &rusqlite::Row<'_>) -> rusqlite::Result<PeriodicRow> {
    let spec: String = row.get(3)?;
    let spec: PeriodicSpec = serde_json::from_str(&spec).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, Box::new(error))
    })?;
    let last: Option<[u8; 16]> = row.get(2)?;
    Ok(PeriodicRow { name: row.get(0)?, next: row.get(1)?, last: last.map(TaskId::from_bytes), spec })
}

#[cfg(test)]
pub(super) mod tests {
    use rusqlite::Connection;

    use super::*;

    pub(in crate::engine::sqlite) fn connection() -> Connection {
        let conn = Connection::open_in_memory().unwrap();
        super::super::schema::open(&conn, "test").unwrap();
        conn
    }

    /// Asserts that the query plan uses these indexes, scans no tasks and sorts nothing.
    /// Statistics, which could change the plan, are never collected.
    pub(in crate::engine::sqlite) fn assert_uses(conn: &Connection, sql: &str, indexes: &[&str]) {
        let plan = plan(conn, sql);
        for index in indexes {
            assert!(plan.contains(&format!("INDEX {index} ")), "{index} is not used: {plan}");
        }
        assert!(!plan.contains("SCAN task"), "all tasks are read: {plan}");
        assert!(!plan.contains("TEMP B-TREE"), "all tasks of a list are sorted: {plan}");
    }

    fn plan(conn: &Connection, sql: &str) -> String {
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let parameters = statement.parameter_count();
        let values = rusqlite::params_from_iter((0..parameters).map(|_| 1));
        let lines = statement.query_map(values, |row| row.get::<_, String>(3)).unwrap();
        lines.map(|line| line.unwrap() + "\n").collect()
    }

    #[test]
    fn ticks_read_only_what_is_due() {
        let conn = connection();
        assert_uses(&conn, &list_sql(DUE), &["task_due"]);
        assert_uses(&conn, &list_sql(LEASES), &["task_lease"]);
        assert_uses(&conn, &list_sql(DEADLINES), &["task_deadline"]);
        assert_uses(&conn, &finished_sql(), &["task_expires"]);
    }

    #[test]
    fn deleting_a_queue_reads_no_other_queue() {
        let conn = connection();
        let indexes = ["task_ready", "task_suspect", "task_lease", "task_due", "task_expires"];
        for (list, index) in ALL_LISTS.iter().zip(indexes) {
            assert_uses(&conn, &members_sql(list), &[index]);
        }
    }

    #[test]
    #[should_panic(expected = "task_due is not used")]
    fn lost_index_is_noticed() {
        let conn = connection();
        conn.execute_batch("DROP INDEX task_due").unwrap();
        assert_uses(&conn, &list_sql(DUE), &["task_due"]);
    }
}
