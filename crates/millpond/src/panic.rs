//! Calls of user code whose panic no caller can receive: destructors, wakers, callbacks, hooks.
//!
//! The panic hook of the process has already reported the panic. The payload is dropped here. If
//! its destructor panics too, the second payload is leaked.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `f`. Returns false if it panicked.
#[inline]
pub(crate) fn catch(f: impl FnOnce()) -> bool {
    catch_value(f).is_some()
}

/// Calls `f`. Returns its value, or `None` if it panicked.
#[inline]
pub(crate) fn catch_value<R>(f: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(f)).map_err(drop_payload).ok()
}

/// Drops a value and catches a panic. Costs nothing for a value without a destructor.
#[inline]
pub(crate) fn drop_caught<V>(value: V) {
    if std::mem::needs_drop::<V>() {
        catch(|| drop(value));
    }
}

/// Returns the first payload, or the value if nothing has panicked. Everything else is dropped
/// here, and not while the caller unwinds: a panic of a destructor would then abort the process.
pub(crate) fn value_or_first<R>(
    result: std::thread::Result<R>,
    payloads: impl Iterator<Item = Box<dyn std::any::Any + Send>>,
) -> std::thread::Result<R> {
    payloads.fold(result, |result, payload| match result {
        Ok(value) => {
            drop_caught(value);
            Err(payload)
        }
        first => {
            drop_caught(payload);
            first
        }
    })
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

    /// Panics when it is dropped, with another `Bomb` as payload.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new(Bomb));
        }
    }

    #[test]
    fn no_panic_escapes_whatever_its_payload_does() {
        assert!(catch(|| {}));
        assert!(!catch(|| resume_unwind(Box::new("text"))));
        assert!(!catch(|| resume_unwind(Box::new(Bomb))));
        drop_caught(Bomb);
    }
}
