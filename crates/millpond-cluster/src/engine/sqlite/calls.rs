//! The engine's calls, each one transaction.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use super::{SqliteEngine, claim, lock, row, schema, tick};
use crate::engine::memory::{WORKER_LISTED_MS, millis, retry_of};
use crate::engine::types::*;
use crate::engine::{BATCH_LIMIT, Engine, EngineResult, check_batch};
use crate::id::{TaskId, WorkerId};
use crate::state::{Record, State};

impl Engine for SqliteEngine {
    fn submit(&self, batch: &[NewTask]) -> EngineResult<Vec<Submitted>> {
        check_batch(batch.len())?;
        self.write(true, |tx| batch.iter().map(|task| tx.submit(task)).collect())
    }

    fn claim(&self, ask: &Claim) -> EngineResult<Vec<Claimed>> {
        let now = self.clock.now();
        let may_find = || self.read(|conn| claim::has_work(conn, &ask.queue, ask.max_suspects > 0, now));
        if ask.max == 0 || ask.ids.is_empty() && !may_find()? {
            return Ok(Vec::new());
        }
        self.write(false, |tx| tx.claim(ask))
    }

    fn renew(
        &self,
        worker: &WorkerId,
        lease: Duration,
        held: &[(Fence, Option<Vec<u8>>)],
    ) -> EngineResult<Vec<Renewed>> {
        check_batch(held.len())?;
        self.write(false, |tx| held.iter().map(|held| tx.renew(worker, lease, held)).collect())
    }

    fn settle(&self, settle: &Settle<'_>) -> EngineResult<Vec<bool>> {
        check_batch(settle.reports.len())?;
        self.write(true, |tx| settle.reports.iter().map(|report| tx.settle(settle, report)).collect())
    }

    fn cancel(&self, ids: &[TaskId]) -> EngineResult<Vec<CancelAnswer>> {
        check_batch(ids.len())?;
        self.write(true, |tx| ids.iter().map(|id| tx.cancel(*id)).collect())
    }

    fn fetch(&self, ids: &[TaskId]) -> EngineResult<Vec<Option<Record>>> {
        check_batch(ids.len())?;
        self.read(|conn| ids.iter().map(|id| row::find(conn, *id)).collect())
    }

    fn tick(&self, queue: &str, limit: usize) -> EngineResult<Tick> {
        self.write(false, |tx| tx.tick(queue, limit.min(BATCH_LIMIT)))
    }

    fn wait_work(&self, queue: &str, suspects: bool, timeout: Duration) -> EngineResult<()> {
        let seen = self.signal.generation();
        let now = self.clock.now();
        let look = |conn: &rusqlite::Connection| {
            let next = "SELECT min(due) FROM task WHERE queue = ?1 AND state = 2";
            let due: Option<i64> = conn.prepare_cached(next)?.query_row([queue], |row| row.get(0))?;
            Ok((claim::has_work(conn, queue, suspects, now)?, due))
        };
        let (has_work, due) = self.work.read(look).map_err(|error| self.map(error))?;
        if has_work {
            return Ok(());
        }
        let until_due = due.filter(|due| *due > now).and_then(|due| u64::try_from(due - now).ok());
        let wait = until_due.map_or(timeout, |due| timeout.min(Duration::from_millis(due)));
        self.work.wait(&self.signal, seen, wait).map_err(|error| self.map(error))
    }

    fn wait_notices(&self, cursor: &mut Cursor, timeout: Duration) -> EngineResult<Vec<TaskId>> {
        let map = |error| self.map(error);
        let seen = self.signal.generation();
        let look = |cursor: &mut Cursor| {
            self.notices.read(|conn| {
                let Some(at) = cursor.at else {
                    let last = "SELECT coalesce(max(seq), 0) FROM notice";
                    cursor.at = Some(conn.prepare_cached(last)?.query_row([], |row| row.get(0))?);
                    return Ok(Vec::new());
                };
                let next = "SELECT seq, id FROM notice WHERE seq > ?1 ORDER BY seq LIMIT ?2";
                let mut statement = conn.prepare_cached(next)?;
                let rows = statement.query_map(params![at, BATCH_LIMIT as i64], |row| {
                    Ok((row.get::<_, u64>(0)?, TaskId::from_bytes(row.get(1)?)))
                })?;
                let rows: Vec<(u64, TaskId)> = rows.collect::<rusqlite::Result<_>>()?;
                cursor.at = rows.last().map_or(cursor.at, |(seq, _)| Some(*seq));
                Ok(rows.into_iter().map(|(_, id)| id).collect())
            })
        };
        let found: Vec<TaskId> = look(cursor).map_err(map)?;
        if !found.is_empty() {
            return Ok(found);
        }
        self.notices.wait(&self.signal, seen, timeout).map_err(map)?;
        look(cursor).map_err(map)
    }

    fn wake(&self) {
        self.signal.raise();
    }

    fn queue(&self, queue: &str, change: &QueueChange) -> EngineResult<QueueStats> {
        if *change != QueueChange::default() {
            self.write(true, |tx| {
                tx.queue(queue)?;
                change_queue(tx.conn, queue, change)
            })?;
            self.signal.raise();
        }
        let now = self.clock.now();
        let stats = self.read(|conn| super::admin::stats(conn, queue, now))?;
        let ended_here = lock(&self.ended).get(queue).copied().unwrap_or_default();
        Ok(QueueStats { ended_here, ..stats })
    }

    fn queues(&self) -> EngineResult<Vec<String>> {
        self.read(|conn| {
            let mut statement = conn.prepare_cached("SELECT name FROM queue ORDER BY name")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })
    }

    fn browse(&self, ask: &Browse) -> EngineResult<Page> {
        let now = self.clock.now();
        self.read(|conn| super::admin::browse(conn, ask, now))
    }

    fn retry_dead(&self, letters: &[(TaskId, TaskId)]) -> EngineResult<Vec<Option<Submitted>>> {
        check_batch(letters.len())?;
        self.write(true, |tx| {
            let retry = |(id, new_id): &(TaskId, TaskId)| {
                let dead = row::find(tx.conn, *id)?.filter(|record| record.state == State::Dead);
                dead.map(|dead| tx.submit(&retry_of(&dead, *new_id))).transpose()
            };
            letters.iter().map(retry).collect()
        })
    }

    fn purge_dead(&self, queue: &str, older_than: Duration) -> EngineResult<usize> {
        let before = self.clock.now().saturating_sub(millis(older_than));
        self.write(false, |tx| tx.purge_dead(queue, before, BATCH_LIMIT))
    }

    fn delete_queue(&self, queue: &str) -> EngineResult<bool> {
        self.write(false, |tx| tx.delete_queue(queue, BATCH_LIMIT))
    }

    fn beat(&self, row: &WorkerRow) -> EngineResult<()> {
        let sql = "INSERT INTO worker(id, queue, started, seen, threads, held, finished, draining) \
                   VALUES(?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(id) DO UPDATE SET seen = ?3, threads = ?4, \
                   held = ?5, finished = ?6, draining = max(draining, ?7)";
        self.write(false, |tx| {
            let (threads, held, finished) = (row.threads as i64, row.held as i64, row.finished as i64);
            let values =
                params![row.worker.as_str(), row.queue, tx.now, threads, held, finished, row.draining];
            tx.conn.prepare_cached(sql)?.execute(values).map(drop)
        })
    }

    fn orders(&self, worker: &WorkerId) -> EngineResult<Orders> {
        self.read(|conn| {
            let drain = "SELECT draining FROM worker WHERE id = ?1";
            let drain =
                conn.prepare_cached(drain)?.query_row([worker.as_str()], |row| row.get(0)).optional()?;
            let flagged =
                "SELECT id, attempt FROM task WHERE owner = ?1 AND state = 1 AND cancel = 1 LIMIT ?2";
            let mut statement = conn.prepare_cached(flagged)?;
            let cancel = statement.query_map(params![worker.as_str(), BATCH_LIMIT as i64], |row| {
                Ok(Fence { id: TaskId::from_bytes(row.get(0)?), attempt: row.get(1)? })
            })?;
            Ok(Orders { drain: drain.unwrap_or(false), cancel: cancel.collect::<rusqlite::Result<_>>()? })
        })
    }

    fn order_drain(&self, worker: &WorkerId) -> EngineResult<bool> {
        let sql = "UPDATE worker SET draining = 1 WHERE id = ?1";
        self.write(true, |tx| Ok(tx.conn.execute(sql, [worker.as_str()])? > 0))
    }

    fn remove_worker(&self, worker: &WorkerId) -> EngineResult<()> {
        self.write(false, |tx| {
            tx.conn.execute("DELETE FROM worker WHERE id = ?1", [worker.as_str()]).map(drop)
        })
    }

    fn workers(&self) -> EngineResult<Vec<WorkerRow>> {
        let since = self.clock.now() - WORKER_LISTED_MS;
        self.read(|conn| super::admin::workers(conn, since))
    }

    fn set_periodic(&self, queue: &str, name: &str, spec: Option<&PeriodicSpec>) -> EngineResult<bool> {
        self.write(true, |tx| {
            tx.queue(queue)?;
            let Some(spec) = spec else {
                let sql = "DELETE FROM periodic WHERE queue = ?1 AND name = ?2";
                return Ok(tx.conn.execute(sql, [queue, name])? > 0);
            };
            let text = serde_json::to_string(spec).expect("a schedule is plain data");
            let sql = "INSERT INTO periodic(queue, name, next, spec) VALUES(?1, ?2, ?3, ?4) \
                       ON CONFLICT(queue, name) DO UPDATE SET next = ?3, spec = ?4, last = NULL WHERE spec <> ?4";
            let next = tx.now.saturating_add(spec.every.period_ms());
            Ok(tx.conn.execute(sql, params![queue, name, next, text])? > 0)
        })
    }

    fn periodics(&self, queue: &str) -> EngineResult<Vec<PeriodicRow>> {
        self.read(|conn| {
            let sql = "SELECT name, next, last, spec FROM periodic WHERE queue = ?1 ORDER BY name";
            conn.prepare_cached(sql)?.query_map([queue], tick::periodic)?.collect()
        })
    }

    fn doctor(&self) -> EngineResult<Vec<Finding>> {
        let now = self.clock.now();
        self.read(|conn| super::admin::doctor(conn, &self.path, self.durability, now))
    }

    fn compact(&self) -> EngineResult<u64> {
        let size = || std::fs::metadata(&self.path).map_or(0, |file| file.len());
        let before = size();
        let writer = self.lock_writer();
        writer
            .conn
            .execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")
            .map_err(|error| self.map(error))?;
        Ok(before.saturating_sub(size()))
    }

    fn stored_bytes(&self) -> EngineResult<Option<u64>> {
        // The size of the file would omit pages in the log and count unused ones.
        let sql = "SELECT (page_count - freelist_count) * page_size \
                   FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
        self.read(|conn| conn.query_row(sql, [], |row| row.get(0)).map(Some))
    }

    fn schema_version(&self) -> EngineResult<u32> {
        self.read(schema::version)
    }
}

fn change_queue(conn: &rusqlite::Connection, queue: &str, change: &QueueChange) -> rusqlite::Result<()> {
    if let Some(mode) = change.mode {
        conn.execute("UPDATE queue SET mode = ?2 WHERE name = ?1", params![queue, mode as u8])?;
    }
    if let Some(capacity) = change.capacity {
        let capacity = capacity.map(|capacity| i64::try_from(capacity).unwrap_or(i64::MAX));
        conn.execute("UPDATE queue SET capacity = ?2 WHERE name = ?1", params![queue, capacity])?;
    }
    if let Some(keep) = change.retention {
        let limit = |limit: u64| i64::try_from(limit).unwrap_or(i64::MAX);
        let values = params![queue, limit(keep.records), limit(keep.bytes)];
        conn.execute("UPDATE queue SET keep_records = ?2, keep_bytes = ?3 WHERE name = ?1", values)?;
    }
    Ok(())
}
