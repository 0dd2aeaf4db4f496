//! Observes and reconfigures every pool of a running process.
//!
//! This module answers six questions that an operator has about a pool:
//!
//! 1. Which pool is in trouble? [`registry::pools`] lists them by name.
//! 2. Do tasks wait long, or do they run long? [`HistogramSnapshot`].
//! 3. What runs now, and what waits? [`PoolSnapshot`].
//! 4. Which tasks are refused, and why? [`RejectedBy`].
//! 5. Would more threads help? Compare [`Settings`] and [`PoolStats`].
//! 6. Can I change the pool now, and undo the change? [`Change`] any subset of its [`Settings`].
//!
//! Observing a pool does not keep it running and does not run user code: no destructor of a task,
//! hook or policy runs on the observing thread.
//!
//! # Examples
//! ```
//! use millpond::{ThreadPoolExecutor, registry};
//!
//! let pool = ThreadPoolExecutor::builder().name("db").build()?;
//! assert_eq!(pool.submit(|| 6 * 7)?.join()?, 42);
//! for pool in registry::pools() {
//!     let Some(snapshot) = pool.snapshot() else { continue }; // dropped since
//!     println!("{}: {} tasks accepted", snapshot.label, snapshot.stats.submitted);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Layer: this module is imported by `pool`, `scheduled` and `schedulers`, which implement
//! `Monitored` and register themselves. It imports nothing from them.

mod change;
mod histogram;
mod labels;
mod laps;
mod meter;
mod observer;
mod pace;
pub(crate) mod panics;
mod pool_ref;
mod propagate;
pub mod registry;
mod settings;
mod snapshot;
mod stats;
mod views;

pub use self::change::{Change, ChangeError};
pub use self::histogram::{Bucket, HistogramSnapshot};
pub(crate) use self::laps::{FirstTask, Laps, Progress, nanos_between};
pub(crate) use self::meter::Meter;
pub use self::observer::{Event, Observer, Subscription};
pub(crate) use self::pace::Pace;
pub(crate) use self::panics::PanicLog;
pub use self::pool_ref::PoolRef;
pub(crate) use self::pool_ref::{Identity, Monitored, release};
pub use self::propagate::Propagate;
pub use self::settings::{Actor, PolicyKind, QueueKind, Settings, Timing};
pub use self::snapshot::{Kind, PanicRecord, PoolSnapshot, RejectedBy};
pub use self::stats::{PoolStats, RunState};
pub(crate) use self::views::MOST_LISTED;
pub use self::views::{RunningTask, Waiting, WaitingTask, WorkerState, WorkerView};
pub use crate::task::Captured;
