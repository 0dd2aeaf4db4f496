//! Schedulers are listed, observed and counted like pools.

use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use millpond::monitor::{Change, ChangeError, Event, Kind, Observer, PoolSnapshot, Subscription, Timing};
use millpond::schedulers::{
    self, BoundedElasticScheduler, OnPanic, PeriodicTask, Scheduler, SchedulerExt, VirtualTimeScheduler,
};
use millpond::{ManualClock, PoolRef, RejectReason, RunState, Task, TaskOf, executors, registry};

use crate::support::{Gate, LONG, eventually};

const TTL: Duration = Duration::from_secs(60);

fn snapshot(scheduler: &dyn Scheduler) -> PoolSnapshot {
    scheduler.pool_ref().and_then(|pool| pool.snapshot()).expect("it is there")
}

fn label(scheduler: &dyn Scheduler) -> String {
    scheduler.pool_ref().and_then(|pool| pool.label()).expect("it is there").to_string()
}

/// Every accepted task is in exactly one count, and every rejected one has a reason.
fn assert_accounted(snapshot: &PoolSnapshot) {
    let stats = &snapshot.stats;
    let ended = stats.completed + stats.panicked + stats.cancelled + stats.handed_back + stats.expired;
    let there = stats.queued_count + stats.active_count + stats.in_place_count;
    assert_eq!(stats.submitted, ended + there as u64, "{stats:?}");
    assert!(stats.active_count <= stats.pool_size && stats.pool_size <= stats.largest_pool_size, "{stats:?}");
    assert!(snapshot.delayed_count <= stats.queued_count, "{snapshot:?}");
    assert_eq!(snapshot.rejected.total(), stats.rejected);
    assert_eq!(snapshot.rejected.returned, stats.rejected, "a scheduler returns all that it refuses");
}

#[test]
fn every_kind_with_threads_is_listed_under_its_name_until_it_is_dropped() {
    let elastic = |name: &str| BoundedElasticScheduler::builder().name(name).build().unwrap();
    let listed: Vec<(&str, Arc<dyn Scheduler>)> = vec![
        ("listed single", schedulers::new_single("listed single").unwrap()),
        ("listed parallel", schedulers::new_parallel(2, "listed parallel").unwrap()),
        ("listed elastic", Arc::new(elastic("listed elastic"))),
        ("fromExecutor", schedulers::from_executor(executors::fixed(1).unwrap())),
        ("fromExecutorService", schedulers::from_executor_service(executors::fixed(1).unwrap())),
        ("fromScheduledExecutor", schedulers::from_scheduled_executor(executors::scheduled(1))),
    ];
    for (name, scheduler) in listed {
        let label = label(&*scheduler);
        let found = registry::find(&label).unwrap_or_else(|| panic!("{label} is listed"));
        assert_eq!(scheduler.pool_ref(), Some(found.clone()));
        assert!(registry::pools().contains(&found) && found.upgrade().is_none());
        let snapshot = found.snapshot().unwrap();
        assert_eq!((&*snapshot.name, snapshot.kind), (name, Kind::Scheduler));
        assert_eq!(snapshot.stats.state, RunState::Running);
        assert!(scheduler.schedule(|| {}).unwrap().wait(LONG).unwrap());
        assert!(scheduler.dispose_gracefully(LONG).unwrap());
        assert_eq!(found.snapshot().unwrap().stats.state, RunState::Terminated);
        drop(scheduler);
        eventually(|| !registry::pools().contains(&found)); // its thread may drop it
        assert!(found.snapshot().is_none() && found.settings().is_none());
    }
}

#[test]
fn the_second_scheduler_of_a_name_has_a_label_of_its_own() {
    let [first, second] = [(); 2].map(|()| schedulers::new_parallel(2, "twice").unwrap());
    assert_eq!((&*label(&*first), &*label(&*second)), ("twice", "twice#2"));
    assert_eq!(registry::find("twice#2"), second.pool_ref());
    assert_eq!(&*snapshot(&*second).name, "twice");
    drop(first);
    assert_eq!(label(&*schedulers::new_single("twice").unwrap()), "twice");
}

#[test]
fn the_shared_instances_are_listed() {
    for (scheduler, name) in [
        (schedulers::single(), "single"),
        (schedulers::parallel(), "parallel"),
        (schedulers::bounded_elastic(), "boundedElastic"),
    ] {
        assert_eq!(&*snapshot(&scheduler).name, name);
    }
}

#[test]
fn schedulers_without_threads_are_not_listed() {
    let single = schedulers::new_single("the original").unwrap();
    assert!(schedulers::immediate().pool_ref().is_none());
    assert!(schedulers::single_worker(&*single).pool_ref().is_none());
    assert!(VirtualTimeScheduler::new().pool_ref().is_none());
}

#[test]
fn the_settings_are_those_of_the_scheduler_and_only_the_timing_can_change() {
    let builder = BoundedElasticScheduler::builder().name("settled").max_threads(3);
    let elastic = builder.queue_capacity_per_thread(10).ttl(TTL).build().unwrap();
    let pool = elastic.pool_ref().unwrap();
    let settings = pool.settings().unwrap();
    let sizes = (settings.core_pool_size, settings.maximum_pool_size, settings.queue_capacity);
    assert_eq!((settings.version, sizes, settings.keep_alive_time), (1, (0, 3, Some(30)), TTL));
    let unsupported = [
        (Change::new().core_pool_size(1), "core_pool_size"),
        (Change::new().maximum_pool_size(4), "maximum_pool_size"),
        (Change::new().keep_alive_time(2 * TTL), "keep_alive_time"),
        (Change::new().core_threads_time_out(true), "core_threads_time_out"),
        (Change::new().queue_capacity(1).timing(Timing::Off), "queue_capacity"),
        (Change::new().policy(millpond::monitor::PolicyKind::Discard), "policy"),
    ];
    for (change, name) in unsupported {
        let error = pool.reconfigure(change).unwrap().unwrap_err();
        assert!(matches!(error, ChangeError::Unsupported { setting, .. } if setting == name), "{error}");
        assert!(error.to_string().starts_with(&format!("{name} cannot be changed: a scheduler ")), "{error}");
    }
    assert_eq!(pool.settings().unwrap(), settings, "nothing has changed");
    let off = pool.reconfigure(Change::new().maximum_pool_size(3).timing(Timing::Off)).unwrap().unwrap();
    assert_eq!((off.version, off.timing), (2, Timing::Off));
    let stale = pool.reconfigure(Change::new().timing(Timing::Every).if_version(1)).unwrap();
    assert!(matches!(stale, Err(ChangeError::Stale { current }) if current == off));
    elastic.dispose();
    assert_eq!(pool.reconfigure(Change::new()).unwrap(), Err(ChangeError::Ended));
    let parallel = schedulers::new_parallel(2, "settled parallel").unwrap();
    let settings = parallel.pool_ref().unwrap().settings().unwrap();
    assert_eq!((settings.core_pool_size, settings.queue_capacity), (2, None));
}

#[test]
fn the_figures_of_a_snapshot_are_those_of_the_scheduler() {
    let time = ManualClock::new();
    let builder = BoundedElasticScheduler::builder().name("figures").max_threads(2);
    let elastic = builder.queue_capacity_per_thread(3).clock(time.clock()).build().unwrap();
    let gate = Gate::new();
    let started = Gate::new();
    for _ in 0..2 {
        let (wait, started) = (gate.clone(), started.clone());
        elastic
            .schedule(move || {
                started.open();
                wait.pass();
            })
            .unwrap();
    }
    started.pass();
    let lane = elastic.create_worker();
    elastic.schedule(|| {}).unwrap();
    elastic.schedule_after(TTL, || {}).unwrap();
    lane.schedule_after(TTL, || {}).unwrap();
    let periodic = lane.schedule_periodically(TTL, TTL, || {}).unwrap();
    let cancelled = elastic.schedule_after(TTL, || {}).unwrap();
    assert!(cancelled.dispose());
    let seen = snapshot(&elastic);
    assert_accounted(&seen);
    let stats = &seen.stats;
    assert_eq!((stats.active_count, stats.queued_count, seen.delayed_count), (2, 4, 3));
    assert_eq!((stats.submitted, stats.cancelled, stats.remaining_queue_capacity), (7, 1, 2));
    assert_eq!((stats.maximum_pool_size, stats.largest_pool_size), (2, 2));
    gate.open();
    eventually(|| snapshot(&elastic).stats.completed == 3);
    time.advance(TTL);
    eventually(|| snapshot(&elastic).stats.completed == 6);
    assert_eq!(snapshot(&elastic).delayed_count, 1, "the next run of the periodic task");
    assert!(periodic.dispose());
    assert!(elastic.dispose_gracefully(LONG).unwrap());
    let ended = snapshot(&elastic);
    assert_accounted(&ended);
    assert_eq!((ended.stats.pool_size, ended.stats.queued_count, ended.delayed_count), (0, 0, 0));
    assert_eq!(ended.threads_started, 2);
}

#[test]
fn a_task_that_runs_inside_another_one_counts_as_in_place() {
    let single = schedulers::new_single("in place").unwrap();
    let inner = Arc::clone(&single);
    let outer = single.schedule(move || {
        let scheduler = Arc::clone(&inner);
        let seen = Arc::new(Mutex::new(None));
        let sees = Arc::clone(&seen);
        let task = inner.schedule(move || *sees.lock().unwrap() = Some(snapshot(&*scheduler))).unwrap();
        assert!(task.wait(LONG).unwrap());
        let seen = seen.lock().unwrap().take().expect("it has run");
        assert_eq!((seen.stats.active_count, seen.stats.in_place_count), (1, 1));
        assert_accounted(&seen);
    });
    assert!(outer.unwrap().wait(LONG).unwrap());
    let seen = snapshot(&*single);
    assert_eq!((seen.stats.completed, seen.stats.panicked), (2, 0), "{:?}", seen.last_panics);
}

#[test]
fn refusals_are_counted_by_reason() {
    let elastic = BoundedElasticScheduler::builder().max_threads(1).queue_capacity_per_thread(1);
    let elastic = elastic.name("refusing").build().unwrap();
    let gate = Gate::new();
    let wait = gate.clone();
    elastic.schedule(move || wait.pass()).unwrap();
    let lane = elastic.create_worker();
    lane.dispose();
    assert!(lane.schedule(|| {}).is_err());
    elastic.schedule(|| {}).unwrap();
    assert!(elastic.schedule(|| {}).is_err() && elastic.schedule_after(TTL, || {}).is_err());
    gate.open();
    assert!(elastic.dispose_gracefully(LONG).unwrap());
    assert!(elastic.schedule(|| {}).is_err());
    let seen = snapshot(&elastic);
    assert_accounted(&seen);
    let count = |reason| seen.rejected.count(reason);
    assert_eq!((count(RejectReason::Saturated), count(RejectReason::Shutdown)), (2, 1));
    assert_eq!((count(RejectReason::WorkerDisposed), seen.rejected.total()), (1, 4));
    let timeless = schedulers::from_executor(executors::fixed(1).unwrap());
    assert!(timeless.schedule_after(TTL, || {}).is_err());
    assert_eq!(snapshot(&*timeless).rejected.count(RejectReason::NotTimeCapable), 1);
}

#[test]
fn panics_with_and_without_a_handle_are_kept() {
    let single = schedulers::new_single("panicking").unwrap();
    let broken = || -> i32 { resume_unwind(Box::new("with a handle")) };
    let (task, handle) = TaskOf::new(broken).named("kept").into_parts();
    single.schedule_task(task).unwrap();
    assert!(handle.join().is_err());
    let lane = single.create_worker();
    let closure = lane.schedule(|| resume_unwind(Box::new("a closure"))).unwrap();
    assert!(closure.wait(LONG).unwrap());
    let periodic = PeriodicTask::new(|| resume_unwind(Box::new("a series"))).on_panic(OnPanic::End);
    let periodic = single.schedule_periodically_task(Duration::ZERO, Duration::ZERO, periodic).unwrap();
    assert!(periodic.wait(LONG).unwrap());
    let seen = snapshot(&*single);
    let kept: Vec<_> =
        seen.last_panics.iter().map(|panic| (&*panic.message, panic.task_name.as_deref())).collect();
    assert_eq!(kept, [("with a handle", Some("kept")), ("a closure", None), ("a series", None)]);
    assert!(seen.last_panics.iter().all(|panic| panic.thread.as_deref().unwrap().starts_with("panicking-")));
    assert_eq!((seen.stats.panicked, seen.stats.periodic_ended_by_panic), (3, 1));
    assert_accounted(&seen);
}

/// Collects the events of the scheduler with one name, because other tests run at the same time.
struct Log {
    name: &'static str,
    events: Mutex<Vec<String>>,
}

impl Log {
    fn of(name: &'static str) -> (Arc<Log>, Subscription) {
        let log = Arc::new(Log { name, events: Mutex::default() });
        let subscription = registry::observe(Arc::clone(&log) as Arc<dyn Observer>);
        (log, subscription)
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }
}

impl Observer for Log {
    fn event(&self, pool: &PoolRef, event: &Event<'_>) {
        if pool.name().as_deref() != Some(self.name) {
            return;
        }
        pool.snapshot().expect("it is there, and no lock is held");
        let shown = match event {
            Event::Rejected { task, reason } => format!("rejected {:?}: {}", task.name(), reason.as_str()),
            Event::Panicked { message, .. } => format!("panicked: {message}"),
            Event::WorkerStarted { .. } => "started".to_owned(),
            Event::WorkerStopped { .. } => "stopped".to_owned(),
            Event::WorkerFailed { error } => format!("failed: {error}"),
            Event::Changed { new, by, .. } => format!("version {} by {by}", new.version),
            other => format!("{other:?}"),
        };
        self.events.lock().unwrap().push(shown);
    }
}

#[test]
fn every_event_comes_once_and_in_order() {
    let (log, _subscription) = Log::of("observed scheduler");
    let single = schedulers::new_single("observed scheduler").unwrap();
    let broken = single.schedule(|| resume_unwind(Box::new("broken"))).unwrap();
    assert!(broken.wait(LONG).unwrap());
    let change = Change::new().timing(Timing::Every).by("console", "");
    single.pool_ref().unwrap().reconfigure(change).unwrap().unwrap();
    assert!(single.dispose_gracefully(LONG).unwrap());
    assert!(single.schedule_task(Task::new(|| {}).named("late")).is_err());
    single.dispose();
    let late = "rejected Some(\"late\"): shutdown";
    let expected =
        ["Created", "started", "panicked: broken", "version 2 by console", "stopped", "Ended", late];
    assert_eq!(log.events(), expected);
}

#[test]
fn a_thread_that_cannot_be_started_is_an_event_and_a_refusal() {
    let (log, _subscription) = Log::of("threadless scheduler");
    let builder = BoundedElasticScheduler::builder().name("threadless scheduler");
    let elastic = builder.thread_factory(|_| Err(io::Error::other("none left"))).build().unwrap();
    assert!(elastic.schedule(|| {}).is_err());
    let seen = snapshot(&elastic);
    assert_accounted(&seen);
    assert_eq!((seen.threads_started, seen.thread_start_failures), (0, 1));
    assert_eq!(seen.rejected.count(RejectReason::SpawnFailed), 1);
    drop(elastic);
    assert_eq!(log.events(), ["Created", "failed: none left", "rejected None: spawn_failed", "Ended"]);
}

/// Records which thread drops it.
struct Dropped(Arc<Mutex<Option<ThreadId>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = Some(thread::current().id());
    }
}

/// The observer holds the scheduler when its last handle is dropped: another thread must drop the
/// user's executor.
#[test]
fn no_destructor_of_the_user_runs_on_an_observing_thread() {
    struct Inline(#[expect(dead_code, reason = "it is dropped with the executor")] Dropped);
    impl millpond::Executor for Inline {
        fn execute_task(&self, task: Task) -> Result<(), millpond::Rejected> {
            task.run();
            Ok(())
        }
    }
    struct Watch(Mutex<Option<Arc<dyn Scheduler>>>, PoolRef);
    impl Observer for Watch {
        fn event(&self, pool: &PoolRef, event: &Event<'_>) {
            if *pool == self.1 && matches!(event, Event::Changed { .. }) {
                drop(self.0.lock().unwrap().take()); // the caller holds the last reference
            }
        }
    }
    let dropped_by = Arc::default();
    let scheduler = schedulers::from_executor(Inline(Dropped(Arc::clone(&dropped_by))));
    let pool = scheduler.pool_ref().unwrap();
    let watch = Arc::new(Watch(Mutex::new(Some(scheduler)), pool.clone()));
    let _subscription = registry::observe(watch);
    pool.reconfigure(Change::new().timing(Timing::Off)).unwrap().unwrap();
    eventually(|| dropped_by.lock().unwrap().is_some());
    assert_ne!(*dropped_by.lock().unwrap(), Some(thread::current().id()));
    assert!(pool.snapshot().is_none());
}

#[test]
fn schedulers_made_and_dropped_by_many_threads_leave_nothing_behind() {
    let name = "made and dropped";
    let make = || {
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            let scheduler = schedulers::new_parallel(1, name).unwrap();
            assert!(label(&*scheduler).starts_with(name));
            let pool = scheduler.pool_ref().unwrap();
            assert!(registry::pools().contains(&pool));
            scheduler.schedule(|| {}).unwrap();
        }
    };
    thread::scope(|scope| {
        (0..4).for_each(|_| _ = scope.spawn(make));
        scope.spawn(|| {
            for _ in 0..if cfg!(miri) { 2 } else { 200 } {
                registry::pools().iter().filter_map(PoolRef::snapshot).for_each(|seen| {
                    assert!(seen.stats.active_count <= seen.stats.pool_size);
                });
            }
        });
    });
    eventually(|| registry::pools().iter().all(|pool| pool.name().as_deref() != Some(name)));
}
