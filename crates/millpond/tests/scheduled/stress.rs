//! Repeated races of a scheduled pool, with exact accounting.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::support::{Counter, Rng, assert_balanced, await_end, end, eventually, rounds, soon};
use millpond::{JoinError, ManualClock, RejectReason, ScheduledThreadPoolExecutor, TaskState, executors};

const HOUR: Duration = Duration::from_secs(3600);

fn micros(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// Half of many timers are cancelled at about their due time. The others run, exactly once.
#[test]
fn a_hundred_thousand_timers_half_of_them_cancelled_add_up() {
    const TIMERS: usize = if cfg!(miri) { 100 } else { 100_000 };
    for remove_on_cancel in [true, false] {
        let pool = ScheduledThreadPoolExecutor::builder()
            .core_pool_size(2)
            .remove_on_cancel_policy(remove_on_cancel)
            .build()
            .unwrap();
        let (ran, cancelled) = (Counter::new(), AtomicUsize::new(0));
        let submit = |part: usize| {
            let mut rng = Rng::new();
            for _ in 0..TIMERS / 2 {
                let counter = ran.clone();
                let delay = micros(rng.below(200_000) as u64);
                let handle = pool.schedule(delay, move || counter.add()).unwrap();
                if rng.once_in(2) && handle.cancel(part == 0) {
                    cancelled.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| submit(0));
            scope.spawn(|| submit(1));
        });
        end(&pool);
        let stats = pool.stats();
        assert_balanced(&stats);
        assert_eq!(stats.submitted, TIMERS as u64);
        assert_eq!(stats.cancelled, cancelled.load(Ordering::Relaxed) as u64);
        // A run that was cancelled while running counts as cancelled, but it has incremented `ran`.
        assert!(ran.get() as u64 >= stats.completed);
        assert_eq!(stats.completed + stats.cancelled, TIMERS as u64);
    }
}

/// STP-058: accepted tasks run or are cancelled, and others are returned.
#[test]
fn shutdown_against_schedule_loses_nothing() {
    for round in rounds(400) {
        let (keep, now) = (round % 2 == 0, round % 3 == 0);
        let pool = executors::scheduled(round % 3);
        pool.set_execute_existing_delayed_tasks_after_shutdown_policy(keep);
        let begin = Barrier::new(3);
        let submit = || {
            begin.wait();
            let series = pool.schedule_at_fixed_rate(micros(1), micros(1), || ());
            let once: Vec<_> = (0..10).map(|n| pool.schedule(micros(n * 30), || 7)).collect();
            (series, once)
        };
        let (outcomes, handed_back) = thread::scope(|scope| {
            let submitters = [scope.spawn(submit), scope.spawn(submit)];
            begin.wait();
            let handed_back = if now {
                pool.shutdown_now().len()
            } else {
                pool.shutdown();
                0
            };
            (submitters.map(|submitter| submitter.join().unwrap()), handed_back)
        });
        await_end(&pool);
        for (series, once) in outcomes {
            if let Ok(series) = series {
                let outcome = soon(series.into_handle()).unwrap_err();
                assert!(matches!(outcome, JoinError::Cancelled | JoinError::Abandoned), "{outcome}");
            }
            for scheduled in once {
                match scheduled.map(|handle| soon(handle.into_handle())) {
                    Ok(Ok(7)) => {}
                    Ok(Err(JoinError::Cancelled)) => assert!(now || !keep),
                    Ok(Err(JoinError::Abandoned)) => assert!(now),
                    Ok(other) => panic!("{other:?}"),
                    Err(rejected) => assert_eq!(rejected.reason(), RejectReason::Shutdown),
                }
            }
        }
        let stats = pool.stats();
        assert_balanced(&stats);
        assert_eq!(stats.handed_back, handed_back as u64);
    }
}

/// The periodic task ends exactly once and leaves no entry in the queue, even if it was just being
/// requeued: for a far due time, where the entry would stay, or for one that has come.
#[test]
fn cancel_against_the_runs_of_a_series() {
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(2).remove_on_cancel_policy(true);
    let pool = pool.build().unwrap();
    let mut rng = Rng::new();
    for round in rounds(2000) {
        let (captured, runs) = (Counter::new(), Counter::new());
        let (kept, counter) = (captured.on_drop(), runs.clone());
        let period = if round % 3 == 0 { micros(1) } else { HOUR };
        let series = pool.schedule_at_fixed_rate(Duration::ZERO, period, move || {
            let _ = &kept;
            counter.add();
        });
        let series = series.unwrap();
        let others = series.canceller();
        rng.dawdle();
        let (mine, theirs) = if round % 4 == 0 {
            crate::support::together(|| series.cancel(true), || others.cancel(false))
        } else {
            (series.cancel(round % 2 == 0), false)
        };
        assert!(mine ^ theirs, "one of them did it: {series:?}");
        eventually(|| captured.get() == 1);
        let after = runs.get();
        eventually(|| pool.queued_count() == 0);
        assert_eq!((series.state(), runs.get()), (TaskState::Cancelled, after));
    }
    end(&pool);
    assert_balanced(&pool.stats());
}

/// Workers come and go with a short keep-alive time while tasks become due: every task runs.
#[test]
fn tasks_that_fall_due_as_workers_leave_are_run() {
    let pool = ScheduledThreadPoolExecutor::builder()
        .core_pool_size(2)
        .allow_core_thread_time_out(true)
        .keep_alive_time(micros(100))
        .build()
        .unwrap();
    let mut rng = Rng::new();
    for _ in rounds(1500) {
        let handles: Vec<_> =
            (0..3).map(|_| pool.schedule(micros(rng.below(300) as u64), || 7).unwrap()).collect();
        for handle in handles {
            assert_eq!(soon(handle.into_handle()).unwrap(), 7);
        }
    }
    eventually(|| pool.pool_size() == 0);
    end(&pool);
    assert_balanced(&pool.stats());
}

/// Several threads schedule with a clock that another thread advances.
#[test]
fn moving_the_time_against_schedule_and_sleep() {
    let time = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(2).clock(time.clock()).build().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let submitters: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut rng = Rng::new();
                    for _ in rounds(3000) {
                        let delay = Duration::from_secs(rng.below(3) as u64);
                        assert_eq!(soon(pool.schedule(delay, || 7).unwrap().into_handle()).unwrap(), 7);
                    }
                })
            })
            .collect();
        let stop = crate::support::SetOnDrop(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                time.advance(Duration::from_secs(1));
                thread::yield_now();
            }
        });
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        drop(stop);
    });
    let _far = pool.schedule(HOUR, || ()).unwrap();
    drop(pool.shutdown_now());
    await_end(&pool);
    assert_balanced(&pool.stats());
}

/// The policies change while the pool ends and a periodic task is requeued.
#[test]
fn changing_policies_against_the_end() {
    for round in rounds(300) {
        let pool = executors::scheduled(1 + round % 2);
        pool.set_continue_existing_periodic_tasks_after_shutdown_policy(true);
        let series = pool.schedule_at_fixed_rate(Duration::ZERO, micros(1), || ()).unwrap();
        let delayed = pool.schedule(HOUR, || ()).unwrap();
        crate::support::together(
            || pool.shutdown(),
            || {
                pool.set_continue_existing_periodic_tasks_after_shutdown_policy(false);
                pool.set_execute_existing_delayed_tasks_after_shutdown_policy(false);
            },
        );
        await_end(&pool);
        assert!(series.is_cancelled() && delayed.is_cancelled());
        assert_balanced(&pool.stats());
    }
}
