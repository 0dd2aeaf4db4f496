//! A spawned future is dropped before its handle resolves, and is decorated like any other task.

use std::future::{Future, ready};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use crate::future_fixtures::{Signal, yields};
use crate::support::pools::fixed;
use crate::support::{Counter, Gate, LONG, end, eventually, occupy, soon};
use millpond::reactive::{ExecutorFutureExt, SchedulerFutureExt};
use millpond::schedulers::{self, Scheduler};
use millpond::{
    Canceller, JoinError, RejectReason, ScheduledThreadPoolExecutor, TaskHandle, TaskId, TaskState,
};

/// Records in its destructor the state that its task's handle reports.
#[derive(Default)]
struct Witness {
    task: Arc<OnceLock<Canceller>>,
    seen: States,
}

type States = Arc<Mutex<Vec<TaskState>>>;

impl Witness {
    /// A witness to capture, the place for its task's canceller, and the recorded states.
    fn new() -> (Witness, Arc<OnceLock<Canceller>>, States) {
        let witness = Witness::default();
        let (task, seen) = (Arc::clone(&witness.task), Arc::clone(&witness.seen));
        (witness, task, seen)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.seen.lock().unwrap().extend(self.task.get().map(Canceller::state));
    }
}

/// Spawns a future that captures a witness and waits for `signal`, ends the future, and returns
/// what the witness saw.
fn seen_when_dropped(
    spawn: impl FnOnce(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>) -> TaskHandle<()>,
    ends: impl FnOnce(&Signal, TaskHandle<()>),
) -> Vec<TaskState> {
    let ((witness, task, seen), signal) = (Witness::new(), Signal::new());
    let waits = signal.clone();
    let handle = spawn(Box::pin(async move {
        let _captured = witness;
        waits.await;
    }));
    task.set(handle.canceller()).unwrap();
    ends(&signal, handle);
    std::mem::take(&mut seen.lock().unwrap())
}

#[test]
fn a_cancelled_future_is_dropped_before_its_handle_resolves() {
    let pool = fixed(1);
    let seen = seen_when_dropped(
        |future| pool.spawn_future(future).unwrap(),
        |signal, handle| {
            eventually(|| signal.is_awaited());
            assert!(handle.cancel(false) && handle.is_cancelled());
            assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
        },
    );
    assert_eq!(seen, [TaskState::Running]);
    end(&pool);
}

#[test]
fn a_future_that_is_cancelled_before_its_first_poll_is_dropped_before_its_handle_resolves() {
    let (pool, gate) = (fixed(1), Gate::new());
    occupy(&pool, &gate);
    let seen = seen_when_dropped(
        |future| pool.spawn_future(future).unwrap(),
        |_, handle| assert!(handle.cancel(false) && handle.is_cancelled()),
    );
    assert_eq!(seen, [TaskState::Pending]);
    gate.open();
    end(&pool);
}

#[test]
fn an_abandoned_future_is_dropped_before_its_handle_resolves() {
    let pool = fixed(1);
    let seen = seen_when_dropped(
        |future| pool.spawn_future(future).unwrap(),
        |signal, handle| {
            eventually(|| signal.is_awaited());
            pool.shutdown();
            signal.set();
            assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
        },
    );
    assert_eq!(seen, [TaskState::Running]);
    end(&pool);
}

#[test]
fn a_future_whose_scheduler_ends_is_dropped_before_its_handle_resolves() {
    let scheduler = schedulers::new_single("one").unwrap();
    let seen = seen_when_dropped(
        |future| scheduler.spawn_future(future).unwrap(),
        |signal, handle| {
            eventually(|| signal.is_awaited());
            scheduler.dispose();
            assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
        },
    );
    assert_eq!(seen, [TaskState::Running]);
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
}

#[test]
fn a_future_that_is_ready_is_dropped_before_its_handle_resolves() {
    let pool = fixed(1);
    let seen = seen_when_dropped(
        |future| pool.spawn_future(future).unwrap(),
        |signal, handle| {
            eventually(|| signal.is_awaited());
            signal.set();
            soon(handle).unwrap();
        },
    );
    assert_eq!(seen, [TaskState::Running]);
    end(&pool);
}

/// What a decorator has recorded.
#[derive(Clone, Default)]
struct Seen {
    wrapped: Arc<Mutex<Vec<TaskId>>>,
    calls: Counter,
    panics: Counter,
}

/// A scheduled pool whose decorator records what it wraps, each call, and each panic.
fn decorated_pool() -> (ScheduledThreadPoolExecutor, Seen) {
    let seen = Seen::default();
    let notes = seen.clone();
    let builder = ScheduledThreadPoolExecutor::builder().core_pool_size(2);
    let pool = builder.decorate(move |task, mut body| {
        notes.wrapped.lock().unwrap().push(task.id());
        let (calls, panics) = (notes.calls.clone(), notes.panics.clone());
        Box::new(move || {
            calls.add();
            if let Err(payload) = catch_unwind(AssertUnwindSafe(&mut body)) {
                panics.add();
                resume_unwind(payload);
            }
        })
    });
    (pool.build().unwrap(), seen)
}

#[test]
fn a_future_is_decorated_once_and_each_poll_runs_inside_of_that() {
    let (pool, seen) = decorated_pool();
    let handle = pool
        .spawn_future(async {
            yields(3).await;
            42
        })
        .unwrap();
    let id = handle.id();
    assert_eq!(soon(handle).unwrap(), 42);
    assert_eq!(*seen.wrapped.lock().unwrap(), [id]);
    assert_eq!((seen.calls.get(), seen.panics.get()), (4, 0));
    end(&pool);
}

#[test]
fn a_panic_of_a_decorated_future_passes_its_decorator() {
    let (pool, seen) = decorated_pool();
    let handle = pool.spawn_future(async { panic_any("broken") }).unwrap();
    let outcome: Result<(), _> = soon(handle);
    assert!(matches!(outcome, Err(JoinError::Panicked(panic)) if panic.message() == Some("broken")));
    assert_eq!((seen.calls.get(), seen.panics.get()), (1, 1));
    end(&pool);
}

#[test]
fn a_decorated_future_that_is_cancelled_is_dropped_at_once() {
    let (pool, seen) = decorated_pool();
    let (signal, dropped) = (Signal::new(), Counter::new());
    let (waits, captured) = (signal.clone(), dropped.on_drop());
    let handle = pool
        .spawn_future(async move {
            let _captured = captured;
            waits.await;
        })
        .unwrap();
    eventually(|| signal.is_awaited());
    eventually(|| pool.active_count() == 0);
    assert!(handle.cancel(true));
    assert_eq!((dropped.get(), seen.calls.get()), (1, 1));
    end(&pool);
}

#[test]
fn a_decorator_that_panics_refuses_the_future_and_hands_it_back() {
    let builder = ScheduledThreadPoolExecutor::builder().core_pool_size(1);
    let pool = builder.decorate(|_, _| panic_any("decorator")).build().unwrap();
    let ran = Counter::new();
    let count = ran.clone();
    let rejected = pool.spawn_future(async move { count.add() }).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::CallbackPanicked);
    rejected.into_task().run();
    assert_eq!(ran.get(), 1);
    end(&pool);
}

#[test]
fn a_decorator_that_does_not_call_the_future_makes_it_fail() {
    let builder = ScheduledThreadPoolExecutor::builder().core_pool_size(1);
    let pool = builder.decorate(|_, _| Box::new(|| {})).build().unwrap();
    let handle = pool.spawn_future(ready(1)).unwrap();
    assert!(matches!(soon(handle), Err(JoinError::Panicked(_))));
    end(&pool);
}
