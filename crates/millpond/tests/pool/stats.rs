//! Counters of a pool, and tasks that leave it without having run: removed, purged, cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::pools::sized;
use crate::support::{Gate, LONG, die, end, eventually, occupy};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    Hooks, JoinError, PoolStats, Task, TaskHandle, TaskInfo, TaskState, WorkQueue, executors, interrupt,
    policy,
};

/// Every kind of queue in which a task can wait.
fn waiting_queues() -> [WorkQueue; 5] {
    [
        WorkQueue::linked(),
        WorkQueue::array(10),
        WorkQueue::priority(),
        WorkQueue::delay(),
        WorkQueue::custom(LinkedBlockingQueue::unbounded()),
    ]
}

/// Asserts the law of accounting while no task changes its state.
#[track_caller]
fn accounted(stats: &PoolStats) {
    let settled = stats.completed + stats.panicked + stats.cancelled + stats.handed_back;
    let open = stats.queued_count + stats.active_count + stats.in_place_count;
    assert_eq!(stats.submitted, settled + open as u64, "{stats:?}");
}

// TPE-121
#[test]
fn the_active_count_is_the_number_of_running_tasks() {
    let pool = executors::fixed(2).unwrap();
    assert_eq!(pool.active_count(), 0);
    pool.prestart_all_core_threads();
    assert_eq!(pool.active_count(), 0);
    let inner = pool.clone();
    assert_eq!(pool.submit(move || inner.active_count()).unwrap().join().unwrap(), 1);
    eventually(|| pool.active_count() == 0);
    let gate = Gate::new();
    occupy(&pool, &gate);
    assert_eq!(pool.active_count(), 1);
    occupy(&pool, &gate);
    assert_eq!((pool.active_count(), pool.stats().active_count), (2, 2));
    gate.open();
    end(&pool);
    assert_eq!(pool.active_count(), 0);
}

#[test]
fn a_task_that_a_join_runs_in_place_is_counted_beside_the_task_that_joins_it() {
    let pool = executors::fixed(1).unwrap();
    let inner = pool.clone();
    let join_inner = move || {
        let look = inner.clone();
        let seen = inner.submit(move || (look.stats(), look.task_count())).unwrap();
        assert_eq!((inner.stats().queued_count, inner.stats().in_place_count), (1, 0));
        seen.join().unwrap()
    };
    let (stats, tasks) = pool.submit(join_inner).unwrap().join().unwrap();
    accounted(&stats);
    assert_eq!((stats.pool_size, stats.active_count, stats.in_place_count), (1, 1, 1));
    assert_eq!(tasks, 2);
    end(&pool);
    assert_eq!(pool.stats().in_place_count, 0);
}

// TPE-122
#[test]
fn the_completed_count_grows_when_a_task_has_ended() {
    let pool = executors::fixed(1).unwrap();
    assert_eq!(pool.completed_task_count(), 0);
    let gate = Gate::new();
    occupy(&pool, &gate);
    assert_eq!(pool.completed_task_count(), 0);
    gate.open();
    eventually(|| pool.completed_task_count() == 1);
    end(&pool);
    assert_eq!(pool.completed_task_count(), 1);
}

// TPE-124, TPE-136
#[test]
fn completed_counts_never_fall_and_active_never_exceeds_size_while_workers_come_and_go() {
    const TASKS: usize = 3000;
    let pool = sized(0, 4)
        .work_queue(WorkQueue::synchronous())
        .keep_alive_time(Duration::ZERO)
        .rejected_execution_handler(policy::Block::forever())
        .build()
        .unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let (mut completed, mut last) = (0, pool.stats());
            while !done.load(Ordering::Relaxed) {
                let now = pool.completed_task_count();
                assert!(now >= completed, "{now} after {completed}");
                completed = now;
                let stats = pool.stats();
                assert!(stats.completed >= last.completed && stats.panicked >= last.panicked);
                assert!(stats.largest_pool_size >= last.largest_pool_size);
                assert!(stats.largest_pool_size <= 4 && stats.pool_size <= 4);
                assert!(stats.active_count <= stats.pool_size, "{stats:?}");
                last = stats;
            }
        });
        for n in 0..TASKS {
            pool.execute(move || {
                if n % 5 == 0 {
                    die("on purpose")
                }
            })
            .unwrap();
        }
        eventually(|| pool.completed_task_count() == TASKS as u64);
        done.store(true, Ordering::Relaxed);
        looking.join().unwrap();
    });
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.panicked), (TASKS as u64 / 5 * 4, TASKS as u64 / 5));
    accounted(&stats);
}

// TPE-136
#[test]
fn the_text_form_never_shows_more_active_threads_than_threads() {
    let pool = sized(0, 4)
        .work_queue(WorkQueue::synchronous())
        .keep_alive_time(Duration::ZERO)
        .rejected_execution_handler(policy::Block::forever())
        .build()
        .unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let text = pool.to_string();
                let number = |after: &str| -> usize {
                    let rest = text.split_once(after).unwrap().1;
                    rest.split([',', ']']).next().unwrap().parse().unwrap()
                };
                assert!(number("active threads = ") <= number("pool size = "), "{text}");
            }
        });
        (0..3000).for_each(|_| pool.execute(|| {}).unwrap());
        done.store(true, Ordering::Relaxed);
        looking.join().unwrap();
    });
    end(&pool);
}

// TPE-125
#[test]
fn the_largest_size_is_kept_through_shrinking_and_the_end() {
    let pool =
        sized(0, 5).work_queue(WorkQueue::synchronous()).keep_alive_time(Duration::ZERO).build().unwrap();
    assert_eq!(pool.largest_pool_size(), 0);
    let gate = Gate::new();
    (0..3).for_each(|_| occupy(&pool, &gate));
    assert_eq!((pool.largest_pool_size(), pool.stats().largest_pool_size), (3, 3));
    gate.open();
    eventually(|| pool.pool_size() == 0);
    assert_eq!(pool.largest_pool_size(), 3);
    end(&pool);
    assert_eq!(pool.largest_pool_size(), 3);
}

// TPE-126
#[test]
fn the_pool_has_a_thread_from_the_return_of_the_first_execute_on() {
    for queue in waiting_queues() {
        let pool = sized(1, 1).work_queue(queue).build().unwrap();
        assert_eq!(pool.pool_size(), 0);
        pool.execute(|| {}).unwrap();
        assert_eq!((pool.pool_size(), pool.stats().pool_size), (1, 1));
        end(&pool);
        assert_eq!(pool.pool_size(), 0);
    }
}

// TPE-127
#[test]
fn the_task_count_is_completed_plus_active_plus_queued() {
    for queue in waiting_queues() {
        let pool = sized(1, 1).work_queue(queue).build().unwrap();
        assert_eq!(pool.task_count(), 0);
        pool.execute(|| {}).unwrap();
        eventually(|| pool.completed_task_count() == 1 && pool.active_count() == 0);
        assert_eq!(pool.task_count(), 1);
        let gate = Gate::new();
        occupy(&pool, &gate);
        for count in 2..=5 {
            assert_eq!(pool.task_count(), count);
            assert_eq!(pool.queued_count() as u64, count - 2);
            pool.execute(|| {}).unwrap();
        }
        accounted(&pool.stats());
        gate.open();
        end(&pool);
        assert_eq!((pool.task_count(), pool.completed_task_count()), (6, 6));
    }
}

// TPE-128
#[test]
fn tasks_that_are_rejected_or_taken_out_are_not_in_the_task_count() {
    let pool = executors::bounded(1, 1, 4).unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let handles: Vec<_> = (0..4).map(|_| pool.submit(|| {}).unwrap()).collect();
    assert_eq!((pool.task_count(), pool.stats().submitted), (5, 5));
    assert!(pool.execute(|| {}).is_err());
    assert_eq!((pool.task_count(), pool.stats().submitted, pool.stats().rejected), (5, 5, 1));
    assert!(pool.remove(handles[0].id()));
    assert_eq!(pool.task_count(), 4);
    assert!(handles[1].cancel(false));
    assert_eq!(pool.task_count(), 3);
    accounted(&pool.stats());
    assert_eq!(pool.shutdown_now().len(), 2);
    assert_eq!((pool.task_count(), pool.stats().submitted), (1, 5));
    accounted(&pool.stats());
    gate.open();
    end(&pool);
    assert_eq!((pool.task_count(), pool.completed_task_count()), (1, 1));
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.cancelled, stats.handed_back), (1, 1, 3));
    accounted(&stats);
}

// TPE-129
#[test]
fn without_remove_on_cancel_a_cancelled_task_stays_queued_and_then_counts_as_completed() {
    for queue in waiting_queues() {
        let pool = sized(1, 1).work_queue(queue).remove_on_cancel(false).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        let handle = pool.submit(|| panic!("must not run")).unwrap();
        let behind = pool.submit(|| 1).unwrap();
        assert!(handle.cancel(true));
        assert_eq!(pool.queued_tasks(), [handle.id(), behind.id()]);
        assert_eq!((pool.task_count(), pool.stats().cancelled), (3, 0));
        gate.open();
        assert_eq!(behind.join().unwrap(), 1);
        end(&pool);
        assert_eq!((pool.task_count(), pool.completed_task_count()), (3, 3));
        let stats = pool.stats();
        assert_eq!((stats.completed, stats.cancelled, stats.panicked), (2, 1, 0));
        accounted(&stats);
        assert!(matches!(handle.join(), Err::<(), _>(JoinError::Cancelled)));
    }
}

// TPE-129
#[test]
fn with_remove_on_cancel_a_cancelled_task_frees_its_place_at_once_and_is_not_completed() {
    for queue in waiting_queues() {
        let pool = sized(1, 1).work_queue(queue).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        let before = pool.remaining_queue_capacity();
        let handles: Vec<_> = (0..5).map(|_| pool.submit(|| {}).unwrap()).collect();
        for handle in &handles[1..4] {
            assert!(handle.cancel(false));
            assert!(!handle.cancel(true));
        }
        assert_eq!(pool.queued_tasks(), [handles[0].id(), handles[4].id()]);
        assert_eq!((pool.queued_count(), pool.purge()), (2, 0));
        assert!(before == usize::MAX || pool.remaining_queue_capacity() == before - 2);
        assert_eq!((pool.task_count(), pool.stats().cancelled), (3, 3));
        accounted(&pool.stats());
        gate.open();
        end(&pool);
        assert_eq!((pool.completed_task_count(), pool.stats().cancelled), (3, 3));
        accounted(&pool.stats());
    }
}

#[test]
fn cancelling_makes_room_in_a_full_queue_only_if_cancelled_tasks_are_removed() {
    for remove in [true, false] {
        let pool = sized(1, 1).work_queue(WorkQueue::array(1)).remove_on_cancel(remove).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        let handle = pool.submit(|| {}).unwrap();
        assert!(pool.execute(|| {}).is_err());
        handle.cancel(false);
        assert_eq!(pool.execute(|| {}).is_ok(), remove);
        assert_eq!(pool.purge(), usize::from(!remove));
        assert_eq!(pool.queued_count(), usize::from(remove));
        gate.open();
        end(&pool);
        accounted(&pool.stats());
    }
}

#[test]
fn the_captures_of_a_cancelled_task_are_dropped_at_once_wherever_it_stays() {
    for remove in [true, false] {
        let pool = sized(1, 1).remove_on_cancel(remove).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        let captured = Arc::new(());
        let capture = Arc::clone(&captured);
        let handle = pool.submit(move || drop(capture)).unwrap();
        handle.cancel(false);
        assert_eq!(Arc::strong_count(&captured), 1);
        gate.open();
        end(&pool);
    }
}

#[test]
fn a_task_cancelled_while_it_runs_counts_as_completed_and_cancelled() {
    let pool = executors::fixed(1).unwrap();
    let running = Gate::new();
    let started = running.clone();
    let handle = pool.submit(move || {
        started.open();
        interrupt::sleep(LONG).unwrap_err();
    });
    running.pass();
    assert!(handle.as_ref().unwrap().cancel(true));
    end(&pool);
    assert_eq!((pool.completed_task_count(), pool.stats().cancelled, pool.stats().completed), (1, 1, 0));
    accounted(&pool.stats());
}

// TPE-130
#[test]
fn remove_takes_out_a_waiting_task_once_and_never_a_running_one() {
    for queue in waiting_queues() {
        let pool = sized(1, 1).work_queue(queue).build().unwrap();
        let (gate, running) = (Gate::new(), Gate::new());
        let (wait, started) = (gate.clone(), running.clone());
        let task = Task::new(move || {
            started.open();
            wait.pass();
        });
        let running_id = task.id();
        pool.execute_task(task).unwrap();
        running.pass();
        let plain = Task::new(|| panic!("must not run"));
        let plain_id = plain.id();
        pool.execute_task(plain).unwrap();
        let mut tracked: TaskHandle<()> = pool.submit(|| panic!("must not run")).unwrap();
        let last = pool.submit(|| 1).unwrap();
        assert_eq!(pool.queued_tasks(), [plain_id, tracked.id(), last.id()]);

        assert!(!pool.remove(running_id));
        assert!(pool.remove(plain_id) && !pool.remove(plain_id));
        assert!(pool.remove(tracked.id()) && !pool.remove(tracked.id()));
        assert!(matches!(tracked.try_join(), Some(Err(JoinError::Abandoned))));
        assert_eq!(tracked.state(), TaskState::Abandoned);
        assert_eq!(pool.queued_tasks(), [last.id()]);
        let last_id = last.id();
        gate.open();
        assert_eq!(last.join().unwrap(), 1);
        assert!(!pool.remove(last_id));
        end(&pool);
        assert_eq!((pool.stats().handed_back, pool.completed_task_count()), (2, 2));
        accounted(&pool.stats());
    }
}

#[test]
fn removing_the_last_waiting_task_lets_a_shut_down_pool_end() {
    let pool = sized(1, 1).work_queue(WorkQueue::delay()).build().unwrap();
    let task = Task::new(|| {}).with_delay(Duration::from_secs(3600));
    let id = task.id();
    pool.execute_task(task).unwrap();
    pool.shutdown();
    assert_eq!(pool.await_termination(Duration::ZERO), Ok(false));
    assert!(pool.remove(id));
    assert_eq!(pool.await_termination(LONG), Ok(true));
}

// TPE-134
#[test]
fn purge_takes_out_the_cancelled_and_only_those_while_others_submit_and_take() {
    const TASKS: usize = 600;
    for queue in
        [WorkQueue::linked(), WorkQueue::priority(), WorkQueue::custom(LinkedBlockingQueue::unbounded())]
    {
        let pool = sized(1, 1).work_queue(queue).remove_on_cancel(false).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let done = AtomicBool::new(false);
        let (purged, cancelled) = thread::scope(|scope| {
            let purging = scope.spawn(|| {
                let mut purged = 0;
                while !done.load(Ordering::Relaxed) {
                    purged += pool.purge();
                }
                purged + pool.purge()
            });
            let mut cancelled = 0;
            for n in 0..TASKS {
                let ran = Arc::clone(&ran);
                let handle = pool.submit(move || ran.fetch_add(1, Ordering::Relaxed)).unwrap();
                cancelled += usize::from(n % 2 == 0 && handle.cancel(false));
            }
            done.store(true, Ordering::Relaxed);
            (purging.join().unwrap(), cancelled)
        });
        end(&pool);
        let stats = pool.stats();
        accounted(&stats);
        assert_eq!(stats.cancelled, cancelled as u64);
        assert_eq!(stats.completed, (TASKS - cancelled) as u64);
        assert_eq!(pool.completed_task_count(), (TASKS - purged) as u64);
        assert!(ran.load(Ordering::Relaxed) >= TASKS - cancelled);
    }
}

#[test]
fn purge_returns_how_many_it_took_out_in_every_kind_of_queue() {
    for queue in waiting_queues() {
        let pool = sized(1, 1).work_queue(queue).remove_on_cancel(false).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        let handles: Vec<_> = (0..6).map(|_| pool.submit(|| {}).unwrap()).collect();
        handles.iter().step_by(2).for_each(|handle| assert!(handle.cancel(false)));
        assert_eq!((pool.queued_count(), pool.purge(), pool.queued_count()), (6, 3, 3));
        assert_eq!((pool.purge(), pool.task_count()), (0, 4));
        accounted(&pool.stats());
        gate.open();
        end(&pool);
        assert_eq!((pool.stats().completed, pool.stats().cancelled), (4, 3));
    }
}

#[test]
fn every_fate_of_a_task_is_accounted_for() {
    struct RefusesSome;
    impl Hooks for RefusesSome {
        fn before_execute(&self, task: &TaskInfo) {
            if task.name() == Some("refused") {
                die("on purpose");
            }
        }
    }
    for eager in [false, true] {
        let builder = sized(1, 1).work_queue(WorkQueue::array(7)).hooks(RefusesSome);
        let pool = if eager { builder.eager() } else { builder }.build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate); // completed
        let evicted = pool.submit(|| {}).unwrap();
        let removed = pool.submit(|| {}).unwrap();
        let cancelled = pool.submit(|| {}).unwrap();
        let panicking: TaskHandle<()> = pool.submit(|| die("on purpose")).unwrap();
        pool.execute(|| die("on purpose")).unwrap();
        pool.execute_task(Task::new(|| {}).named("refused")).unwrap();
        let good = pool.submit(|| 1).unwrap(); // completed
        accounted(&pool.stats());
        assert!(pool.execute(|| {}).is_err()); // rejected
        pool.set_rejected_execution_handler(policy::DiscardOldest);
        pool.execute(|| {}).unwrap(); // rejected, then completed
        assert!(matches!(evicted.join(), Err(JoinError::Abandoned)));
        assert!(pool.remove(removed.id()));
        assert!(cancelled.cancel(false));
        accounted(&pool.stats());
        gate.open();
        assert!(panicking.join().is_err());
        assert_eq!(good.join().unwrap(), 1);
        eventually(|| pool.active_count() == 0 && pool.queued_count() == 0);
        accounted(&pool.stats());

        let gate = Gate::new();
        occupy(&pool, &gate); // completed
        let drained = pool.submit(|| {}).unwrap();
        drop(pool.shutdown_now());
        assert!(matches!(drained.join(), Err(JoinError::Abandoned)));
        assert!(pool.execute(|| {}).is_ok()); // rejected, and dropped by the policy
        gate.open();
        end(&pool);
        let stats = pool.stats();
        accounted(&stats);
        assert_eq!((stats.submitted, stats.rejected), (11, 3));
        assert_eq!((stats.completed, stats.panicked, stats.cancelled), (4, 3, 1));
        assert_eq!(stats.handed_back, 3);
        assert_eq!(pool.completed_task_count(), 7);
        assert_eq!(pool.task_count(), 7);
    }
}

#[test]
fn an_outcome_is_counted_before_the_handle_can_tell() {
    let pool = executors::fixed(2).unwrap();
    for n in 1..=200 {
        let succeeded = pool.submit(|| {}).unwrap();
        let failed: TaskHandle<()> = pool.submit(|| die("on purpose")).unwrap();
        succeeded.join().unwrap();
        assert_eq!(pool.stats().completed, n);
        assert!(failed.join().is_err());
        assert_eq!(pool.stats().panicked, n);
    }
    end(&pool);
}

#[test]
fn stats_show_the_settings_in_force_and_the_queue() {
    let pool = sized(1, 2).work_queue(WorkQueue::array(5)).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.execute(|| {}).unwrap();
    pool.set_maximum_pool_size(7).unwrap();
    pool.set_core_pool_size(1).unwrap();
    pool.set_keep_alive_time(Duration::from_secs(3)).unwrap();
    let stats = pool.stats();
    assert_eq!((stats.core_pool_size, stats.maximum_pool_size), (1, 7));
    assert_eq!(stats.keep_alive_time, Duration::from_secs(3));
    assert_eq!((stats.queued_count, stats.remaining_queue_capacity), (1, 4));
    assert_eq!(stats.state, pool.state());
    gate.open();
    end(&pool);
    assert_eq!(pool.stats().state, pool.state());
}
