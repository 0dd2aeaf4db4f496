//! How a pool shrinks: panicking tasks, keep-alive, core time-out, changed sizes.

use std::any::Any;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::sized;
use crate::support::{
    Gate, LONG, MEDIUM, SHORT, SMALL, Wrapped, die, end, eventually, occupy, threads_named,
};
use millpond::queue::{DelayQueue, LinkedBlockingQueue};
use millpond::{
    Hooks, JoinError, Panic, Task, TaskInfo, TaskOf, ThreadPoolExecutor, WorkQueue, WorkerInfo, executors,
    interrupt, policy,
};

/// Grows the pool to `size` idle workers. Requires a queue that rejects.
fn grow(pool: &ThreadPoolExecutor, size: usize) {
    let gate = Gate::new();
    (0..size).for_each(|_| occupy(pool, &gate));
    assert_eq!(pool.pool_size(), size);
    gate.open();
}

// ---- panics

/// Counts the starts and ends of workers.
#[derive(Clone, Default)]
struct Workers {
    started: Arc<AtomicUsize>,
    stopped: Arc<AtomicUsize>,
}

impl Hooks for Workers {
    fn worker_started(&self, _: &WorkerInfo) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }
    fn worker_stopped(&self, _: &WorkerInfo) {
        self.stopped.fetch_add(1, Ordering::Relaxed);
    }
}

// TPE-053, TPE-054
#[test]
fn a_pool_of_one_stays_a_pool_of_one_through_many_panicking_tasks() {
    let workers = Workers::default();
    let pool = sized(1, 1).hooks(workers.clone()).build().unwrap();
    (0..100).for_each(|_| pool.execute(|| die("on purpose")).unwrap());
    eventually(|| pool.completed_task_count() == 100);
    assert_eq!((pool.pool_size(), pool.largest_pool_size()), (1, 1));
    assert_eq!((pool.stats().panicked, pool.stats().completed), (100, 0));
    assert_eq!(pool.submit(|| 6).unwrap().join().unwrap(), 6);
    end(&pool);
    assert_eq!((workers.started.load(Ordering::Relaxed), workers.stopped.load(Ordering::Relaxed)), (1, 1));
}

#[test]
fn after_as_many_panics_as_workers_all_workers_are_still_there() {
    for queue in [WorkQueue::linked(), WorkQueue::custom(LinkedBlockingQueue::unbounded())] {
        let pool = sized(3, 3).work_queue(queue).build().unwrap();
        let gate = Gate::new();
        for _ in 0..3 {
            let gate = gate.clone();
            pool.execute(move || {
                gate.pass();
                die("on purpose")
            })
            .unwrap();
        }
        gate.open();
        eventually(|| pool.completed_task_count() == 3);
        let gate = Gate::new();
        (0..3).for_each(|_| occupy(&pool, &gate)); // each needs its own worker
        assert_eq!((pool.active_count(), pool.pool_size(), pool.largest_pool_size()), (3, 3, 3));
        gate.open();
        end(&pool);
        assert_eq!((pool.stats().completed, pool.stats().panicked), (3, 3));
    }
}

// TPE-055
#[test]
fn a_submitted_task_that_panics_leaves_its_worker_alone() {
    let pool = executors::fixed(1).unwrap();
    let thread_of =
        |pool: &ThreadPoolExecutor| pool.submit(|| thread::current().id()).unwrap().join().unwrap();
    let before = thread_of(&pool);
    let failed = pool.submit(|| die("on purpose")).unwrap().join();
    assert!(matches!(failed, Err::<(), _>(JoinError::Panicked(_))));
    assert_eq!(thread_of(&pool), before);
    end(&pool);
}

// TPE-056
#[test]
fn every_kind_of_panic_payload_arrives_unchanged() {
    #[derive(Debug, PartialEq)]
    struct Custom(u8);
    let pool = executors::fixed(1).unwrap();
    let payload = |payload: Box<dyn Any + Send>| {
        let handle = pool.submit(move || std::panic::resume_unwind(payload)).unwrap();
        match handle.join() {
            Err::<(), _>(JoinError::Panicked(panic)) => {
                (panic.message().map(str::to_owned), panic.into_payload())
            }
            other => panic!("{other:?}"),
        }
    };
    let (message, text) = payload(Box::new("static"));
    assert_eq!((message.as_deref(), text.downcast_ref()), (Some("static"), Some(&"static")));
    let (message, text) = payload(Box::new(String::from("owned")));
    assert_eq!((message.as_deref(), text.downcast_ref()), (Some("owned"), Some(&String::from("owned"))));
    let (message, custom) = payload(Box::new(Custom(7)));
    assert_eq!((message, custom.downcast_ref()), (None, Some(&Custom(7))));
    let (message, error) = payload(Box::new(std::io::Error::other("io")));
    assert!(message.is_none() && error.is::<std::io::Error>());
    end(&pool);
}

/// The panic message that an after-hook got, and whether the interrupt flag was set.
type Told = (Option<String>, bool);

#[derive(Clone, Default)]
struct Afterwards(Arc<Mutex<Vec<Told>>>);

impl Hooks for Afterwards {
    fn after_execute(&self, _: &TaskInfo, panic: Option<&Panic>) {
        let message = panic.map(|panic| panic.message().unwrap_or("no text").to_owned());
        self.0.lock().unwrap().push((message, interrupt::is_interrupted()));
    }
}

// TPE-056, TPE-057
#[test]
fn the_after_hook_gets_every_panic_of_an_execute_task_and_is_not_interrupted() {
    let after = Afterwards::default();
    let pool = sized(2, 4).work_queue(WorkQueue::array(4)).hooks(after.clone()).build().unwrap();
    pool.set_rejected_execution_handler(policy::Block::forever());
    for n in 0..40 {
        pool.execute(move || match n % 3 {
            0 => die("text"),
            1 => std::panic::resume_unwind(Box::new(5)),
            _ => {}
        })
        .unwrap();
        // Changes wake idle workers. None of this may show as an interrupt.
        pool.set_maximum_pool_size(3 + n % 2).unwrap();
        pool.set_keep_alive_time(Duration::from_millis(n as u64)).unwrap();
    }
    end(&pool);
    let seen = after.0.lock().unwrap();
    let count = |message: Option<&str>| seen.iter().filter(|(seen, _)| seen.as_deref() == message).count();
    assert_eq!((count(Some("text")), count(Some("no text")), count(None)), (14, 13, 13));
    assert!(seen.iter().all(|(_, interrupted)| !interrupted));
}

// TPE-059
#[test]
fn a_worker_whose_task_panics_after_shutdown_now_is_not_replaced() {
    let workers = Workers::default();
    let pool = sized(1, 1).hooks(workers.clone()).build().unwrap();
    let running = Gate::new();
    let started = running.clone();
    pool.execute(move || {
        started.open();
        assert!(interrupt::sleep(LONG).is_err());
        die("on purpose")
    })
    .unwrap();
    running.pass();
    pool.shutdown_now();
    assert_eq!(pool.await_termination(LONG), Ok(true));
    assert_eq!((pool.pool_size(), pool.largest_pool_size()), (0, 1));
    assert_eq!((workers.started.load(Ordering::Relaxed), workers.stopped.load(Ordering::Relaxed)), (1, 1));
    assert_eq!(pool.stats().panicked, 1);
}

#[test]
fn panicking_tasks_do_not_keep_a_shut_down_pool_from_emptying_its_queue() {
    let pool = executors::fixed(1).unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    (0..10).for_each(|_| pool.execute(|| die("on purpose")).unwrap());
    let last = pool.submit(|| 1).unwrap();
    pool.shutdown();
    gate.open();
    assert_eq!(last.join().unwrap(), 1);
    end(&pool);
    assert_eq!(pool.completed_task_count(), 12);
}

#[test]
fn a_panicking_task_above_a_lowered_maximum_takes_its_worker_with_it() {
    let pool =
        sized(1, 2).work_queue(WorkQueue::synchronous()).keep_alive_time(Duration::MAX).build().unwrap();
    let gate = Gate::new();
    for _ in 0..2 {
        let (running, wait) = (Gate::new(), gate.clone());
        let started = running.clone();
        pool.execute(move || {
            started.open();
            wait.pass();
            die("on purpose")
        })
        .unwrap();
        running.pass();
    }
    pool.set_maximum_pool_size(1).unwrap();
    gate.open();
    eventually(|| pool.pool_size() == 1);
    assert_eq!(pool.largest_pool_size(), 2);
    end(&pool);
}

// ---- keep-alive

// TPE-061
#[test]
fn with_a_keep_alive_time_of_zero_surplus_workers_leave_at_once_and_core_workers_stay() {
    let custom = WorkQueue::custom(millpond::queue::SynchronousQueue::new());
    for queue in [WorkQueue::synchronous(), custom] {
        let pool = sized(2, 6)
            .work_queue(queue)
            .keep_alive_time(Duration::ZERO)
            .thread_name_prefix("surplus-")
            .build()
            .unwrap();
        grow(&pool, 6);
        eventually(|| pool.pool_size() == 2);
        eventually(|| threads_named("surplus-").unwrap_or(2) == 2);
        assert_eq!(pool.largest_pool_size(), 6);
        end(&pool);
    }
}

// TPE-062
#[test]
fn without_core_time_out_idle_core_workers_sleep_without_a_limit() {
    let pool = sized(3, 5)
        .work_queue(WorkQueue::synchronous())
        .keep_alive_time(Duration::from_millis(1))
        .build()
        .unwrap();
    grow(&pool, 5);
    eventually(|| pool.pool_size() == 3);
    eventually(|| pool.parked_workers().all == 3 && pool.parked_workers().timed == 0);
    thread::sleep(SHORT); // many keep-alive times
    assert_eq!((pool.pool_size(), pool.parked_workers().timed), (3, 0));
    end(&pool);
}

// TPE-063, TPE-064
#[test]
fn with_core_time_out_an_idle_pool_shrinks_to_nothing_after_keep_alive_and_a_task_revives_it() {
    let custom = WorkQueue::custom(LinkedBlockingQueue::unbounded());
    for queue in [WorkQueue::linked(), WorkQueue::array(3), WorkQueue::delay(), custom] {
        let pool = sized(3, 3)
            .work_queue(queue)
            .keep_alive_time(SMALL)
            .allow_core_thread_time_out(true)
            .thread_name_prefix("mortal-")
            .build()
            .unwrap();
        pool.execute(|| {}).unwrap();
        pool.execute(|| {}).unwrap();
        let begin = Instant::now();
        pool.execute(|| {}).unwrap();
        eventually(|| pool.pool_size() == 0);
        // The worker became idle no earlier than its last task was submitted.
        assert!(begin.elapsed() >= SMALL);
        eventually(|| threads_named("mortal-").unwrap_or(0) == 0);
        assert_eq!(pool.submit(|| 8).unwrap().join().unwrap(), 8);
        eventually(|| pool.completed_task_count() == 4);
        end(&pool);
    }
}

// TPE-063
#[test]
fn with_core_time_out_each_of_the_first_tasks_still_gets_its_own_worker() {
    let pool = sized(4, 4).keep_alive_time(LONG).allow_core_thread_time_out(true).build().unwrap();
    for size in 1..=4 {
        pool.submit(|| {}).unwrap().join().unwrap();
        assert_eq!(pool.pool_size(), size);
    }
    pool.submit(|| {}).unwrap().join().unwrap();
    assert_eq!(pool.pool_size(), 4);
    end(&pool);
}

#[test]
fn allowing_core_time_out_and_shortening_keep_alive_reach_workers_that_already_sleep() {
    let pool = sized(3, 3).keep_alive_time(Duration::MAX).build().unwrap();
    pool.prestart_all_core_threads();
    eventually(|| pool.parked_workers().all == 3);
    assert_eq!(pool.parked_workers().timed, 0);
    pool.allow_core_thread_time_out(true).unwrap();
    pool.set_keep_alive_time(Duration::from_millis(1)).unwrap();
    eventually(|| pool.pool_size() == 0);
    end(&pool);
}

// TPE-067
#[test]
fn the_last_worker_stays_past_its_keep_alive_time_while_a_task_waits() {
    for core in [0, 1] {
        let pool = sized(core, 1)
            .work_queue(WorkQueue::delay())
            .keep_alive_time(Duration::from_millis(2))
            .allow_core_thread_time_out(true)
            .build()
            .unwrap();
        let begin = Instant::now();
        let mut handle = pool.submit_task(TaskOf::new(|| 1).with_delay(MEDIUM)).unwrap();
        while begin.elapsed() < MEDIUM / 2 {
            assert_eq!(pool.pool_size(), 1);
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(handle.join_timeout(LONG).unwrap().unwrap(), 1);
        assert!(begin.elapsed() >= MEDIUM);
        assert_eq!(pool.largest_pool_size(), 1);
        eventually(|| pool.pool_size() == 0);
        end(&pool);
    }
}

/// The last worker may not exit while a task waits, and its keep-alive time is over at once: it
/// must not spin until the task is due.
#[test]
fn with_a_keep_alive_time_of_zero_the_last_worker_does_not_spin_while_a_task_is_not_due() {
    let looks = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&looks);
    let queue = Wrapped {
        on_call: Box::new(move |call| {
            if call.starts_with("poll") || call == "take" {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }),
        ..Wrapped::new(DelayQueue::new())
    };
    let pool =
        sized(0, 1).work_queue(WorkQueue::custom(queue)).keep_alive_time(Duration::ZERO).build().unwrap();
    let handle = pool.submit_task(TaskOf::new(|| {}).with_delay(SMALL)).unwrap();
    handle.join().unwrap();
    end(&pool);
    let looks = looks.load(Ordering::Relaxed);
    assert!(looks < 100, "{looks} looks at the queue for one task");
}

#[test]
fn a_last_worker_that_stayed_for_a_task_leaves_when_that_is_taken_out() {
    for cancel in [false, true] {
        let pool = sized(0, 1)
            .work_queue(WorkQueue::delay())
            .keep_alive_time(Duration::from_millis(1))
            .thread_name_prefix("stayed-")
            .build()
            .unwrap();
        let handle = pool.submit_task(TaskOf::new(|| {}).with_delay(Duration::from_secs(3600))).unwrap();
        thread::sleep(SHORT); // many keep-alive times
        assert_eq!(pool.pool_size(), 1);
        assert!(if cancel { handle.cancel(false) } else { pool.remove(handle.id()) });
        eventually(|| pool.pool_size() == 0);
        end(&pool);
    }
}

// ---- changed sizes

// TPE-069, TPE-076
#[test]
fn a_pool_follows_its_settings_up_and_down_under_load() {
    const N: usize = 3;
    for prestart in [false, true] {
        let pool = sized(N, 3 * N)
            .work_queue(WorkQueue::array(3 * N))
            .keep_alive_time(Duration::MAX)
            .thread_name_prefix("follow-")
            .build()
            .unwrap();
        if prestart {
            assert_eq!(pool.prestart_all_core_threads(), N);
            eventually(|| pool.parked_workers().all == N);
        }
        let gate = Gate::new();
        let give = |tasks: usize| {
            for _ in 0..tasks {
                let gate = gate.clone();
                pool.execute(move || gate.pass()).unwrap();
            }
        };
        // The first N tasks get threads, or go through the queue to prestarted threads.
        give(N);
        eventually(|| pool.active_count() == N && pool.queued_count() == 0);
        give(5 * N);
        eventually(|| pool.active_count() == 3 * N);
        assert_eq!((pool.pool_size(), pool.largest_pool_size()), (3 * N, 3 * N));
        assert_eq!((pool.queued_count(), pool.task_count()), (3 * N, 6 * N as u64));
        assert_eq!(pool.completed_task_count(), 0);
        assert!(pool.execute(|| {}).is_err());

        pool.set_maximum_pool_size(4 * N).unwrap();
        give(N);
        eventually(|| pool.active_count() == 4 * N);
        assert_eq!((pool.pool_size(), pool.largest_pool_size()), (4 * N, 4 * N));
        assert_eq!((pool.task_count(), pool.completed_task_count()), (7 * N as u64, 0));
        assert!(pool.execute(|| {}).is_err());

        pool.set_maximum_pool_size(2 * N).unwrap();
        assert_eq!(pool.pool_size(), 4 * N); // busy workers are not affected
        gate.open();
        eventually(|| pool.pool_size() == 2 * N && pool.completed_task_count() == 7 * N as u64);
        eventually(|| threads_named("follow-").unwrap_or(2 * N) == 2 * N);
        eventually(|| pool.active_count() == 0); // a worker is active until its task has been dropped
        assert_eq!(pool.largest_pool_size(), 4 * N);
        assert_eq!(pool.task_count(), 7 * N as u64);
        end(&pool);
        assert_eq!((pool.largest_pool_size(), pool.completed_task_count()), (4 * N, 7 * N as u64));
    }
}

// TPE-071
#[test]
fn idle_workers_above_a_lowered_maximum_leave_at_once() {
    let custom = WorkQueue::custom(LinkedBlockingQueue::unbounded());
    for queue in [WorkQueue::linked(), WorkQueue::synchronous(), custom] {
        let pool = sized(5, 5)
            .work_queue(queue)
            .keep_alive_time(Duration::MAX)
            .rejected_execution_handler(policy::Block::forever()) // waits until a worker is idle
            .build()
            .unwrap();
        pool.prestart_all_core_threads();
        pool.set_core_pool_size(1).unwrap();
        assert_eq!(pool.pool_size(), 5);
        pool.set_maximum_pool_size(2).unwrap();
        eventually(|| pool.pool_size() == 2); // would never hold if they waited for keep-alive
        assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
        end(&pool);
    }
}

// TPE-072
#[test]
fn idle_workers_above_a_lowered_core_size_leave_after_keep_alive_and_not_before() {
    let custom = WorkQueue::custom(LinkedBlockingQueue::unbounded());
    for queue in [WorkQueue::linked(), custom] {
        let pool = sized(4, 4).work_queue(queue).keep_alive_time(SMALL).build().unwrap();
        pool.prestart_all_core_threads();
        let begin = Instant::now();
        pool.set_core_pool_size(1).unwrap();
        eventually(|| pool.pool_size() < 4);
        assert!(begin.elapsed() >= SMALL);
        eventually(|| pool.pool_size() == 1);
        end(&pool);
    }
}

// TPE-074
#[test]
fn raising_the_core_size_starts_threads_for_waiting_tasks_and_none_without() {
    let pool = sized(1, 8).build().unwrap();
    pool.set_core_pool_size(2).unwrap();
    assert_eq!(pool.pool_size(), 0);
    let gate = Gate::new();
    (0..2).for_each(|_| occupy(&pool, &gate));
    pool.set_core_pool_size(4).unwrap();
    assert_eq!(pool.pool_size(), 2);
    pool.set_core_pool_size(2).unwrap();

    let started = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (gate, started) = (gate.clone(), Arc::clone(&started));
        pool.execute(move || {
            started.fetch_add(1, Ordering::Relaxed);
            gate.pass();
        })
        .unwrap();
    }
    assert_eq!((pool.pool_size(), pool.queued_count()), (2, 3));
    pool.set_core_pool_size(8).unwrap(); // room for six more threads, but only three tasks
    eventually(|| started.load(Ordering::Relaxed) == 3);
    assert_eq!((pool.pool_size(), pool.queued_count()), (5, 0));
    gate.open();
    end(&pool);
}

/// Reproducible pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

// TPE-077
#[test]
fn changing_settings_loses_and_doubles_no_task() {
    const TASKS: usize = 1000;
    let queues: [fn() -> WorkQueue; 5] = [
        || WorkQueue::array(3),
        WorkQueue::linked,
        WorkQueue::synchronous,
        WorkQueue::priority,
        || WorkQueue::custom(LinkedBlockingQueue::bounded(3).unwrap()),
    ];
    for (seed, queue) in queues.into_iter().enumerate() {
        let pool = sized(1, 4)
            .work_queue(queue())
            .keep_alive_time(Duration::ZERO)
            .rejected_execution_handler(policy::Block::forever())
            .build()
            .unwrap();
        let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..2 * TASKS).map(|_| AtomicUsize::new(0)).collect());
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let submitters = [0, TASKS].map(|from| {
                let (pool, runs) = (&pool, Arc::clone(&runs));
                scope.spawn(move || {
                    for n in from..from + TASKS {
                        let runs = Arc::clone(&runs);
                        pool.execute(move || {
                            runs[n].fetch_add(1, Ordering::Relaxed);
                        })
                        .unwrap();
                    }
                })
            });
            let changer = scope.spawn(|| {
                let mut numbers = Numbers(seed as u64 + 1);
                while !done.load(Ordering::Relaxed) {
                    // Each call may fail; it then changes nothing.
                    let _ = match numbers.below(4) {
                        0 => pool.set_core_pool_size(numbers.below(5)),
                        1 => pool.set_maximum_pool_size(numbers.below(5)),
                        2 => pool.set_keep_alive_time(Duration::from_micros(numbers.below(300) as u64)),
                        _ => pool.allow_core_thread_time_out(numbers.below(2) == 0),
                    };
                    assert!(pool.core_pool_size() <= 4 && pool.maximum_pool_size() >= 1);
                    thread::yield_now();
                }
            });
            submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
            eventually(|| pool.completed_task_count() == 2 * TASKS as u64);
            done.store(true, Ordering::Relaxed);
            changer.join().unwrap();
        });
        end(&pool);
        assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
        assert!(pool.largest_pool_size() <= 4);
        assert_eq!(pool.stats().submitted, 2 * TASKS as u64);
    }
}

#[test]
fn a_pool_without_core_threads_runs_what_arrives_while_its_last_worker_leaves() {
    let pool = sized(0, 1).work_queue(WorkQueue::array(4)).keep_alive_time(Duration::ZERO).build().unwrap();
    for n in 0..500 {
        let mut handle = pool.submit(move || n).unwrap();
        assert_eq!(handle.join_timeout(LONG).expect("a task was stranded").unwrap(), n);
    }
    end(&pool);
    assert_eq!((pool.largest_pool_size(), pool.completed_task_count()), (1, 500));
}

#[test]
fn the_warm_worker_gets_the_next_task() {
    let pool = executors::fixed(4).unwrap();
    pool.prestart_all_core_threads();
    eventually(|| pool.parked_workers().all == 4);
    let mut threads = HashSet::new();
    for _ in 0..20 {
        threads.insert(pool.submit(|| thread::current().id()).unwrap().join().unwrap());
        eventually(|| pool.parked_workers().all == 4);
    }
    assert_eq!(threads.len(), 1);
    end(&pool);
}

#[test]
fn a_task_with_a_panicking_destructor_hurts_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !thread::panicking() {
                die("in a destructor");
            }
        }
    }
    let armed = || {
        let bomb = Bomb;
        Task::new(move || drop(bomb))
    };
    let pool = executors::bounded(1, 1, 4).unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    let removed = armed();
    let id = removed.id();
    pool.execute_task(removed).unwrap();
    pool.execute_task(armed()).unwrap();
    let bomb = Bomb;
    let cancelled = pool.submit(move || drop(bomb)).unwrap();
    assert!(pool.remove(id));
    assert!(cancelled.cancel(false));
    gate.open();
    assert_eq!(pool.submit(|| 2).unwrap().join().unwrap(), 2);
    end(&pool);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.completed, stats.panicked), (5, 2, 1));
    assert_eq!((stats.cancelled, stats.handed_back), (1, 1));
}
