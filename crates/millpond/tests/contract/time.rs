//! The public contract of scheduled pools and schedulers: names, signatures and bounds that
//! external code relies on. Most of it is checked by compiling.

use std::fmt::{Debug, Display};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond::schedulers::{
    self, Affinity, BoundedElasticScheduler, Decorator, DefaultFactory, Defaults, Disposable, Factory, Lane,
    Scheduler, SchedulerExt, SchedulerStats, Shared, SlotInfo, Snapshot, VirtualTimeScheduler, Worker,
};
use millpond::{
    Body, CancelOnDrop, Canceller, Clock, ConfigError, ExecutorService, Hooks, Interrupted, JoinError,
    ManualClock, MissedTicks, Panic, PeriodicTask, PoolStats, RejectReason, Rejected, RunState,
    ScheduledHandle, ScheduledThreadPoolExecutor, ShutdownReport, Task, TaskHandle, TaskId, TaskInfo, TaskOf,
    WorkerBody, executors,
};

fn shared<T: Send + Sync + Debug>() {}
fn cloned<T: Clone>() {}
fn plain<T: Debug + Clone + Copy + PartialEq + Eq>() {}

#[test]
fn types_can_be_shared_shown_and_cloned() {
    shared::<ScheduledThreadPoolExecutor>();
    shared::<ScheduledHandle<u8>>();
    shared::<PeriodicTask>();
    shared::<Clock>();
    shared::<ManualClock>();
    shared::<Disposable>();
    shared::<Worker>();
    shared::<Shared>();
    shared::<SchedulerStats>();
    shared::<BoundedElasticScheduler>();
    shared::<VirtualTimeScheduler>();
    shared::<Snapshot>();
    shared::<SlotInfo>();
    shared::<Defaults>();
    shared::<Arc<dyn Scheduler>>();
    cloned::<ScheduledThreadPoolExecutor>();
    cloned::<Clock>();
    cloned::<ManualClock>();
    cloned::<Disposable>();
    cloned::<Worker>();
    cloned::<Shared>();
    cloned::<BoundedElasticScheduler>();
    cloned::<VirtualTimeScheduler>();
    plain::<MissedTicks>();
    plain::<Affinity>();
    fn displayed<T: Display + ?Sized>() {}
    displayed::<Shared>();
    displayed::<BoundedElasticScheduler>();
    displayed::<dyn Scheduler>();
    fn equal<T: Eq>() {}
    equal::<Shared>();
    fn future<T: Future<Output = Result<u8, JoinError>>>() {}
    future::<ScheduledHandle<u8>>();
}

struct Nothing;
impl Hooks for Nothing {}

#[test]
fn a_scheduled_pool_has_the_methods_of_its_contract() {
    type Pool = ScheduledThreadPoolExecutor;
    fn service(_: &(impl ExecutorService + Clone)) {}
    let built: Result<Pool, ConfigError> = Pool::builder()
        .core_pool_size(1)
        .keep_alive_time(Duration::from_millis(10))
        .allow_core_thread_time_out(false)
        .thread_name_prefix("later-")
        .thread_factory(|body: WorkerBody| -> io::Result<JoinHandle<()>> {
            std::thread::Builder::new().name(body.name().to_owned()).spawn(move || body.run())
        })
        .hooks(Nothing)
        .clock(Clock::system())
        .remove_on_cancel_policy(true)
        .decorate(|_info: &TaskInfo, body: Body| body)
        .build();
    let pool = built.unwrap();
    service(&pool);
    let one: Pool = Pool::new(2);
    one.shutdown();
    let _: Pool = executors::scheduled(1);
    let single = executors::single_scheduled();
    service(&single);
    assert_eq!(single.schedule(Duration::ZERO, || 1).unwrap().join().unwrap(), 1);

    let handle: Result<ScheduledHandle<i32>, Rejected> = pool.schedule(Duration::ZERO, || 7);
    let mut handle = handle.unwrap();
    let _: TaskId = handle.id();
    let _: Duration = handle.remaining_delay();
    assert!(!handle.is_periodic());
    let _: Canceller = handle.canceller();
    let outcome: Option<Result<i32, JoinError>> = handle.join_timeout(Duration::MAX);
    assert_eq!(outcome.unwrap().unwrap(), 7);
    let _: Option<Result<i32, JoinError>> = handle.try_join();
    assert!(handle.is_done() && !handle.is_cancelled() && !handle.cancel(true));
    let far = pool.schedule(Duration::MAX, || ()).unwrap();
    assert_eq!(far.remaining_delay(), Duration::MAX);
    let dropped: CancelOnDrop<()> = far.cancel_on_drop();
    drop(dropped);

    let hour = Duration::from_secs(3600);
    let rate: Result<ScheduledHandle<()>, Rejected> = pool.schedule_at_fixed_rate(hour, hour, || ());
    let delay: Result<ScheduledHandle<()>, Rejected> = pool.schedule_with_fixed_delay(hour, hour, || ());
    let task = || PeriodicTask::new(|| ()).named("tick").missed_ticks(MissedTicks::Skip);
    let rate_task: Result<ScheduledHandle<()>, Rejected> =
        pool.schedule_at_fixed_rate_task(hour, hour, task());
    let delay_task: Result<ScheduledHandle<()>, Rejected> =
        pool.schedule_with_fixed_delay_task(hour, hour, task());
    for series in [rate, delay, rate_task, delay_task] {
        assert!(series.unwrap().is_periodic());
    }
    let refused = pool.schedule_at_fixed_rate(hour, Duration::ZERO, || ()).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::ZeroPeriod);
    let refused = pool.schedule_with_fixed_delay(hour, Duration::ZERO, || ()).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::ZeroPeriod);

    pool.set_remove_on_cancel_policy(true);
    pool.set_continue_existing_periodic_tasks_after_shutdown_policy(false);
    pool.set_execute_existing_delayed_tasks_after_shutdown_policy(true);
    let _: (bool, bool, bool) = (
        pool.remove_on_cancel_policy(),
        pool.continue_existing_periodic_tasks_after_shutdown_policy(),
        pool.execute_existing_delayed_tasks_after_shutdown_policy(),
    );

    let _: fn(&Pool) -> usize = Pool::core_pool_size;
    let _: fn(&Pool, usize) -> Result<(), ConfigError> = Pool::set_core_pool_size;
    let _: fn(&Pool) -> Duration = Pool::keep_alive_time;
    let _: fn(&Pool, Duration) -> Result<(), ConfigError> = Pool::set_keep_alive_time;
    let _: fn(&Pool) -> bool = Pool::allows_core_thread_time_out;
    let _: fn(&Pool, bool) -> Result<(), ConfigError> = Pool::allow_core_thread_time_out;
    let _: fn(&Pool) -> bool = Pool::prestart_core_thread;
    let _: fn(&Pool) -> usize = Pool::prestart_all_core_threads;
    let _: fn(&Pool) -> usize = Pool::pool_size;
    let _: fn(&Pool) -> usize = Pool::active_count;
    let _: fn(&Pool) -> usize = Pool::largest_pool_size;
    let _: fn(&Pool) -> u64 = Pool::task_count;
    let _: fn(&Pool) -> u64 = Pool::completed_task_count;
    let _: fn(&Pool) -> usize = Pool::queued_count;
    let _: fn(&Pool) -> Vec<TaskId> = Pool::queued_tasks;
    let _: fn(&Pool, TaskId) -> bool = Pool::remove;
    let _: fn(&Pool) -> usize = Pool::purge;
    let _: fn(&Pool) -> bool = Pool::is_terminating;
    let _: fn(&Pool) -> RunState = Pool::state;
    let _: fn(&Pool) -> PoolStats = Pool::stats;
    let _: fn(&Pool, Task) -> Result<(), Rejected> = Pool::execute_task;
    let _: fn(&Pool) -> Vec<Task> = Pool::shutdown_now;
    let _: fn(&Pool) -> bool = Pool::is_shutdown;
    let _: fn(&Pool) -> bool = Pool::is_terminated;
    let _: fn(&Pool, Duration) -> Result<bool, Interrupted> = Pool::await_termination;
    let _: fn(&Pool, Duration, Duration) -> ShutdownReport = Pool::shutdown_gracefully;
    type ThreadFactory = fn(WorkerBody) -> io::Result<JoinHandle<()>>;
    let _: fn(&Pool, ThreadFactory) = Pool::set_thread_factory;
    let _: Result<TaskHandle<u8>, Rejected> = pool.submit(|| 1_u8);
    let _: Result<TaskHandle<u8>, Rejected> = pool.submit_task(TaskOf::new(|| 1_u8));
    pool.execute(|| ()).unwrap();
    assert_eq!(pool.invoke_all([|| 1, || 2]).unwrap().len(), 2);
    assert_eq!(pool.invoke_any([|| Ok::<_, JoinError>(1)]).unwrap(), 1);
    pool.scope(|scope| scope.execute(|| ()).unwrap());
    pool.close();
}

#[test]
fn clocks_have_the_methods_of_their_contract() {
    let clock = ManualClock::new();
    let now: Instant = clock.clock().now();
    clock.advance(Duration::from_secs(5));
    assert_eq!(clock.elapsed(), Duration::from_secs(5));
    assert_eq!(clock.clock().now() - now, Duration::from_secs(5));
    let _: Instant = Clock::system().now();
}

/// Every method of a scheduler, called through a trait object.
fn use_scheduler(scheduler: &dyn Scheduler) {
    let second = Duration::from_secs(1);
    let now: Result<Disposable, Rejected> = scheduler.schedule_task(Task::new(|| ()).named("now"));
    let later: Result<Disposable, Rejected> = scheduler.schedule_task_after(second, Task::new(|| ()));
    let series: Result<Disposable, Rejected> =
        scheduler.schedule_periodically_task(second, second, PeriodicTask::new(|| ()));
    let _: Result<Disposable, Rejected> = scheduler.schedule(|| ());
    let soon = Duration::from_millis(1);
    let _: Result<Disposable, Rejected> = scheduler.schedule_after(soon, || ());
    let _: Result<Disposable, Rejected> = scheduler.schedule_periodically(second, second, || ());
    assert_eq!(now.unwrap().wait(Duration::MAX), Ok(true));
    assert!(later.unwrap().dispose());
    let series = series.unwrap();
    assert!(!series.is_disposed() && series.dispose() && series.is_disposed() && series.is_cancelled());

    let worker: Worker = scheduler.create_worker();
    let _: Result<Disposable, Rejected> = worker.schedule(|| ());
    let _: Result<Disposable, Rejected> = worker.schedule_after(second, || ());
    let _: Result<Disposable, Rejected> = worker.schedule_periodically(second, second, || ());
    let _: Result<Disposable, Rejected> = worker.schedule_task(Task::new(|| ()));
    let _: Result<Disposable, Rejected> = worker.schedule_task_after(second, Task::new(|| ()));
    let _: Result<Disposable, Rejected> =
        worker.schedule_periodically_task(second, second, PeriodicTask::new(|| ()));
    let _: usize = worker.queued();
    worker.dispose();
    assert!(worker.is_disposed());

    let stats: SchedulerStats = scheduler.stats();
    let _: (String, bool, usize, usize) = (stats.name, stats.disposed, stats.max_threads, stats.live_threads);
    let _: (usize, usize, usize, u64, u64) =
        (stats.slots, stats.busy, stats.idle, stats.queued, stats.remaining_capacity);
    let _: (u64, u64, u64, u64, u64) =
        (stats.submitted, stats.completed, stats.panicked, stats.cancelled, stats.rejected);

    let end: Pin<Box<dyn Future<Output = ()> + Send>> = scheduler.disposal();
    drop(end); // never polled, so it never begins
    assert!(!scheduler.is_disposed());
    let ended: Result<bool, Interrupted> = scheduler.dispose_gracefully(Duration::from_secs(60));
    assert_eq!(ended, Ok(true));
    assert!(scheduler.is_disposed());
    scheduler.dispose();
}

#[test]
fn schedulers_have_the_methods_of_their_contract() {
    let made: Result<Arc<dyn Scheduler>, ConfigError> = schedulers::new_single("one");
    use_scheduler(&*made.unwrap());
    let made: Result<Arc<dyn Scheduler>, ConfigError> = schedulers::new_parallel(2, "two");
    use_scheduler(&made.unwrap()); // an `Arc` of a scheduler is a scheduler too
    let minute = Duration::from_secs(60);
    let made: Result<Arc<dyn Scheduler>, ConfigError> =
        schedulers::new_bounded_elastic(2, usize::MAX, "three", minute);
    use_scheduler(&*made.unwrap());

    let built: Result<BoundedElasticScheduler, ConfigError> = BoundedElasticScheduler::builder()
        .max_threads(2)
        .queue_capacity_per_thread(10)
        .name("four")
        .ttl(minute)
        .affinity(Affinity::Strict)
        .thread_per_task(true)
        .thread_factory(|body: WorkerBody| -> io::Result<JoinHandle<()>> {
            std::thread::Builder::new().name(body.name().to_owned()).spawn(move || body.run())
        })
        .clock(Clock::system())
        .build();
    let elastic = built.unwrap();
    let _: (usize, usize, usize) = (elastic.max_threads(), elastic.live_threads(), elastic.slots());
    let _: (usize, usize, u64, u64) =
        (elastic.busy(), elastic.idle(), elastic.queued(), elastic.remaining_capacity());
    use_scheduler(&elastic);

    let pool = executors::fixed(1).unwrap();
    let on_executor: Arc<dyn Scheduler> = schedulers::from_executor(pool.clone());
    let on_service: Arc<dyn Scheduler> = schedulers::from_executor_service(pool);
    on_executor.dispose();
    on_service.dispose();
    let on_scheduled: Arc<dyn Scheduler> = schedulers::from_scheduled_executor(executors::scheduled(1));
    use_scheduler(&*on_scheduled);

    let original = schedulers::new_single("original").unwrap();
    let single: Arc<dyn Scheduler> = schedulers::single_worker(&*original);
    use_scheduler(&*single);

    let once = Disposable::from_fn(|| ());
    assert!(once.dispose() && !once.dispose());
    fn from_lane(lane: Arc<dyn Lane>) -> Worker {
        Worker::from_lane(lane)
    }
    let _ = from_lane;
}

struct Watch;
impl Decorator for Watch {}

struct Own;
impl Factory for Own {}

/// A scheduler and a lane of external code: implements only the required methods.
struct Mine(Arc<dyn Scheduler>);

impl Scheduler for Mine {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.0.schedule_task(task)
    }
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.0.schedule_task_after(delay, task)
    }
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.0.schedule_periodically_task(initial, period, task)
    }
    fn create_worker(&self) -> Worker {
        Worker::from_lane(Arc::new(MyLane(self.0.create_worker())))
    }
    fn dispose(&self) {
        self.0.dispose();
    }
    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.0.dispose_gracefully(timeout)
    }
    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.disposal()
    }
    fn is_disposed(&self) -> bool {
        self.0.is_disposed()
    }
    fn stats(&self) -> SchedulerStats {
        self.0.stats()
    }
}

struct MyLane(Worker);

impl Lane for MyLane {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.0.schedule_task(task)
    }
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.0.schedule_task_after(delay, task)
    }
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.0.schedule_periodically_task(initial, period, task)
    }
    fn dispose(&self) {
        self.0.dispose();
    }
    fn is_disposed(&self) -> bool {
        self.0.is_disposed()
    }
    fn queued(&self) -> usize {
        self.0.queued()
    }
}

/// A factory that implements every method.
struct Complete;

impl Factory for Complete {
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        DefaultFactory.new_single(name)
    }
    fn new_parallel(&self, n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        DefaultFactory.new_parallel(n, name)
    }
    fn new_bounded_elastic(
        &self,
        max_threads: usize,
        queue_capacity_per_thread: usize,
        name: &str,
        ttl: Duration,
    ) -> Result<Arc<dyn Scheduler>, ConfigError> {
        DefaultFactory.new_bounded_elastic(max_threads, queue_capacity_per_thread, name, ttl)
    }
}

/// Implements every method of a decorator.
struct SeesAll;

impl Decorator for SeesAll {
    fn slot_created(&self, slot: &SlotInfo) {
        let _: (&str, usize) = (slot.scheduler(), slot.index());
    }
    fn around(&self, _: &SlotInfo, run: &mut dyn FnMut()) {
        run();
    }
    fn slot_closed(&self, _: &SlotInfo) {}
}

#[test]
fn outside_code_can_write_schedulers_lanes_factories_and_decorators() {
    let inner = Complete.new_bounded_elastic(2, 10, "mine", Duration::from_secs(60)).unwrap();
    use_scheduler(&Mine(inner));
    assert_eq!(Complete.new_single("one").unwrap().stats().max_threads, 1);
    assert_eq!(Complete.new_parallel(2, "two").unwrap().stats().max_threads, 2);
    let _: Arc<dyn Decorator> = Arc::new(SeesAll);
}

#[test]
fn the_enums_of_time_can_be_matched() {
    // Exhaustive. Both are also found beside the schedulers.
    let missed = |missed: schedulers::MissedTicks| match missed {
        MissedTicks::CatchUp => 0,
        MissedTicks::Coalesce => 1,
        MissedTicks::Skip => 2,
    };
    assert_eq!(missed(MissedTicks::default()), 0);
    let _: PeriodicTask = schedulers::PeriodicTask::new(|| ());
    let affinity = |affinity: Affinity| match affinity {
        Affinity::Soft => 0,
        Affinity::Strict => 1,
    };
    assert_eq!(affinity(Affinity::Strict), 1);
    // Non-exhaustive.
    let reason = |reason: RejectReason| match reason {
        RejectReason::WorkerDisposed => 0,
        RejectReason::NotTimeCapable => 1,
        RejectReason::ZeroPeriod => 2,
        RejectReason::CallbackPanicked => 3,
        _ => 4,
    };
    assert_eq!(reason(RejectReason::Saturated), 4);
}

#[test]
fn the_facade_has_the_functions_of_its_contract() {
    let instances: [Shared; 4] = [
        schedulers::immediate(),
        schedulers::single(),
        schedulers::parallel(),
        schedulers::bounded_elastic(),
    ];
    assert!(instances[1] == schedulers::single() && instances[1] != instances[2]);
    schedulers::on_schedule("contract", |body: Body| -> Body { body });
    let _: bool = schedulers::reset_on_schedule("contract");
    schedulers::reset_all_on_schedule();
    schedulers::on_error("contract", |_: &TaskInfo, _: &Panic| ());
    let _: bool = schedulers::reset_on_error("contract");
    schedulers::reset_all_on_error();
    let _: bool = schedulers::add_decorator("contract", Arc::new(Watch));
    schedulers::set_decorator("contract", Arc::new(Watch));
    let _: Option<Arc<dyn Decorator>> = schedulers::remove_decorator("contract");
    let _: fn(&SlotInfo) -> &str = SlotInfo::scheduler;
    let _: fn(&SlotInfo) -> usize = SlotInfo::index;
    schedulers::set_factory(Own);
    schedulers::set_factory(DefaultFactory);
    schedulers::reset_factory();
    let snapshot: Snapshot = schedulers::set_factory_with_snapshot(Own);
    let _: bool = snapshot.is_disposed();
    schedulers::reset_from(snapshot);
    schedulers::set_factory_with_snapshot(Own).dispose();
    schedulers::reset_factory();
    let (time, snapshot): (VirtualTimeScheduler, Snapshot) = VirtualTimeScheduler::install();
    time.advance_by(Duration::from_secs(1));
    time.advance_to(Duration::from_secs(2));
    assert_eq!(time.now(), Duration::from_secs(2));
    schedulers::reset_from(snapshot);
    let _ = VirtualTimeScheduler::new();
    schedulers::shutdown_now();
    let defaults: &'static Defaults = schedulers::defaults();
    let _: (usize, usize, usize) =
        (defaults.pool_size, defaults.bounded_elastic_size, defaults.bounded_elastic_queue_size);
    let _: (Duration, bool) = (defaults.bounded_elastic_ttl, defaults.bounded_elastic_on_virtual_threads);
    let _: &'static [ConfigError] = schedulers::config_problems();
}
