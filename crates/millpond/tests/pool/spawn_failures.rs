//! Threads that cannot be started, and the tasks for which they were needed.

use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use crate::support::pools::{bounded_custom, counting, factory, sized, thread_for};
use crate::support::{Gate, LONG, die, end, eventually, occupy, rounds, soon};
use millpond::{Hooks, RejectReason, TaskInfo, ThreadPoolExecutor, WorkQueue, WorkerBody, interrupt, policy};

// TPE-044
#[test]
fn a_pool_that_gets_one_thread_only_does_all_the_work_with_it() {
    let pool = sized(100, 100).thread_factory(factory(|call| call == 1)).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        pool.execute(counting(&ran)).unwrap();
    }
    end(&pool);
    assert_eq!((ran.load(Ordering::Relaxed), pool.completed_task_count()), (100, 100));
    assert_eq!(pool.stats().rejected, 0);
}

// TPE-046, TPE-049
#[test]
fn a_task_for_which_no_thread_can_be_had_at_all_comes_back_with_the_cause() {
    let queues: [fn() -> WorkQueue; 6] = [
        WorkQueue::synchronous,
        WorkQueue::linked,
        WorkQueue::priority,
        WorkQueue::delay,
        || WorkQueue::array(5),
        || bounded_custom(5),
    ];
    for queue in queues {
        for core in [0, 1] {
            let pool = sized(core, 1).work_queue(queue()).thread_factory(factory(|_| false)).build();
            check_no_thread(&pool.unwrap());
        }
    }
}

fn check_no_thread(pool: &ThreadPoolExecutor) {
    let rejected = pool.execute(|| {}).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::SpawnFailed);
    let cause = rejected.source().and_then(|cause| cause.downcast_ref::<io::Error>()).unwrap();
    assert_eq!(cause.kind(), io::ErrorKind::WouldBlock);
    assert!(rejected.to_string().contains("no thread today"), "{rejected}");
    assert_eq!((pool.pool_size(), pool.largest_pool_size(), pool.queued_count()), (0, 0, 0));
    assert_eq!((pool.task_count(), pool.stats().submitted, pool.stats().rejected), (0, 0, 1));
    // No task is queued for a worker that never starts, so the pool can terminate.
    pool.shutdown();
    assert_eq!(pool.await_termination(LONG), Ok(true));
}

#[derive(Default)]
struct CountsRejected(Arc<AtomicUsize>);

impl Hooks for CountsRejected {
    fn rejected(&self, _: &TaskInfo, reason: RejectReason) {
        assert_eq!(reason, RejectReason::SpawnFailed);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_failed_spawn_passes_the_rejection_handler_by_but_not_the_hook() {
    let hook_calls = Arc::new(AtomicUsize::new(0));
    let called = Gate::new();
    let call = called.clone();
    let pool = sized(1, 1)
        .thread_factory(factory(|_| false))
        .hooks(CountsRejected(Arc::clone(&hook_calls)))
        .rejected_execution_handler(move |_, _: &ThreadPoolExecutor| {
            call.open();
            Ok(())
        })
        .build()
        .unwrap();
    assert_eq!(pool.submit(|| {}).unwrap_err().reason(), RejectReason::SpawnFailed);
    pool.set_rejected_execution_handler(policy::Block::forever());
    assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::SpawnFailed);
    assert!(!called.is_open());
    assert_eq!(hook_calls.load(Ordering::Relaxed), 2);
    end(&pool);
}

#[test]
fn a_spawn_that_fails_once_leaves_no_trace() {
    let pool = sized(1, 1)
        .work_queue(WorkQueue::synchronous())
        .thread_factory(factory(|call| call != 1))
        .build()
        .unwrap();
    let ran = Gate::new();
    let run = ran.clone();
    let rejected = pool.execute(move || run.open()).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::SpawnFailed);
    pool.execute_task(rejected.into_task()).unwrap();
    ran.pass();
    assert_eq!((pool.pool_size(), pool.largest_pool_size()), (1, 1));
    assert_eq!(pool.stats().submitted, 1);
    end(&pool);
    assert_eq!(pool.completed_task_count(), 1);
}

// TPE-048
#[test]
fn a_spawn_that_fails_in_the_middle_is_rolled_back_and_its_task_waits_for_the_others() {
    let pool = sized(10, 10).thread_factory(factory(|call| call != 5)).build().unwrap();
    let gate = Gate::new();
    (0..4).for_each(|_| occupy(&pool, &gate));
    let fifth = pool.submit(|| thread::current().name().map(str::to_owned)).unwrap();
    assert_eq!((pool.pool_size(), pool.queued_count()), (4, 1));
    (0..5).for_each(|_| occupy(&pool, &gate));
    assert_eq!((pool.pool_size(), pool.largest_pool_size()), (9, 9));
    gate.open();
    assert!(fifth.join().is_ok());
    end(&pool);
    assert_eq!(pool.completed_task_count(), 10);
}

#[test]
fn a_task_that_a_failed_spawn_leaves_to_a_full_queue_comes_back() {
    let pool = sized(1, 2)
        .work_queue(WorkQueue::array(1))
        .thread_factory(factory(|call| call == 1))
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.execute(|| {}).unwrap();
    assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::SpawnFailed);
    assert_eq!((pool.pool_size(), pool.queued_count()), (1, 1));
    gate.open();
    end(&pool);
    assert_eq!(pool.completed_task_count(), 2);
}

// TPE-050
#[test]
fn a_factory_that_drops_the_body_fails_the_spawn_whatever_it_returns() {
    let pool = sized(1, 1)
        .thread_factory(|body| {
            drop(body);
            Ok(thread::spawn(|| {})) // a thread, but not one that runs the body
        })
        .build()
        .unwrap();
    let rejected = pool.execute(|| {}).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::SpawnFailed);
    assert!(rejected.to_string().contains("dropped the worker body"), "{rejected}");
    assert!(!pool.prestart_core_thread());
    assert_eq!((pool.pool_size(), pool.largest_pool_size(), pool.task_count()), (0, 0, 0));
    end(&pool);
}

#[test]
fn a_factory_that_panics_fails_the_spawn() {
    let pool = sized(1, 1).thread_factory(|_| die("no factory")).build().unwrap();
    assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::SpawnFailed);
    assert!(!pool.prestart_core_thread());
    assert_eq!((pool.pool_size(), pool.task_count()), (0, 0));
    pool.set_thread_factory(thread_for);
    assert_eq!(pool.submit(|| 3).unwrap().join().unwrap(), 3);
    end(&pool);
}

#[test]
fn a_body_that_runs_after_its_factory_has_failed_does_nothing() {
    let (gate, late) = (Gate::new(), Arc::new(Mutex::new(None)));
    let (wait, keep) = (gate.clone(), Arc::clone(&late));
    let pool = sized(1, 1)
        .thread_factory(move |body| {
            let wait = wait.clone();
            *keep.lock().unwrap() = Some(thread::spawn(move || {
                wait.pass();
                body.run();
            }));
            Err(io::Error::other("changed its mind"))
        })
        .build()
        .unwrap();
    let rejected = pool.execute(|| {}).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::SpawnFailed);
    gate.open();
    late.lock().unwrap().take().unwrap().join().unwrap();
    assert_eq!((pool.pool_size(), pool.completed_task_count()), (0, 0));
    end(&pool);
}

#[test]
fn a_factory_that_fails_after_its_thread_has_begun_to_work_has_not_failed() {
    let running = Gate::new();
    let begun = running.clone();
    let pool = sized(1, 1)
        .thread_factory(move |body| {
            thread_for(body)?;
            begun.pass();
            Err(io::Error::other("too late"))
        })
        .build()
        .unwrap();
    let open = running.clone();
    let handle = pool.submit(move || open.open()).unwrap();
    handle.join().unwrap();
    assert_eq!(pool.pool_size(), 1);
    end(&pool);
    assert_eq!((pool.stats().submitted, pool.stats().completed), (1, 1));
}

#[test]
fn a_body_that_is_dropped_after_its_factory_has_returned_does_not_lose_the_task() {
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let calls = AtomicUsize::new(0);
    let pool = sized(1, 1)
        .thread_factory(move |body| {
            if calls.fetch_add(1, Ordering::Relaxed) > 0 {
                return thread_for(body);
            }
            *keep.lock().unwrap() = Some(body);
            Ok(thread::spawn(|| {}))
        })
        .build()
        .unwrap();
    let handle = pool.submit(|| 5).unwrap();
    let body = kept.lock().unwrap().take();
    drop(body);
    assert_eq!(handle.join().unwrap(), 5);
    assert_eq!((pool.pool_size(), pool.stats().submitted), (1, 1));
    end(&pool);
}

/// Two submitters each reserve a worker. The second spawn fails first: its task is queued, because
/// another worker seems to exist. Then the first spawn fails too, and the queue has no worker.
#[test]
fn two_spawns_that_fail_at_once_strand_no_task() {
    let gates = [Gate::new(), Gate::new()];
    let entered = [Gate::new(), Gate::new()];
    let (wait, enter) = (gates.clone(), entered.clone());
    let calls = AtomicUsize::new(0);
    let pool = sized(2, 2)
        .thread_factory(move |body| match calls.fetch_add(1, Ordering::Relaxed) {
            call @ (0 | 1) => {
                enter[call].open();
                wait[call].pass();
                Err(io::Error::other("no thread today"))
            }
            _ => thread_for(body),
        })
        .build()
        .unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| pool.execute(|| {}));
        entered[0].pass();
        let second = scope.spawn(|| pool.submit(|| {}));
        entered[1].pass();
        gates[1].open();
        let second = second.join().unwrap();
        gates[0].open();
        let _ = first.join().unwrap();
        // Run, returned, or resolved, but not lost.
        if let Ok(handle) = second {
            eventually(|| handle.is_done());
        }
    });
    end(&pool);
}

/// A factory whose first call starts a thread and whose second only stores the body in `promised`.
/// Later calls fail.
fn one_comes_and_one_is_promised(
    promised: &Arc<Mutex<Option<WorkerBody>>>,
) -> impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static {
    let (promised, calls) = (Arc::clone(promised), AtomicUsize::new(0));
    move |body| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => thread_for(body),
        1 => {
            *promised.lock().unwrap() = Some(body);
            Ok(thread::spawn(|| {}))
        }
        _ => Err(io::Error::other("no more threads")),
    }
}

// Regression: a worker joined a task of its own pool. The task was to start with a new thread, so
// it was not in the queue, and the worker parked. The thread did not start, the task was queued,
// and the only worker stayed parked.
#[test]
fn a_worker_runs_what_it_joins_when_the_thread_that_was_to_do_it_does_not_come() {
    let promised = Arc::new(Mutex::new(None));
    let pool = sized(2, 2).thread_factory(one_comes_and_one_is_promised(&promised)).build().unwrap();
    let (inside, worker) = (pool.clone(), Arc::new(Mutex::new(None)));
    let me = Arc::clone(&worker);
    let outer = pool.submit(move || {
        *me.lock().unwrap() = Some(interrupt::current());
        inside.submit(|| 7).unwrap().join().unwrap()
    });
    eventually(|| worker.lock().unwrap().as_ref().is_some_and(interrupt::Interrupter::is_parked));
    drop(promised.lock().unwrap().take().expect("it was asked for a second thread"));
    assert_eq!(soon(outer.unwrap()).unwrap(), 7);
    end(&pool);
}

// Regression: the factory returned success and dropped the worker's body before the submitter had
// recorded the start. The number of expected workers was then decremented twice.
#[test]
fn a_promise_that_is_broken_while_it_is_noted_is_counted_once() {
    // Enough workers that counting them takes time, while other threads wait for the lock.
    const THERE: usize = 100;
    let (give, take) = mpsc::channel::<WorkerBody>();
    let (give, calls) = (Mutex::new(give), AtomicUsize::new(0));
    let pool = sized(THERE + 1, THERE + 1)
        .thread_factory(move |body| {
            if calls.fetch_add(1, Ordering::SeqCst) < THERE {
                return thread_for(body);
            }
            give.lock().unwrap().send(body).unwrap();
            Ok(thread::spawn(|| {}))
        })
        .build()
        .unwrap();
    (0..THERE).for_each(|_| assert!(pool.prestart_core_thread()));
    let over = &AtomicBool::new(false);
    thread::scope(|threads| {
        threads
            .spawn(move || take.into_iter().map(drop).take_while(|()| !over.load(Ordering::SeqCst)).count());
        for pool in [&pool; 2] {
            threads.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    pool.active_count();
                }
            });
        }
        let broken = |_: &usize| {
            let started = catch_unwind(AssertUnwindSafe(|| pool.prestart_core_thread()));
            eventually(|| pool.pool_size() == THERE);
            started.is_err() // overflow panics in tests
        };
        let broken = rounds(300).find(broken);
        over.store(true, Ordering::SeqCst);
        pool.prestart_core_thread();
        assert_eq!(broken, None);
    });
    end(&pool);
}
