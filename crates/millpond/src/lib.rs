#![doc = include_str!("../README.md")]
// Models are tests: what only they use is not missed elsewhere.
#![cfg_attr(all(loom, not(test)), allow(dead_code))]

#[expect(unsafe_code, reason = "a lock that is freed by a plain store")]
mod brief;
mod clock;
mod completion;
mod config;
mod executor;
pub mod executors;
mod handle;
mod inline;
pub mod interrupt;
mod periodic;
mod pool;
pub mod queue;
mod quiet;
#[cfg(feature = "futures")]
pub mod reactive;
mod scheduled;
pub mod schedulers;
pub mod sizing;
mod sync;
#[allow(unsafe_code, reason = "system calls")]
mod sys;
mod task;
mod threads;
mod timer_queue;
mod timer_wheel;
mod timers;
mod unwind;

#[cfg(all(test, loom))]
mod loom_tests;

/// True: what is freed goes back to the allocator at once, so that Miri and sanitizers see a use after
/// free. For a sanitizer: `RUSTFLAGS="--cfg millpond_plain_alloc"`.
pub(crate) const PLAIN_ALLOC: bool = cfg!(any(miri, millpond_plain_alloc));

pub use clock::{Clock, ManualClock};
pub use completion::ExecutorCompletionService;
pub use config::ConfigError;
pub use executor::{
    Executor, ExecutorExt, ExecutorService, InvokeError, RejectReason, Rejected, TrySubmitError,
};
pub use executors::{SingleScheduledExecutor, SingleThreadExecutor};
pub use handle::{CancelOnDrop, Canceller, JoinError, Panic, TaskHandle, TaskState};
pub use interrupt::Interrupted;
pub use periodic::{Body, MissedTicks, Next, OnPanic, PeriodicTask};
pub use pool::policy::RejectedExecutionHandler;
pub use pool::{
    Builder, Hooks, ParkedWorkers, PoolRef, PoolStats, RunState, Scope, ScopeRejected, ScopedTaskHandle,
    ShutdownOutcome, ShutdownReport, SubmitAsync, ThreadPoolExecutor, WorkQueue,
};
pub use pool::{growth, policy};
pub use scheduled::{ScheduledBuilder, ScheduledHandle, ScheduledPoolRef, ScheduledThreadPoolExecutor};
pub use task::{Task, TaskId, TaskInfo, TaskOf};
pub use threads::{WorkerBody, WorkerInfo};
