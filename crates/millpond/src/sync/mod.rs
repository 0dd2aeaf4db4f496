//! The std/loom swap.
//!
//! Everything a protocol rests on (atomics, fences, locks, thread-locals, parking) comes from here, so
//! that the models in `loom_tests` run the very code that ships. Others use `std`'s own for what no model asks about: numbers that
//! belong to the whole process, and words that a lock guards anyway. `Arc` is always std's: loom's has no
//! `Weak` and cannot hold a trait object, and no protocol of ours rests on its counts.
//!
//! `cfg(loom)` without `cfg(test)` means std: it is how others model their own code, and loom is
//! only a dev-dependency here.
//!
//! The [`Mutex`] here has no poisoning. What it guards is whole at every point where user code
//! could panic, so a panic elsewhere says nothing about our data.

mod adaptive;
pub(crate) mod backoff;
#[cfg(not(loom))]
mod contention;
#[expect(unsafe_code, reason = "a lock that is freed by a plain store")]
mod spin_lock;

use std::time::{Duration, Instant};

pub(crate) use adaptive::AdaptiveBackoff;
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

/// In a model, a fence between two `SeqCst` accesses: loom gives those no more than acquire and
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

/// A value that several threads may reach, if they agree among themselves on who does when.
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

/// The same for models, which notice if they do not agree.
#[cfg(all(loom, test))]
pub(crate) use loom::cell::UnsafeCell;

/// A lock for the few things that belong to the whole process. Always std's: no protocol rests on it, and a model must not
/// carry state from one run to the next.
#[derive(Debug)]
pub(crate) struct Global<T>(std::sync::Mutex<T>);

impl<T> Global<T> {
    pub(crate) const fn new(value: T) -> Self {
        Global(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Something that can be shared because it can only be given away: all access is by value.
#[derive(Debug)]
pub(crate) struct Exclusive<T>(std::sync::Mutex<T>);

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Exclusive(std::sync::Mutex::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

/// The instant `timeout` from now; `None`, for ever, when no `Instant` can hold it.
pub(crate) fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

/// Blocks one thread, its owner, until another thread hands it a token or a deadline passes.
///
/// The token is binary and stays until it is consumed, so an `unpark` that comes before the `park` is not
/// lost. What was written before `unpark` is visible after the `park` that consumed its token.
#[cfg(not(all(loom, test)))]
#[derive(Debug)]
pub(crate) struct Parker {
    /// True: a token waits. Set by anyone, consumed by the owner.
    ///
    /// Both sides are read-modify-writes: every `unpark` (Release) is then in the release sequence of
    /// the one whose value the owner's `swap` (Acquire) reads, so the owner sees what all of them wrote.
    token: AtomicBool,
    owner: std::thread::Thread,
}

#[cfg(not(all(loom, test)))]
impl Parker {
    /// A parker for the calling thread.
    pub(crate) fn for_this_thread() -> Self {
        Parker { token: AtomicBool::new(false), owner: std::thread::current() }
    }

    /// Waits for a token and consumes it; false if `deadline` came first. Only the owner may call it.
    pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
        loop {
            if self.token.swap(false, Ordering::Acquire) {
                return true;
            }
            match deadline {
                None => std::thread::park(),
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => std::thread::park_timeout(left),
                    _ => return self.token.swap(false, Ordering::Acquire),
                },
            }
        }
    }

    /// Hands the owner a token. Costs a system call only if the owner sleeps and has none yet.
    pub(crate) fn unpark(&self) {
        if !self.token.swap(true, Ordering::Release) {
            self.owner.unpark();
        }
    }
}

/// The same contract for models. Time does not pass in a model: a deadline is met if it was when `park` was called
/// (as that of a zero time-out is), or when [`fire_timer`](Parker::fire_timer) says so.
#[cfg(all(loom, test))]
#[derive(Debug)]
pub(crate) struct Parker {
    inner: Mutex<ParkerState>,
    changed: loom::sync::Condvar,
}

#[cfg(all(loom, test))]
#[derive(Debug, Default)]
struct ParkerState {
    token: bool,
    timer_fired: bool,
    timer_fired_once: bool,
}

#[cfg(all(loom, test))]
impl Parker {
    pub(crate) fn for_this_thread() -> Self {
        Parker { inner: Mutex::new(ParkerState::default()), changed: loom::sync::Condvar::new() }
    }

    pub(crate) fn park(&self, deadline: Option<Instant>) -> bool {
        let mut inner = self.inner.lock();
        loop {
            if std::mem::take(&mut inner.token) {
                return true;
            }
            if deadline.is_some_and(|deadline| inner.timer_fired || deadline <= Instant::now()) {
                return false;
            }
            if deadline.is_some() && std::mem::take(&mut inner.timer_fired_once) {
                return false;
            }
            inner = self.changed.wait(inner).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    pub(crate) fn unpark(&self) {
        self.inner.lock().token = true;
        self.changed.notify_one();
    }

    /// From now on every park of the owner that has a deadline is past it.
    pub(crate) fn fire_timer(&self) {
        self.inner.lock().timer_fired = true;
        self.changed.notify_one();
    }

    /// One park of the owner that has a deadline, this one or the next, is past it.
    pub(crate) fn fire_timer_once(&self) {
        self.inner.lock().timer_fired_once = true;
        self.changed.notify_one();
    }
}
