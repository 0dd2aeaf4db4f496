//! Observing and steering a scheduled pool.

#[cfg(doc)]
use super::ScheduledBuilder;
use super::ScheduledThreadPoolExecutor;
use crate::monitor::{Actor, Change, ChangeError, PoolSnapshot, Settings, Waiting, WorkerView};
#[cfg(doc)]
use crate::pool::ThreadPoolExecutor;
use crate::pool::delegate_to_pool;

/// Observing and steering; see [`monitor`](crate::monitor).
impl ScheduledThreadPoolExecutor {
    delegate_to_pool! {
        /// Returns the name of the pool: that of [`ScheduledBuilder::name`], or `pool-N`.
        pub fn name(&self) -> &str;
        /// Returns the name of the pool, made unique in the process; see
        /// [`ThreadPoolExecutor::label`].
        pub fn label(&self) -> &str;
        /// Returns all that is known about the pool now. Does not block.
        pub fn snapshot(&self) -> PoolSnapshot;
        /// Returns what each worker does now; see [`ThreadPoolExecutor::workers`].
        pub fn workers(&self) -> Vec<WorkerView>;
        /// Returns the first tasks that wait; see [`ThreadPoolExecutor::waiting`].
        pub fn waiting(&self, limit: usize) -> Waiting;
        /// Returns the settings in force.
        pub fn settings(&self) -> Settings;
        /// Changes any subset of the settings; see [`ThreadPoolExecutor::reconfigure`].
        ///
        /// # Errors
        /// [`ChangeError`] with the cause. Nothing changes then.
        pub fn reconfigure(&self, change: Change) -> Result<Settings, ChangeError>;
        /// Lets workers finish what they run, and take nothing more until [`resume`](Self::resume);
        /// see [`ThreadPoolExecutor::pause`]. Tasks that become due wait.
        pub fn pause(&self);
        /// As [`pause`](Self::pause), with an author and a reason for observers.
        pub fn pause_by(&self, by: &Actor);
        /// Ends a [`pause`](Self::pause): workers take tasks again.
        pub fn resume(&self);
        /// As [`resume`](Self::resume), with an author and a reason for observers.
        pub fn resume_by(&self, by: &Actor);
        /// Returns true while the pool is paused.
        pub fn is_paused(&self) -> bool;
    }
}
