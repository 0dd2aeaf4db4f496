//! [`PoolName`]: the name of a pool, which errors look up by the number of the pool.
//!
//! A refusal takes a few nanoseconds, and cloning an `Arc` would double that. So the error holds
//! only the number, and looks the name up when it is printed.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Mutex;

use crate::sync::{Arc, lock_global};

/// The names that users gave to pools, by number. Pools with generated names are not listed.
static GIVEN: Mutex<BTreeMap<NonZeroU32, Arc<str>>> = Mutex::new(BTreeMap::new());

/// The name of a pool, owned by that pool.
#[derive(Debug)]
pub(crate) struct PoolName {
    number: NonZeroU32,
    name: Arc<str>,
    is_given: bool,
}

impl PoolName {
    /// Creates the name: the one that the user gave, or `pool-N`.
    pub(crate) fn new(number: NonZeroU32, given: Option<String>) -> Self {
        let is_given = given.is_some();
        let name: Arc<str> = given.unwrap_or_else(|| format!("pool-{number}")).into();
        if is_given {
            lock_global(&GIVEN).insert(number, Arc::clone(&name));
        }
        PoolName { number, name, is_given }
    }

    pub(crate) fn number(&self) -> NonZeroU32 {
        self.number
    }

    pub(crate) fn get(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the name if the user gave one.
    pub(crate) fn given(&self) -> Option<&Arc<str>> {
        self.is_given.then_some(&self.name)
    }

    /// Returns the name that the user gave to the pool with this number, while that pool exists.
    pub(super) fn find(number: NonZeroU32) -> Option<Arc<str>> {
        lock_global(&GIVEN).get(&number).cloned()
    }
}

impl Drop for PoolName {
    fn drop(&mut self) {
        if self.is_given {
            lock_global(&GIVEN).remove(&self.number);
        }
    }
}
