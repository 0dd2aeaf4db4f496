//! The state machine of one task, as a pure function of record, operation and time.
//!
//! [`apply`] decides everything that can happen to a task. The memory engine is this function and a
//! map; the SQLite engine repeats the frequent rows in SQL and is held against this function by
//! tests. Nothing here reads a clock, draws a random number or does I/O.

mod record;
mod transition;

pub use record::{Attempt, AttemptEnd, DeadReason, Options, Priority, Record, State, Unique, UniqueKey};
pub use transition::{Change, Operation, Refused, apply};

/// A moment of the engine's clock: milliseconds since the Unix epoch.
pub type Millis = i64;

/// Default of how long a result is kept.
pub const RESULT_TTL_MS: i64 = 3600 * 1000;
/// How long a dead letter is kept.
pub const DEAD_TTL_MS: i64 = 14 * 24 * 3600 * 1000;
/// After this long without a handler anywhere, a task is dead.
pub const NO_HANDLER_LIMIT_MS: i64 = 3600 * 1000;
/// How long a task waits after a worker had no handler for it.
pub const NO_HANDLER_DELAY_MS: i64 = 5000;
/// Default of how many failures make a task a dead letter.
pub const MAX_ATTEMPTS: u32 = 5;
/// Default of how many lost workers make a task a dead letter.
pub const MAX_CRASHES: u32 = 3;
/// Entries of a task's history that are kept, newest last.
pub const HISTORY_LIMIT: usize = 20;
/// Error texts are cut at this many bytes.
pub const ERROR_LIMIT: usize = 4096;

/// Cuts a text at a character boundary.
pub fn cut(text: &str, limit: usize) -> String {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
