//! A lock for a moment: one word, taken by one atomic exchange and freed by a plain store.
//!
//! A lock that can put threads to sleep needs a second exchange to free it, for it has to learn whether somebody sleeps.
//! Where a few words are changed under the lock that is half of the time. Here nobody sleeps until woken: who finds the
//! lock taken lets others run, which is soon enough if it is held for a moment, and if the machine is so busy that the
//! holder does not get to run it naps. So whatever is done under this lock must be short: no user code, no waiting, nothing
//! that grows with what a queue holds except the memory that it is held in.
//!
//! Where several threads want the lock all the time, most of that time goes into moving it, and what it protects, from core
//! to core. [`SpinLock::lock_contended`] is for that: who has found it taken several times in a row leaves it to the others for
//! some microseconds, and they have it again and again meanwhile, as cheaply as if they were alone. Empty tasks that spawn
//! empty tasks, with two workers on two cores that share a cache, take 60 ns each with `lock`, 34 with turns, and 26 with one
//! worker; on two that do not, 112 and 102.
//!
//! To a model, looking again and again is a wait without end. There those who wait sleep on a mutex, and the word is
//! modelled by `try_lock`.
//!
//! This file is one of the rooms with `unsafe`; its outside is safe.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[cfg(not(loom))]
use super::backoff::Backoff;
#[cfg(not(loom))]
use super::contention;
use crate::sync::{AtomicBool, Ordering, UnsafeCell};
#[cfg(loom)]
use crate::sync::{Mutex, MutexGuard};

pub(crate) struct SpinLock<T> {
    /// True while there is a guard. Who makes it true is the only one who may make a guard, and the end of that guard
    /// is all that makes it false.
    ///
    /// Release when freed, Acquire when taken: who holds the lock sees what was written under it before.
    locked: AtomicBool,
    value: UnsafeCell<T>,
    #[cfg(loom)]
    turn: Mutex<()>,
}

// SAFETY: a shared `SpinLock` gives access to its value by its guards only, of which there is one at a time: so what threads
// share is the right to have the value in turn, which asks for `T: Send`, as for a mutex.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// The right to the value, until it is dropped.
pub(crate) struct SpinLockGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// It is as good as a `&mut T`, and may be sent and shared as that.
    value: PhantomData<&'a mut T>,
    /// `None`: it is the word that is locked.
    #[cfg(loom)]
    turn: Option<MutexGuard<'a, ()>>,
}

impl<T> SpinLock<T> {
    #[cfg(not(loom))]
    pub(crate) const fn new(value: T) -> Self {
        SpinLock { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[cfg(loom)]
    pub(crate) fn new(value: T) -> Self {
        SpinLock { locked: AtomicBool::new(false), value: UnsafeCell::new(value), turn: Mutex::new(()) }
    }

    #[cfg(loom)]
    pub(crate) fn lock(&self) -> SpinLockGuard<'_, T> {
        SpinLockGuard { turn: Some(self.turn.lock()), ..self.guard() }
    }

    #[cfg(loom)]
    pub(crate) fn lock_contended(&self) -> SpinLockGuard<'_, T> {
        self.lock()
    }

    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn lock(&self) -> SpinLockGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_later(),
        }
    }

    /// As `lock`, for a lock that several threads may want all the time. It may take some microseconds longer.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn lock_contended(&self) -> SpinLockGuard<'_, T> {
        match self.try_lock() {
            Some(guard) => guard,
            None => self.lock_after_pause(),
        }
    }

    /// The guard, unless somebody has it now. In a model not to be mixed with `lock`.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<SpinLockGuard<'_, T>> {
        let taken = self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| self.guard()) // not made unless taken: its end unlocks
    }

    #[inline]
    fn guard(&self) -> SpinLockGuard<'_, T> {
        SpinLockGuard {
            lock: self,
            value: PhantomData,
            #[cfg(loom)]
            turn: None,
        }
    }

    /// As `try_lock`, for who tries again and again: to look does not take the word away from who is about to free it; to try
    /// does.
    #[cfg(not(loom))]
    fn lock_if_free(&self) -> Option<SpinLockGuard<'_, T>> {
        if self.locked.load(Ordering::Relaxed) { None } else { self.try_lock() }
    }

    #[cfg(not(loom))]
    #[cold]
    fn lock_after_pause(&self) -> SpinLockGuard<'_, T> {
        let contention = contention::step_back();
        let guard = self.lock_later();
        contention.is_over();
        guard
    }

    #[cfg(not(loom))]
    #[cold]
    fn lock_later(&self) -> SpinLockGuard<'_, T> {
        let mut backoff = Backoff::default();
        loop {
            if let Some(guard) = self.lock_if_free() {
                return guard;
            }
            backoff.spin();
        }
    }
}

impl<T> Deref for SpinLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is there as long as the lock, which outlives `self`. This is the only guard, so nobody has a
        // `&mut T` but by borrowing `self` mutably, which excludes the borrow here.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for SpinLockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `self` is borrowed mutably, so there is no other reference to the value.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for SpinLockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(loom)]
        if self.turn.is_some() {
            return;
        }
        self.lock.locked.store(false, Ordering::Release);
    }
}

impl<T> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpinLock").finish_non_exhaustive() // a look inside would have to wait
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::SpinLock;

    #[test]
    fn the_lock_lets_in_one_at_a_time_and_a_panic_frees_it() {
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
