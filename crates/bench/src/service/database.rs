//! The database: one SQLite file, read by one connection per blocking thread.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags, Result};

pub(crate) use rusqlite::InterruptHandle;

const ROWS: u32 = 100_000;
/// A query reads up to this many rows, starting at a random one.
const LONGEST: u32 = 125;
/// Random ids are below this number, so that every query finds all of its rows.
pub(crate) const IDS: u32 = ROWS - LONGEST;

/// A kind of query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Query {
    /// 9 ms: a wait of 8 ms for a disk or a network, and 101 rows.
    Fast,
    /// 1 s: the same wait for each of 125 rows. Can be interrupted between them.
    Slow,
    /// 10 µs: one row.
    Point,
}

impl Query {
    pub(crate) const ALL: [Query; 3] = [Query::Fast, Query::Slow, Query::Point];

    /// The name in a URL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Query::Fast => "fast",
            Query::Slow => "slow",
            Query::Point => "point",
        }
    }

    fn sql(self) -> &'static str {
        match self {
            Query::Fast => "SELECT io_wait(8) + sum(length(body)) FROM item WHERE id BETWEEN ?1 AND ?1 + 100",
            Query::Slow => "SELECT sum(io_wait(8) + length(body)) FROM item WHERE id BETWEEN ?1 AND ?1 + 124",
            Query::Point => "SELECT length(body) FROM item WHERE id = ?1",
        }
    }
}

/// Creates the file.
pub(crate) fn create(path: &Path) -> Result<()> {
    let mut db = Connection::open(path)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.execute_batch("CREATE TABLE item(id INTEGER PRIMARY KEY, k INTEGER, body TEXT)")?;
    let transaction = db.transaction()?;
    let mut insert = transaction.prepare("INSERT INTO item VALUES (?1, ?2, ?3)")?;
    for id in 1..=ROWS {
        insert.execute((id, id % 1000, format!("{id:090}")))?;
    }
    drop(insert);
    transaction.execute_batch("CREATE INDEX item_k ON item(k)")?;
    transaction.commit()
}

static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Sets the file that all connections of this process open.
pub(crate) fn set_file(path: PathBuf) {
    FILE.get_or_init(|| path);
}

fn connect() -> Result<Connection> {
    let path = FILE.get().expect("the file is set before the first query");
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    db.pragma_update(None, "cache_size", -8000)?;
    db.pragma_update(None, "mmap_size", 64 << 20)?;
    db.create_scalar_function("io_wait", 1, FunctionFlags::SQLITE_UTF8, |context| {
        thread::sleep(Duration::from_millis(context.get::<u32>(0)?.into()));
        Ok(0)
    })?;
    Ok(db)
}

thread_local! {
    static CONNECTION: Result<Connection> = connect();
}

/// Runs a query on the connection of this thread. `watch` gets the handle that interrupts it, and
/// what it returns is dropped when the query has ended.
///
/// # Errors
/// A message: the query failed or was interrupted.
pub(crate) fn run<W>(query: Query, id: u32, watch: impl FnOnce(InterruptHandle) -> W) -> Result<i64, String> {
    CONNECTION.with(|connection| {
        let db = connection.as_ref().map_err(ToString::to_string)?;
        let mut statement = db.prepare_cached(query.sql()).map_err(|error| error.to_string())?;
        let watched = watch(db.get_interrupt_handle());
        let outcome = statement.query_row([id], |row| row.get(0));
        drop(watched);
        outcome.map_err(|error| error.to_string())
    })
}
