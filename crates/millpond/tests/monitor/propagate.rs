//! The context of the submitting thread is available wherever a task runs.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use millpond::monitor::{Captured, Propagate};
use millpond::{
    JoinError, RejectReason, RejectedExecutionHandler, ScheduledPoolRef, ScheduledThreadPoolExecutor, Task,
    TaskOf, ThreadPoolExecutor, WorkQueue, policy,
};

use crate::support::{Counter, Gate, LONG, die, eventually, occupied, soon};

thread_local!(static REQUEST: Cell<u32> = const { Cell::new(0) });

struct Request(u32);

impl Captured for Request {
    fn enter(&mut self, run: &mut dyn FnMut()) {
        let before = REQUEST.replace(self.0);
        run();
        assert_eq!(REQUEST.replace(before), self.0);
    }
}

/// Carries `REQUEST` unless it is 0, and counts the captures.
#[derive(Clone, Default)]
struct Requests(Arc<AtomicUsize>);

impl Propagate for Requests {
    fn capture(&self) -> Option<Box<dyn Captured>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let request = REQUEST.get();
        (request != 0).then(|| Box::new(Request(request)) as Box<dyn Captured>)
    }
}

fn pool(threads: usize) -> (ThreadPoolExecutor, Requests) {
    let requests = Requests::default();
    let builder = ThreadPoolExecutor::builder().core_pool_size(threads).maximum_pool_size(threads);
    let builder = builder.work_queue(WorkQueue::array(100)).propagate(requests.clone());
    (builder.build().unwrap(), requests)
}

#[test]
fn the_context_arrives_by_every_submitting_method() {
    let (pool, requests) = pool(2);
    REQUEST.set(7);
    let (send, seen) = mpsc::channel();
    pool.execute(move || send.send(REQUEST.get()).unwrap()).unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap(), 7);
    assert_eq!(pool.submit(|| REQUEST.get()).unwrap().join().unwrap(), 7);
    assert_eq!(pool.try_submit(|| REQUEST.get()).unwrap().join().unwrap(), 7);
    let (task, handle) = TaskOf::new(|| REQUEST.get()).named("named").into_parts();
    pool.execute_task(task).unwrap();
    assert_eq!(handle.join().unwrap(), 7);
    let all = pool.invoke_all((0..3).map(|_| || REQUEST.get())).unwrap();
    assert!(all.into_iter().all(|seen| seen.join().unwrap() == 7));
    assert_eq!(pool.invoke_any([|| Ok::<_, String>(REQUEST.get())]).unwrap(), 7);
    let mut seen = [0; 4];
    pool.scope(|scope| seen.iter_mut().for_each(|seen| scope.execute(|| *seen = REQUEST.get()).unwrap()));
    assert_eq!(seen, [7; 4]);
    assert_eq!(requests.0.load(Ordering::Relaxed), 12, "one capture for each");

    REQUEST.set(0);
    assert_eq!(pool.submit(|| REQUEST.get()).unwrap().join().unwrap(), 0, "threads are restored");
    pool.close();
}

#[cfg(feature = "futures")]
#[test]
fn a_future_captures_once_where_it_is_spawned_or_submitted() {
    use millpond::reactive::{ExecutorFutureExt, block_on};

    let (pool, requests) = pool(2);
    REQUEST.set(3);
    let submission = pool.submit_async(|| REQUEST.get());
    let (go_on, waits) = millpond_oneshot();
    let future = pool.spawn_future(async move {
        let before = REQUEST.get();
        waits.await;
        (before, REQUEST.get())
    });
    REQUEST.set(9);
    let seen = thread::spawn(move || block_on(submission).unwrap().unwrap().join().unwrap());
    assert_eq!(seen.join().unwrap(), 3, "not the thread that polls");
    thread::spawn(move || {
        REQUEST.set(5);
        go_on();
    });
    assert_eq!(future.unwrap().join().unwrap(), (3, 3), "not the thread that wakes");
    assert_eq!(requests.0.load(Ordering::Relaxed), 2);
    REQUEST.set(0);
    pool.close();
}

/// Returns a future and a function that completes it.
#[cfg(feature = "futures")]
fn millpond_oneshot() -> (impl FnOnce() + Send, impl Future<Output = ()> + Send) {
    let other = millpond::executors::fixed(1).unwrap();
    let gate = Gate::new();
    let wait = gate.clone();
    let done = other.submit(move || wait.pass()).unwrap();
    (move || gate.open(), async move {
        done.await.unwrap();
        drop(other);
    })
}

#[test]
fn delayed_and_periodic_tasks_carry_the_context_and_capture_once() {
    let requests = Requests::default();
    let pool = ScheduledThreadPoolExecutor::builder().propagate(requests.clone()).build().unwrap();
    REQUEST.set(4);
    let once = pool.schedule(Duration::from_millis(1), || REQUEST.get()).unwrap();
    assert_eq!(once.join().unwrap(), 4);
    assert_eq!(pool.submit(|| REQUEST.get()).unwrap().join().unwrap(), 4);
    let (send, runs) = mpsc::channel();
    let step = Duration::from_millis(1);
    let series = pool.schedule_at_fixed_rate(step, step, move || _ = send.send(REQUEST.get())).unwrap();
    REQUEST.set(0);
    (0..5).for_each(|_| assert_eq!(runs.recv_timeout(LONG).unwrap(), 4));
    series.cancel(false);
    assert_eq!(requests.0.load(Ordering::Relaxed), 3);
    pool.close();
}

#[test]
fn a_task_that_its_caller_runs_or_that_is_joined_in_place_has_its_context() {
    let (pool, _) = pool(1);
    let inner = pool.downgrade();
    REQUEST.set(2);
    let outer = pool.submit(move || {
        REQUEST.set(6);
        let joined = inner.upgrade().unwrap().submit(|| REQUEST.get()).unwrap().join().unwrap();
        (joined, REQUEST.replace(2))
    });
    assert_eq!(outer.unwrap().join().unwrap(), (6, 6));

    let builder = ThreadPoolExecutor::builder().work_queue(WorkQueue::synchronous());
    let builder = builder.rejected_execution_handler(policy::CallerRuns);
    let busy = builder.propagate(Requests::default()).build().unwrap();
    let gate = Gate::new();
    let wait = gate.clone();
    busy.execute(move || wait.pass()).unwrap();
    let here = thread::current().id();
    let seen = busy.submit(move || (REQUEST.get(), thread::current().id() == here)).unwrap();
    assert_eq!(seen.join().unwrap(), (2, true));
    gate.open();
    REQUEST.set(0);
}

// Regression: the policy queued the task without its context.
#[test]
fn a_task_of_another_pool_that_discard_oldest_admits_has_its_context() {
    let (target, requests) = pool(1);
    let forward = target.clone();
    let builder = ThreadPoolExecutor::builder().work_queue(WorkQueue::synchronous());
    let builder = builder.rejected_execution_handler(move |task, _: &ThreadPoolExecutor| {
        policy::DiscardOldest.rejected_execution(task, &forward)
    });
    let source = builder.build().unwrap();
    let gates = [&source, &target].map(occupied);
    target.execute(|| {}).unwrap();
    REQUEST.set(9);
    let task = source.submit(|| REQUEST.get()).unwrap();
    REQUEST.set(0);
    gates.iter().for_each(Gate::open);
    assert_eq!(soon(task).unwrap(), 9);
    assert_eq!(requests.0.load(Ordering::Relaxed), 3, "one capture per task");
    [source, target].iter().for_each(ThreadPoolExecutor::close);
}

// Regression: as above, so the task ran although its context was missing.
#[test]
fn discard_oldest_refuses_a_task_of_another_pool_whose_context_cannot_be_captured() {
    let capture = || -> Option<Box<dyn Captured>> { die("in a capture") };
    let target = ThreadPoolExecutor::builder().propagate(capture).build().unwrap();
    let refused = policy::DiscardOldest.rejected_execution(Task::new(|| {}), &target).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::CallbackPanicked);
    target.close();
}

#[test]
fn a_rejected_task_keeps_the_context_of_its_first_submission() {
    let (pool, _) = pool(1);
    pool.close();
    REQUEST.set(8);
    let (send, seen) = mpsc::channel();
    let rejected = pool.execute(move || send.send(REQUEST.get()).unwrap()).unwrap_err();
    REQUEST.set(1);
    rejected.into_task().run();
    assert_eq!((seen.recv().unwrap(), REQUEST.replace(0)), (8, 1));
}

#[test]
fn the_thread_is_restored_after_a_panic() {
    let (pool, _) = pool(1);
    REQUEST.set(5);
    assert!(pool.submit(|| resume_unwind(Box::new("a task"))).unwrap().join().is_err());
    pool.execute(|| resume_unwind(Box::new("without a handle"))).unwrap();
    REQUEST.set(0);
    assert_eq!(pool.submit(|| REQUEST.get()).unwrap().join().unwrap(), 0);
    pool.close();
    assert_eq!((pool.stats().panicked, pool.stats().completed), (2, 1));
}

/// Does not call the task, or panics before or after calling it.
struct Hostile(u32);

impl Captured for Hostile {
    fn enter(&mut self, run: &mut dyn FnMut()) {
        match self.0 {
            1 => {}
            2 => resume_unwind(Box::new("before")),
            3 => {
                run();
                run(); // once is enough
                resume_unwind(Box::new("after"));
            }
            _ => run(),
        }
    }
}

#[test]
fn a_hostile_context_does_no_harm() {
    let capture = || match REQUEST.get() {
        9 => resume_unwind(Box::new("capture")),
        kind => Some(Box::new(Hostile(kind)) as Box<dyn Captured>),
    };
    let pool = ThreadPoolExecutor::builder().propagate(capture).build().unwrap();
    let submit = |kind: u32| {
        REQUEST.set(kind);
        let handle = pool.submit(|| 7);
        REQUEST.set(0);
        handle
    };
    assert!(matches!(submit(1).unwrap().join(), Err(JoinError::Abandoned)));
    assert!(matches!(submit(2).unwrap().join(), Err(JoinError::Abandoned)));
    assert_eq!(submit(3).unwrap().join().unwrap(), 7);
    let rejected = submit(9).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::CallbackPanicked);
    assert_eq!(submit(4).unwrap().join().unwrap(), 7, "the pool goes on");
    pool.close();
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.panicked, stats.rejected), (4, 2, 2, 1));
    let last = pool.snapshot().last_panics;
    assert_eq!(&*last[0].message, "the propagated context did not run the task");
    assert_eq!(&*last[1].message, "before");
}

/// Calls a function when it is dropped.
struct OnDrop<F: Fn() + Send>(F);

impl<F: Fn() + Send> Captured for OnDrop<F> {
    fn enter(&mut self, run: &mut dyn FnMut()) {
        run();
    }
}

impl<F: Fn() + Send> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn the_context_of_a_named_task_is_dropped_with_the_task() {
    let dropped = Counter::new();
    let count = dropped.clone();
    let capture = move || {
        let count = count.clone();
        Some(Box::new(OnDrop(move || count.add())) as Box<dyn Captured>)
    };
    let pool = ThreadPoolExecutor::builder().propagate(capture).build().unwrap();
    pool.execute_task(Task::new(|| {}).named("named")).unwrap();
    assert!(pool.wait_idle(LONG).unwrap());
    assert_eq!(dropped.get(), 1);
    pool.close();
}

#[test]
fn a_context_whose_destructor_panics_does_no_harm() {
    let capture = || Some(Box::new(OnDrop(|| die("destructor"))) as Box<dyn Captured>);
    let pool = ThreadPoolExecutor::builder().propagate(capture).build().unwrap();
    for name in ["first", "second"] {
        pool.execute_task(Task::new(|| {}).named(name)).unwrap();
    }
    pool.execute(|| {}).unwrap();
    pool.shutdown();
    assert_eq!(pool.await_termination(LONG), Ok(true));
    assert_eq!((pool.completed_task_count(), pool.stats().completed), (3, 3));
}

#[test]
fn a_context_may_use_its_pool_when_a_cancelled_timer_drops_it() {
    let used = Counter::new();
    let (count, weak) = (used.clone(), Arc::new(OnceLock::<ScheduledPoolRef>::new()));
    let own = Arc::clone(&weak);
    let capture = move || {
        let (count, own) = (count.clone(), Arc::clone(&own));
        let use_pool = move || {
            let pool = own.get().and_then(ScheduledPoolRef::upgrade).expect("the pool exists");
            assert_eq!(pool.stats().cancelled, 1);
            count.add();
        };
        Some(Box::new(OnDrop(use_pool)) as Box<dyn Captured>)
    };
    let builder = ScheduledThreadPoolExecutor::builder().remove_on_cancel_policy(true);
    let pool = builder.propagate(capture).build().unwrap();
    weak.set(pool.downgrade()).unwrap();
    let timer = pool.schedule(Duration::from_secs(3600), || {}).unwrap();
    let canceller = thread::spawn(move || timer.cancel(false));
    eventually(|| canceller.is_finished());
    assert!(canceller.join().unwrap());
    assert_eq!(used.get(), 1);
    pool.close();
}

#[test]
fn a_paused_pool_keeps_contexts() {
    let (pool, _) = pool(1);
    pool.pause();
    REQUEST.set(3);
    let task = pool.submit(|| REQUEST.get()).unwrap();
    REQUEST.set(0);
    pool.execute_task(Task::new(|| {})).unwrap();
    assert_eq!(pool.queued_count(), 2);
    pool.resume();
    assert_eq!(task.join().unwrap(), 3);
    eventually(|| pool.stats().completed == 2);
}
