//! A spin lock for critical sections of a few instructions.
//!
//! Locking is one atomic exchange, unlocking is a plain store. A lock with parked waiters needs a
//! second exchange to unlock, which for a few words of data is half of the total time. On
//! contention a thread pauses, yields and finally sleeps (see [`Backoff`]). So a critical section
//! must be short: no user code, no blocking, and no work that grows with the length of a queue,
//! except to grow its memory.
//!
//! [`SpinLock::lock_contended`] is for a lock that several threads request all the time. Moving the
//! lock and its data between cores then takes most of the time. So a thread that repeatedly finds
//! the lock taken pauses for some microseconds. `docs/performance-lessons.md` has measurements.
//!
//! Invariants
//! 1. `locked` is true while a guard exists. The thread that changes it from false to true creates
//!    the guard, and only dropping the guard changes it back. So at most one guard exists.
//! 2. The value is accessed only through the guard.
//!
//! In a model, waiting threads block on a mutex, because polling would never end there. Only
//! `try_lock` models the word itself.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[cfg(not(all(loom, test)))]
use super::backoff::{Backoff, Contention};
use super::{AtomicBool, Ordering, UnsafeCell};
#[cfg(all(loom, test))]
use super::{Mutex, MutexGuard};

pub(crate) struct SpinLock<T> {
    /// Invariant 1. Set with Acquire in `try_lock`, cleared with Release by the guard, so a holder
    /// sees all writes of earlier holders.
    locked: AtomicBool,
    value: UnsafeCell<T>,
    #[cfg(all(loom, test))]
    turn: Mutex<()>,
}

// SAFETY: by (1) and (2), threads that share a `SpinLock` access the value one at a time. This is
// sound for `T: Send`, as for a mutex.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// Exclusive access to the value, until dropped.
pub(crate) struct SpinLockGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// Makes the guard `Send` and `Sync` under the same conditions as a `&mut T`.
    value: PhantomData<&'a mut T>,
    /// `None` if the guard comes from `try_lock`.
    #[cfg(all(loom, test))]
    turn: Option<MutexGuard<'a, ()>>,
}

#[cfg(not(all(loom, test)))]
impl<T> SpinLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        SpinLock { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> SpinLockGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_with_backoff(),
        }
    }

    /// Like `lock`, for a lock that several threads may request all the time. Acquiring it may take
    /// some microseconds longer.
    #[inline]
    pub(crate) fn lock_contended(&self) -> SpinLockGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_after_pause(),
        }
    }

    #[cold]
    fn lock_after_pause(&self) -> SpinLockGuard<'_, T> {
        let contention = Contention::back_off();
        let guard = self.lock_with_backoff();
        contention.acquired();
        guard
    }

    #[cold]
    fn lock_with_backoff(&self) -> SpinLockGuard<'_, T> {
        let mut backoff = Backoff::default();
        loop {
            // Read before trying: a failed exchange takes the cache line from the holder.
            if !self.locked.load(Ordering::Relaxed)
                && let Some(guard) = self.try_lock()
            {
                return guard;
            }
            backoff.spin();
        }
    }
}

#[cfg(all(loom, test))]
impl<T> SpinLock<T> {
    pub(crate) fn new(value: T) -> Self {
        SpinLock { locked: AtomicBool::new(false), value: UnsafeCell::new(value), turn: Mutex::new(()) }
    }

    pub(crate) fn lock(&self) -> SpinLockGuard<'_, T> {
        SpinLockGuard { turn: Some(self.turn.lock()), ..self.guard() }
    }

    pub(crate) fn lock_contended(&self) -> SpinLockGuard<'_, T> {
        self.lock()
    }
}

impl<T> SpinLock<T> {
    /// Returns the guard, unless another thread has it. In a model, do not mix this with `lock`.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<SpinLockGuard<'_, T>> {
        let taken = self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| self.guard()) // only on success: dropping a guard unlocks
    }

    #[inline]
    fn guard(&self) -> SpinLockGuard<'_, T> {
        SpinLockGuard {
            lock: self,
            value: PhantomData,
            #[cfg(all(loom, test))]
            turn: None,
        }
    }
}

impl<T> Deref for SpinLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value lives as long as the lock, which outlives `self`. By (1) this is the
        // only guard, and by (2) a `&mut T` borrows it mutably, which excludes the borrow here.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for SpinLockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value lives as long as the lock, which outlives `self`. By (1) this is the
        // only guard; it is borrowed mutably, so by (2) no other reference to the value exists.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for SpinLockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(all(loom, test))]
        if self.turn.is_some() {
            return;
        }
        self.lock.locked.store(false, Ordering::Release);
    }
}

impl<T> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock").finish_non_exhaustive() // reading the value could block
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::SpinLock;

    #[test]
    fn the_lock_admits_one_thread_at_a_time_and_a_panic_frees_it() {
        const EACH: usize = if cfg!(miri) { 30 } else { 10_000 };
        let lock = SpinLock::new(0);
        std::thread::scope(|s| {
            s.spawn(|| (0..EACH).for_each(|_| *lock.lock() += 1));
            for _ in 0..2 {
                s.spawn(|| (0..EACH).for_each(|_| *lock.lock_contended() += 1));
            }
        });
        let panics = std::thread::scope(|s| {
            let panics = s.spawn(|| {
                let _guard = lock.lock();
                std::panic::resume_unwind(Box::new("while it is held"));
            });
            panics.join()
        });
        assert!(panics.is_err());
        assert_eq!(*lock.lock(), 3 * EACH);
    }
}
