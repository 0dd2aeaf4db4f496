//! Reactor's schedulers, which run work now, later or periodically.
//!
//! | scheduler | threads | for |
//! |---|---|---|
//! | [`immediate`] | the caller's | no change of thread |
//! | [`single`], [`new_single`] | one | work that must not overlap |
//! | [`parallel`], [`new_parallel`] | one per processor, each with a queue | short computations |
//! | [`bounded_elastic`], [`BoundedElasticScheduler`] | on demand up to a cap | work that blocks |
//! | [`from_executor`], [`from_executor_service`] | those of an executor | an executor you have |
//! | [`from_scheduled_executor`] | those of a scheduled pool | a scheduled pool you have |
//! | [`single_worker`] | one lane of another scheduler | order across all its work |
//! | [`VirtualTimeScheduler`] | the one that advances its time | tests |
//!
//! A [`Scheduler`] runs tasks in no particular order. Its [`Worker`]s are serial lanes. The tasks
//! of one worker run in order of due time, then of submission, and never two at a time. Disposing
//! of a worker cancels its tasks.
//!
//! The process shares one instance each of [`single`], [`parallel`] and [`bounded_elastic`]. They
//! are created on first use, and their `dispose` does nothing. A scheduler from one of the `new_`
//! functions belongs to its handles. When the last handle is dropped, the scheduler shuts down as
//! by [`dispose_gracefully`](Scheduler::dispose_gracefully), without blocking.
//!
//! A [`Factory`] creates the shared instances and those of the `new_` functions. Tests can replace
//! it or install virtual time.
//!
//! Waiting work occupies no thread. All schedulers share one timer thread, which runs no user code.
//! If a due timer needs a new thread, an executor or a decorator, a helper thread of that scheduler
//! (`millpond-courier`) calls it. A panic of a task is passed to the hooks of [`on_error`] and has
//! no other effect. A periodic task continues after a panic, unless
//! [`on_panic`](PeriodicTask::on_panic) says otherwise.
//!
//! Every scheduler with threads is in the [`registry`](crate::registry) of pools, under its name,
//! with [`Kind::Scheduler`](crate::monitor::Kind::Scheduler); see
//! [`pool_ref`](Scheduler::pool_ref). [`immediate`], [`single_worker`] and virtual time have no
//! threads and are not listed. A scheduler over an executor counts its own work, while its threads,
//! and events about them, belong to the executor.
//!
//! [`propagate`] carries a context, such as a tracing span, from the submitting thread to the work.
//!
//! # Examples
//! ```
//! use millpond::schedulers::{self, Scheduler, SchedulerExt};
//! use std::time::Duration;
//!
//! let blocking = schedulers::new_bounded_elastic(4, 1000, "db", Duration::from_secs(60))?;
//! let row = blocking.schedule(|| println!("read a row"))?;
//! assert!(row.wait(Duration::MAX)?);
//!
//! let lane = blocking.create_worker();
//! lane.schedule(|| println!("first"))?;
//! lane.schedule_after(Duration::from_millis(5), || println!("second"))?;
//! assert!(blocking.dispose_gracefully(Duration::MAX)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[macro_use]
mod macros;

mod bounded_elastic;
mod decorators;
mod defaults;
mod disposable;
mod end;
mod engine;
mod factory;
mod fixed;
mod handle;
mod hooks;
mod immediate;
mod job;
mod non_blocking;
mod on_executor;
mod registry;
mod scheduler;
mod shared;
mod single_worker;
mod snapshot;
mod stats;
mod virtual_time;
mod work;
mod worker;

pub use self::bounded_elastic::{Affinity, BoundedElasticBuilder, BoundedElasticScheduler};
pub use self::decorators::{Decorator, SlotInfo, add_decorator, remove_decorator, set_decorator};
pub use self::defaults::{Defaults, config_problems, defaults};
pub use self::disposable::Disposable;
pub use self::factory::{DefaultFactory, Factory};
pub use self::hooks::{
    on_error, on_schedule, propagate, reset_all_on_error, reset_all_on_schedule, reset_on_error,
    reset_on_schedule,
};
pub use self::non_blocking::{
    is_in_non_blocking_thread, register_non_blocking_predicate, reset_non_blocking_predicates,
};
pub use self::on_executor::{from_executor, from_executor_service, from_scheduled_executor};
pub use self::scheduler::{Scheduler, SchedulerExt};
pub use self::shared::{Shared, bounded_elastic, immediate, parallel, shutdown_now, single};
pub use self::single_worker::single_worker;
pub use self::snapshot::{
    Snapshot, new_bounded_elastic, new_parallel, new_single, reset_factory, reset_from, set_factory,
    set_factory_with_snapshot,
};
pub use self::stats::SchedulerStats;
pub use self::virtual_time::VirtualTimeScheduler;
pub use self::worker::{Lane, Worker};
pub use crate::task::periodic::{MissedTicks, OnPanic, PeriodicTask};
