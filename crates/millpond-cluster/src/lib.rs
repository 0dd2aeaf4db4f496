#![doc = include_str!("../README.md")]

mod admin;
mod builder;
mod cluster;
mod context;
pub mod engine;
mod error;
mod handle;
mod hub;
mod id;
mod metrics;
mod periodic;
mod retry;
#[cfg(test)]
mod sim;
pub mod state;
mod submit;
mod task_type;
mod worker;

pub use admin::{Admin, Dead, PeriodicInfo, TaskDetails, TaskFilter, TaskInfo, TaskPage};
pub use builder::{ClusterBuilder, OnFull};
pub use cluster::Cluster;
pub use context::{TaskContext, TaskError};
pub use engine::{CancelAnswer, Ended, Finding, Mode, QueueStats, Retention, Severity, WorkerRow};
pub use error::{Certainty, DeadLetter, EngineError, OpenError, RemoteError, SubmitError, SubmitReason};
pub use handle::{RemoteCanceller, RemoteHandle, RemoteState};
pub use id::{ParseIdError, SubmitterId, TaskId, WorkerId};
pub use periodic::{Every, MissedRuns};
pub use retry::Backoff;
pub use state::{DeadReason, Priority, State, Unique};
pub use task_type::{RemoteTask, TaskType};
pub use worker::{DrainReport, Worker, WorkerBuilder, WorkerStats};
