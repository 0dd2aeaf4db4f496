//! The settings that can change while the pool runs.

use std::time::Duration;

use super::control::MAX_WORKERS;
use crate::ConfigError;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// Invariants, checked by [`check`](Self::check): `core <= maximum`, `maximum > 0`, and a
/// keep-alive time above zero if core threads time out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) core: usize,
    pub(super) maximum: usize,
    pub(super) keep_alive: Duration,
    pub(super) core_times_out: bool,
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.maximum == 0 {
            return Err(ConfigError::ZeroMaximum { core: self.core });
        }
        if self.core > self.maximum {
            return Err(ConfigError::CoreExceedsMaximum { core: self.core, maximum: self.maximum });
        }
        if self.core_times_out && self.keep_alive.is_zero() {
            return Err(ConfigError::ZeroKeepAlive { keep_alive: self.keep_alive });
        }
        Ok(())
    }
}

/// The settings in force.
///
/// Reads on the hot path use the atomic copies. Relaxed is enough: a stale size is the size of a
/// moment ago, and `PoolInner::recheck_all` makes idle workers read again after a change.
#[derive(Debug)]
pub(super) struct LiveSettings {
    /// The authoritative values, and their version. A change holds the lock, so concurrent changes
    /// are checked in turn, and the versions form one chain.
    values: Mutex<(Settings, u64)>,
    /// Copy of `core`. Written under the lock, like the two below.
    core: AtomicUsize,
    maximum: AtomicUsize,
    core_times_out: AtomicBool,
}

impl LiveSettings {
    pub(super) fn new(settings: Settings) -> Self {
        LiveSettings {
            values: Mutex::new((settings, 1)),
            core: AtomicUsize::new(settings.core),
            maximum: AtomicUsize::new(settings.maximum),
            core_times_out: AtomicBool::new(settings.core_times_out),
        }
    }

    pub(super) fn get(&self) -> Settings {
        self.values.lock().0
    }

    /// The values and their version.
    pub(super) fn versioned(&self) -> (Settings, u64) {
        *self.values.lock()
    }

    #[inline]
    pub(super) fn core(&self) -> usize {
        self.core.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn maximum(&self) -> usize {
        self.maximum.load(Ordering::Relaxed).min(MAX_WORKERS)
    }

    pub(super) fn core_times_out(&self) -> bool {
        self.core_times_out.load(Ordering::Relaxed)
    }

    /// Applies `change` if its result is valid. Returns the values before and after.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut Settings),
    ) -> Result<(Settings, Settings), ConfigError> {
        let mut values = self.values.lock();
        let (old, version) = *values;
        let mut new = old;
        change(&mut new);
        new.check()?;
        *values = (new, version + 1);
        self.core.store(new.core, Ordering::Relaxed);
        self.maximum.store(new.maximum, Ordering::Relaxed);
        self.core_times_out.store(new.core_times_out, Ordering::Relaxed);
        Ok((old, new))
    }
}
