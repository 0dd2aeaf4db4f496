//! `max_queue_time`: a queue whose oldest task has waited too long counts as full, and a task that
//! has waited too long does not run.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::support::pools::{bounded_custom, sized};
use crate::support::{Counter, Gate, PanicsOnDrop, assert_balanced, block, end, eventually, occupied, soon};
use millpond::{
    Builder, ConfigError, Hooks, JoinError, ManualClock, RejectReason, RejectedExecutionHandler, Task,
    TaskHandle, TaskInfo, TaskOf, TaskState, ThreadPoolExecutor, WorkQueue, interrupt, policy,
};

const LIMIT: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_nanos(1);

/// A pool with one thread, a queue of a hundred, a limit on queue time, and a manual clock.
fn limited(change: impl FnOnce(Builder) -> Builder) -> (ThreadPoolExecutor, ManualClock) {
    let clock = ManualClock::new();
    let builder = sized(1, 1).work_queue(WorkQueue::array(100)).max_queue_time(LIMIT).clock(clock.clock());
    (change(builder).build().unwrap(), clock)
}

/// The same with a busy thread and one queued task that has exceeded the limit.
fn overdue(
    policy: impl RejectedExecutionHandler,
) -> (ThreadPoolExecutor, ManualClock, TaskHandle<u32>, Gate) {
    let (pool, clock) = limited(|builder| builder.rejected_execution_handler(policy));
    let gate = occupied(&pool);
    let old = pool.submit(|| 1).unwrap();
    clock.advance(LIMIT + TICK);
    (pool, clock, old, gate)
}

#[track_caller]
fn assert_expired<T: std::fmt::Debug>(handle: TaskHandle<T>) {
    let outcome = soon(handle);
    assert!(matches!(outcome, Err(JoinError::Expired)), "{outcome:?}");
}

#[test]
fn a_limit_of_zero_is_refused() {
    let error = ThreadPoolExecutor::builder().max_queue_time(Duration::ZERO).build().unwrap_err();
    assert_eq!(error, ConfigError::ZeroQueueTime);
    assert_eq!(error.to_string(), "max_queue_time is 0s, so every task that waits would expire");
}

#[test]
fn a_task_that_waited_too_long_does_not_run() {
    let (pool, clock) = limited(|builder| builder);
    let gate = occupied(&pool);
    let drops = Counter::new();
    let (captured, noisy) = (drops.on_drop(), PanicsOnDrop(drops.on_drop()));
    let old = pool.submit(move || drop(captured)).unwrap();
    pool.execute(move || drop(noisy)).unwrap();
    clock.advance(TICK);
    let in_time = pool.submit(|| 3).unwrap();
    clock.advance(LIMIT);
    assert_eq!((old.state(), pool.stats().expired), (TaskState::Pending, 0));
    gate.open();
    assert_eq!(soon(in_time).unwrap(), 3, "exactly the limit is not too long");
    assert_eq!((old.state(), drops.get()), (TaskState::Abandoned, 2));
    assert_expired(old);
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.expired), (4, 2, 2));
    assert_eq!((pool.completed_task_count(), pool.task_count()), (2, 2));
    assert_balanced(&stats);
}

#[test]
fn no_hook_is_called_for_a_task_that_expires() {
    #[derive(Clone, Default)]
    struct Calls(Counter);
    impl Hooks for Calls {
        fn before_execute(&self, _: &TaskInfo) {
            self.0.add();
        }
        fn after_execute(&self, _: &TaskInfo, _: Option<&millpond::Panic>) {
            self.0.add();
        }
        fn rejected(&self, _: &TaskInfo, _: RejectReason) {
            self.0.add();
        }
    }
    let calls = Calls::default();
    let (pool, clock) = limited(|builder| builder.hooks(calls.clone()));
    let gate = occupied(&pool);
    let old = pool.submit(|| ()).unwrap();
    clock.advance(LIMIT + TICK);
    gate.open();
    assert_expired(old);
    end(&pool);
    assert_eq!(calls.0.get(), 2, "those of the task that kept the thread busy");
}

#[test]
fn while_the_oldest_task_is_too_old_the_pool_is_saturated() {
    let (pool, clock) = limited(|builder| builder);
    let gate = occupied(&pool);
    let first = pool.submit(|| 1).unwrap();
    clock.advance(LIMIT);
    let second = pool.submit(|| 2).unwrap(); // exactly at the limit still counts as in time
    clock.advance(TICK);
    let rejected = pool.submit(|| 3).unwrap_err();
    assert!(rejected.reason().is_overload());
    assert_eq!(pool.try_submit(|| 4).unwrap_err().into_inner()(), 4);
    pool.execute(|| ()).unwrap_err();
    assert!(first.cancel(false)); // now the second task is the oldest
    let third = pool.submit(|| 5).unwrap();
    gate.open();
    assert_eq!((soon(second).unwrap(), soon(third).unwrap()), (2, 5));
    end(&pool);
    assert_eq!((pool.stats().expired, pool.stats().rejected), (0, 3));
    assert_balanced(&pool.stats());
}

#[test]
fn an_overdue_queue_makes_the_pool_grow() {
    let (pool, clock) = limited(|builder| builder.maximum_pool_size(2));
    let gate = occupied(&pool);
    let old = pool.submit(|| 1).unwrap();
    clock.advance(LIMIT + TICK);
    let with_new_thread = pool.submit(|| 2).unwrap();
    assert_eq!(soon(with_new_thread).unwrap(), 2);
    assert_expired(old);
    assert_eq!(pool.largest_pool_size(), 2);
    gate.open();
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn every_policy_has_its_say_when_the_queue_is_overdue() {
    let (pool, _clock, old, gate) = overdue(policy::CallerRuns);
    let me = thread::current().id();
    assert!(soon(pool.submit(move || thread::current().id() == me).unwrap()).unwrap());
    gate.open();
    assert_expired(old);
    end(&pool);

    let (pool, _clock, old, gate) = overdue(policy::Discard);
    assert!(matches!(soon(pool.submit(|| ()).unwrap()), Err(JoinError::Abandoned)));
    gate.open();
    assert_expired(old);
    end(&pool);

    let (pool, clock, old, gate) = overdue(policy::DiscardOldest);
    clock.advance(LIMIT);
    let new = pool.submit(|| 2).unwrap();
    assert_expired(old); // at once: the thread is still busy
    assert_eq!((pool.stats().expired, pool.stats().handed_back, pool.queued_count()), (1, 0, 1));
    gate.open();
    assert_eq!(soon(new).unwrap(), 2);
    end(&pool);
    assert_balanced(&pool.stats());
}

/// Opens a gate when it is dropped, and waits for another one.
struct MeetsOnDrop {
    begun: Gate,
    go_on: Gate,
}

impl Drop for MeetsOnDrop {
    fn drop(&mut self) {
        self.begun.open();
        self.go_on.pass();
    }
}

// Regression: the expiring task counted as running on the submitter's thread.
#[test]
fn a_cancel_of_an_expiring_task_does_not_interrupt_the_submitter() {
    let (pool, clock) = limited(|builder| builder.rejected_execution_handler(policy::DiscardOldest));
    let gate = occupied(&pool);
    let (begun, go_on) = (Gate::new(), Gate::new());
    let captured = MeetsOnDrop { begun: begun.clone(), go_on: go_on.clone() };
    let old = pool.submit(move || drop(captured)).unwrap();
    clock.advance(LIMIT + TICK);
    let new = thread::scope(|s| {
        s.spawn(move || {
            begun.pass();
            old.cancel(true);
            go_on.open();
        });
        pool.submit(|| 2).unwrap()
    });
    assert!(!interrupt::is_interrupted());
    gate.open();
    assert_eq!(soon(new).unwrap(), 2);
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn discard_oldest_drops_a_young_head_only_when_the_queue_is_full() {
    let (pool, clock) = limited(|builder| {
        builder.work_queue(WorkQueue::array(3)).rejected_execution_handler(policy::DiscardOldest)
    });
    let gate = occupied(&pool);
    let old = [1, 2].map(|n| pool.submit(move || n).unwrap());
    clock.advance(LIMIT);
    let young = pool.submit(|| 3).unwrap();
    clock.advance(TICK);
    let new: Vec<_> = (4..6).map(|n| pool.submit(move || n).unwrap()).collect();
    old.into_iter().for_each(assert_expired);
    let last = pool.submit(|| 6).unwrap();
    assert!(matches!(soon(young), Err(JoinError::Abandoned)), "evicted, for the queue was full");
    gate.open();
    assert_eq!(new.into_iter().map(|handle| soon(handle).unwrap()).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(soon(last).unwrap(), 6);
    end(&pool);
    assert_eq!((pool.stats().expired, pool.stats().handed_back), (2, 1));
    assert_balanced(&pool.stats());
}

#[test]
fn those_who_wait_for_room_wait_until_the_queue_is_young_again() {
    let (pool, _clock, old, gate) = overdue(policy::Block::forever());
    let mut future = pin!(pool.submit_async(|| 3));
    let mut context = Context::from_waker(Waker::noop());
    thread::scope(|s| {
        let blocked = block(s, || pool.submit(|| 2).unwrap());
        assert!(future.as_mut().poll(&mut context).is_pending());
        gate.open();
        assert_eq!(soon(blocked.join()).unwrap(), 2);
    });
    assert_expired(old);
    let mut accepted = None;
    eventually(|| match future.as_mut().poll(&mut context) {
        Poll::Ready(handle) => accepted.insert(handle.unwrap()).id() == accepted.as_ref().unwrap().id(),
        Poll::Pending => false,
    });
    assert_eq!(soon(accepted.unwrap()).unwrap(), 3);
    end(&pool);
    assert_balanced(&pool.stats());
}

/// In these queues the oldest task is not at the head, so only a task that is taken can be shed.
#[test]
fn other_queues_shed_what_is_taken_too_late_and_refuse_nothing() {
    for queue in [WorkQueue::priority(), WorkQueue::delay(), bounded_custom(10)] {
        let (pool, clock) = limited(|builder| builder.work_queue(queue));
        let gate = occupied(&pool);
        let old = pool.submit(|| 1).unwrap();
        clock.advance(LIMIT + TICK);
        let young = pool.submit(|| 2).unwrap();
        gate.open();
        assert_expired(old);
        assert_eq!(soon(young).unwrap(), 2);
        end(&pool);
        assert_eq!((pool.stats().expired, pool.stats().rejected), (1, 0));
        assert_balanced(&pool.stats());
    }
}

/// The time until a delayed task is due does not count.
#[test]
fn in_a_delay_queue_time_counts_from_when_the_task_is_due() {
    let (pool, clock) = limited(|builder| builder.work_queue(WorkQueue::delay()));
    let later = TaskOf::new(|| 1).with_delay(Duration::from_millis(20));
    let later = pool.submit_task(later).unwrap();
    clock.advance(LIMIT);
    assert_eq!(soon(later).unwrap(), 1);
    end(&pool);
}

#[test]
fn a_join_in_place_of_an_overdue_task_says_so() {
    let (pool, clock) = limited(|builder| builder);
    let inner = pool.clone();
    let outcome = pool.submit(move || {
        let (young, old) = (inner.submit(|| 1).unwrap(), inner.submit(|| 2).unwrap());
        let young = young.join().unwrap();
        clock.advance(LIMIT + TICK);
        (young, old.join())
    });
    let (young, old) = soon(outcome.unwrap()).unwrap();
    assert!(young == 1 && matches!(old, Err(JoinError::Expired)));
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn a_shutdown_sheds_while_it_drains_and_shutdown_now_hands_back() {
    let (pool, _clock, old, gate) = overdue(policy::Abort);
    pool.shutdown();
    gate.open();
    end(&pool);
    assert_expired(old);
    assert_balanced(&pool.stats());

    let (pool, _clock, old, gate) = overdue(policy::Abort);
    let drained = pool.shutdown_now();
    assert_eq!(drained.len(), 1);
    drained.into_iter().for_each(Task::run); // they no longer belong to a queue
    assert_eq!(soon(old).unwrap(), 1);
    gate.open();
    end(&pool);
    assert_eq!(pool.stats().expired, 0);
    assert_balanced(&pool.stats());
}

/// The time in another pool's queue does not count.
#[test]
fn a_task_that_moves_to_another_pool_begins_anew() {
    let (pool, _clock, old, gate) = overdue(policy::Abort);
    let task = pool.shutdown_now().pop().unwrap();
    let (other, _other_clock) = limited(|builder| builder);
    other.execute_task(task).unwrap();
    assert_eq!(soon(old).unwrap(), 1);
    gate.open();
    end(&pool);
    end(&other);
}

#[test]
fn a_cancelled_task_that_stays_in_the_queue_counts_as_cancelled() {
    let (pool, clock) = limited(|builder| builder.remove_on_cancel(false));
    let gate = occupied(&pool);
    let cancelled = pool.submit(|| ()).unwrap();
    assert!(cancelled.cancel(false));
    clock.advance(LIMIT + TICK);
    gate.open();
    end(&pool);
    assert!(matches!(soon(cancelled), Err(JoinError::Cancelled)));
    assert_eq!((pool.stats().cancelled, pool.stats().expired), (1, 0));
    assert_balanced(&pool.stats());
}

/// Otherwise the closure would be dropped without a notice to the caller.
#[test]
fn scoped_tasks_always_run() {
    let (pool, clock) = limited(|builder| builder);
    let gate = occupied(&pool);
    let mut lent = 0;
    pool.scope(|scope| {
        scope.execute(|| lent += 1).unwrap();
        clock.advance(LIMIT + TICK);
        gate.open();
    });
    assert_eq!(lent, 1);
    end(&pool);
    assert_eq!(pool.stats().expired, 0);
}

/// A future that has begun must be allowed to finish.
#[cfg(feature = "futures")]
#[test]
fn futures_always_run() {
    use millpond::reactive::ExecutorFutureExt as _;
    let (pool, clock) = limited(|builder| builder);
    let gate = occupied(&pool);
    let future = pool.spawn_future(async { 7 }).unwrap();
    clock.advance(LIMIT + TICK);
    gate.open();
    assert_eq!(soon(future).unwrap(), 7);
    end(&pool);
    assert_eq!(pool.stats().expired, 0);
}

/// For some time, three requests arrive per service time. A caller waits for 25 service times, and
/// the queue has room for a thousand: without a limit almost all responses would be too late.
#[test]
fn under_three_times_the_load_a_limit_keeps_the_goodput() {
    const SERVICE: Duration = Duration::from_millis(10);
    const PATIENCE: u64 = 25;
    const STEPS: u64 = 300;
    let goodput = |limit: Option<Duration>| {
        let clock = ManualClock::new();
        let builder = sized(1, 1).work_queue(WorkQueue::array(1000)).clock(clock.clock());
        let pool = limit
            .map_or(sized(1, 1).work_queue(WorkQueue::array(1000)), |limit| builder.max_queue_time(limit));
        let pool = pool.build().unwrap();
        let (step, begun, good) = (Arc::new(AtomicU64::new(0)), Counter::new(), Arc::new(AtomicU64::new(0)));
        let (served, serve) = std::sync::mpsc::channel::<()>();
        let serve = Arc::new(std::sync::Mutex::new(serve));
        for now in 0..STEPS {
            step.store(now, Ordering::SeqCst);
            for _ in 0..3 {
                let (step, begun, good) = (Arc::clone(&step), begun.clone(), Arc::clone(&good));
                let serve = Arc::clone(&serve);
                let request = move || {
                    begun.add();
                    serve.lock().unwrap().recv().unwrap();
                    if step.load(Ordering::SeqCst) - now <= PATIENCE {
                        good.fetch_add(1, Ordering::SeqCst);
                    }
                };
                let _refused = pool.execute(request);
            }
            // The current request ends, and the next one begins.
            let before = begun.get();
            eventually(|| begun.get() >= 1);
            served.send(()).unwrap();
            eventually(|| begun.get() > before.max(1) || pool.queued_count() == 0);
            clock.advance(SERVICE);
        }
        pool.shutdown_now().into_iter().for_each(drop);
        served.send(()).unwrap();
        end(&pool);
        assert_balanced(&pool.stats());
        good.load(Ordering::SeqCst)
    };
    let (without, with) = (goodput(None), goodput(Some(10 * SERVICE)));
    assert!(without < STEPS / 5, "{without}");
    assert!(with > STEPS * 9 / 10, "{with}");
}

/// Real time and many threads: each task is counted once, by its outcome, and its handle agrees.
#[test]
fn every_task_is_counted_once_and_its_handle_agrees() {
    let pool = sized(2, 2)
        .work_queue(WorkQueue::array(50))
        .max_queue_time(Duration::from_micros(200))
        .build()
        .unwrap();
    let (ran, dropped) = (Counter::new(), Counter::new());
    let [returned, expired, cancelled, refused] = [const { AtomicU64::new(0) }; 4];
    thread::scope(|s| {
        for producer in 0..4 {
            let (pool, ran, dropped) = (&pool, &ran, &dropped);
            let (returned, expired, cancelled, refused) = (&returned, &expired, &cancelled, &refused);
            s.spawn(move || {
                for n in 0..300 {
                    let (ran, captured) = (ran.clone(), dropped.on_drop());
                    let task = move || {
                        let _captured = captured;
                        ran.add();
                        thread::yield_now();
                    };
                    let Ok(handle) = pool.submit(task) else {
                        refused.fetch_add(1, Ordering::Relaxed);
                        continue;
                    };
                    if (n + producer) % 7 == 0 {
                        handle.cancel(false);
                    }
                    if n % 3 == 0 {
                        thread::sleep(Duration::from_micros(50));
                    }
                    let count = match soon(handle) {
                        Ok(()) => returned,
                        Err(JoinError::Expired) => expired,
                        Err(JoinError::Cancelled) => cancelled,
                        other => panic!("{other:?}"),
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    end(&pool);
    let stats = pool.stats();
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((stats.completed, stats.expired), (count(&returned), count(&expired)));
    assert_eq!((stats.cancelled, stats.rejected), (count(&cancelled), count(&refused)));
    eventually(|| dropped.get() == 1200);
    assert!(ran.get() as u64 >= stats.completed);
    assert_balanced(&stats);
}
