//! The record of a scene: tasks, threads, steps. Plain data in the workload's time; `show` presents
//! it.

use std::time::Duration;

use millpond::ShutdownOutcome;
use serde::{Serialize, Serializer};

use super::workload::Figure;

/// The record of one scene.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) title: String,
    pub(crate) says: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) pool: String,
    /// Capacity of the queue, if it is bounded.
    pub(crate) queue_capacity: Option<usize>,
    /// The sizes of the pool, if it has them.
    pub(crate) core_threads: Option<usize>,
    pub(crate) max_threads: Option<usize>,
    pub(crate) speed: f64,
    /// The name of the submitter's lane.
    pub(crate) caller: &'static str,
    /// In order of arrival.
    pub(crate) tasks: Vec<TaskRecord>,
    /// In order of start.
    pub(crate) threads: Vec<ThreadRecord>,
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) notes: Vec<String>,
    pub(crate) ending: Ending,
    /// Number of threads after the last step, before the shutdown.
    pub(crate) threads_at_end: usize,
    pub(crate) peak_threads: usize,
    /// When the last step ended.
    #[serde(serialize_with = "seconds")]
    pub(crate) end: Duration,
    /// Expectations that were not met; empty if all were.
    pub(crate) unmet: Vec<String>,
    /// Number of expectations.
    pub(crate) expected: usize,
}

/// One task.
#[derive(Debug, Serialize)]
pub(crate) struct TaskRecord {
    pub(crate) label: String,
    #[serde(serialize_with = "seconds")]
    pub(crate) arrived: Duration,
    /// When it entered the queue, if it did: later than it arrived if it was refused at first.
    #[serde(skip)]
    pub(crate) entered: Duration,
    pub(crate) how: How,
    /// Number of threads after its admission.
    pub(crate) threads_after: usize,
    pub(crate) queued_after: usize,
    /// How long the submitter was blocked.
    #[serde(serialize_with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub(crate) blocked: Option<Duration>,
    /// Empty if it never ran; several for a periodic task.
    pub(crate) runs: Vec<RunRecord>,
    /// Set if it was dropped without having run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gone: Option<Gone>,
    /// The error that the submitter got.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Whether it is periodic.
    pub(crate) series: bool,
}

impl TaskRecord {
    /// From its arrival to its first run.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.runs.first().map(|run| run.begin.saturating_sub(self.arrived))
    }
}

/// How the pool admitted a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum How {
    CoreThread,
    ExtraThread,
    /// In a scheduler, which has no core size.
    NewThread,
    Queued,
    /// Handed over to an idle thread.
    IdleThread,
    RanInCaller,
    Rejected,
    Discarded,
}

impl How {
    pub(crate) const ALL: [How; 8] = [
        How::CoreThread,
        How::NewThread,
        How::Queued,
        How::ExtraThread,
        How::IdleThread,
        How::RanInCaller,
        How::Rejected,
        How::Discarded,
    ];

    /// The name in a table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            How::CoreThread => "new core thread",
            How::ExtraThread => "extra thread",
            How::NewThread => "new thread",
            How::Queued => "queued",
            How::IdleThread => "idle thread",
            How::RanInCaller => "ran in caller",
            How::Rejected => "rejected",
            How::Discarded => "discarded",
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunRecord {
    pub(crate) thread: String,
    #[serde(serialize_with = "seconds")]
    pub(crate) begin: Duration,
    /// For a run that has not ended: the end of the scene.
    #[serde(serialize_with = "seconds")]
    pub(crate) end: Duration,
    pub(crate) ended: Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ended {
    Returned,
    Interrupted,
    Panicked,
    StillRunning,
}

/// A task that was dropped without having run.
#[derive(Debug, Serialize)]
pub(crate) struct Gone {
    #[serde(serialize_with = "seconds")]
    pub(crate) at: Duration,
    /// The task that replaced it, under `DiscardOldest`.
    pub(crate) in_favour_of: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ThreadRecord {
    pub(crate) name: String,
    #[serde(serialize_with = "seconds")]
    pub(crate) started: Duration,
    #[serde(serialize_with = "maybe_seconds")]
    pub(crate) stopped: Option<Duration>,
}

/// The pool after a step.
#[derive(Debug, Serialize)]
pub(crate) struct StepRecord {
    #[serde(serialize_with = "seconds")]
    pub(crate) at: Duration,
    pub(crate) says: String,
    pub(crate) threads: usize,
    pub(crate) active: usize,
    pub(crate) queued: usize,
    pub(crate) completed: u64,
    /// The pool's `Display` text.
    pub(crate) pool: String,
}

/// How the pool ended.
#[derive(Debug, Serialize)]
pub(crate) struct Ending {
    #[serde(serialize_with = "outcome")]
    pub(crate) outcome: ShutdownOutcome,
    #[serde(serialize_with = "seconds")]
    pub(crate) elapsed: Duration,
    pub(crate) never_run: Vec<String>,
    /// Whether a step requested it.
    pub(crate) asked_for: bool,
}

/// The default name of the submitter's lane.
pub(crate) const CALLER: &str = "caller";

impl Record {
    pub(crate) fn count(&self, how: How) -> usize {
        match how {
            // Includes tasks that were queued first and later replaced by another.
            How::Discarded => self.tasks.iter().filter(|task| task.was_discarded()).count(),
            how => self.tasks.iter().filter(|task| task.how == how).count(),
        }
    }

    fn ended(&self, ended: Ended) -> usize {
        self.tasks.iter().flat_map(|task| &task.runs).filter(|run| run.ended == ended).count()
    }

    pub(crate) fn figure(&self, figure: Figure) -> u64 {
        let ran = || self.tasks.iter().filter(|task| !task.runs.is_empty()).count();
        let count = match figure {
            Figure::CoreThreads => self.count(How::CoreThread),
            Figure::ExtraThreads => self.count(How::ExtraThread),
            Figure::NewThreads => self.count(How::NewThread),
            Figure::Queued => self.count(How::Queued),
            Figure::IdleThreads => self.count(How::IdleThread),
            Figure::RanInCaller => self.count(How::RanInCaller),
            Figure::Rejected => self.count(How::Rejected),
            Figure::Discarded => self.count(How::Discarded),
            Figure::Waited => self.tasks.iter().filter(|task| task.blocked.is_some()).count(),
            Figure::Ran => ran(),
            Figure::Completed => self.ended(Ended::Returned),
            Figure::Interrupted => self.ended(Ended::Interrupted),
            Figure::Panicked => self.ended(Ended::Panicked),
            Figure::NeverRun => self.ending.never_run.len(),
            Figure::PeakThreads => self.peak_threads,
            Figure::ThreadsAtEnd => self.threads_at_end,
        };
        count as u64
    }

    /// All runs, each with the number of its task, in the order of their beginnings.
    pub(crate) fn runs(&self) -> Vec<(usize, &RunRecord)> {
        let runs =
            self.tasks.iter().enumerate().flat_map(|(at, task)| task.runs.iter().map(move |run| (at, run)));
        let mut runs: Vec<(usize, &RunRecord)> = runs.collect();
        runs.sort_by_key(|(at, run)| (run.begin, *at));
        runs
    }

    /// From the first arrival to the end of the last run.
    pub(crate) fn makespan(&self) -> Duration {
        let begin = self.tasks.iter().map(|task| task.arrived).min().unwrap_or_default();
        let end = self.tasks.iter().flat_map(|task| &task.runs).map(|run| run.end).max();
        end.unwrap_or_default().saturating_sub(begin)
    }

    /// Completed tasks per second.
    pub(crate) fn throughput(&self) -> f64 {
        let seconds = self.makespan().as_secs_f64();
        if seconds > 0.0 { self.figure(Figure::Ran) as f64 / seconds } else { 0.0 }
    }

    /// Waiting times of the tasks that ran, sorted.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        let one_shots = self.tasks.iter().filter(|task| !task.series);
        let mut waits: Vec<Duration> = one_shots.filter_map(TaskRecord::wait).collect();
        waits.sort_unstable();
        waits
    }

    /// The queue length after each change.
    ///
    /// A task counts until it begins. A worker takes it slightly earlier, so the count can exceed
    /// the capacity; it is then cut to the capacity.
    pub(crate) fn depth(&self) -> Vec<(Duration, usize)> {
        let most = self.queue_capacity.unwrap_or(usize::MAX);
        let waiting = self.tasks.iter().filter(|task| task.how == How::Queued && !task.series);
        steps_of(waiting.map(|task| {
            let left = task.runs.first().map(|run| run.begin).or(task.gone.as_ref().map(|gone| gone.at));
            (task.entered, left)
        }))
        .into_iter()
        .map(|(at, tasks)| (at, tasks.min(most)))
        .collect()
    }

    /// Each refused or discarded task with the time of its refusal, in order.
    pub(crate) fn refusals(&self) -> Vec<(Duration, &TaskRecord)> {
        let mut refusals: Vec<(Duration, &TaskRecord)> =
            self.tasks.iter().filter_map(|task| Some((task.refused_at()?, task))).collect();
        refusals.sort_by_key(|(at, _)| *at);
        refusals
    }

    /// The number of threads after each change.
    pub(crate) fn sizes(&self) -> Vec<(Duration, usize)> {
        steps_of(self.threads.iter().map(|thread| (thread.started, thread.stopped)))
    }
}

impl TaskRecord {
    /// When the pool refused or discarded the task; `None` if it did neither.
    pub(crate) fn refused_at(&self) -> Option<Duration> {
        match self.how {
            How::Rejected => Some(self.arrived),
            _ if self.was_discarded() => Some(self.gone.as_ref().map_or(self.arrived, |gone| gone.at)),
            _ => None,
        }
    }

    pub(crate) fn was_discarded(&self) -> bool {
        let displaced = self.gone.as_ref().is_some_and(|gone| gone.in_favour_of.is_some());
        self.how == How::Discarded || displaced
    }
}

/// The number of open intervals after each change. An interval without an end remains open.
fn steps_of(intervals: impl Iterator<Item = (Duration, Option<Duration>)>) -> Vec<(Duration, usize)> {
    let mut changes: Vec<(Duration, isize)> = Vec::new();
    for (begin, end) in intervals {
        changes.push((begin, 1));
        changes.extend(end.map(|end| (end.max(begin), -1)));
    }
    changes.sort_unstable_by_key(|(at, change)| (*at, -*change));
    let mut steps: Vec<(Duration, usize)> = vec![(Duration::ZERO, 0)];
    let mut open = 0isize;
    for (at, change) in changes {
        open += change;
        match steps.last_mut() {
            Some((last, count)) if *last == at => *count = open.unsigned_abs(),
            _ => steps.push((at, open.unsigned_abs())),
        }
    }
    steps
}

/// The percentile of sorted `values` for `share`, by the nearest rank.
pub(crate) fn percentile(values: &[Duration], share: f64) -> Duration {
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.clamp(1, values.len().max(1)) - 1).copied().unwrap_or_default()
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((duration.as_secs_f64() * 1e6).round() / 1e6)
}

fn maybe_seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => seconds(duration, serializer),
        None => serializer.serialize_none(),
    }
}

fn outcome<S: Serializer>(outcome: &ShutdownOutcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match outcome {
        ShutdownOutcome::Drained => "drained",
        ShutdownOutcome::Interrupted => "interrupted",
        ShutdownOutcome::StillRunning => "still-running",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_the_nearest_rank() {
        let values: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&values, 0.5), Duration::from_millis(50));
        assert_eq!(percentile(&values, 0.99), Duration::from_millis(99));
        assert_eq!(percentile(&values, 1.0), Duration::from_millis(100));
        assert_eq!(percentile(&values[..1], 0.5), Duration::from_millis(1));
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }

    #[test]
    fn steps_count_the_open_intervals() {
        let at = Duration::from_millis;
        let steps = steps_of([(at(1), Some(at(3))), (at(1), None), (at(3), Some(at(3)))].into_iter());
        assert_eq!(steps, [(at(0), 0), (at(1), 2), (at(3), 1)]);
    }
}
