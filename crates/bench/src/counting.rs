//! A global allocator that counts live heap bytes on request.
//!
//! Counting is off by default, so timing measurements only pay for one relaxed load and a branch
//! per call.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static IS_ON: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicI64 = AtomicI64::new(0);

/// Starts counting.
pub fn start() {
    LIVE.store(0, Ordering::Relaxed);
    IS_ON.store(true, Ordering::Relaxed);
}

/// Bytes requested minus bytes freed since [`start`]. Excludes the overhead of the allocator.
pub fn live_bytes() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

// Relaxed: statistic.
fn add(bytes: i64) {
    if IS_ON.load(Ordering::Relaxed) {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Forwards to `A`.
#[derive(Debug)]
pub struct Counting<A>(pub A);

// SAFETY: every call is forwarded to `A` with the same arguments, and the result is returned
// unchanged. The counters allocate nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { self.0.dealloc(ptr, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(new_size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { self.0.realloc(ptr, layout, new_size) }
    }
}
