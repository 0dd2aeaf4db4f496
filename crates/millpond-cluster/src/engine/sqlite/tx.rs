//! One write transaction: changes of records, and the resulting counts, keys and notices.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::row;
use crate::engine::memory::{count_operation, millis, new_record};
use crate::engine::types::{Ended, Mode, NewTask, QueueStats, Submitted};
use crate::id::{SubmitterId, TaskId};
use crate::state::{Change, Millis, Operation, Record, Refused, State, Unique, apply};

/// Changes of counts by this transaction, per queue. Written once, at its end.
#[derive(Debug, Default)]
struct Delta {
    /// Indexed by state number.
    states: [i64; 6],
    finished_bytes: i64,
    submitted: i64,
    fence_refused: i64,
    purged: i64,
    /// Only the counters of events and `ended_here` are used.
    events: QueueStats,
}

/// An open write transaction.
pub(super) struct Tx<'a> {
    pub(super) conn: &'a Connection,
    pub(super) now: Millis,
    deltas: HashMap<String, Delta>,
    /// Tasks that this transaction ends. Added to the counters of this process after the commit.
    pub(super) ended: HashMap<String, Ended>,
    /// Cache of the queues' rows.
    queues: HashMap<String, QueueRow>,
    /// Whether a task became ready or delayed: feeders are then woken after the commit.
    pub(super) has_work: bool,
}

/// The settings and the load of a queue that a transaction needs.
#[derive(Clone, Copy)]
pub(super) struct QueueRow {
    pub(super) mode: Mode,
    pub(super) capacity: Option<u64>,
    /// Ready and delayed tasks before this transaction.
    waiting: u64,
}

pub(super) fn mode_of(number: u8) -> Mode {
    match number {
        0 => Mode::Open,
        1 => Mode::Paused,
        _ => Mode::Closed,
    }
}

impl<'a> Tx<'a> {
    pub(super) fn new(conn: &'a Connection, now: Millis) -> Tx<'a> {
        Tx {
            conn,
            now,
            deltas: HashMap::new(),
            ended: HashMap::new(),
            queues: HashMap::new(),
            has_work: false,
        }
    }

    fn delta(&mut self, queue: &str) -> &mut Delta {
        if !self.deltas.contains_key(queue) {
            self.deltas.insert(queue.to_owned(), Delta::default());
        }
        self.deltas.get_mut(queue).expect("it was just inserted")
    }

    /// Returns the row of a queue. Creates it if it does not exist.
    pub(super) fn queue(&mut self, name: &str) -> rusqlite::Result<QueueRow> {
        if let Some(row) = self.queues.get(name) {
            return Ok(*row);
        }
        self.conn.prepare_cached("INSERT OR IGNORE INTO queue(name) VALUES(?1)")?.execute([name])?;
        let row = self
            .conn
            .prepare_cached("SELECT mode, capacity, ready + delayed FROM queue WHERE name = ?1")?
            .query_row([name], |row| {
                Ok(QueueRow { mode: mode_of(row.get(0)?), capacity: row.get(1)?, waiting: row.get(2)? })
            })?;
        self.queues.insert(name.to_owned(), row);
        Ok(row)
    }

    /// Applies an operation to a record and writes all consequences.
    pub(super) fn change(
        &mut self,
        record: &mut Record,
        operation: &Operation<'_>,
        told: Option<SubmitterId>,
    ) -> rusqlite::Result<Result<Change, Refused>> {
        let change = match apply(record, operation, self.now) {
            Ok(change) => change,
            Err(refused) => return Ok(Err(refused)),
        };
        row::update(self.conn, record)?;
        let bytes = record.bytes();
        let delta = self.delta(&record.queue);
        count_operation(&mut delta.events, operation, change);
        self.moved(&record.queue, change, bytes);
        if let Some(unique) = &record.options.unique {
            let is_free = match unique.until {
                Unique::UntilDone => change.is_end(),
                Unique::UntilStarted => change.is_end() || change.to == State::Running,
                Unique::For(_) => false,
            };
            if is_free {
                self.free_unique(&record.queue, &unique.key, record.id)?;
            }
        }
        if change.is_end() {
            self.announce(record.id, record.submitter, told)?;
        }
        Ok(Ok(change))
    }

    /// Counts a record that changed its state.
    pub(super) fn moved(&mut self, queue: &str, change: Change, bytes: u64) {
        self.has_work |= matches!(change.to, State::Ready | State::Delayed);
        let delta = self.delta(queue);
        delta.events.ended_here.count(change);
        delta.states[usize::from(row::state_number(change.from))] -= 1;
        delta.states[usize::from(row::state_number(change.to))] += 1;
        if change.is_end() && !change.from.is_end() {
            delta.finished_bytes += i64::try_from(bytes).unwrap_or(i64::MAX);
        }
    }

    pub(super) fn count_started(&mut self, queue: &str, claims: u64) {
        self.delta(queue).events.started += claims;
    }

    pub(super) fn count_refused(&mut self, queue: &str) {
        self.delta(queue).fence_refused += 1;
    }

    pub(super) fn free_unique(&self, queue: &str, key: &str, id: TaskId) -> rusqlite::Result<()> {
        self.conn
            .prepare_cached("DELETE FROM unique_key WHERE queue = ?1 AND key = ?2 AND id = ?3")?
            .execute(params![queue, key, id.as_bytes()])?;
        Ok(())
    }

    /// Writes a notice for the submitter, if there is one. Not if it is `told`: the caller informs
    /// it directly.
    pub(super) fn announce(
        &self,
        id: TaskId,
        submitter: SubmitterId,
        told: Option<SubmitterId>,
    ) -> rusqlite::Result<()> {
        if submitter.0 != 0 && told != Some(submitter) {
            self.conn.prepare_cached("INSERT INTO notice(id) VALUES(?1)")?.execute([id.as_bytes()])?;
        }
        Ok(())
    }

    pub(super) fn submit(&mut self, task: &NewTask) -> rusqlite::Result<Submitted> {
        let record = new_record(task, 0, self.now);
        let queue = self.queue(&task.queue)?;
        let is_limited =
            queue.capacity.is_some() || queue.mode == Mode::Closed || task.options.unique.is_some();
        if is_limited && let Some(answer) = self.refusal(task, &queue)? {
            return Ok(answer);
        }
        if !row::insert(self.conn, &record)? {
            return Ok(Submitted::Known(self.state_of(task.id)?.unwrap_or(State::Ready)));
        }
        if let Some(unique) = &task.options.unique {
            let until = match unique.until {
                Unique::For(time) => Some(self.now.saturating_add(millis(time))),
                Unique::UntilDone | Unique::UntilStarted => None,
            };
            let sql = "INSERT OR REPLACE INTO unique_key(queue, key, id, until) VALUES(?1, ?2, ?3, ?4)";
            let values = params![task.queue, unique.key, task.id.as_bytes(), until];
            self.conn.prepare_cached(sql)?.execute(values)?;
        }
        self.has_work = true;
        let delta = self.delta(&task.queue);
        delta.submitted += 1;
        delta.states[usize::from(row::state_number(record.state))] += 1;
        Ok(Submitted::New)
    }

    /// Returns why a task is not accepted, or `None` if it is.
    fn refusal(&mut self, task: &NewTask, queue: &QueueRow) -> rusqlite::Result<Option<Submitted>> {
        if let Some(state) = self.state_of(task.id)? {
            return Ok(Some(Submitted::Known(state)));
        }
        if queue.mode == Mode::Closed {
            return Ok(Some(Submitted::Closed));
        }
        if let Some(unique) = &task.options.unique {
            let sql =
                "SELECT id FROM unique_key WHERE queue = ?1 AND key = ?2 AND (until IS NULL OR until > ?3)";
            let values = params![task.queue, unique.key, self.now];
            let mut statement = self.conn.prepare_cached(sql)?;
            let holder = statement.query_row(values, |row| row.get(0)).optional()?;
            if let Some(id) = holder.map(TaskId::from_bytes) {
                return Ok(Some(Submitted::Duplicate(id)));
            }
        }
        let states = self.delta(&task.queue).states;
        let waiting = queue.waiting.saturating_add_signed(states[0] + states[2]);
        match queue.capacity {
            Some(capacity) if waiting >= capacity && !task.over_capacity => {
                Ok(Some(Submitted::Full { waiting, capacity }))
            }
            _ => Ok(None),
        }
    }

    fn state_of(&self, id: TaskId) -> rusqlite::Result<Option<State>> {
        self.conn
            .prepare_cached("SELECT state FROM task WHERE id = ?1")?
            .query_row([id.as_bytes()], |row| Ok(row::state_of(row.get(0)?)))
            .optional()
    }

    /// Deletes a finished record.
    pub(super) fn purge(&mut self, queue: &str, seq: i64, state: u8, bytes: i64) -> rusqlite::Result<()> {
        self.conn.prepare_cached("DELETE FROM task WHERE seq = ?1")?.execute([seq])?;
        let delta = self.delta(queue);
        delta.states[usize::from(state)] -= 1;
        delta.finished_bytes -= bytes;
        delta.purged += 1;
        Ok(())
    }

    /// Writes the counts: before each commit, and wherever the stored counts must be current.
    pub(super) fn finish(&mut self) -> rusqlite::Result<()> {
        self.queues.clear();
        for (queue, delta) in self.deltas.drain() {
            self.conn
                .prepare_cached(
                    "UPDATE queue SET ready = ready + ?2, running = running + ?3, delayed = delayed + ?4, \
                     succeeded = succeeded + ?5, dead = dead + ?6, cancelled = cancelled + ?7, \
                     finished_bytes = finished_bytes + ?8, submitted = submitted + ?9, started = started + ?10, \
                     failed = failed + ?11, crashed = crashed + ?12, given_back = given_back + ?13, \
                     fence_refused = fence_refused + ?14, purged = purged + ?15 WHERE name = ?1",
                )?
                .execute(params![
                    queue,
                    delta.states[0],
                    delta.states[1],
                    delta.states[2],
                    delta.states[3],
                    delta.states[4],
                    delta.states[5],
                    delta.finished_bytes,
                    delta.submitted,
                    delta.events.started,
                    delta.events.failed,
                    delta.events.crashed,
                    delta.events.given_back,
                    delta.fence_refused,
                    delta.purged,
                ])?;
            if delta.events.ended_here != Ended::default() {
                *self.ended.entry(queue).or_default() += delta.events.ended_here;
            }
        }
        Ok(())
    }
}
