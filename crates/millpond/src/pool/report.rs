//! [`ShutdownReport`]: how a graceful shutdown went.

use std::fmt;
use std::time::Duration;

use crate::task::Task;

/// How [`shutdown_gracefully`](crate::ThreadPoolExecutor::shutdown_gracefully) went.
#[derive(Debug)]
pub struct ShutdownReport {
    /// How the work ended.
    pub outcome: ShutdownOutcome,
    /// How long it took.
    pub elapsed: Duration,
    /// The tasks that never ran, in queue order.
    pub never_run: Vec<Task>,
}

/// How the work of a pool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownOutcome {
    /// Everything that was accepted ran to its end in time.
    Drained,
    /// Running tasks were interrupted, and then ended in time.
    Interrupted,
    /// Some task ignores its interrupt and still runs.
    StillRunning,
}

impl fmt::Display for ShutdownOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Drained => "all work ended by itself",
            Self::Interrupted => "the work ended after an interrupt",
            Self::StillRunning => "some work still runs",
        })
    }
}
