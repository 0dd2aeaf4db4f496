//! A panic of the hook `before_execute` on a scheduled pool.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Counter, assert_balanced, die, end, eventually, soon};
use millpond::{
    Hooks, JoinError, ManualClock, OnPanic, Panic, PeriodicTask, ScheduledBuilder,
    ScheduledThreadPoolExecutor, TaskInfo,
};

const SECOND: Duration = Duration::from_secs(1);

fn one_thread() -> (ManualClock, ScheduledBuilder) {
    let time = ManualClock::new();
    let builder = ScheduledThreadPoolExecutor::builder().core_pool_size(1).clock(time.clock());
    (time, builder)
}

/// Panics before each execution while the flag is set, and records which panics are reported.
struct Refuses {
    refuses: AtomicBool,
    reported: Mutex<Vec<String>>,
}

impl Refuses {
    fn new() -> Arc<Refuses> {
        Arc::new(Refuses { refuses: AtomicBool::new(false), reported: Mutex::default() })
    }
}

impl Hooks for Refuses {
    fn before_execute(&self, _: &TaskInfo) {
        if self.refuses.load(Ordering::SeqCst) {
            die("not now");
        }
    }

    fn panicked(&self, task: &TaskInfo, panic: &Panic) {
        self.reported.lock().unwrap().push(format!("{}: {panic}", task.name().unwrap_or("?")));
    }
}

#[test]
fn a_before_hook_that_panics_ends_the_series_and_is_reported() {
    let (time, builder) = one_thread();
    let hooks = Refuses::new();
    let pool = builder.hooks(Arc::clone(&hooks)).build().unwrap();
    let runs = Counter::new();
    let counter = runs.clone();
    let task = PeriodicTask::new(move || counter.add()).named("series");
    let series = pool.schedule_at_fixed_rate_task(Duration::ZERO, SECOND, task).unwrap();
    eventually(|| runs.get() == 1 && pool.queued_count() == 1);
    hooks.refuses.store(true, Ordering::SeqCst);
    time.advance(SECOND);
    assert!(matches!(soon(series.into_handle()), Err(JoinError::Abandoned)));
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.periodic_ended_by_panic, stats.panicked), (1, 1), "{stats:?}");
    assert_eq!(*hooks.reported.lock().unwrap(), ["series: not now"]);
    assert_balanced(&stats);
}

#[test]
fn a_series_that_continues_after_panics_survives_a_before_hook_that_panics() {
    let (time, builder) = one_thread();
    let hooks = Refuses::new();
    let pool = builder.hooks(Arc::clone(&hooks)).build().unwrap();
    let runs = Counter::new();
    let counter = runs.clone();
    let task = PeriodicTask::new(move || counter.add()).named("series").on_panic(OnPanic::Continue);
    let series = pool.schedule_at_fixed_rate_task(Duration::ZERO, SECOND, task).unwrap();
    eventually(|| runs.get() == 1 && pool.queued_count() == 1);
    hooks.refuses.store(true, Ordering::SeqCst);
    time.advance(SECOND);
    eventually(|| pool.stats().panicked == 1 && pool.queued_count() == 1);
    assert!(!series.is_done());
    hooks.refuses.store(false, Ordering::SeqCst);
    time.advance(SECOND);
    eventually(|| runs.get() == 2 && pool.queued_count() == 1);
    series.cancel(true);
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.periodic_ended_by_panic, stats.panicked), (0, 1), "{stats:?}");
    assert_eq!(*hooks.reported.lock().unwrap(), ["series: not now"]);
    assert_balanced(&stats);
}

#[test]
fn a_before_hook_that_panics_reports_nothing_for_a_task_without_a_period() {
    let (_, builder) = one_thread();
    let hooks = Refuses::new();
    let pool = builder.hooks(Arc::clone(&hooks)).build().unwrap();
    hooks.refuses.store(true, Ordering::SeqCst);
    let once = pool.submit(|| ()).unwrap();
    assert!(matches!(soon(once), Err(JoinError::Abandoned)));
    end(&pool);
    assert_eq!(pool.stats().periodic_ended_by_panic, 0);
    assert!(hooks.reported.lock().unwrap().is_empty());
}
