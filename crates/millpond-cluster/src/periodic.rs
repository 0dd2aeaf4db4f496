//! Schedules of periodic tasks.
//!
//! There is no leader. The id of each run is derived from the schedule's name and the due time, so
//! a second submission finds a known id and changes nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{NewTask, PeriodicRow};
use crate::id::{SubmitterId, TaskId};
use crate::state::{Millis, Record};

/// When a periodic task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Every {
    /// At a fixed rate: due times have this distance, regardless of how long a run takes.
    Rate(Duration),
    /// With a fixed pause between the end of a run and the next one.
    Delay(Duration),
}

impl Every {
    /// Runs at a fixed rate.
    pub const fn rate(period: Duration) -> Every {
        Every::Rate(period)
    }

    /// Runs with a fixed pause between the end of a run and the next one.
    pub const fn delay(pause: Duration) -> Every {
        Every::Delay(pause)
    }

    pub(crate) fn period_ms(self) -> i64 {
        let (Every::Rate(period) | Every::Delay(period)) = self;
        i64::try_from(period.as_millis()).unwrap_or(i64::MAX / 4)
    }
}

/// What happens to runs that were due while no worker was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum MissedRuns {
    /// A single run replaces all of them.
    #[default]
    One,
    /// Every missed run is made up for.
    All,
}

/// While a run of [`Every::Delay`] has not ended, check again after this time.
const LOOK_AGAIN_MS: i64 = 1000;

/// What a tick does with a schedule that is due.
pub(crate) struct Occurrence {
    /// The task to submit, if there is one.
    pub(crate) task: Option<NewTask>,
    /// The new `next`.
    pub(crate) next: Millis,
}

/// Decides what to do with a schedule at the time `now`, given the record of its latest run.
pub(crate) fn occurrence(queue: &str, row: &PeriodicRow, last: Option<&Record>, now: Millis) -> Occurrence {
    let period = row.spec.every.period_ms().max(1);
    match row.spec.every {
        Every::Rate(_) => {
            let mut next = row.next + period;
            if row.spec.missed == MissedRuns::One && next <= now {
                next += (now - next) / period * period + period;
            }
            Occurrence { task: Some(task(queue, row)), next }
        }
        // A run without a record ended longer ago than results are kept.
        Every::Delay(_) => match last.map(|last| last.finished) {
            Some(None) => Occurrence { task: None, next: now + LOOK_AGAIN_MS.min(period) },
            Some(Some(finished)) if finished + period > now => {
                Occurrence { task: None, next: finished + period }
            }
            _ => Occurrence { task: Some(task(queue, row)), next: now + LOOK_AGAIN_MS.min(period) },
        },
    }
}

fn task(queue: &str, row: &PeriodicRow) -> NewTask {
    NewTask {
        id: TaskId::from_name(&format!("periodic\0{queue}\0{}\0{}", row.name, row.next)),
        queue: queue.to_owned(),
        name: row.spec.task.clone(),
        class: row.spec.class,
        delay: Duration::ZERO,
        deadline: None,
        codec: 0,
        args: row.spec.args.clone(),
        options: row.spec.options.clone(),
        submitter: SubmitterId(0),
        retry_of: None,
        over_capacity: true,
    }
}
