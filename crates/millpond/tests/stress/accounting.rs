//! The law of accounting holds at all times. While tasks are submitted, run, cancelled, removed and
//! rejected, an observer finds every accepted task in a count, and never more settled tasks than
//! submitted ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{Gate, Rng, assert_balanced, assert_settled, die, end, eventually, rounds, settled};
use millpond::queue::LinkedBlockingQueue;
use millpond::{
    Builder, PoolStats, ScheduledThreadPoolExecutor, TaskHandle, ThreadPoolExecutor, WorkQueue, policy,
};

const SUBMITTERS: usize = 2;

fn sized(core: usize, maximum: usize, queue: WorkQueue) -> Builder {
    ThreadPoolExecutor::builder().core_pool_size(core).maximum_pool_size(maximum).work_queue(queue)
}

/// A pool for every kind of queue and growth, by name.
fn pools() -> Vec<(&'static str, Builder)> {
    vec![
        ("array", sized(1, 3, WorkQueue::array(8))),
        ("linked", sized(2, 2, WorkQueue::linked())),
        ("bounded linked", sized(0, 2, WorkQueue::linked_bounded(3))),
        ("synchronous", sized(0, 4, WorkQueue::synchronous()).keep_alive_time(Duration::ZERO)),
        ("kept threads, synchronous", sized(2, 4, WorkQueue::synchronous())),
        ("priority", sized(1, 1, WorkQueue::priority())),
        ("delay", sized(2, 2, WorkQueue::delay())),
        ("block", sized(1, 2, WorkQueue::array(2)).rejected_execution_handler(a_moment())),
        ("max queue time", sized(1, 2, WorkQueue::array(64)).max_queue_time(Duration::from_micros(50))),
        ("eager", sized(1, 3, WorkQueue::array(4)).eager().keep_alive_time(Duration::ZERO)),
        ("tombstones", sized(1, 2, WorkQueue::array(8)).remove_on_cancel(false)),
        ("custom", sized(1, 2, WorkQueue::custom(LinkedBlockingQueue::unbounded()))),
    ]
}

fn a_moment() -> policy::Block {
    policy::Block::timeout(Duration::from_millis(1))
}

/// Asserts that every task that was accepted before `stats` was read is in a count.
#[track_caller]
fn assert_none_missed(stats: &PoolStats, accepted: u64, name: &str) {
    let inside = stats.queued_count + stats.active_count + stats.in_place_count;
    assert!(settled(stats) + inside as u64 >= accepted, "{name}: {accepted} accepted, but {stats:?}");
}

/// Asserts what holds at all times.
#[track_caller]
fn assert_possible(stats: &PoolStats, name: &str) {
    assert!(settled(stats) <= stats.submitted, "{name}: more settled than submitted: {stats:?}");
    assert!(stats.active_count <= stats.pool_size, "{name}: {stats:?}");
}

/// Submits one task of a random kind, and may cancel or remove it. Some policies reject some of the
/// tasks.
fn submit_one(pool: &ThreadPoolExecutor, rng: &mut Rng, accepted: &Arc<AtomicU64>) {
    if rng.below(3) == 0 {
        if pool.execute(|| {}).is_ok() {
            accepted.fetch_add(1, Ordering::SeqCst);
        }
        return;
    }
    let submitted: Result<TaskHandle<()>, _> = match rng.below(6) {
        0 => pool.submit(|| die("on purpose")),
        1 => pool.submit(thread::yield_now),
        2 => {
            let (pool, accepted) = (pool.clone(), Arc::clone(accepted));
            pool.clone().submit(move || {
                if let Ok(inner) = pool.submit(thread::yield_now) {
                    accepted.fetch_add(1, Ordering::SeqCst);
                    let _ = inner.join(); // runs it in place if it is still queued
                }
            })
        }
        _ => pool.submit(|| {}),
    };
    let Ok(handle) = submitted else { return };
    accepted.fetch_add(1, Ordering::SeqCst);
    match rng.below(5) {
        0 => _ = handle.cancel(true),
        1 => _ = pool.remove(handle.id()),
        2 => _ = handle.join(),
        3 => _ = pool.purge(),
        _ => {}
    }
}

#[test]
fn at_every_instant_each_accepted_task_is_counted_and_none_is_settled_before_it_is_submitted() {
    let mut rng = Rng::new();
    for (name, builder) in pools() {
        let pool = builder.build().unwrap();
        let (accepted, done) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
        thread::scope(|scope| {
            let observer = scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let before = accepted.load(Ordering::SeqCst);
                    let (tasks, stats) = (pool.task_count(), pool.stats());
                    assert_possible(&stats, name);
                    // A task that is being taken from a custom queue is briefly in no count.
                    if name != "custom" {
                        assert_none_missed(&stats, before, name);
                        assert!(
                            tasks + stats.cancelled + stats.handed_back + stats.expired >= before,
                            "{name}: {tasks}"
                        );
                    }
                }
            });
            let submitters: Vec<_> = (0..SUBMITTERS)
                .map(|_| {
                    let (mut rng, pool, accepted) = (rng.fork(), &pool, &accepted);
                    scope.spawn(move || rounds(800).for_each(|_| submit_one(pool, &mut rng, accepted)))
                })
                .collect();
            // The observer continues while waiting tasks are returned and workers exit.
            if rng.below(2) == 0 {
                thread::yield_now();
                drop(pool.shutdown_now());
            }
            submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
            end(&pool);
            done.store(true, Ordering::SeqCst);
            observer.join().unwrap();
        });
        assert_settled(&pool, accepted.load(Ordering::SeqCst) as usize);
        assert_eq!(pool.task_count(), pool.completed_task_count(), "{name}");
    }
}

// The task blocks at its start, so it can only be in the queue or with a worker.
#[test]
fn a_task_is_counted_as_soon_as_it_is_accepted_with_a_new_thread_and_with_a_sleeping_one() {
    // A task that is shed does not block.
    for (name, _) in pools().into_iter().filter(|(name, _)| *name != "max queue time") {
        for _ in rounds(100) {
            let (_, builder) = pools().into_iter().find(|(other, _)| *other == name).unwrap();
            let pool = builder.build().unwrap();
            for before in 0..2 {
                let gate = Gate::new();
                let pass = gate.clone();
                pool.execute(move || pass.pass()).unwrap();
                let (active, stats) = (pool.active_count(), pool.stats());
                let has_new_thread = before == 0 && !["delay", "bounded linked"].contains(&name);
                assert_eq!((stats.submitted, stats.completed), (before + 1, before), "{name}");
                if name != "custom" {
                    assert_none_missed(&stats, before + 1, name);
                    assert_eq!(pool.task_count(), before + 1, "{name}");
                    assert!(active == 1 || !has_new_thread, "{name}");
                }
                gate.open();
                eventually(|| pool.completed_task_count() == before + 1 && pool.active_count() == 0);
            }
            end(&pool);
        }
    }
}

#[test]
fn refused_tasks_are_never_counted_as_settled_whatever_the_policy_does_with_them() {
    let mut rng = Rng::new();
    let full = || sized(1, 2, WorkQueue::array(2));
    let pools = [
        ("caller runs", full().rejected_execution_handler(policy::CallerRuns)),
        ("discard", full().rejected_execution_handler(policy::Discard)),
        ("discard oldest", full().rejected_execution_handler(policy::DiscardOldest)),
        ("block", full().rejected_execution_handler(a_moment())),
    ];
    for (name, builder) in pools {
        let pool = builder.build().unwrap();
        let (accepted, done) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
        thread::scope(|scope| {
            let observer = scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    assert_possible(&pool.stats(), name);
                }
            });
            let submitters: Vec<_> = (0..SUBMITTERS)
                .map(|_| {
                    let (mut rng, pool, accepted) = (rng.fork(), &pool, &accepted);
                    scope.spawn(move || rounds(1000).for_each(|_| submit_one(pool, &mut rng, accepted)))
                })
                .collect();
            submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
            done.store(true, Ordering::SeqCst);
            observer.join().unwrap();
        });
        end(&pool);
        assert_balanced(&pool.stats());
    }
}

#[test]
fn a_scheduled_pool_never_shows_more_settled_than_submitted_runs() {
    let mut rng = Rng::new();
    for remove_on_cancel in [false, true] {
        let pool = ScheduledThreadPoolExecutor::builder()
            .core_pool_size(2)
            .remove_on_cancel_policy(remove_on_cancel)
            .build()
            .unwrap();
        let (accepted, done) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
        thread::scope(|scope| {
            let observer = scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    let before = accepted.load(Ordering::SeqCst);
                    let stats = pool.stats();
                    assert_possible(&stats, "scheduled");
                    assert_none_missed(&stats, before, "scheduled");
                }
            });
            let often = Duration::from_micros(200);
            let series = pool.schedule_at_fixed_rate(often, often, || {}).unwrap();
            for round in rounds(2000) {
                let delay = Duration::from_micros(rng.below(300) as u64);
                let handle = pool.schedule(delay, || {}).unwrap();
                accepted.fetch_add(1, Ordering::SeqCst);
                if round % 3 == 0 {
                    handle.cancel(true);
                }
            }
            series.cancel(true);
            done.store(true, Ordering::SeqCst);
            observer.join().unwrap();
        });
        end(&pool);
        assert_balanced(&pool.stats());
    }
}
