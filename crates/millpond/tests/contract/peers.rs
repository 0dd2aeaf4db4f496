//! Mistakes of other pools, each with its case number. Some cases have their own files: races (12)
//! are in the binary `stress`, memory (15) in `allocator`. Case 14 is about periodic tasks.

use std::cmp::Ordering as Order;
use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Gate, LONG, SHORT, SMALL, assert_settled, block, die, end, eventually, keep_busy, soon, threads_named,
};
use millpond::queue::PriorityBlockingQueue;
use millpond::{
    Builder, Hooks, JoinError, Panic, RejectReason, Rejected, Task, TaskInfo, TaskOf, ThreadPoolExecutor,
    WorkQueue, WorkerBody, WorkerInfo, executors, interrupt, policy,
};

fn pool(core: usize, maximum: usize) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum)
}

// Peer case 1
#[test]
fn after_a_panic_on_every_worker_every_worker_still_works() {
    const N: usize = 4;
    for with_handle in [true, false] {
        let pool = pool(N, N).build().unwrap();
        let gate = Gate::new();
        for _ in 0..N {
            let pass = gate.clone();
            let task = move || {
                pass.pass();
                die("on purpose");
            };
            if with_handle { drop(pool.submit(task).unwrap()) } else { pool.execute(task).unwrap() }
        }
        eventually(|| pool.active_count() == N); // all workers are busy
        gate.open();
        eventually(|| pool.stats().panicked == N as u64); // all have panicked
        let gate = Gate::new();
        let handles: Vec<_> = (0..N).map(|_| keep_busy(&pool, &gate)).collect(); // all at the same time
        assert_eq!((pool.pool_size(), pool.active_count(), pool.largest_pool_size()), (N, N, N));
        gate.open();
        handles.into_iter().for_each(|handle| soon(handle).unwrap());
        end(&pool);
        let stats = pool.stats();
        assert_eq!((stats.completed, stats.panicked), (N as u64, N as u64));
        assert_eq!(pool.completed_task_count(), 2 * N as u64);
        assert_settled(&pool, 2 * N);
    }
}

/// A factory whose first `failures` calls fail.
fn failing(failures: usize) -> impl Fn(WorkerBody) -> io::Result<thread::JoinHandle<()>> {
    let left = AtomicUsize::new(failures);
    move |body| {
        if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        thread::Builder::new().name(body.name().to_owned()).spawn(move || body.run())
    }
}

// Peer case 2
#[test]
fn a_spawn_that_fails_once_leaks_no_slot_loses_no_task_and_tells_the_caller() {
    for queue in [WorkQueue::linked(), WorkQueue::synchronous(), WorkQueue::priority()] {
        let pool = pool(1, 1).work_queue(queue).thread_factory(failing(1)).build().unwrap();
        let rejected = pool.submit(|| "back").unwrap_err();
        assert_eq!(rejected.reason(), RejectReason::SpawnFailed);
        let source = rejected.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
        assert_eq!(source.kind(), io::ErrorKind::WouldBlock);
        assert_eq!((pool.pool_size(), pool.queued_count(), pool.largest_pool_size()), (0, 0, 0));
        // The slot is free, and the task that came back is whole.
        pool.execute_task(rejected.into_task()).unwrap();
        eventually(|| pool.completed_task_count() == 1); // it has run
        assert_eq!(pool.pool_size(), 1);
        end(&pool);
        assert_settled(&pool, 1);
        assert_eq!(pool.stats().rejected, 1);
    }
}

// Peer case 2
#[test]
fn a_spawn_that_fails_for_a_delayed_task_loses_no_task() {
    for failures in 1..4 {
        let pool =
            pool(1, 1).work_queue(WorkQueue::delay()).thread_factory(failing(failures)).build().unwrap();
        let mut accepted = 0;
        for n in 0..4 {
            match pool.submit(move || n) {
                Ok(handle) => {
                    accepted += 1;
                    assert_eq!(soon(handle).unwrap(), n);
                }
                Err(rejected) => {
                    assert_eq!(rejected.reason(), RejectReason::SpawnFailed);
                    assert_eq!((pool.pool_size(), pool.queued_count()), (0, 0));
                }
            }
        }
        assert!(accepted > 0, "the factory works again");
        end(&pool);
        assert_settled(&pool, accepted);
    }
}

// Peer case 2
#[test]
fn a_spawn_that_fails_while_another_worker_lives_leaves_the_task_to_it() {
    let pool = pool(2, 2).build().unwrap();
    let gate = Gate::new();
    let busy = keep_busy(&pool, &gate);
    pool.set_thread_factory(failing(1));
    let second = pool.submit(|| "by the first worker").unwrap();
    assert_eq!((pool.pool_size(), pool.queued_count()), (1, 1));
    let third = pool.submit(|| "by the second worker").unwrap(); // the factory works again
    assert_eq!(soon(third).unwrap(), "by the second worker");
    assert_eq!(soon(second).unwrap(), "by the first worker");
    assert_eq!(pool.pool_size(), 2);
    gate.open();
    soon(busy).unwrap();
    end(&pool);
    assert_settled(&pool, 3);
}

// Peer case 3
#[test]
fn handles_of_a_dropped_pool_resolve() {
    let pool = pool(1, 1).build().unwrap();
    let gate = Gate::new();
    let busy = keep_busy(&pool, &gate);
    let queued: Vec<_> = (0..20).map(|n| pool.submit(move || n).unwrap()).collect();
    drop(pool); // graceful: accepted tasks still run
    gate.open();
    soon(busy).unwrap();
    for (n, handle) in queued.into_iter().enumerate() {
        assert_eq!(soon(handle).unwrap(), n);
    }
}

// Peer case 3
#[test]
fn handles_of_a_pool_that_was_stopped_resolve_when_the_drained_tasks_are_dropped() {
    let pool = pool(1, 1).build().unwrap();
    let gate = Gate::new();
    let busy = keep_busy(&pool, &gate);
    let mut queued: Vec<_> = (0..20).map(|n| pool.submit(move || n).unwrap()).collect();
    let mut drained = pool.shutdown_now();
    drop(pool);
    assert_eq!(drained.len(), 20);
    assert!(
        queued.iter_mut().all(|handle| handle.try_join().is_none()),
        "the caller that got them back may still run them"
    );
    drained.remove(7).run();
    drop(drained);
    for (n, handle) in queued.into_iter().enumerate() {
        match soon(handle) {
            Ok(value) => assert_eq!((value, n), (7, 7)),
            Err(JoinError::Abandoned) => assert_ne!(n, 7),
            Err(other) => panic!("{other}"),
        }
    }
    gate.open();
    soon(busy).unwrap();
}

// Peer case 4
#[test]
fn a_join_after_a_join_that_timed_out_gets_the_result() {
    let pool = pool(1, 1).build().unwrap();
    let gate = Gate::new();
    let pass = gate.clone();
    let mut handle = pool
        .submit(move || {
            pass.pass();
            vec![1, 2, 3]
        })
        .unwrap();
    let begin = Instant::now();
    assert!(handle.join_timeout(SHORT).is_none());
    assert!(begin.elapsed() >= SHORT);
    assert!(handle.join_timeout(Duration::ZERO).is_none());
    gate.open();
    assert_eq!(handle.join_timeout(LONG).unwrap().unwrap(), [1, 2, 3]);
    assert!(matches!(handle.join(), Err(JoinError::Taken)));
    end(&pool);
}

// Peer case 5
#[test]
fn after_a_burst_and_the_keep_alive_time_the_surplus_threads_are_really_gone() {
    const NAME: &str = "peer5-"; // the system keeps 15 characters
    if threads_named(NAME).is_none() {
        eprintln!("skipped: no /proc/self/task here, so nobody but the pool counts its threads");
        return;
    }
    for (queue, core) in
        [(WorkQueue::synchronous(), 0), (WorkQueue::synchronous(), 2), (WorkQueue::array(1), 2)]
    {
        let threads = || threads_named(NAME).unwrap();
        let pool =
            pool(core, 8).work_queue(queue).keep_alive_time(SHORT).thread_name_prefix(NAME).build().unwrap();
        assert_eq!(threads(), 0, "no thread before it is needed");
        let gate = Gate::new();
        let pass = |_| {
            let gate = gate.clone();
            pool.execute(move || gate.pass()).is_ok()
        };
        let accepted = (0..20).filter(|n| pass(*n)).count();
        eventually(|| threads() == 8); // a burst makes as many threads as may be
        gate.open();
        eventually(|| threads() == core && pool.pool_size() == core); // only the core threads are left
        assert_eq!(pool.largest_pool_size(), 8);
        assert_eq!(soon(pool.submit(|| "still works").unwrap()).unwrap(), "still works");
        end(&pool);
        eventually(|| threads() == 0); // no thread outlives its pool
        assert_settled(&pool, accepted + 1);
    }
}

/// Reports when it is dropped.
struct Witness(Arc<AtomicBool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

// Peer case 6
#[test]
fn cancelling_a_task_that_is_due_in_the_far_future_drops_its_captures_at_once() {
    for remove in [true, false] {
        let pool = pool(1, 1).work_queue(WorkQueue::delay()).remove_on_cancel(remove).build().unwrap();
        let dropped = Arc::new(AtomicBool::new(false));
        let witness = Witness(Arc::clone(&dropped));
        let year = Duration::from_secs(365 * 24 * 3600);
        let handle = pool.submit_task(TaskOf::new(move || drop(witness)).with_delay(year)).unwrap();
        assert_eq!(pool.queued_count(), 1);
        assert!(handle.cancel(false));
        assert!(dropped.load(Ordering::SeqCst));
        assert_eq!(pool.queued_count(), usize::from(!remove), "its place is free, unless it was to be kept");
        assert_eq!(pool.purge(), usize::from(!remove));
        assert!(matches!(soon(handle), Err(JoinError::Cancelled)));
        end(&pool); // nothing is left to wait for
        assert_settled(&pool, 1);
    }
}

/// A pool with one busy worker and a full queue of one, and the gate that frees the worker.
fn full_pool(handler: policy::Block) -> (ThreadPoolExecutor, Gate) {
    let pool =
        pool(1, 1).work_queue(WorkQueue::array(1)).rejected_execution_handler(handler).build().unwrap();
    let gate = Gate::new();
    drop(keep_busy(&pool, &gate));
    pool.execute(|| ()).unwrap();
    (pool, gate)
}

// Peer case 7
#[test]
fn the_blocking_policy_blocks_until_there_is_room() {
    let (pool, gate) = full_pool(policy::Block::forever());
    thread::scope(|s| {
        let blocked = block(s, || pool.submit(|| "got in"));
        assert!(!blocked.is_finished());
        assert_eq!((pool.queued_count(), pool.remaining_queue_capacity()), (1, 0));
        gate.open();
        assert_eq!(soon(blocked.join().unwrap()).unwrap(), "got in");
    });
    end(&pool);
    assert_settled(&pool, 3);
    assert_eq!(pool.stats().rejected, 0, "what found room was not refused");
}

// Peer case 7
#[test]
fn the_blocking_policy_gives_up_at_shutdown() {
    let (pool, gate) = full_pool(policy::Block::forever());
    thread::scope(|s| {
        let (one, two) = (block(s, || pool.submit(|| ())), block(s, || pool.submit(|| ())));
        pool.shutdown();
        for blocked in [one, two] {
            assert_eq!(blocked.join().unwrap_err().reason(), RejectReason::Shutdown);
        }
    });
    gate.open();
    end(&pool);
    assert_settled(&pool, 2);
    assert_eq!(pool.stats().rejected, 2);
}

// Peer case 7
#[test]
fn the_blocking_policy_gives_up_when_interrupted() {
    let (pool, gate) = full_pool(policy::Block::forever());
    thread::scope(|s| {
        let blocked = block(s, || {
            let rejected = pool.submit(|| ()).unwrap_err();
            (rejected.reason(), interrupt::interrupted())
        });
        blocked.interrupt();
        assert_eq!(blocked.join(), (RejectReason::Interrupted, true));
    });
    gate.open();
    end(&pool);
    assert_settled(&pool, 2);
}

// Peer case 7
#[test]
fn the_blocking_policy_gives_up_when_its_time_is_over() {
    let (pool, gate) = full_pool(policy::Block::timeout(SHORT));
    let begin = Instant::now();
    assert_eq!(pool.submit(|| ()).unwrap_err().reason(), RejectReason::Saturated);
    assert!(begin.elapsed() >= SHORT);
    gate.open();
    end(&pool);
    assert_settled(&pool, 2);
}

/// Hooks in which one call, chosen by its name, panics.
struct PanicsIn(&'static str);

impl PanicsIn {
    fn here(&self, name: &str) {
        if self.0 == name {
            die("hook");
        }
    }
}

impl Hooks for PanicsIn {
    fn before_execute(&self, _: &TaskInfo) {
        self.here("before_execute");
    }
    fn after_execute(&self, _: &TaskInfo, _: Option<&Panic>) {
        self.here("after_execute");
    }
    fn terminated(&self) {
        self.here("terminated");
    }
    fn rejected(&self, _: &TaskInfo, _: RejectReason) {
        self.here("rejected");
    }
    fn worker_started(&self, _: &millpond::WorkerInfo) {
        self.here("worker_started");
    }
    fn worker_stopped(&self, _: &millpond::WorkerInfo) {
        self.here("worker_stopped");
    }
}

// Peer case 8
#[test]
fn a_hook_that_panics_hurts_no_pool_and_each_task_is_accounted_for() {
    let hooks =
        ["before_execute", "after_execute", "terminated", "rejected", "worker_started", "worker_stopped"];
    for hook in hooks {
        let pool = pool(1, 1).work_queue(WorkQueue::array(8)).hooks(PanicsIn(hook)).build().unwrap();
        let outcomes: Vec<_> = (0..4).map(|n| soon(pool.submit(move || n).unwrap())).collect();
        for (n, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(value) => assert!(value == n && hook != "before_execute"),
                Err(error) => assert!(matches!(error, JoinError::Abandoned) && hook == "before_execute"),
            }
        }
        pool.shutdown();
        assert_eq!(pool.submit(|| 4).unwrap_err().reason(), RejectReason::Shutdown);
        end(&pool);
        assert_settled(&pool, 4);
        assert_eq!(pool.completed_task_count(), 4, "{hook}");
        assert_eq!(pool.stats().rejected, 1);
    }
}

// Peer case 8
#[test]
fn a_policy_that_panics_panics_for_its_caller_only() {
    let refuse = |_: Task, _: &ThreadPoolExecutor| -> Result<(), Rejected> { die("policy") };
    let pool = pool(1, 1).work_queue(WorkQueue::array(1)).rejected_execution_handler(refuse).build().unwrap();
    let gate = Gate::new();
    let busy = keep_busy(&pool, &gate);
    let queued = pool.submit(|| "queued").unwrap();
    let (task, lost) = TaskOf::new(|| ()).into_parts();
    assert!(catch_unwind(AssertUnwindSafe(|| pool.execute_task(task))).is_err());
    assert!(matches!(soon(lost), Err(JoinError::Abandoned)), "its handle does not hang");
    gate.open();
    soon(busy).unwrap();
    assert_eq!(soon(queued).unwrap(), "queued");
    end(&pool);
    assert_settled(&pool, 2);
    assert_eq!(pool.stats().rejected, 1);
}

// Peer case 8
#[test]
fn a_factory_that_panics_counts_as_a_failed_spawn() {
    let pool = pool(1, 1).thread_factory(|_| die("factory")).build().unwrap();
    let rejected = pool.submit(|| "back").unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::SpawnFailed);
    assert!(rejected.source().is_some());
    assert!(!pool.prestart_core_thread());
    assert_eq!((pool.pool_size(), pool.queued_count()), (0, 0));
    pool.set_thread_factory(failing(0));
    assert_eq!(soon(pool.submit(|| "works").unwrap()).unwrap(), "works");
    end(&pool);
    assert_settled(&pool, 1);
}

// Peer case 8
#[test]
fn a_factory_that_drops_the_body_counts_as_a_failed_spawn() {
    let factory = |body: WorkerBody| {
        drop(body);
        Ok(thread::spawn(|| {}))
    };
    let pool = pool(1, 1).thread_factory(factory).build().unwrap();
    assert_eq!(pool.submit(|| ()).unwrap_err().reason(), RejectReason::SpawnFailed);
    assert_eq!(pool.pool_size(), 0);
    pool.set_thread_factory(failing(0));
    assert_eq!(soon(pool.submit(|| "works").unwrap()).unwrap(), "works");
    end(&pool);
    assert_settled(&pool, 1);
}

// Peer case 8: the comparator of a custom queue. It is called when a task is inserted and when one
// is removed.
#[test]
fn a_comparator_that_panics_costs_at_most_the_task_being_compared() {
    let (angry, panics) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
    let (mood, count) = (Arc::clone(&angry), Arc::clone(&panics));
    let compare = move |a: &Task, b: &Task| -> Order {
        if mood.load(Ordering::SeqCst) {
            count.fetch_add(1, Ordering::SeqCst);
            die("comparator");
        }
        b.priority().cmp(&a.priority())
    };
    let pool = pool(1, 1).work_queue(WorkQueue::custom(PriorityBlockingQueue::by(compare))).build().unwrap();
    let gate = Gate::new();
    let busy = keep_busy(&pool, &gate);
    let first: Vec<_> =
        (0..3).map(|n| pool.submit_task(TaskOf::new(move || n).with_priority(n)).unwrap()).collect();
    angry.store(true, Ordering::SeqCst);
    let (task, handle) = TaskOf::new(|| ()).into_parts();
    let refused = catch_unwind(AssertUnwindSafe(|| pool.execute_task(task)));
    assert!(!matches!(refused, Ok(Ok(()))));
    drop(refused);
    assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
    assert_eq!(pool.queued_count(), 3);
    // The worker calls the comparator too, and must survive its panic.
    gate.open();
    soon(busy).unwrap();
    let before = panics.load(Ordering::SeqCst);
    eventually(|| panics.load(Ordering::SeqCst) > before + 1); // more than once in the worker
    angry.store(false, Ordering::SeqCst);
    for (n, handle) in (0..).zip(first) {
        assert_eq!(soon(handle).unwrap(), n);
    }
    end(&pool);
    assert_eq!(pool.stats().completed, 4);
    assert_settled(&pool, 4);
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        die("destructor");
    }
}

// Peer case 8
#[test]
fn a_destructor_that_panics_hurts_no_pool_and_the_task_is_accounted_for() {
    let pool = pool(1, 1).work_queue(WorkQueue::array(3)).build().unwrap();
    let gate = Gate::new();
    let busy = keep_busy(&pool, &gate);
    let with_bomb = || {
        let bomb = Bomb;
        move || drop(bomb)
    };
    let cancelled = pool.submit(with_bomb()).unwrap();
    let removed = pool.submit(with_bomb()).unwrap();
    let run = pool.submit(with_bomb()).unwrap();
    assert!(cancelled.cancel(false));
    assert!(pool.remove(removed.id()));
    gate.open();
    soon(busy).unwrap();
    assert!(matches!(soon(run), Err(JoinError::Panicked(panic)) if panic.message() == Some("destructor")));
    assert!(matches!(soon(cancelled), Err(JoinError::Cancelled)));
    assert!(matches!(soon(removed), Err(JoinError::Abandoned)));
    pool.execute(with_bomb()).unwrap();
    assert_eq!(soon(pool.submit(|| "goes on").unwrap()).unwrap(), "goes on");
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.panicked, stats.cancelled, stats.handed_back), (2, 2, 1, 1));
    assert_settled(&pool, 6);
}

/// Hooks that all panic, with a payload whose destructor panics.
struct Hostile;

impl Hooks for Hostile {
    fn before_execute(&self, task: &TaskInfo) {
        if task.name() == Some("refused") {
            resume_unwind(Box::new(Bomb));
        }
    }
    fn after_execute(&self, _: &TaskInfo, _: Option<&Panic>) {
        resume_unwind(Box::new(Bomb));
    }
    fn worker_started(&self, _: &WorkerInfo) {
        resume_unwind(Box::new(Bomb));
    }
    fn worker_stopped(&self, _: &WorkerInfo) {
        resume_unwind(Box::new(Bomb));
    }
    fn terminated(&self) {
        resume_unwind(Box::new(Bomb));
    }
}

// Peer case 8: a panic payload is user code too.
#[test]
fn a_panic_that_carries_what_panics_when_it_is_dropped_hurts_no_pool() {
    let pool = pool(2, 2).hooks(Hostile).build().unwrap();
    for _ in 0..20 {
        pool.execute(|| resume_unwind(Box::new(Bomb))).unwrap();
        drop(pool.submit(|| resume_unwind(Box::new(Bomb))).unwrap());
        pool.execute_task(Task::new(|| {}).named("refused")).unwrap();
    }
    assert_eq!(soon(pool.submit(|| "goes on").unwrap()).unwrap(), "goes on");
    end(&pool);
    assert_eq!(pool.completed_task_count(), 61);
    assert_settled(&pool, 61);
}

/// Submits and joins a task that does the same, down to `depth`.
fn dig(pool: &ThreadPoolExecutor, depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let inside = pool.clone();
    1 + pool.submit(move || dig(&inside, depth - 1)).unwrap().join().unwrap()
}

// Peer case 9
#[test]
fn a_task_that_waits_for_its_own_full_pool_is_served() {
    for queue in [WorkQueue::linked(), WorkQueue::array(1), WorkQueue::priority()] {
        let pool = pool(1, 1).work_queue(queue).build().unwrap();
        let inside = pool.clone();
        let outer = pool.submit(move || dig(&inside, 5)).unwrap();
        assert_eq!(soon(outer).unwrap(), 5);
        end(&pool);
        assert_settled(&pool, 6);
    }
}

// Peer case 9
#[test]
fn a_task_that_waits_runs_what_it_waits_for_and_no_strangers_task() {
    let pool = pool(1, 1).build().unwrap();
    let (inside, gate) = (pool.clone(), Gate::new());
    let pass = gate.clone();
    let stranger_ran = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stranger_ran);
    let outer = pool
        .submit(move || {
            pass.pass(); // the unrelated task is now queued ahead of the child
            let child = inside.submit(|| thread::current().id()).unwrap();
            (child.join().unwrap() == thread::current().id(), seen.load(Ordering::SeqCst))
        })
        .unwrap();
    let stranger = pool.submit(move || stranger_ran.store(true, Ordering::SeqCst)).unwrap();
    gate.open();
    assert_eq!(soon(outer).unwrap(), (true, false));
    soon(stranger).unwrap();
    end(&pool);
    assert_settled(&pool, 3);
}

// Peer case 9
#[test]
fn invoke_all_inside_invoke_all_on_one_worker_finishes() {
    let pool = executors::fixed(1).unwrap();
    let inside = pool.clone();
    let outer = pool.invoke_all((0..3).map(|n| {
        let pool = inside.clone();
        move || {
            let inner = pool.invoke_all((0..3).map(|m| move || 10 * n + m)).unwrap();
            inner.into_iter().map(|handle| handle.join().unwrap()).sum::<i32>()
        }
    }));
    let sums: Vec<i32> = outer.unwrap().into_iter().map(|handle| handle.join().unwrap()).collect();
    assert_eq!(sums, [3, 33, 63]);
    end(&pool);
    assert_settled(&pool, 12);
}

// Peer case 9
#[test]
fn invoke_any_inside_a_task_on_one_worker_finishes() {
    let pool = executors::fixed(1).unwrap();
    let inside = pool.clone();
    let outer = pool.submit(move || {
        inside.invoke_any((0..4).map(|n| move || if n < 3 { Err("not yet") } else { Ok(n) })).unwrap()
    });
    assert_eq!(soon(outer.unwrap()).unwrap(), 3);
    end(&pool);
}

// Peer case 10: see also `stress/growth.rs`, where the worker leaves at every moment.
#[test]
fn a_pool_without_core_whose_worker_has_left_starts_another() {
    for queue in [WorkQueue::linked(), WorkQueue::array(1), WorkQueue::synchronous(), WorkQueue::delay()] {
        let pool = pool(0, 1).keep_alive_time(Duration::ZERO).work_queue(queue).build().unwrap();
        for n in 0..50 {
            assert_eq!(soon(pool.submit(move || n).unwrap()).unwrap(), n);
            eventually(|| pool.pool_size() == 0); // the worker has left
        }
        end(&pool);
        assert_settled(&pool, 50);
        assert_eq!(pool.largest_pool_size(), 1);
    }
}

// Peer case 11
#[test]
fn eager_growth_makes_a_thread_for_each_task_at_once_up_to_the_maximum() {
    const MAXIMUM: usize = 3;
    for (core, tasks) in [(0, 1), (1, 2), (2, 3), (1, 5), (3, 2)] {
        let pool = pool(core, MAXIMUM).eager().work_queue(WorkQueue::linked()).build().unwrap();
        for _ in 0..5 {
            assert_eq!(soon(pool.submit(|| "one").unwrap()).unwrap(), "one"); // one after the other
        }
        assert_eq!(pool.largest_pool_size(), 1, "a free worker is used first");
        let gate = Gate::new();
        let handles: Vec<_> = (0..tasks)
            .map(|_| {
                let pass = gate.clone();
                pool.submit(move || pass.pass()).unwrap()
            })
            .collect();
        let expected = tasks.min(MAXIMUM);
        // Each task has a thread. The worker of the previous task may still count as active after
        // that task has been joined.
        eventually(|| (pool.active_count(), pool.queued_count()) == (expected, tasks - expected));
        assert_eq!((pool.pool_size(), pool.largest_pool_size()), (expected, expected));
        gate.open();
        handles.into_iter().for_each(|handle| soon(handle).unwrap());
        end(&pool);
        assert_settled(&pool, 5 + tasks);
        assert_eq!(pool.largest_pool_size(), expected);
    }
}

/// All settings, as the getters return them.
fn settings(pool: &ThreadPoolExecutor) -> (usize, usize, Duration, bool) {
    let read = (
        pool.core_pool_size(),
        pool.maximum_pool_size(),
        pool.keep_alive_time(),
        pool.allows_core_thread_time_out(),
    );
    let stats = pool.stats();
    assert_eq!(
        (stats.core_pool_size, stats.maximum_pool_size, stats.keep_alive_time),
        (read.0, read.1, read.2)
    );
    read
}

// Peer case 13
#[test]
fn every_setter_reads_back_and_one_that_fails_changes_nothing() {
    let pool = pool(2, 4).keep_alive_time(SHORT).build().unwrap();
    assert_eq!(settings(&pool), (2, 4, SHORT, false));

    pool.set_core_pool_size(3).unwrap();
    pool.set_maximum_pool_size(5).unwrap();
    pool.set_keep_alive_time(SMALL).unwrap();
    pool.allow_core_thread_time_out(true).unwrap();
    let now = (3, 5, SMALL, true);
    assert_eq!(settings(&pool), now);

    let wrong = [
        (pool.set_core_pool_size(6), ["6", "5"]),
        (pool.set_maximum_pool_size(2), ["2", "3"]),
        (pool.set_maximum_pool_size(0), ["0", "3"]),
        (pool.set_keep_alive_time(Duration::ZERO), ["0ns", "zero"]),
    ];
    for (result, values) in wrong {
        let message = result.unwrap_err().to_string();
        assert!(values.iter().all(|value| message.contains(value)), "{message}");
        assert_eq!(settings(&pool), now);
    }

    pool.allow_core_thread_time_out(false).unwrap();
    pool.set_keep_alive_time(Duration::ZERO).unwrap();
    assert!(pool.allow_core_thread_time_out(true).is_err());
    assert_eq!(settings(&pool), (3, 5, Duration::ZERO, false));
    pool.set_keep_alive_time(Duration::MAX).unwrap();
    assert_eq!(settings(&pool), (3, 5, Duration::MAX, false));
    end(&pool);
    pool.set_core_pool_size(1).unwrap(); // harmless after the end
    assert_eq!((settings(&pool).0, pool.pool_size()), (1, 0));
}

// Peer case 13
#[test]
fn a_new_handler_or_factory_is_in_force_from_the_next_use_on() {
    let pool = pool(1, 1).work_queue(WorkQueue::array(1)).build().unwrap();
    let gate = Gate::new();
    let busy = keep_busy(&pool, &gate);
    pool.execute(|| ()).unwrap();
    assert_eq!(pool.execute(|| ()).unwrap_err().reason(), RejectReason::Saturated);
    pool.set_rejected_execution_handler(policy::Discard);
    pool.execute(|| ()).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    pool.set_thread_factory(move |body| {
        count.fetch_add(1, Ordering::SeqCst);
        thread::Builder::new().spawn(move || body.run())
    });
    pool.set_maximum_pool_size(2).unwrap();
    assert_eq!(soon(pool.submit(|| "extra").unwrap()).unwrap(), "extra");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    gate.open();
    soon(busy).unwrap();
    end(&pool);
    assert_settled(&pool, 3);
    assert_eq!(pool.stats().rejected, 2);
}
