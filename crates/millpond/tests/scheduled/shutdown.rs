//! The end of a scheduled pool: what its policies keep, cancel and return. STP rows 025 and 043 to
//! 058.

use std::time::{Duration, Instant};

use crate::support::{Counter, Gate, LONG, SHORT, assert_balanced, await_end, end, eventually, soon};
use millpond::{
    JoinError, ManualClock, RejectReason, RunState, ScheduledThreadPoolExecutor, ShutdownOutcome, TaskState,
    executors, interrupt,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn pool(core: usize) -> (ManualClock, ScheduledThreadPoolExecutor) {
    let time = ManualClock::new();
    let pool =
        ScheduledThreadPoolExecutor::builder().core_pool_size(core).clock(time.clock()).build().unwrap();
    (time, pool)
}

/// A periodic task that blocks in its first run until it is interrupted. Returns when it runs.
fn running_series(pool: &ScheduledThreadPoolExecutor) -> millpond::ScheduledHandle<()> {
    let running = Gate::new();
    let knock = running.clone();
    let series = pool.schedule_at_fixed_rate(Duration::ZERO, SECOND, move || {
        knock.open();
        let _ = interrupt::sleep(LONG);
    });
    running.pass();
    series.unwrap()
}

/// STP-051.
#[test]
fn the_policies_read_back_what_was_set() {
    let pool = executors::scheduled(1);
    assert!(!pool.remove_on_cancel_policy());
    assert!(!pool.continue_existing_periodic_tasks_after_shutdown_policy());
    assert!(pool.execute_existing_delayed_tasks_after_shutdown_policy());
    pool.set_remove_on_cancel_policy(true);
    pool.set_continue_existing_periodic_tasks_after_shutdown_policy(true);
    pool.set_execute_existing_delayed_tasks_after_shutdown_policy(false);
    assert!(pool.remove_on_cancel_policy());
    assert!(pool.continue_existing_periodic_tasks_after_shutdown_policy());
    assert!(!pool.execute_existing_delayed_tasks_after_shutdown_policy());
    end(&pool);
}

/// STP-045.
#[test]
fn after_shutdown_delayed_tasks_wait_out_their_time_and_run() {
    let (time, pool) = pool(2);
    let handle = pool.schedule(HOUR, || 7).unwrap();
    pool.shutdown();
    assert_eq!((pool.state(), pool.queued_count()), (RunState::Shutdown, 1));
    assert_eq!(pool.await_termination(SHORT), Ok(false));
    time.advance(HOUR);
    assert_eq!(soon(handle.into_handle()).unwrap(), 7);
    await_end(&pool);
}

/// STP-025: the same with core 0 and the system clock.
#[test]
fn with_core_zero_a_task_runs_after_an_immediate_shutdown() {
    let pool = executors::scheduled(0);
    let begin = Instant::now();
    let handle = pool.schedule(Duration::from_millis(12), move || begin.elapsed()).unwrap();
    pool.shutdown();
    await_end(&pool);
    assert!(soon(handle.into_handle()).unwrap() >= Duration::from_millis(12));
    assert_eq!(pool.largest_pool_size(), 1);
}

/// STP-046.
#[test]
fn with_the_policy_delayed_tasks_are_cancelled_by_shutdown_but_not_those_that_are_due() {
    let (_time, pool) = pool(1);
    pool.set_execute_existing_delayed_tasks_after_shutdown_policy(false);
    let gate = Gate::new();
    crate::support::occupy(&pool, &gate);
    let due = pool.schedule(Duration::ZERO, || 7).unwrap();
    let submitted = pool.submit(|| 8).unwrap();
    let captured = Counter::new();
    let kept = captured.on_drop();
    let delayed = pool.schedule(HOUR, move || drop(kept)).unwrap();
    pool.shutdown();
    assert_eq!((delayed.state(), captured.get()), (TaskState::Cancelled, 1));
    gate.open();
    await_end(&pool);
    assert_eq!((soon(due.into_handle()).unwrap(), soon(submitted).unwrap()), (7, 8));
    assert_balanced(&pool.stats());
    assert_eq!(pool.stats().cancelled, 1);
}

/// STP-047: the default.
#[test]
fn shutdown_ends_series_that_wait_and_those_that_run() {
    let (_time, pool) = pool(2);
    let waits = pool.schedule_with_fixed_delay(HOUR, HOUR, || ()).unwrap();
    let (gate, running) = (Gate::new(), Gate::new());
    let (pass, knock) = (gate.clone(), running.clone());
    let runs = pool.schedule_at_fixed_rate(Duration::ZERO, SECOND, move || {
        knock.open();
        pass.pass();
    });
    let runs = runs.unwrap();
    running.pass();
    pool.shutdown();
    assert!(waits.is_cancelled());
    assert_eq!(runs.state(), TaskState::Running, "its run goes on to its end");
    gate.open();
    await_end(&pool);
    assert!(matches!(soon(runs.into_handle()), Err(JoinError::Cancelled)));
    assert_balanced(&pool.stats());
    assert_eq!(pool.stats().completed, 1, "that run");
}

/// STP-048.
#[test]
fn with_the_policy_series_go_on_after_shutdown_until_they_are_cancelled() {
    for remove_on_cancel in [true, false] {
        let (time, pool) = pool(2);
        pool.set_continue_existing_periodic_tasks_after_shutdown_policy(true);
        pool.set_remove_on_cancel_policy(remove_on_cancel);
        let runs = Counter::new();
        let counter = runs.clone();
        let series = pool.schedule_at_fixed_rate(SECOND, SECOND, move || counter.add()).unwrap();
        pool.shutdown();
        for n in 1..=3 {
            time.advance(SECOND);
            eventually(|| runs.get() == n && pool.queued_count() == 1);
        }
        assert!(!series.is_done() && !pool.is_terminated());
        series.cancel(false);
        if !remove_on_cancel {
            time.advance(SECOND); // its entry is removed only now
        }
        await_end(&pool);
        assert_eq!(runs.get(), 3);
        assert_balanced(&pool.stats());
    }
}

/// STP-049.
#[test]
fn taking_the_delayed_policy_back_after_shutdown_ends_the_pool() {
    let (time, pool) = pool(2);
    let handles = [HOUR, 2 * HOUR].map(|delay| pool.schedule(delay, || 7).unwrap());
    pool.shutdown();
    pool.prestart_all_core_threads();
    time.advance(HOUR);
    let [due, later] = handles;
    assert_eq!(soon(due.into_handle()).unwrap(), 7);
    pool.set_execute_existing_delayed_tasks_after_shutdown_policy(false);
    assert!(later.is_cancelled());
    await_end(&pool);
}

#[test]
fn taking_the_periodic_policy_back_after_shutdown_ends_the_pool() {
    let (_time, pool) = pool(2);
    pool.set_continue_existing_periodic_tasks_after_shutdown_policy(true);
    let series = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    pool.shutdown();
    assert!(!series.is_done());
    pool.set_continue_existing_periodic_tasks_after_shutdown_policy(false);
    assert!(series.is_cancelled());
    await_end(&pool);
}

/// STP-050.
#[test]
fn granting_a_policy_after_shutdown_resurrects_nothing() {
    let (time, pool) = pool(1);
    pool.set_execute_existing_delayed_tasks_after_shutdown_policy(false);
    let runs = Counter::new();
    let (one, two) = (runs.clone(), runs.clone());
    let once = pool.schedule(SECOND, move || one.add()).unwrap();
    let series = pool.schedule_at_fixed_rate(SECOND, SECOND, move || two.add()).unwrap();
    pool.shutdown();
    pool.set_execute_existing_delayed_tasks_after_shutdown_policy(true);
    pool.set_continue_existing_periodic_tasks_after_shutdown_policy(true);
    time.advance(HOUR);
    await_end(&pool);
    assert!(once.is_cancelled() && series.is_cancelled());
    assert_eq!(runs.get(), 0);
}

/// STP-053: with the system clock, so that only removing the task can end the pool in time.
#[test]
fn a_cancelled_task_in_the_queue_does_not_delay_the_end() {
    let pool = executors::scheduled(1);
    let handle = pool.schedule(HOUR, || ()).unwrap();
    handle.cancel(false);
    assert_eq!(pool.queued_count(), 1);
    pool.shutdown();
    assert_eq!(pool.queued_count(), 0);
    await_end(&pool);
    assert_balanced(&pool.stats());
}

/// STP-055: also by cancelling and purging.
#[test]
fn taking_the_last_delayed_task_out_in_shutdown_ends_the_pool() {
    for core in [0, 1, 3] {
        for way in 0..3 {
            let (_time, pool) = pool(core);
            let mut handle = pool.schedule(HOUR, || ()).unwrap();
            pool.prestart_all_core_threads();
            pool.shutdown();
            match way {
                0 => assert!(pool.remove(handle.id())),
                1 => {
                    pool.set_remove_on_cancel_policy(true);
                    assert!(handle.cancel(false));
                }
                _ => {
                    assert!(handle.cancel(false));
                    assert_eq!(pool.purge(), 1);
                }
            }
            await_end(&pool);
            let outcome = handle.try_join().expect("a handle never hangs").unwrap_err();
            assert_eq!(matches!(outcome, JoinError::Abandoned), way == 0, "{outcome}");
            assert_balanced(&pool.stats());
        }
    }
}

/// STP-056, REJ-020: the only reason is the shutdown, and the work is returned.
#[test]
fn after_shutdown_everything_is_refused_and_comes_back() {
    let (_time, pool) = pool(1);
    pool.shutdown();
    let runs = Counter::new();
    let body = || {
        let counter = runs.clone();
        move || counter.add()
    };
    let refused = [
        pool.schedule(SECOND, body()).unwrap_err(),
        pool.schedule_at_fixed_rate(SECOND, SECOND, body()).unwrap_err(),
        pool.schedule_with_fixed_delay(SECOND, SECOND, body()).unwrap_err(),
        pool.execute(body()).unwrap_err(),
        pool.submit(body()).unwrap_err(),
    ];
    for rejected in refused {
        assert_eq!(rejected.reason(), RejectReason::Shutdown);
        assert!(rejected.to_string().contains("has been shut down"), "{rejected}");
        rejected.into_task().run(); // STP-057: runs on this thread
    }
    assert_eq!((runs.get(), pool.stats().rejected), (5, 5));
    await_end(&pool);
}

/// STP-043.
#[test]
fn shutdown_now_hands_back_what_waits_and_interrupts_what_runs() {
    let (_time, pool) = pool(2);
    let interrupted = Counter::new();
    let running = Counter::new();
    for _ in 0..2 {
        let (counter, knock) = (interrupted.clone(), running.clone());
        let busy = move || {
            knock.add();
            if interrupt::sleep(LONG).is_err() {
                counter.add();
            }
        };
        pool.execute(busy).unwrap();
    }
    eventually(|| running.get() == 2);
    let ran = Counter::new();
    for _ in 0..3 {
        let counter = ran.clone();
        pool.execute(move || counter.add()).unwrap();
    }
    let waiting = pool.shutdown_now();
    assert_eq!(waiting.len(), 3);
    await_end(&pool);
    assert_eq!((interrupted.get(), pool.completed_task_count(), ran.get()), (2, 2, 0));
    waiting.into_iter().for_each(millpond::Task::run);
    assert_eq!(ran.get(), 3);
    assert_balanced(&pool.stats());
}

/// STP-044.
#[test]
fn shutdown_now_interrupts_and_cancels_a_series_that_runs_and_does_not_hand_it_back() {
    let (_time, pool) = pool(1);
    let series = running_series(&pool);
    let delayed = pool.schedule(HOUR, || ()).unwrap();
    let waiting = pool.shutdown_now();
    assert_eq!(waiting.iter().map(millpond::Task::id).collect::<Vec<_>>(), [delayed.id()]);
    await_end(&pool);
    assert!(matches!(soon(series.into_handle()), Err(JoinError::Cancelled)));
}

/// In the order of their due times. Run manually, each runs once, and a periodic task then ends.
#[test]
fn tasks_from_shutdown_now_can_be_run_by_hand() {
    let (_time, pool) = pool(1);
    let runs = Counter::new();
    let (one, two) = (runs.clone(), runs.clone());
    let series = pool.schedule_at_fixed_rate(2 * HOUR, HOUR, move || one.add()).unwrap();
    let once = pool.schedule(HOUR, move || two.add()).unwrap();
    let waiting = pool.shutdown_now();
    assert_eq!(waiting.iter().map(millpond::Task::id).collect::<Vec<_>>(), [once.id(), series.id()]);
    assert_eq!((once.state(), series.state()), (TaskState::Pending, TaskState::Pending));
    waiting.into_iter().for_each(millpond::Task::run);
    assert_eq!(runs.get(), 2);
    soon(once.into_handle()).unwrap();
    assert!(matches!(soon(series.into_handle()), Err(JoinError::Abandoned)));
    await_end(&pool);
}

#[test]
fn a_series_given_to_another_pool_runs_there_once() {
    let (_time, first) = pool(1);
    let runs = Counter::new();
    let counter = runs.clone();
    let series = first.schedule_at_fixed_rate(HOUR, HOUR, move || counter.add()).unwrap();
    let waiting = first.shutdown_now();
    let (time, second) = pool(1);
    for task in waiting {
        second.execute_task(task).unwrap();
    }
    assert!(matches!(soon(series.into_handle()), Err(JoinError::Abandoned)));
    time.advance(10 * HOUR);
    end(&second);
    assert_eq!(runs.get(), 1);
    await_end(&first);
}

/// Dropping the last handle ends the pool like `shutdown`; tasks hold no handle.
#[test]
fn dropping_the_last_handle_is_an_orderly_shutdown() {
    let (time, pool) = pool(1);
    let clone = pool.clone();
    let series = pool.schedule_at_fixed_rate(HOUR, HOUR, || ()).unwrap();
    let once = pool.schedule(HOUR, || 7).unwrap();
    drop(pool);
    assert!(!series.is_done());
    drop(clone);
    assert!(series.is_cancelled());
    time.advance(HOUR);
    assert_eq!(soon(once.into_handle()).unwrap(), 7);
}

#[test]
fn close_waits_for_delayed_tasks_and_shutdown_gracefully_for_as_long_as_it_is_told() {
    let pool = executors::scheduled(1);
    let handle = pool.schedule(SHORT, || 7).unwrap();
    pool.close();
    assert!(handle.is_done() && pool.is_terminated());

    let (_time, pool) = self::pool(1);
    let _far = pool.schedule(HOUR, || ()).unwrap();
    let report = pool.shutdown_gracefully(SHORT, LONG);
    assert_eq!((report.outcome, report.never_run.len()), (ShutdownOutcome::Interrupted, 1));
}
