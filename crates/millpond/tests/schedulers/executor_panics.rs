//! Executors of schedulers that panic when they get a task, or when they end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::scheduling::end;
use crate::support::pools::fixed;
use crate::support::{Counter, Notes, SHORT, die, eventually};
use millpond::schedulers::{self, Scheduler};
use millpond::{Executor, ExecutorService, Interrupted, RejectReason, Rejected, Task, ThreadPoolExecutor};

/// Panics in every call.
pub(super) struct Panicking;

impl Executor for Panicking {
    fn execute_task(&self, _task: Task) -> Result<(), Rejected> {
        die("the executor")
    }
}

/// Records what the error hooks get while the result exists, as `name: message`.
fn errors(key: &str) -> Notes<String> {
    let notes = Notes::new();
    let told = notes.clone();
    schedulers::on_error(key, move |task, panic| {
        if let Some(name) = task.name() {
            told.add(format!("{name}: {}", panic.message().unwrap_or_default()));
        }
    });
    notes
}

#[test]
fn a_panic_of_an_executor_is_told_to_the_error_hooks() {
    let told = errors("an executor panics");
    let scheduler = schedulers::from_executor(Panicking);
    let refused = scheduler.schedule_task(Task::new(|| {}).named("mine")).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::CallbackPanicked);
    let worker = scheduler.create_worker();
    assert!(worker.schedule_task(Task::new(|| {}).named("my lane's")).is_err());
    assert!(schedulers::reset_on_error("an executor panics"));
    let told = told.take();
    let ours: Vec<_> =
        told.iter().filter(|told| told.starts_with("my") || told.starts_with("mine")).collect();
    assert_eq!(ours, ["mine: the executor", "my lane's: the executor"]);
}

/// Stores the task of its first call. Panics in every later call.
#[derive(Clone, Default)]
struct AcceptsOne {
    calls: Counter,
    stored: Arc<Mutex<Option<Task>>>,
}

impl AcceptsOne {
    fn take(&self) -> Task {
        self.stored.lock().unwrap().take().unwrap()
    }
}

impl Executor for AcceptsOne {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.calls.add();
        if self.calls.get() > 1 {
            die("the executor");
        }
        *self.stored.lock().unwrap() = Some(task);
        Ok(())
    }
}

#[test]
fn a_panic_of_an_executor_at_a_later_burst_of_a_worker_refuses_the_task() {
    let told = errors("an executor panics later");
    let executor = AcceptsOne::default();
    let scheduler = schedulers::from_executor(executor.clone());
    let (worker, ran) = (scheduler.create_worker(), Counter::new());
    let task = |name| {
        let count = ran.clone();
        Task::new(move || count.add()).named(name)
    };
    let first = worker.schedule_task(task("burst 1")).unwrap();
    executor.take().run();
    assert!(first.is_disposed() && !first.is_cancelled());
    let refused = worker.schedule_task(task("burst 2")).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::CallbackPanicked);
    refused.into_task().run();
    assert_eq!((ran.get(), executor.calls.get()), (2, 2));
    end(&*scheduler);
    assert!(schedulers::reset_on_error("an executor panics later"));
    let told: Vec<_> = told.take().into_iter().filter(|told| told.starts_with("burst")).collect();
    assert_eq!(told, ["burst 2: the executor"]);
}

/// The second start follows from the drop of the first, so no submitter can be refused.
#[test]
fn a_panic_of_an_executor_cancels_work_whose_submitter_has_returned() {
    let told = errors("an executor panics unattended");
    let executor = AcceptsOne::default();
    let scheduler = schedulers::from_executor(executor.clone());
    let worker = scheduler.create_worker();
    let dropped = worker.schedule_task(Task::new(|| {}).named("left 1")).unwrap();
    let behind = worker.schedule_task(Task::new(|| {}).named("left 2")).unwrap();
    drop(executor.take());
    assert!(dropped.is_cancelled() && behind.is_cancelled());
    assert_eq!(executor.calls.get(), 2);
    end(&*scheduler);
    let stats = scheduler.stats();
    assert_eq!((stats.submitted, stats.cancelled, stats.queued), (2, 2, 0));
    assert!(schedulers::reset_on_error("an executor panics unattended"));
    let told: Vec<_> = told.take().into_iter().filter(|told| told.starts_with("left")).collect();
    assert_eq!(told, ["left 2: the executor"]);
}

/// An executor service that panics when it is shut down.
struct PanicsAtTheEnd(ThreadPoolExecutor);

impl Executor for PanicsAtTheEnd {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.0.execute_task(task)
    }
}

impl ExecutorService for PanicsAtTheEnd {
    fn shutdown(&self) {
        self.0.shutdown();
        die("the shutdown")
    }
    fn shutdown_now(&self) -> Vec<Task> {
        self.0.shutdown_now();
        die("the end")
    }
    fn is_shutdown(&self) -> bool {
        self.0.is_shutdown()
    }
    fn is_terminated(&self) -> bool {
        self.0.is_terminated()
    }
    fn await_termination(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.0.await_termination(timeout)
    }
}

#[test]
fn a_panic_of_an_executor_at_its_end_is_told_to_the_error_hooks() {
    let told = errors("an executor ends");
    let scheduler = schedulers::from_executor_service(PanicsAtTheEnd(fixed(1)));
    scheduler.dispose();
    eventually(|| scheduler.dispose_gracefully(SHORT) == Ok(true));
    assert!(schedulers::reset_on_error("an executor ends"));
    let told = told.take();
    assert!(told.iter().any(|told| told == "fromExecutorService: the end"), "{told:?}");
}
