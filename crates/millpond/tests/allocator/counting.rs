//! The allocator of this test binary: passes every call to the system's and counts it.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

struct Counting;

static LIVE: AtomicI64 = AtomicI64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static EVER: AtomicUsize = AtomicUsize::new(0);
/// Sizes of the latest allocations, for the message of a test that counts too many.
static SIZES: [AtomicUsize; 8] = [const { AtomicUsize::new(0) }; 8];

/// Allocations that are live now.
pub(crate) fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Bytes that are live now.
pub(crate) fn live_bytes() -> i64 {
    LIVE_BYTES.load(Ordering::Relaxed)
}

/// Allocations and reallocations since the process began.
pub(crate) fn allocations_so_far() -> usize {
    EVER.load(Ordering::Relaxed)
}

/// Sizes of the latest allocations, in no particular order.
pub(crate) fn recent_sizes() -> Vec<usize> {
    SIZES.iter().map(|size| size.load(Ordering::Relaxed)).collect()
}

fn count_allocation(size: usize, bytes: i64) {
    let number = EVER.fetch_add(1, Ordering::Relaxed);
    SIZES[number % SIZES.len()].store(size, Ordering::Relaxed);
    LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: each method passes its arguments unchanged to `System`, which is a correct allocator, and
// returns its result. The counters are atomics and do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(1, Ordering::Relaxed);
        count_allocation(layout.size(), layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        LIVE_BYTES.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: `pointer` came from `System` through this allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_allocation(size, size as i64 - layout.size() as i64);
        // SAFETY: as in `dealloc`; the caller promises that `size` is valid.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
