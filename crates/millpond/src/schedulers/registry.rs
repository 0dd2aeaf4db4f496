//! Keyed lists of process-wide user callbacks: hooks and decorators.
//!
//! Invariants
//! 1. No callback is called or dropped while a list is locked.
//! 2. A list keeps the order in which its keys were first set.

use std::ops::Deref;
use std::sync::atomic::AtomicBool; // std's even in models: it is process-wide

use crate::panic::drop_caught;
use crate::sync::{Arc, Ordering, lock_global};

/// Callbacks by key.
struct Keyed<T: ?Sized>(Vec<(String, Arc<T>)>);

impl<T: ?Sized> Keyed<T> {
    fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|(known, _)| known == key)
    }
}

/// A callback while it is being called, or while a slot uses it.
///
/// If the callback is removed from its list meanwhile, this is the last reference. Its destructor
/// is user code that may run on any thread, so a panic of the destructor is caught.
pub(super) struct InUse<T: ?Sized>(Option<Arc<T>>);

impl<T: ?Sized> Deref for InUse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("only `drop` takes it")
    }
}

impl<T: ?Sized> Drop for InUse<T> {
    fn drop(&mut self) {
        drop_caught(self.0.take());
    }
}

/// One process-wide list.
pub(super) struct Registry<T: ?Sized> {
    list: std::sync::Mutex<Keyed<T>>,
    /// True if the list is not empty. Written under the lock. Most programs register no callbacks,
    /// so they never take the lock.
    ///
    /// Relaxed: a thread that relies on a callback was synchronized with its registration in
    /// another way.
    any: AtomicBool,
}

impl<T: ?Sized> Registry<T> {
    pub(super) const fn new() -> Self {
        Registry { list: std::sync::Mutex::new(Keyed(Vec::new())), any: AtomicBool::new(false) }
    }

    fn change<R>(&self, change: impl FnOnce(&mut Keyed<T>) -> R) -> R {
        let mut list = lock_global(&self.list);
        let result = change(&mut list);
        self.any.store(!list.0.is_empty(), Ordering::Relaxed);
        result
    }

    /// Sets the callback of `key`, which keeps its position. Returns the previous one.
    pub(super) fn set(&self, key: &str, callback: Arc<T>) -> Option<Arc<T>> {
        self.change(|list| match list.position(key) {
            Some(at) => Some(std::mem::replace(&mut list.0[at].1, callback)),
            None => {
                list.0.push((key.to_owned(), callback));
                None
            }
        })
    }

    /// Sets the callback of `key` unless there is one. Returns `callback` if it was not set.
    pub(super) fn set_if_absent(&self, key: &str, callback: Arc<T>) -> Option<Arc<T>> {
        self.change(|list| {
            if list.position(key).is_some() {
                return Some(callback);
            }
            list.0.push((key.to_owned(), callback));
            None
        })
    }

    pub(super) fn remove(&self, key: &str) -> Option<Arc<T>> {
        self.change(|list| Some(list.0.remove(list.position(key)?).1))
    }

    pub(super) fn clear(&self) {
        let removed = self.change(|list| std::mem::take(&mut list.0));
        drop(removed); // invariant 1
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    /// Returns all callbacks in the order of their keys.
    pub(super) fn all(&self) -> Vec<InUse<T>> {
        if self.is_empty() {
            return Vec::new();
        }
        lock_global(&self.list).0.iter().map(|(_, callback)| InUse(Some(Arc::clone(callback)))).collect()
    }
}
