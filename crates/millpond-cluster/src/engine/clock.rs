//! The clock of an engine, the only clock that decides about delays, leases, deadlines and expiry.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::state::Millis;

/// The only place where an engine reads the time. Tests replace it.
#[derive(Clone, Default)]
pub struct EngineClock {
    manual: Option<Arc<AtomicI64>>,
}

impl EngineClock {
    /// The clock of this machine.
    pub fn system() -> EngineClock {
        EngineClock::default()
    }

    /// Milliseconds since the Unix epoch.
    pub fn now(&self) -> Millis {
        match &self.manual {
            Some(manual) => manual.load(Ordering::SeqCst),
            None => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
        }
    }
}

impl fmt::Debug for EngineClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// A clock that only advances when a test tells it to.
#[derive(Debug, Clone)]
pub struct ManualEngineClock {
    now: Arc<AtomicI64>,
}

impl ManualEngineClock {
    /// A clock that shows `now`.
    pub fn new(now: Millis) -> ManualEngineClock {
        ManualEngineClock { now: Arc::new(AtomicI64::new(now)) }
    }

    /// Returns an engine clock that reads this one.
    pub fn clock(&self) -> EngineClock {
        EngineClock { manual: Some(Arc::clone(&self.now)) }
    }

    /// Advances it.
    pub fn advance(&self, by: Duration) {
        self.step(i64::try_from(by.as_millis()).unwrap_or(i64::MAX / 4));
    }

    /// Moves it by this many milliseconds, forwards or backwards.
    pub fn step(&self, by: i64) {
        self.now.fetch_add(by, Ordering::SeqCst);
    }
}
