//! The end of a pool: graceful and immediate shutdown, waiting for it, dropping the last handle.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::sized;
use crate::support::{
    Gate, LONG, MEDIUM, SHORT, block, die, end, eventually, interrupt_myself, occupy, threads_named,
};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    ExecutorService, Hooks, JoinError, RejectReason, RunState, ShutdownOutcome, Task, TaskState,
    ThreadPoolExecutor, WorkQueue, executors, interrupt,
};

/// Submits a task that sleeps until it is interrupted and then increments `interrupts`. Returns
/// when it runs.
fn occupy_until_interrupted(pool: &ThreadPoolExecutor, interrupts: &Arc<AtomicUsize>) {
    let (running, interrupts) = (Gate::new(), Arc::clone(interrupts));
    let started = running.clone();
    pool.execute(move || {
        started.open();
        if interrupt::sleep(LONG).is_err() {
            interrupts.fetch_add(1, Ordering::Relaxed);
        }
    })
    .unwrap();
    running.pass();
}

// ---- shutdown

// TPE-078, TPE-098
#[test]
fn a_pool_is_shut_down_from_the_shutdown_on_and_terminated_only_after_one() {
    let pool = executors::fixed(1).unwrap();
    assert!(!pool.is_shutdown() && !pool.is_terminated());
    pool.submit(|| {}).unwrap().join().unwrap();
    assert!(!pool.is_shutdown() && !pool.is_terminated());
    pool.shutdown();
    assert!(pool.is_shutdown());
    assert_eq!(pool.await_termination(LONG), Ok(true));
    assert!(pool.is_shutdown() && pool.is_terminated());
    assert_eq!(pool.state(), RunState::Terminated);
}

// TPE-079
#[test]
fn shutdown_runs_what_waits_and_interrupts_nothing() {
    let queues = [
        WorkQueue::linked(),
        WorkQueue::array(10),
        WorkQueue::priority(),
        WorkQueue::delay(),
        WorkQueue::custom(LinkedBlockingQueue::unbounded()),
    ];
    for queue in queues {
        let pool = sized(1, 1).work_queue(queue).build().unwrap();
        let (gate, running) = (Gate::new(), Gate::new());
        let (wait, started) = (gate.clone(), running.clone());
        let active = pool.submit(move || {
            started.open();
            wait.pass();
            interrupt::is_interrupted()
        });
        running.pass();
        let waiting: Vec<_> = (0..5).map(|n| pool.submit(move || n).unwrap()).collect();
        pool.shutdown();
        assert_eq!((pool.state(), pool.queued_count()), (RunState::Shutdown, 5));
        gate.open();
        assert!(!active.unwrap().join().unwrap());
        for (n, handle) in waiting.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), n);
        }
        assert_eq!(pool.await_termination(LONG), Ok(true));
        assert_eq!(pool.completed_task_count(), 6);
    }
}

// TPE-080
#[test]
fn shutdown_sends_any_number_of_idle_workers_home_without_their_keep_alive_time() {
    let custom = WorkQueue::custom(LinkedBlockingQueue::unbounded());
    for queue in [WorkQueue::linked(), WorkQueue::synchronous(), custom] {
        let pool = sized(100, 100).work_queue(queue).thread_name_prefix("crowd-").build().unwrap();
        assert_eq!(pool.prestart_all_core_threads(), 100);
        pool.shutdown();
        assert_eq!(pool.await_termination(LONG), Ok(true));
        assert_eq!((pool.pool_size(), pool.largest_pool_size()), (0, 100));
        eventually(|| threads_named("crowd-").unwrap_or(0) == 0);
    }
}

/// Two workers look for the last task. The one that does not get it must not park: once the other
/// one has exited, no thread would wake it.
// TPE-080
#[test]
fn workers_that_find_the_queue_just_emptied_leave_too() {
    for round in 0..1000 {
        let queue = if round % 2 == 0 { WorkQueue::linked() } else { WorkQueue::priority() };
        let pool = sized(2, 2).work_queue(queue).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        occupy(&pool, &gate);
        (0..3).for_each(|_| pool.execute(|| {}).unwrap());
        pool.shutdown();
        gate.open();
        let ended = pool.await_termination(LONG);
        assert_eq!(ended, Ok(true), "round {round}: {pool}, {:?}", pool.parked_workers());
    }
}

struct CountsTerminated(Arc<AtomicUsize>);

impl Hooks for CountsTerminated {
    fn terminated(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

// TPE-082
#[test]
fn ending_a_pool_many_times_ends_it_once() {
    let terminated = Arc::new(AtomicUsize::new(0));
    let pool = sized(2, 2).hooks(CountsTerminated(Arc::clone(&terminated))).build().unwrap();
    (0..10).for_each(|_| pool.execute(|| {}).unwrap());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|n| {
                let pool = &pool;
                scope.spawn(move || match n % 3 {
                    0 => pool.shutdown(),
                    1 => drop(pool.shutdown_now()),
                    _ => drop(pool.await_termination(LONG)),
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    for _ in 0..3 {
        pool.shutdown();
        assert!(pool.shutdown_now().is_empty());
        assert_eq!(pool.await_termination(LONG), Ok(true));
        pool.close();
    }
    assert_eq!(terminated.load(Ordering::Relaxed), 1);
    assert_eq!(pool.state(), RunState::Terminated);
}

// TPE-083
#[test]
fn after_a_shutdown_every_new_task_is_rejected_also_one_of_the_pools_own() {
    let pool = sized(1, 4).build().unwrap();
    let refused = |pool: &ThreadPoolExecutor| {
        let reason = pool.execute(|| {}).unwrap_err().reason();
        assert_eq!(pool.submit(|| {}).unwrap_err().reason(), reason);
        assert_eq!(reason, RejectReason::Shutdown);
    };
    let (gate, inner) = (Gate::new(), pool.clone());
    let wait = gate.clone();
    let own = pool.submit(move || {
        wait.pass();
        refused(&inner);
    });
    pool.shutdown();
    assert!(pool.is_terminating());
    refused(&pool);
    gate.open();
    own.unwrap().join().unwrap();
    assert_eq!(pool.await_termination(LONG), Ok(true));
    refused(&pool);
    assert_eq!((pool.task_count(), pool.completed_task_count()), (1, 1));
}

#[test]
fn a_task_rejected_by_a_shutdown_can_still_be_run_by_hand() {
    let pool = executors::fixed(1).unwrap();
    end(&pool);
    let ran = Gate::new();
    let run = ran.clone();
    let rejected = pool.execute_task(Task::new(move || run.open()).named("late")).unwrap_err();
    assert_eq!(rejected.task().name(), Some("late"));
    assert!(!ran.is_open());
    rejected.into_task().run();
    assert!(ran.is_open());
}

// ---- shutdown_now

// TPE-084, TPE-085
#[test]
fn shutdown_now_interrupts_the_running_and_returns_the_waiting_in_queue_order() {
    let pool = executors::fixed(2).unwrap();
    let interrupts = Arc::new(AtomicUsize::new(0));
    occupy_until_interrupted(&pool, &interrupts);
    occupy_until_interrupted(&pool, &interrupts);
    let waiting: Vec<_> = (0..3).map(|_| Task::new(|| {})).collect();
    let ids: Vec<_> = waiting.iter().map(Task::id).collect();
    waiting.into_iter().for_each(|task| pool.execute_task(task).unwrap());
    let returned = pool.shutdown_now();
    assert_eq!(returned.iter().map(Task::id).collect::<Vec<_>>(), ids);
    assert_eq!(pool.queued_count(), 0);
    assert!(pool.is_shutdown());
    assert_eq!(pool.await_termination(LONG), Ok(true));
    assert_eq!(interrupts.load(Ordering::Relaxed), 2);
    assert_eq!((pool.completed_task_count(), pool.task_count()), (2, 2));
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.handed_back), (5, 2, 3));
}

// TPE-084
#[test]
fn shutdown_now_interrupts_the_running_of_every_kind_of_queue() {
    let custom = WorkQueue::custom(LinkedBlockingQueue::unbounded());
    for queue in [WorkQueue::synchronous(), WorkQueue::priority(), WorkQueue::delay(), custom] {
        let pool = sized(2, 2).work_queue(queue).build().unwrap();
        let interrupts = Arc::new(AtomicUsize::new(0));
        occupy_until_interrupted(&pool, &interrupts);
        pool.prestart_all_core_threads(); // and adds an idle worker
        assert!(pool.shutdown_now().is_empty());
        assert_eq!(pool.await_termination(LONG), Ok(true));
        assert_eq!(interrupts.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn handles_of_returned_tasks_resolve_when_the_tasks_are_run_or_dropped() {
    let pool = executors::fixed(1).unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let (kept, dropped) = (pool.submit(|| 1).unwrap(), pool.submit(|| 2).unwrap());
    let mut returned = pool.shutdown_now();
    assert_eq!((kept.state(), dropped.state()), (TaskState::Pending, TaskState::Pending));
    drop(returned.pop());
    assert!(matches!(dropped.join(), Err(JoinError::Abandoned)));
    returned.pop().unwrap().run();
    assert_eq!(kept.join().unwrap(), 1);
    gate.open();
    end(&pool);
}

// TPE-088
#[test]
fn shutdown_now_called_by_a_task_interrupts_that_task_too() {
    let pool = executors::fixed(1).unwrap();
    let inner = pool.clone();
    let seen = pool.submit(move || {
        let before = interrupt::is_interrupted();
        let returned = inner.shutdown_now();
        (before, interrupt::is_interrupted(), returned.len(), inner.is_terminated())
    });
    assert_eq!(seen.unwrap().join().unwrap(), (false, true, 0, false));
    assert_eq!(pool.await_termination(LONG), Ok(true));
}

// TPE-089, TPE-097
#[test]
fn a_task_that_ignores_its_interrupt_keeps_the_pool_terminating_until_it_ends() {
    let pool = executors::fixed(1).unwrap();
    assert!(!pool.is_terminating());
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.shutdown_now();
    assert_eq!((pool.is_terminating(), pool.is_terminated(), pool.state()), (true, false, RunState::Stop));
    assert_eq!(pool.await_termination(SHORT), Ok(false));
    assert_eq!((pool.is_terminating(), pool.is_terminated(), pool.pool_size()), (true, false, 1));
    gate.open();
    assert_eq!(pool.await_termination(LONG), Ok(true));
    assert_eq!((pool.is_terminating(), pool.is_terminated()), (false, true));
}

// TPE-091
#[test]
fn shutdown_now_after_shutdown_returns_what_still_waits_and_interrupts_what_runs() {
    let pool = executors::fixed(1).unwrap();
    let interrupts = Arc::new(AtomicUsize::new(0));
    occupy_until_interrupted(&pool, &interrupts);
    let waiting = [pool.submit(|| {}).unwrap(), pool.submit(|| {}).unwrap()];
    pool.shutdown();
    assert_eq!((pool.state(), pool.queued_count()), (RunState::Shutdown, 2));
    assert_eq!(interrupts.load(Ordering::Relaxed), 0);
    let returned = pool.shutdown_now();
    assert_eq!(
        returned.iter().map(Task::id).collect::<Vec<_>>(),
        waiting.iter().map(|handle| handle.id()).collect::<Vec<_>>()
    );
    assert_eq!(pool.await_termination(LONG), Ok(true));
    assert_eq!((interrupts.load(Ordering::Relaxed), pool.completed_task_count()), (1, 1));
}

#[test]
fn a_task_that_begins_after_shutdown_now_begins_interrupted() {
    // The worker has taken the task and blocks in its start hook when the pool is stopped.
    struct Holds {
        entered: Gate,
        gate: Gate,
    }
    impl Hooks for Holds {
        fn worker_started(&self, _: &millpond::WorkerInfo) {
            self.entered.open();
            self.gate.pass();
        }
    }
    let (entered, gate) = (Gate::new(), Gate::new());
    let hooks = Holds { entered: entered.clone(), gate: gate.clone() };
    let pool = sized(1, 1).hooks(hooks).build().unwrap();
    let flag = pool.submit(interrupt::is_interrupted).unwrap();
    entered.pass();
    assert!(pool.shutdown_now().is_empty());
    gate.open();
    assert!(flag.join().unwrap());
    end(&pool);
}

// ---- waiting for the end

// TPE-093
#[test]
fn await_termination_of_a_running_pool_is_false_and_not_before_its_time() {
    let pool = executors::fixed(1).unwrap();
    for timeout in [Duration::ZERO, Duration::from_nanos(1), SHORT] {
        let begin = Instant::now();
        assert_eq!(pool.await_termination(timeout), Ok(false));
        assert!(begin.elapsed() >= timeout);
    }
    assert!(!pool.is_shutdown());
    assert_eq!(pool.submit(|| 4).unwrap().join().unwrap(), 4);
    end(&pool);
}

// TPE-094
#[test]
fn await_termination_of_a_terminated_pool_is_true_at_once_also_when_interrupted() {
    let pool = executors::fixed(1).unwrap();
    end(&pool);
    assert_eq!(pool.await_termination(Duration::ZERO), Ok(true));
    interrupt_myself();
    assert_eq!(pool.await_termination(LONG), Ok(true));
    assert!(interrupt::interrupted());
}

#[test]
fn await_termination_can_be_interrupted_and_leaves_the_pool_alone() {
    let pool = executors::fixed(1).unwrap();
    thread::scope(|scope| {
        let waiter = block(scope, || (pool.await_termination(Duration::MAX), interrupt::is_interrupted()));
        waiter.interrupt();
        assert_eq!(waiter.join(), (Err(interrupt::Interrupted), false));
    });
    assert!(!pool.is_shutdown());
    end(&pool);
}

// TPE-095
#[test]
fn a_task_does_not_wait_for_the_end_of_its_own_pool() {
    let pool = executors::fixed(1).unwrap();
    let inner = pool.clone();
    let seen = pool.submit(move || {
        inner.shutdown();
        inner.await_termination(Duration::MAX)
    });
    assert_eq!(seen.unwrap().join().unwrap(), Ok(false));
    assert_eq!(pool.await_termination(LONG), Ok(true));
}

// TPE-101
#[test]
fn a_terminated_pool_has_nothing_left_and_has_completed_all_its_tasks() {
    let pool = sized(2, 4).work_queue(WorkQueue::array(10)).build().unwrap();
    for n in 0..10 {
        pool.execute(move || {
            if n % 3 == 0 {
                die("on purpose")
            }
        })
        .unwrap();
    }
    end(&pool);
    assert_eq!((pool.queued_count(), pool.active_count(), pool.pool_size()), (0, 0, 0));
    assert_eq!((pool.task_count(), pool.completed_task_count()), (10, 10));
    assert!(pool.queued_tasks().is_empty());
}

/// The state of the pool, as the terminated hook sees it.
#[derive(Default)]
struct LooksAtTheEnd {
    pool: Mutex<Option<ThreadPoolExecutor>>,
    seen: Mutex<Vec<(RunState, usize, bool, String)>>,
}

struct Looks(Arc<LooksAtTheEnd>);

impl Hooks for Looks {
    fn terminated(&self) {
        if let Some(pool) = self.0.pool.lock().unwrap().take() {
            let text = pool.to_string();
            let seen = (pool.state(), pool.pool_size(), pool.is_terminated(), text);
            self.0.seen.lock().unwrap().push(seen);
        }
    }
}

// TPE-102
#[test]
fn a_pool_that_tidies_up_has_no_threads_and_is_terminated_only_after_the_hook() {
    let looks = Arc::new(LooksAtTheEnd::default());
    let pool = sized(3, 3).hooks(Looks(Arc::clone(&looks))).build().unwrap();
    *looks.pool.lock().unwrap() = Some(pool.clone());
    pool.prestart_all_core_threads();
    pool.shutdown();
    eventually(|| {
        let terminated = pool.is_terminated();
        assert!(!terminated || pool.pool_size() == 0);
        terminated
    });
    let seen = looks.seen.lock().unwrap();
    let [(state, size, terminated, text)] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!((*state, *size, *terminated), (RunState::Tidying, 0, false));
    assert!(text.contains("[Shutting down, pool size = 0, active threads = 0"), "{text}");
}

// TPE-104
#[test]
fn all_who_wait_for_the_end_are_released_together() {
    let pool = executors::fixed(1).unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..5).map(|_| block(scope, || pool.await_termination(LONG))).collect();
        pool.shutdown();
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        gate.open();
        waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join(), Ok(true)));
    });
}

// ---- close

#[test]
fn close_waits_for_all_tasks() {
    let pool = executors::fixed(1).unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let last = pool.submit(|| {}).unwrap();
    thread::scope(|scope| {
        let closing = block(scope, || pool.close());
        assert!(pool.is_shutdown() && !closing.is_finished());
        gate.open();
        closing.join();
    });
    assert!(pool.is_terminated());
    assert_eq!(last.state(), TaskState::Succeeded);
}

#[test]
fn an_interrupted_close_stops_the_pool_waits_on_and_leaves_the_flag_set() {
    let pool = executors::fixed(1).unwrap();
    let (gate, interrupted) = (Gate::new(), Gate::new());
    let (wait, note) = (gate.clone(), interrupted.clone());
    let running = Gate::new();
    let started = running.clone();
    pool.execute(move || {
        started.open();
        assert!(interrupt::sleep(LONG).is_err());
        note.open();
        wait.pass();
    })
    .unwrap();
    running.pass();
    let waiting = pool.submit(|| {}).unwrap();
    thread::scope(|scope| {
        let closing = block(scope, || {
            ExecutorService::close(&pool);
            (pool.is_terminated(), interrupt::is_interrupted())
        });
        closing.interrupt();
        interrupted.pass();
        assert!(!closing.is_finished());
        gate.open();
        assert_eq!(closing.join(), (true, true));
    });
    assert!(matches!(waiting.join(), Err(JoinError::Abandoned)));
}

#[test]
fn close_called_by_a_task_does_not_wait_for_itself() {
    let pool = executors::fixed(1).unwrap();
    let inner = pool.clone();
    let closed = pool.submit(move || {
        inner.close();
        ExecutorService::close(&inner);
        (inner.is_shutdown(), inner.is_terminated())
    });
    let after = pool.submit(|| 9);
    let closed = closed.unwrap().join_timeout(LONG).expect("the task waits for itself");
    assert_eq!(closed.unwrap(), (true, false));
    if let Ok(after) = after {
        assert_eq!(after.join().unwrap(), 9); // it was accepted before the shutdown
    }
    assert_eq!(pool.await_termination(LONG), Ok(true));
}

// ---- shutdown_gracefully

#[test]
fn a_graceful_shutdown_that_ends_in_time_has_drained_the_pool() {
    let pool = executors::fixed(2).unwrap();
    let handles: Vec<_> = (0..20).map(|n| pool.submit(move || n).unwrap()).collect();
    let report = pool.shutdown_gracefully(LONG, LONG);
    assert_eq!(report.outcome, ShutdownOutcome::Drained);
    assert!(report.never_run.is_empty() && pool.is_terminated());
    for (n, handle) in handles.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), n);
    }
    assert_eq!(pool.shutdown_gracefully(Duration::ZERO, LONG).outcome, ShutdownOutcome::Drained);
}

#[test]
fn a_graceful_shutdown_interrupts_after_the_grace_and_reports_what_never_ran() {
    let pool = executors::fixed(1).unwrap();
    let interrupts = Arc::new(AtomicUsize::new(0));
    occupy_until_interrupted(&pool, &interrupts);
    let waiting = [pool.submit(|| 1).unwrap(), pool.submit(|| 2).unwrap()];
    let report = pool.shutdown_gracefully(SHORT, LONG);
    assert_eq!(report.outcome, ShutdownOutcome::Interrupted);
    assert!(report.elapsed >= SHORT);
    assert_eq!(interrupts.load(Ordering::Relaxed), 1);
    let never_run: Vec<_> = report.never_run.iter().map(Task::id).collect();
    assert_eq!(never_run, waiting.each_ref().map(|handle| handle.id()));
    report.never_run.into_iter().for_each(Task::run);
    assert_eq!(waiting.map(|handle| handle.join().unwrap()), [1, 2]);
    assert!(pool.is_terminated());
}

#[test]
fn a_graceful_shutdown_gives_up_on_a_task_that_ignores_its_interrupt() {
    let pool = executors::fixed(1).unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.execute(|| {}).unwrap();
    let report = pool.shutdown_gracefully(SHORT, SHORT);
    assert_eq!((report.outcome, report.never_run.len()), (ShutdownOutcome::StillRunning, 1));
    assert!(report.elapsed >= 2 * SHORT);
    assert!(pool.is_terminating());
    gate.open();
    assert_eq!(pool.await_termination(LONG), Ok(true));
}

#[test]
fn an_interrupted_graceful_shutdown_goes_on_to_force_at_once_and_leaves_the_flag_set() {
    let pool = executors::fixed(1).unwrap();
    let interrupts = Arc::new(AtomicUsize::new(0));
    occupy_until_interrupted(&pool, &interrupts);
    pool.execute(|| {}).unwrap();
    thread::scope(|scope| {
        let ending =
            block(scope, || (pool.shutdown_gracefully(Duration::MAX, LONG), interrupt::is_interrupted()));
        ending.interrupt();
        let (report, flag) = ending.join();
        assert_eq!((report.outcome, report.never_run.len()), (ShutdownOutcome::Interrupted, 1));
        assert!(flag);
    });
    assert_eq!(interrupts.load(Ordering::Relaxed), 1);
}

// ---- dropping

// TPE-105
#[test]
fn dropping_the_last_handle_shuts_down_in_good_order_without_waiting() {
    let terminated = Arc::new(AtomicUsize::new(0));
    let pool = sized(1, 1).hooks(CountsTerminated(Arc::clone(&terminated))).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let waiting: Vec<_> =
        (0..3).map(|n| pool.submit(move || (n, interrupt::is_interrupted())).unwrap()).collect();
    let clone = pool.clone();
    drop(pool);
    assert_eq!(clone.state(), RunState::Running);
    drop(clone); // returns although the gate is closed
    assert_eq!(terminated.load(Ordering::Relaxed), 0);
    gate.open();
    for (n, handle) in waiting.into_iter().enumerate() {
        assert_eq!(handle.join().unwrap(), (n, false));
    }
    eventually(|| terminated.load(Ordering::Relaxed) == 1);
}

// TPE-105
#[test]
fn dropping_an_idle_pool_ends_its_threads() {
    for queue in [WorkQueue::linked(), WorkQueue::custom(LinkedBlockingQueue::unbounded())] {
        let terminated = Arc::new(AtomicUsize::new(0));
        let pool = sized(3, 3)
            .work_queue(queue)
            .thread_name_prefix("forsaken-")
            .hooks(CountsTerminated(Arc::clone(&terminated)))
            .build()
            .unwrap();
        pool.prestart_all_core_threads();
        drop(pool);
        eventually(|| terminated.load(Ordering::Relaxed) == 1);
        eventually(|| threads_named("forsaken-").unwrap_or(0) == 0);
    }
}

#[test]
fn a_task_may_own_the_last_handle_of_its_pool() {
    let terminated = Arc::new(AtomicUsize::new(0));
    let pool = sized(1, 1).hooks(CountsTerminated(Arc::clone(&terminated))).build().unwrap();
    let (gate, inner) = (Gate::new(), pool.clone());
    let wait = gate.clone();
    let handle = pool.submit(move || {
        wait.pass();
        let running = !inner.is_shutdown();
        drop(inner);
        running
    });
    drop(pool);
    gate.open();
    assert!(handle.unwrap().join().unwrap());
    eventually(|| terminated.load(Ordering::Relaxed) == 1);
}

#[test]
fn a_pool_whose_terminated_hook_panics_terminates_all_the_same() {
    struct Dies;
    impl Hooks for Dies {
        fn terminated(&self) {
            die("on purpose");
        }
    }
    let pool = sized(1, 1).hooks(Dies).build().unwrap();
    pool.submit(|| {}).unwrap().join().unwrap();
    end(&pool);
    assert_eq!(pool.state(), RunState::Terminated);
}

#[test]
fn submits_that_race_with_shutdown_now_are_run_returned_or_rejected_but_never_lost() {
    for round in 0..100 {
        let queue = if round % 2 == 0 { WorkQueue::array(4) } else { WorkQueue::synchronous() };
        let pool = sized(1, 2).work_queue(queue).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (rejected, returned) = thread::scope(|scope| {
            let submitting = scope.spawn(|| {
                (0..50)
                    .filter(|_| {
                        let ran = Arc::clone(&ran);
                        pool.execute(move || {
                            ran.fetch_add(1, Ordering::Relaxed);
                        })
                        .is_err()
                    })
                    .count()
            });
            let stopping = scope.spawn(|| pool.shutdown_now().len());
            (submitting.join().unwrap(), stopping.join().unwrap())
        });
        assert_eq!(pool.await_termination(LONG), Ok(true));
        assert_eq!(ran.load(Ordering::Relaxed) + rejected + returned, 50);
        let stats = pool.stats();
        assert_eq!(stats.submitted, (50 - rejected) as u64);
        assert_eq!(
            (stats.completed, stats.handed_back),
            (stats.submitted - returned as u64, returned as u64)
        );
    }
}

#[test]
fn the_sleep_of_a_running_task_is_ended_by_shutdown_now_and_not_by_shutdown() {
    let pool = executors::fixed(1).unwrap();
    let running = Gate::new();
    let started = running.clone();
    let slept = pool.submit(move || {
        started.open();
        let begin = Instant::now();
        interrupt::sleep(MEDIUM).map(|()| begin.elapsed() >= MEDIUM)
    });
    running.pass();
    pool.shutdown();
    assert_eq!(slept.unwrap().join().unwrap(), Ok(true));
    end(&pool);
}
