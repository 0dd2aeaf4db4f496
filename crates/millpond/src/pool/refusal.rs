//! Refusals: a task that the pool did not admit is counted, reported and passed to the rejection
//! policy.

use super::ThreadPoolExecutor;
use super::admission::{IntoTask, Refusal, Refused, RoomCheck};
use super::counters::{Counter, Often};
use super::policy::KnownPolicy;
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
            KnownPolicy::DiscardOldest if is_running => return self.replace_oldest(refusal),
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

    /// Applies the policy `DiscardOldest` in a running pool.
    fn replace_oldest(&self, refusal: Refusal) -> Result<(), Rejected> {
        if !self.inner().drop_oldest() {
            return Err(refusal.into_rejected(self.inner()));
        }
        self.inner().counters().add(Counter::Evicted);
        self.execute_task(refusal.into_task())
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
