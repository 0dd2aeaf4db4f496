//! The diary of a scheduled run: which tasks ran when, and whether they were on time.
//!
//! Tasks write into it, and the driver reads it. A run that began or ended late invalidates the
//! scenario: the machine was too slow, and the trace would not be deterministic.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond::{Hooks, Panic, TaskInfo, WorkerInfo};

use crate::scenario::TimedSpec;
use crate::time::{HALF_SLOT, Time};

/// The part of a half slot in which a run may begin.
const RUN_WINDOW: Duration = Duration::from_millis(40);
/// The largest delay of the beginning of a run.
const RUN_LATE: Duration = Duration::from_millis(30);
/// The largest delay of the end of a busy run.
const BUSY_LATE: Duration = Duration::from_millis(25);

/// The events of one run of a scenario.
#[derive(Debug)]
pub struct Diary {
    /// The time of all entries.
    pub time: Time,
    /// Whether there is never more than one worker.
    one_worker: bool,
    pages: Mutex<Pages>,
    /// Notified when the time has advanced, and at the end.
    moved: Condvar,
    /// How often each hook was called: of tasks and of threads, before and after.
    hooks: [AtomicUsize; 4],
}

#[derive(Debug, Default)]
struct Pages {
    /// Runs that began since the previous call of `take_runs`.
    runs: Vec<(i64, Duration)>,
    /// When the next run of a task is expected.
    expected: BTreeMap<i64, Duration>,
    /// When the current busy run has to end.
    busy_until: Option<Duration>,
    /// When the last busy run ended, and its task.
    busy_ended: Option<(i64, Duration)>,
    spoiled: Option<&'static str>,
    /// Whether the scenario is over: no thread waits any longer.
    over: bool,
}

/// When the next run of a task is expected.
#[derive(Debug, Clone, Copy)]
pub enum Again {
    /// Not at all.
    Never,
    /// This long after the previous expected time.
    Rate(Duration),
    /// This long after the end of the previous run.
    Delay(Duration),
}

impl Diary {
    /// An empty diary.
    pub fn new(time: Time, one_worker: bool) -> Diary {
        Diary { time, one_worker, pages: Mutex::default(), moved: Condvar::new(), hooks: Default::default() }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects the first run of a task. Called before the pool gets the task.
    pub fn expect(&self, t: i64, delay: Duration) {
        let then = self.time.now() + delay;
        self.pages().expected.insert(t, then);
    }

    /// Takes the runs that began since the last call.
    pub fn take_runs(&self) -> Vec<(i64, Duration)> {
        std::mem::take(&mut self.pages().runs)
    }

    /// Why the scenario must be repeated, if it must.
    pub fn spoiled(&self) -> Option<&'static str> {
        self.pages().spoiled
    }

    /// True if a run is expected by now.
    pub fn is_due(&self, t: i64) -> bool {
        let now = self.time.now();
        self.pages().expected.get(&t).is_some_and(|then| *then <= now)
    }

    /// The number of busy runs, and whether one should have ended.
    pub fn busy(&self) -> (usize, bool) {
        let until = self.pages().busy_until;
        (usize::from(until.is_some()), until.is_some_and(|until| until <= self.time.now()))
    }

    /// The counts of the hooks before and after tasks, at the start and at the end of threads.
    pub fn hooks(&self) -> [usize; 4] {
        // Read the ends first: if a hook begins and ends in between, the counts differ, and the
        // difference is never negative.
        let [stopped, after] = [3, 1].map(|n| self.hooks[n].load(Ordering::Acquire));
        let [started, before] = [2, 0].map(|n| self.hooks[n].load(Ordering::Acquire));
        [before, after, started, stopped]
    }

    /// Announces that the time has advanced.
    pub fn tell(&self) {
        drop(self.pages());
        self.moved.notify_all();
    }

    /// Ends a busy run.
    pub fn end(&self) {
        self.pages().over = true;
        self.moved.notify_all();
    }

    /// Records the beginning of a run of `t`.
    fn begin(&self, t: i64) -> Duration {
        let mut pages = self.pages();
        let now = self.time.now();
        pages.runs.push((t, now));
        if Duration::from_nanos((now.as_nanos() % HALF_SLOT.as_nanos()) as u64) > RUN_WINDOW {
            pages.spoiled = Some("a run began late in its half slot");
        }
        let expected = pages.expected.get(&t).copied().unwrap_or(now);
        // There is at most one busy run. It can only delay its own task, or all tasks of a pool
        // with one worker. Any other delay is due to the machine.
        let holds_up = |(busy, ended): (i64, Duration)| {
            Some(ended).filter(|ended| *ended >= expected && (self.one_worker || busy == t))
        };
        let held_up = pages.busy_ended.and_then(holds_up);
        if now.saturating_sub(held_up.unwrap_or(expected)) > RUN_LATE {
            pages.spoiled = Some("a run began later than expected");
        }
        now
    }

    fn be_busy(&self, t: i64, until: Duration) {
        let mut pages = self.pages();
        pages.busy_until = Some(until);
        while !pages.over && self.time.now() < until {
            pages = match self.time.timeout(until) {
                Some(left) => self.moved.wait_timeout(pages, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.moved.wait(pages).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let now = self.time.now();
        (pages.busy_until, pages.busy_ended) = (None, Some((t, now)));
        if now.saturating_sub(until) > BUSY_LATE {
            pages.spoiled = Some("a busy run ended late");
        }
    }

    /// Expects the next run of `t`, after one has ended.
    fn expect_again(&self, t: i64, again: Again) {
        let mut pages = self.pages();
        let now = self.time.now();
        match again {
            Again::Never => drop(pages.expected.remove(&t)),
            Again::Rate(period) => *pages.expected.entry(t).or_insert(now) += period,
            Again::Delay(delay) => drop(pages.expected.insert(t, now + delay)),
        }
    }
}

/// The body of a task of a scheduled scenario.
#[derive(Debug)]
pub struct Body {
    task: TimedSpec,
    again: Again,
    diary: Arc<Diary>,
    runs: u32,
}

/// The panic payload of the tasks of a scenario.
struct TaskFailure;

impl Body {
    /// The body of a task that has not run yet.
    pub fn new(task: &TimedSpec, again: Again, diary: &Arc<Diary>) -> Body {
        Body { task: task.clone(), again, diary: Arc::clone(diary), runs: 0 }
    }

    /// Runs it once.
    pub fn run(&mut self) -> i64 {
        let begun = self.diary.begin(self.task.t);
        self.runs += 1;
        if self.runs == self.task.busy_run {
            self.diary.be_busy(self.task.t, begun + Duration::from_millis(self.task.busy_ms));
        }
        self.diary.expect_again(self.task.t, self.again);
        if self.runs == self.task.fail_run {
            resume_unwind(Box::new(TaskFailure)); // not `panic!`, which would call the panic hook
        }
        self.task.t
    }
}

/// Hooks that count their calls.
#[derive(Debug)]
pub struct Counter(pub Arc<Diary>);

impl Counter {
    fn count(&self, hook: usize) {
        self.0.hooks[hook].fetch_add(1, Ordering::AcqRel);
    }
}

impl Hooks for Counter {
    fn before_execute(&self, _: &TaskInfo) {
        self.count(0);
    }
    fn after_execute(&self, _: &TaskInfo, _: Option<&Panic>) {
        self.count(1);
    }
    fn worker_started(&self, _: &WorkerInfo) {
        self.count(2);
    }
    fn worker_stopped(&self, _: &WorkerInfo) {
        self.count(3);
    }
}
