//! Waiting for changes: signalled within the process, by polling a counter across processes.
//!
//! `PRAGMA data_version` changes after a commit of another connection. Reading it takes
//! microseconds and no lock that a writer waits for. File watching misses wake-ups, and closing a
//! descriptor of the file drops the locks that SQLite holds on it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::lock;

/// Poll interval during activity, which lasts until [`ACTIVE_FOR`] after the latest change.
const POLL_ACTIVE: Duration = Duration::from_millis(1);
const POLL_IDLE: Duration = Duration::from_millis(20);
const ACTIVE_FOR: Duration = Duration::from_millis(50);

/// A generation that grows when this process has changed what its waiting threads wait for.
#[derive(Debug, Default)]
pub(super) struct Signal {
    generation: Mutex<u64>,
    raised: Condvar,
}

impl Signal {
    pub(super) fn raise(&self) {
        *lock(&self.generation) += 1;
        self.raised.notify_all();
    }

    pub(super) fn generation(&self) -> u64 {
        *lock(&self.generation)
    }

    /// Waits until the generation differs from `seen`, or until `timeout`. Returns true if it
    /// changed.
    fn wait(&self, seen: u64, timeout: Duration) -> bool {
        let generation = lock(&self.generation);
        let unchanged = |generation: &mut u64| *generation == seen;
        let (_guard, result) = self
            .raised
            .wait_timeout_while(generation, timeout, unchanged)
            .unwrap_or_else(PoisonError::into_inner);
        !result.timed_out()
    }
}

/// A connection that detects commits of other connections.
pub(super) struct Watch {
    inner: Mutex<Inner>,
}

struct Inner {
    conn: Connection,
    version: i64,
    active_until: Instant,
}

impl Watch {
    pub(super) fn new(conn: Connection) -> Watch {
        Watch { inner: Mutex::new(Inner { conn, version: 0, active_until: Instant::now() }) }
    }

    /// Reads with this connection.
    pub(super) fn read<R>(&self, f: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> rusqlite::Result<R> {
        f(&lock(&self.inner).conn)
    }

    /// Waits for a commit since the last call, for the signal, or for `timeout`.
    pub(super) fn wait(&self, signal: &Signal, seen: u64, timeout: Duration) -> rusqlite::Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let now = Instant::now();
            let poll = {
                let mut inner = lock(&self.inner);
                let version = inner
                    .conn
                    .prepare_cached("PRAGMA data_version")?
                    .query_row([], |row| row.get::<_, i64>(0))?;
                if version != inner.version {
                    inner.version = version;
                    inner.active_until = now + ACTIVE_FOR;
                    return Ok(());
                }
                if now < inner.active_until { POLL_ACTIVE } else { POLL_IDLE }
            };
            if now >= deadline || signal.wait(seen, poll.min(deadline - now)) {
                return Ok(());
            }
        }
    }
}
