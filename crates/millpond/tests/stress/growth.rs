//! Workers come and go while tasks are submitted: no task is lost, none waits while a worker
//! sleeps, and there are never more threads than allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{
    Gate, Rng, SAW_SOME, SetOnDrop, Wrapped, assert_settled, end, eventually, rounds, soon, together,
};
use millpond::queue::{DelayQueue, LinkedBlockingQueue};
use millpond::{Builder, Hooks, RejectReason, TaskHandle, TaskOf, ThreadPoolExecutor, WorkQueue, WorkerInfo};

fn pool(core: usize, maximum: usize) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum)
}

/// The current number of workers and its maximum.
#[derive(Default)]
struct Census {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Census {
    fn one_more(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn one_more_for_a_while(&self) {
        self.one_more();
        thread::yield_now();
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts workers, in a pool whose workers stay until the end.
struct CensusHooks(Arc<Census>);

impl Hooks for CensusHooks {
    fn worker_started(&self, _: &WorkerInfo) {
        self.0.one_more();
    }
}

// TPE-077, peer case 12. Three threads change the settings at random, and every result must be
// correct at that time: a setter fails only for a reason that its arguments and the other settings
// explain.
#[test]
fn tpe_077_settings_changed_under_submission_lose_and_duplicate_no_task() {
    const MOST: usize = 4;
    let mut rng = Rng::new();
    for round in rounds(60) {
        let queue = match round % 5 {
            0 => WorkQueue::linked(),
            1 => WorkQueue::array(3),
            2 => WorkQueue::synchronous(),
            3 => WorkQueue::priority(),
            _ => WorkQueue::custom(LinkedBlockingQueue::bounded(3).unwrap()),
        };
        let pool = pool(1, 2).keep_alive_time(Duration::ZERO).work_queue(queue).build().unwrap();
        let (ran, over) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
        let mut handles = Vec::new();
        thread::scope(|s| {
            let (pool, over) = (&pool, &over);
            let _at_the_end = SetOnDrop(over);
            let go_on = move || !over.load(Ordering::Relaxed);
            let (mut core, mut maximum, mut time) = (rng.fork(), rng.fork(), rng.fork());
            s.spawn(move || {
                while go_on() {
                    let threads = core.below(MOST + 2);
                    if pool.set_core_pool_size(threads).is_err() {
                        assert!(threads > 0, "a core size of 0 is never above the maximum");
                    }
                    core.dawdle();
                }
            });
            s.spawn(move || {
                while go_on() {
                    let threads = maximum.below(MOST + 1);
                    if pool.set_maximum_pool_size(threads).is_ok() {
                        assert!(threads > 0, "no pool without threads");
                    }
                    maximum.dawdle();
                }
            });
            s.spawn(move || {
                while go_on() {
                    let allow = time.once_in(2);
                    let keep_alive = if time.once_in(2) { Duration::ZERO } else { Duration::from_nanos(1) };
                    let _ = pool.set_keep_alive_time(keep_alive);
                    let _ = pool.allow_core_thread_time_out(allow);
                    time.dawdle();
                }
            });
            for _ in 0..300 {
                let ran = Arc::clone(&ran);
                match pool.submit(move || ran.fetch_add(1, Ordering::Relaxed)) {
                    Ok(handle) => handles.push(handle),
                    Err(rejected) => assert_eq!(rejected.reason(), RejectReason::Saturated),
                }
                if rng.once_in(4) {
                    rng.dawdle();
                }
            }
        });
        assert!(pool.core_pool_size() <= pool.maximum_pool_size());
        assert!(!(pool.allows_core_thread_time_out() && pool.keep_alive_time().is_zero()));
        let accepted = handles.len();
        let mut order: Vec<usize> = handles.into_iter().map(|handle| soon(handle).unwrap()).collect();
        order.sort_unstable();
        assert!(order.into_iter().eq(0..accepted), "each task ran once");
        // Without work, the pool settles within its current settings.
        eventually(|| pool.pool_size() <= pool.maximum_pool_size()); // no more workers than the maximum
        end(&pool);
        assert_settled(&pool, accepted);
    }
}

#[test]
fn a_pool_whose_maximum_is_lowered_under_load_shrinks_to_it_and_goes_on() {
    let mut rng = Rng::new();
    let pool = pool(4, 4).build().unwrap();
    let mut accepted = 0;
    for _ in rounds(300) {
        let handles: Vec<_> = (0..8).map(|n| pool.submit(move || n).unwrap()).collect();
        rng.dawdle();
        pool.set_core_pool_size(1).unwrap();
        pool.set_maximum_pool_size(1).unwrap();
        accepted += handles.len();
        for (n, handle) in handles.into_iter().enumerate() {
            assert_eq!(soon(handle).unwrap(), n);
        }
        eventually(|| pool.pool_size() == 1);
        pool.set_maximum_pool_size(4).unwrap();
        pool.set_core_pool_size(4).unwrap();
    }
    end(&pool);
    assert_settled(&pool, accepted);
}

// Peer case 10. Core size 0 and a very short keep-alive time: after every task the last worker
// exits and races the next submission.
#[test]
fn a_task_queued_while_the_last_worker_leaves_runs() {
    let mut rng = Rng::new();
    // A hand-over needs an idle worker. While workers that have just ended a task return to the
    // queue, the next task needs another worker, and their number depends on the kernel. All other
    // tasks have a place in a queue.
    let many = 6000;
    let queues: [(fn() -> WorkQueue, usize); 6] = [
        (WorkQueue::linked, 2),
        (WorkQueue::synchronous, many),
        (|| WorkQueue::array(1), 2),
        (WorkQueue::priority, 2),
        (WorkQueue::delay, 2),
        (|| WorkQueue::custom(LinkedBlockingQueue::unbounded()), 2),
    ];
    let keep_alives = [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(20)];
    let mut pools: Vec<_> = queues
        .iter()
        .flat_map(|(queue, maximum)| {
            keep_alives.map(|keep_alive| pool(0, *maximum).keep_alive_time(keep_alive).work_queue(queue()))
        })
        .map(|builder| (builder.build().unwrap(), 0))
        .collect();
    for n in rounds(6000) {
        let at = n / 10 % pools.len();
        let (pool, accepted) = &mut pools[at];
        assert_eq!(soon(pool.submit(move || n).unwrap()).unwrap(), n);
        *accepted += 1;
        rng.dawdle();
    }
    for (pool, accepted) in pools {
        eventually(|| pool.pool_size() == 0); // an idle pool without core shrinks to nothing
        end(&pool);
        assert_settled(&pool, accepted);
    }
}

// The same with core threads that time out, and two submitters.
#[test]
fn a_task_queued_while_core_threads_time_out_runs() {
    let mut rng = Rng::new();
    let queues =
        [WorkQueue::linked(), WorkQueue::delay(), WorkQueue::custom(LinkedBlockingQueue::unbounded())];
    let pools = queues.map(|queue| {
        let builder = pool(2, 2).keep_alive_time(Duration::from_micros(5)).work_queue(queue);
        builder.allow_core_thread_time_out(true).build().unwrap()
    });
    let submit = |mut rng: Rng| {
        let mut accepted = [0; 3];
        for n in rounds(1500) {
            assert_eq!(soon(pools[n % 3].submit(move || n).unwrap()).unwrap(), n);
            accepted[n % 3] += 1;
            rng.dawdle();
        }
        accepted
    };
    let (here, there) = (rng.fork(), rng.fork());
    let (mine, others) = together(|| submit(here), || submit(there));
    for (at, pool) in pools.iter().enumerate() {
        eventually(|| pool.pool_size() == 0); // an idle pool shrinks to nothing
        end(pool);
        assert_settled(pool, mine[at] + others[at]);
    }
}

// The last worker has timed out, but it has seen a task that is not due yet, so it is about to wait
// for that. Before it does, the task is cancelled: nothing keeps the worker any longer.
#[test]
fn a_last_worker_on_its_way_to_wait_for_a_task_that_is_cancelled_leaves() {
    let (looked, gate) = (Gate::new(), Gate::new());
    let (knock, pass) = (looked.clone(), gate.clone());
    let queue = Wrapped {
        on_call: Box::new(move |call| {
            if call == SAW_SOME && thread::current().name() == Some("last-1") {
                knock.open();
                pass.pass();
            }
        }),
        ..Wrapped::new(DelayQueue::new())
    };
    let pool = pool(0, 1)
        .thread_name_prefix("last-")
        .keep_alive_time(Duration::from_millis(1))
        .work_queue(WorkQueue::custom(queue))
        .build()
        .unwrap();
    let handle = pool.submit_task(TaskOf::new(|| ()).with_delay(Duration::from_secs(3600))).unwrap();
    looked.pass(); // it has timed out, seen the task, and stays
    assert!(handle.cancel(false));
    gate.open();
    eventually(|| pool.pool_size() == 0);
    end(&pool);
    assert_settled(&pool, 1);
}

// The same without a slow look. Another worker may also take the task, and then exit.
#[test]
fn workers_that_wait_for_tasks_that_are_not_due_leave_when_there_are_none() {
    let mut rng = Rng::new();
    for round in rounds(400) {
        let pool = pool(2, 2)
            .keep_alive_time(Duration::from_micros(1 + rng.below(100) as u64))
            .allow_core_thread_time_out(true)
            .work_queue(WorkQueue::delay())
            .build()
            .unwrap();
        let mut submit = || {
            let delay = Duration::from_micros(rng.below(300) as u64);
            pool.submit_task(TaskOf::new(|| ()).with_delay(delay)).unwrap()
        };
        let handles: Vec<_> = (0..3).map(|_| submit()).collect();
        if round % 2 == 0 {
            rng.dawdle();
            let _cancelled = handles.iter().filter(|handle| handle.cancel(false)).count();
        }
        handles.into_iter().for_each(|handle| drop(soon(handle)));
        eventually(|| pool.pool_size() == 0);
        end(&pool);
        assert_settled(&pool, 3);
    }
}

/// Tasks that all wait for one gate, and count how many of them run.
#[derive(Clone, Default)]
struct Crowd {
    gate: Gate,
    running: Arc<AtomicUsize>,
}

impl Crowd {
    fn member(&self) -> impl FnOnce() + Send + use<> {
        let Crowd { gate, running } = self.clone();
        move || {
            running.fetch_add(1, Ordering::SeqCst);
            gate.pass();
        }
    }

    fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }
}

/// Submits `each` tasks of the crowd from this thread and from another.
fn gather(pool: &ThreadPoolExecutor, crowd: &Crowd, each: usize, rng: &mut Rng) -> Vec<TaskHandle<()>> {
    let submit = |mut rng: Rng| {
        (0..each)
            .map(|_| {
                rng.dawdle();
                pool.submit(crowd.member()).unwrap()
            })
            .collect::<Vec<_>>()
    };
    let (here, there) = (rng.fork(), rng.fork());
    let (mut mine, others) = together(|| submit(here), || submit(there));
    mine.extend(others);
    mine
}

// Work conservation: there are as many tasks as workers, and each task blocks. So each worker must
// find a task; otherwise a worker sleeps while a task waits.
#[test]
fn no_worker_sleeps_while_a_task_it_could_run_is_queued() {
    let mut rng = Rng::new();
    let queues = [WorkQueue::linked(), WorkQueue::array(4), WorkQueue::priority()];
    let mut pools = queues.map(|queue| (pool(4, 4).work_queue(queue).build().unwrap(), 0));
    for (pool, _) in &pools {
        pool.prestart_all_core_threads();
    }
    for round in rounds(1200) {
        let (pool, accepted) = &mut pools[round % 3];
        if rng.once_in(2) {
            eventually(|| pool.parked_workers().all == 4);
        }
        let crowd = Crowd::default();
        let handles = gather(pool, &crowd, 2, &mut rng);
        *accepted += handles.len();
        eventually(|| crowd.running() == 4);
        assert_eq!((pool.queued_count(), pool.parked_workers().all), (0, 0));
        crowd.gate.open();
        handles.into_iter().for_each(|handle| soon(handle).unwrap());
    }
    for (pool, accepted) in pools {
        eventually(|| pool.parked_workers().all == 4);
        assert_eq!(pool.queued_count(), 0);
        end(&pool);
        assert_settled(&pool, accepted);
    }
}

// The same for a pool whose settings change, which wakes its workers all the time.
#[test]
fn no_worker_sleeps_on_a_task_while_settings_change() {
    let mut rng = Rng::new();
    let pool = pool(3, 3).build().unwrap();
    pool.prestart_all_core_threads();
    let (over, mut accepted) = (AtomicBool::new(false), 0);
    thread::scope(|s| {
        let (pool, over, mut shaker) = (&pool, &over, rng.fork());
        let _at_the_end = SetOnDrop(over);
        s.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                pool.set_keep_alive_time(Duration::from_secs(shaker.below(5) as u64 + 30)).unwrap();
                shaker.dawdle();
            }
        });
        for _ in rounds(300) {
            let crowd = Crowd::default();
            let handles: Vec<_> = (0..3).map(|_| pool.submit(crowd.member()).unwrap()).collect();
            accepted += handles.len();
            eventually(|| crowd.running() == 3);
            crowd.gate.open();
            handles.into_iter().for_each(|handle| soon(handle).unwrap());
        }
    });
    end(&pool);
    assert_settled(&pool, accepted);
}

// Peer case 11. The tasks of two submitters wait for each other, so each needs its own thread.
#[test]
fn eager_growth_gives_every_one_of_the_concurrent_tasks_a_thread() {
    let mut rng = Rng::new();
    for round in rounds(500) {
        let census = Arc::new(Census::default());
        let pool = pool(rng.below(2), 4)
            .eager()
            .hooks(CensusHooks(Arc::clone(&census)))
            .work_queue(if round % 2 == 0 { WorkQueue::linked() } else { WorkQueue::array(8) })
            .build()
            .unwrap();
        let crowd = Crowd::default();
        let handles = gather(&pool, &crowd, 2, &mut rng);
        eventually(|| crowd.running() == 4); // four tasks run
        crowd.gate.open();
        handles.into_iter().for_each(|handle| soon(handle).unwrap());
        end(&pool);
        assert_eq!(census.most.load(Ordering::SeqCst), 4);
        assert_settled(&pool, 4);
    }
}

#[test]
fn eager_growth_makes_no_more_threads_than_tasks_at_once_nor_than_the_maximum() {
    let mut rng = Rng::new();
    for round in rounds(300) {
        let (submitters, maximum) = (1 + rng.below(4), 1 + rng.below(4));
        let census = Arc::new(Census::default());
        let queue = if round % 2 == 0 { WorkQueue::linked() } else { WorkQueue::priority() };
        let pool = pool(rng.below(maximum + 1), maximum)
            .eager()
            .hooks(CensusHooks(Arc::clone(&census)))
            .work_queue(queue)
            .build()
            .unwrap();
        thread::scope(|s| {
            for _ in 0..submitters {
                let (pool, mut rng) = (&pool, rng.fork());
                // Each submitter has one task at a time.
                s.spawn(move || {
                    for n in 0..10 {
                        rng.dawdle();
                        assert_eq!(soon(pool.submit(move || n).unwrap()).unwrap(), n);
                    }
                });
            }
        });
        end(&pool);
        let most = census.most.load(Ordering::SeqCst);
        assert!(most <= submitters.min(maximum), "{most} threads for {submitters} tasks, maximum {maximum}");
        assert_eq!(pool.largest_pool_size(), most);
        assert_settled(&pool, 10 * submitters);
    }
}

#[test]
fn a_burst_never_has_more_tasks_running_than_the_maximum() {
    let mut rng = Rng::new();
    for round in rounds(200) {
        let queue = match round % 3 {
            0 => WorkQueue::synchronous(),
            1 => WorkQueue::array(1),
            _ => WorkQueue::custom(LinkedBlockingQueue::bounded(1).unwrap()),
        };
        let pool = pool(rng.below(3), 3)
            .keep_alive_time(Duration::from_nanos(rng.below(2) as u64))
            .work_queue(queue)
            .build()
            .unwrap();
        let running = Arc::new(Census::default());
        let accepted: usize = thread::scope(|s| {
            let submitters: Vec<_> = (0..3)
                .map(|_| {
                    let (pool, running, mut rng) = (&pool, &running, rng.fork());
                    s.spawn(move || {
                        let submit = |_: &usize| {
                            rng.dawdle();
                            let running = Arc::clone(running);
                            pool.execute(move || running.one_more_for_a_while()).is_ok()
                        };
                        (0..20).filter(submit).count()
                    })
                })
                .collect();
            submitters.into_iter().map(|submitter| submitter.join().unwrap()).sum()
        });
        end(&pool);
        assert!(running.most.load(Ordering::SeqCst) <= 3 && pool.largest_pool_size() <= 3);
        assert_settled(&pool, accepted);
        assert_eq!(pool.stats().rejected, 60 - accepted as u64);
    }
}
