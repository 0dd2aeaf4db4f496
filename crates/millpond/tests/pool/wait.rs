//! Waiting for a pool: `terminated`, `wait_idle`; and weak references.

use std::future::Future;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::support::pools::{fixed, sized, thread_for};
use crate::support::{
    Counter, Gate, LONG, SHORT, block, end, eventually, interrupt_myself, keep_busy, occupied, rounds,
};
use millpond::interrupt::{self, Interrupted, Interrupter, Registration};
use millpond::queue::{
    ArrayBlockingQueue, DelayQueue, LinkedBlockingQueue, PriorityBlockingQueue, SynchronousQueue,
};
use millpond::{
    CancelOnDrop, Canceller, Clock, ExecutorCompletionService, Hooks, JoinError, ManualClock, Panic,
    PeriodicTask, PoolRef, PoolStats, RejectReason, Rejected, ScheduledHandle, ScheduledPoolRef,
    ScheduledThreadPoolExecutor, ScopedTaskHandle, ShutdownReport, SingleScheduledExecutor,
    SingleThreadExecutor, SubmitAsync, Task, TaskHandle, TaskInfo, TaskOf, ThreadPoolExecutor, WorkQueue,
    WorkerBody, executors,
};

// ---- terminated

/// Counts how often it is woken.
#[derive(Default)]
struct Wakes(Counter);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.add();
    }
}

fn poll(future: &mut (impl Future<Output = ()> + Unpin), waker: &Waker) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(waker)) == Poll::Ready(())
}

#[test]
fn terminated_is_ready_when_the_last_task_has_ended_and_wakes_every_waiter() {
    let pool = fixed(2);
    let gate = occupied(&pool);
    let wakes: Vec<_> = (0..3).map(|_| Arc::new(Wakes::default())).collect();
    let wakers: Vec<Waker> = wakes.iter().map(|wakes| Waker::from(Arc::clone(wakes))).collect();
    let mut futures: Vec<_> = wakes.iter().map(|_| pool.terminated()).collect();
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(!poll(future, waker));
    }
    assert!(!pool.is_shutdown(), "it does not shut down");
    let dropped = futures.pop();
    drop(dropped);
    assert!(!poll(&mut futures[0], &wakers[1]), "the last waker counts");
    pool.shutdown();
    assert!(!poll(&mut futures[1], &wakers[1]), "a task still runs");
    gate.open();
    eventually(|| wakes[1].0.get() == 2);
    assert_eq!((wakes[0].0.get(), wakes[2].0.get()), (0, 0), "replaced, and dropped");
    for future in &mut futures {
        assert!(poll(future, &wakers[0]), "ready, and stays so");
        assert!(poll(future, &wakers[0]));
    }
    assert!(poll(&mut pool.terminated(), &wakers[0]), "of a pool that has ended");
}

#[test]
fn a_dropped_terminated_future_leaves_no_waker_behind() {
    let pool = fixed(1);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    for _ in 0..100 {
        assert!(!poll(&mut pool.terminated(), &waker));
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&wakes), 1);
    end(&pool);
}

#[test]
fn terminated_is_no_handle_and_outlives_the_last_one() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let (mut future, weak) = (pool.terminated(), pool.downgrade());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    assert!(!poll(&mut future, &waker));
    drop(pool); // shuts down
    assert!(weak.upgrade().is_none());
    gate.open();
    eventually(|| wakes.0.get() == 1);
    assert!(poll(&mut future, &waker));
}

#[test]
fn terminated_races_the_end_and_is_never_forgotten() {
    for _ in rounds(500) {
        let pool = fixed(1);
        pool.execute(|| ()).unwrap();
        let future = pool.terminated();
        let waiter = thread::spawn(move || support_block_on(future));
        pool.shutdown();
        waiter.join().unwrap();
        assert!(pool.is_terminated());
    }
}

fn support_block_on(mut future: impl Future<Output = ()> + Unpin) {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let begin = std::time::Instant::now();
    while !poll(&mut future, &waker) {
        assert!(begin.elapsed() < LONG, "nobody woke it");
        thread::park_timeout(LONG);
    }
}

#[test]
fn every_executor_has_a_terminated_future() {
    let (single, scheduled, timer) =
        (executors::single(), executors::scheduled(1), executors::single_scheduled());
    let futures = [
        Box::pin(single.terminated()) as Pin<Box<dyn Future<Output = ()> + Send>>,
        Box::pin(scheduled.terminated()),
        Box::pin(timer.terminated()),
    ];
    single.shutdown();
    scheduled.shutdown();
    timer.shutdown();
    futures.into_iter().for_each(support_block_on);
    assert!(single.is_terminated() && scheduled.is_terminated() && timer.is_terminated());
}

// ---- wait_idle

#[test]
fn wait_idle_returns_when_the_last_task_has_ended() {
    let pool = fixed(2);
    assert_eq!(pool.wait_idle(Duration::ZERO), Ok(true), "of a fresh pool");
    let gate = Gate::new();
    let handles = [keep_busy(&pool, &gate), keep_busy(&pool, &gate)];
    pool.execute(|| ()).unwrap();
    assert_eq!(pool.wait_idle(Duration::ZERO), Ok(false));
    assert_eq!(pool.wait_idle(SHORT), Ok(false));
    thread::scope(|s| {
        let waiters: Vec<_> = (0..2).map(|_| block(s, || pool.wait_idle(Duration::MAX))).collect();
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        gate.open();
        waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join(), Ok(true)));
    });
    assert!(handles.iter().all(TaskHandle::is_done));
    assert!(!pool.is_shutdown());
    end(&pool);
    assert_eq!(pool.wait_idle(LONG), Ok(true), "of a pool that has ended");
}

#[test]
fn when_idle_the_tasks_are_dropped_and_their_hooks_have_returned() {
    struct Counts(Counter);
    impl Hooks for Counts {
        fn after_execute(&self, _: &TaskInfo, _: Option<&Panic>) {
            thread::yield_now();
            self.0.add();
        }
    }
    let hooks = Arc::new(Counts(Counter::new()));
    let pool = ThreadPoolExecutor::builder()
        .core_pool_size(2)
        .maximum_pool_size(2)
        .hooks(Arc::clone(&hooks))
        .build()
        .unwrap();
    for round in rounds(1000) {
        let captured = Arc::new(());
        for _ in 0..2 {
            let inside = Arc::clone(&captured);
            pool.execute(move || drop(inside)).unwrap();
        }
        assert_eq!(pool.wait_idle(LONG), Ok(true));
        assert_eq!((Arc::strong_count(&captured), hooks.0.get()), (1, 2 * (round + 1)));
    }
    end(&pool);
}

#[test]
fn wait_idle_races_the_last_task_on_every_kind_of_queue() {
    type Queue = fn() -> WorkQueue;
    let kinds: [Queue; 5] = [
        WorkQueue::linked,
        || WorkQueue::array(64),
        WorkQueue::synchronous,
        WorkQueue::priority,
        WorkQueue::delay,
    ];
    for queue in kinds {
        for keep_alive in [Duration::from_nanos(1), LONG] {
            let pool = ThreadPoolExecutor::builder()
                .core_pool_size(1)
                .maximum_pool_size(4)
                .keep_alive_time(keep_alive)
                .allow_core_thread_time_out(true)
                .work_queue(queue())
                .build()
                .unwrap();
            let ran = Counter::new();
            let mut accepted = 0;
            for _ in rounds(300) {
                for _ in 0..3 {
                    let count = ran.clone();
                    accepted += usize::from(pool.execute(move || count.add()).is_ok());
                }
                assert_eq!(pool.wait_idle(LONG), Ok(true));
                assert_eq!(ran.get(), accepted);
            }
            end(&pool);
        }
    }
}

#[test]
fn wait_idle_returns_when_the_last_tasks_are_taken_out() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    let waiting = pool.submit(|| ()).unwrap();
    thread::scope(|s| {
        let waiter = block(s, || pool.wait_idle(Duration::MAX));
        assert!(waiting.cancel(false));
        assert!(!waiter.is_finished());
        gate.open();
        assert_eq!(waiter.join(), Ok(true));
    });
    let gate = occupied(&pool);
    pool.execute(|| ()).unwrap();
    thread::scope(|s| {
        let waiter = block(s, || pool.wait_idle(Duration::MAX));
        assert_eq!(pool.shutdown_now().len(), 1);
        gate.open();
        assert_eq!(waiter.join(), Ok(true));
    });
    end(&pool);
}

/// A reserved worker counts as active, and its task may be queued. Both end when the start fails.
#[test]
fn wait_idle_returns_when_the_only_task_comes_back_because_no_thread_starts() {
    for core in [0, 1] {
        let (begun, gate) = (Gate::new(), Gate::new());
        let (tell, wait) = (begun.clone(), gate.clone());
        let pool = sized(core, 1).thread_factory(move |_| {
            tell.open();
            wait.pass();
            Err(io::Error::other("no thread today"))
        });
        let pool = pool.build().unwrap();
        thread::scope(|s| {
            let submitter = s.spawn(|| pool.execute(|| ()).unwrap_err().reason());
            begun.pass();
            assert_eq!(pool.wait_idle(Duration::ZERO), Ok(false));
            let waiter = block(s, || pool.wait_idle(Duration::MAX));
            gate.open();
            assert_eq!(submitter.join().unwrap(), RejectReason::SpawnFailed);
            assert_eq!(waiter.join(), Ok(true));
        });
        end(&pool);
    }
}

/// A thread factory that returns success and stores the first body. `later` handles the others.
fn promise_first(
    later: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
) -> (ThreadPoolExecutor, impl FnOnce()) {
    let kept = Arc::new(Mutex::new(None));
    let (keep, calls) = (Arc::clone(&kept), Counter::new());
    let pool = sized(1, 1).thread_factory(move |body| {
        calls.add();
        if calls.get() > 1 {
            return later(body);
        }
        *keep.lock().unwrap() = Some(body);
        Ok(thread::spawn(|| {}))
    });
    let break_promise = move || {
        let body = kept.lock().unwrap().take();
        drop(body);
    };
    (pool.build().unwrap(), break_promise)
}

#[test]
fn wait_idle_returns_when_a_promised_thread_and_its_replacement_do_not_start() {
    let (pool, break_promise) = promise_first(|_| Err(io::Error::other("no thread today")));
    let task = pool.submit(|| ()).unwrap();
    thread::scope(|s| {
        let waiter = block(s, || pool.wait_idle(Duration::MAX));
        break_promise();
        assert_eq!(waiter.join(), Ok(true));
    });
    assert!(matches!(task.join(), Err(JoinError::Abandoned)));
    end(&pool);
}

/// The task runs on the replacement before the thread that admitted it again has corrected the
/// counts.
#[test]
fn wait_idle_returns_when_the_task_of_a_promised_thread_ends_on_its_replacement() {
    let worker = Arc::new(Mutex::new(None::<Interrupter>));
    let replacement = Arc::clone(&worker);
    let (pool, break_promise) = promise_first(move |body| {
        let started = thread_for(body);
        eventually(|| replacement.lock().unwrap().as_ref().is_some_and(Interrupter::is_parked));
        started
    });
    let task = pool.submit(move || *worker.lock().unwrap() = Some(interrupt::current())).unwrap();
    thread::scope(|s| {
        let waiter = block(s, || pool.wait_idle(Duration::MAX));
        break_promise();
        assert_eq!(waiter.join(), Ok(true));
    });
    task.join().unwrap();
    end(&pool);
}

#[test]
fn wait_idle_in_a_task_of_the_pool_returns_false_at_once() {
    let pool = fixed(1);
    let inside = pool.clone();
    let waited = pool.submit(move || inside.wait_idle(Duration::MAX)).unwrap();
    assert_eq!(waited.join().unwrap(), Ok(false));
    let other = fixed(1);
    let waited = pool.submit(move || (other.wait_idle(LONG), end(&other)).0).unwrap();
    assert_eq!(waited.join().unwrap(), Ok(true), "another pool is none of ours");
    end(&pool);
}

#[test]
fn wait_idle_ends_by_interrupt() {
    let pool = fixed(1);
    let gate = occupied(&pool);
    interrupt_myself();
    assert_eq!(pool.wait_idle(LONG), Err(Interrupted));
    assert!(!interrupt::is_interrupted());
    thread::scope(|s| {
        let waiter = block(s, || (pool.wait_idle(Duration::MAX), interrupt::is_interrupted()));
        waiter.interrupt();
        assert_eq!(waiter.join(), (Err(Interrupted), false));
    });
    gate.open();
    eventually(|| pool.wait_idle(Duration::ZERO) == Ok(true));
    interrupt_myself();
    assert_eq!(pool.wait_idle(LONG), Ok(true), "idle wins");
    assert!(interrupt::interrupted());
    end(&pool);
}

#[test]
fn a_scheduled_pool_is_idle_while_tasks_wait_for_their_time() {
    let clock = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(2).clock(clock.clock()).build().unwrap();
    let (later, runs) = (Duration::from_secs(10), Counter::new());
    let gate = Gate::new();
    let wait = gate.clone();
    let delayed = pool.schedule(later, move || wait.pass()).unwrap();
    let count = runs.clone();
    let series = pool.schedule_at_fixed_rate(Duration::ZERO, later, move || count.add()).unwrap();
    assert_eq!(pool.wait_idle(LONG), Ok(true));
    assert_eq!((runs.get(), pool.queued_count()), (1, 2));
    clock.advance(later);
    assert_eq!(pool.wait_idle(SHORT), Ok(false));
    thread::scope(|s| {
        let waiter = block(s, || pool.wait_idle(Duration::MAX));
        gate.open();
        assert_eq!(waiter.join(), Ok(true));
    });
    assert!(delayed.is_done() && runs.get() == 2);
    series.cancel(false);
    end(&pool);
}

// ---- references

#[test]
fn a_weak_reference_is_good_until_the_last_handle_is_dropped() {
    let pool = fixed(1);
    let (weak, clone) = (pool.downgrade(), pool.clone());
    drop(pool);
    let again = weak.clone().upgrade().expect("there is a clone");
    drop(clone);
    let gate = occupied(&again);
    again.shutdown();
    assert!(weak.upgrade().is_some_and(|pool| pool.is_shutdown()), "it is there, though shut down");
    let end = again.terminated();
    drop(again);
    assert!(weak.upgrade().is_none(), "though a worker still runs");
    assert!(format!("{weak:?}").contains("PoolRef"));
    gate.open();
    support_block_on(end);
}

#[test]
fn of_an_upgrade_and_the_last_drop_one_wins() {
    for _ in rounds(1000) {
        let pool = fixed(1);
        let weak = pool.downgrade();
        let upgrading = thread::spawn(move || match weak.upgrade() {
            Some(pool) => {
                assert!(!pool.is_shutdown(), "an upgraded handle keeps the pool running");
                pool.submit(|| 7).unwrap().join().unwrap() == 7
            }
            None => false,
        });
        drop(pool);
        upgrading.join().unwrap();
    }
}

#[test]
fn a_weak_reference_to_a_scheduled_pool_keeps_its_decorator() {
    let decorated = Counter::new();
    let count = decorated.clone();
    let pool = ScheduledThreadPoolExecutor::builder()
        .decorate(move |_, body| {
            count.add();
            body
        })
        .build()
        .unwrap();
    let weak = pool.downgrade();
    weak.upgrade().unwrap().schedule(Duration::ZERO, || ()).unwrap().join().unwrap();
    assert_eq!(decorated.get(), 1);
    let end = pool.terminated();
    drop(pool);
    assert!(weak.upgrade().is_none());
    support_block_on(end);
}

// ---- unwinding

/// A panic leaves none of these in an observable state.
#[test]
fn pools_handles_tasks_and_queues_are_unwind_safe() {
    fn safe<T: UnwindSafe + RefUnwindSafe>() {}
    type Any = std::cell::Cell<*mut u8>;
    safe::<ThreadPoolExecutor>();
    safe::<PoolRef>();
    safe::<SingleThreadExecutor>();
    safe::<ScheduledThreadPoolExecutor>();
    safe::<ScheduledPoolRef>();
    safe::<SingleScheduledExecutor>();
    safe::<ExecutorCompletionService<Any>>();
    safe::<Task>();
    safe::<TaskOf<Any>>();
    safe::<PeriodicTask>();
    safe::<TaskHandle<Any>>();
    safe::<ScheduledHandle<Any>>();
    safe::<ScopedTaskHandle<'static, Any>>();
    safe::<CancelOnDrop<Any>>();
    safe::<SubmitAsync<Any>>();
    safe::<Canceller>();
    safe::<Rejected>();
    safe::<Panic>();
    safe::<JoinError>();
    safe::<PoolStats>();
    safe::<ShutdownReport>();
    safe::<Interrupter>();
    safe::<Registration>();
    safe::<Clock>();
    safe::<ManualClock>();
    safe::<ArrayBlockingQueue<Any>>();
    safe::<LinkedBlockingQueue<Any>>();
    safe::<SynchronousQueue<Any>>();
    safe::<PriorityBlockingQueue<u8>>();
    safe::<DelayQueue<Task>>();
    safe::<WorkQueue>();
}
