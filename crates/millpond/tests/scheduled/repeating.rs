//! `schedule_repeating`: a periodic task whose runs return when the next one is due.

use std::panic::resume_unwind;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{Counter, Gate, LONG, Notes, assert_balanced, end, eventually};
use millpond::{Clock, JoinError, ManualClock, Next, RejectReason, ScheduledThreadPoolExecutor, executors};

const SECOND: Duration = Duration::from_secs(1);

fn manual() -> (ManualClock, ScheduledThreadPoolExecutor) {
    let clock = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(1).clock(clock.clock()).build();
    (clock, pool.unwrap())
}

/// A task whose runs return the given answers and record their times.
fn scripted(
    clock: &ManualClock,
    answers: Vec<Next>,
) -> (Notes<Duration>, impl FnMut() -> Next + Send + use<>) {
    let (notes, clock, mut answers) = (Notes::new(), clock.clone(), answers.into_iter());
    let note = notes.clone();
    (notes, move || {
        note.add(clock.elapsed());
        answers.next().unwrap_or(Next::Stop)
    })
}

#[test]
fn each_run_says_how_long_it_is_until_the_next_and_stop_ends_the_series_well() {
    let (clock, pool) = manual();
    let (ran, f) = scripted(&clock, vec![Next::After(SECOND), Next::After(3 * SECOND), Next::Stop]);
    let mut series = pool.schedule_repeating(2 * SECOND, f).unwrap();
    assert!(series.is_periodic());
    assert_eq!(series.remaining_delay(), 2 * SECOND);
    clock.advance(2 * SECOND);
    eventually(|| series.remaining_delay() == SECOND);
    clock.advance(SECOND);
    eventually(|| series.remaining_delay() == 3 * SECOND);
    assert!(series.try_join().is_none());
    clock.advance(3 * SECOND);
    series.join().unwrap();
    assert_eq!(ran.take(), [2 * SECOND, 3 * SECOND, 6 * SECOND]);
    eventually(|| pool.active_count() == 0);
    assert_eq!((pool.queued_count(), pool.stats().completed), (0, 3));
    assert_eq!(pool.stats().periodic_ended_by_panic, 0);
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn a_run_may_name_the_moment_and_one_in_the_past_means_at_once() {
    let (clock, pool) = manual();
    let (begin, by_clock) = (clock.clock().now(), clock.clock());
    clock.advance(10 * SECOND);
    let answers = vec![Next::At(begin + 15 * SECOND), Next::At(begin), Next::At(by_clock.now())];
    let (ran, f) = scripted(&clock, answers);
    let series = pool.schedule_repeating(Duration::ZERO, f).unwrap();
    eventually(|| series.remaining_delay() == 5 * SECOND);
    clock.advance(5 * SECOND);
    series.join().unwrap();
    assert_eq!(ran.take(), [10, 15, 15, 15].map(|s| s * SECOND));
    end(&pool);
}

/// A periodic task that is always late must not starve other tasks.
#[test]
fn others_run_between_runs_that_are_always_late() {
    let pool = executors::single_scheduled();
    let past = Clock::system().now();
    let series = pool.schedule_repeating(Duration::ZERO, move || Next::At(past)).unwrap();
    for _ in 0..3 {
        assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    }
    let zero = pool.schedule_repeating(Duration::ZERO, || Next::After(Duration::ZERO)).unwrap();
    for _ in 0..3 {
        assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    }
    assert!(series.cancel(false) && zero.cancel(false));
    pool.close();
}

#[test]
fn after_a_time_that_never_comes_the_series_waits_and_can_be_cancelled() {
    let (_clock, pool) = manual();
    let (dropped, ran) = (Counter::new(), Counter::new());
    let (captured, count) = (dropped.on_drop(), ran.clone());
    let series = pool
        .schedule_repeating(Duration::ZERO, move || {
            let _captured = &captured;
            count.add();
            Next::After(Duration::MAX)
        })
        .unwrap();
    eventually(|| ran.get() == 1 && series.remaining_delay() == Duration::MAX);
    eventually(|| pool.active_count() == 0);
    assert!(series.cancel(true));
    assert_eq!(dropped.get(), 1);
    assert!(matches!(series.join(), Err(JoinError::Cancelled)));
    end(&pool);
}

#[test]
fn a_run_that_is_cancelled_is_the_last_whatever_it_answers() {
    for answer in [Next::After(Duration::ZERO), Next::Stop] {
        let pool = executors::scheduled(1);
        let (begun, gate, ran) = (Gate::new(), Gate::new(), Counter::new());
        let (tell, wait, count) = (begun.clone(), gate.clone(), ran.clone());
        let series = pool
            .schedule_repeating(Duration::ZERO, move || {
                count.add();
                tell.open();
                wait.pass();
                answer
            })
            .unwrap();
        begun.pass();
        assert!(series.cancel(false));
        gate.open();
        assert!(matches!(series.join(), Err(JoinError::Cancelled)));
        end(&pool);
        assert_eq!(ran.get(), 1);
    }
}

#[test]
fn a_panic_ends_the_series() {
    let pool = executors::scheduled(1);
    let mut runs = 0;
    let series = pool
        .schedule_repeating(Duration::ZERO, move || {
            runs += 1;
            if runs == 2 {
                resume_unwind(Box::new("broken"));
            }
            Next::After(Duration::ZERO)
        })
        .unwrap();
    assert!(matches!(series.join(), Err(JoinError::Panicked(panic)) if panic.message() == Some("broken")));
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.panicked, stats.periodic_ended_by_panic), (1, 1, 1));
    end(&pool);
}

#[test]
fn a_shutdown_ends_it_unless_the_policy_says_otherwise() {
    for go_on in [false, true] {
        let (clock, pool) = manual();
        pool.set_continue_existing_periodic_tasks_after_shutdown_policy(go_on);
        let (ran, f) = scripted(&clock, vec![Next::After(SECOND), Next::After(SECOND)]);
        let series = pool.schedule_repeating(Duration::ZERO, f).unwrap();
        eventually(|| series.remaining_delay() == SECOND && pool.active_count() == 0);
        pool.shutdown();
        let refused = pool.schedule_repeating(Duration::ZERO, || Next::Stop).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::Shutdown);
        if go_on {
            clock.advance(SECOND);
            eventually(|| ran.len() == 2);
            eventually(|| series.remaining_delay() == SECOND);
            clock.advance(SECOND);
            series.join().unwrap();
        } else {
            assert!(matches!(series.join(), Err(JoinError::Cancelled)));
        }
        end(&pool);
        assert_eq!(ran.take().len(), if go_on { 3 } else { 1 });
    }
}

#[test]
fn a_refused_one_comes_back_as_a_task_that_runs_once() {
    let pool = executors::scheduled(1);
    pool.shutdown();
    let ran = Counter::new();
    let count = ran.clone();
    let refused = pool.schedule_repeating(Duration::ZERO, move || {
        count.add();
        Next::After(Duration::ZERO)
    });
    refused.unwrap_err().into_task().run();
    assert_eq!(ran.get(), 1);
    end(&pool);
}

#[test]
fn a_decorator_is_around_each_run() {
    let decorated = Counter::new();
    let count = decorated.clone();
    let pool = ScheduledThreadPoolExecutor::builder()
        .decorate(move |_, mut body| {
            let count = count.clone();
            Box::new(move || {
                count.add();
                body();
            })
        })
        .build()
        .unwrap();
    let (send, receive) = mpsc::channel();
    let mut left = 3;
    let series = pool.schedule_repeating(Duration::ZERO, move || {
        left -= 1;
        send.send(left).unwrap();
        if left == 0 { Next::Stop } else { Next::After(Duration::from_millis(1)) }
    });
    series.unwrap().join().unwrap();
    assert_eq!(receive.iter().collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!(decorated.get(), 3);
    assert_eq!(pool.wait_idle(LONG), Ok(true));
    end(&pool);
}

#[test]
fn the_shutdown_policies_can_be_set_on_the_builder() {
    let policies = |pool: &ScheduledThreadPoolExecutor| {
        (
            pool.continue_existing_periodic_tasks_after_shutdown_policy(),
            pool.execute_existing_delayed_tasks_after_shutdown_policy(),
        )
    };
    let builder = ScheduledThreadPoolExecutor::builder;
    assert_eq!(policies(&builder().build().unwrap()), (false, true));
    let pool = builder()
        .continue_existing_periodic_tasks_after_shutdown_policy(true)
        .execute_existing_delayed_tasks_after_shutdown_policy(false)
        .build()
        .unwrap();
    assert_eq!(policies(&pool), (true, false));
}
