//! A lock for a few instructions: to leave it is a plain store.
//!
//! The two ends of the pool's queue are locked for the time of a copy. With the standard lock most of that time would go
//! into leaving it, because it must ask whether somebody sleeps there. Here nobody does: who finds the lock taken looks
//! again in short spins, then lets others run, and if the owner has been stopped in the middle for longer, naps. No code
//! of the user's ever runs under it. This file is one of the rooms with `unsafe`. Models use the model of the standard
//! lock: no protocol rests on how it waits.

#[cfg(not(loom))]
pub(super) use plain::{Guard, Turn};

#[cfg(loom)]
pub(super) type Turn<T> = crate::sync::Mutex<T>;
#[cfg(loom)]
pub(super) type Guard<'a, T> = crate::sync::MutexGuard<'a, T>;

#[cfg(not(loom))]
mod plain {
    use std::cell::UnsafeCell;
    use std::ops::{Deref, DerefMut};
    use std::thread;
    use std::time::Duration;

    use crate::sync::{AtomicBool, Ordering};

    /// Gives one thread at a time access to a value.
    pub(in super::super) struct Turn<T> {
        /// Somebody has it.
        taken: AtomicBool,
        /// Belongs to the one who set `taken`.
        value: UnsafeCell<T>,
    }

    // SAFETY: the value is reached by one thread at a time, see `lock`; so it must be `Send`, and that is enough.
    unsafe impl<T: Send> Sync for Turn<T> {}

    /// Access to the value; dropping it ends the turn.
    pub(in super::super) struct Guard<'a, T>(&'a Turn<T>);

    impl<T> Turn<T> {
        pub(in super::super) fn new(value: T) -> Self {
            Turn { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
        }

        #[inline]
        pub(in super::super) fn lock(&self) -> Guard<'_, T> {
            if !self.try_take() {
                self.wait();
            }
            Guard(self)
        }

        /// Acquire: we see all that was done in the turns before.
        #[inline]
        fn try_take(&self) -> bool {
            !self.taken.swap(true, Ordering::Acquire)
        }

        #[cold]
        fn wait(&self) {
            const SPINS: u32 = 7;
            const YIELDS: u32 = 32;
            const NAP: Duration = Duration::from_micros(50);
            for round in 0u32.. {
                match round {
                    ..SPINS => (0..1 << round).for_each(|_| std::hint::spin_loop()),
                    SPINS..YIELDS => thread::yield_now(),
                    _ => thread::sleep(NAP),
                }
                // A look first: a swap would take the line from the owner, who wants to write to it.
                if !self.taken.load(Ordering::Relaxed) && self.try_take() {
                    return;
                }
            }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        #[inline]
        fn drop(&mut self) {
            self.0.taken.store(false, Ordering::Release);
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;
        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: there is one guard at a time, and while it is borrowed nobody has it mutably.
            unsafe { &*self.0.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: there is one guard at a time, and it is borrowed mutably.
            unsafe { &mut *self.0.value.get() }
        }
    }
}
