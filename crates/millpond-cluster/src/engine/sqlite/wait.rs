//! Waiting for changes: at once within the process, by polling a counter across processes.
//!
//! `PRAGMA data_version` changes when another connection has committed. Reading it takes
//! microseconds and no lock that a writer waits for. File watching would be faster on paper, but
//! misses wakes; and closing a descriptor of the file drops the locks that SQLite has on it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::lock;

/// After activity the counter is polled this often, for [`ACTIVE_FOR`].
const POLL_ACTIVE: Duration = Duration::from_millis(1);
const POLL_IDLE: Duration = Duration::from_millis(20);
const ACTIVE_FOR: Duration = Duration::from_millis(50);

/// Grows when this process has changed something that its waiting threads care about.
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

    /// Waits until the generation is not `seen`, or for `timeout`. Tells whether it changed.
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

/// One connection that looks for commits of others.
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

    /// Waits until something was committed since the last call, the signal is raised, or `timeout`
    /// is over.
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
