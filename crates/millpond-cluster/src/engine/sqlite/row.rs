//! Conversion between records and rows.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::id::{SubmitterId, TaskId, WorkerId};
use crate::state::{DeadReason, Options, Priority, Record, State};

pub(super) const COLUMNS: &str = "seq, id, queue, name, class, state, attempt, failures, crashes, cancel, codec, \
     created, submitter, due, deadline, options, retry_of, args, owner, lease, started, finished, expires, \
     unhandled, reason, result, error, progress, history";

pub(super) fn state_number(state: State) -> u8 {
    match state {
        State::Ready => 0,
        State::Running => 1,
        State::Delayed => 2,
        State::Succeeded => 3,
        State::Dead => 4,
        State::Cancelled => 5,
    }
}

pub(super) fn state_of(number: u8) -> State {
    match number {
        0 => State::Ready,
        1 => State::Running,
        2 => State::Delayed,
        3 => State::Succeeded,
        4 => State::Dead,
        _ => State::Cancelled,
    }
}

const REASONS: [DeadReason; 6] = [
    DeadReason::Attempts,
    DeadReason::Permanent,
    DeadReason::Crashed,
    DeadReason::Deadline,
    DeadReason::NoHandler,
    DeadReason::Decode,
];

pub(super) fn class_of(number: u8) -> Priority {
    Priority::ALL.get(usize::from(number)).copied().unwrap_or_default()
}

pub(super) fn options_text(options: &Options) -> Option<String> {
    (!options.is_default()).then(|| serde_json::to_string(options).expect("options are plain data"))
}

/// Ignores unknown options: a later version may have stored more.
pub(super) fn options_of(text: Option<&str>) -> Options {
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    row.get(column)
}

/// Accepts text too, because other programs may bind JSON as text. An unreadable value would block
/// every claim.
pub(super) fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Vec<u8>>> {
    Ok(row.get_ref(column)?.as_bytes_or_null()?.map(<[u8]>::to_vec))
}

pub(super) fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let reason: Option<usize> = row.get(24)?;
    let history = text(row, 28)?;
    Ok(Record {
        seq: row.get(0)?,
        id: TaskId::from_bytes(row.get(1)?),
        queue: row.get(2)?,
        name: row.get(3)?,
        class: class_of(row.get(4)?),
        state: state_of(row.get(5)?),
        attempt: row.get(6)?,
        failures: row.get(7)?,
        crashes: row.get(8)?,
        cancel: row.get(9)?,
        codec: row.get(10)?,
        created: row.get(11)?,
        submitter: SubmitterId(row.get(12)?),
        due: row.get(13)?,
        deadline: row.get(14)?,
        options: options_of(text(row, 15)?.as_deref()),
        retry_of: row.get::<_, Option<[u8; 16]>>(16)?.map(TaskId::from_bytes),
        args: bytes(row, 17)?,
        owner: text(row, 18)?.map(|name| WorkerId::from_name(&name)),
        lease: row.get(19)?,
        started: row.get(20)?,
        finished: row.get(21)?,
        expires: row.get(22)?,
        unhandled_since: row.get(23)?,
        reason: reason.and_then(|reason| REASONS.get(reason).copied()),
        result: bytes(row, 25)?,
        error: row.get(26)?,
        progress: bytes(row, 27)?,
        history: history.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
    })
}

pub(super) fn find(conn: &Connection, id: TaskId) -> rusqlite::Result<Option<Record>> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} FROM task WHERE id = ?1"))?
        .query_row([id.as_bytes()], record)
        .optional()
}

pub(super) fn insert(conn: &Connection, record: &Record) -> rusqlite::Result<bool> {
    let inserted = conn
        .prepare_cached(
            "INSERT INTO task(id, queue, name, class, state, codec, created, submitter, due, deadline, options, \
             retry_of, args) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
             ON CONFLICT(id) DO NOTHING",
        )?
        .execute(params![
            record.id.as_bytes(),
            record.queue,
            record.name,
            record.class as u8,
            state_number(record.state),
            record.codec,
            record.created,
            record.submitter.0,
            record.due,
            record.deadline,
            options_text(&record.options),
            record.retry_of.as_ref().map(TaskId::as_bytes),
            record.args,
        ])?;
    Ok(inserted > 0)
}

/// Writes every column that a transition can change.
pub(super) fn update(conn: &Connection, record: &Record) -> rusqlite::Result<()> {
    let history = (!record.history.is_empty())
        .then(|| serde_json::to_string(&record.history).expect("a history is plain data"));
    let reason = record.reason.and_then(|reason| REASONS.iter().position(|known| *known == reason));
    conn.prepare_cached(
        "UPDATE task SET state = ?2, attempt = ?3, failures = ?4, crashes = ?5, cancel = ?6, due = ?7, args = ?8, \
         owner = ?9, lease = ?10, started = ?11, finished = ?12, expires = ?13, unhandled = ?14, reason = ?15, \
         result = ?16, error = ?17, progress = ?18, history = ?19 WHERE seq = ?1",
    )?
    .execute(params![
        record.seq,
        state_number(record.state),
        record.attempt,
        record.failures,
        record.crashes,
        record.cancel,
        record.due,
        record.args,
        record.owner.as_ref().map(WorkerId::as_str),
        record.lease,
        record.started,
        record.finished,
        record.expires,
        record.unhandled_since,
        reason,
        record.result,
        record.error,
        record.progress,
        history,
    ])?;
    Ok(())
}
