//! [`TaskState`], and the outcomes that workers count.

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// Not started: queued, on its way to a worker, or returned to a caller.
    Pending,
    /// The closure is running.
    Running,
    /// The closure returned a value.
    Succeeded,
    /// The closure panicked.
    Failed,
    /// The task was cancelled, before or while it ran.
    Cancelled,
    /// The task was dropped without having run, or waited for too long ([`JoinError::Expired`]).
    ///
    /// [`JoinError::Expired`]: crate::JoinError::Expired
    Abandoned,
}

impl TaskState {
    const ALL: [TaskState; 6] =
        [Self::Pending, Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled, Self::Abandoned];

    pub(crate) fn is_done(self) -> bool {
        !matches!(self, Self::Pending | Self::Running)
    }

    /// Inverts `as u8`.
    pub(crate) fn from_u8(bits: u8) -> TaskState {
        Self::ALL[usize::from(bits)]
    }
}

/// The outcome that a worker counts for one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Succeeded,
    Panicked,
    /// Cancelled before or during the run.
    Cancelled,
}

/// The outcome of expiring a task that waited for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shed {
    Expired,
    /// A cancel won the race.
    Cancelled,
}
