//! What happens to a task for which there is no room: every policy, and custom policies.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::sized;
use crate::support::{
    Gate, LONG, SHORT, Wrapped, block, die, end, eventually, in_a_process_of_its_own, interrupt_myself,
    occupy,
};
use millpond::monitor::Change;
use millpond::queue::{LinkedBlockingQueue, PriorityBlockingQueue};
use millpond::{
    Hooks, InvokeError, JoinError, RejectReason, Rejected, RejectedExecutionHandler, Task, TaskHandle,
    TaskId, TaskInfo, TaskOf, TaskState, ThreadPoolExecutor, WorkQueue, executors, interrupt, policy,
};

/// One busy worker and a full queue of one: the next task is rejected. The handle is that of the
/// queued task.
fn saturated(handler: impl RejectedExecutionHandler) -> (ThreadPoolExecutor, TaskHandle<u32>, Gate) {
    let pool =
        sized(1, 1).work_queue(WorkQueue::array(1)).rejected_execution_handler(handler).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let waiting = pool.submit(|| 2).unwrap();
    (pool, waiting, gate)
}

/// Asserts that `Ok` is returned, and the task dropped: its handle abandoned, its closure gone
/// unrun.
#[track_caller]
fn drops(pool: &ThreadPoolExecutor) {
    let captured = Arc::new(());
    let capture = Arc::clone(&captured);
    let handle = pool.submit(move || drop(capture)).unwrap();
    assert_eq!((handle.state(), Arc::strong_count(&captured)), (TaskState::Abandoned, 1));
    assert!(matches!(handle.join(), Err(JoinError::Abandoned)));
    let ran = Gate::new();
    let run = ran.clone();
    pool.execute(move || run.open()).unwrap();
    assert!(!ran.is_open());
}

// ---- the handler

// REJ-001, REJ-003, REJ-004
#[test]
fn the_handler_gets_the_task_and_the_pool_once_on_the_submitting_thread() {
    let calls: Arc<Mutex<Vec<(TaskId, thread::ThreadId, String)>>> = Arc::default();
    let kept: Arc<Mutex<Vec<Task>>> = Arc::default();
    let (note, keep) = (Arc::clone(&calls), Arc::clone(&kept));
    let (pool, waiting, gate) = saturated(move |task: Task, pool: &ThreadPoolExecutor| {
        note.lock().unwrap().push((task.id(), thread::current().id(), pool.to_string()));
        keep.lock().unwrap().push(task);
        Ok(())
    });
    let before = (pool.task_count(), pool.completed_task_count(), pool.queued_tasks(), pool.pool_size());
    let submitted = pool.submit(|| 7).unwrap();
    let task = Task::new(|| {});
    let executed = task.id();
    pool.execute_task(task).unwrap();
    let after = (pool.task_count(), pool.completed_task_count(), pool.queued_tasks(), pool.pool_size());
    assert_eq!(after, before);
    assert_eq!((pool.stats().submitted, pool.stats().rejected), (2, 2));
    let me = thread::current().id();
    let text = pool.to_string();
    assert_eq!(*calls.lock().unwrap(), [(submitted.id(), me, text.clone()), (executed, me, text)]);
    // The handler keeps the task: its handle stays pending until the task is run or dropped.
    assert_eq!(submitted.state(), TaskState::Pending);
    kept.lock().unwrap().remove(0).run();
    assert_eq!(submitted.join().unwrap(), 7);
    kept.lock().unwrap().clear();
    gate.open();
    assert_eq!(waiting.join().unwrap(), 2);
    end(&pool);
}

// REJ-001
#[test]
fn the_handler_is_also_called_after_a_shutdown() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let (pool, _waiting, gate) = saturated(move |task: Task, pool: &ThreadPoolExecutor| {
        count.fetch_add(1, Ordering::Relaxed);
        let reason = if pool.is_shutdown() { RejectReason::Shutdown } else { RejectReason::Saturated };
        Err(Rejected::new(task, reason))
    });
    assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::Saturated);
    pool.shutdown();
    assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    gate.open();
    end(&pool);
    assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    assert_eq!((calls.load(Ordering::Relaxed), pool.stats().rejected), (3, 3));
}

// REJ-002
#[test]
fn a_handler_set_at_run_time_is_used_from_the_next_rejection_on() {
    let (pool, waiting, gate) = saturated(policy::Abort);
    assert!(pool.execute(|| {}).is_err());
    let calls = Arc::new(AtomicUsize::new(0));
    for expected in 1..=2 {
        let count = Arc::clone(&calls);
        pool.set_rejected_execution_handler(move |_, _: &ThreadPoolExecutor| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        pool.execute(|| {}).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), expected);
    }
    pool.set_rejected_execution_handler(policy::Abort);
    assert!(pool.execute(|| {}).is_err());
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    gate.open();
    waiting.join().unwrap();
    end(&pool);
}

// REJ-018
#[test]
fn what_a_handler_of_ones_own_returns_is_what_the_submitter_gets() {
    let (pool, waiting, gate) = saturated(|task: Task, _: &ThreadPoolExecutor| {
        Err(Rejected::new(task.named("returned by the handler"), RejectReason::Shutdown))
    });
    let check = |rejected: Rejected| {
        assert_eq!(rejected.reason(), RejectReason::Shutdown);
        assert_eq!(rejected.task().name(), Some("returned by the handler"));
    };
    check(pool.execute(|| {}).unwrap_err());
    check(pool.submit(|| 1).unwrap_err());
    check(pool.submit_task(TaskOf::new(|| 1).named("submitted")).unwrap_err());
    gate.open();
    waiting.join().unwrap();
    end(&pool);
}

// REJ-018
#[test]
fn the_panic_of_a_handler_reaches_the_submitter_and_the_pool_goes_on() {
    let (pool, waiting, gate) = saturated(|_: Task, _: &ThreadPoolExecutor| die("the handler's"));
    for _ in 0..2 {
        let panic = catch_unwind(AssertUnwindSafe(|| pool.execute(|| {}))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the handler's"));
    }
    gate.open();
    assert_eq!(waiting.join().unwrap(), 2);
    assert_eq!(pool.submit(|| 3).unwrap().join().unwrap(), 3);
    end(&pool);
    assert_eq!((pool.stats().submitted, pool.stats().completed, pool.stats().rejected), (3, 3, 2));
}

#[test]
fn the_rejected_hook_is_told_before_the_policy_acts() {
    struct Told(Arc<Mutex<Vec<String>>>);
    impl Hooks for Told {
        fn rejected(&self, task: &TaskInfo, reason: RejectReason) {
            self.0.lock().unwrap().push(format!("{} {reason:?}", task.name().unwrap_or("nameless")));
        }
    }
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let in_handler = Arc::clone(&told);
    let pool = sized(1, 1)
        .work_queue(WorkQueue::synchronous())
        .hooks(Told(Arc::clone(&told)))
        .rejected_execution_handler(move |_, _: &ThreadPoolExecutor| {
            in_handler.lock().unwrap().push("handler".to_owned());
            Ok(())
        })
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.execute_task(Task::new(|| {}).named("full")).unwrap();
    pool.shutdown();
    pool.execute_task(Task::new(|| {}).named("late")).unwrap();
    assert_eq!(*told.lock().unwrap(), ["full Saturated", "handler", "late Shutdown", "handler"]);
    gate.open();
    end(&pool);
}

// ---- Abort

// REJ-005
#[test]
fn abort_fails_every_way_of_giving_work() {
    let (pool, waiting, gate) = saturated(policy::Abort);
    let full = |rejected: Rejected| assert_eq!(rejected.reason(), RejectReason::Saturated);
    full(pool.execute(|| {}).unwrap_err());
    full(pool.execute_task(Task::new(|| {})).unwrap_err());
    full(pool.submit(|| {}).unwrap_err());
    full(pool.submit_task(TaskOf::new(|| {})).unwrap_err());
    let batch = || [|| 1, || 2];
    let any = || [|| Ok::<i32, String>(1), || Ok(2)];
    let rejected = |error: InvokeError| match error {
        InvokeError::Rejected(rejected) => full(rejected),
        other => panic!("{other:?}"),
    };
    rejected(pool.invoke_all(batch()).unwrap_err());
    rejected(pool.invoke_all_timeout(batch(), LONG).unwrap_err());
    rejected(pool.invoke_any(any()).unwrap_err());
    rejected(pool.invoke_any_timeout(any(), LONG).unwrap_err());
    gate.open();
    assert_eq!(waiting.join().unwrap(), 2);
    end(&pool);
    assert_eq!((pool.stats().completed, pool.stats().rejected), (2, 8));
    assert!(matches!(pool.invoke_all(batch()), Err(InvokeError::Rejected(_))));
    assert!(matches!(pool.invoke_any(any()), Err(InvokeError::Rejected(_))));
}

// REJ-006
#[test]
fn the_text_of_a_rejection_names_the_task_the_pool_and_its_figures() {
    let (pool, waiting, gate) = saturated(policy::Abort);
    let name = pool.to_string().split('[').next().unwrap().to_owned();
    let rejected = pool.execute_task(Task::new(|| {}).named("resize 7")).unwrap_err();
    let id = rejected.task().id();
    assert_eq!(
        rejected.to_string(),
        format!(
            "task {id} (resize 7) rejected: {name} is saturated (pool size = 1, maximum = 1, queued tasks = 1)"
        )
    );
    gate.open();
    waiting.join().unwrap();
    end(&pool);
    let rejected = pool.execute(|| {}).unwrap_err();
    let id = rejected.task().id();
    assert_eq!(
        rejected.to_string(),
        format!(
            "task {id} rejected: {name} has been shut down (pool size = 0, maximum = 1, queued tasks = 0)"
        )
    );
}

// REJ-007, REJ-022
#[test]
fn policies_called_by_hand_do_not_touch_a_pool_that_has_room() {
    let pool = executors::bounded(1, 1, 1).unwrap();
    let ran_on = Arc::new(Mutex::new(None));
    let task = || {
        let ran_on = Arc::clone(&ran_on);
        Task::new(move || *ran_on.lock().unwrap() = Some(thread::current().id()))
    };
    let rejected = policy::Abort.rejected_execution(task(), &pool).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::Saturated);
    policy::Discard.rejected_execution(task(), &pool).unwrap();
    assert_eq!(*ran_on.lock().unwrap(), None);
    policy::CallerRuns.rejected_execution(task(), &pool).unwrap();
    assert_eq!(*ran_on.lock().unwrap(), Some(thread::current().id()));

    assert_eq!((pool.task_count(), pool.queued_count(), pool.pool_size()), (0, 0, 0));
    assert_eq!((pool.stats().submitted, pool.stats().rejected), (0, 0));
    let gate = Gate::new();
    occupy(&pool, &gate);
    pool.execute(|| {}).unwrap();
    assert!(pool.execute(|| {}).is_err()); // still has its own policy, `Abort`
    gate.open();
    end(&pool);
}

#[test]
fn a_rejected_submission_resolves_its_handle_by_what_becomes_of_the_task() {
    let (pool, waiting, gate) = saturated(policy::Abort);
    let (task, handle) = TaskOf::new(|| 5).into_parts();
    let rejected = pool.execute_task(task).unwrap_err();
    assert_eq!(handle.state(), TaskState::Pending);
    rejected.into_task().run();
    assert_eq!(handle.join().unwrap(), 5);
    let (task, handle) = TaskOf::new(|| 5).into_parts();
    drop(pool.execute_task(task).unwrap_err());
    assert!(matches!(handle.join(), Err(JoinError::Abandoned)));
    gate.open();
    waiting.join().unwrap();
    end(&pool);
}

// ---- CallerRuns

#[test]
fn caller_runs_runs_the_task_before_submit_returns_with_a_flag_of_its_own() {
    let (pool, waiting, gate) = saturated(policy::CallerRuns);
    interrupt_myself();
    let mut handle = pool.submit(|| (thread::current().id(), interrupt::is_interrupted())).unwrap();
    assert!(interrupt::interrupted());
    assert_eq!(handle.try_join().unwrap().unwrap(), (thread::current().id(), false));
    gate.open();
    assert_eq!(waiting.join().unwrap(), 2);
    end(&pool);
}

// REJ-012
#[test]
fn a_task_run_by_its_submitter_is_in_no_count_but_the_rejected() {
    let (pool, waiting, gate) = saturated(policy::CallerRuns);
    let before = (pool.task_count(), pool.completed_task_count(), pool.stats().submitted);
    let ran = Gate::new();
    let run = ran.clone();
    pool.execute(move || run.open()).unwrap();
    assert!(ran.is_open());
    assert_eq!((pool.task_count(), pool.completed_task_count(), pool.stats().submitted), before);
    assert_eq!((pool.stats().completed, pool.stats().rejected), (0, 1));
    gate.open();
    waiting.join().unwrap();
    end(&pool);
}

#[test]
fn the_panic_of_a_task_run_by_its_submitter_goes_to_the_handle_or_to_the_submitter() {
    let (pool, waiting, gate) = saturated(policy::CallerRuns);
    let handle: TaskHandle<()> = pool.submit(|| die("kept")).unwrap();
    assert!(matches!(handle.join(), Err(JoinError::Panicked(panic)) if panic.message() == Some("kept")));
    let panic = catch_unwind(AssertUnwindSafe(|| pool.execute(|| die("thrown")))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"thrown"));
    gate.open();
    assert_eq!(waiting.join().unwrap(), 2);
    end(&pool);
}

// ---- Discard, and the policies that drop tasks after a shutdown

// REJ-004
#[test]
fn discard_drops_the_task_and_its_handle_does_not_hang() {
    let (pool, waiting, gate) = saturated(policy::Discard);
    drops(&pool);
    assert_eq!((pool.stats().rejected, pool.stats().submitted), (2, 2));
    gate.open();
    assert_eq!(waiting.join().unwrap(), 2);
    end(&pool);
}

#[test]
fn the_panic_of_a_destructor_stays_with_the_policy_that_drops_the_task() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            die("in a destructor");
        }
    }
    fn give(pool: &ThreadPoolExecutor) {
        let bomb = Bomb;
        pool.execute(move || drop(bomb)).unwrap();
    }
    let (pool, waiting, gate) = saturated(policy::Discard);
    give(&pool);
    pool.set_rejected_execution_handler(policy::DiscardOldest);
    give(&pool); // replaces the queued task
    give(&pool); // replaces the previous one
    pool.shutdown();
    give(&pool);
    pool.set_rejected_execution_handler(policy::CallerRuns);
    give(&pool);
    gate.open();
    assert!(matches!(waiting.join(), Err(JoinError::Abandoned)));
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.panicked), (4, 1, 1));
    assert_eq!((stats.handed_back, stats.rejected), (2, 5));
}

#[test]
fn after_a_shutdown_caller_runs_discard_and_discard_oldest_drop_the_task() {
    fn check(handler: impl RejectedExecutionHandler) {
        let (pool, waiting, gate) = saturated(handler);
        pool.shutdown();
        drops(&pool);
        assert_eq!(pool.queued_tasks(), [waiting.id()]); // nothing was evicted
        gate.open();
        assert_eq!(waiting.join().unwrap(), 2);
        end(&pool);
        drops(&pool);
        assert_eq!((pool.stats().completed, pool.stats().rejected), (2, 4));
    }
    check(policy::CallerRuns);
    check(policy::Discard);
    check(policy::DiscardOldest);
}

#[test]
fn after_a_shutdown_abort_and_block_give_the_task_back() {
    fn check(handler: impl RejectedExecutionHandler) {
        let (pool, waiting, gate) = saturated(handler);
        pool.shutdown();
        assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
        gate.open();
        assert_eq!(waiting.join().unwrap(), 2);
        end(&pool);
        assert_eq!(pool.execute(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
        assert_eq!(pool.stats().rejected, 2);
    }
    check(policy::Abort);
    check(policy::Block::forever());
    check(policy::Block::timeout(LONG));
}

// ---- DiscardOldest

// REJ-013
#[test]
fn discard_oldest_evicts_the_head_of_the_queue() {
    for queue in [WorkQueue::array(2), WorkQueue::linked_bounded(2), bounded_custom(2)] {
        let pool =
            sized(1, 1).work_queue(queue).rejected_execution_handler(policy::DiscardOldest).build().unwrap();
        let gate = Gate::new();
        occupy(&pool, &gate);
        let [second, third, fourth] = [2, 3, 4].map(|n| pool.submit(move || n).unwrap());
        assert_eq!(pool.queued_tasks(), [third.id(), fourth.id()]);
        assert!(matches!(second.join(), Err(JoinError::Abandoned)));
        gate.open();
        assert_eq!((third.join().unwrap(), fourth.join().unwrap()), (3, 4));
        end(&pool);
        let stats = pool.stats();
        assert_eq!((stats.submitted, stats.completed), (4, 3));
        assert_eq!((stats.handed_back, stats.rejected), (1, 1));
    }
}

fn bounded_custom(capacity: usize) -> WorkQueue {
    WorkQueue::custom(Wrapped { capacity, ..Wrapped::new(LinkedBlockingQueue::unbounded()) })
}

/// Counts calls of `rejected`.
#[derive(Default)]
struct Rejections(AtomicUsize);

impl Hooks for Rejections {
    fn rejected(&self, _: &TaskInfo, _: RejectReason) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Fills the queue of a busy pool, lowers its bound to one, and submits a task.
fn submit_above_a_lowered_bound(policy: impl RejectedExecutionHandler, queued: usize) {
    let hooks = Arc::new(Rejections::default());
    let builder = sized(1, 1).work_queue(WorkQueue::array(queued)).hooks(Arc::clone(&hooks));
    let pool = builder.rejected_execution_handler(policy).build().unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    (0..queued).for_each(|_| pool.execute(|| {}).unwrap());
    pool.reconfigure(Change::new().queue_capacity(1)).unwrap();
    let last = pool.submit(|| 7).unwrap();
    assert_eq!((pool.queued_tasks(), hooks.0.load(Ordering::Relaxed)), (vec![last.id()], 1));
    let stats = pool.stats();
    assert_eq!((stats.rejected, stats.handed_back), (1, queued as u64));
    gate.open();
    assert_eq!(last.join().unwrap(), 7);
    end(&pool);
}

/// A custom policy that forwards to `DiscardOldest`.
struct Forwards;

impl RejectedExecutionHandler for Forwards {
    fn rejected_execution(&self, task: Task, pool: &ThreadPoolExecutor) -> Result<(), Rejected> {
        policy::DiscardOldest.rejected_execution(task, pool)
    }
}

// Regression: each eviction was a rejection of the same task.
#[test]
fn discard_oldest_rejects_a_task_once_however_many_it_evicts() {
    submit_above_a_lowered_bound(policy::DiscardOldest, 10);
    submit_above_a_lowered_bound(Forwards, 10);
}

// Regression: each eviction was a recursive call, so the stack overflowed.
#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn discard_oldest_evicts_any_number_of_tasks() {
    in_a_process_of_its_own("rejection::discard_oldest_evicts_any_number_of_tasks", || {
        submit_above_a_lowered_bound(policy::DiscardOldest, 100_000);
        submit_above_a_lowered_bound(Forwards, 100_000);
    });
}

// REJ-017
#[test]
fn discard_oldest_evicts_the_most_urgent_task_of_a_bounded_priority_queue() {
    let inner = PriorityBlockingQueue::by(|a: &Task, b: &Task| a.priority().cmp(&b.priority()));
    let pool = sized(1, 1)
        .work_queue(WorkQueue::custom(Wrapped { capacity: 2, ..Wrapped::new(inner) }))
        .rejected_execution_handler(policy::DiscardOldest)
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    // In this queue, the smallest task comes first.
    let handles = [2, 1, 3].map(|n| pool.submit_task(TaskOf::new(move || n).with_priority(n)).unwrap());
    gate.open();
    let [two, one, three] = handles.map(TaskHandle::join);
    assert!(matches!(one, Err(JoinError::Abandoned)));
    assert_eq!((two.unwrap(), three.unwrap()), (2, 3));
    end(&pool);
}

// REJ-017
#[test]
fn the_priority_queue_of_the_library_is_never_full() {
    let pool = sized(1, 1)
        .work_queue(WorkQueue::priority())
        .rejected_execution_handler(policy::DiscardOldest)
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    (0..1000).for_each(|n| pool.execute_task(Task::new(|| {}).with_priority(n)).unwrap());
    assert_eq!((pool.queued_count(), pool.stats().rejected), (1000, 0));
    gate.open();
    end(&pool);
    assert_eq!(pool.stats().completed, 1001);
}

#[test]
fn discard_oldest_with_nothing_to_evict_gives_the_task_back() {
    let pool = sized(1, 1)
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy::DiscardOldest)
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let task = Task::new(|| {});
    let id = task.id();
    let rejected = pool.execute_task(task).unwrap_err();
    assert_eq!((rejected.reason(), rejected.task().id()), (RejectReason::Saturated, id));
    assert_eq!(pool.submit(|| {}).unwrap_err().reason(), RejectReason::Saturated);
    assert_eq!(pool.stats().handed_back, 0);
    gate.open();
    end(&pool);
}

// ---- Block

// REJ-019
#[test]
fn block_gives_back_pressure_and_the_bound_holds() {
    for queue in [WorkQueue::array(1), WorkQueue::synchronous(), bounded_custom(1)] {
        let pool = sized(1, 1)
            .work_queue(queue)
            .rejected_execution_handler(policy::Block::forever())
            .build()
            .unwrap();
        let (ran, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        thread::scope(|scope| {
            let submitters = [(); 3].map(|()| {
                let (pool, ran, most) = (&pool, Arc::clone(&ran), Arc::clone(&most));
                scope.spawn(move || {
                    for _ in 0..50 {
                        let ran = Arc::clone(&ran);
                        pool.execute(move || {
                            ran.fetch_add(1, Ordering::Relaxed);
                        })
                        .unwrap();
                        most.fetch_max(pool.queued_count(), Ordering::Relaxed);
                    }
                })
            });
            submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        });
        end(&pool);
        assert_eq!((ran.load(Ordering::Relaxed), pool.completed_task_count()), (150, 150));
        assert!(most.load(Ordering::Relaxed) <= 1, "{most:?} tasks waited");
        assert_eq!((pool.largest_pool_size(), pool.stats().rejected), (1, 0));
    }
}

/// Asserts that a submitter who waits for room gets it after `make_room`.
fn block_wakes(make_room: impl FnOnce(&ThreadPoolExecutor, &TaskHandle<u32>, &Gate)) {
    let (pool, waiting, gate) = saturated(policy::Block::forever());
    thread::scope(|scope| {
        let submitter = block(scope, || pool.submit(|| 3));
        assert!(!submitter.is_finished());
        assert_eq!((pool.queued_tasks(), pool.stats().rejected), (vec![waiting.id()], 0));
        make_room(&pool, &waiting, &gate);
        let handle = submitter.join().unwrap();
        gate.open();
        assert_eq!(handle.join().unwrap(), 3);
    });
    end(&pool);
    assert_eq!(pool.stats().rejected, 0);
}

#[test]
fn block_wakes_when_a_worker_takes_a_task() {
    block_wakes(|_, _, gate| gate.open());
}

#[test]
fn block_wakes_when_a_waiting_task_is_cancelled() {
    block_wakes(|_, waiting, _| assert!(waiting.cancel(false)));
}

#[test]
fn block_wakes_when_a_waiting_task_is_removed() {
    block_wakes(|pool, waiting, _| assert!(pool.remove(waiting.id())));
}

#[test]
fn block_wakes_when_the_maximum_is_raised() {
    block_wakes(|pool, _, _| {
        pool.set_maximum_pool_size(2).unwrap();
        eventually(|| pool.pool_size() == 2);
    });
}

#[test]
fn block_wakes_when_cancelled_tasks_are_purged() {
    let pool = sized(1, 1)
        .work_queue(WorkQueue::array(1))
        .remove_on_cancel(false)
        .rejected_execution_handler(policy::Block::forever())
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let waiting = pool.submit(|| {}).unwrap();
    thread::scope(|scope| {
        let submitter = block(scope, || pool.submit(|| 3));
        assert!(waiting.cancel(false));
        assert!(!submitter.is_finished());
        assert_eq!(pool.purge(), 1);
        let handle = submitter.join().unwrap();
        gate.open();
        assert_eq!(handle.join().unwrap(), 3);
    });
    end(&pool);
}

#[test]
fn block_hands_over_to_a_worker_that_becomes_idle() {
    let pool = sized(1, 1)
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy::Block::forever())
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    thread::scope(|scope| {
        let pool = &pool;
        let submitters: Vec<_> = (0..3).map(|n| block(scope, move || (n, pool.submit(move || n)))).collect();
        assert!(submitters.iter().all(|submitter| !submitter.is_finished()));
        gate.open();
        for submitter in submitters {
            let (n, handle) = submitter.join();
            assert_eq!(handle.unwrap().join().unwrap(), n);
        }
    });
    end(&pool);
    assert_eq!((pool.largest_pool_size(), pool.completed_task_count()), (1, 4));
}

#[test]
fn block_ends_with_an_error_when_the_pool_is_shut_down() {
    for stop in [false, true] {
        let (pool, waiting, gate) = saturated(policy::Block::forever());
        thread::scope(|scope| {
            let submitters = [(); 3].map(|()| block(scope, || pool.execute(|| {})));
            if stop {
                assert_eq!(pool.shutdown_now().len(), 1);
            } else {
                pool.shutdown();
            }
            for submitter in submitters {
                assert_eq!(submitter.join().unwrap_err().reason(), RejectReason::Shutdown);
            }
        });
        gate.open();
        assert_eq!(waiting.join().is_err(), stop);
        end(&pool);
        assert_eq!(pool.stats().rejected, 3);
    }
}

#[test]
fn block_ends_with_an_error_when_the_submitter_is_interrupted_and_its_flag_stays_set() {
    let (pool, waiting, gate) = saturated(policy::Block::forever());
    thread::scope(|scope| {
        let submitter = block(scope, || (pool.execute(|| {}), interrupt::is_interrupted()));
        submitter.interrupt();
        let (rejected, flag) = submitter.join();
        let rejected = rejected.unwrap_err();
        assert_eq!((rejected.reason(), flag), (RejectReason::Interrupted, true));
        assert!(rejected.to_string().contains("interrupted"), "{rejected}");
    });
    assert_eq!((pool.queued_tasks(), pool.stats().rejected), (vec![waiting.id()], 1));
    gate.open();
    assert_eq!(waiting.join().unwrap(), 2);
    end(&pool);
}

#[test]
fn block_with_a_time_out_waits_that_long_and_gives_the_task_back() {
    for timeout in [Duration::ZERO, SHORT] {
        let (pool, waiting, gate) = saturated(policy::Block::timeout(timeout));
        let begin = Instant::now();
        let task = Task::new(|| {});
        let id = task.id();
        let rejected = pool.execute_task(task).unwrap_err();
        assert!(begin.elapsed() >= timeout);
        assert_eq!((rejected.reason(), rejected.task().id()), (RejectReason::Saturated, id));
        assert_eq!((pool.queued_tasks(), pool.stats().rejected), (vec![waiting.id()], 1));
        gate.open();
        assert_eq!(waiting.join().unwrap(), 2);
        end(&pool);
        assert_eq!((pool.stats().submitted, pool.stats().completed), (2, 2));
    }
}

#[test]
fn block_with_a_time_out_takes_the_room_that_comes_in_time() {
    let (pool, waiting, gate) = saturated(policy::Block::timeout(LONG));
    thread::scope(|scope| {
        let submitter = block(scope, || pool.submit(|| 3));
        gate.open();
        assert_eq!(submitter.join().unwrap().join().unwrap(), 3);
    });
    assert_eq!(waiting.join().unwrap(), 2);
    end(&pool);
    assert_eq!(pool.stats().rejected, 0);
}

#[test]
fn a_blocked_submitter_that_gives_up_passes_its_call_on() {
    // Some of many blocked submitters are interrupted while room is made: the others still get it.
    for _ in 0..20 {
        let (pool, waiting, gate) = saturated(policy::Block::forever());
        thread::scope(|scope| {
            let quitters = [(); 3].map(|()| block(scope, || pool.execute(|| {}).is_ok()));
            let stayers = [(); 3].map(|()| block(scope, || pool.execute(|| {}).is_ok()));
            let opener = scope.spawn(|| gate.open());
            quitters.iter().for_each(|quitter| quitter.interrupt());
            opener.join().unwrap();
            stayers.into_iter().for_each(|stayer| assert!(stayer.join()));
            quitters.into_iter().for_each(|quitter| {
                quitter.join();
            });
        });
        assert_eq!(waiting.join().unwrap(), 2);
        end(&pool);
    }
}

// ---- after saturation

// REJ-021
#[test]
fn after_saturation_and_shutdown_all_that_fitted_is_completed() {
    const MAXIMUM: usize = 3;
    const CAPACITY: usize = 4;
    for stop in [false, true] {
        let pool = executors::bounded(1, MAXIMUM, CAPACITY).unwrap();
        let gate = Gate::new();
        let give = || {
            let gate = gate.clone();
            pool.execute(move || gate.pass())
        };
        (0..MAXIMUM + CAPACITY).for_each(|_| give().unwrap());
        (0..3).for_each(|_| assert_eq!(give().unwrap_err().reason(), RejectReason::Saturated));
        eventually(|| pool.active_count() == MAXIMUM);
        let drained = if stop { pool.shutdown_now().len() } else { 0 };
        pool.shutdown();
        assert_eq!(give().unwrap_err().reason(), RejectReason::Shutdown);
        gate.open();
        end(&pool);
        assert_eq!(drained, if stop { CAPACITY } else { 0 });
        let completed = (MAXIMUM + CAPACITY - drained) as u64;
        assert_eq!((pool.completed_task_count(), pool.task_count()), (completed, completed));
        assert_eq!(pool.stats().rejected, 4);
    }
}
