//! Synchronization primitives, and the swap of std for loom.
//!
//! Everything a protocol rests on (atomics, fences, locks, thread-locals, parking) comes from this
//! module, so the models in `loom_tests` run the shipping code. Code may use std directly for what
//! no model covers: values that belong to the whole process, and words that a lock guards anyway.
//! `Arc` is always std's: loom's has no `Weak` and cannot hold a trait object, and no protocol here
//! rests on its counts.
//!
//! `cfg(loom)` without `cfg(test)` means std: other crates model their own code that way, and loom
//! is only a dev-dependency here.
//!
//! There are two locks. [`Mutex`] parks its waiters. [`SpinLock`] is for critical sections of a few
//! instructions. Neither is poisoned by a panic: the data they guard is consistent at every point
//! where user code can panic.

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

/// True in a build for models. For constants and shortcuts that keep a model small.
pub(crate) const IN_MODEL: bool = cfg!(all(loom, test));

/// In a model, a fence between two `SeqCst` accesses, which loom treats as no more than acquire and
/// release. Outside of models the accesses are enough.
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

/// Locks a mutex that belongs to the whole process. Such a mutex is always std's: no protocol rests
/// on it, and a model must not carry state from one run to the next.
pub(crate) fn lock_global<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A value that several threads may reach. Its users agree on who accesses it when.
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

/// The same for models, which report concurrent accesses.
#[cfg(all(loom, test))]
pub(crate) use loom::cell::UnsafeCell;

/// Makes a value `Sync` that is only ever accessed by value.
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

/// The instant `timeout` from now. `None`, which means no deadline, if no `Instant` can hold it.
pub(crate) fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
