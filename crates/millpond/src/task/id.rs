//! [`TaskId`], the id of a task, and [`ResultToken`], the right to take its result.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of a task, unique in the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(u64);

impl TaskId {
    /// Returns an id that no other task has.
    ///
    /// Each thread reserves numbers in blocks, so the hot path touches no shared counter. Therefore
    /// the order of ids says nothing about the order of tasks.
    #[inline]
    pub(crate) fn fresh() -> TaskId {
        const BLOCK: u64 = 1024;
        static NEXT_BLOCK: AtomicU64 = AtomicU64::new(1);
        std::thread_local! {
            static BLOCK_LEFT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
        }
        BLOCK_LEFT.with(|left| {
            let (mut next, mut end) = left.get();
            if next == end {
                // Relaxed: only uniqueness matters.
                next = NEXT_BLOCK.fetch_add(BLOCK, Ordering::Relaxed);
                end = next + BLOCK;
            }
            left.set((next + 1, end));
            TaskId(next)
        })
    }

    /// Returns the id as a number, which is not 0.
    #[inline]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Returns the id for a `number` that `TaskId::number` returned.
    pub(crate) fn from_number(number: u64) -> TaskId {
        TaskId(number)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The only right to take the result of one task.
///
/// It is not `Clone`, and `fresh` never returns the same id twice, so at most one token exists per
/// task. `raw.rs` relies on that.
#[derive(Debug)]
pub(crate) struct ResultToken(TaskId);

impl ResultToken {
    /// Creates the token of a task that is about to be made.
    #[inline]
    pub(crate) fn fresh() -> ResultToken {
        ResultToken(TaskId::fresh())
    }

    /// Returns the id of the task.
    #[inline]
    pub(crate) fn id(&self) -> TaskId {
        self.0
    }
}
