//! Calls what is the user's where a panic has nowhere to go: destructors, wakers, callbacks, hooks.
//!
//! The process's panic hook has told of the panic; nobody here can do anything about it. What it carries is the user's as well,
//! and is dropped here: should that panic too, what that one carries is left alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// True: it has returned. False: it panicked.
#[inline]
pub(crate) fn catch(f: impl FnOnce()) -> bool {
    catch_value(f).is_some()
}

/// What it returned, unless it panicked.
#[inline]
pub(crate) fn catch_value<R>(f: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(f)).map_err(drop_payload).ok()
}

/// Drops a value. One that has no destructor costs nothing.
#[inline]
pub(crate) fn drop_caught<V>(value: V) {
    if std::mem::needs_drop::<V>() {
        catch(|| drop(value));
    }
}

#[cold]
fn drop_payload(payload: Box<dyn std::any::Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::resume_unwind;

    use super::*;

    /// Panics when it is dropped, with another one.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new(Bomb));
        }
    }

    #[test]
    fn whatever_a_panic_carries_nothing_gets_out() {
        assert!(catch(|| {}));
        assert!(!catch(|| resume_unwind(Box::new("text"))));
        assert!(!catch(|| resume_unwind(Box::new(Bomb))));
        drop_caught(Bomb);
    }
}
