//! Converts reports to a record: numbers become names, real time becomes the workload's time.

use std::time::Duration;

use super::super::record::{CALLER, Ended, Ending, Gone, How, Record, RunRecord, TaskRecord, ThreadRecord};
use super::super::workload::{Policy, PoolKind, Scene};
use super::Pace;
use super::recorder::{RunSeen, Seen, TaskSeen, ThreadSeen};

pub(super) struct Account<'a> {
    pub(super) scene: &'a Scene,
    pub(super) pace: Pace,
    /// When the last step ended, in the workload's time.
    pub(super) end: Duration,
}

impl Account<'_> {
    /// Everything except the steps and the values that only the pool knows.
    pub(super) fn record(&self, seen: &Seen, ending: Ending) -> Record {
        let scene = self.scene;
        let mut record = Record {
            title: scene.title.clone(),
            says: scene.says.clone(),
            group: scene.group.clone(),
            pool: scene.pool.to_string(),
            queue_capacity: scene.pool.capacity(),
            core_threads: scene.pool.core_threads(),
            max_threads: scene.pool.max_threads(),
            speed: self.pace.0,
            caller: CALLER,
            tasks: (0..seen.tasks.len()).map(|number| self.task(number, seen)).collect(),
            threads: seen.threads.iter().map(|thread| self.thread(thread)).collect(),
            steps: Vec::new(),
            notes: seen.notes.clone(),
            ending,
            threads_at_end: 0,
            peak_threads: 0,
            end: self.end,
            unmet: Vec::new(),
            expected: 0,
        };
        record.peak_threads = record.sizes().iter().map(|(_, size)| *size).max().unwrap_or(0);
        record
    }

    fn task(&self, number: usize, seen: &Seen) -> TaskRecord {
        let task = &seen.tasks[number];
        let gone = task.gone.filter(|_| task.how != Some(How::Rejected));
        TaskRecord {
            label: task.label.clone(),
            arrived: self.pace.told(task.arrived),
            entered: self.pace.told(entered(task)),
            how: task.how.unwrap_or(How::Queued),
            threads_after: task.threads_after,
            queued_after: task.queued_after,
            blocked: self.blocked(task),
            runs: task.runs.iter().map(|run| self.run(run)).collect(),
            gone: gone.map(|(at, because_of)| Gone {
                at: self.pace.told(at),
                in_favour_of: because_of
                    .filter(|other| *other != number)
                    .map(|other| seen.tasks[other].label.clone()),
            }),
            error: task.error.clone(),
            series: task.series,
        }
    }

    fn run(&self, run: &RunSeen) -> RunRecord {
        RunRecord {
            thread: run.thread.clone(),
            begin: self.pace.told(run.begin),
            end: run.end.map_or(self.end, |(at, _)| self.pace.told(at)),
            ended: run.end.map_or(Ended::StillRunning, |(_, ended)| ended),
        }
    }

    fn thread(&self, thread: &ThreadSeen) -> ThreadRecord {
        ThreadRecord {
            name: thread.name.clone(),
            started: self.pace.told(thread.started),
            stopped: thread.stopped.map(|at| self.pace.told(at)),
        }
    }

    /// How long the submitter was blocked: from the refusal until `submit` returned, if the policy
    /// blocks.
    fn blocked(&self, task: &TaskSeen) -> Option<Duration> {
        let blocks = matches!(self.scene.pool.kind, PoolKind::Threads { policy: Policy::Block(_), .. });
        match (task.how, task.refused, task.returned) {
            (Some(How::RanInCaller | How::Discarded), ..) => None,
            (_, Some(refused), Some(returned)) if blocks => {
                Some(self.pace.told(returned.saturating_sub(refused)))
            }
            _ => None,
        }
    }
}

/// When a task entered the queue: at its arrival, or when its blocked submitter returned. The task
/// may have begun before the submitter could report that.
fn entered(task: &TaskSeen) -> Duration {
    match (task.refused, task.returned, task.runs.first()) {
        (Some(_), Some(returned), run) => run.map_or(returned, |run| returned.min(run.begin)),
        _ => task.arrived,
    }
}
