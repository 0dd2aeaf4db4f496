//! Global hooks and decorators that panic or inspect the scheduler: no slot, place or count is
//! lost.
//!
//! Other files test their guarantees. These tests run in sequence.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use crate::scheduling::{MINUTE, assert_settled, elastic, end, ended, hold, per_task};
use crate::support::{Counter, PanicsOnDrop, SHORT, alone, die, eventually};
use millpond::schedulers::{
    self, BoundedElasticScheduler, Decorator, Factory, Scheduler, SchedulerExt, SlotInfo,
};
use millpond::{ConfigError, Executor, RejectReason, Rejected, Task};

struct Looks(Counter);

impl Decorator for Looks {
    fn around(&self, _: &SlotInfo, run: &mut dyn FnMut()) {
        self.0.add();
        run();
    }
}

// RS-056: better than Reactor, where the capacity of a decorated executor was unknown.
#[test]
fn room_is_known_also_of_decorated_slots() {
    let _alone = alone();
    let looks = Counter::new();
    assert!(schedulers::add_decorator("looks", Arc::new(Looks(looks.clone()))));
    let scheduler = elastic(2, 5);
    let held = hold(&scheduler);
    let busy = hold(&scheduler);
    assert_eq!(scheduler.remaining_capacity(), 10);
    let waits = [scheduler.schedule(|| {}).unwrap(), scheduler.schedule_after(MINUTE, || {}).unwrap()];
    assert_eq!((scheduler.remaining_capacity(), scheduler.queued()), (8, 2));
    assert!(waits[1].dispose());
    held.let_go();
    busy.let_go();
    ended(&waits[0]);
    assert!(schedulers::remove_decorator("looks").is_some());
    assert_eq!((scheduler.remaining_capacity(), looks.get()), (10, 3));
    end(&scheduler);
}

// RS-080
#[test]
fn an_error_hook_that_panics_leaves_the_task_done_and_its_slot_free() {
    let _alone = alone();
    let told = Counter::new();
    let count = told.clone();
    schedulers::on_error("dies", move |_, _| {
        count.add();
        die("in the hook");
    });
    for scheduler in [elastic(1, 10), per_task(1, 10)] {
        let worker = scheduler.create_worker();
        let dies = worker.schedule(|| die("in the task")).unwrap();
        ended(&dies);
        assert!(dies.is_disposed() && worker.queued() == 0);
        ended(&scheduler.schedule(|| die("in the task")).unwrap());
        ended(&worker.schedule(|| {}).unwrap());
        worker.dispose();
        end(&scheduler);
        assert_settled(&scheduler, 3, 10);
        assert_eq!(scheduler.stats().panicked, 2);
    }
    assert!(schedulers::reset_on_error("dies"));
    assert_eq!(told.get(), 4);
}

// RS-140: better than Reactor, where each panic lost a place.
#[test]
fn a_schedule_hook_that_panics_takes_no_place() {
    let _alone = alone();
    for scheduler in [elastic(1, 2), per_task(1, 2)] {
        let worker = scheduler.create_worker();
        schedulers::on_schedule("dies", |_| die("in the hook"));
        for n in 0..10 {
            let refused = match n % 4 {
                0 => scheduler.schedule(|| {}),
                1 => worker.schedule(|| {}),
                2 => worker.schedule_after(MINUTE, || {}),
                _ => scheduler.schedule_periodically(Duration::ZERO, MINUTE, || {}),
            };
            assert_eq!(refused.unwrap_err().reason(), RejectReason::CallbackPanicked);
            assert_eq!((scheduler.remaining_capacity(), worker.queued()), (2, 0));
            assert_eq!((scheduler.busy(), scheduler.queued()), (1, 0), "only the worker's");
        }
        assert!(schedulers::reset_on_schedule("dies"));
        ended(&worker.schedule(|| {}).unwrap());
        worker.dispose();
        end(&scheduler);
        assert_settled(&scheduler, 1, 2);
        assert_eq!(scheduler.stats().rejected, 10);
    }
}

struct Refuses;

impl Decorator for Refuses {
    fn slot_created(&self, _: &SlotInfo) {
        die("no slot today");
    }
}

// RS-140: the same for a decorator that panics at a new slot.
#[test]
fn a_decorator_that_panics_about_a_new_slot_takes_no_slot() {
    let _alone = alone();
    let scheduler = elastic(1, 2);
    schedulers::set_decorator("refuses", Arc::new(Refuses));
    for _ in 0..5 {
        let refused = scheduler.schedule(|| {}).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::CallbackPanicked);
        let stats = scheduler.stats();
        assert_eq!((stats.busy, stats.queued, stats.live_threads, stats.remaining_capacity), (0, 0, 0, 2));
    }
    assert!(schedulers::remove_decorator("refuses").is_some());
    ended(&scheduler.schedule(|| {}).unwrap());
    end(&scheduler);
    assert_settled(&scheduler, 1, 2);
}

/// Regression: an error hook that had removed itself was dropped outside of the code that catches
/// its panic. The panic ended the thread, and the slot stayed busy forever.
#[test]
fn an_error_hook_that_goes_with_a_panic_leaves_the_slot_free() {
    let _alone = alone();
    let dropped = Counter::new();
    for scheduler in [elastic(1, 10), per_task(1, 10)] {
        let bomb = PanicsOnDrop(dropped.on_drop());
        schedulers::on_error("goes", move |_, _| {
            let _mine = &bomb;
            assert!(schedulers::reset_on_error("goes"));
        });
        ended(&scheduler.schedule(|| die("in the task")).unwrap());
        ended(&scheduler.schedule(|| {}).unwrap());
        end(&scheduler);
        assert_settled(&scheduler, 2, 10);
    }
    assert_eq!(dropped.get(), 2);
}

/// Asserts that the shared timer thread is still running.
#[track_caller]
fn assert_time_goes_on() {
    ended(&schedulers::parallel().schedule_after(Duration::from_millis(1), || {}).unwrap());
}

struct Fragile(#[expect(dead_code, reason = "only its destructor matters")] PanicsOnDrop);

impl Decorator for Fragile {}

/// Regression: the last reference to a decorator was dropped with an evicted slot, on the timer
/// thread, which the panic ended.
#[test]
fn a_decorator_that_goes_with_a_panic_does_not_stop_the_time() {
    let _alone = alone();
    let dropped = Counter::new();
    for key in ["a", "b"] {
        schedulers::set_decorator(key, Arc::new(Fragile(PanicsOnDrop(dropped.on_drop()))));
    }
    let scheduler = schedulers::new_bounded_elastic(1, 10, "e", SHORT).unwrap();
    let series = scheduler.schedule_periodically(MINUTE, MINUTE, || {}).unwrap();
    for key in ["a", "b"] {
        drop(schedulers::remove_decorator(key));
    }
    assert!(series.dispose());
    eventually(|| dropped.get() == 2);
    assert_time_goes_on();
    end(&*scheduler);
}

/// Regression: the payload of a factory's panic was dropped outside of the code that catches
/// panics.
#[test]
fn a_panic_of_a_thread_factory_that_carries_another_does_not_stop_the_time() {
    let _alone = alone();
    let dropped = Counter::new();
    let count = dropped.clone();
    let factory = move |_| resume_unwind(Box::new(PanicsOnDrop(count.on_drop())));
    let scheduler = BoundedElasticScheduler::builder().thread_factory(factory).build().unwrap();
    let refused = scheduler.schedule(|| {}).unwrap_err();
    assert_eq!((refused.reason(), dropped.get()), (RejectReason::SpawnFailed, 1));
    scheduler.schedule_after(Duration::from_millis(1), || {}).unwrap();
    eventually(|| dropped.get() > 1);
    assert_time_goes_on();
    scheduler.dispose();
}

/// Panics with a payload that panics when it is dropped.
struct Explodes(Counter);

impl Explodes {
    fn explode(&self) -> ! {
        resume_unwind(Box::new(PanicsOnDrop(self.0.on_drop())))
    }
}

impl Executor for Explodes {
    fn execute_task(&self, _: Task) -> Result<(), Rejected> {
        self.explode()
    }
}

impl Factory for Explodes {
    fn new_single(&self, _: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.explode()
    }
}

/// The same at the other places where a panic of user code becomes a result.
#[test]
fn a_panic_that_carries_another_is_an_answer_like_any_other() {
    let _alone = alone();
    let dropped = Counter::new();
    let refused = schedulers::from_executor(Explodes(dropped.clone())).schedule(|| {}).unwrap_err();
    assert_eq!((refused.reason(), dropped.get()), (RejectReason::CallbackPanicked, 1));

    let before = schedulers::set_factory_with_snapshot(Explodes(dropped.clone()));
    assert_eq!(schedulers::new_single("one").unwrap_err(), ConfigError::FactoryPanicked);
    schedulers::reset_from(before);

    let explodes = Explodes(dropped.clone());
    schedulers::register_non_blocking_predicate(move |_| explodes.explode());
    assert!(!schedulers::is_in_non_blocking_thread());
    schedulers::reset_non_blocking_predicates();
    assert_eq!(dropped.get(), 3);
}
