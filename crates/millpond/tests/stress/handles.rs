//! Races of handles: cancel against start, remove against take, join against completion, trees of
//! tasks that join their children. Every race has exactly one winner, and every handle resolves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{
    Gate, LONG, Rng, SMALL, SetOnDrop, assert_settled, die, end, eventually, rounds, soon, together,
};
use millpond::interrupt;
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    Builder, ExecutorCompletionService, InvokeError, JoinError, TaskOf, TaskState, ThreadPoolExecutor,
    WorkQueue, executors, policy,
};

fn pool(core: usize, maximum: usize) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum)
}

const KINDS: usize = 5;

/// A queue for round `n`: unbounded, or with room for all tasks of a round.
fn queue(n: usize) -> WorkQueue {
    match n % KINDS {
        0 => WorkQueue::linked(),
        1 => WorkQueue::priority(),
        2 => WorkQueue::delay(),
        3 => WorkQueue::custom(LinkedBlockingQueue::unbounded()),
        _ => WorkQueue::array(64),
    }
}

/// A pool for each kind of queue, with the number of tasks it has accepted. A bounded queue may be
/// full of cancelled tasks that no worker has reached yet: submitters then wait.
fn pools(workers: usize, remove_on_cancel: bool) -> Vec<(ThreadPoolExecutor, usize)> {
    let build = |kind| {
        let builder = pool(workers, workers)
            .work_queue(queue(kind))
            .remove_on_cancel(remove_on_cancel)
            .rejected_execution_handler(policy::Block::forever());
        (builder.build().unwrap(), 0)
    };
    (0..KINDS).map(build).collect()
}

// Peer case 12.
#[test]
fn cancel_racing_start_either_cancels_or_lets_run() {
    let mut rng = Rng::new();
    let mut pools: Vec<_> =
        pools(2, true).into_iter().chain(pools(2, false)).map(|(pool, n)| (pool, n, 0)).collect();
    for round in rounds(10_000) {
        let at = round / 20 % pools.len();
        let (pool, accepted, cancelled) = &mut pools[at];
        let ran = Arc::new(AtomicBool::new(false));
        let run = Arc::clone(&ran);
        let task = move || {
            run.store(true, Ordering::Relaxed);
            "value"
        };
        let handle = pool.submit(task).unwrap();
        *accepted += 1;
        if round % 4 != 0 {
            rng.dawdle();
        }
        let won = handle.cancel(false);
        assert_eq!((handle.is_done(), handle.is_cancelled()), (true, won));
        assert!(!handle.cancel(false), "a task is cancelled once");
        match soon(handle) {
            Ok(value) => assert!(!won && value == "value" && ran.load(Ordering::Relaxed)),
            Err(JoinError::Cancelled) => assert!(won),
            Err(other) => panic!("{other}"),
        }
        *cancelled += usize::from(won);
    }
    for (pool, accepted, cancelled) in pools {
        end(&pool);
        assert_settled(&pool, accepted);
        let stats = pool.stats();
        assert_eq!((stats.cancelled, stats.completed), (cancelled as u64, (accepted - cancelled) as u64));
    }
}

// Peer case 12. Of many concurrent cancels, one succeeds.
#[test]
fn of_many_cancels_at_once_exactly_one_is_true() {
    let mut rng = Rng::new();
    let (pool, mut accepted) = (executors::fixed(1).unwrap(), 0);
    for round in rounds(2000) {
        let handle = pool.submit(|| interrupt::sleep(LONG)).unwrap();
        accepted += 1;
        if round % 2 == 0 {
            eventually(|| handle.state() == TaskState::Running); // it runs
        }
        let (mine, others) = (handle.canceller(), handle.canceller());
        let (mut here, mut there) = (rng.fork(), rng.fork());
        let won = together(
            || {
                here.dawdle();
                mine.cancel(true)
            },
            || {
                there.dawdle();
                others.cancel(true)
            },
        );
        assert!(won.0 ^ won.1, "{won:?}");
        assert!(matches!(soon(handle), Err(JoinError::Cancelled)));
    }
    end(&pool); // ends in time only if each was interrupted
    assert_settled(&pool, accepted);
    assert_eq!(pool.stats().cancelled, accepted as u64);
}

// An interrupt for one task must not hit the next one on the same worker.
#[test]
fn a_cancel_that_interrupts_too_late_does_not_reach_the_next_task() {
    let mut rng = Rng::new();
    let (pool, mut accepted) = (executors::fixed(1).unwrap(), 0);
    for _ in rounds(5000) {
        accepted += 2;
        let first = pool.submit(thread::yield_now).unwrap();
        let second = pool.submit(interrupt::is_interrupted).unwrap();
        rng.dawdle();
        first.cancel(true);
        assert!(!soon(second).unwrap());
        drop(first);
    }
    end(&pool);
    assert_settled(&pool, accepted);
}

// Peer case 12.
#[test]
fn remove_racing_take_either_removes_or_lets_run() {
    let mut rng = Rng::new();
    let mut pools: Vec<_> = pools(1, true).into_iter().map(|(pool, n)| (pool, n, 0)).collect();
    for round in rounds(8000) {
        let (pool, accepted, removed) = &mut pools[round / 20 % KINDS];
        let first = pool.submit(|| ()).unwrap();
        let second = pool.submit(|| ()).unwrap();
        *accepted += 2;
        rng.dawdle();
        let won = pool.remove(second.id());
        assert!(!pool.remove(second.id()), "a task is removed once");
        match soon(second) {
            Ok(()) => assert!(!won),
            Err(JoinError::Abandoned) => assert!(won),
            Err(other) => panic!("{other}"),
        }
        soon(first).unwrap();
        *removed += u64::from(won);
    }
    for (pool, accepted, removed) in pools {
        end(&pool);
        assert_settled(&pool, accepted);
        assert_eq!(pool.stats().handed_back, removed);
    }
}

// Remove, cancel and a worker compete for the same task.
#[test]
fn of_remove_cancel_and_take_exactly_one_gets_the_task() {
    let mut rng = Rng::new();
    let mut pools = pools(1, true);
    for round in rounds(2500) {
        let (pool, accepted) = &mut pools[round / 20 % KINDS];
        let (gate, ran) = (Gate::new(), Arc::new(AtomicBool::new(false)));
        let (pass, run) = (gate.clone(), Arc::clone(&ran));
        let busy = pool.submit(move || pass.pass()).unwrap();
        let task = pool.submit(move || run.store(true, Ordering::Relaxed)).unwrap();
        *accepted += 2;
        let (id, canceller) = (task.id(), task.canceller());
        gate.open();
        let (mut here, mut there) = (rng.fork(), rng.fork());
        let (removed, cancelled) = together(
            || {
                here.dawdle();
                pool.remove(id)
            },
            || {
                there.dawdle();
                canceller.cancel(false)
            },
        );
        soon(busy).unwrap();
        match soon(task) {
            Ok(()) => assert!(!removed && !cancelled && ran.load(Ordering::Relaxed)),
            Err(JoinError::Abandoned) => assert!(removed && !cancelled),
            Err(JoinError::Cancelled) => assert!(cancelled),
            Err(other) => panic!("{other}"),
        }
    }
    for (pool, accepted) in pools {
        end(&pool);
        assert_settled(&pool, accepted);
    }
}

// Peer case 12: two joins of one task. Only one thread can hold the handle, so the other uses a
// canceller, which frees the first.
#[test]
fn a_canceller_frees_whoever_joins() {
    let mut rng = Rng::new();
    let pool = executors::fixed(2).unwrap();
    let (mut accepted, mut cancelled) = (0, 0);
    for round in rounds(3000) {
        accepted += 1;
        let handle =
            if round % 2 == 0 { pool.submit(|| Ok(())) } else { pool.submit(|| interrupt::sleep(LONG)) }
                .unwrap();
        let (canceller, mut there) = (handle.canceller(), rng.fork());
        let (joined, won) = together(
            || soon(handle),
            || {
                there.dawdle();
                canceller.cancel(true)
            },
        );
        match joined {
            Ok(value) => assert!(!won && value.is_ok()),
            Err(JoinError::Cancelled) => assert!(won),
            Err(other) => panic!("{other}"),
        }
        cancelled += u64::from(won);
    }
    end(&pool);
    assert_settled(&pool, accepted);
    assert_eq!(pool.stats().cancelled, cancelled);
}

// Peer case 4 and 12.
#[test]
fn join_timeout_racing_completion_never_loses_the_result() {
    let mut rng = Rng::new();
    let (pool, mut accepted) = (executors::fixed(1).unwrap(), 0);
    for _ in rounds(5000) {
        accepted += 1;
        let mut dawdling = rng.fork();
        let mut handle = pool
            .submit(move || {
                dawdling.dawdle();
                Box::new(7)
            })
            .unwrap();
        let mut looks = 0;
        let value = loop {
            let patience = Duration::from_nanos(rng.below(20_000) as u64);
            let look = if rng.once_in(3) { handle.try_join() } else { handle.join_timeout(patience) };
            looks += 1;
            if let Some(result) = look {
                break result.unwrap();
            }
            assert!(looks < 1_000_000, "the task does not end");
        };
        assert_eq!(*value, 7);
        assert!(matches!(handle.try_join(), Some(Err(JoinError::Taken))));
    }
    end(&pool);
    assert_settled(&pool, accepted);
}

#[test]
fn interrupting_whoever_joins_races_completion_and_loses_nothing() {
    let mut rng = Rng::new();
    let (pool, mut accepted) = (executors::fixed(1).unwrap(), 0);
    for round in rounds(2000) {
        accepted += 1;
        let mut dawdling = rng.fork();
        let mut handle = pool
            .submit(move || {
                dawdling.dawdle();
                round
            })
            .unwrap();
        let (me, mut there) = (interrupt::current(), rng.fork());
        let (value, ()) = together(
            || {
                loop {
                    match handle.join_timeout(LONG).expect("the task waits for nothing") {
                        Err(JoinError::Interrupted) => continue, // not the outcome: join again
                        outcome => break outcome.unwrap(),
                    }
                }
            },
            || {
                there.dawdle();
                me.interrupt();
            },
        );
        assert_eq!(value, round);
        interrupt::interrupted(); // clears an interrupt that came after the end
    }
    end(&pool);
    assert_settled(&pool, accepted);
}

#[test]
fn dropping_handles_at_any_moment_keeps_no_result_and_stops_no_task() {
    let mut rng = Rng::new();
    let pool = executors::fixed(2).unwrap();
    let alive = Arc::new(());
    let ran = Arc::new(AtomicUsize::new(0));
    let mut accepted = 0;
    for _ in rounds(5000) {
        accepted += 1;
        let (value, count) = (Arc::clone(&alive), Arc::clone(&ran));
        let handle = pool
            .submit(move || {
                count.fetch_add(1, Ordering::Relaxed);
                value
            })
            .unwrap();
        rng.dawdle();
        let canceller = handle.canceller();
        drop(handle);
        drop(canceller);
    }
    end(&pool);
    assert_eq!(ran.load(Ordering::Relaxed), accepted);
    assert_eq!(Arc::strong_count(&alive), 1);
    assert_settled(&pool, accepted);
}

/// Sums the leaves of a tree: each node submits its children to the pool and joins them in random
/// order.
fn sum(pool: &ThreadPoolExecutor, depth: usize, width: usize, mut rng: Rng) -> usize {
    if depth == 0 {
        return 1;
    }
    let mut children: Vec<_> = (0..width)
        .map(|_| {
            let (inside, rng) = (pool.clone(), rng.fork());
            pool.submit(move || sum(&inside, depth - 1, width, rng)).unwrap()
        })
        .collect();
    let mut total = 0;
    while !children.is_empty() {
        total += children.swap_remove(rng.below(children.len())).join().unwrap();
    }
    total
}

// Peer case 9.
#[test]
fn trees_of_submit_and_join_finish_on_any_number_of_workers() {
    let mut rng = Rng::new();
    for round in rounds(60) {
        let workers = [1, 2, 4][round % 3];
        let pool = pool(workers, workers).work_queue(queue(round / 3 % (KINDS - 1))).build().unwrap();
        let (inside, rng) = (pool.clone(), rng.fork());
        assert_eq!(soon(pool.submit(move || sum(&inside, 4, 3, rng)).unwrap()).unwrap(), 81);
        end(&pool);
        assert_settled(&pool, 1 + 3 + 9 + 27 + 81);
    }
}

// Peer case 9: the same with `invoke_all` inside `invoke_all`, and with `invoke_any`.
#[test]
fn batches_inside_batches_finish_on_one_worker() {
    fn count(pool: ThreadPoolExecutor, depth: usize) -> usize {
        if depth == 0 {
            return 1;
        }
        let inside = pool.clone();
        let batch = (0..2).map(|_| {
            let pool = inside.clone();
            move || count(pool, depth - 1)
        });
        let all: usize =
            pool.invoke_all(batch).unwrap().into_iter().map(|handle| handle.join().unwrap()).sum();
        let either = (0..2).map(|n| move || if n == 0 { Err("not this one") } else { Ok(all) });
        let first = pool.invoke_any(either).unwrap();
        assert_eq!(first, all);
        all
    }
    for workers in [1, 2] {
        let pool = executors::fixed(workers).unwrap();
        for _ in rounds(20) {
            let inside = pool.clone();
            assert_eq!(soon(pool.submit(move || count(inside, 5)).unwrap()).unwrap(), 32);
        }
        end(&pool);
    }
}

/// Calls `f` while the pool also runs other tasks.
fn under_load<R>(pool: &ThreadPoolExecutor, rng: &mut Rng, f: impl FnOnce(&mut Rng) -> R) -> R {
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        let (over, mut other) = (&over, rng.fork());
        let _at_the_end = SetOnDrop(over);
        s.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                soon(pool.submit(|| ()).unwrap()).unwrap();
                other.dawdle();
            }
        });
        f(rng)
    })
}

#[test]
fn invoke_all_with_a_timeout_returns_only_handles_that_are_done() {
    let mut rng = Rng::new();
    let pool = executors::fixed(2).unwrap();
    under_load(&pool, &mut rng, |rng| {
        for _ in rounds(1000) {
            let timeout = Duration::from_micros(rng.below(150) as u64);
            let batch: Vec<_> = (0..6)
                .map(|n| {
                    let mut rng = rng.fork();
                    move || {
                        rng.dawdle();
                        if n == 3 { die("three") } else { n }
                    }
                })
                .collect();
            let handles = pool.invoke_all_timeout(batch, timeout).unwrap();
            assert_eq!(handles.len(), 6);
            for (n, mut handle) in handles.into_iter().enumerate() {
                match handle.try_join().expect("done on return") {
                    Ok(value) => assert_eq!(value, n),
                    Err(JoinError::Panicked(panic)) => assert_eq!((n, panic.message()), (3, Some("three"))),
                    Err(JoinError::Cancelled) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }
    });
    end(&pool);
    let stats = pool.stats();
    assert_settled(&pool, stats.submitted as usize);
}

#[test]
fn invoke_any_with_a_timeout_has_one_winner_and_leaves_nothing_running() {
    let mut rng = Rng::new();
    let pool = executors::fixed(2).unwrap();
    let running = Arc::new(AtomicUsize::new(0));
    under_load(&pool, &mut rng, |rng| {
        for round in rounds(1000) {
            let timeout = Duration::from_micros(rng.below(200) as u64);
            let batch: Vec<_> = (0..5)
                .map(|n| {
                    let (mut rng, running) = (rng.fork(), Arc::clone(&running));
                    move || {
                        running.fetch_add(1, Ordering::SeqCst);
                        rng.dawdle();
                        let result = match n {
                            0 => interrupt::sleep(LONG).map(|()| n).map_err(|_| "interrupted"),
                            1 => Err("no"),
                            _ if round % 3 == 0 => Err("none of them"),
                            _ => Ok(n),
                        };
                        running.fetch_sub(1, Ordering::SeqCst);
                        result
                    }
                })
                .collect();
            match pool.invoke_any_timeout(batch, timeout) {
                Ok(n) => assert!(n >= 2 && round % 3 != 0),
                Err(InvokeError::TimedOut) => {}
                Err(other) => panic!("{other}"),
            }
        }
    });
    end(&pool); // ends in time only if every sleeper was interrupted
    assert_eq!(running.load(Ordering::SeqCst), 0);
    let stats = pool.stats();
    assert_settled(&pool, stats.submitted as usize);
}

#[test]
fn a_completion_service_delivers_every_task_once_whatever_becomes_of_it() {
    let mut rng = Rng::new();
    for round in rounds(300) {
        let pool = pool(2, 2).work_queue(queue(round)).build().unwrap();
        let service = ExecutorCompletionService::new(pool.clone());
        let submit = |n| service.submit(move || if n == 2 { die("two") } else { n }).unwrap();
        let cancellers: Vec<_> = (0..6).map(submit).collect();
        rng.dawdle();
        let removed = pool.remove(cancellers[4].id());
        let cancelled = cancellers[5].cancel(true);
        let mut arrived: Vec<_> = (0..6)
            .map(|_| {
                let handle = service.poll_timeout(LONG).unwrap().expect("all arrive");
                let at = cancellers.iter().position(|canceller| canceller.id() == handle.id()).unwrap();
                (at, handle.join())
            })
            .collect();
        assert!(service.poll().is_none());
        arrived.sort_by_key(|(at, _)| *at);
        for (n, (at, result)) in arrived.into_iter().enumerate() {
            assert_eq!(at, n);
            match result {
                Ok(value) => assert!(value == n && !(n == 4 && removed) && !(n == 5 && cancelled)),
                Err(JoinError::Panicked(_)) => assert_eq!(n, 2),
                Err(JoinError::Abandoned) => assert!(n == 4 && removed),
                Err(JoinError::Cancelled) => assert!(n == 5 && cancelled),
                Err(other) => panic!("{other}"),
            }
        }
        end(&pool);
        assert_settled(&pool, 6);
    }
}

// A worker that joins a task of its own pool runs it in place, but a delayed task not before it is
// due.
#[test]
fn a_delayed_task_joined_by_a_worker_does_not_run_before_it_is_due() {
    let pool = pool(1, 1).work_queue(WorkQueue::delay()).build().unwrap();
    let inside = pool.clone();
    let outer = pool
        .submit(move || {
            let begin = std::time::Instant::now();
            let inner = inside.submit_task(TaskOf::new(move || begin.elapsed()).with_delay(SMALL)).unwrap();
            inner.join()
        })
        .unwrap();
    let waited = soon(outer).unwrap().unwrap();
    assert!(waited >= SMALL, "ran after {waited:?}");
    end(&pool);
    assert_settled(&pool, 2);
}

#[test]
fn an_interrupted_sleep_of_a_cancelled_task_frees_its_worker() {
    let mut rng = Rng::new();
    let (pool, mut accepted) = (executors::fixed(1).unwrap(), 0);
    for _ in rounds(2000) {
        accepted += 2;
        let ended = Gate::new();
        let open = ended.clone();
        let sleeper = pool
            .submit(move || {
                let slept = interrupt::sleep(LONG);
                open.open();
                slept
            })
            .unwrap();
        rng.dawdle();
        let was_pending = sleeper.state() == TaskState::Pending;
        assert!(sleeper.cancel(true));
        if !was_pending {
            ended.pass();
        }
        assert_eq!(soon(pool.submit(|| interrupt::sleep(Duration::ZERO)).unwrap()).unwrap(), Ok(()));
    }
    end(&pool);
    assert_settled(&pool, accepted);
}
