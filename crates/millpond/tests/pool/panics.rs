//! `Hooks::panicked` reports every panic of a task; a periodic task has a policy for panics.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::{Gate, Notes, PanicsOnDrop, assert_balanced, end, eventually, occupied, soon};
use millpond::{
    Canceller, Hooks, JoinError, ManualClock, OnPanic, Panic, PeriodicTask, ScheduledThreadPoolExecutor,
    Task, TaskInfo, TaskOf, ThreadPoolExecutor, WorkQueue, executors, policy,
};

/// Records what the hook gets: the message, and the calling thread.
#[derive(Clone)]
struct Heard {
    notes: Notes<(String, thread::ThreadId)>,
    panics: Arc<AtomicBool>,
}

impl Heard {
    fn new() -> Heard {
        Heard { notes: Notes::new(), panics: Arc::default() }
    }

    fn messages(&self) -> Vec<String> {
        self.notes.take().into_iter().map(|(message, _)| message).collect()
    }
}

impl Hooks for Heard {
    fn panicked(&self, task: &TaskInfo, panic: &Panic) {
        let name = task.name().unwrap_or("-");
        self.notes.add((format!("{name}: {}", panic.message().unwrap_or("?")), thread::current().id()));
        if self.panics.load(Ordering::SeqCst) {
            resume_unwind(Box::new("the hook itself"));
        }
    }
}

fn pool_with(heard: &Heard) -> ThreadPoolExecutor {
    ThreadPoolExecutor::builder().core_pool_size(1).maximum_pool_size(1).hooks(heard.clone()).build().unwrap()
}

fn broken<T>(message: &'static str) -> T {
    resume_unwind(Box::new(message))
}

#[test]
fn every_task_that_panics_is_told_to_the_hook() {
    for hook_panics in [false, true] {
        let heard = Heard::new();
        heard.panics.store(hook_panics, Ordering::SeqCst);
        let pool = pool_with(&heard);
        pool.execute(|| broken("executed")).unwrap();
        pool.execute_task(Task::new(|| broken("a task")).named("named")).unwrap();
        drop(pool.submit(|| broken::<u8>("detached")).unwrap());
        pool.submit(|| "does not panic").unwrap().join().unwrap();
        let worker = pool.submit(|| thread::current().id()).unwrap().join().unwrap();
        let notes = heard.notes.take();
        assert!(notes.iter().all(|(_, thread)| *thread == worker));
        let messages: Vec<_> = notes.into_iter().map(|(message, _)| message).collect();
        assert_eq!(messages, ["-: executed", "named: a task", "-: detached"]);
        end(&pool);
        assert_eq!((pool.stats().panicked, pool.stats().completed), (3, 2));
        assert_balanced(&pool.stats());
    }
}

#[test]
fn the_hook_has_returned_when_the_handle_tells_of_the_panic() {
    let heard = Heard::new();
    let pool = pool_with(&heard);
    for _ in crate::support::rounds(500) {
        let panics = pool.submit_task(TaskOf::new(|| broken::<u8>("joined")).named("it")).unwrap();
        let Err(JoinError::Panicked(panic)) = panics.join() else { panic!("it panics") };
        assert_eq!(panic.message(), Some("joined"));
        assert_eq!(heard.messages(), ["it: joined"]);
    }
    end(&pool);
}

/// The handle gets the original payload although the hook has seen it.
#[test]
fn the_payload_reaches_the_handle_unchanged() {
    let heard = Heard::new();
    let pool = pool_with(&heard);
    let panics = pool.submit(|| -> u8 { resume_unwind(Box::new(vec![1, 2, 3])) }).unwrap();
    let Err(JoinError::Panicked(panic)) = panics.join() else { panic!("it panics") };
    assert_eq!(*panic.into_payload().downcast::<Vec<i32>>().unwrap(), [1, 2, 3]);
    assert_eq!(heard.messages(), ["-: ?"]);
    end(&pool);
}

#[test]
fn tasks_that_run_in_place_and_in_scopes_are_told_too() {
    let heard = Heard::new();
    let pool = pool_with(&heard);
    let inside = pool.clone();
    let outer = pool.submit(move || inside.submit(|| broken::<u8>("in place")).unwrap().join().is_err());
    assert!(outer.unwrap().join().unwrap());
    assert_eq!(heard.messages(), ["-: in place"]);
    let scope = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| scope.execute(|| broken("scoped")).unwrap());
    }));
    assert!(scope.is_err());
    assert_eq!(heard.messages(), ["-: scoped"]);
    pool.scope(|scope| assert!(scope.submit(|| broken::<u8>("scoped")).unwrap().join().is_err()));
    assert_eq!(heard.messages(), ["-: scoped"]);
    end(&pool);
}

#[test]
fn tasks_that_the_caller_runs_are_told_on_its_thread() {
    let heard = Heard::new();
    let pool = ThreadPoolExecutor::builder()
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy::CallerRuns)
        .hooks(heard.clone())
        .build()
        .unwrap();
    let gate = occupied(&pool);
    assert!(pool.submit(|| broken::<u8>("with a handle")).unwrap().join().is_err());
    let unwound = catch_unwind(AssertUnwindSafe(|| pool.execute(|| broken("without"))));
    assert_eq!(*unwound.unwrap_err().downcast::<&str>().unwrap(), "without", "as documented");
    let notes = heard.notes.take();
    let me = thread::current().id();
    assert_eq!(notes, [("-: with a handle".to_owned(), me), ("-: without".to_owned(), me)]);
    gate.open();
    end(&pool);
}

#[test]
fn a_task_that_panics_after_it_was_cancelled_is_told_too() {
    let heard = Heard::new();
    let pool = pool_with(&heard);
    let (begun, gate) = (Gate::new(), Gate::new());
    let (tell, wait) = (begun.clone(), gate.clone());
    let handle = pool.submit(move || {
        tell.open();
        wait.pass();
        broken::<u8>("too late")
    });
    begun.pass();
    let handle = handle.unwrap();
    assert!(handle.cancel(false));
    gate.open();
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    end(&pool);
    assert_eq!(heard.messages(), ["-: too late"]);
    assert_eq!((pool.stats().panicked, pool.stats().cancelled), (0, 1));
}

/// Must not wait for the run that the hook belongs to.
#[test]
fn the_hook_may_cancel_the_task_that_panicked() {
    struct Cancels(Mutex<Option<Canceller>>, Gate);
    impl Hooks for Cancels {
        fn panicked(&self, _: &TaskInfo, _: &Panic) {
            self.1.pass();
            self.0.lock().unwrap().take().unwrap().cancel(true);
        }
    }
    let (ready, hooks) = (Gate::new(), Arc::new(Cancels(Mutex::new(None), Gate::new())));
    let pool = ThreadPoolExecutor::builder().hooks(Arc::clone(&hooks)).build().unwrap();
    let wait = ready.clone();
    let handle = pool.submit(move || {
        wait.pass();
        broken::<u8>("broken")
    });
    let handle = handle.unwrap();
    *hooks.0.lock().unwrap() = Some(handle.canceller());
    hooks.1.open();
    ready.open();
    assert!(matches!(soon(handle), Err(JoinError::Cancelled)));
    end(&pool);
}

#[test]
fn a_payload_whose_destructor_panics_harms_nobody() {
    let heard = Heard::new();
    let pool = pool_with(&heard);
    let dropped = crate::support::Counter::new();
    for _ in 0..3 {
        let payload = PanicsOnDrop(dropped.on_drop());
        pool.execute(move || resume_unwind(Box::new(payload))).unwrap();
    }
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    end(&pool);
    assert_eq!((heard.messages().len(), dropped.get()), (3, 3));
}

// ---- periodic tasks

fn scheduled(heard: &Heard) -> (ManualClock, ScheduledThreadPoolExecutor) {
    let clock = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder()
        .core_pool_size(1)
        .clock(clock.clock())
        .hooks(heard.clone())
        .build()
        .unwrap();
    (clock, pool)
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_series_that_nobody_watches_does_not_end_silently() {
    let heard = Heard::new();
    let (_clock, pool) = scheduled(&heard);
    let flush = PeriodicTask::new(|| broken("disk full")).named("flush");
    drop(pool.schedule_at_fixed_rate_task(Duration::ZERO, SECOND, flush).unwrap());
    eventually(|| pool.stats().periodic_ended_by_panic == 1);
    assert_eq!(heard.messages(), ["flush: disk full"]);
    assert_eq!((pool.stats().panicked, pool.queued_count()), (1, 0));
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn the_count_of_series_that_ended_is_there_when_the_handle_tells() {
    let heard = Heard::new();
    let (_clock, pool) = scheduled(&heard);
    for ended in 1..=crate::support::rounds(200).count().max(1) as u64 {
        let series = pool.schedule_with_fixed_delay(Duration::ZERO, SECOND, || broken("once")).unwrap();
        assert!(matches!(series.join(), Err(JoinError::Panicked(_))));
        assert_eq!(pool.stats().periodic_ended_by_panic, ended);
        assert_eq!(heard.messages().len(), 1);
    }
    let once = pool.schedule(Duration::ZERO, || broken::<u8>("no series")).unwrap();
    let before = pool.stats().periodic_ended_by_panic;
    assert!(once.join().is_err());
    assert_eq!(pool.stats().periodic_ended_by_panic, before);
    end(&pool);
}

#[test]
fn a_series_told_to_continue_goes_on_after_a_panic_and_its_handle_stays_pending() {
    for decorated in [false, true] {
        let heard = Heard::new();
        let clock = ManualClock::new();
        let mut builder = ScheduledThreadPoolExecutor::builder()
            .core_pool_size(1)
            .clock(clock.clock())
            .hooks(heard.clone());
        if decorated {
            builder = builder.decorate(|_, body| Box::new(body));
        }
        let pool = builder.build().unwrap();
        let runs = crate::support::Counter::new();
        let count = runs.clone();
        let task = PeriodicTask::new(move || {
            count.add();
            if count.get() % 2 == 1 {
                broken::<()>("odd");
            }
        });
        let series = pool
            .schedule_at_fixed_rate_task(Duration::ZERO, SECOND, task.on_panic(OnPanic::Continue))
            .unwrap();
        for run in 1..=5 {
            eventually(|| pool.completed_task_count() == run);
            assert!(!series.is_done());
            clock.advance(SECOND);
        }
        eventually(|| runs.get() == 6 && pool.completed_task_count() == 6);
        assert_eq!(heard.messages().len(), 3);
        assert!(series.cancel(false));
        let stats = pool.stats();
        assert_eq!((stats.panicked, stats.completed, stats.periodic_ended_by_panic), (3, 3, 0));
        end(&pool);
        assert!(matches!(series.join(), Err(JoinError::Cancelled)));
        assert_balanced(&pool.stats());
    }
}

#[test]
fn the_default_of_an_executor_is_to_end_the_series() {
    let pool = executors::scheduled(1);
    let plain = PeriodicTask::new(|| broken("plain"));
    let ends = PeriodicTask::new(|| broken("ends")).on_panic(OnPanic::End);
    for task in [plain, ends] {
        let series = pool.schedule_at_fixed_rate_task(Duration::ZERO, SECOND, task).unwrap();
        assert!(matches!(series.join(), Err(JoinError::Panicked(_))));
    }
    end(&pool);
}

#[cfg(feature = "futures")]
#[test]
fn a_future_that_panics_is_told_to_the_hook() {
    use millpond::reactive::ExecutorFutureExt as _;
    let heard = Heard::new();
    let pool = pool_with(&heard);
    let handle = pool.spawn_future(async { broken::<u8>("polled") }).unwrap();
    assert!(matches!(soon(handle), Err(JoinError::Panicked(_))));
    assert_eq!(heard.messages(), ["-: polled"]);
    end(&pool);
}
