//! User code of one scheduler never delays the timers of another: none of it runs on the timer
//! thread.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::support::{Gate, LONG, Notes, alone, eventually, threads_named};
use millpond::schedulers::{
    self, BoundedElasticScheduler, Decorator, Disposable, Scheduler, SchedulerExt, SlotInfo,
};
use millpond::{ScheduledThreadPoolExecutor, WorkerBody};

const SOON: Duration = Duration::from_millis(1);

/// Blocks every caller until it is released.
#[derive(Clone)]
struct Obstacle {
    reached: Gate,
    release: Gate,
    /// The names of the blocked threads.
    threads: Notes<String>,
}

impl Obstacle {
    fn new() -> Obstacle {
        Obstacle { reached: Gate::new(), release: Gate::new(), threads: Notes::new() }
    }

    fn block(&self) {
        self.threads.add(thread::current().name().unwrap_or_default().to_owned());
        self.reached.open();
        self.release.pass();
    }

    /// Asserts that timers of another scheduler fire while a thread is blocked here.
    #[track_caller]
    fn is_in_nobody_elses_way(&self) {
        self.reached.pass();
        let other = schedulers::new_single("other").unwrap();
        for _ in 0..3 {
            assert_eq!(
                other.schedule_after(SOON, || {}).unwrap().wait(LONG),
                Ok(true),
                "another's timer rings"
            );
        }
        assert!(!self.release.is_open());
        self.release.open();
        assert!(other.dispose_gracefully(LONG).unwrap());
        assert!(!self.threads.take().contains(&"millpond-timer".to_owned()));
    }
}

/// Blocks in its destructor.
struct Slow(Obstacle);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.block();
    }
}

fn start(body: WorkerBody) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(body.name().to_owned()).spawn(move || body.run())
}

#[track_caller]
fn ends(task: &Disposable) {
    assert_eq!(task.wait(LONG), Ok(true));
}

#[test]
fn a_thread_factory_that_blocks_delays_no_other_scheduler() {
    let _alone = alone();
    let obstacle = Obstacle::new();
    let blocks = obstacle.clone();
    let factory = move |body| {
        blocks.block();
        start(body)
    };
    let scheduler =
        BoundedElasticScheduler::builder().max_threads(2).thread_factory(factory).build().unwrap();
    let task = scheduler.schedule_after(SOON, || {}).unwrap();
    obstacle.is_in_nobody_elses_way();
    ends(&task);
    assert!(!task.is_cancelled());
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
}

#[test]
fn an_executor_that_blocks_delays_no_other_scheduler() {
    let _alone = alone();
    let obstacle = Obstacle::new();
    let blocks = obstacle.clone();
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(1);
    let pool = pool.decorate(move |_, body| {
        blocks.block();
        body
    });
    let scheduler = schedulers::from_scheduled_executor(pool.build().unwrap());
    let task = scheduler.schedule_after(SOON, || {}).unwrap();
    obstacle.is_in_nobody_elses_way();
    ends(&task);
    assert!(!task.is_cancelled());
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
}

/// Blocks when a slot of one scheduler is closed.
struct Closing {
    of: String,
    obstacle: Obstacle,
}

impl Decorator for Closing {
    fn slot_closed(&self, slot: &SlotInfo) {
        if slot.scheduler() == self.of {
            self.obstacle.block();
        }
    }
}

#[test]
fn a_decorator_that_blocks_delays_no_other_scheduler() {
    let _alone = alone();
    let obstacle = Obstacle::new();
    let builder = BoundedElasticScheduler::builder().name("decorated slots").max_threads(1);
    let scheduler = builder.ttl(SOON).build().unwrap();
    let of = scheduler.to_string();
    assert!(schedulers::add_decorator("closing", Arc::new(Closing { of, obstacle: obstacle.clone() })));
    ends(&scheduler.schedule(|| {}).unwrap());
    obstacle.is_in_nobody_elses_way(); // the slot has exceeded its time to live
    eventually(|| scheduler.slots() == 0);
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
    assert!(schedulers::remove_decorator("closing").is_some());
}

#[test]
fn a_destructor_of_refused_work_that_blocks_delays_no_other_scheduler() {
    let _alone = alone();
    let obstacle = Obstacle::new();
    // The pool accepts nothing, because it cannot start a thread.
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(1);
    let pool = pool.thread_factory(|_| Err(std::io::Error::other("out of threads")));
    let scheduler = schedulers::from_scheduled_executor(pool.build().unwrap());
    let captured = Slow(obstacle.clone());
    let task = scheduler.schedule_after(SOON, move || drop(captured)).unwrap();
    obstacle.is_in_nobody_elses_way();
    ends(&task);
    assert!(task.is_cancelled());
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
}

#[test]
fn a_scheduler_leaves_no_courier_behind() {
    let _alone = alone();
    let factory = |body: WorkerBody| start(body);
    let builder = BoundedElasticScheduler::builder().name("helped").max_threads(2);
    let scheduler = builder.thread_factory(factory).build().unwrap();
    ends(&scheduler.schedule_after(SOON, || {}).unwrap());
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
    // Couriers of other tests end too.
    eventually(|| threads_named("millpond-cour").is_none_or(|couriers| couriers == 0));
}

#[test]
fn a_courier_serves_many_timers_of_a_scheduler_over_an_executor() {
    let _alone = alone();
    let pool = ScheduledThreadPoolExecutor::new(2);
    let scheduler = schedulers::from_scheduled_executor(pool.clone());
    let tasks: Vec<_> = (0..200).map(|n| scheduler.schedule_after(n * SOON / 10, || {}).unwrap()).collect();
    tasks.iter().for_each(ends);
    let stats = scheduler.stats();
    assert_eq!((stats.completed, stats.queued), (200, 0));
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
    assert!(pool.execute_task(millpond::Task::new(|| {})).is_err(), "it was the scheduler's own");
}
