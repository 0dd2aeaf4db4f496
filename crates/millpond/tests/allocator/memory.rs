//! Memory: no memory of a finished task is kept, whatever its outcome. Peer case 15.
//!
//! A counting allocator sees the whole process, so each test runs in its own process.
use std::thread;
use std::time::{Duration, Instant};

use crate::counting::{self, allocations_so_far, live_bytes};
use crate::support::{
    Gate, LONG, Rng, die, end, eventually, in_a_process_of_its_own, keep_busy, rounds, soon,
};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    Builder, ExecutorCompletionService, InvokeError, JoinError, ManualClock, ScheduledThreadPoolExecutor,
    Task, TaskOf, ThreadPoolExecutor, WorkQueue, executors, interrupt, policy,
};

/// Allocations and bytes that are live now.
fn live() -> (i64, i64) {
    (counting::live(), live_bytes())
}

fn pool(core: usize, maximum: usize) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum)
}

/// Runs `round` a few times for one-time allocations, and then many times: after each, the memory
/// in use must be the same as before. There is a tolerance, for workers that are about to wait and
/// for lists that reach their final size late. A leak in every round, or every tenth, exceeds it.
fn stays_flat(most: usize, mut round: impl FnMut()) {
    const PLAY: (i64, i64) = (4, 4096);
    Task::new(|| ()).run(); // allocates this thread's flag, and that of a task it runs itself
    // Lists that remove ended entries only when they are full rise and fall, so the level is the
    // maximum of several readings.
    let mut level = (0, 0);
    for _ in 0..10 {
        round();
        level = (level.0.max(live().0), level.1.max(live().1));
    }
    for n in rounds(most) {
        round();
        let begin = Instant::now();
        while live().0 > level.0 + PLAY.0 || live().1 > level.1 + PLAY.1 {
            assert!(begin.elapsed() < LONG, "{:?} live after round {n}, {level:?} before", live());
            thread::yield_now();
        }
    }
}

/// Captured data: a kilobyte.
fn cargo() -> Vec<u8> {
    vec![7; 1024]
}

/// Brings the ring of the pool's queue to its final size.
fn fill_the_ring(pool: &ThreadPoolExecutor) {
    let gate = Gate::new();
    let handles: Vec<_> = (0..2000)
        .map(|_| {
            let pass = gate.clone();
            pool.submit(move || pass.pass()).unwrap()
        })
        .collect();
    gate.open();
    assert!(handles.into_iter().map(soon).all(|outcome| outcome.is_ok()));
}

/// One task for every way in which a task can end, on a pool with one busy worker and three places
/// in its queue.
fn every_outcome(pool: &ThreadPoolExecutor, rng: &mut Rng) {
    // Success, by every way to get the result; panic, with and without a handle.
    let cargo_out = || {
        let cargo = cargo();
        move || cargo
    };
    assert_eq!(soon(pool.submit(cargo_out()).unwrap()).unwrap().len(), 1024);
    drop(pool.submit(cargo_out()).unwrap());
    let mut impatient = pool.submit(cargo_out()).unwrap();
    let _ = impatient.join_timeout(Duration::from_nanos(rng.below(3000) as u64));
    drop(impatient);
    let explode = || {
        let cargo = cargo();
        move || std::panic::resume_unwind(Box::new(cargo))
    };
    assert!(matches!(soon(pool.submit::<()>(explode()).unwrap()), Err(JoinError::Panicked(_))));
    pool.execute(explode()).unwrap();
    assert!(soon(pool.submit(|| ()).unwrap()).is_ok());

    // The worker is busy now: further tasks wait in the queue.
    let gate = Gate::new();
    let busy = keep_busy(pool, &gate);
    let cancelled = pool.submit(cargo_out()).unwrap();
    let canceller = cancelled.canceller();
    assert!(cancelled.cancel(true));
    assert!(matches!(soon(cancelled), Err(JoinError::Cancelled)));
    let removed = pool.submit(cargo_out()).unwrap();
    assert!(pool.remove(removed.id()));
    assert!(matches!(soon(removed), Err(JoinError::Abandoned)));
    drop(pool.submit(cargo_out()).unwrap().cancel_on_drop());
    assert_eq!(pool.queued_count(), 0);

    // Full: further tasks are rejected, discarded, evict the oldest, or run here.
    let waiting: Vec<_> = (0..3).map(|_| pool.submit(cargo_out()).unwrap()).collect();
    drop(pool.submit(cargo_out()).unwrap_err());
    pool.submit(cargo_out()).unwrap_err().into_task().run();
    pool.set_rejected_execution_handler(policy::Discard);
    assert!(matches!(soon(pool.submit(cargo_out()).unwrap()), Err(JoinError::Abandoned)));
    pool.set_rejected_execution_handler(policy::DiscardOldest);
    let last = pool.submit(cargo_out()).unwrap();
    pool.set_rejected_execution_handler(policy::CallerRuns);
    assert!(soon(pool.submit(cargo_out()).unwrap()).is_ok());
    pool.set_rejected_execution_handler(policy::Block::timeout(Duration::from_micros(1)));
    drop(pool.submit(cargo_out()).unwrap_err());
    pool.set_rejected_execution_handler(policy::Abort);
    gate.open();
    soon(busy).unwrap();
    let evicted = waiting.into_iter().map(soon).filter(Result::is_err).count();
    assert_eq!(evicted, 1);
    soon(last).unwrap();
    drop(canceller);

    // Cancelled while running.
    let running = pool.submit(|| interrupt::sleep(LONG).map_err(|_| cargo())).unwrap();
    eventually(|| running.state() == millpond::TaskState::Running); // it runs
    assert!(running.cancel(true));
    drop(running);
    assert!(soon(pool.submit(|| ()).unwrap()).is_ok());

    // Batches.
    let batch = (0..3).map(|_| cargo_out());
    drop(pool.invoke_all(batch).unwrap());
    let batch = (0..3).map(|_| cargo_out());
    drop(pool.invoke_all_timeout(batch, Duration::from_nanos(rng.below(9000) as u64)).unwrap());
    let any = |fails: usize| {
        (0..3).map(move |n| {
            let cargo = cargo();
            move || if n < fails { Err("no") } else { Ok(cargo) }
        })
    };
    assert_eq!(pool.invoke_any(any(1)).unwrap().len(), 1024);
    assert!(matches!(pool.invoke_any(any(3)), Err(InvokeError::AllFailed(_))));
    let _ = pool.invoke_any_timeout(any(2), Duration::from_nanos(rng.below(9000) as u64));
    let service = ExecutorCompletionService::new(pool.clone());
    for _ in 0..3 {
        service.submit(cargo_out()).unwrap();
    }
    assert!(service.take().unwrap().join().is_ok()); // the other two are left there
    drop(service);
    assert!(soon(pool.submit(|| ()).unwrap()).is_ok());
    eventually(|| pool.queued_count() == 0 && pool.active_count() == 0); // nothing is left
}

#[test]
fn after_any_mix_of_outcomes_a_pool_keeps_nothing() {
    in_a_process_of_its_own("memory::after_any_mix_of_outcomes_a_pool_keeps_nothing", || {
        let mut rng = Rng::new();
        for queue in [WorkQueue::array(3), WorkQueue::custom(LinkedBlockingQueue::bounded(3).unwrap())] {
            let pool = pool(1, 1).work_queue(queue).build().unwrap();
            stays_flat(300, || every_outcome(&pool, &mut rng));
            end(&pool);
        }
    });
}

#[test]
fn delayed_and_urgent_tasks_leave_nothing_behind() {
    in_a_process_of_its_own("memory::delayed_and_urgent_tasks_leave_nothing_behind", || {
        for queue in [WorkQueue::priority, WorkQueue::delay] {
            for remove in [true, false] {
                let pool = pool(1, 1).work_queue(queue()).remove_on_cancel(remove).build().unwrap();
                stays_flat(200, || {
                    let task = |n: i32| {
                        let cargo = cargo();
                        TaskOf::new(move || cargo).with_priority(n).with_delay(LONG).named("far off")
                    };
                    let gate = Gate::new();
                    let busy = keep_busy(&pool, &gate);
                    let handles: Vec<_> = (0..20).map(|n| pool.submit_task(task(n)).unwrap()).collect();
                    assert!(handles.iter().all(|handle| handle.cancel(false)));
                    assert_eq!(pool.purge(), if remove { 0 } else { 20 });
                    gate.open();
                    soon(busy).unwrap();
                });
                end(&pool);
            }
        }
    });
}

/// STP-041, and the memory of the queue itself.
#[test]
fn a_million_timers_that_are_cancelled_give_their_memory_back() {
    in_a_process_of_its_own("memory::a_million_timers_that_are_cancelled_give_their_memory_back", || {
        const TIMERS: usize = 1_000_000;
        for remove in [true, false] {
            let pool =
                ScheduledThreadPoolExecutor::builder().remove_on_cancel_policy(remove).build().unwrap();
            soon(pool.submit(|| ()).unwrap()).unwrap();
            let level = live();
            let mut handles: Vec<_> =
                (0..TIMERS).map(|_| pool.schedule(Duration::from_secs(3600), || ()).unwrap()).collect();
            assert_eq!(pool.queued_count(), TIMERS);
            assert!(handles.drain(..).all(|handle| handle.cancel(false)));
            drop(handles);
            assert_eq!(pool.purge(), if remove { 0 } else { TIMERS });
            let (kept, bytes) = (live().0 - level.0, live().1 - level.1);
            assert!(kept < 100 && bytes < 100_000, "{kept} allocations and {bytes} bytes are left");
            end(&pool);
        }
    });
}

/// A thread has a cache of places for timers, so that it needs no lock for them. The cache must be
/// freed when the thread ends.
#[test]
fn threads_that_set_timers_and_end_leave_nothing_behind() {
    in_a_process_of_its_own("memory::threads_that_set_timers_and_end_leave_nothing_behind", || {
        let pool = ScheduledThreadPoolExecutor::builder().remove_on_cancel_policy(true).build().unwrap();
        let hour = Duration::from_secs(3600);
        stays_flat(200, || {
            let set_in_one =
                thread::scope(|s| s.spawn(|| pool.schedule(hour, || ()).unwrap()).join().unwrap());
            thread::scope(|s| s.spawn(move || assert!(set_in_one.cancel(false))).join().unwrap());
        });
        end(&pool);
    });
}

#[test]
fn scheduled_work_leaves_nothing_behind() {
    in_a_process_of_its_own("memory::scheduled_work_leaves_nothing_behind", || {
        let time = ManualClock::new();
        let pool = ScheduledThreadPoolExecutor::builder().clock(time.clock()).build().unwrap();
        let second = Duration::from_secs(1);
        stays_flat(200, || {
            let delayed: Vec<_> = (0..20)
                .map(|n| {
                    let cargo = cargo();
                    pool.schedule(n * second, move || cargo).unwrap()
                })
                .collect();
            let cargo = cargo();
            let series = pool.schedule_at_fixed_rate(second, second, move || _ = &cargo).unwrap();
            assert!(delayed[15].cancel(false));
            time.advance(20 * second);
            for handle in delayed {
                let _ = soon(handle.into_handle());
            }
            series.cancel(true);
            time.advance(second);
            soon(pool.submit(|| ()).unwrap()).unwrap();
        });
        end(&pool);
    });
}

// A scope on a worker has a list of tasks that it may run itself, and one of tasks that other code
// may have kept.
#[test]
fn a_long_scope_keeps_nothing_of_tasks_that_have_ended() {
    in_a_process_of_its_own("memory::a_long_scope_keeps_nothing_of_tasks_that_have_ended", || {
        let pool = pool(2, 2).build().unwrap();
        let inside = pool.clone();
        let outer = pool.submit(move || {
            inside.scope(|scope| {
                stays_flat(100, || (0..50).for_each(|_| scope.submit(|| ()).unwrap().join().unwrap()));
            });
        });
        outer.unwrap().join().unwrap();
        end(&pool);
    });
}

#[test]
fn pools_that_have_ended_leave_nothing_behind() {
    in_a_process_of_its_own("memory::pools_that_have_ended_leave_nothing_behind", || {
        let mut rng = Rng::new();
        stays_flat(200, || {
            let (core, eager) = (rng.below(3), rng.once_in(2));
            let builder = pool(core, 3).keep_alive_time(Duration::ZERO);
            let pool = if eager { builder.eager() } else { builder }.build().unwrap();
            let handles: Vec<_> = (0..10).map(|n| pool.submit(move || vec![n; 100]).unwrap()).collect();
            match rng.below(4) {
                0 => end(&pool),
                1 => drop(pool.shutdown_now()),
                2 => drop(pool.shutdown_gracefully(Duration::ZERO, LONG)),
                _ => {} // dropped while it works
            }
            drop(pool);
            for mut handle in handles {
                match handle.join_timeout(LONG).expect("every handle resolves") {
                    Ok(_) | Err(JoinError::Abandoned) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
    });
}

/// Queues `tasks` small tasks on a pool of two busy workers, calls `look`, and lets the tasks run.
fn queue_up<R>(pool: &ThreadPoolExecutor, tasks: usize, look: impl FnOnce() -> R) -> R {
    let gate = Gate::new();
    let held = [(); 2].map(|()| keep_busy(pool, &gate));
    for n in 0..tasks {
        let next = n + 1; // two words
        pool.execute(move || assert!(n < next)).unwrap();
    }
    let seen = look();
    gate.open();
    held.into_iter().for_each(|held| soon(held).unwrap());
    eventually(|| pool.queued_count() == 0);
    seen
}

/// The memory of the queue itself: 33 bytes per task of two words, freed while the pool is running,
/// except for a few spare segments.
#[test]
fn a_million_tasks_that_have_run_give_their_memory_back() {
    in_a_process_of_its_own("memory::a_million_tasks_that_have_run_give_their_memory_back", || {
        const TASKS: usize = 1_000_000;
        let (pool, other) = (executors::fixed(2).unwrap(), executors::fixed(1).unwrap());
        let others = Gate::new();
        let busy = keep_busy(&other, &others);
        (0..100).for_each(|_| other.execute(|| ()).unwrap());
        fill_the_ring(&pool); // and start its threads
        let level = live().1;
        for _ in 0..2 {
            let most = queue_up(&pool, TASKS, || live().1 - level);
            assert!((TASKS as i64 * 32..TASKS as i64 * 33).contains(&most), "{most} bytes for {TASKS} tasks");
            eventually(|| live().1 - level < 100_000);
        }
        others.open();
        soon(busy).unwrap();
        end(&pool);
        end(&other);
    });
}

#[test]
fn workers_that_come_and_go_leave_nothing_behind() {
    in_a_process_of_its_own("memory::workers_that_come_and_go_leave_nothing_behind", || {
        let pool = pool(0, 4)
            .work_queue(WorkQueue::synchronous())
            .keep_alive_time(Duration::ZERO)
            .rejected_execution_handler(policy::CallerRuns)
            .build()
            .unwrap();
        stays_flat(200, || {
            let handles: Vec<_> = (0..6).map(|n| pool.submit(move || n).unwrap()).collect();
            assert!(handles.into_iter().map(soon).all(|outcome| outcome.is_ok()));
            eventually(|| pool.pool_size() == 0); // all have left
        });
        end(&pool);
    });
}

#[test]
fn a_long_soak_stays_flat() {
    in_a_process_of_its_own("memory::a_long_soak_stays_flat", || {
        let mut rng = Rng::new();
        let pool = executors::fixed(2).unwrap();
        fill_the_ring(&pool);
        stays_flat(100, || {
            let mut handles = Vec::with_capacity(500);
            for _ in 0..500 {
                match rng.below(6) {
                    0 => pool.execute(|| ()).unwrap(),
                    1 => pool.execute(|| die("soak")).unwrap(),
                    2 => drop(pool.submit(cargo).unwrap()),
                    3 => drop(pool.submit(cargo).unwrap().cancel_on_drop()),
                    _ => handles.push(pool.submit(cargo).unwrap()),
                }
                if rng.once_in(50) {
                    handles.drain(..).for_each(|handle| assert_eq!(soon(handle).unwrap().len(), 1024));
                }
            }
            handles.drain(..).for_each(|handle| assert_eq!(soon(handle).unwrap().len(), 1024));
            eventually(|| pool.queued_count() == 0 && pool.active_count() == 0); // nothing is left
        });
        end(&pool);
    });
}

/// The number of allocations that `f` makes per call, over many calls.
fn allocations_of(mut f: impl FnMut()) -> f64 {
    const CALLS: u32 = 2000;
    let before = allocations_so_far();
    (0..CALLS).for_each(|_| f());
    (allocations_so_far() - before) as f64 / f64::from(CALLS)
}

#[test]
fn a_submit_costs_one_allocation_and_an_execute_at_most_one() {
    in_a_process_of_its_own("memory::a_submit_costs_one_allocation_and_an_execute_at_most_one", || {
        const ONCE: f64 = 0.01; // a list that grows for the last time
        interrupt::interrupted(); // this thread has its flag from now on
        let pool = executors::fixed(1).unwrap();
        fill_the_ring(&pool);
        let (a, b) = (3_u64, 4_u64);
        let submit = allocations_of(|| assert_eq!(soon(pool.submit(move || a * b).unwrap()).unwrap(), 12));
        assert!((1.0..1.0 + ONCE).contains(&submit), "{submit} allocations for a submit and a join");
        let execute = allocations_of(|| {
            let add = move || {
                std::hint::black_box(a + b);
            };
            pool.execute(add).unwrap();
        });
        assert!(execute < 1.0 + ONCE, "{execute} allocations for an execute");
        end(&pool);
    });
}
