//! A scheduled pool as a pool: defaults, threads, statistics, hooks, decorators, factories. STP
//! rows 001, 002, 023 to 032.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Counter, Gate, LONG, SHORT, assert_balanced, await_end, die, end, eventually, occupy, soon,
};
use millpond::{
    Body, ConfigError, Executor, ExecutorService, Hooks, InvokeError, JoinError, ManualClock, Panic,
    ParkedWorkers, PeriodicTask, RejectReason, RunState, ScheduledBuilder, ScheduledThreadPoolExecutor, Task,
    TaskInfo, TaskOf, executors,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn builder(core: usize) -> (ManualClock, ScheduledBuilder) {
    let time = ManualClock::new();
    let builder = ScheduledThreadPoolExecutor::builder().core_pool_size(core).clock(time.clock());
    (time, builder)
}

fn pool(core: usize) -> (ManualClock, ScheduledThreadPoolExecutor) {
    let (time, builder) = builder(core);
    (time, builder.build().unwrap())
}

/// STP-001.
#[test]
fn the_defaults_are_the_jdks() {
    let pool = ScheduledThreadPoolExecutor::new(3);
    assert_eq!((pool.core_pool_size(), pool.keep_alive_time()), (3, Duration::from_millis(10)));
    assert!(!pool.allows_core_thread_time_out());
    assert!(!pool.remove_on_cancel_policy());
    assert!(!pool.continue_existing_periodic_tasks_after_shutdown_policy());
    assert!(pool.execute_existing_delayed_tasks_after_shutdown_policy());
    let stats = pool.stats();
    assert_eq!((stats.maximum_pool_size, stats.remaining_queue_capacity), (usize::MAX, usize::MAX));
    assert_eq!((pool.pool_size(), pool.state()), (0, RunState::Running), "no thread before the first task");
    end(&pool);
}

/// STP-002, EXE-006: 0 is accepted. Negative sizes and null do not exist.
#[test]
fn every_core_size_is_accepted() {
    for core in [0, 1, usize::MAX] {
        let pool = executors::scheduled(core);
        assert_eq!(pool.core_pool_size(), core);
        end(&pool);
    }
    let zero = ScheduledThreadPoolExecutor::builder()
        .keep_alive_time(Duration::ZERO)
        .allow_core_thread_time_out(true)
        .build();
    assert!(matches!(zero, Err(ConfigError::ZeroKeepAlive { .. })));
}

/// STP-023.
#[test]
fn each_task_starts_a_thread_below_the_core_size_however_late_it_is_due() {
    let (_time, pool) = pool(3);
    let sizes: Vec<_> = (0..5)
        .map(|_| {
            drop(pool.schedule(HOUR, || ()).unwrap());
            pool.pool_size()
        })
        .collect();
    assert_eq!((sizes, pool.queued_count()), (vec![1, 2, 3, 3, 3], 5));
    eventually(|| pool.parked_workers() == ParkedWorkers { all: 3, timed: 0 });
    pool.shutdown_now();
    await_end(&pool);
}

/// STP-024, STP-026: with core 0, the only worker outlives its keep-alive time while a task waits.
/// It sleeps until the task is due, without polling. After the task the worker exits.
#[test]
fn with_core_zero_one_worker_sleeps_until_the_task_is_due() {
    let pool = executors::scheduled(0);
    let handle = pool.schedule(HOUR, || ()).unwrap();
    assert_eq!(pool.pool_size(), 1);
    let untimed = ParkedWorkers { all: 1, timed: 0 };
    eventually(|| pool.parked_workers() == untimed);
    assert_eq!(soon(pool.schedule(SHORT, || 7).unwrap().into_handle()).unwrap(), 7);
    eventually(|| pool.parked_workers() == untimed);
    assert!(pool.remove(handle.id()));
    eventually(|| pool.pool_size() == 0);
    assert_eq!(pool.largest_pool_size(), 1);
    end(&pool);
}

#[test]
fn core_threads_that_may_time_out_leave_but_for_one_while_a_task_waits() {
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(3).allow_core_thread_time_out(true);
    let pool = pool.build().unwrap();
    let handles: Vec<_> = (0..3).map(|_| pool.schedule(HOUR, || ()).unwrap()).collect();
    eventually(|| pool.pool_size() == 1);
    assert_eq!(soon(pool.schedule(SHORT, || 7).unwrap().into_handle()).unwrap(), 7, "it watches the time");
    pool.set_remove_on_cancel_policy(true);
    for handle in &handles {
        assert!(pool.pool_size() >= 1);
        handle.cancel(false);
    }
    eventually(|| pool.pool_size() == 0);
    end(&pool);
}

/// With a manual clock, the keep-alive time passes when the clock is advanced.
#[test]
fn the_keep_alive_time_passes_by_the_pools_clock() {
    let (time, builder) = builder(2);
    let pool = builder.keep_alive_time(HOUR).allow_core_thread_time_out(true).build().unwrap();
    pool.prestart_all_core_threads();
    eventually(|| pool.parked_workers() == ParkedWorkers { all: 2, timed: 2 });
    time.advance(HOUR / 2);
    eventually(|| pool.parked_workers() == ParkedWorkers { all: 2, timed: 2 });
    time.advance(HOUR / 2);
    eventually(|| pool.pool_size() == 0);
    end(&pool);
}

/// It also passes in real time, because threads are real.
#[test]
fn the_keep_alive_time_passes_though_a_manual_clock_stands_still() {
    let (time, pool) = pool(0);
    assert_eq!(soon(pool.submit(|| 7).unwrap()).unwrap(), 7);
    eventually(|| pool.pool_size() == 0);
    assert_eq!(time.elapsed(), Duration::ZERO);
    end(&pool);
}

/// STP-027: there is no maximum size to set; the pool never exceeds its core size.
#[test]
fn the_pool_never_exceeds_its_core_size() {
    let (_time, pool) = pool(2);
    let gate = Gate::new();
    for _ in 0..2 {
        occupy(&pool, &gate);
    }
    for _ in 0..3 {
        pool.execute(|| ()).unwrap();
    }
    assert_eq!((pool.pool_size(), pool.queued_count()), (2, 3));
    gate.open();
    end(&pool);
    assert_eq!(pool.largest_pool_size(), 2);
}

/// STP-028.
#[test]
fn the_pool_follows_its_core_size() {
    let pool = executors::scheduled(10);
    for _ in 0..10 {
        drop(pool.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(1), || ()).unwrap());
    }
    assert_eq!(pool.pool_size(), 10);
    pool.set_core_pool_size(7).unwrap();
    eventually(|| pool.pool_size() == 7);
    pool.set_core_pool_size(13).unwrap();
    eventually(|| pool.pool_size() == 13);
    end(&pool);
}

/// STP-030.
#[test]
fn batches_and_submits_behave_as_on_the_plain_pool() {
    let (_time, pool) = pool(2);
    let squares = pool.invoke_all((1..=3).map(|n| move || n * n)).unwrap();
    let squares: Vec<i32> = squares.into_iter().map(|handle| soon(handle).unwrap()).collect();
    assert_eq!(squares, [1, 4, 9]);
    assert_eq!(pool.invoke_any([|| Err("no"), || Ok(42)]).unwrap(), 42);
    let nothing: [fn() -> Result<(), io::Error>; 0] = [];
    assert!(matches!(pool.invoke_any(nothing), Err(InvokeError::Empty)));
    let late = pool.invoke_all_timeout([|| millpond::interrupt::sleep(LONG)], SHORT).unwrap();
    assert!(late[0].is_cancelled());
    let failed = pool.invoke_any_timeout([|| Err::<(), _>("no")], LONG);
    assert!(matches!(failed, Err(InvokeError::AllFailed(_))));
    assert_eq!(soon(pool.submit_task(TaskOf::new(|| 7).named("seven")).unwrap()).unwrap(), 7);
    let mut sum = 0;
    pool.scope(|scope| scope.execute(|| sum += 1).unwrap());
    assert_eq!(sum, 1);
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn a_batch_inside_a_batch_on_one_thread_does_not_deadlock() {
    let pool = executors::scheduled(1);
    let inner = pool.clone();
    let outer = pool.submit(move || {
        let handles = inner.invoke_all((0..3).map(|n| move || n)).unwrap();
        handles.into_iter().map(|handle| handle.join().unwrap()).sum::<i32>()
    });
    assert_eq!(soon(outer.unwrap()).unwrap(), 3);
    end(&pool);
}

/// STP-031.
#[test]
fn the_statistics_count_each_run() {
    let (time, pool) = pool(2);
    let gate = Gate::new();
    occupy(&pool, &gate);
    let _series = pool.schedule_at_fixed_rate(SECOND, SECOND, || ()).unwrap();
    let _delayed = pool.schedule(HOUR, || ()).unwrap();
    assert_eq!((pool.active_count(), pool.pool_size(), pool.largest_pool_size()), (1, 2, 2));
    assert_eq!((pool.completed_task_count(), pool.task_count(), pool.queued_count()), (0, 3, 2));
    for n in 1..=3 {
        time.advance(SECOND);
        eventually(|| {
            pool.completed_task_count() == n && pool.queued_count() == 2 && pool.active_count() == 1
        });
    }
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.queued_count, stats.active_count), (6, 3, 2, 1));
    let line = pool.to_string();
    assert!(
        line.ends_with("[Running, pool size = 2, active threads = 1, queued tasks = 2, completed tasks = 3]"),
        "{line}"
    );
    assert_eq!(format!("{pool:?}"), format!("ScheduledThreadPoolExecutor({line})"));
    gate.open();
    pool.shutdown_now();
    await_end(&pool);
    assert_balanced(&pool.stats());
}

#[derive(Default)]
struct Story(Mutex<Vec<String>>);

impl Story {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl Hooks for Story {
    fn before_execute(&self, task: &TaskInfo) {
        self.add(format!("before {}", task.name().unwrap_or("?")));
    }
    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        let what = panic.and_then(Panic::message).unwrap_or("well");
        self.add(format!("after {}: {what}", task.name().unwrap_or("?")));
    }
    fn rejected(&self, task: &TaskInfo, reason: RejectReason) {
        self.add(format!("rejected {}: {reason:?}", task.name().unwrap_or("?")));
    }
    fn terminated(&self) {
        self.add("terminated".to_owned());
    }
}

/// STP-029: the hook gets a panic that no handle keeps, but not that of a scheduled task.
#[test]
fn hooks_see_each_run() {
    let (time, builder) = builder(1);
    let story = Arc::new(Story::default());
    let pool = builder.hooks(Arc::clone(&story)).build().unwrap();
    pool.execute_task(Task::new(|| die("alone")).named("plain")).unwrap();
    let kept = pool.schedule_task(SECOND, TaskOf::new(|| die("kept")).named("once")).unwrap();
    let mut runs = 0;
    let series = PeriodicTask::new(move || {
        runs += 1;
        if runs == 2 {
            die("kept too");
        }
    });
    let series = pool.schedule_at_fixed_rate_task(2 * SECOND, SECOND, series.named("series")).unwrap();
    for _ in 0..5 {
        time.advance(SECOND);
        eventually(|| pool.parked_workers().all == 1);
    }
    assert!(matches!(soon::<()>(kept.into_handle()), Err(JoinError::Panicked(_))));
    assert!(matches!(soon(series.into_handle()), Err(JoinError::Panicked(_))));
    let zero =
        pool.schedule_at_fixed_rate_task(SECOND, Duration::ZERO, PeriodicTask::new(|| ()).named("zero"));
    assert!(zero.is_err());
    end(&pool);
    assert_eq!(
        *story.0.lock().unwrap(),
        [
            "before plain",
            "after plain: alone",
            "before once",
            "after once: well",
            "before series",
            "after series: well",
            "before series",
            "after series: well",
            "rejected zero: ZeroPeriod",
            "terminated"
        ]
    );
    assert_balanced(&pool.stats());
}

/// STP-032: each task and each periodic task is wrapped once, and its name is visible.
#[test]
fn the_decorator_is_put_around_each_task_and_each_series_once() {
    let (time, builder) = builder(1);
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let story = Arc::clone(&log);
    let pool = builder
        .decorate(move |info, mut body| {
            let (name, story) = (info.name().unwrap_or("?").to_owned(), Arc::clone(&story));
            story.lock().unwrap().push(format!("wrap {name}"));
            Box::new(move || {
                story.lock().unwrap().push(format!("begin {name}"));
                body();
            })
        })
        .build()
        .unwrap();
    let expect = |lines: &[&str]| assert_eq!(std::mem::take(&mut *log.lock().unwrap()), lines);
    assert_eq!(
        soon(pool.schedule_task(Duration::ZERO, TaskOf::new(|| 7).named("a")).unwrap().into_handle())
            .unwrap(),
        7
    );
    expect(&["wrap a", "begin a"]);
    assert_eq!(soon(pool.submit_task(TaskOf::new(|| 8).named("b")).unwrap()).unwrap(), 8);
    expect(&["wrap b", "begin b"]);
    let ran = Gate::new();
    let knock = ran.clone();
    pool.execute_task(Task::new(move || knock.open()).named("c")).unwrap();
    ran.pass();
    expect(&["wrap c", "begin c"]);
    let runs = Counter::new();
    let counter = runs.clone();
    let series = PeriodicTask::new(move || counter.add()).named("d");
    let series = pool.schedule_with_fixed_delay_task(SECOND, SECOND, series).unwrap();
    for n in 1..=2 {
        time.advance(SECOND);
        eventually(|| runs.get() == n && pool.queued_count() == 1);
    }
    expect(&["wrap d", "begin d", "begin d"]);
    series.cancel(false);
    let panics = pool.submit_task(TaskOf::new(|| die("inside")).named("e")).unwrap();
    assert!(matches!(soon::<()>(panics), Err(JoinError::Panicked(p)) if p.message() == Some("inside")));
    end(&pool);
    assert_balanced(&pool.stats());
}

/// The captures of a decorated task are dropped when it is cancelled.
#[test]
fn a_decorated_task_drops_its_captures_when_it_is_cancelled() {
    let (_time, builder) = builder(1);
    let pool = builder.decorate(|_, body| body).build().unwrap();
    let captured = Counter::new();
    let (one, two) = (captured.on_drop(), captured.on_drop());
    let once = pool.schedule(HOUR, move || drop(one)).unwrap();
    let series = pool.schedule_at_fixed_rate(HOUR, HOUR, move || _ = &two).unwrap();
    assert!(once.cancel(false) && series.cancel(false));
    assert_eq!((captured.get(), pool.queued_count()), (2, 2));
    end(&pool);
}

#[test]
fn a_decorator_that_panics_refuses_the_task_which_comes_back() {
    let (_time, builder) = builder(1);
    let pool = builder.decorate(|_, _| die("no")).build().unwrap();
    let runs = Counter::new();
    let body = || {
        let counter = runs.clone();
        move || counter.add()
    };
    let refused = [
        pool.schedule(SECOND, body()).unwrap_err(),
        pool.schedule_at_fixed_rate(SECOND, SECOND, body()).unwrap_err(),
        pool.schedule_with_fixed_delay(SECOND, SECOND, body()).unwrap_err(),
        pool.execute(body()).unwrap_err(),
        pool.submit(body()).unwrap_err(),
        pool.execute_task_after(SECOND, Task::new(body())).unwrap_err(),
    ];
    for (n, rejected) in refused.into_iter().enumerate() {
        assert_eq!(rejected.reason(), RejectReason::CallbackPanicked);
        rejected.into_task().run();
        assert_eq!(runs.get(), n + 1);
    }
    assert_eq!((pool.stats().submitted, pool.stats().rejected), (0, 6));
    end(&pool);
}

#[test]
fn a_decorator_that_does_not_run_its_task_or_panics_later_fails_the_handle() {
    let (time, builder) = builder(1);
    let pool = builder
        .decorate(|info, mut body| -> Body {
            match info.name() {
                Some("swallowed") => Box::new(|| ()),
                Some("harmed") => Box::new(move || {
                    body();
                    die("after it");
                }),
                _ => body,
            }
        })
        .build()
        .unwrap();
    let swallowed = pool.submit_task(TaskOf::new(|| 7).named("swallowed")).unwrap();
    assert!(matches!(soon(swallowed), Err(JoinError::Panicked(_))));
    let harmed = pool.schedule_task(Duration::ZERO, TaskOf::new(|| 7).named("harmed")).unwrap();
    assert!(
        matches!(soon(harmed.into_handle()), Err(JoinError::Panicked(p)) if p.message() == Some("after it"))
    );
    let series = PeriodicTask::new(|| ()).named("harmed");
    let series = pool.schedule_at_fixed_rate_task(Duration::ZERO, SECOND, series).unwrap();
    assert!(matches!(soon(series.into_handle()), Err(JoinError::Panicked(_))));
    time.advance(HOUR);
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn a_thread_that_cannot_be_started_refuses_the_task_unless_another_lives() {
    let (time, builder) = builder(2);
    let fails = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&fails);
    let pool = builder
        .thread_factory(move |body| {
            if flag.load(Ordering::SeqCst) {
                return Err(io::Error::other("no threads today"));
            }
            thread::Builder::new().spawn(move || body.run())
        })
        .build()
        .unwrap();
    let refused = pool.schedule(SECOND, || ()).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::SpawnFailed);
    assert_eq!((pool.queued_count(), pool.pool_size(), pool.stats().submitted), (0, 0, 0));
    fails.store(false, Ordering::SeqCst);
    let first = pool.schedule(SECOND, || 1).unwrap();
    fails.store(true, Ordering::SeqCst);
    let second = pool.schedule(SECOND, || 2).unwrap();
    assert_eq!(pool.pool_size(), 1);
    time.advance(SECOND);
    assert_eq!((soon(first.into_handle()).unwrap(), soon(second.into_handle()).unwrap()), (1, 2));
    end(&pool);
    assert_balanced(&pool.stats());
}

/// EXE-007: not before the delay, and a timed join agrees with an untimed one.
#[test]
fn the_factories_make_pools_that_keep_the_time() {
    fn check(schedule: impl Fn(Duration) -> millpond::ScheduledHandle<Duration>) {
        assert!(schedule(SHORT).join().unwrap() >= SHORT);
        assert!(schedule(SHORT).join_timeout(LONG).unwrap().unwrap() >= SHORT);
    }
    fn elapsed() -> impl FnOnce() -> Duration + Send {
        let begin = Instant::now();
        move || begin.elapsed()
    }
    let pool = executors::scheduled(2);
    check(|delay| pool.schedule(delay, elapsed()).unwrap());
    end(&pool);
    let single = executors::single_scheduled();
    check(|delay| single.schedule(delay, elapsed()).unwrap());
    end(&single);
}

/// EXE-005, EXE-006: always one thread, and no setters.
#[test]
fn the_single_scheduled_executor_has_one_thread() {
    let single = executors::single_scheduled();
    let gate = Gate::new();
    occupy(&single, &gate);
    let at_once = single.submit(|| thread::current().id()).unwrap();
    let delayed = single.schedule(SHORT, || thread::current().id()).unwrap();
    let ticks = Counter::new();
    let (one, two) = (ticks.clone(), ticks.clone());
    let rate = single.schedule_at_fixed_rate(Duration::ZERO, SHORT, move || one.add()).unwrap();
    let delay = single.schedule_with_fixed_delay(Duration::ZERO, SHORT, move || two.add()).unwrap();
    assert!(single.to_string().contains("pool size = 1"), "{single}");
    gate.open();
    assert_eq!(soon(at_once).unwrap(), soon(delayed.into_handle()).unwrap());
    eventually(|| ticks.get() >= 4);
    let service: &dyn ExecutorService = &single;
    service.shutdown();
    await_end(&single);
    assert!(rate.is_cancelled() && delay.is_cancelled());
    assert!(single.execute(|| ()).is_err() && Executor::execute_task(&single, Task::new(|| ())).is_err());
}

#[test]
fn a_scheduled_handle_can_be_awaited() {
    let (time, pool) = pool(1);
    let mut handle = Box::pin(pool.schedule(SECOND, || 7).unwrap());
    let mut context = Context::from_waker(Waker::noop());
    assert!(handle.as_mut().poll(&mut context).is_pending());
    time.advance(SECOND);
    eventually(|| handle.is_done());
    let std::task::Poll::Ready(outcome) = handle.as_mut().poll(&mut context) else { panic!("it is done") };
    assert_eq!(outcome.unwrap(), 7);
    end(&pool);
}

#[test]
fn the_types_can_be_shared_and_shown() {
    fn shared<T: Send + Sync + std::fmt::Debug>(_: &T) {}
    let (time, pool) = pool(1);
    shared(&time);
    shared(&time.clock());
    shared(&pool);
    shared(&ScheduledThreadPoolExecutor::builder());
    shared(&pool.schedule(HOUR, || ()).unwrap());
    shared(&executors::single_scheduled());
    pool.shutdown_now();
    await_end(&pool);
}
