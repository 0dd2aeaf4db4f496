//! Refusals: a task that the pool did not admit is counted, reported and passed to the rejection
//! policy.

use super::ThreadPoolExecutor;
use super::admission::{IntoTask, Refusal, Refused, RoomCheck};
use super::counters::{Counter, Often};
use super::policy::{DiscardOldest, KnownPolicy, RejectedExecutionHandler};
use crate::executor::{RejectReason, Rejected};
use crate::monitor::Event;
use crate::panic::catch;
use crate::task::Task;

impl ThreadPoolExecutor {
    /// Applies the rejection policy to refused work.
    #[inline]
    pub(super) fn refuse<T: IntoTask>(&self, refused: Refused<T>) -> Result<(), Rejected> {
        let pool = self.inner();
        let (work, facts) = match refused {
            Refused::Overloaded(work, facts) => (work, facts),
            Refused::Task(refusal) => return self.refuse_task(*refusal),
        };
        match pool.policy().known() {
            KnownPolicy::Abort => {
                pool.counters().add_often(Often::Returned); // first: waits for earlier stores
                Err(Rejected::by_pool(work.into_task(), RejectReason::Saturated, facts))
            }
            KnownPolicy::CallerRuns => {
                pool.counters().add_often(Often::CallerRan);
                work.run_on_caller(pool);
                Ok(())
            }
            KnownPolicy::Discard => {
                pool.counters().add_often(Often::Discarded);
                work.discard();
                Ok(())
            }
            // Workers may have made room since, and these policies cost more than another attempt.
            KnownPolicy::Block | KnownPolicy::DiscardOldest | KnownPolicy::Other => {
                let admitted = pool.admit_task(work.into_task(), RoomCheck::Hint);
                admitted.or_else(|refusal| self.refuse_task(*refusal))
            }
        }
    }

    /// Applies the policy to a refused task. A periodic task is refused as a task that runs once.
    #[cold]
    pub(super) fn refuse_task(&self, refusal: Refusal) -> Result<(), Rejected> {
        let refusal = refusal.once();
        let pool = self.inner();
        let is_fault = matches!(refusal.reason(), RejectReason::SpawnFailed | RejectReason::CallbackPanicked);
        if pool.policy().known() == KnownPolicy::Abort || is_fault {
            return Err(self.reject(refusal));
        }
        let (policy, known) = pool.policy().get();
        if known == KnownPolicy::Block {
            let admitted = policy.rejected_execution(refusal.into_task(), self);
            match &admitted {
                Ok(()) => pool.counters().add(Counter::Blocked),
                Err(rejected) => self.count_rejected(rejected.task(), rejected.reason()),
            }
            return admitted;
        }
        self.count_rejected(refusal.task(), refusal.reason());
        let is_running = !self.is_shutdown();
        match known {
            KnownPolicy::DiscardOldest if is_running => {
                let answered = self.replace_oldest(refusal);
                return answered.map(|counter| pool.counters().add(counter));
            }
            KnownPolicy::CallerRuns if is_running => pool.counters().add(Counter::CallerRan),
            KnownPolicy::CallerRuns | KnownPolicy::Discard | KnownPolicy::DiscardOldest => {
                pool.counters().add(Counter::Discarded);
            }
            KnownPolicy::Abort | KnownPolicy::Block | KnownPolicy::Other => {}
        }
        let answered = policy.rejected_execution(refusal.into_task(), self);
        if known == KnownPolicy::Other && answered.is_ok() {
            pool.counters().add(Counter::Kept);
        }
        answered
    }

    /// Applies the policy `DiscardOldest` to a task that a running pool has refused. Returns the
    /// counter for the answer.
    ///
    /// The bound of the queue may have been lowered below its length, so this evicts until there is
    /// room. The task has been counted and reported as refused for want of room, and is not counted
    /// again: not even if the error has another reason, because the pool needed a thread that could
    /// not be started.
    pub(super) fn replace_oldest(&self, mut refusal: Refusal) -> Result<Counter, Rejected> {
        let pool = self.inner();
        while pool.drop_oldest() {
            match pool.admit_task(refusal.into_task(), RoomCheck::Hint) {
                Ok(()) => return Ok(Counter::Evicted),
                Err(again) => refusal = *again,
            }
            match refusal.reason() {
                RejectReason::Saturated => {}
                RejectReason::Shutdown => {
                    refusal.into_task().drop_caught();
                    return Ok(Counter::Discarded);
                }
                _ => break,
            }
        }
        Err(refusal.into_rejected(pool))
    }

    /// Counts a refused task, notifies observers and hooks, and builds the error. Does not apply
    /// the policy.
    pub(crate) fn reject(&self, refusal: Refusal) -> Rejected {
        self.count_rejected(refusal.task(), refusal.reason());
        refusal.into_rejected(self.inner())
    }

    pub(super) fn count_rejected(&self, task: &Task, reason: RejectReason) {
        let pool = self.inner();
        pool.counters().add_refusal(reason);
        pool.me().tell(&Event::Rejected { task: task.info(), reason });
        if let Some(hooks) = pool.hooks() {
            catch(|| hooks.rejected(task.info(), reason));
        }
    }
}

impl RejectedExecutionHandler for DiscardOldest {
    fn rejected_execution(&self, mut task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        if pool.is_shutdown() {
            task.drop_caught();
            return Ok(());
        }
        // A custom policy of another pool may have passed the task on, without a context.
        if !pool.inner().carry_context(&mut task) {
            return Err(Refusal::new(task, RejectReason::CallbackPanicked).into_rejected(pool.inner()));
        }
        // The pool counts the answer of the calling policy.
        pool.replace_oldest(Refusal::new(task, RejectReason::Saturated)).map(drop)
    }
}
