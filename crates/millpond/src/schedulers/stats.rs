//! The figures of a scheduler: [`SchedulerStats`] for users, [`Counters`] for internal use.

use crate::executor::RejectReason;
use crate::task::Outcome;

/// A snapshot of the figures of a scheduler.
///
/// A slot is the place of one thread. A slot is busy while a worker, a periodic task, or a ready or
/// running task holds it, and idle otherwise. At any moment `submitted = completed + panicked +
/// cancelled + queued + running`. Each run of a periodic task counts as one submitted task.
///
/// [`Scheduler::pool_ref`](super::Scheduler::pool_ref) shows the same scheduler as a pool, with
/// more figures. There
/// - `pool_size` is `live_threads`, and `maximum_pool_size` is `max_threads`;
/// - `active_count` is the number of slots that run a task or have been assigned one. A slot that
///   is only held by a worker or a periodic task is busy but not active;
/// - `in_place_count` is the number of tasks that run inside a task that waits for them;
/// - `queued_count` is `queued` plus assigned tasks whose thread could not be started yet or that
///   wait because of a pause. `delayed_count` is the part of it that has a delay, is periodic, or
///   was submitted to a worker behind such a task;
/// - `remaining_queue_capacity` is `remaining_capacity`, and `queue_capacity` is the sum over all
///   threads;
/// - `submitted`, `completed`, `panicked`, `cancelled` and `rejected` are the same; no task expires
///   or is handed back;
/// - `wait` and `oldest_wait` count from the acceptance of a task, or from its due time if it has a
///   delay or a period: they tell how late it starts. `run` includes each run of a periodic task. A
///   task that runs another one in place counts the time of both. All times are those of the
///   scheduler's clock;
/// - the state is `Shutdown` during a graceful end, `Stop` after `dispose`, and `Terminated` when
///   all work is done and no thread is left.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler};
///
/// let ttl = std::time::Duration::from_secs(60);
/// let files = schedulers::new_bounded_elastic(4, 100, "files", ttl)?;
/// let lane = files.create_worker();
/// let stats = files.stats();
/// assert_eq!((stats.max_threads, stats.slots, stats.busy, stats.live_threads), (4, 1, 1, 0));
/// # Ok::<(), millpond::ConfigError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerStats {
    /// The name that `Display` writes.
    pub name: String,
    /// True once an end has begun.
    pub disposed: bool,
    /// The largest number of threads; `usize::MAX` if the scheduler does not limit it.
    pub max_threads: usize,
    /// The number of threads.
    pub live_threads: usize,
    /// The number of slots, with or without a thread: `busy + idle`.
    pub slots: usize,
    /// Slots with a holder.
    pub busy: usize,
    /// Slots without a holder.
    pub idle: usize,
    /// Accepted tasks that wait for a thread or for their due time.
    pub queued: u64,
    /// How many more tasks may wait; `u64::MAX` if there is no bound.
    pub remaining_capacity: u64,
    /// Tasks accepted.
    pub submitted: u64,
    /// Runs that returned.
    pub completed: u64,
    /// Runs that panicked.
    pub panicked: u64,
    /// Tasks cancelled before they ran.
    pub cancelled: u64,
    /// Tasks refused. In a full scheduler, this includes the periodic tasks by which idle futures
    /// would learn of its end: up to two for each turn of a future. Users do not submit these; see
    /// `reactive::SchedulerFutureExt::spawn_future`.
    pub rejected: u64,
}

/// Counts of ended runs by outcome.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Outcomes {
    completed: u64,
    panicked: u64,
    cancelled: u64,
}

impl Outcomes {
    pub(super) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Succeeded => self.completed += 1,
            Outcome::Panicked => self.panicked += 1,
            Outcome::Cancelled => self.cancelled += 1,
        }
    }

    pub(super) fn total(self) -> u64 {
        self.completed + self.panicked + self.cancelled
    }
}

/// The task counters of a scheduler. Guarded by the scheduler's lock.
///
/// Invariant between two transitions: `submitted = outcomes + queued + running`.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counters {
    submitted: u64,
    /// In the order of [`RejectReason::ALL`].
    rejected: [u64; RejectReason::ALL.len()],
    queued: u64,
    running: u64,
    outcomes: Outcomes,
}

impl Counters {
    /// Counts a task that is accepted and waits.
    pub(super) fn accept(&mut self) {
        self.submitted += 1;
        self.queued += 1;
    }

    pub(super) fn reject(&mut self, reason: RejectReason) {
        self.rejected[reason as usize] += 1;
    }

    /// Returns the refused tasks by reason, in the order of [`RejectReason::ALL`].
    pub(super) fn rejected(&self) -> [u64; RejectReason::ALL.len()] {
        self.rejected
    }

    /// Counts a waiting task that starts to run or is assigned to a thread.
    pub(super) fn start(&mut self) {
        self.queued -= 1;
        self.running += 1;
    }

    /// Counts the end of a run.
    pub(super) fn end(&mut self, outcome: Outcome) {
        self.running -= 1;
        self.outcomes.count(outcome);
    }

    /// Counts the cancellation of a waiting task.
    pub(super) fn cancel(&mut self) {
        self.queued -= 1;
        self.outcomes.count(Outcome::Cancelled);
    }

    /// Uncounts an accepted task that still waits and is refused after all.
    pub(super) fn withdraw(&mut self) {
        self.queued -= 1;
        self.submitted -= 1;
    }

    /// Undoes `start`: a task that was assigned to a thread waits again.
    pub(super) fn unstart(&mut self) {
        self.running -= 1;
        self.queued += 1;
    }

    /// Adds the counts of a lane: `accepted` tasks were accepted, and `outcomes` runs ended, each
    /// followed by the start of another task on the same thread.
    pub(super) fn settle(&mut self, accepted: u64, outcomes: Outcomes) {
        self.submitted += accepted;
        self.queued = self.queued + accepted - outcomes.total();
        self.outcomes.completed += outcomes.completed;
        self.outcomes.panicked += outcomes.panicked;
        self.outcomes.cancelled += outcomes.cancelled;
    }

    pub(super) fn queued(&self) -> u64 {
        self.queued
    }

    pub(super) fn running(&self) -> u64 {
        self.running
    }

    /// Returns the number of runs that have ended and of tasks that were cancelled before they ran.
    pub(super) fn ended(&self) -> u64 {
        self.outcomes.total()
    }

    /// Returns the task figures. The caller adds those of slots and threads.
    pub(super) fn stats(&self, name: &str, disposed: bool) -> SchedulerStats {
        SchedulerStats {
            name: name.to_owned(),
            disposed,
            remaining_capacity: u64::MAX,
            queued: self.queued,
            submitted: self.submitted,
            completed: self.outcomes.completed,
            panicked: self.outcomes.panicked,
            cancelled: self.outcomes.cancelled,
            rejected: self.rejected.iter().sum(),
            ..SchedulerStats::default()
        }
    }
}
