//! The settings that can change while the pool runs.

use super::control::MAX_WORKERS;
use crate::ConfigError;
use crate::monitor::{ChangeError, QueueKind, Settings};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};

/// Checks settings against each other. The maximum is above zero and not below the core size. A
/// bounded queue has room for at least one task. If core threads time out, the keep-alive time is
/// above zero.
pub(super) fn check(settings: &Settings) -> Result<(), ConfigError> {
    let (core, maximum) = (settings.core_pool_size, settings.maximum_pool_size);
    if maximum == 0 {
        return Err(ConfigError::ZeroMaximum { core });
    }
    if core > maximum {
        return Err(ConfigError::CoreExceedsMaximum { core, maximum });
    }
    if settings.core_threads_time_out && settings.keep_alive_time.is_zero() {
        return Err(ConfigError::ZeroKeepAlive { keep_alive: settings.keep_alive_time });
    }
    if settings.queue_capacity == Some(0) {
        let is_array = settings.queue == QueueKind::Array;
        let queue = if is_array { "array work queue" } else { "linked work queue" };
        return Err(ConfigError::ZeroCapacity { queue });
    }
    Ok(())
}

/// The current settings.
///
/// Reads on the hot path use the atomic copies. Relaxed is enough: a stale value is a recent one,
/// and `PoolInner::recheck_all` makes idle workers read again after a change.
#[derive(Debug)]
pub(super) struct LiveSettings {
    /// The authoritative values. A change holds the lock until all parts of the pool have the new
    /// values. So concurrent changes are checked one after the other, each against the result of
    /// the previous one, and their versions form one chain. Model:
    /// `one_of_two_changes_of_a_version_wins`.
    values: Mutex<Settings>,
    /// Copy of the core size. This and the next two fields are written under the lock.
    core: AtomicUsize,
    maximum: AtomicUsize,
    core_times_out: AtomicBool,
}

impl LiveSettings {
    pub(super) fn new(settings: Settings) -> Self {
        LiveSettings {
            core: AtomicUsize::new(settings.core_pool_size),
            maximum: AtomicUsize::new(settings.maximum_pool_size),
            core_times_out: AtomicBool::new(settings.core_threads_time_out),
            values: Mutex::new(settings),
        }
    }

    pub(super) fn get(&self) -> Settings {
        self.values.lock().clone()
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

    /// Replaces the settings by the result of `change`, if that is valid. `apply` changes the other
    /// parts of the pool under the lock. Returns the settings before and after.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&Settings) -> Result<Settings, ChangeError>,
        apply: impl FnOnce(&Settings),
    ) -> Result<(Settings, Settings), ChangeError> {
        let mut values = self.values.lock();
        let new = change(&values)?;
        check(&new)?;
        self.core.store(new.core_pool_size, Ordering::Relaxed);
        self.maximum.store(new.maximum_pool_size, Ordering::Relaxed);
        self.core_times_out.store(new.core_threads_time_out, Ordering::Relaxed);
        apply(&new);
        let old = std::mem::replace(&mut *values, new.clone());
        Ok((old, new))
    }
}
