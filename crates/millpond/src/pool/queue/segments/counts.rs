//! The counts and positions of both ends that are readable without their locks.
//!
//! Each is written by the holder of its end's lock, so a load and a store make an exact add. The
//! numbers in brackets are the ownership rules at the top of `segments.rs`.

use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Written under the tail lock.
pub(super) struct TailCounts {
    /// Tasks pushed so far. Written before `end`.
    put: AtomicU64,
    /// The position after the last task.
    end: AtomicU64,
    /// Pushes allowed before `gone` must be read again.
    limit: AtomicU64,
    /// Number of segments.
    held: AtomicUsize,
}

impl TailCounts {
    pub(super) fn new(limit: u64) -> Self {
        TailCounts {
            put: AtomicU64::new(0),
            end: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            held: AtomicUsize::new(1),
        }
    }

    #[inline]
    pub(super) fn put(&self) -> u64 {
        self.put.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn add_put(&self) {
        self.put.store(self.put.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Acquire: the reader sees the tasks and links before it (2).
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    #[inline]
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn set_held(&self, segments: usize) {
        self.held.store(segments, Ordering::Relaxed);
    }
}

/// Written under the head lock.
#[derive(Default)]
pub(super) struct HeadCounts {
    /// The position of the head, which is never at a tombstone. Written when the lock is released.
    begin: AtomicU64,
    /// Tasks popped or removed so far.
    gone: AtomicU64,
    /// The index of the head's segment.
    left: AtomicU64,
}

impl HeadCounts {
    pub(super) fn begin(&self) -> u64 {
        self.begin.load(Ordering::Acquire)
    }

    /// Release: a thread that sees the queue empty sees what the popping threads did before.
    #[inline]
    pub(super) fn set_begin(&self, position: u64) {
        self.begin.store(position, Ordering::Release);
    }

    /// Acquire: a later read of `put` is no smaller, because the popping thread had seen `end`, and
    /// `put` is written before that.
    #[inline]
    pub(super) fn gone(&self) -> u64 {
        self.gone.load(Ordering::Acquire)
    }

    /// Release: a submitter that sees room may use it.
    #[inline]
    pub(super) fn add_gone(&self, tasks: u64) {
        self.gone.store(self.gone.load(Ordering::Relaxed) + tasks, Ordering::Release);
    }

    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Release: the last read of the previous segment came before (3).
    pub(super) fn set_left(&self, index: u64) {
        self.left.store(index, Ordering::Release);
    }
}
