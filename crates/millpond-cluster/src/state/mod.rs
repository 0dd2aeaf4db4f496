//! The state machine of one task, as a pure function of record, operation and time.
//!
//! [`apply`] decides every transition of a task. The memory engine is this function and a map. The
//! SQLite engine implements the frequent transitions in SQL, and tests compare it with this
//! function. Nothing here reads a clock, draws a random number or does I/O.

mod record;
mod transition;

pub use record::{Attempt, AttemptEnd, DeadReason, Options, Priority, Record, State, Unique, UniqueKey};
pub use transition::{Change, Operation, Refused, apply};

/// A time of the engine's clock: milliseconds since the Unix epoch.
pub type Millis = i64;

/// How long a result is kept by default.
pub const RESULT_TTL_MS: i64 = 3600 * 1000;
/// How long a dead letter is kept.
pub const DEAD_TTL_MS: i64 = 14 * 24 * 3600 * 1000;
/// A task becomes a dead letter after this long without a handler in any worker.
pub const NO_HANDLER_LIMIT_MS: i64 = 3600 * 1000;
/// How long a task waits after a worker had no handler for it.
pub const NO_HANDLER_DELAY_MS: i64 = 5000;
/// By default, this many failures make a task a dead letter.
pub const MAX_ATTEMPTS: u32 = 5;
/// By default, this many lost workers make a task a dead letter.
pub const MAX_CRASHES: u32 = 3;
/// Maximum length of a task's history, newest last.
pub const HISTORY_LIMIT: usize = 20;
/// Maximum size of a stored error text in bytes.
pub const ERROR_LIMIT: usize = 4096;

/// Cuts a text to at most `limit` bytes, at a character boundary.
pub fn cut(text: &str, limit: usize) -> String {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
