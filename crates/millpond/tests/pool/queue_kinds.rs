//! Behaviour of a pool with each kind of queue: order, growth, rejection, and calls from the queue
//! to the pool.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::{bounded_custom, sized, thread_for};
use crate::support::{Gate, SMALL, Wrapped, await_end, block_elsewhere, die, end, eventually, occupy, soon};
use millpond::queue::LinkedBlockingQueue;
use millpond::{Task, TaskOf, ThreadPoolExecutor, WorkQueue};

#[test]
fn a_priority_queue_runs_the_most_urgent_first_and_equals_in_order() {
    let pool = sized(1, 1).work_queue(WorkQueue::priority()).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let ran = Arc::new(Mutex::new(Vec::new()));
    for (n, priority) in [0, 5, -3, 5, 0, i32::MAX, i32::MIN].into_iter().enumerate() {
        let ran = Arc::clone(&ran);
        pool.execute_task(Task::new(move || ran.lock().unwrap().push(n)).with_priority(priority)).unwrap();
    }
    gate.open();
    end(&pool);
    assert_eq!(*ran.lock().unwrap(), [5, 1, 3, 0, 4, 2, 6]);
}

#[test]
fn a_delay_queue_starts_no_task_before_it_is_due_and_the_earliest_first() {
    // A delay counts from its own submission. If the submitter is preempted between two submissions
    // for longer than their delays differ, the order is not conclusive.
    let conclusive = || {
        let pool = sized(1, 1).work_queue(WorkQueue::delay()).build().unwrap();
        let begin = Instant::now();
        let order = Arc::new(Mutex::new(Vec::new()));
        let give = |delay: Duration| {
            let order = Arc::clone(&order);
            let task = TaskOf::new(move || {
                order.lock().unwrap().push(delay);
                Instant::now()
            });
            pool.submit_task(task.with_delay(delay)).unwrap()
        };
        let handles = [2, 1, 0].map(|n| (SMALL * n, give(SMALL * n)));
        let all_submitted = begin.elapsed();
        for (delay, handle) in handles {
            assert!(handle.join().unwrap() - begin >= delay);
        }
        assert_eq!(pool.pool_size(), 1);
        end(&pool);
        let conclusive = all_submitted < SMALL;
        if conclusive {
            assert_eq!(*order.lock().unwrap(), [Duration::ZERO, SMALL, SMALL * 2]);
        }
        conclusive
    };
    assert!((0..100).any(|_| conclusive()), "the submitter was preempted every time");
}

#[test]
fn tasks_of_a_delay_queue_that_are_not_due_still_run_after_a_shutdown() {
    let pool = sized(2, 2).work_queue(WorkQueue::delay()).build().unwrap();
    let begin = Instant::now();
    let handle = pool.submit_task(TaskOf::new(Instant::now).with_delay(SMALL)).unwrap();
    end(&pool);
    assert!(handle.join().unwrap() - begin >= SMALL);
}

#[test]
fn a_delay_pool_never_has_more_than_core_threads_and_at_least_one() {
    for (core, expected) in [(0, 1), (3, 3)] {
        let pool = sized(core, 5).work_queue(WorkQueue::delay()).build().unwrap();
        (0..6).for_each(|_| drop(pool.submit(|| {}).unwrap().join()));
        assert_eq!(pool.largest_pool_size(), expected);
        end(&pool);
    }
}

#[test]
fn a_queue_of_ones_own_is_asked_for_room_and_gives_the_tasks() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&calls);
    let queue = Wrapped {
        on_call: Box::new(move |call| note.lock().unwrap().push(call)),
        ..Wrapped::new(LinkedBlockingQueue::unbounded())
    };
    let pool = sized(1, 1).work_queue(WorkQueue::custom(queue)).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let handles: Vec<_> = (0..10).map(|n| pool.submit(move || n).unwrap()).collect();
    gate.open();
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), n);
    }
    end(&pool);
    let calls = calls.lock().unwrap();
    assert_eq!(calls.iter().filter(|call| **call == "offer").count(), 10);
    assert!(calls.contains(&"take"));
}

#[test]
fn workers_that_block_in_a_queue_of_ones_own_follow_settings_and_shutdown() {
    let pool = sized(3, 3)
        .work_queue(bounded_custom(10))
        .keep_alive_time(Duration::MAX)
        .thread_name_prefix("follow-")
        .build()
        .unwrap();
    assert_eq!(pool.prestart_all_core_threads(), 3);
    pool.set_core_pool_size(1).unwrap();
    pool.set_maximum_pool_size(2).unwrap();
    eventually(|| pool.pool_size() == 2);
    pool.set_keep_alive_time(Duration::from_millis(1)).unwrap();
    eventually(|| pool.pool_size() == 1);
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    end(&pool);
}

thread_local! {
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Calls every query of the pool, unless this thread is already doing so.
fn ask(pool: &ThreadPoolExecutor) {
    if ASKING.replace(true) {
        return;
    }
    let _ = (pool.stats(), pool.to_string(), pool.task_count(), pool.parked_workers(), pool.queued_tasks());
    ASKING.set(false);
}

#[test]
fn no_method_of_a_custom_queue_is_called_under_a_lock_of_the_pool() {
    let slot: Arc<OnceLock<Mutex<Option<ThreadPoolExecutor>>>> = Arc::default();
    let here = Arc::clone(&slot);
    let queue = Wrapped {
        on_call: Box::new(move |_| {
            let pool = here.get().and_then(|pool| pool.lock().unwrap().clone());
            pool.iter().for_each(ask);
        }),
        ..Wrapped::new(LinkedBlockingQueue::unbounded())
    };
    let pool = sized(2, 2).work_queue(WorkQueue::custom(queue)).build().unwrap();
    slot.set(Mutex::new(Some(pool.clone()))).unwrap();
    let handles: Vec<_> = (0..10).map(|n| pool.submit(move || n).unwrap()).collect();
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), n);
    }
    pool.task_count();
    end(&pool);
    slot.get().unwrap().lock().unwrap().take();
}

#[test]
fn factory_handler_and_destructors_of_tasks_may_call_the_pool() {
    struct Asks(Arc<Mutex<Option<ThreadPoolExecutor>>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            let pool = self.0.lock().unwrap().clone();
            pool.iter().for_each(ask);
        }
    }
    let slot: Arc<Mutex<Option<ThreadPoolExecutor>>> = Arc::default();
    let (in_factory, in_handler) = (Arc::clone(&slot), Arc::clone(&slot));
    let pool = sized(1, 1)
        .work_queue(WorkQueue::array(2))
        .thread_factory(move |body| {
            in_factory.lock().unwrap().clone().iter().for_each(ask);
            thread_for(body)
        })
        .rejected_execution_handler(move |task: Task, pool: &ThreadPoolExecutor| {
            ask(pool);
            drop(Asks(Arc::clone(&in_handler)));
            drop(task);
            Ok(())
        })
        .build()
        .unwrap();
    *slot.lock().unwrap() = Some(pool.clone());
    let task = || {
        let asks = Asks(Arc::clone(&slot));
        Task::new(move || drop(asks))
    };
    let gate = Gate::new();
    occupy(&pool, &gate);
    let first = task();
    let id = first.id();
    pool.execute_task(first).unwrap();
    pool.execute_task(task()).unwrap();
    pool.execute_task(task()).unwrap(); // to the handler
    assert!(pool.remove(id));
    drop(pool.shutdown_now());
    gate.open();
    end(&pool);
    slot.lock().unwrap().take();
}

/// A pool with one thread, whose queue panics in the next `silent` calls of its `len`.
fn with_a_silent_queue(silent: &Arc<AtomicUsize>) -> ThreadPoolExecutor {
    let silent = Arc::clone(silent);
    let on_call = move |called: &str| {
        let less =
            |times: usize| times.checked_sub(1).map(|less| if times == usize::MAX { times } else { less });
        if called == "len" && silent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            die("no length");
        }
    };
    let queue = Wrapped { on_call: Box::new(on_call), ..Wrapped::new(LinkedBlockingQueue::unbounded()) };
    sized(1, 1).work_queue(WorkQueue::custom(queue)).build().unwrap()
}

// Regression: the worker that checked for remaining tasks unwound but was still counted, so the
// pool never terminated.
#[test]
fn a_queue_that_panics_when_asked_for_its_length_costs_no_worker_and_no_task() {
    for times in [1, 2, 3] {
        let silent = Arc::new(AtomicUsize::new(0));
        let pool = with_a_silent_queue(&silent);
        let gate = Gate::new();
        occupy(&pool, &gate);
        let queued = pool.submit(|| 7).unwrap();
        silent.store(times, Ordering::SeqCst);
        pool.shutdown();
        gate.open();
        await_end(&pool);
        assert_eq!(soon(queued).unwrap(), 7);
        assert_eq!(pool.completed_task_count(), 2);
    }
}

#[test]
fn a_queue_that_never_tells_its_length_is_waited_in_until_the_pool_is_stopped() {
    let silent = Arc::new(AtomicUsize::new(0));
    let pool = with_a_silent_queue(&silent);
    let gate = Gate::new();
    occupy(&pool, &gate);
    let queued = pool.submit(|| 7).unwrap();
    silent.store(usize::MAX, Ordering::SeqCst);
    pool.shutdown();
    gate.open();
    assert_eq!(soon(queued).unwrap(), 7);
    assert!(pool.shutdown_now().is_empty());
    await_end(&pool);
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        die("payload");
    }
}

// Regression: the panic was caught, but its payload's destructor panicked outside of that.
#[test]
fn a_queue_that_panics_with_what_panics_when_it_is_dropped_costs_no_worker() {
    let (asked, times) = (Gate::new(), AtomicUsize::new(0));
    let tell = asked.clone();
    let on_call = move |called: &str| {
        if called == "take" && times.fetch_add(1, Ordering::SeqCst) == 0 {
            tell.open();
            std::panic::resume_unwind(Box::new(Bomb));
        }
    };
    let queue = Wrapped { on_call: Box::new(on_call), ..Wrapped::new(LinkedBlockingQueue::unbounded()) };
    let pool = sized(1, 1).work_queue(WorkQueue::custom(queue)).build().unwrap();
    assert!(pool.prestart_core_thread());
    asked.pass();
    assert_eq!(soon(pool.submit(|| 7).unwrap()).unwrap(), 7);
    end(&pool);
}

#[test]
fn concurrent_submitters_make_exactly_as_many_threads_as_the_core_size() {
    let pool = sized(4, 16).build().unwrap();
    thread::scope(|scope| {
        let submitters: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..200).for_each(|_| pool.execute(|| {}).unwrap()))).collect();
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
    });
    assert_eq!((pool.pool_size(), pool.largest_pool_size()), (4, 4));
    end(&pool);
    assert_eq!(pool.completed_task_count(), 800);
}

#[test]
fn a_submitter_that_blocks_in_the_factory_holds_up_nobody_else() {
    let (gate, entered) = (Gate::new(), Gate::new());
    let (wait, enter) = (gate.clone(), entered.clone());
    let calls = AtomicUsize::new(0);
    let pool = sized(2, 2)
        .thread_factory(move |body| {
            if calls.fetch_add(1, Ordering::Relaxed) == 0 {
                enter.open();
                wait.pass();
            }
            thread_for(body)
        })
        .build()
        .unwrap();
    thread::scope(|scope| {
        let slow = block_elsewhere(scope, || pool.submit(|| 1).unwrap());
        entered.pass();
        assert_eq!(pool.submit(|| 2).unwrap().join().unwrap(), 2);
        assert!(!slow.is_finished());
        gate.open();
        assert_eq!(slow.join().join().unwrap(), 1);
    });
    end(&pool);
}
