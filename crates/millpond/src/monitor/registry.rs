//! The registry of all pools in the process: thread pools, scheduled pools, and the
//! [`schedulers`](crate::schedulers) that have threads.
//!
//! A pool registers itself when it is built and is removed when it is dropped. A pool built with
//! [`unregistered`](crate::Builder::unregistered) is not listed. The registry holds weak references
//! only.
//!
//! # Examples
//! ```
//! use millpond::{ThreadPoolExecutor, registry};
//!
//! let first = ThreadPoolExecutor::builder().name("mail").build()?;
//! let second = ThreadPoolExecutor::builder().name("mail").build()?;
//! assert_eq!((first.label(), second.label()), ("mail", "mail#2"));
//! assert_eq!(registry::find("mail#2"), Some(second.downgrade()));
//! drop(second);
//! assert_eq!(registry::find("mail#2"), None); // no thread was ever started, so it is gone
//! assert!(registry::pools().contains(&first.downgrade()));
//! # Ok::<(), millpond::ConfigError>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Mutex;

use super::labels::Labels;
use super::observer::{self, Observer, Subscription};
use super::pool_ref::{Identity, Monitored, PoolRef};
use crate::sync::{Arc, Weak, lock_global};

static TABLE: Mutex<Table> =
    Mutex::new(Table { last_id: 0, entries: BTreeMap::new(), labels: Labels::new() });

/// No user code runs while the table is locked, because entries hold weak references.
struct Table {
    last_id: u64,
    /// Every pool that has not been dropped, in order of construction.
    entries: BTreeMap<u64, PoolRef>,
    /// The labels in use, each with the key of its pool in `entries`.
    labels: Labels,
}

/// The entry of a pool, owned by that pool. Its drop removes the entry and frees the label.
pub(crate) struct Registration {
    id: u64,
    pool: PoolRef,
}

impl Registration {
    /// Registers a pool under a unique label. A pool that is not listed gets a label too.
    ///
    /// The weak references may be dangling at first: the pool is listed when they can be upgraded.
    pub(crate) fn new(identity: Identity, monitored: Weak<dyn Monitored>) -> Self {
        let mut table = lock_global(&TABLE);
        table.last_id += 1;
        let id = table.last_id;
        let label = table.labels.take(identity.name(), id);
        let pool = PoolRef::new(identity, label, monitored);
        table.entries.insert(id, pool.clone());
        Registration { id, pool }
    }
}

impl Deref for Registration {
    type Target = PoolRef;

    fn deref(&self) -> &PoolRef {
        &self.pool
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut table = lock_global(&TABLE);
        table.entries.remove(&self.id);
        table.labels.give_back(self.pool.identity().name(), self.pool.last_label());
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.pool).finish()
    }
}

/// Returns all registered pools, in order of construction.
///
/// A pool is listed until it is dropped, which happens when its last handle is gone and its last
/// worker has exited. A terminated pool that still has handles is listed.
pub fn pools() -> Vec<PoolRef> {
    let table = lock_global(&TABLE);
    table.entries.values().filter(|pool| is_visible(pool)).cloned().collect()
}

/// Returns the registered pool with this label, or `None` if there is none.
pub fn find(label: &str) -> Option<PoolRef> {
    let table = lock_global(&TABLE);
    table.entries.get(&table.labels.find(label)?).filter(|pool| is_visible(pool)).cloned()
}

fn is_visible(pool: &PoolRef) -> bool {
    pool.identity().is_listed() && pool.is_alive()
}

/// Subscribes `observer` to the events of all registered pools, until the subscription is dropped.
///
/// # Examples
/// ```
/// use millpond::monitor::{Event, Observer};
/// use millpond::{PoolRef, ThreadPoolExecutor, registry};
/// use std::sync::{Arc, Mutex};
///
/// #[derive(Default)]
/// struct Log(Mutex<Vec<String>>);
/// impl Observer for Log {
///     fn event(&self, pool: &PoolRef, event: &Event<'_>) {
///         if let (Some(name), Event::Panicked { message, .. }) = (pool.name(), event) {
///             self.0.lock().unwrap().push(format!("{name}: {message}"));
///         }
///     }
/// }
///
/// let log = Arc::new(Log::default());
/// let _subscription = registry::observe(log.clone());
/// let pool = ThreadPoolExecutor::builder().name("parser").build()?;
/// drop(pool.submit(|| panic!("line 3"))?); // nothing joins it
/// pool.close();
/// assert_eq!(*log.0.lock().unwrap(), ["parser: line 3"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn observe(observer: Arc<dyn Observer>) -> Subscription {
    observer::subscribe(observer)
}
