//! [`Observer`]: receives the events of every pool of the process.
//!
//! No lock is held while an observer is called, and its panics are caught. A task that is accepted
//! and returns normally causes no event. Without observers, an event costs one relaxed load.

use std::fmt;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::pool_ref::PoolRef;
use super::settings::{Actor, Settings};
use crate::executor::RejectReason;
use crate::panic::catch;
use crate::sync::{Arc, lock_global};
use crate::task::TaskInfo;
use crate::threads::WorkerInfo;

/// Receives the events of every registered pool of the process; see
/// [`registry::observe`](crate::registry::observe).
///
/// An observer is called without a lock, on the thread on which the event happens. It may call the
/// pool, and its panics are caught. An observer that blocks delays the calling thread, which is a
/// submitter or a worker. Events of different threads may arrive in any order.
pub trait Observer: Send + Sync {
    /// Called for every event.
    fn event(&self, pool: &PoolRef, event: &Event<'_>);
}

/// An event of a pool.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The pool was built.
    Created,
    /// The pool has terminated: all its tasks and threads have ended after a shutdown.
    Ended,
    /// Settings were changed.
    Changed {
        /// The previous settings.
        old: &'a Settings,
        /// The new settings, with a version that is higher by one.
        new: &'a Settings,
        /// The author and the reason of the change.
        by: &'a Actor,
    },
    /// A task was refused. Sent before the rejection policy acts.
    Rejected {
        /// The task.
        task: &'a TaskInfo,
        /// Why it was refused.
        reason: RejectReason,
    },
    /// A task panicked, with or without a handle. Sent before its handle resolves.
    Panicked {
        /// The task.
        task: &'a TaskInfo,
        /// The message of the panic.
        message: &'a str,
    },
    /// A worker thread has started.
    WorkerStarted {
        /// The worker.
        worker: &'a WorkerInfo,
    },
    /// A worker thread is about to exit.
    WorkerStopped {
        /// The worker.
        worker: &'a WorkerInfo,
    },
    /// A worker thread could not be started.
    WorkerFailed {
        /// The cause.
        error: &'a io::Error,
    },
    /// The pool was paused: its workers take no further tasks.
    Paused {
        /// The author and the reason of the pause.
        by: &'a Actor,
    },
    /// The pool was resumed, by a call or by its shutdown.
    Resumed {
        /// The author and the reason.
        by: &'a Actor,
    },
}

/// The observers in order of subscription. `tell` clones the list, so no lock is held while
/// observers are called.
static OBSERVERS: Mutex<Vec<(u64, Arc<dyn Observer>)>> = Mutex::new(Vec::new());
/// The length of `OBSERVERS`, read without the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

impl PoolRef {
    /// Returns true if the pool is listed and any observer is subscribed. Relaxed: an event that
    /// races with a subscription may be missed.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        COUNT.load(Ordering::Relaxed) > 0 && self.identity().is_listed()
    }

    /// Sends an event to the observers. The caller must hold no lock.
    #[inline]
    pub(crate) fn tell(&self, event: &Event<'_>) {
        if self.is_observed() {
            tell(self, event);
        }
    }
}

/// Calls every observer.
#[cold]
fn tell(pool: &PoolRef, event: &Event<'_>) {
    let observers: Vec<_> =
        lock_global(&OBSERVERS).iter().map(|(_, observer)| Arc::clone(observer)).collect();
    for observer in observers {
        catch(|| observer.event(pool, event));
        catch(|| drop(observer)); // the last reference, if the subscription just ended
    }
}

pub(super) fn subscribe(observer: Arc<dyn Observer>) -> Subscription {
    let mut observers = lock_global(&OBSERVERS);
    let id = observers.last().map_or(1, |(id, _)| id + 1);
    observers.push((id, observer));
    COUNT.store(observers.len(), Ordering::Relaxed);
    Subscription { id }
}

/// The subscription of an [`Observer`]. Dropping it ends the subscription without waiting: a call
/// on another thread may still be running.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription {
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut observers = lock_global(&OBSERVERS);
        let position = observers.iter().position(|(id, _)| *id == self.id);
        let ended = position.map(|position| observers.remove(position));
        COUNT.store(observers.len(), Ordering::Relaxed);
        drop(observers);
        drop(ended); // user code, so without the lock
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
