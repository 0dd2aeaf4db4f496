//! Work runs in the context of the thread that scheduled it.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use millpond::monitor::Captured;
use millpond::schedulers::{self, Disposable, Scheduler, SchedulerExt};
use millpond::{ManualClock, RejectReason, Task, ThreadPoolExecutor, WorkQueue};

use crate::scheduling::builder;
use crate::support::{Counter, CountsDrop, Gate, LONG, alone, eventually, occupy};

const SECOND: Duration = Duration::from_secs(1);

thread_local! {
    static REQUEST: Cell<u64> = const { Cell::new(0) };
}

struct Request(u64);

impl Captured for Request {
    fn enter(&mut self, run: &mut dyn FnMut()) {
        if self.0 == 13 {
            return; // does not run the task
        }
        let before = REQUEST.replace(self.0);
        run();
        run(); // a second call does nothing
        REQUEST.set(before);
    }
}

fn capture() -> Option<Box<dyn Captured>> {
    match REQUEST.get() {
        0 => None,
        666 => resume_unwind(Box::new("nothing to capture")),
        request => Some(Box::new(Request(request))),
    }
}

#[test]
fn the_context_arrives_on_every_path_and_is_restored() {
    let _alone = alone();
    schedulers::propagate("request", capture);
    let time = ManualClock::new();
    let elastic = builder(1, 100, &time).build().unwrap();
    let lane = elastic.create_worker();
    let (sender, received) = mpsc::channel();
    let send = move || _ = sender.send(REQUEST.get());
    let as_request = |request, schedule: &dyn Fn()| {
        REQUEST.set(request);
        schedule();
        REQUEST.set(0);
    };
    as_request(1, &|| _ = elastic.schedule(send.clone()).unwrap());
    as_request(2, &|| _ = lane.schedule(send.clone()).unwrap());
    as_request(3, &|| _ = elastic.schedule_after(SECOND, send.clone()).unwrap());
    as_request(4, &|| _ = lane.schedule_after(SECOND, send.clone()).unwrap());
    let next = || received.recv_timeout(LONG).unwrap();
    assert_eq!([next(), next()], [1, 2]);
    time.advance(SECOND);
    let mut delayed = [next(), next()];
    delayed.sort_unstable();
    assert_eq!(delayed, [3, 4]);
    as_request(5, &|| _ = elastic.schedule_periodically(SECOND, SECOND, send.clone()).unwrap());
    for _ in 0..3 {
        time.advance(SECOND);
        assert_eq!(next(), 5, "captured once, entered each time");
    }
    let (scheduler, inner) = (elastic.clone(), send.clone());
    as_request(6, &|| {
        let (scheduler, inner) = (scheduler.clone(), inner.clone());
        let outer = elastic.schedule(move || {
            REQUEST.set(7);
            let task = scheduler.schedule(inner.clone()).unwrap();
            REQUEST.set(6);
            assert!(task.wait(LONG).unwrap());
            inner();
        });
        assert!(outer.unwrap().wait(LONG).unwrap());
    });
    assert_eq!([next(), next()], [7, 6], "in place, and restored");
    as_request(0, &|| _ = elastic.schedule(send.clone()).unwrap());
    assert_eq!(next(), 0, "nothing is left behind on the thread");
    assert!(schedulers::reset_on_schedule("request"));
    as_request(8, &|| _ = elastic.schedule(send.clone()).unwrap());
    assert_eq!(next(), 0);
}

#[test]
fn a_panic_passes_the_context_and_a_context_that_does_not_run_the_task_is_one() {
    let _alone = alone();
    schedulers::propagate("request", capture);
    let single = schedulers::new_single("propagate").unwrap();
    REQUEST.set(1);
    assert!(single.schedule(|| resume_unwind(Box::new("a task"))).unwrap().wait(LONG).unwrap());
    REQUEST.set(13);
    assert!(single.schedule(|| {}).unwrap().wait(LONG).unwrap());
    REQUEST.set(666);
    assert_eq!(single.schedule(|| {}).unwrap_err().reason(), RejectReason::CallbackPanicked);
    REQUEST.set(0);
    let (request, get) = mpsc::channel();
    single.schedule(move || _ = request.send(REQUEST.get())).unwrap();
    assert_eq!(get.recv_timeout(LONG).unwrap(), 0, "restored after the panic");
    assert_eq!(single.stats().panicked, 2);
    assert!(schedulers::reset_on_schedule("request"));
}

/// A context of a pool that locks the scheduler when it is dropped.
struct Locks(Arc<dyn Scheduler>, CountsDrop);

impl Captured for Locks {
    fn enter(&mut self, run: &mut dyn FnMut()) {
        run();
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        let _ = (self.0.stats(), &self.1);
    }
}

/// Regression: a scheduler kept the description of a task in its job, and with it the context that
/// a pool had attached. So the context lived as long as the `Disposable`, and could be dropped
/// under the lock of the scheduler.
#[test]
fn a_context_from_a_pool_is_dropped_with_the_task_and_without_a_lock() {
    let _alone = alone();
    let scheduler = schedulers::new_single("overflow").unwrap();
    let (dropped, kept) = (Counter::new(), Arc::new(Mutex::new(None::<Disposable>)));
    let (to, keep) = (scheduler.create_worker(), Arc::clone(&kept));
    let (captured, count) = (Arc::clone(&scheduler), dropped.clone());
    let pool = ThreadPoolExecutor::builder()
        .core_pool_size(1)
        .maximum_pool_size(1)
        .work_queue(WorkQueue::array(1))
        .propagate(move || -> Option<Box<dyn Captured>> {
            Some(Box::new(Locks(Arc::clone(&captured), count.on_drop())))
        })
        .rejected_execution_handler(move |task: Task, _: &ThreadPoolExecutor| {
            let scheduled = to.schedule_task(task)?;
            *keep.lock().unwrap() = Some(scheduled);
            Ok(())
        })
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.execute(|| {}).unwrap();
    let before = dropped.get();
    pool.execute(|| {}).unwrap();
    let disposable = kept.lock().unwrap().take().unwrap();
    assert_eq!(disposable.wait(LONG), Ok(true));
    eventually(|| dropped.get() > before);
    let kept = dropped.get();
    drop(disposable);
    gate.open();
    assert!(kept > 0);
    pool.close();
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}
