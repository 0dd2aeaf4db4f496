//! Growth of a pool: new thread, queue, extra thread or rejection; prestart; eager growth.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use crate::support::pools::{bounded_custom, counting, factory, sized, thread_for};
use crate::support::{Gate, LONG, SHORT, die, end, eventually, occupied, occupy, soon};
use millpond::growth::{Admission, GrowthRule, Load, admit};
use millpond::queue::{BlockingQueue, LinkedBlockingQueue, SynchronousQueue};
use millpond::{
    JoinError, RejectReason, Rejected, RunState, Task, TaskHandle, TaskOf, ThreadPoolExecutor, WorkQueue,
    WorkerBody, executors,
};

// ---- the growth rule

/// The number of workers, relative to core and maximum size.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Size {
    BelowCore,
    BelowMaximum,
    AtMaximum,
}

// TPE-023, TPE-024, TPE-025, TPE-027
#[test]
fn the_growth_rule_is_this_table() {
    use Admission::{CoreThread, ExtraThread, Queue, Reject};
    use GrowthRule::{Eager, QueueFirst};
    use Size::{AtMaximum, BelowCore, BelowMaximum};
    // rule, size, whether the queue has room, whether a worker is idle
    let table = [
        (QueueFirst, BelowCore, false, false, CoreThread),
        (QueueFirst, BelowCore, false, true, CoreThread),
        (QueueFirst, BelowCore, true, false, CoreThread),
        (QueueFirst, BelowCore, true, true, CoreThread),
        (QueueFirst, BelowMaximum, false, false, ExtraThread),
        (QueueFirst, BelowMaximum, false, true, ExtraThread),
        (QueueFirst, BelowMaximum, true, false, Queue),
        (QueueFirst, BelowMaximum, true, true, Queue),
        (QueueFirst, AtMaximum, false, false, Reject),
        (QueueFirst, AtMaximum, false, true, Reject),
        (QueueFirst, AtMaximum, true, false, Queue),
        (QueueFirst, AtMaximum, true, true, Queue),
        (Eager, BelowCore, false, false, CoreThread),
        (Eager, BelowCore, false, true, CoreThread),
        (Eager, BelowCore, true, false, CoreThread),
        (Eager, BelowCore, true, true, Queue),
        (Eager, BelowMaximum, false, false, ExtraThread),
        (Eager, BelowMaximum, false, true, ExtraThread),
        (Eager, BelowMaximum, true, false, ExtraThread),
        (Eager, BelowMaximum, true, true, Queue),
        (Eager, AtMaximum, false, false, Reject),
        (Eager, AtMaximum, false, true, Reject),
        (Eager, AtMaximum, true, false, Queue),
        (Eager, AtMaximum, true, true, Queue),
    ];
    let mut looked_at = 0;
    for maximum in 1..=4 {
        for core in 0..=maximum {
            for workers in 0..=6 {
                let size = match workers {
                    _ if workers < core => BelowCore,
                    _ if workers < maximum => BelowMaximum,
                    _ => AtMaximum, // or above, after the maximum was lowered
                };
                for &(rule, when, queue_has_room, worker_is_free, expected) in &table {
                    if when == size {
                        let load = Load { workers, core, maximum, queue_has_room, worker_is_free };
                        assert_eq!(admit(rule, load), expected, "{rule:?} {load:?}");
                        looked_at += 1;
                    }
                }
            }
        }
    }
    assert_eq!(looked_at, (2 + 3 + 4 + 5) * 7 * 8);
}

// ---- execute

// TPE-021
#[test]
fn an_executed_task_runs_exactly_once_on_a_thread_of_the_pool() {
    let pool = sized(2, 2).thread_name_prefix("once-").build().unwrap();
    let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..200).map(|_| AtomicUsize::new(0)).collect());
    for n in 0..runs.len() {
        let runs = Arc::clone(&runs);
        pool.execute(move || {
            assert!(thread::current().name().unwrap().starts_with("once-"));
            runs[n].fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    }
    end(&pool);
    assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
    assert_eq!(pool.stats().completed, 200);
}

// TPE-023
#[test]
fn below_the_core_size_each_task_gets_a_new_thread_though_others_are_idle() {
    let pool = sized(3, 3).build().unwrap();
    for size in 1..=3 {
        pool.submit(|| {}).unwrap().join().unwrap();
        assert_eq!(pool.pool_size(), size);
    }
    pool.submit(|| {}).unwrap().join().unwrap();
    assert_eq!((pool.pool_size(), pool.largest_pool_size()), (3, 3));
    end(&pool);
}

// TPE-024, TPE-025, TPE-027, TPE-028
#[test]
fn the_queue_fills_before_extra_threads_come_and_those_before_anything_is_rejected() {
    for queue in [WorkQueue::array(4), WorkQueue::linked_bounded(4), bounded_custom(4)] {
        let rejected = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&rejected);
        let pool = sized(1, 3)
            .work_queue(queue)
            .rejected_execution_handler(move |task, _: &ThreadPoolExecutor| {
                count.fetch_add(1, Ordering::Relaxed);
                Err(Rejected::new(task, RejectReason::Saturated))
            })
            .build()
            .unwrap();
        let gate = Gate::new();
        let give = || {
            let gate = gate.clone();
            pool.execute(move || gate.pass())
        };
        occupy(&pool, &gate);
        for queued in 1..=4 {
            give().unwrap();
            assert_eq!((pool.pool_size(), pool.queued_count()), (1, queued));
            assert_eq!(pool.remaining_queue_capacity(), 4 - queued);
        }
        for size in 2..=3 {
            give().unwrap();
            assert_eq!((pool.pool_size(), pool.queued_count()), (size, 4));
        }
        assert_eq!(rejected.load(Ordering::Relaxed), 0);
        assert_eq!(give().unwrap_err().reason(), RejectReason::Saturated);
        assert_eq!(rejected.load(Ordering::Relaxed), 1);
        assert_eq!((pool.pool_size(), pool.queued_count()), (3, 4));
        gate.open();
        end(&pool);
        assert_eq!(pool.completed_task_count(), 3 + 4);
    }
}

// TPE-029
#[test]
fn with_an_unbounded_queue_the_pool_keeps_to_its_core_size() {
    for queue in [WorkQueue::linked(), WorkQueue::priority(), WorkQueue::delay()] {
        let pool = sized(2, 10).work_queue(queue).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        occupy(&pool, &gate);
        (0..50).for_each(|_| pool.execute(|| {}).unwrap());
        assert_eq!((pool.pool_size(), pool.queued_count()), (2, 50));
        assert_eq!(pool.remaining_queue_capacity(), usize::MAX);
        gate.open();
        end(&pool);
        assert_eq!(pool.largest_pool_size(), 2);
    }
}

#[test]
fn with_an_unbounded_queue_and_no_core_threads_there_is_one_thread() {
    for queue in [WorkQueue::linked(), WorkQueue::priority(), WorkQueue::delay()] {
        let pool = sized(0, 10).work_queue(queue).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        (0..10).for_each(|_| pool.execute(|| {}).unwrap());
        assert_eq!(pool.pool_size(), 1);
        gate.open();
        end(&pool);
        assert_eq!((pool.largest_pool_size(), pool.completed_task_count()), (1, 11));
    }
}

// TPE-031
#[test]
fn with_a_hand_off_queue_an_idle_worker_is_reused_and_else_a_new_one_is_made() {
    let pool = sized(0, 5).work_queue(WorkQueue::synchronous()).build().unwrap();
    let mut threads: Vec<ThreadId> = Vec::new();
    for _ in 0..5 {
        threads.push(pool.submit(|| thread::current().id()).unwrap().join().unwrap());
        eventually(|| pool.parked_workers().all == 1);
    }
    threads.dedup();
    assert_eq!((threads.len(), pool.largest_pool_size()), (1, 1));
    let gate = Gate::new();
    (0..3).for_each(|_| occupy(&pool, &gate));
    assert_eq!((pool.pool_size(), pool.remaining_queue_capacity(), pool.queued_count()), (3, 0, 0));
    gate.open();
    end(&pool);
}

// TPE-031
#[test]
fn a_synchronous_queue_of_ones_own_hands_tasks_to_the_waiting_worker() {
    let pool = sized(1, 1).work_queue(WorkQueue::custom(SynchronousQueue::new())).build().unwrap();
    assert!(pool.prestart_core_thread());
    for n in 0..5 {
        let mut task = Some(Task::new(|| {}));
        // Accepted only once the worker waits in the queue.
        eventually(|| match pool.execute_task(task.take().unwrap()) {
            Ok(()) => true,
            Err(rejected) => {
                assert_eq!(rejected.reason(), RejectReason::Saturated);
                task = Some(rejected.into_task());
                false
            }
        });
        eventually(|| pool.completed_task_count() == n + 1);
    }
    assert_eq!(pool.largest_pool_size(), 1);
    end(&pool);
}

// TPE-032
#[test]
fn a_rejected_task_comes_back_and_can_be_given_again_until_it_is_taken() {
    const TASKS: usize = 1000;
    let pool = executors::bounded(1, 2, 1).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    for _ in 0..TASKS {
        let runs = Arc::clone(&runs);
        let mut task = Task::new(move || {
            runs.fetch_add(1, Ordering::Relaxed);
        });
        let id = task.id();
        while let Err(rejected) = pool.execute_task(task) {
            task = rejected.into_task();
            assert_eq!(task.id(), id);
            thread::yield_now();
        }
    }
    end(&pool);
    assert_eq!(runs.load(Ordering::Relaxed), TASKS);
    assert_eq!((pool.stats().submitted, pool.completed_task_count()), (TASKS as u64, TASKS as u64));
}

// TPE-033
#[test]
fn waiting_tasks_are_in_the_queue_that_was_given_and_the_running_one_is_not() {
    let queue = Arc::new(LinkedBlockingQueue::unbounded());
    let pool = sized(1, 1).work_queue(WorkQueue::custom(Arc::clone(&queue))).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    assert_eq!(queue.len(), 0);
    let tasks: Vec<Task> = (0..4).map(|_| Task::new(|| {})).collect();
    let given: Vec<_> = tasks.iter().map(Task::id).collect();
    for (n, task) in tasks.into_iter().enumerate() {
        pool.execute_task(task).unwrap();
        assert_eq!(queue.len(), n + 1);
    }
    let mut seen = Vec::new();
    queue.for_each(&mut |task: &Task| seen.push(task.id()));
    assert_eq!(seen, given);
    assert_eq!(pool.queued_tasks(), given);
    gate.open();
    end(&pool);
    assert!(queue.is_empty());
}

// TPE-033
#[test]
fn queued_tasks_lists_ids_in_the_order_in_which_they_will_run() {
    let in_order = |queue, tasks: Vec<TaskOf<()>>, expected: &[usize]| {
        let pool = sized(1, 1).work_queue(queue).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        let ids: Vec<_> = tasks.iter().map(TaskOf::id).collect();
        tasks.into_iter().for_each(|task| drop(pool.submit_task(task).unwrap()));
        let expected: Vec<_> = expected.iter().map(|&n| ids[n]).collect();
        assert_eq!(pool.queued_tasks(), expected);
        let drained = pool.shutdown_now();
        assert_eq!(drained.iter().map(Task::id).collect::<Vec<_>>(), expected);
        gate.open();
        end(&pool);
    };
    let plain = || TaskOf::new(|| {});
    in_order(WorkQueue::linked(), vec![plain(), plain(), plain()], &[0, 1, 2]);
    in_order(WorkQueue::array(3), vec![plain(), plain(), plain()], &[0, 1, 2]);
    let urgent = |priority| plain().with_priority(priority);
    in_order(WorkQueue::priority(), vec![urgent(1), urgent(-5), urgent(9), urgent(1)], &[2, 0, 3, 1]);
    let late = |hours: u64| plain().with_delay(Duration::from_secs(3600 * hours));
    in_order(WorkQueue::delay(), vec![late(3), late(1), late(2)], &[1, 2, 0]);
}

// TPE-034
#[test]
fn a_task_put_into_the_queue_behind_the_pools_back_waits_until_there_is_a_worker() {
    let queue = Arc::new(LinkedBlockingQueue::unbounded());
    let pool = sized(1, 1).work_queue(WorkQueue::custom(Arc::clone(&queue))).build().unwrap();
    let ran = Gate::new();
    let run = ran.clone();
    queue.add(Task::new(move || run.open())).unwrap();
    assert_eq!((pool.pool_size(), pool.queued_count()), (0, 1));
    assert!(!ran.is_open());
    assert!(pool.prestart_core_thread());
    ran.pass();
    end(&pool);
}

// TPE-037
#[test]
fn raising_the_maximum_makes_a_saturated_pool_accept_again() {
    let pool = executors::bounded(1, 1, 1).unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.execute(|| {}).unwrap();
    assert!(pool.execute(|| {}).is_err());
    pool.set_maximum_pool_size(2).unwrap();
    occupy(&pool, &gate);
    assert_eq!((pool.pool_size(), pool.largest_pool_size()), (2, 2));
    assert!(pool.execute(|| {}).is_err());
    gate.open();
    end(&pool);
}

// TPE-038
#[test]
fn a_task_may_submit_to_its_own_pool_and_use_every_method_of_it() {
    let pool = sized(1, 2).work_queue(WorkQueue::array(2)).build().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let (inner_ran, inner) = (Arc::clone(&ran), pool.clone());
    pool.submit(move || {
        for _ in 0..2 {
            inner.execute(counting(&inner_ran)).unwrap();
        }
        inner.set_maximum_pool_size(3).unwrap();
        inner.set_core_pool_size(2).unwrap();
        inner.prestart_all_core_threads();
        assert!(inner.active_count() >= 1 && inner.task_count() >= 1);
        inner.purge();
        inner.to_string()
    })
    .unwrap()
    .join()
    .unwrap();
    end(&pool);
    assert_eq!(ran.load(Ordering::Relaxed), 2);
}

// ---- prestart

// TPE-039
#[test]
fn prestart_core_thread_adds_one_idle_worker_while_there_are_fewer_than_core() {
    let pool = sized(2, 6).build().unwrap();
    let prestart = || pool.prestart_core_thread();
    assert_eq!([prestart(), prestart(), prestart()], [true, true, false]);
    assert_eq!(pool.pool_size(), 2);
    pool.set_core_pool_size(4).unwrap();
    assert_eq!([prestart(), prestart(), prestart()], [true, true, false]);
    assert_eq!((pool.pool_size(), pool.active_count(), pool.task_count()), (4, 0, 0));
    end(&pool);
    assert_eq!(pool.stats().submitted, 0);
}

// TPE-040
#[test]
fn prestart_all_core_threads_starts_the_missing_ones_and_says_how_many() {
    let pool = sized(2, 6).build().unwrap();
    assert_eq!((pool.prestart_all_core_threads(), pool.pool_size()), (2, 2));
    assert_eq!(pool.prestart_all_core_threads(), 0);
    pool.set_core_pool_size(4).unwrap();
    assert!(pool.prestart_core_thread());
    assert_eq!((pool.prestart_all_core_threads(), pool.pool_size()), (1, 4));
    end(&pool);
}

// TPE-041
#[test]
fn prestarted_workers_get_their_tasks_through_the_queue() {
    let pool = sized(2, 4).work_queue(WorkQueue::array(2)).build().unwrap();
    pool.prestart_all_core_threads();
    let gate = Gate::new();
    occupy(&pool, &gate);
    occupy(&pool, &gate);
    assert_eq!(pool.pool_size(), 2);
    pool.execute(|| {}).unwrap();
    pool.execute(|| {}).unwrap();
    assert_eq!((pool.pool_size(), pool.queued_count()), (2, 2));
    gate.open();
    end(&pool);
    assert_eq!((pool.largest_pool_size(), pool.completed_task_count()), (2, 4));
}

// TPE-042
#[test]
fn after_shutdown_with_an_empty_queue_prestart_starts_nothing() {
    let pool = sized(3, 3).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.shutdown();
    assert!(!pool.prestart_core_thread());
    assert_eq!((pool.prestart_all_core_threads(), pool.pool_size()), (0, 1));
    gate.open();
    end(&pool);
    assert!(!pool.prestart_core_thread());
    assert_eq!((pool.prestart_all_core_threads(), pool.largest_pool_size()), (0, 1));
}

/// A pool with one thread whose queue already has three tasks, and the number that have run.
fn with_waiting_tasks(
    factory: impl Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
) -> (ThreadPoolExecutor, Arc<AtomicUsize>) {
    let queue = LinkedBlockingQueue::unbounded();
    let ran = Arc::new(AtomicUsize::new(0));
    (0..3).for_each(|_| queue.add(Task::new(counting(&ran))).unwrap());
    let pool = sized(1, 1).work_queue(WorkQueue::custom(queue)).thread_factory(factory).build().unwrap();
    (pool, ran)
}

// TPE-043
#[test]
fn after_shutdown_with_waiting_tasks_and_no_worker_prestart_starts_one_that_empties_the_queue() {
    let (pool, ran) = with_waiting_tasks(thread_for);
    pool.shutdown();
    assert_eq!((pool.state(), pool.pool_size(), pool.queued_count()), (RunState::Shutdown, 0, 3));
    assert!(pool.prestart_core_thread());
    assert_eq!(pool.await_termination(LONG), Ok(true));
    assert_eq!(ran.load(Ordering::Relaxed), 3);
}

/// Submits two tasks to a pool in which neither the first thread nor its replacement starts. The
/// second task was queued for that thread. Returns the handle of the second task.
fn strand_a_task(
    works: impl Fn(usize) -> bool + Send + Sync + 'static,
) -> (ThreadPoolExecutor, TaskHandle<u32>) {
    let (called, gate) = (Gate::new(), Gate::new());
    let inner = factory(move |call| call > 2 && works(call));
    let (knock, pass) = (called.clone(), gate.clone());
    let slow = move |body: WorkerBody| {
        knock.open();
        pass.pass();
        inner(body)
    };
    let pool = sized(1, 1).thread_factory(slow).build().unwrap();
    let handle = thread::scope(|scope| {
        let first = scope.spawn(|| pool.submit(|| 1));
        called.pass();
        let second = pool.submit(|| 2).unwrap();
        gate.open();
        let refused = first.join().unwrap().unwrap_err();
        assert_eq!(refused.reason(), RejectReason::SpawnFailed);
        second
    });
    assert_eq!((pool.pool_size(), pool.queued_count()), (0, 1));
    (pool, handle)
}

/// Strands a task while a call of the factory lasts whose thread has come and gone: the call
/// returns when the pool has failed to start a worker for the task. Returns the task's handle.
fn strand_a_task_during_a_start() -> (ThreadPoolExecutor, TaskHandle<u32>) {
    let [called, fail, stranded] = [Gate::new(), Gate::new(), Gate::new()];
    let (knock, pass, wait) = (called.clone(), fail.clone(), stranded.clone());
    let calls = AtomicUsize::new(0);
    let pool = sized(0, 1)
        .keep_alive_time(Duration::ZERO)
        .thread_factory(move |body| match calls.fetch_add(1, Ordering::Relaxed) {
            1 => {
                let thread = thread_for(body);
                wait.pass();
                thread
            }
            2 => {
                knock.open();
                pass.pass();
                Err(io::Error::other("no thread today"))
            }
            0 | 3 => Err(io::Error::other("no thread today")),
            _ => thread_for(body),
        })
        .build()
        .unwrap();
    let handle = thread::scope(|scope| {
        let rescuer = scope.spawn(|| pool.execute(|| {})); // calls 0 and 1
        eventually(|| pool.completed_task_count() == 1 && pool.pool_size() == 0);
        let refused = scope.spawn(|| pool.submit(|| 1)); // calls 2 and 3
        called.pass();
        let handle = pool.submit(|| 2).unwrap();
        fail.open();
        assert_eq!(refused.join().unwrap().unwrap_err().reason(), RejectReason::SpawnFailed);
        stranded.open();
        rescuer.join().unwrap().unwrap();
        handle
    });
    assert_eq!((pool.pool_size(), pool.queued_count()), (0, 1));
    (pool, handle)
}

// Regression: a flag said that tasks were stranded, and the late return of the start cleared it.
#[test]
fn a_start_that_returns_late_does_not_hide_a_stranded_task_from_its_join() {
    let (pool, stranded) = strand_a_task_during_a_start();
    assert_eq!(soon(stranded).unwrap(), 2);
    end(&pool);
}

#[test]
fn a_start_that_returns_late_does_not_hide_a_stranded_task_from_shutdown() {
    let (pool, stranded) = strand_a_task_during_a_start();
    end(&pool);
    assert_eq!(stranded.join().unwrap(), 2);
}

#[test]
fn a_task_stranded_by_a_failed_spawn_runs_when_a_thread_can_be_had() {
    let (pool, stranded) = strand_a_task(|_| true);
    assert_eq!(pool.submit(|| 3).unwrap().join().unwrap(), 3);
    assert_eq!(stranded.join().unwrap(), 2);
    end(&pool);
}

#[test]
fn a_shutdown_tries_again_to_have_a_thread_for_stranded_tasks() {
    let (pool, stranded) = strand_a_task(|_| true);
    end(&pool);
    assert_eq!(stranded.join().unwrap(), 2);
}

#[test]
fn a_shutdown_that_gets_no_thread_gives_stranded_tasks_up() {
    let (pool, stranded) = strand_a_task(|_| false);
    end(&pool);
    assert!(matches!(stranded.join(), Err(JoinError::Abandoned)));
    assert_eq!(pool.stats().handed_back, 1);
}

// TPE-049
#[test]
fn a_pool_that_gets_no_thread_for_what_waits_ends_when_that_is_taken_out() {
    let (pool, ran) = with_waiting_tasks(factory(|_| false));
    pool.shutdown();
    assert_eq!(pool.await_termination(SHORT), Ok(false));
    assert_eq!(pool.shutdown_now().len(), 3);
    assert_eq!(pool.await_termination(LONG), Ok(true));
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

// ---- eager

#[test]
fn an_eager_pool_uses_all_threads_before_the_queue() {
    let pool = sized(1, 3).work_queue(WorkQueue::array(2)).eager().build().unwrap();
    let gate = Gate::new();
    for size in 1..=3 {
        occupy(&pool, &gate);
        assert_eq!((pool.pool_size(), pool.queued_count()), (size, 0));
    }
    for queued in 1..=2 {
        pool.execute(|| {}).unwrap();
        assert_eq!((pool.pool_size(), pool.queued_count()), (3, queued));
    }
    assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::Saturated);
    gate.open();
    end(&pool);
    assert_eq!(pool.completed_task_count(), 5);
}

// Regression: only a raised core size started threads.
#[test]
fn a_raised_maximum_size_of_an_eager_pool_starts_threads_for_queued_tasks() {
    let pool = sized(1, 1).eager().build().unwrap();
    let barrier = Arc::new(Barrier::new(3));
    let meet = || {
        let barrier = Arc::clone(&barrier);
        pool.submit(move || _ = barrier.wait()).unwrap()
    };
    let tasks = [meet(), meet(), meet()];
    pool.set_maximum_pool_size(3).unwrap();
    tasks.into_iter().for_each(|task| soon(task).unwrap());
    end(&pool);
}

#[test]
fn an_eager_pool_has_never_more_threads_than_tasks_at_once() {
    for queue in [WorkQueue::linked(), WorkQueue::array(10), WorkQueue::priority(), bounded_custom(10)] {
        let pool = sized(2, 8).work_queue(queue).eager().build().unwrap();
        for _ in 0..20 {
            pool.submit(|| {}).unwrap().join().unwrap();
        }
        assert_eq!(pool.largest_pool_size(), 1);
        for tasks in 2..=4 {
            let gate = Gate::new();
            (0..tasks).for_each(|_| occupy(&pool, &gate));
            assert_eq!(pool.largest_pool_size(), tasks);
            gate.open();
            eventually(|| pool.active_count() == 0);
        }
        end(&pool);
    }
}

#[test]
fn an_eager_pool_counts_tasks_that_panic_are_cancelled_or_removed_out_again() {
    let pool = sized(1, 2).work_queue(WorkQueue::linked()).eager().build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    occupy(&pool, &gate);
    for _ in 0..5 {
        let handle = pool.submit(|| {}).unwrap();
        assert!(handle.cancel(false));
        let task = Task::new(|| {});
        let id = task.id();
        pool.execute_task(task).unwrap();
        assert!(pool.remove(id));
        pool.execute(|| die("on purpose")).unwrap();
    }
    gate.open();
    eventually(|| pool.completed_task_count() == 7);
    // A task that was still counted would cause a third worker for the next task.
    pool.set_maximum_pool_size(10).unwrap();
    for _ in 0..5 {
        pool.submit(|| {}).unwrap().join().unwrap();
    }
    assert_eq!(pool.largest_pool_size(), 2);
    end(&pool);
}

// Regression: such a task was not counted as accepted but as settled, and the count wrapped around.
#[test]
fn an_eager_pool_grows_after_its_owner_has_put_tasks_into_the_queue() {
    let queue = Arc::new(LinkedBlockingQueue::unbounded());
    let builder = sized(1, 2).work_queue(WorkQueue::custom(Arc::clone(&queue)));
    let pool = builder.eager().build().unwrap();
    assert!(pool.prestart_core_thread());
    queue.offer(Task::new(|| {})).unwrap();
    eventually(|| (pool.completed_task_count(), pool.active_count()) == (1, 0));
    let gate = Gate::new();
    occupy(&pool, &gate);
    let mut second = pool.submit(|| 7).unwrap();
    let joined = second.join_timeout(LONG);
    gate.open();
    assert_eq!(joined.expect("a second thread").unwrap(), 7);
    end(&pool);
}

// Regression: only a raised maximum size started threads, although the pool was below it.
#[test]
fn a_raised_core_size_of_an_eager_pool_starts_threads_for_queued_tasks() {
    let pool = sized(1, 2).eager().thread_factory(factory(|call| call != 2)).build().unwrap();
    let gate = occupied(&pool);
    let mut queued = pool.submit(|| 7).unwrap(); // its thread does not start
    assert_eq!((pool.pool_size(), pool.queued_count()), (1, 1));
    pool.set_core_pool_size(2).unwrap();
    let joined = queued.join_timeout(LONG);
    gate.open();
    assert_eq!(joined.expect("a second thread").unwrap(), 7);
    end(&pool);
}
