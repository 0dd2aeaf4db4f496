//! Hooks and decorators of the whole process that panic or look closely: no slot, place or count is lost by them.
//!
//! What they promise otherwise is tested elsewhere. The tests here run one after the other.

#[path = "support/schedulers.rs"]
mod scheduling;
mod support;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond::RejectReason;
use millpond::schedulers::{self, Decorator, Scheduler, SchedulerExt, SlotInfo};
use scheduling::{MINUTE, assert_settled, elastic, end, ended, hold, per_task};
use support::{Counter, die};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Looks(Counter);

impl Decorator for Looks {
    fn around(&self, _: &SlotInfo, run: &mut dyn FnMut()) {
        self.0.add();
        run();
    }
}

// RS-056: better than Reactor, where a decorated executor could not be asked.
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

// RS-140: better than Reactor, where each time a place was lost.
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

// RS-140: the same for a decorator that does not want a slot.
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
