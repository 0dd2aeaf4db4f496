//! The plain parts of a task cell: [`Memory`], and the two words that code outside the cell uses,
//! [`Place`] and [`RefCount`].

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Where the memory of a new cell comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Heap,
    /// For timers, which may exist by the million. Cells that do not fit into a slot are on the
    /// heap.
    Slab,
}

/// The position of a task in its queue. A hint, which the queue checks against the id of the task.
#[derive(Debug)]
pub(crate) struct Place(AtomicU64);

impl Place {
    pub(crate) fn new() -> Self {
        Place(AtomicU64::new(u64::MAX))
    }

    // Relaxed: written and read under the lock of the queue, or as a hint that is checked there.
    pub(crate) fn set(&self, place: u64) {
        self.0.store(place, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The number of references to a cell.
///
/// Invariants
/// 1. A new reference is made from an existing one, through that reference.
/// 2. An owner that reads 1 is alone and stays alone, because of (1): the reference is its own.
/// 3. Each owner releases with Release, and the last owner acquires. So the last owner sees the
///    earlier writes of all others. Model:
///    `loom_tests::handle::the_last_owner_sees_all_earlier_writes`.
///
/// The last owner may free the memory while another owner is still inside a method here, after its
/// last access. That is sound because `&RefCount` covers only one atomic.
pub(crate) struct RefCount(AtomicU32);

impl RefCount {
    /// Half of the range. Threads that exceed it at the same time still abort before an overflow.
    const MOST: u32 = u32::MAX / 2;

    pub(crate) fn new(references: u32) -> RefCount {
        RefCount(AtomicU32::new(references))
    }

    /// Counts one more reference, which the caller makes from its own.
    pub(crate) fn add(&self) {
        // Relaxed: the caller's own reference keeps the cell alive, and nothing else is ordered.
        if self.0.fetch_add(1, Ordering::Relaxed) > Self::MOST {
            std::process::abort(); // like `Arc`: an overflow would be unsound
        }
    }

    /// Releases one reference, while the caller keeps another.
    #[inline]
    pub(crate) fn release_shared(&self) {
        // Release: invariant 3. Pairs with the Acquire in `release`.
        let before = self.0.fetch_sub(1, Ordering::Release);
        debug_assert!(before >= 2, "the caller keeps another reference");
    }

    /// Releases the caller's reference. Returns true if it was the last one.
    #[inline]
    pub(crate) fn release(&self) -> bool {
        // Invariant 2: the last owner does not decrement, which saves an exchange.
        if self.0.load(Ordering::Acquire) == 1 {
            return true;
        }
        if self.0.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire); // pairs with the Release of owners that left since the load
        true
    }
}
