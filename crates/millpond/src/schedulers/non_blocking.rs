//! Marks threads that should not block, and tells whether the calling thread is one of them.
//!
//! The blocking calls of this library work on every thread, marked or not. Each can be interrupted,
//! and a join that refuses to wait would not solve the caller's problem. The mark is for code that
//! checks before it blocks.

use std::thread::{self, Thread};

use super::engine;
use crate::panic::catch_value;
use crate::sync::{Arc, lock_global};

type Predicate = dyn Fn(&Thread) -> bool + Send + Sync;

static PREDICATES: std::sync::Mutex<Vec<Arc<Predicate>>> = std::sync::Mutex::new(Vec::new());

/// Returns true if the calling thread should not block: it belongs to a single or parallel
/// scheduler, or a predicate of [`register_non_blocking_predicate`] returns true.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt};
/// use std::time::Duration;
///
/// assert!(!schedulers::is_in_non_blocking_thread());
/// let look = || assert!(schedulers::is_in_non_blocking_thread());
/// assert!(schedulers::parallel().schedule(look)?.wait(Duration::MAX)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn is_in_non_blocking_thread() -> bool {
    if engine::is_in_non_blocking_thread() {
        return true;
    }
    let predicates = lock_global(&PREDICATES).clone();
    if predicates.is_empty() {
        return false;
    }
    let thread = thread::current();
    // A predicate that panics counts as false.
    predicates.iter().any(|predicate| catch_value(|| predicate(&thread)).unwrap_or(false))
}

/// Adds a predicate that marks further threads as non-blocking. It is called on the thread that
/// asks.
///
/// # Examples
/// ```
/// use millpond::schedulers;
///
/// schedulers::register_non_blocking_predicate(|thread| thread.name() == Some("ui"));
/// let ui = std::thread::Builder::new().name("ui".into());
/// assert!(ui.spawn(schedulers::is_in_non_blocking_thread)?.join().unwrap());
/// schedulers::reset_non_blocking_predicates();
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn register_non_blocking_predicate(predicate: impl Fn(&Thread) -> bool + Send + Sync + 'static) {
    lock_global(&PREDICATES).push(Arc::new(predicate));
}

/// Removes all predicates. Threads of single and parallel schedulers stay marked.
///
/// # Examples
/// See [`register_non_blocking_predicate`].
pub fn reset_non_blocking_predicates() {
    let old = std::mem::take(&mut *lock_global(&PREDICATES));
    drop(old); // user code, so not under the lock
}
