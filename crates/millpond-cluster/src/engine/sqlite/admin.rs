//! Reads for the administration, and the checks of `doctor`.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::row::{self, COLUMNS};
use super::tx::mode_of;
use super::{Durability, schema};
use crate::engine::BATCH_LIMIT;
use crate::engine::memory::millis;
use crate::engine::types::{Browse, Finding, Page, QueueStats, Retention, Severity, WorkerRow};
use crate::id::WorkerId;
use crate::state::{Millis, Record};

pub(super) fn stats(conn: &Connection, queue: &str, now: Millis) -> rusqlite::Result<QueueStats> {
    let sql = "SELECT mode, capacity, keep_records, keep_bytes, ready, delayed, running, succeeded, dead, cancelled, \
               finished_bytes, submitted, started, failed, crashed, given_back, fence_refused, purged \
               FROM queue WHERE name = ?1";
    let stats = conn.prepare_cached(sql)?.query_row([queue], |row| {
        Ok(QueueStats {
            queue: queue.to_owned(),
            mode: mode_of(row.get(0)?),
            capacity: row.get(1)?,
            retention: Retention { records: row.get(2)?, bytes: row.get(3)? },
            ready: row.get(4)?,
            delayed: row.get(5)?,
            running: row.get(6)?,
            succeeded: row.get(7)?,
            dead: row.get(8)?,
            cancelled: row.get(9)?,
            finished_bytes: row.get(10)?,
            submitted: row.get(11)?,
            started: row.get(12)?,
            failed: row.get(13)?,
            crashed: row.get(14)?,
            given_back: row.get(15)?,
            fence_refused: row.get(16)?,
            purged: row.get(17)?,
            ..QueueStats::default()
        })
    });
    let mut stats =
        stats.optional()?.unwrap_or_else(|| QueueStats { queue: queue.to_owned(), ..QueueStats::default() });
    stats.oldest_ready = oldest_ready(conn, queue, now)?;
    Ok(stats)
}

/// The head of each class is the oldest of its list, so six index lookups suffice.
fn oldest_ready(conn: &Connection, queue: &str, now: Millis) -> rusqlite::Result<Option<Duration>> {
    let mut oldest: Option<Millis> = None;
    for list in ["crashes = 0", "crashes > 0"] {
        for class in 0..3 {
            let sql = format!(
                "SELECT created FROM task WHERE queue = ?1 AND class = ?2 AND state = 0 AND {list} ORDER BY seq LIMIT 1"
            );
            let created: Option<Millis> =
                conn.prepare_cached(&sql)?.query_row(params![queue, class], |row| row.get(0)).optional()?;
            oldest = oldest.into_iter().chain(created).min();
        }
    }
    Ok(oldest.map(|created| Duration::from_millis(u64::try_from(now - created).unwrap_or(0))))
}

pub(super) fn browse(conn: &Connection, ask: &Browse, now: Millis) -> rusqlite::Result<Page> {
    let limit = ask.limit.min(BATCH_LIMIT);
    let state = ask.state.map(row::state_number);
    let before = ask.older_than.map(|age| now.saturating_sub(millis(age)));
    // Only the requested conditions, so that SQLite can choose an index.
    let mut sql = format!("SELECT {COLUMNS} FROM task WHERE seq > ?1");
    for (condition, is_asked) in [
        (" AND queue = ?3", ask.queue.is_some()),
        (" AND state = ?4", state.is_some()),
        (" AND name = ?5", ask.name.is_some()),
        (" AND created <= ?6", before.is_some()),
    ] {
        sql.push_str(if is_asked { condition } else { "" });
    }
    // Every bound parameter must occur in the statement.
    sql.push_str(" AND (?3, ?4, ?5, ?6) IS (?3, ?4, ?5, ?6) ORDER BY seq LIMIT ?2");
    let after = i64::try_from(ask.after_seq).unwrap_or(i64::MAX);
    let values = params![after, limit as i64 + 1, ask.queue, state, ask.name, before];
    let mut statement = conn.prepare_cached(&sql)?;
    let mut records: Vec<Record> =
        statement.query_map(values, row::record)?.collect::<rusqlite::Result<_>>()?;
    let has_more = records.len() > limit;
    records.truncate(limit);
    let next = records.last().filter(|_| has_more).map(|record| record.seq);
    Ok(Page { records, next })
}

pub(super) fn workers(conn: &Connection, since: Millis) -> rusqlite::Result<Vec<WorkerRow>> {
    let sql = "SELECT id, queue, started, seen, threads, held, finished, draining FROM worker \
               WHERE seen > ?1 ORDER BY id";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([since], |row| {
        Ok(WorkerRow {
            worker: WorkerId::from_name(&row.get::<_, String>(0)?),
            queue: row.get(1)?,
            started: row.get(2)?,
            seen: row.get(3)?,
            threads: row.get(4)?,
            held: row.get(5)?,
            finished: row.get(6)?,
            draining: row.get(7)?,
        })
    })?;
    rows.collect()
}

fn finding(check: &str, severity: Severity, detail: impl Into<String>) -> Finding {
    Finding { check: check.to_owned(), severity, detail: detail.into() }
}

/// A finding that is fine if `wrong` is empty, and `bad` otherwise.
fn judge(check: &str, bad: Severity, wrong: &[String], fine: &str) -> Finding {
    if wrong.is_empty() { finding(check, Severity::Ok, fine) } else { finding(check, bad, wrong.join("; ")) }
}

pub(super) fn doctor(
    conn: &Connection,
    path: &Path,
    durability: Durability,
    now: Millis,
) -> rusqlite::Result<Vec<Finding>> {
    let version: String = conn.query_row("SELECT sqlite_version()", [], |row| row.get(0))?;
    let schema = schema::version(conn)?;
    let mut findings = vec![
        finding("engine", Severity::Ok, format!("SQLite {version}, schema {schema}, '{}'", path.display())),
        match durability {
            Durability::Durable => finding("durability", Severity::Ok, "commits wait for the disk"),
            Durability::Relaxed => {
                finding("durability", Severity::Warning, "relaxed: a loss of power loses the latest commits")
            }
        },
    ];
    let journal: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    let is_wal =
        if journal == "wal" { Vec::new() } else { vec![format!("journal mode is {journal}, not wal")] };
    findings.push(judge("journal", Severity::Error, &is_wal, "write-ahead log"));
    let check: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    let damage = if check == "ok" { Vec::new() } else { vec![check] };
    findings.push(judge("integrity", Severity::Error, &damage, "no damage found"));
    if !damage.is_empty() {
        // On a damaged file the other checks would fail instead of reporting.
        return Ok(findings);
    }
    // One read transaction, so that writers cannot make the two sides differ.
    let tx = conn.unchecked_transaction()?;
    findings.push(judge("counts", Severity::Error, &wrong_counts(&tx)?, "counts agree with the tasks"));
    findings.push(judge(
        "records",
        Severity::Error,
        &wrong_records(&tx)?,
        "states agree with leases and times",
    ));
    findings.push(judge("leases", Severity::Warning, &stale_leases(&tx, now)?, "no lease is long past"));
    findings.push(judge(
        "clock",
        Severity::Warning,
        &future_records(&tx, now)?,
        "no task is from the future",
    ));
    findings.push(judge("space", Severity::Warning, &free_space(&tx)?, "little of the file is unused"));
    Ok(findings)
}

fn texts(conn: &Connection, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<Vec<String>> {
    let mut statement = conn.prepare(sql)?;
    statement.query_map(values, |row| row.get(0))?.collect()
}

fn wrong_counts(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    texts(
        conn,
        "WITH real AS (SELECT queue, sum(state = 0) r0, sum(state = 1) r1, sum(state = 2) r2, sum(state = 3) r3, \
         sum(state = 4) r4, sum(state = 5) r5, count(*) n FROM task GROUP BY queue) \
         SELECT printf('queue ''%s'' counts %d/%d/%d/%d/%d/%d but holds %d/%d/%d/%d/%d/%d', name, ready, running, \
         delayed, succeeded, dead, cancelled, ifnull(r0, 0), ifnull(r1, 0), ifnull(r2, 0), ifnull(r3, 0), \
         ifnull(r4, 0), ifnull(r5, 0)) FROM queue LEFT JOIN real ON real.queue = name \
         WHERE ready <> ifnull(r0, 0) OR running <> ifnull(r1, 0) OR delayed <> ifnull(r2, 0) \
         OR succeeded <> ifnull(r3, 0) OR dead <> ifnull(r4, 0) OR cancelled <> ifnull(r5, 0) \
         OR submitted <> ifnull(n, 0) + purged",
        [],
    )
}

fn wrong_records(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    texts(
        conn,
        "SELECT printf('task %d is in state %d with the times of another', seq, state) FROM task WHERE \
         (state = 1) <> (lease IS NOT NULL) OR (state = 2) <> (due IS NOT NULL) \
         OR (state >= 3) <> (expires IS NOT NULL) OR state = 1 AND owner IS NULL LIMIT 5",
        [],
    )
}

fn stale_leases(conn: &Connection, now: Millis) -> rusqlite::Result<Vec<String>> {
    texts(
        conn,
        "SELECT printf('queue ''%s'': %d leases ran out over a minute ago, so no worker is alive there', queue, \
         count(*)) FROM task WHERE state = 1 AND lease < ?1 GROUP BY queue",
        [now - 60_000],
    )
}

fn future_records(conn: &Connection, now: Millis) -> rusqlite::Result<Vec<String>> {
    texts(
        conn,
        "SELECT printf('task %d was accepted %.0f s in the future: the clock was set back', seq, \
         (created - ?1) / 1000.0) FROM task WHERE created > ?1 + 60000 ORDER BY seq DESC LIMIT 1",
        [now],
    )
}

fn free_space(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    texts(
        conn,
        "SELECT printf('%d of %d pages are unused: `cluster compact` frees them', f.freelist_count, p.page_count) \
         FROM pragma_freelist_count f, pragma_page_count p \
         WHERE f.freelist_count > 10000 AND f.freelist_count * 2 > p.page_count",
        [],
    )
}
