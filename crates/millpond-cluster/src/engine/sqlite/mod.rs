//! The SQLite engine: one file, one machine, several processes, nothing to install.
//!
//! A process has four connections: one that writes, one that reads, and one for each of the two
//! kinds of waiting. A lock in the process serialises its writes, so only writers of different
//! processes compete in SQLite's busy handler. `submit` and `settle` sync the log before they
//! return; `claim` and `renew` do not. A claim that is lost in a power failure leaves a ready task,
//! and the owner in the fence distinguishes a reused attempt number.
//!
//! Transactions are short and never wait for user code. A process that is stopped inside a
//! transaction holds the file's lock until it continues or dies; meanwhile writers of other
//! processes get an error that says so, and retry.

mod admin;
mod calls;
mod claim;
mod row;
mod schema;
mod settle;
mod tick;
mod tx;
mod wait;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use self::tx::Tx;
use self::wait::{Signal, Watch};
use super::EngineResult;
use super::clock::EngineClock;
use super::types::Ended;
use crate::error::{Certainty, EngineError};

/// What a commit survives: loss of power, or only the death of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Loss of power, if the disk honours syncs: `submit` and `settle` wait for the disk.
    #[default]
    Durable,
    /// The death of every process, but not of the machine: a power failure may lose the latest
    /// commits.
    Relaxed,
}

/// Keeps tasks in a SQLite file.
pub struct SqliteEngine {
    path: PathBuf,
    clock: EngineClock,
    durability: Durability,
    writer: Mutex<Writer>,
    reader: Mutex<Connection>,
    /// Tasks that this process has ended, by queue.
    ended: Mutex<HashMap<String, Ended>>,
    /// Wakes feeders and notice readers of this process at once.
    signal: Signal,
    work: Watch,
    notices: Watch,
}

struct Writer {
    conn: Connection,
    /// Whether commits wait for the disk: `PRAGMA synchronous = FULL` is in force.
    is_synced: bool,
}

/// If a writer of another process holds the lock for longer than this, the call fails and may be
/// repeated.
const BUSY_LIMIT: Duration = Duration::from_secs(10);

impl SqliteEngine {
    /// Opens a file. Creates it if it does not exist, readable only by its owner.
    ///
    /// # Errors
    /// An [`EngineError`] if the file cannot be opened, lies on a network file system, belongs to
    /// another program or has a schema of another version.
    pub fn open(path: impl AsRef<Path>, durability: Durability) -> EngineResult<SqliteEngine> {
        SqliteEngine::open_with_clock(path, durability, EngineClock::system())
    }

    /// Like [`open`](Self::open), with another clock.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn open_with_clock(
        path: impl AsRef<Path>,
        durability: Durability,
        clock: EngineClock,
    ) -> EngineResult<SqliteEngine> {
        let path = path.as_ref();
        let name = path.display().to_string();
        refuse_network_file_system(path)?;
        create_private(path)?;
        let conn = connect(path)?;
        schema::open(&conn, &name)?;
        Ok(SqliteEngine {
            path: path.to_owned(),
            clock,
            durability,
            writer: Mutex::new(Writer { conn, is_synced: false }),
            reader: Mutex::new(connect(path)?),
            ended: Mutex::default(),
            signal: Signal::default(),
            work: Watch::new(connect(path)?),
            notices: Watch::new(connect(path)?),
        })
    }

    /// Upgrades the schema of a file to the version of this build.
    ///
    /// # Errors
    /// An [`EngineError`] if the file cannot be opened or belongs to another program.
    pub fn migrate(path: impl AsRef<Path>) -> EngineResult<u32> {
        let path = path.as_ref();
        let conn = connect(path)?;
        schema::migrate(&conn, &path.display().to_string())?;
        schema::version(&conn).map_err(|error| map(error, &path.display().to_string()))
    }

    /// Limits the file to this many pages for this process. Beyond the limit, writes fail as on a
    /// full disk.
    ///
    /// # Errors
    /// An [`EngineError`] if the file cannot be read.
    pub fn limit_pages(&self, pages: u32) -> EngineResult<()> {
        self.lock_writer().conn.pragma_update(None, "max_page_count", pages).map_err(|error| self.map(error))
    }

    /// Runs a write transaction. With `sync` and [`Durability::Durable`], it is on disk when this
    /// returns.
    fn write<R>(&self, sync: bool, f: impl FnOnce(&mut Tx<'_>) -> rusqlite::Result<R>) -> EngineResult<R> {
        let mut writer = self.lock_writer();
        let sync = sync && self.durability == Durability::Durable;
        if writer.is_synced != sync {
            writer
                .conn
                .pragma_update(None, "synchronous", if sync { "FULL" } else { "NORMAL" })
                .map_err(|e| self.map(e))?;
            writer.is_synced = sync;
        }
        let conn = &writer.conn;
        conn.prepare_cached("BEGIN IMMEDIATE")
            .and_then(|mut begin| begin.execute([]))
            .map_err(|e| self.map(e))?;
        let mut tx = Tx::new(conn, self.clock.now());
        let result = f(&mut tx).and_then(|result| tx.finish().map(|()| result));
        let (has_work, ended) = (tx.has_work, std::mem::take(&mut tx.ended));
        let result = match result {
            Ok(result) => commit(conn).map(|()| result).map_err(|error| self.map_commit(error)),
            Err(error) => Err(self.map(error)),
        };
        if !conn.is_autocommit() {
            // A failed commit leaves the transaction open. Report the first error, not this one.
            let _ = conn.execute_batch("ROLLBACK");
        }
        drop(writer);
        if result.is_ok() {
            self.count_ended(ended);
            if has_work {
                self.signal.raise();
            }
        }
        result
    }

    fn count_ended(&self, ended: HashMap<String, Ended>) {
        if !ended.is_empty() {
            let mut all = lock(&self.ended);
            ended.into_iter().for_each(|(queue, ended)| *all.entry(queue).or_default() += ended);
        }
    }

    fn read<R>(&self, f: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> EngineResult<R> {
        f(&lock(&self.reader)).map_err(|error| self.map(error))
    }

    fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        lock(&self.writer)
    }

    fn map(&self, error: rusqlite::Error) -> EngineError {
        map(error, &self.path.display().to_string())
    }

    /// Maps the error of a commit. If the disk did not confirm it, the commit may have happened.
    fn map_commit(&self, error: rusqlite::Error) -> EngineError {
        let is_io = error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
        let mapped = self.map(error);
        if is_io { mapped.with_certainty(Certainty::Unknown) } else { mapped }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn commit(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached("COMMIT")?.execute([]).map(drop)
}

/// Maps an SQLite error to its meaning for the operation.
fn map(error: rusqlite::Error, path: &str) -> EngineError {
    let (certainty, what) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Certainty::NotDone, "is locked by another process")
        }
        Some(ErrorCode::DiskFull) => (Certainty::NotDone, "cannot grow: the disk is full"),
        Some(ErrorCode::SystemIoFailure) => (Certainty::NotDone, "cannot be read or written"),
        Some(ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted) => (Certainty::NotDone, "failed"),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            (Certainty::Permanent, "cannot be written")
        }
        Some(ErrorCode::CannotOpen) => (Certainty::Permanent, "cannot be opened"),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            (Certainty::Permanent, "is not a sound database")
        }
        _ => (Certainty::Permanent, "failed"),
    };
    EngineError::new(certainty, format!("database '{path}' {what} ({error})")).with_source(error)
}

fn connect(path: &Path) -> EngineResult<Connection> {
    let name = path.display().to_string();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let mut conn = Connection::open_with_flags(path, flags)?;
        // The receiver is `&self` or `&mut self`, depending on the version of rusqlite.
        Connection::busy_handler(&mut conn, Some(wait_for_lock))?;
        Ok(conn)
    };
    let conn = open().map_err(|error| map(error, &name))?;
    // Before the pragmas: the journal mode would be written into a foreign file.
    schema::refuse_foreign(&conn, &name)?;
    configure(&conn).map_err(|error| map(error, &name))?;
    Ok(conn)
}

fn configure(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(64);
    use_log(conn)?;
    conn.pragma_update(None, "synchronous", "NORMAL")?;
    // 16 MiB per connection: the head of a deep queue stays in memory, and checkpoints are rarer.
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "wal_autocheckpoint", 4096)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)
}

/// Switches the file to a write-ahead log. If several processes switch a new file at the same time,
/// SQLite refuses all but one of them without calling the busy handler, so this tries again.
fn use_log(conn: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        match conn.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && wait_for_lock(tries) =>
            {
                tries += 1;
            }
            result => return result,
        }
    }
}

/// Waits for a writer of another process: short sleeps at first, with jitter, and [`BUSY_LIMIT`] in
/// total.
fn wait_for_lock(tries: i32) -> bool {
    let longest = (100u64 << tries.clamp(0, 5)).min(2000);
    std::thread::sleep(Duration::from_micros(fastrand::u64(longest / 2..=longest)));
    // From the sixth retry on, a sleep takes 1.5 ms on average.
    u128::from(tries.unsigned_abs()) * 1500 < BUSY_LIMIT.as_micros()
}

/// Creates the file readable only by its owner: arguments and results may be confidential. SQLite
/// gives its log the same permissions.
fn create_private(path: &Path) -> EngineResult<()> {
    let mut options = std::fs::OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            let message = format!("database '{}' cannot be made ({error})", path.display());
            Err(EngineError::new(Certainty::Permanent, message).with_source(error))
        }
        _ => Ok(()),
    }
}

/// File locks of network file systems are unreliable.
fn refuse_network_file_system(path: &Path) -> EngineResult<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    match network_file_system(&folder, &mounts) {
        None => Ok(()),
        Some(kind) => {
            let message = format!(
                "'{}' is on a network file system ({kind}), where locks are not reliable",
                path.display()
            );
            Err(EngineError::new(Certainty::Permanent, message))
        }
    }
}

/// The type of the file system of a folder, if it is a network file system. `mounts` has the format
/// of `/proc/self/mounts`.
fn network_file_system(folder: &Path, mounts: &str) -> Option<String> {
    const NETWORK: [&str; 11] = [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "ceph",
        "lustre",
        "fuse.sshfs",
        "fuse.glusterfs",
        "beegfs",
    ];
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((PathBuf::from(fields.next()?.replace("\\040", " ")), fields.next()?))
    });
    // The longest mount point above the folder. Of equal ones the last, which hides the others.
    let (_, kind) = fields
        .filter(|(point, _)| folder.starts_with(point))
        .max_by_key(|(point, _)| point.components().count())?;
    NETWORK.contains(&kind).then(|| kind.to_owned())
}

impl fmt::Debug for SqliteEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteEngine")
            .field("path", &self.path)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: SQLite refuses all but one at once, without its busy handler.
    #[test]
    fn several_may_open_a_new_file_at_the_same_time() {
        const OPENERS: usize = 4;
        let folder = std::env::temp_dir().join(format!("millpond-open-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for round in 0..50 {
            let path = folder.join(format!("{round}.db"));
            let together = std::sync::Barrier::new(OPENERS);
            std::thread::scope(|scope| {
                for _ in 0..OPENERS {
                    scope.spawn(|| {
                        together.wait();
                        SqliteEngine::open(&path, Durability::Relaxed).map(drop).unwrap();
                    });
                }
            });
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn network_file_system_is_found_by_the_longest_mount_point() {
        let mounts =
            "/dev/sda / ext4 rw 0 0\nserver:/x /mnt/share nfs4 rw 0 0\ntmpfs /mnt/share/local tmpfs rw 0 0\n";
        let kind = |path: &str| network_file_system(Path::new(path), mounts);
        assert_eq!(kind("/home/me"), None);
        assert_eq!(kind("/mnt/share/jobs").as_deref(), Some("nfs4"));
        assert_eq!(kind("/mnt/shared"), None);
        assert_eq!(kind("/mnt/share/local/jobs"), None);
    }
}
