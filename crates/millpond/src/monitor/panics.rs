//! [`PanicLog`]: the most recent panics of a pool.

use std::time::SystemTime;

use super::snapshot::PanicRecord;
use crate::sync::{Arc, Mutex};
use crate::task::{Panic, TaskInfo};

/// The number of panics that are kept.
const KEPT: usize = 8;
/// The number of characters of a message that are kept.
const MESSAGE: usize = 256;

/// The most recent panics, oldest first, in a fixed amount of memory.
#[derive(Debug, Default)]
pub(crate) struct PanicLog {
    /// Replaced by every panic, so a snapshot only clones the reference.
    records: Mutex<Arc<[PanicRecord]>>,
}

impl PanicLog {
    pub(crate) fn records(&self) -> Arc<[PanicRecord]> {
        Arc::clone(&self.records.lock())
    }

    /// Adds a panic. Called on the thread that ran the task.
    pub(crate) fn add(&self, task: &TaskInfo, panic: &Panic) {
        let record = PanicRecord {
            at: SystemTime::now(),
            thread: std::thread::current().name().map(Arc::from),
            task: task.id(),
            task_name: task.name().map(Arc::from),
            message: message(panic).chars().take(MESSAGE).collect::<String>().into(),
        };
        let mut records = self.records.lock();
        let first = (records.len() + 1).saturating_sub(KEPT);
        *records = records[first..].iter().cloned().chain([record]).collect();
    }
}

/// Returns the message of a panic, or a placeholder if the payload is not a string.
pub(crate) fn message(panic: &Panic) -> &str {
    panic.message().unwrap_or("a payload that is not a string")
}
