//! Shutdown races all other operations: each accepted task ends exactly once, and every pool
//! terminates.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{
    Gate, LONG, Rng, SAW_SOME, Wrapped, assert_settled, await_end, end, eventually, rounds, together,
};
use millpond::interrupt::{self, Interrupted};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    Builder, Hooks, JoinError, RejectReason, RunState, Task, TaskHandle, TaskId, ThreadPoolExecutor,
    WorkQueue, WorkerInfo, executors, policy,
};

fn pool(core: usize, maximum: usize) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum)
}

const KINDS: usize = 7;

/// A queue for round `n`: the kinds in rotation.
fn queue(n: usize) -> WorkQueue {
    match n % KINDS {
        0 => WorkQueue::linked(),
        1 => WorkQueue::array(2),
        2 => WorkQueue::synchronous(),
        3 => WorkQueue::priority(),
        4 => WorkQueue::delay(),
        5 => WorkQueue::custom(LinkedBlockingQueue::unbounded()),
        _ => WorkQueue::custom(LinkedBlockingQueue::bounded(2).unwrap()),
    }
}

/// A pool for round `n`: sizes, queues and keep-alive times in rotation.
fn some_pool(n: usize, rng: &mut Rng) -> ThreadPoolExecutor {
    let core = rng.below(3);
    pool(core, core.max(1) + rng.below(2))
        .keep_alive_time(if rng.once_in(2) { Duration::ZERO } else { LONG })
        .work_queue(queue(n))
        .build()
        .unwrap()
}

/// The results of `tasks` submissions: handles, and reasons of rejections.
struct Submitted {
    handles: Vec<TaskHandle<()>>,
    refused: Vec<RejectReason>,
}

fn submit(pool: &ThreadPoolExecutor, tasks: usize, ran: &Arc<AtomicUsize>, rng: &mut Rng) -> Submitted {
    let mut submitted = Submitted { handles: Vec::new(), refused: Vec::new() };
    for _ in 0..tasks {
        rng.dawdle();
        let ran = Arc::clone(ran);
        let task = move || {
            ran.fetch_add(1, Ordering::Relaxed);
        };
        match pool.submit(task) {
            Ok(handle) => submitted.handles.push(handle),
            Err(rejected) => submitted.refused.push(rejected.reason()),
        }
    }
    submitted
}

fn outcome<T>(mut handle: TaskHandle<T>) -> Result<T, JoinError> {
    handle.try_join().expect("no handle is pending once its pool has terminated")
}

fn only_expected(reasons: &[RejectReason]) {
    let expected = |reason: &RejectReason| matches!(reason, RejectReason::Shutdown | RejectReason::Saturated);
    assert!(reasons.iter().all(expected), "{reasons:?}");
}

// Peer case 12.
#[test]
fn shutdown_racing_submit_runs_all_that_was_accepted_and_nothing_else() {
    let mut rng = Rng::new();
    for round in rounds(1400) {
        let pool = some_pool(round, &mut rng);
        let ran = Arc::new(AtomicUsize::new(0));
        let (mut here, mut there) = (rng.fork(), rng.fork());
        let (mine, ()) = together(
            || submit(&pool, 6, &ran, &mut here),
            || {
                for _ in 0..there.below(4) {
                    there.dawdle();
                }
                pool.shutdown();
            },
        );
        await_end(&pool);
        only_expected(&mine.refused);
        let accepted = mine.handles.len();
        for handle in mine.handles {
            outcome(handle).unwrap();
        }
        assert_eq!(ran.load(Ordering::Relaxed), accepted, "round {round}");
        assert_settled(&pool, accepted);
        assert_eq!(pool.stats().completed, accepted as u64);
    }
}

// Peer case 12.
#[test]
fn shutdown_now_racing_submit_runs_a_task_or_hands_it_back_or_refuses_it() {
    let mut rng = Rng::new();
    for round in rounds(1400) {
        let pool = some_pool(round, &mut rng);
        let ran = Arc::new(AtomicUsize::new(0));
        let (mut here, mut there) = (rng.fork(), rng.fork());
        let (mine, drained) = together(
            || submit(&pool, 6, &ran, &mut here),
            || {
                for _ in 0..there.below(4) {
                    there.dawdle();
                }
                pool.shutdown_now()
            },
        );
        await_end(&pool);
        only_expected(&mine.refused);
        let accepted = mine.handles.len();
        let drained_ids: HashSet<TaskId> = drained.iter().map(Task::id).collect();
        assert_eq!(drained_ids.len(), drained.len(), "each task is handed back once");
        assert_eq!(ran.load(Ordering::Relaxed) + drained.len(), accepted, "round {round}");
        assert_settled(&pool, accepted);
        drop(drained);
        for handle in mine.handles {
            let was_drained = drained_ids.contains(&handle.id());
            match outcome(handle) {
                Ok(()) => assert!(!was_drained),
                Err(JoinError::Abandoned) => assert!(was_drained),
                other => panic!("round {round}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_task_that_shutdown_now_races_is_interrupted_or_never_starts() {
    let mut rng = Rng::new();
    for round in rounds(700) {
        let pool = some_pool(round, &mut rng);
        let mut here = rng.fork();
        let (handle, drained) = together(
            || pool.submit(|| interrupt::sleep(LONG)),
            || {
                here.dawdle();
                pool.shutdown_now()
            },
        );
        await_end(&pool); // ends in time only if the sleep was interrupted
        drop(drained);
        match handle.map(outcome) {
            Ok(Ok(slept)) => assert_eq!(slept, Err(Interrupted)),
            Ok(Err(error)) => assert!(matches!(error, JoinError::Abandoned)),
            Err(rejected) => assert_eq!(rejected.reason(), RejectReason::Shutdown),
        }
    }
}

// The joining worker takes the inner task out of the queue just before `shutdown_now` drains it,
// and runs it after the workers have been interrupted. The inner task must be interrupted too.
#[test]
fn a_task_run_in_place_while_shutdown_now_comes_is_interrupted_too() {
    let mut rng = Rng::new();
    for _ in rounds(3000) {
        let pool = executors::fixed(1).unwrap();
        let (inside, ready) = (pool.clone(), Gate::new());
        let knock = ready.clone();
        let mut here = rng.fork();
        let outer = pool
            .submit(move || {
                let inner = inside.submit(|| interrupt::sleep(LONG)).map_err(drop)?;
                knock.open();
                inner.join().map_err(drop)
            })
            .unwrap();
        ready.pass();
        here.dawdle();
        drop(pool.shutdown_now());
        await_end(&pool);
        assert!(matches!(outcome(outer).unwrap(), Err(()) | Ok(Err(Interrupted))));
    }
}

/// Counts hook calls that must happen exactly once, or in pairs.
#[derive(Default)]
struct Counting {
    started: AtomicUsize,
    stopped: AtomicUsize,
    terminated: AtomicUsize,
}

struct CountingHooks(Arc<Counting>, Gate);

impl Hooks for CountingHooks {
    fn worker_started(&self, _: &WorkerInfo) {
        self.0.started.fetch_add(1, Ordering::Relaxed);
    }
    fn worker_stopped(&self, _: &WorkerInfo) {
        self.0.stopped.fetch_add(1, Ordering::Relaxed);
    }
    fn terminated(&self) {
        self.0.terminated.fetch_add(1, Ordering::Relaxed);
        self.1.open();
    }
}

#[test]
fn prestart_racing_shutdown_leaves_no_worker_behind() {
    let mut rng = Rng::new();
    for round in rounds(1000) {
        let counting = Arc::new(Counting::default());
        let pool = pool(3, 3)
            .work_queue(queue(round))
            .hooks(CountingHooks(Arc::clone(&counting), Gate::new()))
            .build()
            .unwrap();
        let (mut here, now) = (rng.fork(), rng.once_in(2));
        let (prestarted, ()) = together(
            || pool.prestart_all_core_threads(),
            || {
                here.dawdle();
                if now { drop(pool.shutdown_now()) } else { pool.shutdown() }
            },
        );
        await_end(&pool);
        let seen = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        assert_eq!(seen(&counting.started), prestarted);
        assert_eq!((seen(&counting.stopped), seen(&counting.terminated)), (prestarted, 1));
        assert!(!pool.prestart_core_thread());
        assert_eq!((pool.pool_size(), pool.state()), (0, RunState::Terminated));
    }
}

/// Submits `width` tasks like itself, each through its own handle, until `depth` is used up.
fn spread(pool: ThreadPoolExecutor, depth: usize, width: usize, ran: Arc<AtomicUsize>) {
    ran.fetch_add(1, Ordering::Relaxed);
    for _ in 0..if depth == 0 { 0 } else { width } {
        let (child, ran) = (pool.clone(), Arc::clone(&ran));
        pool.execute(move || spread(child, depth - 1, width, ran)).unwrap();
    }
}

// Peer case 3.
#[test]
fn dropping_the_last_handle_while_tasks_submit_ends_the_pool_when_all_have_run() {
    let mut rng = Rng::new();
    for round in rounds(400) {
        let (counting, ended) = (Arc::new(Counting::default()), Gate::new());
        let queue = match round % 3 {
            0 => WorkQueue::linked(),
            1 => WorkQueue::priority(),
            _ => WorkQueue::custom(LinkedBlockingQueue::unbounded()),
        };
        let pool = pool(rng.below(3), 3)
            .keep_alive_time(Duration::ZERO)
            .work_queue(queue)
            .hooks(CountingHooks(Arc::clone(&counting), ended.clone()))
            .build()
            .unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (child, count) = (pool.clone(), Arc::clone(&ran));
        pool.execute(move || spread(child, 3, 2, count)).unwrap();
        rng.dawdle();
        drop(pool);
        ended.pass();
        assert_eq!(ran.load(Ordering::Relaxed), 15);
        assert_eq!(counting.terminated.load(Ordering::Relaxed), 1);
        assert_eq!(counting.started.load(Ordering::Relaxed), counting.stopped.load(Ordering::Relaxed));
    }
}

#[test]
fn shutdowns_of_all_sorts_at_once_terminate_once() {
    let mut rng = Rng::new();
    for round in rounds(400) {
        let counting = Arc::new(Counting::default());
        let pool = pool(1, 2)
            .work_queue(queue(round))
            .hooks(CountingHooks(Arc::clone(&counting), Gate::new()))
            .build()
            .unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let mine = submit(&pool, 5, &ran, &mut rng);
        let drained: usize = thread::scope(|s| {
            let enders: Vec<_> = (0..3)
                .map(|ender| {
                    let (pool, mut rng) = (&pool, rng.fork());
                    s.spawn(move || {
                        rng.dawdle();
                        match ender {
                            0 => pool.shutdown_now().len(),
                            1 => pool.shutdown_gracefully(Duration::ZERO, LONG).never_run.len(),
                            _ => {
                                pool.close();
                                0
                            }
                        }
                    })
                })
                .collect();
            enders.into_iter().map(|ender| ender.join().unwrap()).sum()
        });
        assert!(pool.is_terminated());
        assert_eq!(counting.terminated.load(Ordering::Relaxed), 1);
        assert_eq!(ran.load(Ordering::Relaxed) + drained, mine.handles.len());
        assert_settled(&pool, mine.handles.len());
        mine.handles.into_iter().for_each(|handle| drop(outcome(handle)));
    }
}

#[test]
fn cancelling_the_last_queued_task_of_a_pool_in_shutdown_terminates_it() {
    let mut rng = Rng::new();
    for round in rounds(1000) {
        let queue = [WorkQueue::linked, WorkQueue::delay, WorkQueue::priority][round % 3];
        let pool = pool(1, 1).work_queue(queue()).build().unwrap();
        let gate = Gate::new();
        let pass = gate.clone();
        let running = pool.submit(move || pass.pass()).unwrap();
        let waiting = pool.submit(|| ()).unwrap();
        pool.shutdown();
        let (mut here, mut there) = (rng.fork(), rng.fork());
        let (cancelled, ()) = together(
            || {
                here.dawdle();
                waiting.cancel(true)
            },
            || {
                there.dawdle();
                gate.open();
            },
        );
        await_end(&pool);
        outcome(running).unwrap();
        assert_eq!(outcome(waiting).is_err(), cancelled);
        assert_settled(&pool, 2);
    }
}

#[test]
fn block_racing_shutdown_frees_every_submitter() {
    let mut rng = Rng::new();
    for round in rounds(300) {
        let queue = match round % 3 {
            0 => WorkQueue::array(1),
            1 => WorkQueue::synchronous(),
            _ => WorkQueue::custom(LinkedBlockingQueue::bounded(1).unwrap()),
        };
        let pool = pool(1, 1)
            .work_queue(queue)
            .rejected_execution_handler(policy::Block::timeout(LONG))
            .build()
            .unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let now = rng.once_in(2);
        let (submitted, drained) = thread::scope(|s| {
            let submitters: Vec<_> = (0..3)
                .map(|_| {
                    let (pool, ran, mut rng) = (&pool, &ran, rng.fork());
                    s.spawn(move || submit(pool, 4, ran, &mut rng))
                })
                .collect();
            rng.dawdle();
            rng.dawdle();
            let drained = if now {
                pool.shutdown_now().len()
            } else {
                pool.shutdown();
                0
            };
            let submitted: Vec<_> =
                submitters.into_iter().map(|submitter| submitter.join().unwrap()).collect();
            (submitted, drained)
        });
        await_end(&pool);
        let accepted: usize = submitted.iter().map(|submitted| submitted.handles.len()).sum();
        assert!(submitted.iter().flat_map(|s| &s.refused).all(|reason| *reason == RejectReason::Shutdown));
        assert_eq!(ran.load(Ordering::Relaxed) + drained, accepted);
        assert_settled(&pool, accepted);
    }
}

// Two workers of a pool in shutdown, one task. The first worker sees the task in the queue and
// decides to wait for it. Before it is registered as a waiter, the second takes the task, runs it,
// exits, and finds no waiter to wake. The first must not wait for a task that cannot come.
#[test]
fn a_worker_on_its_way_into_the_queue_of_a_pool_in_shutdown_does_not_stay_there() {
    let (looked, gate) = (Gate::new(), Gate::new());
    let (knock, pass) = (looked.clone(), gate.clone());
    let queue = Wrapped {
        on_call: Box::new(move |call| {
            if call == SAW_SOME && thread::current().name() == Some("slow-1") {
                knock.open();
                pass.pass();
            }
        }),
        ..Wrapped::new(LinkedBlockingQueue::unbounded())
    };
    let pool = pool(2, 2).thread_name_prefix("slow-").work_queue(WorkQueue::custom(queue)).build().unwrap();
    let (first, second) = (Gate::new(), Gate::new());
    let (pass_first, pass_second) = (first.clone(), second.clone());
    let one = pool.submit(move || pass_first.pass()).unwrap();
    let two = pool.submit(move || pass_second.pass()).unwrap();
    let three = pool.submit(|| ()).unwrap();
    pool.shutdown();
    first.open(); // worker 1 sees the task in the queue of the pool in shutdown
    one.join().unwrap();
    looked.pass();
    second.open(); // worker 2 takes the task meanwhile, and exits
    two.join().unwrap();
    three.join().unwrap();
    eventually(|| pool.pool_size() == 1); // worker 2 has exited
    gate.open();
    await_end(&pool);
}

// The same without a slow look, and with every kind of queue. There are just as many tasks as
// workers, and the last of them are taken while the pool goes into shutdown.
#[test]
fn workers_that_find_the_queue_of_a_pool_in_shutdown_emptied_leave() {
    let mut rng = Rng::new();
    for round in rounds(3000) {
        let pool = pool(3, 3).work_queue(queue(round)).rejected_execution_handler(policy::CallerRuns).build();
        let pool = pool.unwrap();
        pool.prestart_all_core_threads();
        for _ in 0..rng.below(12) {
            pool.execute(|| ()).unwrap();
        }
        rng.dawdle();
        end(&pool);
    }
}
