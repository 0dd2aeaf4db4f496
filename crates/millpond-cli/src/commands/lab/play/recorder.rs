//! What hooks, policies, thread factories and tasks report, while it happens.
//!
//! Which thread submits which task is kept in a thread-local: so a thread factory or a policy that
//! is called on the submitter's thread knows for which task, and so does the destructor of a task
//! that has to go.

use std::cell::{Cell, RefCell};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use millpond::{Hooks, TaskInfo, WorkerInfo};

use super::super::record::{CALLER, Ended, How};
use super::pond::Pond;

thread_local! {
    /// The task that this thread hands in just now, and the pool it goes to.
    static SUBMITTING: RefCell<Option<(usize, Pond)>> = const { RefCell::new(None) };
    /// This thread plays the scene; it is not one of the pool's.
    static IS_CALLER: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as the one that plays.
pub(super) fn i_am_the_caller() {
    IS_CALLER.set(true);
}

/// The number of the task that this thread hands in just now.
pub(super) fn submitting() -> Option<usize> {
    SUBMITTING.with_borrow(|now| now.as_ref().map(|(number, _)| *number))
}

/// How many threads the pool has for which this thread hands in a task just now.
pub(super) fn size_while_submitting() -> Option<(usize, usize)> {
    SUBMITTING.with_borrow(|now| now.as_ref().map(|(number, pond)| (*number, pond.size())))
}

/// Hands in the task `number` by `submit`, and lets everything that happens on this thread know of
/// it.
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

/// What has been reported so far.
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
    /// Tasks of which nothing more is to be expected.
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
    /// The size of the pool, with the thread that was started when this task was handed in.
    pub(super) spawned: Option<usize>,
    /// When the policy got it.
    pub(super) refused: Option<Duration>,
    /// When the submitter came back.
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

    /// Real time since the scene began.
    pub(super) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A task arrives; gives its number.
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

    /// Changes what is known of a task.
    pub(super) fn task<R>(&self, number: usize, change: impl FnOnce(&mut TaskSeen) -> R) -> R {
        self.tell(|seen| change(&mut seen.tasks[number]))
    }

    /// A thread is started because of a task that this thread hands in.
    pub(super) fn spawns(&self) {
        if let Some((number, size)) = size_while_submitting() {
            self.task(number, |task| task.spawned = Some(size));
        }
    }

    /// A policy got a task that this thread hands in.
    pub(super) fn refused(&self) {
        let at = self.now();
        if let Some(number) = submitting() {
            self.task(number, |task| task.refused = task.refused.or(Some(at)));
        }
    }

    /// A run begins on this thread; gives its number.
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

    /// Nothing more is to be expected of a task.
    pub(super) fn settled(&self, number: usize) {
        self.tell(|seen| {
            let task = &mut seen.tasks[number];
            if !std::mem::replace(&mut task.settled, true) {
                seen.settled += 1;
            }
        });
    }

    /// A task was dropped without having run, on this thread.
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

    /// Looks at what is known.
    pub(super) fn look<R>(&self, look: impl FnOnce(&Seen) -> R) -> R {
        look(&self.lock())
    }

    /// Waits until `done`, at most `patience`. Returns false on a timeout.
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

/// What a pool's hooks tell.
pub(super) struct Watching(pub(super) std::sync::Arc<Recorder>);

impl Hooks for Watching {
    fn after_execute(&self, _task: &TaskInfo, _panic: Option<&millpond::Panic>) {
        self.0.tell(|_| ()); // a thread may wait for the worker to finish
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
