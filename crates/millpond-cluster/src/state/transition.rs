//! The transitions: which operation changes which record, and how.

use super::{
    Attempt, AttemptEnd, DEAD_TTL_MS, DeadReason, ERROR_LIMIT, HISTORY_LIMIT, Millis, NO_HANDLER_DELAY_MS,
    NO_HANDLER_LIMIT_MS, Record, State, cut,
};
use crate::id::WorkerId;

/// An operation on one task.
///
/// Operations with `worker` and `attempt` are fenced: they apply only to a task that is running in
/// exactly this attempt of exactly this worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation<'a> {
    /// A delayed task becomes ready when it is due.
    Promote,
    /// A worker claims a ready task for `lease` milliseconds.
    Claim {
        /// The worker.
        worker: &'a WorkerId,
        /// For how long.
        lease: i64,
    },
    /// The worker keeps the task for another `lease` milliseconds.
    Renew {
        /// Its holder.
        worker: &'a WorkerId,
        /// The fence.
        attempt: u32,
        /// For how long.
        lease: i64,
        /// A progress report of the handler.
        progress: Option<&'a [u8]>,
    },
    /// The handler returned a result.
    Succeed {
        /// Its holder.
        worker: &'a WorkerId,
        /// The fence.
        attempt: u32,
        /// The encoded result.
        result: &'a [u8],
    },
    /// The handler failed.
    Fail {
        /// Its holder.
        worker: &'a WorkerId,
        /// The fence.
        attempt: u32,
        /// The error.
        error: &'a str,
        /// Wait in milliseconds before the next attempt, or why there is none.
        retry: Result<i64, DeadReason>,
    },
    /// The worker returns the task without using up an attempt.
    GiveBack {
        /// Its holder.
        worker: &'a WorkerId,
        /// The fence.
        attempt: u32,
    },
    /// The worker has no handler for this task type.
    NoHandler {
        /// Its holder.
        worker: &'a WorkerId,
        /// The fence.
        attempt: u32,
    },
    /// A running task whose lease has expired is taken from its worker.
    Expire,
    /// A waiting task is cancelled; a running one is asked to stop.
    Cancel,
    /// The worker has stopped a task that it was asked to stop.
    ConfirmCancel {
        /// Its holder.
        worker: &'a WorkerId,
        /// The fence.
        attempt: u32,
    },
    /// A waiting task whose deadline has passed ends.
    PassDeadline,
}

/// The effect of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The state before.
    pub from: State,
    /// The state after.
    pub to: State,
}

impl Change {
    /// Returns true if the operation ended the task: its submitter gets a notice, and its unique
    /// key is released.
    pub fn is_end(self) -> bool {
        self.to.is_end()
    }
}

/// Why an operation changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The task is not running in that attempt of that worker.
    NotHeld,
    /// The operation does not apply to the task's state.
    WrongState,
    /// The task or its lease is not due yet.
    NotYet,
}

/// Applies one operation at the engine's time `now`.
///
/// # Errors
/// [`Refused`] if the guard of the operation does not hold; the record is then unchanged.
pub fn apply(record: &mut Record, operation: &Operation<'_>, now: Millis) -> Result<Change, Refused> {
    let from = record.state;
    match *operation {
        Operation::Promote => promote(record, now)?,
        Operation::Claim { worker, lease } => claim(record, worker, lease, now)?,
        Operation::Renew { worker, attempt, lease, progress } => {
            check_fence(record, worker, attempt)?;
            record.lease = Some(now.saturating_add(lease));
            if let Some(progress) = progress {
                record.progress = Some(progress.to_vec());
            }
        }
        Operation::Succeed { worker, attempt, result } => {
            check_fence(record, worker, attempt)?;
            record.result = Some(result.to_vec());
            record.args = None;
            end(record, State::Succeeded, now);
        }
        Operation::Fail { worker, attempt, error, retry } => {
            check_fence(record, worker, attempt)?;
            fail(record, error, retry, now);
        }
        Operation::GiveBack { worker, attempt } => {
            check_fence(record, worker, attempt)?;
            give_back(record, now);
        }
        Operation::NoHandler { worker, attempt } => {
            check_fence(record, worker, attempt)?;
            no_handler(record, now);
        }
        Operation::Expire => expire(record, now)?,
        Operation::Cancel => cancel(record, now)?,
        Operation::ConfirmCancel { worker, attempt } => {
            check_fence(record, worker, attempt)?;
            if !record.cancel {
                return Err(Refused::WrongState);
            }
            end_cancelled(record, now);
        }
        Operation::PassDeadline => pass_deadline(record, now)?,
    }
    Ok(Change { from, to: record.state })
}

/// Checks the fence. The owner is part of it: an engine that lost its latest writes may issue the
/// same attempt number again while its first holder is still alive.
fn check_fence(record: &Record, worker: &WorkerId, attempt: u32) -> Result<(), Refused> {
    let held =
        record.state == State::Running && record.attempt == attempt && record.owner.as_ref() == Some(worker);
    if held { Ok(()) } else { Err(Refused::NotHeld) }
}

fn promote(record: &mut Record, now: Millis) -> Result<(), Refused> {
    match record.due {
        _ if record.state != State::Delayed => Err(Refused::WrongState),
        Some(due) if due > now => Err(Refused::NotYet),
        _ => {
            record.state = State::Ready;
            record.due = None;
            Ok(())
        }
    }
}

fn claim(record: &mut Record, worker: &WorkerId, lease: i64, now: Millis) -> Result<(), Refused> {
    if record.state != State::Ready {
        return Err(Refused::WrongState);
    }
    if record.deadline.is_some_and(|deadline| deadline <= now) {
        end_dead(record, DeadReason::Deadline, now);
        return Ok(());
    }
    record.state = State::Running;
    record.attempt += 1;
    record.owner = Some(worker.clone());
    record.lease = Some(now.saturating_add(lease));
    record.started = Some(now);
    Ok(())
}

fn fail(record: &mut Record, error: &str, retry: Result<i64, DeadReason>, now: Millis) {
    record.failures += 1;
    record.error = Some(cut(error, ERROR_LIMIT));
    log_attempt(record, AttemptEnd::Failed, Some(cut(error, 200)), now);
    if record.cancel {
        return end_cancelled(record, now);
    }
    match retry {
        Err(reason) => end_dead(record, reason, now),
        Ok(_) if record.failures >= record.options.max_attempts() => {
            end_dead(record, DeadReason::Attempts, now);
        }
        Ok(wait) => delay(record, now.saturating_add(wait), now),
    }
}

/// Delays a task until `due`, unless its deadline is earlier.
fn delay(record: &mut Record, due: Millis, now: Millis) {
    if record.deadline.is_some_and(|deadline| deadline <= due) {
        return end_dead(record, DeadReason::Deadline, now);
    }
    record.state = State::Delayed;
    record.due = Some(due);
    release(record);
}

fn give_back(record: &mut Record, now: Millis) {
    log_attempt(record, AttemptEnd::GivenBack, None, now);
    if record.cancel {
        return end_cancelled(record, now);
    }
    record.state = State::Ready;
    release(record);
}

fn no_handler(record: &mut Record, now: Millis) {
    let since = *record.unhandled_since.get_or_insert(now);
    if since == now {
        // Only the first: repetitions would push all other entries out of the history.
        log_attempt(record, AttemptEnd::NoHandler, None, now);
    }
    if record.cancel {
        end_cancelled(record, now);
    } else if now.saturating_sub(since) >= NO_HANDLER_LIMIT_MS {
        end_dead(record, DeadReason::NoHandler, now);
    } else {
        delay(record, now + NO_HANDLER_DELAY_MS, now);
    }
}

fn expire(record: &mut Record, now: Millis) -> Result<(), Refused> {
    if record.state != State::Running {
        return Err(Refused::WrongState);
    }
    if record.lease.is_some_and(|lease| lease >= now) {
        return Err(Refused::NotYet);
    }
    record.crashes += 1;
    log_attempt(record, AttemptEnd::LeaseExpired, None, now);
    if record.cancel {
        end_cancelled(record, now);
    } else if record.crashes >= record.options.max_crashes() {
        end_dead(record, DeadReason::Crashed, now);
    } else {
        record.state = State::Ready;
        release(record);
    }
    Ok(())
}

fn cancel(record: &mut Record, now: Millis) -> Result<(), Refused> {
    match record.state {
        State::Ready | State::Delayed => end_cancelled(record, now),
        State::Running => record.cancel = true,
        _ => return Err(Refused::WrongState),
    }
    Ok(())
}

fn pass_deadline(record: &mut Record, now: Millis) -> Result<(), Refused> {
    match record.deadline {
        _ if !matches!(record.state, State::Ready | State::Delayed) => Err(Refused::WrongState),
        Some(deadline) if deadline <= now => {
            end_dead(record, DeadReason::Deadline, now);
            Ok(())
        }
        _ => Err(Refused::NotYet),
    }
}

/// Ends the claim, but not the task.
fn release(record: &mut Record) {
    record.owner = None;
    record.lease = None;
}

fn end_cancelled(record: &mut Record, now: Millis) {
    record.args = None;
    end(record, State::Cancelled, now);
}

/// Ends the task as a dead letter. Keeps the arguments for a retry.
fn end_dead(record: &mut Record, reason: DeadReason, now: Millis) {
    record.reason = Some(reason);
    end(record, State::Dead, now);
}

fn end(record: &mut Record, state: State, now: Millis) {
    debug_assert!(!record.state.is_end(), "an end never changes");
    let keep = if state == State::Dead { DEAD_TTL_MS } else { record.options.keep_result_ms() };
    record.state = state;
    record.lease = None;
    record.due = None;
    record.finished = Some(now);
    record.expires = Some(now.saturating_add(keep));
}

fn log_attempt(record: &mut Record, end: AttemptEnd, error: Option<String>, now: Millis) {
    let Some(owner) = record.owner.clone() else { return };
    if record.history.len() == HISTORY_LIMIT {
        record.history.remove(0);
    }
    let started = record.started.unwrap_or(now);
    record.history.push(Attempt { attempt: record.attempt, owner, started, ended: now, end, error });
}
