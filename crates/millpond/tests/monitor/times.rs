//! Waiting and run times of tasks. They come from a manual clock, so they are exact.

use std::time::Duration;

use crate::support::pools::{bounded_custom, sized};
use crate::support::{Gate, die, end, eventually, occupied, soon};
use millpond::monitor::{PoolSnapshot, Timing};
use millpond::{Builder, ManualClock, ScheduledThreadPoolExecutor, Task, ThreadPoolExecutor, WorkQueue};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn on(builder: Builder) -> (ThreadPoolExecutor, ManualClock) {
    let time = ManualClock::new();
    (builder.clock(time.clock()).build().unwrap(), time)
}

/// The snapshot when no task runs or waits.
fn at_rest(pool: &ThreadPoolExecutor) -> PoolSnapshot {
    assert!(pool.wait_idle(Duration::from_secs(60)).unwrap());
    pool.snapshot()
}

#[test]
fn a_queue_that_is_held_for_100_ms_says_so() {
    let kinds = [WorkQueue::linked, || WorkQueue::array(1000), WorkQueue::priority, || bounded_custom(1000)];
    for queue in kinds {
        let (pool, time) = on(sized(1, 1).work_queue(queue()));
        let gate = occupied(&pool);
        (0..500).for_each(|_| pool.execute(|| {}).unwrap());
        time.advance(100 * MILLI);
        assert!(pool.snapshot().oldest_wait.is_none_or(|oldest| oldest == 100 * MILLI));
        gate.open();
        let times = at_rest(&pool);
        assert_eq!(times.wait.count(), 501);
        assert_eq!((times.wait.max(), times.wait.sum()), (100 * MILLI, 500 * 100 * MILLI));
        let median = times.wait.quantile(0.5).unwrap();
        assert!(median > 90 * MILLI && median < 110 * MILLI, "{median:?}");
        assert_eq!((times.run.count(), times.run.sum()), (501, 100 * MILLI));
        end(&pool);
    }
}

#[test]
fn a_long_task_among_many_empty_ones_is_seen_in_full() {
    let (pool, time) = on(sized(1, 1));
    let tasks = if cfg!(miri) { 300 } else { 1_000_000 };
    for task in 0..tasks {
        let time = (task == tasks / 2).then(|| time.clone());
        pool.execute(move || time.into_iter().for_each(|time| time.advance(50 * MILLI))).unwrap();
    }
    let times = at_rest(&pool);
    assert_eq!((times.run.count(), times.run.max(), times.run.sum()), (tasks, 50 * MILLI, 50 * MILLI));
    assert_eq!(times.run.count_below(MILLI), tasks - 1);
    end(&pool);
}

#[test]
fn the_age_of_a_task_behind_a_burst_is_its_own() {
    let (pool, time) = on(sized(1, 1));
    (0..1000).for_each(|_| pool.execute(|| {}).unwrap());
    at_rest(&pool);
    time.advance(10 * SECOND);
    let gate = occupied(&pool);
    pool.execute(|| {}).unwrap();
    time.advance(3 * SECOND);
    assert_eq!(pool.snapshot().oldest_wait, Some(3 * SECOND));
    gate.open();
    assert_eq!(at_rest(&pool).wait.max(), 3 * SECOND);
    end(&pool);
}

#[test]
fn a_task_behind_a_burst_that_still_waits_has_its_own_age() {
    let (pool, time) = on(sized(1, 1).timing(Timing::Every));
    let gate = occupied(&pool);
    (0..1000).for_each(|_| pool.execute(|| {}).unwrap());
    time.advance(10 * SECOND);
    pool.execute(|| {}).unwrap();
    time.advance(SECOND);
    assert_eq!(pool.snapshot().oldest_wait, Some(11 * SECOND));
    gate.open();
    let times = at_rest(&pool);
    assert_eq!((times.wait.count(), times.wait.sum()), (1002, 1000 * 11 * SECOND + SECOND));
    end(&pool);
}

/// The queue has few time marks and is long: ten seconds of tasks, one per millisecond.
#[test]
fn waits_in_a_long_queue_are_right_to_within_a_tenth() {
    let (pool, time) = on(sized(1, 1).timing(Timing::Every));
    let gate = occupied(&pool);
    for _ in 0..10_000 {
        pool.execute(|| {}).unwrap();
        time.advance(MILLI);
    }
    gate.open();
    let times = at_rest(&pool);
    let mean = times.wait.sum() / 10_000;
    assert!(mean >= 5 * SECOND && mean <= 6 * SECOND, "{mean:?}");
    let median = times.wait.quantile(0.5).unwrap();
    assert!(median > 4500 * MILLI && median < 5500 * MILLI, "{median:?}");
    assert_eq!(times.wait.max(), 10 * SECOND);
    end(&pool);
}

/// Removing every second task moves the others to new positions.
#[test]
fn a_task_that_moves_in_the_queue_keeps_its_age() {
    let (pool, time) = on(sized(1, 1).timing(Timing::Every));
    let gate = occupied(&pool);
    let mut handles = Vec::new();
    for _ in 0..100 {
        handles.push(pool.submit(|| {}).unwrap());
        time.advance(SECOND);
    }
    let removed = handles.iter().enumerate().filter(|(at, _)| at % 10 != 5);
    removed.for_each(|(_, handle)| assert!(handle.cancel(false)));
    assert_eq!(pool.snapshot().oldest_wait.map(|oldest| oldest.as_secs().abs_diff(95) <= 3), Some(true));
    gate.open();
    let times = at_rest(&pool);
    assert_eq!(times.wait.count(), 11);
    let expected = (0..10).map(|n| 100 - (10 * n + 5)).sum::<u64>();
    let sum = times.wait.sum().as_secs();
    assert!(sum >= expected && sum <= expected + 40, "{sum} for {expected}");
    end(&pool);
}

#[test]
fn the_oldest_wait_and_the_longest_run_grow_with_the_clock_and_end_with_the_tasks() {
    let (pool, time) = on(sized(2, 2));
    let idle = pool.snapshot();
    assert_eq!((idle.oldest_wait, idle.longest_running, idle.busy), (None, None, Duration::ZERO));
    let first = occupied(&pool);
    time.advance(SECOND);
    let second = occupied(&pool);
    pool.execute(|| {}).unwrap();
    time.advance(2 * SECOND);
    pool.execute(|| {}).unwrap();
    let blocked = pool.snapshot();
    assert_eq!((blocked.oldest_wait, blocked.longest_running), (Some(2 * SECOND), Some(3 * SECOND)));
    assert_eq!(blocked.busy, 5 * SECOND);
    assert_eq!((blocked.run.count(), blocked.wait.count()), (0, 0));
    time.advance(SECOND);
    let later = pool.snapshot();
    assert_eq!((later.oldest_wait, later.longest_running), (Some(3 * SECOND), Some(4 * SECOND)));
    first.open();
    second.open();
    let rest = at_rest(&pool);
    assert_eq!((rest.oldest_wait, rest.longest_running, rest.busy), (None, None, 7 * SECOND));
    assert_eq!((rest.run.count(), rest.run.sum()), (4, 7 * SECOND));
    end(&pool);
}

#[test]
fn half_of_the_workers_busy_is_half_of_the_time() {
    let (pool, time) = on(sized(4, 4));
    assert_eq!(pool.prestart_all_core_threads(), 4);
    let gates = [occupied(&pool), occupied(&pool)];
    let before = pool.snapshot();
    time.advance(SECOND);
    assert_eq!(pool.snapshot().busy - before.busy, 2 * SECOND);
    gates.iter().for_each(Gate::open);
    assert_eq!(at_rest(&pool).busy, 2 * SECOND);
    end(&pool);
}

/// The time of the inner task is not counted for the outer task as well.
#[test]
fn a_task_that_runs_inside_another_is_counted_by_itself() {
    let (pool, time) = on(sized(1, 1));
    let (inside, clock) = (pool.clone(), time.clone());
    let outer = pool.submit(move || {
        clock.advance(SECOND);
        let time = clock.clone();
        let inner = inside.submit(move || time.advance(2 * SECOND)).unwrap();
        clock.advance(4 * SECOND);
        inner.join().unwrap();
        assert_eq!(inside.snapshot().longest_running, Some(7 * SECOND));
        clock.advance(8 * SECOND);
    });
    soon(outer.unwrap()).unwrap();
    let times = at_rest(&pool);
    assert_eq!((times.run.count(), times.run.sum(), times.busy), (2, 15 * SECOND, 15 * SECOND));
    assert_eq!((times.wait.count(), times.wait.max()), (2, 4 * SECOND));
    end(&pool);
}

/// Covers plain, bounded, synchronous, priority, custom, delay and eager pools; first tasks, queued
/// ones and handed-over ones; tasks with and without a handle, that panic, and that were cancelled.
#[test]
fn every_task_is_counted_on_every_path() {
    let plain = || sized(2, 2);
    let paths: [fn(Builder) -> Builder; 10] = [
        |builder| builder,
        |builder| builder.work_queue(WorkQueue::array(10_000)),
        |builder| builder.work_queue(WorkQueue::synchronous()).maximum_pool_size(1000),
        |builder| builder.work_queue(WorkQueue::priority()),
        |builder| builder.work_queue(bounded_custom(10_000)),
        |builder| builder.work_queue(WorkQueue::delay()),
        Builder::eager,
        |builder| builder.max_queue_time(SECOND),
        |builder| builder.remove_on_cancel(false),
        |builder| builder.timing(Timing::Every),
    ];
    for (at, path) in paths.into_iter().enumerate() {
        for time in [None, Some(ManualClock::new())] {
            let builder = path(plain());
            let pool = match &time {
                Some(time) => builder.clock(time.clock()),
                None => builder,
            };
            let pool = pool.build().unwrap();
            let tasks = if cfg!(miri) { 20 } else { 300 };
            let mut handles = Vec::new();
            for n in 0..tasks {
                match n % 5 {
                    0 => pool.execute(|| {}).unwrap(),
                    1 => pool.execute(|| die("on purpose")).unwrap(),
                    2 => pool.execute_task(Task::new(|| {}).named("named")).unwrap(),
                    _ => handles.push(pool.submit(|| {}).unwrap()),
                }
                if n % 50 == 49 {
                    let idle = pool.clone();
                    eventually(move || idle.stats().active_count == 0); // the next one wakes it
                }
            }
            handles.iter().step_by(3).for_each(|handle| _ = handle.cancel(false));
            let times = at_rest(&pool);
            let run = pool.completed_task_count();
            assert_eq!((times.run.count(), times.wait.count()), (run, run), "path {at}, {time:?}");
            assert!(run >= tasks * 4 / 5 - 2, "{run} on path {at}");
            end(&pool);
        }
    }
}

#[test]
fn an_expired_task_counts_as_waiting_and_not_as_running() {
    let (pool, time) = on(sized(1, 1).max_queue_time(SECOND));
    let gate = occupied(&pool);
    let old = pool.submit(|| {}).unwrap();
    time.advance(3 * SECOND);
    gate.open();
    assert!(soon(old).is_err());
    let times = at_rest(&pool);
    assert_eq!(times.stats.expired, 1);
    assert_eq!((times.wait.count(), times.wait.max()), (2, 3 * SECOND));
    assert_eq!(times.run.count(), 1);
    end(&pool);
}

#[test]
fn a_scheduled_pool_reports_how_late_its_tasks_are_and_not_their_delay() {
    let time = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(1).clock(time.clock()).build().unwrap();
    let free = pool.schedule(5 * SECOND, || {}).unwrap();
    time.advance(5 * SECOND);
    soon(free.into_handle()).unwrap();
    pool.wait_idle(Duration::MAX).unwrap();
    let on_time = pool.snapshot();
    assert_eq!((on_time.wait.count(), on_time.wait.max()), (1, Duration::ZERO));

    let gate = occupied(&pool);
    let late = pool.schedule(SECOND, || {}).unwrap();
    time.advance(4 * SECOND);
    assert_eq!(pool.snapshot().oldest_wait, Some(3 * SECOND));
    gate.open();
    soon(late.into_handle()).unwrap();
    pool.wait_idle(Duration::MAX).unwrap();
    let times = pool.snapshot();
    assert_eq!((times.wait.count(), times.wait.max()), (3, 3 * SECOND));
    assert_eq!((times.run.count(), times.run.sum()), (3, 4 * SECOND));
    end(&pool);
}

#[test]
fn without_timing_no_clock_is_read() {
    for queue in [WorkQueue::linked, WorkQueue::priority, WorkQueue::synchronous, || bounded_custom(1000)] {
        let builder = sized(2, 1000).work_queue(queue()).timing(Timing::Off);
        let (pool, time) = on(builder);
        (0..300).for_each(|_| pool.execute(|| {}).unwrap());
        let gate = occupied(&pool);
        time.advance(SECOND);
        let times = pool.snapshot();
        assert_eq!((times.oldest_wait, times.longest_running, times.busy), (None, None, Duration::ZERO));
        gate.open();
        let times = at_rest(&pool);
        assert_eq!((times.wait.count(), times.run.count(), times.settings.timing), (0, 0, Timing::Off));
        assert_eq!(time.readings(), 0);
        end(&pool);
        assert_eq!(time.readings(), 0);
    }
}

/// Readers count the tasks of idle workers while the workers continue.
#[test]
fn figures_only_grow_while_tasks_run() {
    let pool = sized(2, 2).build().unwrap();
    let tasks = if cfg!(miri) { 200 } else { 200_000 };
    let over = Gate::new();
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let mut last = pool.snapshot();
                while !over.is_open() {
                    let next = pool.snapshot();
                    assert!(next.run.count() >= last.run.count() && next.wait.count() >= last.wait.count());
                    assert!(
                        next.busy >= last.busy
                            && next.run.count() <= next.stats.submitted.max(next.run.count())
                    );
                    last = next;
                }
            });
        }
        for _ in 0..2 {
            s.spawn(|| (0..tasks).for_each(|_| pool.execute(|| {}).unwrap()));
        }
        s.spawn(|| {
            eventually(|| pool.completed_task_count() == 2 * tasks);
            over.open();
        });
    });
    let times = at_rest(&pool);
    assert_eq!((times.run.count(), times.wait.count()), (2 * tasks, 2 * tasks));
    assert_eq!(times.busy, times.run.sum());
    end(&pool);
}
