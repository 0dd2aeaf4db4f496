//! Faults that schedulers had, one test each.

mod support;

use millpond::TaskOf;
use millpond::schedulers::{
    self, BoundedElasticScheduler, Decorator, Disposable, Scheduler, SchedulerExt, SlotInfo,
};
use std::sync::{Arc, OnceLock};
use support::{Counter, LONG, SHORT, die};

#[test]
fn a_callback_of_a_disposable_may_look_at_it() {
    let cell = Arc::new(OnceLock::<Disposable>::new());
    let mine = Arc::clone(&cell);
    let handle = Disposable::from_fn(move || assert!(mine.get().unwrap().is_disposed()));
    cell.set(handle.clone()).unwrap();
    assert!(handle.dispose());
}

#[test]
fn a_panic_that_a_handle_keeps_counts_as_a_panic() {
    let scheduler = schedulers::new_single("one").unwrap();
    let (task, handle) = TaskOf::new(|| -> u32 { die("boom") }).into_parts();
    scheduler.schedule_task(task).unwrap().wait(LONG).unwrap();
    assert!(handle.join().is_err());
    assert_eq!((scheduler.stats().completed, scheduler.stats().panicked), (0, 1));
}

/// Takes its time when a slot is closed.
struct Slow(Counter);
impl Decorator for Slow {
    fn slot_closed(&self, slot: &SlotInfo) {
        if slot.scheduler().contains("slow") {
            std::thread::sleep(SHORT);
            self.0.add();
        }
    }
}

#[test]
fn after_a_graceful_end_no_thread_is_left_also_with_a_thread_per_task() {
    let closed = Counter::new();
    assert!(schedulers::add_decorator("slow", Arc::new(Slow(closed.clone()))));
    let scheduler =
        BoundedElasticScheduler::builder().max_threads(1).thread_per_task(true).name("slow").build().unwrap();
    scheduler.schedule(|| {}).unwrap().wait(LONG).unwrap();
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    schedulers::remove_decorator("slow");
    assert_eq!(closed.get(), 1, "the thread is still calling slot_closed");
}

#[test]
fn more_threads_than_a_system_has_are_refused() {
    let error = schedulers::new_parallel(usize::MAX, "many").unwrap_err();
    assert!(error.to_string().contains(&usize::MAX.to_string()), "{error}");
}

#[test]
fn immediate_counts_what_its_workers_run() {
    let before = schedulers::immediate().stats().completed;
    schedulers::immediate().create_worker().schedule(|| {}).unwrap();
    assert_eq!(schedulers::immediate().stats().completed, before + 1);
}
