//! The clock of an engine. Delays, leases, deadlines and expiry are judged by it and by nothing
//! else.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::state::Millis;

/// The one place where an engine reads time. Tests replace it.
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

/// A clock that only tests move.
#[derive(Debug, Clone)]
pub struct ManualEngineClock {
    now: Arc<AtomicI64>,
}

impl ManualEngineClock {
    /// A clock that stands at `now`.
    pub fn new(now: Millis) -> ManualEngineClock {
        ManualEngineClock { now: Arc::new(AtomicI64::new(now)) }
    }

    /// The engine's view of it.
    pub fn clock(&self) -> EngineClock {
        EngineClock { manual: Some(Arc::clone(&self.now)) }
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        self.step(i64::try_from(by.as_millis()).unwrap_or(i64::MAX / 4));
    }

    /// Moves it by that many milliseconds, forwards or backwards.
    pub fn step(&self, by: i64) {
        self.now.fetch_add(by, Ordering::SeqCst);
    }
}
