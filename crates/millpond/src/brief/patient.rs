//! A [`Brief`] lock whose waiters sleep until it is free.
//!
//! It is for what many threads want at times, and what may now and then be held for longer than a moment. Who finds it taken
//! looks a few times, then says that it is wanted, and sleeps. Who frees it does so by a plain store, as with any `Brief`, and
//! then looks whether it is wanted:
//!
//! ```text
//! holder                            waiter
//! H1 free the lock                  S1 it is wanted
//! H2 is it wanted? wake one         S2 is the lock free? take it, else sleep
//! ```
//!
//! For each of the two to see the other's first step, both would need a fence between their steps. The waiter's costs nothing
//! that counts. The holder's would cost as much as the exchange that is to be spared, so there is none: its look may come
//! before its store has left the core. That takes less than a microsecond, and the waiter lets that pass between S1 and S2. Should
//! it ever take longer, the waiter still looks again after [`NAP`]: all that can be lost by this is that time. Nobody's
//! right to the value rests on it, for that is had by the exchange of the `Brief` alone.
//!
//! A model of what the lock guards is not about the lock: there it is a mutex. The model of this file, `loom_tests::queue`, has a
//! fence in the place of the time that passes.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use super::{Brief, BriefGuard};
use crate::sync::{AtomicBool, Condvar, Mutex, Ordering, fence};

/// So many looks, a pause of the processor between two, before it sleeps: some microseconds in all, in which a lock that is held
/// for a moment becomes free.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 100 };
/// So many pauses between S1 and S2.
const SETTLE: u32 = if cfg!(loom) { 0 } else { 8 };
const NAP: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Patient<T> {
    lock: Brief<T>,
    sleepers: Sleepers,
}

/// The right to the value, until it is dropped.
pub(crate) struct PatientGuard<'a, T> {
    /// `None` when it has been freed.
    guard: Option<BriefGuard<'a, T>>,
    /// `None`: in a model, it is the mutex that is locked.
    sleepers: Option<&'a Sleepers>,
}

/// Those who wait for the lock for longer.
#[derive(Debug)]
struct Sleepers {
    /// One is to be woken when the lock is freed. Set by who is about to sleep, and unset by who wakes one.
    wanted: AtomicBool,
    /// So many sleep.
    asleep: Mutex<usize>,
    freed: Condvar,
    /// So long at most does one sleep.
    nap: Duration,
}

impl<T> Patient<T> {
    pub(crate) fn new(value: T) -> Self {
        Patient { lock: Brief::new(value), sleepers: Sleepers::new(NAP) }
    }

    #[cfg(loom)]
    pub(crate) fn lock(&self) -> PatientGuard<'_, T> {
        PatientGuard { guard: Some(self.lock.lock()), sleepers: None }
    }

    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn lock(&self) -> PatientGuard<'_, T> {
        self.lock_as_it_is()
    }

    /// What `lock` does outside of models. In a model not to be mixed with it.
    #[inline]
    pub(crate) fn lock_as_it_is(&self) -> PatientGuard<'_, T> {
        let guard = self.lock.try_lock().unwrap_or_else(|| self.lock_later());
        PatientGuard { guard: Some(guard), sleepers: Some(&self.sleepers) }
    }

    #[cold]
    fn lock_later(&self) -> BriefGuard<'_, T> {
        loop {
            for _ in 0..LOOKS {
                if let Some(guard) = self.lock.lock_if_free() {
                    return guard;
                }
                std::hint::spin_loop();
            }
            if let Some(guard) = self.sleepers.sleep(|| self.lock.lock_if_free()) {
                return guard;
            }
        }
    }
}

impl Sleepers {
    fn new(nap: Duration) -> Self {
        Sleepers { wanted: AtomicBool::new(false), asleep: Mutex::new(0), freed: Condvar::default(), nap }
    }

    /// Sleeps, unless `take` says that one need not.
    fn sleep<G>(&self, take: impl FnOnce() -> Option<G>) -> Option<G> {
        self.wanted.store(true, Ordering::Relaxed); // S1
        fence(Ordering::SeqCst);
        (0..SETTLE).for_each(|_| std::hint::spin_loop());
        let taken = take(); // S2
        if taken.is_some() {
            return taken;
        }
        let mut asleep = self.asleep.lock();
        // Who has unset it meanwhile may have found nobody to wake.
        if self.wanted.load(Ordering::Relaxed) {
            *asleep += 1;
            asleep = self.freed.wait_for(asleep, self.nap);
            *asleep -= 1;
            self.wanted.store(*asleep > 0, Ordering::Relaxed);
        }
        None
    }

    /// Wakes one. The others are its concern: it says that the lock is wanted before it takes it.
    #[cold]
    fn wake(&self) {
        let asleep = self.asleep.lock();
        self.wanted.store(false, Ordering::Relaxed);
        if *asleep > 0 {
            self.freed.notify_one();
        }
    }
}

impl<T> Deref for PatientGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is there until the drop")
    }
}

impl<T> DerefMut for PatientGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("it is there until the drop")
    }
}

impl<T> Drop for PatientGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.guard = None; // H1
        if cfg!(loom) {
            fence(Ordering::SeqCst);
        }
        if let Some(sleepers) = self.sleepers
            && sleepers.wanted.load(Ordering::Relaxed)
        {
            sleepers.wake(); // H2
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;

    /// With such a nap who is not woken sleeps for ever, as far as a test is concerned.
    const FOR_EVER: Duration = Duration::from_secs(1 << 20);

    fn with_nap<T>(value: T, nap: Duration) -> Patient<T> {
        Patient { sleepers: Sleepers::new(nap), ..Patient::new(value) }
    }

    fn asleep<T>(lock: &Patient<T>) -> usize {
        *lock.sleepers.asleep.lock()
    }

    #[test]
    fn all_who_sleep_are_woken_one_after_the_other() {
        const WAITERS: usize = 4;
        let lock = with_nap(0, FOR_EVER);
        thread::scope(|s| {
            let guard = lock.lock();
            (0..WAITERS).for_each(|_| drop(s.spawn(|| *lock.lock() += 1)));
            while asleep(&lock) < WAITERS {
                thread::yield_now();
            }
            assert_eq!(*guard, 0, "nobody had it meanwhile");
            drop(guard);
        });
        assert_eq!((*lock.lock(), asleep(&lock)), (WAITERS, 0));
    }

    #[test]
    fn who_is_not_woken_looks_again() {
        let lock = with_nap(0, Duration::from_micros(1));
        thread::scope(|s| {
            let guard = lock.lock();
            s.spawn(|| *lock.lock() += 1);
            while asleep(&lock) == 0 {
                thread::yield_now();
            }
            // As if the look had come too early.
            let PatientGuard { guard: free, .. } = &mut *std::mem::ManuallyDrop::new(guard);
            drop(free.take());
        });
        assert_eq!(*lock.lock(), 1);
    }

    #[test]
    fn the_lock_lets_in_one_at_a_time() {
        const EACH: usize = if cfg!(miri) { 30 } else { 20_000 };
        let lock = Patient::new(0);
        thread::scope(|s| {
            (0..4).for_each(|_| drop(s.spawn(|| (0..EACH).for_each(|_| *lock.lock() += 1))));
        });
        assert_eq!((*lock.lock(), asleep(&lock)), (4 * EACH, 0));
    }
}
