//! The shared schedulers, the factory behind them, and their defaults.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::support::{Counter, Gate, LONG, Notes, alone, die};
use millpond::schedulers::{
    self, BoundedElasticScheduler, DefaultFactory, Disposable, Factory, PeriodicTask, Scheduler,
    SchedulerExt, SchedulerStats, Shared, Snapshot, VirtualTimeScheduler, Worker,
};
use millpond::{ConfigError, Interrupted, RejectReason, Rejected, Task, executors};

const MINUTE: Duration = Duration::from_secs(60);

/// The name of the thread on which a task of `scheduler` runs.
#[track_caller]
fn thread_of(scheduler: &impl Scheduler) -> String {
    let names = Notes::new();
    let n = names.clone();
    let task = scheduler.schedule(move || n.add(thread::current().name().unwrap_or_default().to_owned()));
    assert_eq!(task.unwrap().wait(LONG), Ok(true));
    names.take().remove(0)
}

#[track_caller]
fn number_of(thread: &str, prefix: &str) -> u64 {
    let number = thread.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{thread} is not {prefix}-N"))
}

fn shared_ones() -> [Shared; 3] {
    [schedulers::single(), schedulers::parallel(), schedulers::bounded_elastic()]
}

#[test]
fn public_names_are_as_they_should_be() {
    let _alone = alone();
    fn is<T: Scheduler + Clone + Eq + Display + Debug + Send + Sync + 'static>() {}
    is::<Shared>();
    fn printed<T: Debug + Send + Sync + 'static>() {}
    printed::<Snapshot>();
    printed::<DefaultFactory>();
    let _: [fn() -> Shared; 4] =
        [schedulers::immediate, schedulers::single, schedulers::parallel, schedulers::bounded_elastic];
    let _: fn() = schedulers::shutdown_now;
    type Made = Result<Arc<dyn Scheduler>, ConfigError>;
    let _: fn(&str) -> Made = schedulers::new_single;
    let _: fn(usize, &str) -> Made = schedulers::new_parallel;
    let _: fn(usize, usize, &str, Duration) -> Made = schedulers::new_bounded_elastic;
    let _: fn(&dyn Scheduler) -> Arc<dyn Scheduler> = schedulers::single_worker;
    let _: fn() -> &'static schedulers::Defaults = schedulers::defaults;
    let _: fn() -> &'static [ConfigError] = schedulers::config_problems;
    let _: fn(Snapshot) = schedulers::reset_from;
    let _: fn(DefaultFactory) = schedulers::set_factory;
    let _: fn(DefaultFactory) -> Snapshot = schedulers::set_factory_with_snapshot;
    let _: &dyn Factory = &DefaultFactory;
}

/// RS-001, RS-005
#[test]
fn a_fresh_bounded_elastic_instance_has_all_its_room_and_no_slots() {
    let _alone = alone();
    let defaults = schedulers::defaults();
    let stats = schedulers::bounded_elastic().stats();
    assert_eq!(stats.max_threads, defaults.bounded_elastic_size);
    let room = defaults.bounded_elastic_size as u64 * defaults.bounded_elastic_queue_size as u64;
    assert_eq!((stats.remaining_capacity, stats.slots, stats.live_threads), (room, 0, 0));
    assert_eq!(schedulers::parallel().stats().max_threads, defaults.pool_size);
    assert_eq!(schedulers::single().stats().max_threads, 1);
    assert!(std::ptr::eq(defaults, schedulers::defaults()), "read once");
}

/// RS-007
#[test]
fn a_shared_instance_cannot_be_disposed_of_by_its_handles() {
    let _alone = alone();
    for shared in shared_ones().into_iter().chain([schedulers::immediate()]) {
        let gate = Gate::new();
        let (running, pass) = (Gate::new(), gate.clone());
        if shared != schedulers::immediate() {
            let started = running.clone();
            shared
                .schedule(move || {
                    started.open();
                    pass.pass();
                })
                .unwrap();
            running.pass();
        }
        shared.dispose();
        assert_eq!(shared.dispose_gracefully(Duration::ZERO), Ok(true), "at once, though a task runs");
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(pin!(shared.disposal()).poll(&mut context), Poll::Ready(()));
        assert!(!shared.is_disposed() && !shared.stats().disposed, "{shared}");
        gate.open();
        assert_eq!(shared.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    }
}

/// RS-008
#[test]
fn shutdown_now_ends_all_shared_instances_and_the_next_call_makes_new_ones() {
    let _alone = alone();
    let old = shared_ones();
    let workers: Vec<Worker> = old.iter().map(Scheduler::create_worker).collect();
    let waiting = old[0].schedule_after(LONG, || {}).unwrap();
    schedulers::shutdown_now();
    assert!(waiting.is_cancelled());
    for (shared, worker) in old.iter().zip(&workers) {
        assert!(shared.is_disposed());
        assert_eq!(shared.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
        assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    }
    for (old, new) in old.iter().zip(&shared_ones()) {
        assert_ne!(old, new);
        assert!(!new.is_disposed());
        assert_eq!(new.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    }
    assert!(!schedulers::immediate().is_disposed());
}

#[test]
fn an_accessor_gives_the_same_instance_again_also_to_threads_that_race_for_the_first() {
    let _alone = alone();
    let made = Counter::new();
    schedulers::set_factory(Counting { made: made.clone() });
    let start = std::sync::Barrier::new(4);
    let got: Vec<Shared> = thread::scope(|scope| {
        let race = || {
            start.wait();
            schedulers::parallel()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(race)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(got.iter().all(|shared| *shared == schedulers::parallel()));
    assert_eq!(got[0].schedule(|| {}).unwrap().wait(LONG), Ok(true), "those made for nothing did it no harm");
    let before = made.get();
    schedulers::parallel();
    assert_eq!(made.get(), before);
    assert_ne!(schedulers::single(), schedulers::parallel());
}

/// Makes what the default factory makes, and counts.
struct Counting {
    made: Counter,
}

impl Factory for Counting {
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.made.add();
        DefaultFactory.new_single(name)
    }

    fn new_parallel(&self, n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.made.add();
        DefaultFactory.new_parallel(n, name)
    }

    fn new_bounded_elastic(
        &self,
        max_threads: usize,
        queue_capacity_per_thread: usize,
        name: &str,
        ttl: Duration,
    ) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.made.add();
        DefaultFactory.new_bounded_elastic(max_threads, queue_capacity_per_thread, name, ttl)
    }
}

/// RS-009
#[test]
fn a_new_factory_ends_the_shared_instances_and_makes_everything_from_then_on() {
    let _alone = alone();
    let (own, old) = (schedulers::new_single("own").unwrap(), shared_ones());
    let made = Counter::new();
    schedulers::set_factory(Counting { made: made.clone() });
    assert!(old.iter().all(Scheduler::is_disposed));
    assert!(!own.is_disposed(), "what somebody made for himself goes on");
    assert_eq!(made.get(), 0, "made when they are asked for");
    let new = shared_ones();
    assert_eq!(made.get(), 3);
    drop(schedulers::new_single("x").unwrap());
    drop(schedulers::new_parallel(1, "x").unwrap());
    drop(schedulers::new_bounded_elastic(1, 1, "x", MINUTE).unwrap());
    assert_eq!(made.get(), 6);
    schedulers::reset_factory();
    assert!(new.iter().all(Scheduler::is_disposed));
    shared_ones();
    assert_eq!(made.get(), 6, "the default factory is back");
    assert_eq!(own.schedule(|| {}).unwrap().wait(LONG), Ok(true));
}

#[test]
fn a_snapshot_keeps_the_old_instances_alive_and_brings_them_back() {
    let _alone = alone();
    let outer = Counter::new();
    schedulers::set_factory(Counting { made: outer.clone() });
    let old = [schedulers::single(), schedulers::parallel()];
    let made = Counter::new();
    let snapshot = schedulers::set_factory_with_snapshot(Counting { made: made.clone() });
    assert!(old.iter().all(|shared| !shared.is_disposed()) && !snapshot.is_disposed());
    assert_eq!(old[0].schedule(|| {}).unwrap().wait(LONG), Ok(true));
    let meanwhile = shared_ones();
    assert_eq!((outer.get(), made.get()), (2, 3));
    schedulers::reset_from(snapshot);
    assert!(meanwhile.iter().all(Scheduler::is_disposed));
    assert_eq!(old, [schedulers::single(), schedulers::parallel()]);
    assert_eq!((outer.get(), made.get()), (2, 3));
    schedulers::bounded_elastic();
    assert_eq!((outer.get(), made.get()), (3, 3), "the factory from before is back too");
}

/// RS-011
#[test]
fn a_snapshot_disposes_of_what_it_keeps_and_is_disposed_when_all_of_that_is() {
    let _alone = alone();
    let empty = schedulers::set_factory_with_snapshot(DefaultFactory);
    assert!(empty.is_disposed(), "an absent instance counts as disposed");
    let old = [schedulers::single(), schedulers::parallel()];
    let snapshot = schedulers::set_factory_with_snapshot(DefaultFactory);
    let new = schedulers::single();
    assert!(!snapshot.is_disposed());
    snapshot.dispose();
    assert!(snapshot.is_disposed() && old.iter().all(Scheduler::is_disposed));
    assert!(!new.is_disposed());
    schedulers::reset_from(snapshot);
    assert!(new.is_disposed());
    assert!(!schedulers::single().is_disposed(), "a dead one is not brought back");
    drop(empty);
    assert!(!schedulers::single().is_disposed());
}

#[test]
fn a_snapshot_that_is_dropped_disposes_of_what_it_keeps() {
    let _alone = alone();
    let (old, made) = (schedulers::single(), Counter::new());
    drop(schedulers::set_factory_with_snapshot(Counting { made: made.clone() }));
    assert!(old.is_disposed());
    schedulers::single();
    assert_eq!(made.get(), 1, "the factory stays");
}

/// Fails on request.
struct Failing {
    how: Notes<Failure>,
    asked: Counter,
}

#[derive(Debug, Clone, Copy)]
enum Failure {
    Error,
    Panic,
}

impl Factory for Failing {
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.asked.add();
        match self.how.take().first() {
            Some(Failure::Error) => Err(ConfigError::ZeroTtl),
            Some(Failure::Panic) => die("the factory"),
            None => DefaultFactory.new_single(name),
        }
    }
}

#[test]
fn a_factory_that_fails_for_a_shared_instance_does_no_harm() {
    let _alone = alone();
    let (how, asked) = (Notes::new(), Counter::new());
    schedulers::set_factory(Failing { how: how.clone(), asked: asked.clone() });
    how.add(Failure::Error);
    let instead = schedulers::single();
    assert_eq!(instead.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    how.add(Failure::Panic);
    assert_eq!(schedulers::single(), instead, "not a new one for each failure");
    assert_eq!(asked.get(), 2, "each call tries again");
    let proper = schedulers::single();
    assert_ne!(proper, instead);
    assert_eq!((schedulers::single() == proper, asked.get()), (true, 3));
    assert!(!instead.is_disposed(), "its owner can still use it");
    schedulers::shutdown_now();
    assert!(instead.is_disposed() && proper.is_disposed());
}

#[test]
fn a_factory_that_fails_for_a_scheduler_of_ones_own_says_so() {
    let _alone = alone();
    let how = Notes::new();
    schedulers::set_factory(Failing { how: how.clone(), asked: Counter::new() });
    how.add(Failure::Error);
    assert_eq!(schedulers::new_single("x").unwrap_err(), ConfigError::ZeroTtl);
    how.add(Failure::Panic);
    assert_eq!(schedulers::new_single("x").unwrap_err(), ConfigError::FactoryPanicked);
    assert!(schedulers::new_single("x").is_ok());
}

/// A factory whose single scheduler is a lane of the shared parallel one: it calls the library
/// while the library calls it.
struct OnParallel;

impl Factory for OnParallel {
    fn new_single(&self, _name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        Ok(schedulers::single_worker(&schedulers::parallel()))
    }
}

#[test]
fn no_lock_is_held_while_a_factory_works() {
    let _alone = alone();
    schedulers::set_factory(OnParallel);
    assert!(thread_of(&schedulers::single()).starts_with("parallel-"));
    assert_eq!(schedulers::single().to_string(), "schedulers::single()");
}

/// While it makes an instance, another factory is set.
struct Overtaken {
    asked: Gate,
    go_on: Gate,
    made: Notes<Arc<dyn Scheduler>>,
}

impl Factory for Overtaken {
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.asked.open();
        self.go_on.pass();
        let made = DefaultFactory.new_single(name)?;
        self.made.add(Arc::clone(&made));
        Ok(made)
    }
}

#[test]
fn what_a_factory_makes_that_is_no_longer_in_force_is_not_kept() {
    let _alone = alone();
    let (asked, go_on, made) = (Gate::new(), Gate::new(), Notes::new());
    schedulers::set_factory(Overtaken { asked: asked.clone(), go_on: go_on.clone(), made: made.clone() });
    let count = Counter::new();
    thread::scope(|scope| {
        let late = scope.spawn(schedulers::single);
        asked.pass();
        schedulers::set_factory(Counting { made: count.clone() });
        go_on.open();
        assert_eq!(late.join().unwrap(), schedulers::single());
    });
    let made = made.take();
    assert_eq!((count.get(), made.len()), (1, 1));
    assert!(made[0].is_disposed(), "no other code would dispose it");
}

const RACING: usize = 4;

type Make = dyn Fn() -> Arc<dyn Scheduler> + Send + Sync;

/// Waits until `RACING` callers want an instance. Then makes a new one for each, or returns what
/// `again` returns.
struct Contended {
    all_here: Barrier,
    again: Option<Box<Make>>,
    made: Notes<Arc<dyn Scheduler>>,
}

impl Contended {
    fn new(again: Option<Box<Make>>, made: &Notes<Arc<dyn Scheduler>>) -> Contended {
        Contended { all_here: Barrier::new(RACING), again, made: made.clone() }
    }
}

impl Factory for Contended {
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.all_here.wait();
        let made =
            self.again.as_ref().map_or_else(|| DefaultFactory.new_single(name), |again| Ok(again()))?;
        self.made.add(Arc::clone(&made));
        Ok(made)
    }
}

/// Lets `RACING` threads request the shared single scheduler at once.
fn race_for_single() -> Shared {
    thread::scope(|scope| {
        let racing: Vec<_> = (0..RACING).map(|_| scope.spawn(schedulers::single)).collect();
        let mut shared: Vec<_> = racing.into_iter().map(|thread| thread.join().unwrap()).collect();
        shared.dedup();
        assert_eq!(shared.len(), 1);
        shared.remove(0)
    })
}

#[test]
fn instances_that_lost_a_race_are_disposed() {
    let (_alone, made) = (alone(), Notes::new());
    schedulers::set_factory(Contended::new(None, &made));
    let shared = race_for_single();
    let disposed: Vec<_> = made.take().iter().map(|made| made.is_disposed()).collect();
    assert_eq!(disposed.len(), RACING);
    assert_eq!(disposed.iter().filter(|disposed| !**disposed).count(), 1, "{disposed:?}");
    assert!(!shared.is_disposed());
}

#[test]
fn an_instance_that_a_factory_gives_again_is_not_disposed() {
    let (_alone, made) = (alone(), Notes::new());
    let one = DefaultFactory.new_single("one").unwrap();
    let again = Arc::clone(&one);
    schedulers::set_factory(Contended::new(Some(Box::new(move || Arc::clone(&again))), &made));
    let shared = race_for_single();
    assert_eq!(made.take().len(), RACING);
    assert!(!one.is_disposed());
    assert!(thread_of(&shared).starts_with("one-"));
}

/// A scheduler that can be cloned is the same instance in each `Arc` that a factory makes of it.
#[test]
fn an_instance_that_a_factory_gives_again_by_another_handle_is_not_disposed() {
    let _alone = alone();
    fn again(one: impl Scheduler + Clone + 'static) {
        let (made, handle) = (Notes::new(), one.clone());
        schedulers::set_factory(Contended::new(Some(Box::new(move || Arc::new(handle.clone()))), &made));
        let shared = race_for_single();
        assert_eq!(made.take().len(), RACING);
        assert!(!one.is_disposed() && !shared.is_disposed());
        schedulers::reset_factory();
        assert!(one.is_disposed(), "as the shared instance that it is");
    }
    again(BoundedElasticScheduler::builder().max_threads(1).build().unwrap());
    again(VirtualTimeScheduler::new());
    again(DefaultFactory.new_single("one").unwrap());
    again(schedulers::single_worker(&*DefaultFactory.new_single("one").unwrap()));
}

/// Returns its only scheduler for both kinds. The second request waits until another factory is
/// set.
struct Miserly {
    one: Arc<dyn Scheduler>,
    asked: Gate,
    go_on: Gate,
}

impl Factory for Miserly {
    fn new_single(&self, _name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        Ok(Arc::clone(&self.one))
    }
    fn new_parallel(&self, _n: usize, _name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.asked.open();
        self.go_on.pass();
        Ok(Arc::clone(&self.one))
    }
}

#[test]
fn an_instance_that_a_snapshot_keeps_is_not_disposed_when_it_comes_too_late_once_more() {
    let _alone = alone();
    let (one, asked, go_on) = (DefaultFactory.new_single("one").unwrap(), Gate::new(), Gate::new());
    let miserly = Miserly { one: Arc::clone(&one), asked: asked.clone(), go_on: go_on.clone() };
    schedulers::set_factory(miserly);
    let single = schedulers::single();
    thread::scope(|scope| {
        let late = scope.spawn(schedulers::parallel);
        asked.pass();
        let before = schedulers::set_factory_with_snapshot(DefaultFactory);
        go_on.open();
        assert!(!late.join().unwrap().is_disposed());
        assert!(!one.is_disposed());
        schedulers::reset_from(before);
    });
    assert_eq!(schedulers::single(), single);
    assert!(thread_of(&single).starts_with("one-"));
}

/// A custom scheduler that panics on disposal.
struct Fragile;

impl Scheduler for Fragile {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        Err(Rejected::new(task, RejectReason::Saturated))
    }
    fn schedule_task_after(&self, _delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.schedule_task(task)
    }
    fn schedule_periodically_task(
        &self,
        _initial: Duration,
        _period: Duration,
        _task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.schedule_task(Task::new(|| {}))
    }
    fn create_worker(&self) -> Worker {
        schedulers::immediate().create_worker()
    }
    fn dispose(&self) {
        die("the end")
    }
    fn dispose_gracefully(&self, _timeout: Duration) -> Result<bool, Interrupted> {
        die("the end")
    }
    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        die("the end")
    }
    fn is_disposed(&self) -> bool {
        false
    }
    fn stats(&self) -> SchedulerStats {
        SchedulerStats::default()
    }
}

struct MakesFragile;

impl Factory for MakesFragile {
    fn new_single(&self, _name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        Ok(Arc::new(Fragile))
    }
}

#[test]
fn an_instance_whose_end_panics_does_not_keep_the_others_from_ending() {
    let _alone = alone();
    schedulers::set_factory(MakesFragile);
    let (fragile, parallel) = (schedulers::single(), schedulers::parallel());
    assert_eq!(fragile.dispose_gracefully(LONG), Ok(true), "the handle's does nothing");
    assert_eq!(fragile.schedule(|| {}).unwrap_err().reason(), RejectReason::Saturated, "the rest is its own");
    schedulers::shutdown_now();
    assert!(parallel.is_disposed());
    assert_ne!(schedulers::single(), fragile);
}

/// RS-012
#[test]
fn a_new_scheduler_can_be_used_at_once_and_defaults_fill_what_is_not_said() {
    let _alone = alone();
    let defaults = schedulers::defaults();
    for new in [
        schedulers::new_single("x").unwrap(),
        schedulers::new_parallel(2, "x").unwrap(),
        schedulers::new_bounded_elastic(2, 2, "x", MINUTE).unwrap(),
    ] {
        assert!(!new.is_disposed());
        assert_eq!(new.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    }
    let elastic = BoundedElasticScheduler::builder().build().unwrap();
    assert_eq!(elastic.max_threads(), defaults.bounded_elastic_size);
    let ttl = format!("ttl={}s", defaults.bounded_elastic_ttl.as_secs());
    assert!(elastic.to_string().contains(&ttl), "{elastic}");
}

/// RS-013
#[test]
fn threads_of_one_kind_are_numbered_together() {
    let _alone = alone();
    let elastic = || schedulers::new_bounded_elastic(1, 1, "numbered", MINUTE).unwrap();
    let first = number_of(&thread_of(&elastic()), "numbered");
    let second = number_of(&thread_of(&elastic()), "numbered");
    assert!(first < second, "{first}, {second}");
    let first = number_of(&thread_of(&schedulers::new_single("numbered").unwrap()), "numbered");
    let second = number_of(&thread_of(&schedulers::new_single("numbered").unwrap()), "numbered");
    assert!(first < second, "{first}, {second}");
}

/// RS-014
#[test]
fn threads_of_shared_instances_are_called_after_their_kind() {
    let _alone = alone();
    number_of(&thread_of(&schedulers::single()), "single");
    number_of(&thread_of(&schedulers::parallel()), "parallel");
    number_of(&thread_of(&schedulers::bounded_elastic()), "boundedElastic");
    let here = thread::current().name().unwrap_or_default().to_owned();
    assert_eq!(thread_of(&schedulers::immediate()), here);
}

/// RS-015
#[test]
fn figures_of_zero_are_refused_with_their_name() {
    let _alone = alone();
    let refusals = [
        (schedulers::new_parallel(0, "x"), "parallelism is 0"),
        (schedulers::new_bounded_elastic(0, 1, "x", MINUTE), "max_threads is 0"),
        (schedulers::new_bounded_elastic(1, 0, "x", MINUTE), "(queue_capacity_per_thread) is 0"),
        (schedulers::new_bounded_elastic(1, 1, "x", Duration::ZERO), "ttl is 0s"),
    ];
    for (refusal, told) in refusals {
        let error = refusal.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

/// RS-016
#[test]
fn a_time_to_live_may_be_as_long_as_one_likes() {
    let _alone = alone();
    for (ttl, shown) in [
        (Duration::from_secs(2_147_483_647), "ttl=2147483647s"),
        (Duration::MAX, "ttl=18446744073709551615s"),
    ] {
        let elastic = schedulers::new_bounded_elastic(1, 1, "x", ttl).unwrap();
        assert_eq!(elastic.schedule(|| {}).unwrap().wait(LONG), Ok(true));
        assert!(elastic.to_string().contains(shown), "{elastic}");
    }
}

/// RS-017
#[test]
fn a_bounded_elastic_scheduler_shows_its_figures() {
    let _alone = alone();
    let show = |capacity, ttl| {
        let builder = BoundedElasticScheduler::builder().thread_per_task(false).max_threads(3);
        let elastic = builder.queue_capacity_per_thread(capacity).name("db").ttl(Duration::from_millis(ttl));
        elastic.build().unwrap().to_string()
    };
    let shown = |capacity: &str, ttl: &str| {
        format!("boundedElastic(\"db\",maxThreads=3,maxTaskQueuedPerThread={capacity},ttl={ttl})")
    };
    assert_eq!(show(5, 60_000), shown("5", "60s"));
    assert_eq!(show(5, 1_659), shown("5", "1s"));
    assert_eq!(show(5, 523), shown("5", "523ms"));
    assert_eq!(show(usize::MAX, 1_000), shown("unbounded", "1s"));
}

/// RS-018
#[test]
fn schedulers_show_what_they_are() {
    let _alone = alone();
    let shared = schedulers::parallel();
    assert_eq!(shared.to_string(), "schedulers::parallel()");
    assert_eq!(shared.stats().name, "schedulers::parallel()");
    assert_eq!(schedulers::single().to_string(), "schedulers::single()");
    assert_eq!(schedulers::bounded_elastic().to_string(), "schedulers::bounded_elastic()");
    assert_eq!(schedulers::immediate().to_string(), "schedulers::immediate()");
    assert!(format!("{shared:?}").contains("schedulers::parallel()"));
    assert_eq!(shared.stats().slots, schedulers::defaults().pool_size, "all else is the scheduler's own");
    assert_eq!(schedulers::new_parallel(3, "sum").unwrap().to_string(), "parallel(3,\"sum\")");
    assert_eq!(schedulers::new_single("log").unwrap().to_string(), "single(\"log\")");
    let service = schedulers::from_executor_service(executors::fixed(1).unwrap());
    assert_eq!(service.to_string(), "fromExecutorService");
    assert_eq!(schedulers::single_worker(&shared).to_string(), "singleWorker(schedulers::parallel())");
}

/// RS-126
#[test]
fn threads_of_single_and_parallel_should_not_block_and_predicates_mark_others() {
    let _alone = alone();
    let marked = |scheduler: &dyn Scheduler| {
        let answers = Notes::new();
        let n = answers.clone();
        let task = scheduler.schedule(move || n.add(schedulers::is_in_non_blocking_thread()));
        assert_eq!(task.unwrap().wait(LONG), Ok(true));
        answers.take()[0]
    };
    assert!(marked(&schedulers::single()) && marked(&schedulers::parallel()));
    assert!(marked(&schedulers::new_single("x").unwrap()));
    let blocking = schedulers::new_bounded_elastic(1, 1, "may-block", MINUTE).unwrap();
    let pool = schedulers::from_executor(executors::fixed(1).unwrap());
    assert!(!marked(&schedulers::bounded_elastic()) && !marked(&blocking) && !marked(&pool));
    assert!(!schedulers::is_in_non_blocking_thread() && !marked(&schedulers::immediate()));

    schedulers::register_non_blocking_predicate(|_| die("no idea"));
    schedulers::register_non_blocking_predicate(|thread| {
        thread.name().is_some_and(|name| name.starts_with("may-block"))
    });
    schedulers::register_non_blocking_predicate(|_| false);
    assert!(marked(&blocking), "one of them says so");
    assert!(!marked(&pool) && marked(&schedulers::single()));
    schedulers::reset_non_blocking_predicates();
    assert!(!marked(&blocking) && marked(&schedulers::single()));
}

#[test]
fn a_predicate_may_come_back_to_us() {
    let _alone = alone();
    let dropped = Counter::new();
    let kept = dropped.on_drop();
    schedulers::register_non_blocking_predicate(move |_| {
        let _kept = &kept;
        schedulers::reset_non_blocking_predicates();
        true
    });
    assert!(schedulers::is_in_non_blocking_thread());
    assert_eq!(dropped.get(), 1);
    assert!(!schedulers::is_in_non_blocking_thread());
}

// ---- the environment, which is read once: each case needs its own process

/// Runs this file's test `what_a_process_reads` with the given variables, and returns its report.
#[track_caller]
fn in_a_process_with(variables: &[(&str, &str)]) -> BTreeSet<String> {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["shared::what_a_process_reads", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MILLPOND_") {
            process.env_remove(name);
        }
    }
    let output = process.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said.lines().filter_map(|line| line.split_once("reads: ")).map(|(_, fact)| fact.to_owned()).collect()
}

#[test]
#[ignore = "run by others, in processes with variables of their own"]
fn what_a_process_reads() {
    let _alone = alone();
    let tell = |fact: String| println!("\nreads: {fact}");
    let (parallel, elastic) = (schedulers::parallel().stats(), schedulers::bounded_elastic().stats());
    tell(format!("parallel {}", parallel.max_threads));
    tell(format!("elastic {} with room for {}", elastic.max_threads, elastic.remaining_capacity));
    tell(format!("ttl {:?}", schedulers::defaults().bounded_elastic_ttl));
    tell(format!("thread {}", thread_of(&schedulers::bounded_elastic())));
    tell(format!("other thread {}", thread_of(&schedulers::bounded_elastic())));
    for problem in schedulers::config_problems() {
        tell(format!("problem {problem}"));
    }
}

fn facts<const N: usize>(facts: [&str; N]) -> BTreeSet<String> {
    facts.into_iter().map(str::to_owned).collect()
}

/// RS-002
#[test]
fn the_shared_instances_are_made_as_the_environment_says() {
    let _alone = alone();
    let read = in_a_process_with(&[
        ("MILLPOND_DEFAULT_POOL_SIZE", "3"),
        ("MILLPOND_BOUNDED_ELASTIC_SIZE", "7"),
        ("MILLPOND_BOUNDED_ELASTIC_QUEUE_SIZE", "11"),
        ("MILLPOND_BOUNDED_ELASTIC_TTL_SECONDS", "5"),
    ]);
    let expected = facts([
        "parallel 3",
        "elastic 7 with room for 77",
        "ttl 5s",
        "thread boundedElastic-1",
        "other thread boundedElastic-1",
    ]);
    assert_eq!(read, expected);
}

/// RS-003, RS-014
#[test]
fn the_word_true_gives_every_task_a_fresh_thread() {
    let _alone = alone();
    let read = in_a_process_with(&[
        ("MILLPOND_BOUNDED_ELASTIC_SIZE", "7"),
        ("MILLPOND_BOUNDED_ELASTIC_ON_VIRTUAL_THREADS", "True"),
    ]);
    assert!(read.contains("thread loomBoundedElastic-1"), "{read:?}");
    assert!(read.contains("other thread loomBoundedElastic-2"), "{read:?}");
}

/// RS-001, RS-004
#[test]
fn a_process_with_a_bad_environment_works_with_the_defaults_and_can_say_what_is_wrong() {
    let _alone = alone();
    let cores = thread::available_parallelism().unwrap().get();
    let read = in_a_process_with(&[
        ("MILLPOND_DEFAULT_POOL_SIZE", "many"),
        ("MILLPOND_BOUNDED_ELASTIC_SIZE", "0"),
        ("MILLPOND_BOUNDED_ELASTIC_ON_VIRTUAL_THREADS", "yes"),
    ]);
    let expected = facts([
        &format!("parallel {cores}"),
        &format!("elastic {} with room for {}", 10 * cores, 1_000_000 * cores),
        "ttl 60s",
        "thread boundedElastic-1",
        "other thread boundedElastic-1",
        "problem MILLPOND_DEFAULT_POOL_SIZE is \"many\", but it should be a whole number above zero",
        "problem MILLPOND_BOUNDED_ELASTIC_SIZE is \"0\", but it should be a whole number above zero",
        "problem MILLPOND_BOUNDED_ELASTIC_ON_VIRTUAL_THREADS is \"yes\", but it should be true or false",
    ]);
    assert_eq!(read, expected);
}
