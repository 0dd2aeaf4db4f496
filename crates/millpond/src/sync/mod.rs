//! Synchronization primitives, which are std's or, in models, loom's.
//!
//! All primitives that a protocol relies on (atomics, fences, locks, thread-locals, parking) come
//! from this module, so the models in `loom_tests` run the shipping code. Code may use std directly
//! where no model applies: for values that belong to the whole process, and for words that are
//! guarded by a lock. `Arc` is always std's: loom's `Arc` has no `Weak` and cannot hold a trait
//! object, and no protocol here relies on its counts.
//!
//! With `cfg(loom)` but without `cfg(test)` this module uses std: other crates model their own code
//! that way, and loom is only a dev-dependency of this crate.
//!
//! There are two locks. [`Mutex`] parks its waiters. [`SpinLock`] is for critical sections of a few
//! instructions. A panic poisons neither: the data they guard is consistent at every point where
//! user code can panic.

pub(crate) mod backoff;
mod parker;
#[expect(unsafe_code, reason = "a lock that is freed by a plain store")]
mod spin_lock;

use std::time::{Duration, Instant};

pub(crate) use backoff::AdaptiveBackoff;
pub(crate) use parker::Parker;
pub(crate) use spin_lock::{SpinLock, SpinLockGuard};
pub(crate) use std::sync::{Arc, OnceLock, Weak};

#[cfg(not(all(loom, test)))]
pub(crate) use std::{
    sync::MutexGuard,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    thread_local,
};

#[cfg(all(loom, test))]
pub(crate) use loom::{
    sync::MutexGuard,
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    thread_local,
};

#[cfg(all(loom, test))]
use loom::sync::Mutex as RawMutex;
#[cfg(not(all(loom, test)))]
use std::sync::Mutex as RawMutex;

/// True in a build for models. Used by constants and shortcuts that keep a model small.
pub(crate) const IN_MODEL: bool = cfg!(all(loom, test));

/// Issues a fence between two `SeqCst` accesses in a model, because loom treats such accesses only
/// as acquire and release. Outside of models the accesses are enough.
#[inline(always)]
pub(crate) fn fence_in_models() {
    #[cfg(all(loom, test))]
    fence(Ordering::SeqCst);
}

/// A mutual-exclusion lock whose `lock` returns the guard.
#[derive(Debug)]
pub(crate) struct Mutex<T>(RawMutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(RawMutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

/// Locks a mutex that belongs to the whole process. Such a mutex is always std's: no protocol
/// relies on it, and a model must not carry state from one run to the next.
pub(crate) fn lock_global<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A value that several threads access. Its users must define which thread may access it when.
#[cfg(not(all(loom, test)))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(all(loom, test)))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// The same for models. Loom reports concurrent accesses.
#[cfg(all(loom, test))]
pub(crate) use loom::cell::UnsafeCell;

/// Makes a value `Sync` that is only accessed by value or by exclusive reference.
#[derive(Debug)]
pub(crate) struct Exclusive<T>(std::sync::Mutex<T>);

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Exclusive(std::sync::Mutex::new(value))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Returns the instant `timeout` from now, or `None` (no deadline) if no `Instant` can represent
/// it.
pub(crate) fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
