#![doc = include_str!("guide/front-page.md")]
// Models are tests: in a build without tests, code that only models use would count as dead.
#![cfg_attr(all(loom, not(test)), allow(dead_code))]

#[cfg(target_family = "wasm")]
compile_error!("millpond does not support WebAssembly: its pools need threads of the operating system");
#[cfg(not(target_has_atomic = "64"))]
compile_error!("millpond needs 64-bit atomic operations, which this target does not have");

mod config;
mod executor;
pub mod executors;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod interrupt;
pub mod monitor;
mod panic;
mod pool;
pub mod queue;
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
mod time;
mod unwind;

#[cfg(all(test, loom))]
mod loom_tests;

/// True if freed memory is returned to the allocator at once, so that Miri and sanitizers detect a
/// use after free. For a sanitizer, set `RUSTFLAGS="--cfg millpond_plain_alloc"`.
pub(crate) const PLAIN_ALLOC: bool = cfg!(any(miri, millpond_plain_alloc));

/// The version of this crate, for metrics and messages.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub use config::ConfigError;
pub use executor::{
    Executor, ExecutorCompletionService, ExecutorExt, ExecutorService, InvokeError, RejectReason, Rejected,
    TrySubmitError,
};
pub use executors::{SingleScheduledExecutor, SingleThreadExecutor};
pub use interrupt::Interrupted;
pub use monitor::registry;
pub use monitor::{PoolRef, PoolStats, RunState};
pub use pool::policy::RejectedExecutionHandler;
pub use pool::{
    Builder, Hooks, ParkedWorkers, Scope, ScopeRejected, ScopedTaskHandle, ShutdownOutcome, ShutdownReport,
    SubmitAsync, ThreadPoolExecutor, WorkQueue,
};
pub use pool::{growth, policy};
pub use scheduled::{ScheduledBuilder, ScheduledHandle, ScheduledPoolRef, ScheduledThreadPoolExecutor};
pub use task::{
    Body, CancelOnDrop, Canceller, JoinError, MissedTicks, Next, OnPanic, Panic, PeriodicTask, Task,
    TaskHandle, TaskId, TaskInfo, TaskOf, TaskState,
};
pub use threads::{WorkerBody, WorkerInfo};
pub use time::{Clock, ManualClock};

/// The page of the crate registry. Included to test its examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
