//! Waiting and run times of the work of schedulers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use millpond::monitor::{Change, PoolSnapshot, Timing};
use millpond::schedulers::{self, Affinity, BoundedElasticScheduler, Scheduler, SchedulerExt};
use millpond::{ManualClock, TaskOf, executors};

use crate::support::{Gate, LONG, eventually};

const MILLI: Duration = Duration::from_millis(1);

fn elastic(threads: usize, time: &ManualClock) -> BoundedElasticScheduler {
    let builder = BoundedElasticScheduler::builder().name("timed").max_threads(threads);
    builder.ttl(Duration::from_secs(3600)).clock(time.clock()).build().unwrap()
}

fn snapshot(scheduler: &dyn Scheduler) -> PoolSnapshot {
    scheduler.pool_ref().and_then(|pool| pool.snapshot()).expect("it is there")
}

/// Waits until nothing runs. Returns a snapshot in which every run must be measured.
fn at_rest(scheduler: &dyn Scheduler) -> PoolSnapshot {
    eventually(|| snapshot(scheduler).stats.active_count == 0);
    let seen = snapshot(scheduler);
    let runs = seen.stats.completed + seen.stats.panicked;
    assert_eq!((seen.run.count(), seen.wait.count()), (runs, runs), "{seen:?}");
    assert_eq!(seen.longest_running, None, "{seen:?}");
    seen
}

/// Occupies a thread of a scheduler. Returns when the task has begun.
fn hold(schedule: impl FnOnce(Box<dyn FnOnce() + Send>)) -> Gate {
    let (gate, begun) = (Gate::new(), Gate::new());
    let (wait, begins) = (gate.clone(), begun.clone());
    schedule(Box::new(move || {
        begins.open();
        wait.pass();
    }));
    begun.pass();
    gate
}

#[test]
fn a_queue_that_is_held_reports_how_long() {
    let time = ManualClock::new();
    let elastic = elastic(1, &time);
    let gate = hold(|task| _ = elastic.schedule(task).unwrap());
    assert_eq!(snapshot(&elastic).oldest_wait, None);
    elastic.schedule(|| {}).unwrap();
    time.advance(60 * MILLI);
    elastic.schedule(|| {}).unwrap();
    time.advance(40 * MILLI);
    let held = snapshot(&elastic);
    assert_eq!((held.oldest_wait, held.longest_running), (Some(100 * MILLI), Some(100 * MILLI)));
    assert_eq!((held.busy, held.run.count()), (100 * MILLI, 0), "the run has not ended");
    gate.open();
    let seen = at_rest(&elastic);
    assert_eq!((seen.run.count(), seen.run.sum(), seen.busy), (3, 100 * MILLI, 100 * MILLI));
    assert_eq!((seen.wait.max(), seen.oldest_wait), (100 * MILLI, None));
    let median = seen.wait.quantile(0.5).unwrap();
    assert!(median > 35 * MILLI && median < 45 * MILLI, "{median:?}");
}

#[test]
fn a_cancelled_task_of_a_queued_lane_does_not_count_as_the_oldest() {
    let time = ManualClock::new();
    let elastic = elastic(1, &time);
    let gate = hold(|task| _ = elastic.schedule(task).unwrap());
    let lane = elastic.create_worker();
    let first = lane.schedule(|| {}).unwrap();
    time.advance(60 * MILLI);
    lane.schedule(|| {}).unwrap();
    time.advance(40 * MILLI);
    assert_eq!(snapshot(&elastic).oldest_wait, Some(100 * MILLI));
    first.dispose();
    assert_eq!(snapshot(&elastic).oldest_wait, Some(40 * MILLI));
    gate.open();
}

#[test]
fn jobs_behind_a_long_one_of_their_lane_wait() {
    for affinity in [Affinity::Soft, Affinity::Strict] {
        let time = ManualClock::new();
        let builder = BoundedElasticScheduler::builder().name("lane").max_threads(2).affinity(affinity);
        let elastic = builder.clock(time.clock()).build().unwrap();
        let lane = elastic.create_worker();
        let gate = hold(|task| _ = lane.schedule(task).unwrap());
        (0..3).for_each(|_| _ = lane.schedule(|| {}).unwrap());
        time.advance(100 * MILLI);
        assert_eq!(snapshot(&elastic).oldest_wait, Some(100 * MILLI), "behind the job that runs");
        gate.open();
        let seen = at_rest(&elastic);
        assert_eq!((seen.run.count(), seen.run.max(), seen.wait.max()), (4, 100 * MILLI, 100 * MILLI));
        assert_eq!(seen.wait.count_below(64 * MILLI), 1, "only the first did not wait");
    }
}

#[test]
fn jobs_of_a_burst_in_a_lane_share_readings_of_the_clock() {
    let time = ManualClock::new();
    let elastic = elastic(1, &time);
    let lane = elastic.create_worker();
    let gate = hold(|task| _ = lane.schedule(task).unwrap());
    let readings_of = |pause: Duration| {
        let before = time.readings();
        for _ in 0..30 {
            lane.schedule(|| {}).unwrap();
            time.advance(pause);
        }
        time.readings() - before
    };
    assert!(readings_of(Duration::ZERO) <= 8);
    time.advance(MILLI);
    assert!(readings_of(MILLI) >= 22, "at most eight jobs shared the last reading");
    elastic.pool_ref().unwrap().reconfigure(Change::new().timing(Timing::Every)).unwrap().unwrap();
    time.advance(MILLI);
    assert!(readings_of(Duration::ZERO) >= 30);
    gate.open();
    assert_eq!(at_rest(&elastic).stats.completed, 91);
}

#[test]
fn delayed_and_periodic_work_is_late_and_does_not_wait_for_its_time() {
    let time = ManualClock::new();
    let elastic = elastic(1, &time);
    let lane = elastic.create_worker();
    let gate = hold(|task| _ = elastic.schedule(task).unwrap());
    elastic.schedule_after(1000 * MILLI, || {}).unwrap();
    lane.schedule_after(1000 * MILLI, || {}).unwrap();
    let series = elastic.schedule_periodically(1000 * MILLI, 1000 * MILLI, || {}).unwrap();
    time.advance(900 * MILLI);
    assert_eq!(snapshot(&elastic).oldest_wait, None, "nothing is due");
    time.advance(107 * MILLI);
    assert_eq!(snapshot(&elastic).oldest_wait, Some(7 * MILLI));
    gate.open();
    eventually(|| snapshot(&elastic).stats.completed == 4);
    let seen = at_rest(&elastic);
    assert_eq!((seen.wait.sum(), seen.wait.max()), (21 * MILLI, 7 * MILLI));
    time.advance(993 * MILLI);
    eventually(|| snapshot(&elastic).stats.completed == 5);
    assert_eq!(at_rest(&elastic).wait.sum(), 21 * MILLI, "the second run of the series was in time");
    assert!(series.dispose());
}

#[test]
fn a_long_task_among_many_short_ones_is_visible() {
    const SHORT: u64 = if cfg!(miri) { 200 } else { 20_000 };
    let time = ManualClock::new();
    let elastic = elastic(1, &time);
    let gate = hold(|task| _ = elastic.schedule(task).unwrap());
    for number in 0..SHORT {
        let time = time.clone();
        let f = move || {
            if number == SHORT / 2 {
                time.advance(50 * MILLI)
            }
        };
        elastic.schedule(f).unwrap();
    }
    gate.open();
    eventually(|| snapshot(&elastic).stats.completed == SHORT + 1);
    let seen = at_rest(&elastic);
    assert_eq!((seen.run.max(), seen.run.sum(), seen.busy), (50 * MILLI, 50 * MILLI, 50 * MILLI));
    assert_eq!(seen.run.count_below(16 * MILLI), SHORT);
}

#[test]
fn a_task_that_runs_in_place_is_measured_by_itself() {
    let time = ManualClock::new();
    let elastic = elastic(1, &time);
    let (scheduler, clock) = (elastic.clone(), time.clone());
    let outer = elastic.schedule(move || {
        let inner = {
            let clock = clock.clone();
            scheduler.schedule(move || clock.advance(5 * MILLI)).unwrap()
        };
        clock.advance(3 * MILLI);
        assert!(inner.wait(LONG).unwrap());
    });
    assert!(outer.unwrap().wait(LONG).unwrap());
    let seen = at_rest(&elastic);
    assert_eq!((seen.run.max(), seen.run.sum(), seen.busy), (8 * MILLI, 13 * MILLI, 8 * MILLI));
    assert_eq!((seen.wait.max(), seen.wait.sum()), (3 * MILLI, 3 * MILLI));
}

#[test]
fn without_timing_nothing_is_measured() {
    let time = ManualClock::new();
    let elastic = elastic(1, &time);
    let pool = elastic.pool_ref().unwrap();
    pool.reconfigure(Change::new().timing(Timing::Off)).unwrap().unwrap();
    let gate = hold(|task| _ = elastic.schedule(task).unwrap());
    elastic.schedule(|| {}).unwrap();
    time.advance(MILLI);
    let seen = snapshot(&elastic);
    assert_eq!((seen.oldest_wait, seen.longest_running), (None, None));
    gate.open();
    eventually(|| snapshot(&elastic).stats.completed == 2);
    let seen = snapshot(&elastic);
    assert_eq!((seen.run.count(), seen.wait.count(), seen.busy), (0, 0, Duration::ZERO));
    pool.reconfigure(Change::new().timing(Timing::Every)).unwrap().unwrap();
    assert!(elastic.schedule(|| {}).unwrap().wait(LONG).unwrap());
    eventually(|| snapshot(&elastic).run.count() == 1);
}

/// Direct tasks, workers, cancelled and periodic tasks, tasks with handles, panics, and tasks that
/// run in place, submitted by several threads.
fn mixed_work(scheduler: &Arc<dyn Scheduler>, has_timing: bool) {
    let ran = Arc::new(AtomicUsize::new(0));
    let submit = || {
        let lane = scheduler.create_worker();
        for number in 0..if cfg!(miri) { 12 } else { 600 } {
            let (count, ran) =
                (|ran: &AtomicUsize| _ = ran.fetch_add(1, Ordering::Relaxed), Arc::clone(&ran));
            match number % 6 {
                0 => drop(scheduler.schedule(move || count(&ran))),
                1 => drop(lane.schedule(move || count(&ran))),
                2 => _ = lane.schedule(move || count(&ran)).map(|job| job.dispose()),
                3 => {
                    let (inner, later) = (Arc::clone(scheduler), Arc::clone(&ran));
                    let nested = move || {
                        let inner = inner.schedule(move || count(&later));
                        inner.into_iter().for_each(|job| _ = job.wait(LONG));
                    };
                    drop(scheduler.schedule(nested));
                }
                4 => {
                    let (task, handle) = TaskOf::new(move || count(&ran)).into_parts();
                    scheduler.schedule_task(task).unwrap();
                    handle.join().unwrap();
                }
                _ if has_timing => {
                    let series =
                        scheduler.schedule_periodically(MILLI / 100, MILLI / 100, move || count(&ran));
                    let delayed = scheduler.schedule_after(MILLI / 100, || {}).unwrap();
                    assert!(delayed.wait(LONG).unwrap());
                    series.unwrap().dispose();
                }
                _ => {}
            }
        }
    };
    thread::scope(|scope| (0..3).for_each(|_| _ = scope.spawn(submit)));
    eventually(|| {
        let stats = snapshot(&**scheduler).stats;
        stats.active_count + stats.in_place_count + stats.queued_count == 0
    });
    let seen = at_rest(&**scheduler);
    let stats = seen.stats;
    assert_eq!(stats.submitted, stats.completed + stats.panicked + stats.cancelled);
    assert!(ran.load(Ordering::Relaxed) > 0 && stats.in_place_count == 0);
}

#[test]
fn at_rest_the_counts_equal_the_runs_on_every_path() {
    let elastic = |name: &str| BoundedElasticScheduler::builder().name(name).max_threads(3);
    mixed_work(&schedulers::new_single("mixed single").unwrap(), true);
    mixed_work(&schedulers::new_parallel(2, "mixed parallel").unwrap(), true);
    mixed_work(&(Arc::new(elastic("mixed soft").build().unwrap()) as _), true);
    let strict = elastic("mixed strict").affinity(Affinity::Strict).build().unwrap();
    mixed_work(&(Arc::new(strict) as _), true);
    let per_task = elastic("mixed per task").thread_per_task(true).build().unwrap();
    mixed_work(&(Arc::new(per_task) as _), true);
    mixed_work(&schedulers::from_executor(executors::fixed(2).unwrap()), false);
    mixed_work(&schedulers::from_scheduled_executor(executors::scheduled(2)), true);
}
