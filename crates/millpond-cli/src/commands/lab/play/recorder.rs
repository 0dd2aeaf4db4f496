//! Collects the reports of hooks, policies, thread factories and tasks.
//!
//! A thread-local holds the task that the thread is submitting. So a thread factory or a policy on
//! the submitter's thread knows the task, and so does the destructor of a task that is discarded.

use std::cell::{Cell, RefCell};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use millpond::{Hooks, TaskInfo, WorkerInfo};

use super::super::record::{CALLER, Ended, How};
use super::pond::Pond;

thread_local! {
    /// The task that this thread is submitting, and its pool.
    static SUBMITTING: RefCell<Option<(usize, Pond)>> = const { RefCell::new(None) };
    /// Whether this thread plays the scene. Otherwise it belongs to the pool.
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as the one that plays the scene.
pub(super) fn i_am_the_caller() {
    IS_CALLER.set(true);
}

/// The number of the task that this thread is submitting.
pub(super) fn submitting() -> Option<usize> {
    SUBMITTING.with_borrow(|now| now.as_ref().map(|(number, _)| *number))
}

/// The number of the task that this thread is submitting, and the size of its pool.
pub(super) fn size_while_submitting() -> Option<(usize, usize)> {
    SUBMITTING.with_borrow(|now| now.as_ref().map(|(number, pond)| (*number, pond.size())))
}

/// Calls `submit`, and lets everything on this thread know that it submits task `number`.
pub(super) fn while_submitting<R>(number: usize, pond: &Pond, submit: impl FnOnce() -> R) -> R {
    struct Restore(Option<(usize, Pond)>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let before = self.0.take();
            SUBMITTING.with_borrow_mut(|now| *now = before);
        }
    }
    let before = SUBMITTING.with_borrow_mut(|now| now.replace((number, pond.clone())));
    let _restore = Restore(before);
    submit()
}

/// All reports so far.
#[derive(Debug)]
pub(super) struct Recorder {
    origin: Instant,
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) tasks: Vec<TaskSeen>,
    pub(super) threads: Vec<ThreadSeen>,
    pub(super) notes: Vec<String>,
    /// Number of tasks about which no more reports will come.
    pub(super) settled: usize,
    pub(super) terminated: bool,
}

#[derive(Debug)]
pub(super) struct TaskSeen {
    pub(super) label: String,
    pub(super) series: bool,
    pub(super) arrived: Duration,
    pub(super) how: Option<How>,
    pub(super) threads_after: usize,
    pub(super) queued_after: usize,
    /// The size of the pool, including the thread that was started for this task.
    pub(super) spawned: Option<usize>,
    /// When the policy was called.
    pub(super) refused: Option<Duration>,
    /// When `submit` returned.
    pub(super) returned: Option<Duration>,
    pub(super) ran_in_caller: bool,
    pub(super) runs: Vec<RunSeen>,
    pub(super) gone: Option<(Duration, Option<usize>)>,
    pub(super) error: Option<String>,
    settled: bool,
}

#[derive(Debug)]
pub(super) struct RunSeen {
    pub(super) thread: String,
    pub(super) begin: Duration,
    pub(super) end: Option<(Duration, Ended)>,
}

#[derive(Debug)]
pub(super) struct ThreadSeen {
    pub(super) name: String,
    pub(super) started: Duration,
    pub(super) stopped: Option<Duration>,
}

impl Recorder {
    pub(super) fn new() -> Recorder {
        Recorder { origin: Instant::now(), seen: Mutex::default(), changed: Condvar::new() }
    }

    /// Real time since the beginning of the scene.
    pub(super) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Adds a task. Returns its number.
    pub(super) fn arrives(&self, label: String, series: bool) -> usize {
        let arrived = self.now();
        self.tell(|seen| {
            seen.tasks.push(TaskSeen {
                label,
                series,
                arrived,
                how: None,
                threads_after: 0,
                queued_after: 0,
                spawned: None,
                refused: None,
                returned: None,
                ran_in_caller: false,
                runs: Vec::new(),
                gone: None,
                error: None,
                settled: false,
            });
            seen.tasks.len() - 1
        })
    }

    /// Changes the entry of a task.
    pub(super) fn task<R>(&self, number: usize, change: impl FnOnce(&mut TaskSeen) -> R) -> R {
        self.tell(|seen| change(&mut seen.tasks[number]))
    }

    /// Reports that a thread is started for the task that this thread is submitting.
    pub(super) fn spawns(&self) {
        if let Some((number, size)) = size_while_submitting() {
            self.task(number, |task| task.spawned = Some(size));
        }
    }

    /// Reports that a policy got the task that this thread is submitting.
    pub(super) fn refused(&self) {
        let at = self.now();
        if let Some(number) = submitting() {
            self.task(number, |task| task.refused = task.refused.or(Some(at)));
        }
    }

    /// Reports that a run begins on this thread. Returns its number.
    pub(super) fn begins(&self, number: usize) -> usize {
        let begin = self.now();
        let thread = if IS_CALLER.get() {
            CALLER.to_owned()
        } else {
            thread::current().name().unwrap_or("a thread without a name").to_owned()
        };
        let in_caller = submitting() == Some(number);
        self.task(number, |task| {
            task.ran_in_caller |= in_caller;
            task.runs.push(RunSeen { thread, begin, end: None });
            task.runs.len() - 1
        })
    }

    pub(super) fn ends(&self, number: usize, run: usize, ended: Ended) {
        let end = self.now();
        self.task(number, |task| task.runs[run].end = Some((end, ended)));
    }

    /// Reports that no more reports about a task will come.
    pub(super) fn settled(&self, number: usize) {
        self.tell(|seen| {
            let task = &mut seen.tasks[number];
            if !std::mem::replace(&mut task.settled, true) {
                seen.settled += 1;
            }
        });
    }

    /// Reports that a task was dropped on this thread without having run.
    pub(super) fn dropped(&self, number: usize) {
        let at = self.now();
        self.task(number, |task| task.gone = Some((at, submitting())));
        self.settled(number);
    }

    pub(super) fn thread_started(&self, name: &str) {
        let started = self.now();
        self.tell(|seen| seen.threads.push(ThreadSeen { name: name.to_owned(), started, stopped: None }));
    }

    pub(super) fn thread_stopped(&self, name: &str) {
        let stopped = self.now();
        self.tell(|seen| {
            let alive = |thread: &&mut ThreadSeen| thread.name == name && thread.stopped.is_none();
            if let Some(thread) = seen.threads.iter_mut().find(alive) {
                thread.stopped = Some(stopped);
            }
        });
    }

    pub(super) fn note(&self, text: String) {
        self.tell(|seen| seen.notes.push(text));
    }

    /// Reads the reports so far.
    pub(super) fn look<R>(&self, look: impl FnOnce(&Seen) -> R) -> R {
        look(&self.lock())
    }

    /// Waits until `done`, at most for `patience`. Returns false on timeout.
    pub(super) fn wait(&self, patience: Duration, done: impl Fn(&Seen) -> bool) -> bool {
        let waiting = self.changed.wait_timeout_while(self.lock(), patience, |seen| !done(seen));
        let (seen, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        done(&seen)
    }

    fn tell<R>(&self, change: impl FnOnce(&mut Seen) -> R) -> R {
        let told = change(&mut self.lock());
        self.changed.notify_all();
        told
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forwards the calls of a pool's hooks.
pub(super) struct Watching(pub(super) std::sync::Arc<Recorder>);

impl Hooks for Watching {
    fn after_execute(&self, _task: &TaskInfo, _panic: Option<&millpond::Panic>) {
        self.0.tell(|_| ()); // wakes threads that wait for the worker
    }

    fn terminated(&self) {
        self.0.tell(|seen| seen.terminated = true);
    }

    fn worker_started(&self, worker: &WorkerInfo) {
        self.0.thread_started(worker.name());
    }

    fn worker_stopped(&self, worker: &WorkerInfo) {
        self.0.thread_stopped(worker.name());
    }
}
