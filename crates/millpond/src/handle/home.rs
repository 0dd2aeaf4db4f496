//! Where a task waits: the pools, by number.
//!
//! A task remembers the number of its pool and nothing more. Counting references to the pool would make everybody who
//! submits and everybody who takes write to one place in memory, for the sake of the few who cancel.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use super::state::{Help, Place};
use crate::sync::{Arc, Global, Weak, thread_local};
use crate::task::TaskId;

/// The pool whose queue a task waits in, as far as its handle needs to know.
pub(crate) trait Home: Send + Sync {
    /// The task was cancelled while it waited: gives its place free, if this pool does that at once.
    fn cancelled(&self, id: TaskId, place: &Place);

    /// Runs the task on the calling thread if that is a worker of this pool and the task still waits.
    fn run_here(&self, id: TaskId, place: &Place) -> Help;
}

/// All pools that there are. Only those who cancel look here, and workers that join.
static HOMES: Global<BTreeMap<u64, Weak<dyn Home>>> = Global::new(BTreeMap::new());

thread_local! {
    /// The number of the pool that this thread is a worker of; 0: of none.
    static WORKS_FOR: Cell<u64> = nobody();
}

fn nobody() -> Cell<u64> {
    Cell::new(0)
}

/// The calling thread is a worker of this pool from now on; 0: of none.
pub(crate) fn work_for(number: u64) {
    let _ = WORKS_FOR.try_with(|works_for| works_for.set(number));
}

/// Tells whether the calling thread is a worker of this pool.
pub(crate) fn works_for(number: u64) -> bool {
    number != 0 && WORKS_FOR.try_with(|works_for| works_for.get() == number).unwrap_or(false)
}

/// The pool with this number, if it is still there.
pub(crate) fn find_home(number: u64) -> Option<Arc<dyn Home>> {
    if number == 0 {
        return None;
    }
    HOMES.lock().get(&number)?.upgrade()
}

/// A pool's entry in the list; it is there as long as this is.
pub(crate) struct Address {
    number: u64,
}

impl Address {
    /// Enters a pool. `number` is above 0, and no other pool's.
    pub(crate) fn new(number: u64, home: Weak<dyn Home>) -> Address {
        HOMES.lock().insert(number, home);
        Address { number }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        HOMES.lock().remove(&self.number);
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Address").field(&self.number).finish()
    }
}
