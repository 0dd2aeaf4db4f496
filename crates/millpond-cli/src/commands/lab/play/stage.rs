//! Tasks: how they are submitted, and what they do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use millpond::schedulers::Worker;
use millpond::{Canceller, PeriodicTask, Rejected, ScheduledHandle, Task, TaskHandle, TaskOf, interrupt};

use super::super::record::{Ended, How};
use super::super::workload::{PoolKind, PoolPlan, Queue, Rhythm, Series};
use super::Pace;
use super::gate::Gate;
use super::pond::Pond;
use super::recorder::{Recorder, submitting, while_submitting};

/// How long to wait for the pool to reach a state. A timeout only affects when the state is
/// recorded, not whether it is correct.
const PATIENCE: Duration = Duration::from_secs(5);

/// State that all tasks of a scene share.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) recorder: Arc<Recorder>,
    pub(super) pond: Pond,
    /// Closed while a burst is being submitted.
    pub(super) gate: Arc<Gate>,
    /// Closed until the scene ends: for tasks that nothing else ends.
    pub(super) exit: Arc<Gate>,
    pub(super) plan: PoolPlan,
    pub(super) pace: Pace,
    pub(super) lanes: Mutex<HashMap<String, Worker>>,
}

/// What one task does. Random values have been drawn; times are real.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) label: String,
    pub(super) takes: Duration,
    pub(super) computes: Duration,
    pub(super) priority: i32,
    pub(super) delay: Duration,
    pub(super) nested: usize,
    pub(super) ignores_interrupts: bool,
    pub(super) panics: bool,
}

impl Stage {
    /// Submits a job, and records how the pool admitted it.
    pub(super) fn hand_in(self: &Arc<Stage>, job: Job, lane: Option<&str>) {
        let lane = lane.and_then(|name| self.lane(name));
        let delay = job.delay;
        self.hand_in_by(job, |task| self.pond.submit(task, delay, lane.as_ref()));
    }

    fn hand_in_by(self: &Arc<Stage>, job: Job, submit: impl FnOnce(Task) -> Result<(), Rejected>) {
        let number = self.recorder.arrives(job.label.clone(), false);
        let fate = Fate::new(self, number);
        let (name, priority) = (format!("no. {}", job.label), job.priority);
        let task = Task::new(move || fate.run(&job)).named(name).with_priority(priority);
        let answer = while_submitting(number, &self.pond, || submit(task));
        self.admitted(number, answer);
    }

    /// Submits a job from another job, and joins it.
    fn hand_in_and_join(self: &Arc<Stage>, job: Job) {
        let Pond::Threads(pool) = &self.pond else { return };
        let number = self.recorder.arrives(job.label.clone(), false);
        let fate = Fate::new(self, number);
        let task = TaskOf::new(move || fate.run(&job));
        let answer = while_submitting(number, &self.pond, || pool.submit_task(task));
        let (answer, handle) = split(answer);
        self.admitted(number, answer);
        if let Some(handle) = handle {
            let _ = handle.join(); // the outcome is recorded by the task
        }
    }

    /// Submits a periodic task, which cancels itself after its last run.
    pub(super) fn hand_in_series(self: &Arc<Stage>, series: &Series, job: Job) {
        let Pond::Scheduled(pool) = &self.pond else { return };
        let number = self.recorder.arrives(job.label.clone(), true);
        let canceller: Arc<OnceLock<Canceller>> = Arc::default();
        let body = {
            let (stage, canceller) = (Arc::clone(self), Arc::clone(&canceller));
            let mut left = series.runs;
            move || {
                stage.run(number, &job);
                left -= 1;
                if left == 0 {
                    canceller.wait().cancel(false);
                    stage.recorder.settled(number);
                }
            }
        };
        let task = PeriodicTask::new(body);
        let initial = self.pace.real(series.initial);
        let answer = while_submitting(number, &self.pond, || match series.rhythm {
            Rhythm::FixedRate { period, missed } => {
                let task = task.missed_ticks(missed);
                pool.schedule_at_fixed_rate_task(initial, self.pace.real(period), task)
            }
            Rhythm::FixedDelay(delay) => {
                pool.schedule_with_fixed_delay_task(initial, self.pace.real(delay), task)
            }
        });
        let answer = answer.map(|handle: ScheduledHandle<()>| {
            let _ = canceller.set(handle.canceller());
        });
        self.admitted(number, answer);
    }

    fn lane(&self, name: &str) -> Option<Worker> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if !lanes.contains_key(name) {
            lanes.insert(name.to_owned(), self.pond.lane()?);
        }
        lanes.get(name).cloned()
    }

    /// Records how the pool admitted a task, from all reports during the submission.
    fn admitted(&self, number: usize, answer: Result<(), Rejected>) {
        let (threads, queued) = (self.pond.size(), self.pond.queued());
        let returned = self.recorder.now();
        self.recorder.task(number, |task| {
            let discarded = task.gone.is_some_and(|(_, because_of)| because_of == Some(number));
            task.how = Some(match &answer {
                Err(_) => How::Rejected,
                Ok(()) if task.ran_in_caller => How::RanInCaller,
                Ok(()) if discarded => How::Discarded,
                Ok(()) => self.placed(task.spawned),
            });
            task.error = answer.as_ref().err().map(ToString::to_string);
            task.returned = Some(returned);
            (task.threads_after, task.queued_after) = (threads, queued);
        });
        if answer.is_err() {
            self.recorder.settled(number);
        }
    }

    /// How an accepted task was admitted, if a thread was started and there were then `spawned`.
    fn placed(&self, spawned: Option<usize>) -> How {
        match (&self.plan.kind, spawned) {
            // Every task passes through these queues, and threads are started to serve the queue.
            (PoolKind::Scheduled { .. } | PoolKind::Threads { queue: Queue::Delay, .. }, _) => How::Queued,
            (PoolKind::Elastic { .. }, Some(_)) => How::NewThread,
            (PoolKind::Elastic { .. }, None) => How::Queued,
            (PoolKind::Threads { queue: Queue::Synchronous, .. }, None) => How::IdleThread,
            (PoolKind::Threads { .. }, None) => How::Queued,
            (PoolKind::Threads { core, queue, .. }, Some(size)) => {
                let revived = *core == 0 && size == 1 && *queue != Queue::Synchronous;
                match size {
                    _ if revived => How::Queued, // the thread was started because there was none
                    size if size <= self.core() => How::CoreThread,
                    _ => How::ExtraThread,
                }
            }
        }
    }

    /// The current core size.
    fn core(&self) -> usize {
        match &self.pond {
            Pond::Threads(pool) => pool.core_pool_size(),
            _ => self.plan.core(),
        }
    }

    /// Runs a job on this thread.
    fn run(self: &Arc<Stage>, number: usize, job: &Job) {
        let mut run = Run { stage: self, number, run: self.recorder.begins(number), ended: Ended::Panicked };
        if submitting().is_none() {
            self.gate.pass();
        }
        let undisturbed = self.work(job).is_ok();
        if job.nested > 0 {
            let label = format!("{}.1", job.label);
            self.hand_in_and_join(Job { label, nested: job.nested - 1, ..job.clone() });
        }
        if job.panics {
            // Without the default panic message, which would appear between the lines of the
            // output.
            std::panic::resume_unwind(Box::new("the workload says so"));
        }
        run.ended = if undisturbed { Ended::Returned } else { Ended::Interrupted };
    }

    fn work(&self, job: &Job) -> Result<(), interrupt::Interrupted> {
        if job.ignores_interrupts {
            self.exit.pass_within(job.takes);
            return Ok(());
        }
        if !job.takes.is_zero() {
            interrupt::sleep(job.takes)?;
        }
        let begin = Instant::now();
        while begin.elapsed() < job.computes {
            interrupt::check()?;
            std::hint::black_box((0..1000u64).fold(0, |sum, n| sum ^ std::hint::black_box(n)));
        }
        Ok(())
    }

    /// Waits until each task that got a thread has begun, so that the recorded state includes it.
    pub(super) fn settle(&self) {
        self.recorder.wait(PATIENCE, |seen| {
            seen.tasks.iter().all(|task| {
                let got_a_thread = matches!(
                    task.how,
                    Some(How::CoreThread | How::ExtraThread | How::NewThread | How::IdleThread)
                );
                !got_a_thread || !task.runs.is_empty() || task.gone.is_some()
            })
        });
        if !self.waits_at_a_delay_queue() {
            await_that(|| self.pond.is_settled());
        }
    }

    /// Waits until no worker is busy: a task ends before its worker is idle.
    pub(super) fn rest(&self) {
        await_that(|| self.pond.is_through());
        if !self.waits_at_a_delay_queue() {
            await_that(|| self.pond.sleeps());
        }
    }

    /// Returns true if workers wait in the delay queue itself, where the pool does not count them
    /// as parked.
    fn waits_at_a_delay_queue(&self) -> bool {
        matches!(self.plan.kind, PoolKind::Threads { queue: Queue::Delay, .. })
    }
}

/// Polls for a condition without a notification. It holds within microseconds, unless the machine
/// is busy.
fn await_that(done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_micros(100));
    }
}

fn split<T>(answer: Result<TaskHandle<T>, Rejected>) -> (Result<(), Rejected>, Option<TaskHandle<T>>) {
    match answer {
        Ok(handle) => (Ok(()), Some(handle)),
        Err(rejected) => (Err(rejected), None),
    }
}

/// Belongs to a task: if it is dropped before the task has run, the task never will.
struct Fate {
    stage: Arc<Stage>,
    number: usize,
    ran: bool,
}

impl Fate {
    fn new(stage: &Arc<Stage>, number: usize) -> Fate {
        Fate { stage: Arc::clone(stage), number, ran: false }
    }

    fn run(mut self, job: &Job) {
        self.ran = true;
        let _settled = Settled(&self.stage, self.number);
        self.stage.run(self.number, job);
    }
}

impl Drop for Fate {
    fn drop(&mut self) {
        if !self.ran {
            self.stage.recorder.dropped(self.number);
        }
    }
}

/// On drop, reports that a task has ended, even by a panic.
struct Settled<'a>(&'a Stage, usize);

impl Drop for Settled<'_> {
    fn drop(&mut self) {
        self.0.recorder.settled(self.1);
    }
}

/// A run that has begun. Records its end, even if it panics.
struct Run<'a> {
    stage: &'a Stage,
    number: usize,
    run: usize,
    ended: Ended,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.stage.recorder.ends(self.number, self.run, self.ended);
    }
}
