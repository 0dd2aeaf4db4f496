//! Delayed and periodic work, of workers and direct.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use crate::scheduling::{MINUTE, assert_settled, builder, elastic, end, ended, hold};
use crate::support::{Counter, Gate, LONG, Notes, Rng, SHORT, die, eventually, interrupt_myself, rounds};
use millpond::schedulers::{
    self, BoundedElasticScheduler, Disposable, MissedTicks, OnPanic, PeriodicTask, Scheduler, SchedulerExt,
    VirtualTimeScheduler,
};
use millpond::{Interrupted, JoinError, ManualClock, RejectReason, TaskOf, executors};

const SECOND: Duration = Duration::from_secs(1);

fn count(counter: &Counter) -> impl FnMut() + Send + 'static {
    let counter = counter.clone();
    move || counter.add()
}

/// The four mixes of initial delay and period.
const MIXES: [(Duration, Duration); 4] =
    [(Duration::ZERO, Duration::ZERO), (MINUTE, Duration::ZERO), (Duration::ZERO, MINUTE), (MINUTE, MINUTE)];

// RS-074: many periodic tasks are cancelled before the thread gets to them.
#[test]
fn series_that_are_disposed_before_a_thread_gets_to_them_never_run() {
    let scheduler = schedulers::new_single("mass-cancel").unwrap();
    let held = hold(&scheduler);
    let worker = scheduler.create_worker();
    let ran = Counter::new();
    for _ in 0..10 {
        worker.schedule_periodically(Duration::ZERO, Duration::from_millis(500), count(&ran)).unwrap();
    }
    worker.dispose();
    held.let_go();
    ended(&scheduler.schedule(|| {}).unwrap());
    assert_eq!(ran.get(), 0);
    end(&scheduler);
}

// RS-078: the same for periodic tasks, whose next runs return to the lane.
#[test]
fn the_next_run_of_a_series_racing_disposal_leaves_nothing_in_the_worker() {
    let mut rng = Rng::new();
    let scheduler = elastic(2, 100);
    let worker = scheduler.create_worker();
    for round in rounds(2500) {
        let runs = Counter::new();
        let series = worker.schedule_periodically(Duration::ZERO, Duration::ZERO, count(&runs)).unwrap();
        if round % 2 == 0 {
            eventually(|| runs.get() > 0);
        }
        rng.dawdle();
        assert!(series.dispose());
        ended(&series);
        let after = runs.get();
        ended(&worker.schedule(|| {}).unwrap());
        assert_eq!(runs.get(), after, "a run after its end");
        assert_eq!(worker.queued(), 0);
    }
    worker.dispose();
    end(&scheduler);
    let stats = scheduler.stats();
    assert_eq!(stats.submitted, stats.completed + stats.cancelled, "{stats:?}");
    assert_eq!((stats.queued, stats.busy, stats.remaining_capacity), (0, 0, 200), "{stats:?}");
}

// RS-081
#[test]
fn a_series_goes_on_after_a_run_that_panics() {
    let time = ManualClock::new();
    let scheduler = builder(2, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let runs = [Counter::new(), Counter::new()];
    let dying = |runs: &Counter| {
        let runs = runs.clone();
        move || {
            runs.add();
            if runs.get() % 2 == 1 {
                die("every other time");
            }
        }
    };
    let step = Duration::from_millis(10);
    let series = [
        scheduler.schedule_periodically(Duration::ZERO, step, dying(&runs[0])).unwrap(),
        worker.schedule_periodically(Duration::ZERO, step, dying(&runs[1])).unwrap(),
    ];
    for run in 1..=20 {
        eventually(|| runs.iter().all(|runs| runs.get() == run) && scheduler.queued() == 2);
        time.advance(step);
    }
    eventually(|| scheduler.stats().completed + scheduler.stats().panicked == 42);
    assert!(series.iter().all(Disposable::dispose));
    worker.dispose();
    end(&scheduler);
    assert_eq!((scheduler.stats().completed, scheduler.stats().panicked), (20, 22));
}

/// A periodic task that ends with a panic in its third run, and the counter of its runs.
fn dies_at_the_third(name: &'static str) -> (PeriodicTask, Counter) {
    let runs = Counter::new();
    let count = runs.clone();
    let task = PeriodicTask::new(move || {
        count.add();
        if count.get() == 3 {
            die("the third");
        }
    });
    (task.named(name).on_panic(OnPanic::End), runs)
}

#[track_caller]
fn ended_by_its_panic(series: &Disposable, runs: &Counter) {
    ended(series);
    assert!(series.is_disposed() && !series.is_cancelled() && !series.dispose());
    assert_eq!(runs.get(), 3);
}

#[test]
fn a_series_that_is_to_end_after_a_panic_ends_on_every_scheduler() {
    const STEP: Duration = Duration::from_millis(1);
    let told = Notes::new();
    let notes = told.clone();
    schedulers::on_error("series end", move |task, panic| {
        if task.name() == Some("ends") {
            notes.add(panic.message().unwrap_or_default().to_owned());
        }
    });
    let kinds: Vec<Arc<dyn Scheduler>> = vec![
        schedulers::new_single("ends").unwrap(),
        schedulers::single_worker(&schedulers::new_parallel(2, "original").unwrap()),
        schedulers::new_parallel(2, "ends").unwrap(),
        schedulers::new_bounded_elastic(2, 10, "ends", MINUTE).unwrap(),
        Arc::new(BoundedElasticScheduler::builder().max_threads(2).thread_per_task(true).build().unwrap()),
        schedulers::from_scheduled_executor(executors::scheduled(1)),
    ];
    let many = kinds.len() * 4;
    for scheduler in kinds {
        for period in [STEP, Duration::ZERO] {
            let (task, runs) = dies_at_the_third("ends");
            let series = scheduler.schedule_periodically_task(Duration::ZERO, period, task).unwrap();
            ended_by_its_panic(&series, &runs);
            let (worker, (task, runs)) = (scheduler.create_worker(), dies_at_the_third("ends"));
            let series = worker.schedule_periodically_task(Duration::ZERO, period, task).unwrap();
            ended_by_its_panic(&series, &runs);
            ended(&worker.schedule(|| {}).unwrap());
            assert_eq!(worker.queued(), 0);
        }
        end(&scheduler);
        let stats = scheduler.stats();
        assert_eq!((stats.panicked, stats.cancelled, stats.queued), (4, 0, 0), "{stats:?}");
        assert_eq!(stats.submitted, stats.completed + stats.panicked, "{stats:?}");
    }
    assert!(schedulers::reset_on_error("series end"));
    assert_eq!(told.take(), vec!["the third"; many]);
}

#[test]
fn a_series_that_is_to_end_after_a_panic_ends_in_virtual_time_and_without_timing() {
    let time = VirtualTimeScheduler::new();
    let (task, runs) = dies_at_the_third("virtual");
    let series = time.schedule_periodically_task(SECOND, SECOND, task).unwrap();
    time.advance_by(MINUTE);
    ended_by_its_panic(&series, &runs);
    assert_eq!((time.stats().panicked, time.stats().queued), (1, 0));

    let scheduler = schedulers::from_executor_service(executors::fixed(1).unwrap());
    let (task, runs) = dies_at_the_third("executor");
    let zero = Duration::ZERO;
    let series = scheduler.schedule_periodically_task(zero, zero, task).unwrap();
    ended_by_its_panic(&series, &runs);
    end(&scheduler);
}

#[test]
fn a_series_that_is_to_end_after_a_panic_ends_although_a_hook_wraps_it() {
    const STEP: Duration = Duration::from_millis(1);
    schedulers::on_schedule("series end", |body| body);
    let scheduler = schedulers::new_single("hooked").unwrap();
    let (task, runs) = dies_at_the_third("hooked");
    let series = scheduler.schedule_periodically_task(STEP, STEP, task).unwrap();
    assert!(schedulers::reset_on_schedule("series end"));
    ended_by_its_panic(&series, &runs);
    end(&scheduler);
}

// RS-084
#[test]
fn a_series_that_is_disposed_does_not_run_again_and_leaves_nothing_waiting() {
    let time = ManualClock::new();
    let scheduler = builder(2, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    for period in [Duration::ZERO, SECOND] {
        let runs = Counter::new();
        let direct = scheduler.schedule_periodically(Duration::ZERO, period, count(&runs)).unwrap();
        eventually(|| runs.get() >= 1);
        assert!(direct.dispose());
        ended(&direct);
        let before = runs.get();
        let in_lane = worker.schedule_periodically(Duration::ZERO, period, count(&runs)).unwrap();
        eventually(|| runs.get() > before);
        assert!(worker.queued() <= 1, "a series is one entry, however often it runs");
        assert!(in_lane.dispose());
        ended(&in_lane);
        let after = runs.get();
        time.advance(10 * SECOND);
        ended(&worker.schedule(|| {}).unwrap());
        assert_eq!((runs.get(), worker.queued(), scheduler.queued()), (after, 0, 0));
    }
    worker.dispose();
    eventually(|| scheduler.busy() == 0);
    assert_eq!(scheduler.remaining_capacity(), 20);
    end(&scheduler);
}

// RS-085
#[test]
fn four_kinds_of_series_on_one_worker_run_as_their_times_say() {
    let scheduler = elastic(1, 10);
    let worker = scheduler.create_worker();
    let runs: [Counter; 4] = Default::default();
    let series: Vec<_> = MIXES
        .iter()
        .zip(&runs)
        .map(|((initial, period), runs)| {
            worker.schedule_periodically(*initial, *period, count(runs)).unwrap()
        })
        .collect();
    eventually(|| runs[0].get() > 100 && runs[2].get() > 0);
    worker.dispose();
    assert!(series.iter().all(Disposable::is_disposed));
    series.iter().for_each(ended);
    let after = runs[0].get();
    ended(&scheduler.schedule(|| {}).unwrap());
    assert_eq!(runs[0].get(), after);
    assert_eq!((runs[1].get(), runs[2].get(), runs[3].get()), (0, 1, 0));
    end(&scheduler);
}

// A periodic task without a pause lets other tasks of its lane and its scheduler run in between.
// With a real clock.
#[test]
fn a_series_without_a_pause_lets_others_in_between() {
    for scheduler in [
        schedulers::new_single("in-between").unwrap(),
        schedulers::new_bounded_elastic(1, 10, "in-between", MINUTE).unwrap(),
    ] {
        let worker = scheduler.create_worker();
        let runs = Counter::new();
        let series = worker.schedule_periodically(Duration::ZERO, Duration::ZERO, count(&runs)).unwrap();
        eventually(|| runs.get() > 10);
        ended(&scheduler.schedule(|| {}).unwrap());
        ended(&worker.schedule(|| {}).unwrap());
        ended(&worker.schedule_after(Duration::from_millis(1), || {}).unwrap());
        let other = scheduler.create_worker();
        ended(&other.schedule(|| {}).unwrap());
        assert!(series.dispose());
        end(&scheduler);
    }
}

// RS-086
#[test]
fn schedulers_without_timing_refuse_what_is_to_run_later() {
    let pool = executors::fixed(1).unwrap();
    let scheduler = schedulers::from_executor(pool.clone());
    let worker = scheduler.create_worker();
    let refusals = [
        scheduler.schedule_after(SECOND, || {}).unwrap_err(),
        scheduler.schedule_periodically(SECOND, Duration::ZERO, || {}).unwrap_err(),
        scheduler.schedule_periodically(Duration::ZERO, SECOND, || {}).unwrap_err(),
        scheduler.schedule_periodically(SECOND, SECOND, || {}).unwrap_err(),
        worker.schedule_after(SECOND, || {}).unwrap_err(),
        worker.schedule_periodically(SECOND, Duration::ZERO, || {}).unwrap_err(),
        worker.schedule_periodically(Duration::ZERO, SECOND, || {}).unwrap_err(),
        worker.schedule_periodically(SECOND, SECOND, || {}).unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!(refused.reason(), RejectReason::NotTimeCapable);
    }
    ended(&scheduler.schedule_after(Duration::ZERO, || {}).unwrap());
    ended(&worker.schedule_after(Duration::ZERO, || {}).unwrap());
    assert_eq!((scheduler.stats().rejected, scheduler.stats().submitted), (8, 2));
    end(&scheduler);
    crate::support::end(&pool);
}

// RS-088
#[test]
fn nothing_runs_too_early() {
    let delay = Duration::from_millis(10);
    for scheduler in [
        schedulers::new_single("early").unwrap(),
        schedulers::new_parallel(2, "early").unwrap(),
        schedulers::new_bounded_elastic(2, 10, "early", MINUTE).unwrap(),
    ] {
        let worker = scheduler.create_worker();
        for by_worker in [false, true] {
            let (tell, told) = mpsc::channel();
            let begin = Instant::now();
            let task = move || tell.send(begin.elapsed()).unwrap();
            let taken = if by_worker {
                worker.schedule_after(delay, task)
            } else {
                scheduler.schedule_after(delay, task)
            };
            taken.unwrap();
            assert!(told.recv_timeout(LONG).unwrap() >= delay);
            let (tell, told) = mpsc::channel();
            let begin = Instant::now();
            let tick = move || {
                let _ = tell.send(begin.elapsed()); // the last sends have no receiver
            };
            let series = if by_worker {
                worker.schedule_periodically(delay, 2 * delay, tick)
            } else {
                scheduler.schedule_periodically(delay, 2 * delay, tick)
            };
            for run in 0..4 {
                assert!(told.recv_timeout(LONG).unwrap() >= delay + 2 * run * delay, "run {run}");
            }
            assert!(series.unwrap().dispose());
        }
        worker.dispose();
        end(&scheduler);
    }
}

// RS-088, with exact times.
#[test]
fn work_runs_when_its_time_has_come_and_not_a_moment_before() {
    let time = ManualClock::new();
    let scheduler = builder(2, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let (once, runs) = (Counter::new(), Counter::new());
    scheduler.schedule_after(SECOND, count(&once)).unwrap();
    worker.schedule_after(SECOND, count(&once)).unwrap();
    scheduler.schedule_periodically(SECOND, 2 * SECOND, count(&runs)).unwrap();
    let moment = Duration::from_nanos(1);
    time.advance(SECOND - moment);
    assert_eq!((scheduler.stats().queued, once.get(), runs.get()), (3, 0, 0));
    time.advance(moment);
    eventually(|| once.get() == 2 && runs.get() == 1);
    eventually(|| scheduler.stats().completed == 3);
    time.advance(2 * SECOND - moment);
    assert_eq!((scheduler.stats().queued, runs.get()), (1, 1));
    time.advance(moment);
    eventually(|| runs.get() == 2);
    scheduler.dispose();
    end(&scheduler);
}

// A time that never comes.
#[test]
fn work_that_is_never_due_waits_until_it_is_cancelled() {
    let time = ManualClock::new();
    let scheduler = builder(1, 10, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let (never, once) = (Counter::new(), Counter::new());
    let waiting = [
        scheduler.schedule_after(Duration::MAX, count(&never)).unwrap(),
        worker.schedule_after(Duration::MAX, count(&never)).unwrap(),
        scheduler.schedule_periodically(Duration::MAX, Duration::MAX, count(&never)).unwrap(),
        worker.schedule_periodically(Duration::ZERO, Duration::MAX, count(&once)).unwrap(),
    ];
    time.advance(Duration::MAX);
    eventually(|| once.get() == 1 && scheduler.queued() == 4);
    assert!(waiting.iter().all(Disposable::dispose));
    worker.dispose();
    end(&scheduler);
    assert_eq!((never.get(), once.get()), (0, 1));
    assert_settled(&scheduler, 5, 10);
}

// The policies for runs that were due while the periodic task was busy.
#[test]
fn missed_runs_are_made_up_for_merged_or_left_out_as_the_series_says() {
    for (missed, at_once) in [(MissedTicks::CatchUp, 3), (MissedTicks::Coalesce, 1), (MissedTicks::Skip, 0)] {
        let time = ManualClock::new();
        let scheduler = builder(1, 10, &time).build().unwrap();
        let (runs, gate, running) = (Counter::new(), Gate::new(), Gate::new());
        let (counts, pass, knock) = (runs.clone(), gate.clone(), running.clone());
        let task = PeriodicTask::new(move || {
            counts.add();
            knock.open();
            pass.pass();
        });
        let task = task.missed_ticks(missed);
        let series = scheduler.schedule_periodically_task(Duration::ZERO, SECOND, task).unwrap();
        running.pass();
        time.advance(3 * SECOND + SECOND / 2); // three runs are missed
        assert_eq!((scheduler.queued(), runs.get()), (0, 1), "nothing piles up");
        gate.open();
        eventually(|| runs.get() == 1 + at_once && scheduler.queued() == 1);
        assert_eq!(scheduler.stats().completed, 1 + at_once as u64);
        time.advance(SECOND / 2);
        eventually(|| runs.get() == 2 + at_once);
        assert!(series.dispose());
        end(&scheduler);
    }
}

/// Regression: a task that waited for a later job of a lane ran the first job of the lane again and
/// again. With a series that is always due, neither the limit nor an interrupt ended the wait.
#[test]
fn a_wait_behind_a_series_without_a_pause_ends_at_its_limit_and_with_an_interrupt() {
    let scheduler = schedulers::new_single("busy-lane").unwrap();
    let lane = scheduler.create_worker();
    let (tell, told) = mpsc::channel();
    let waits = scheduler.schedule(move || {
        lane.schedule_periodically(Duration::ZERO, Duration::ZERO, || {}).unwrap();
        let later = lane.schedule_after(LONG * 60, || {}).unwrap();
        tell.send(later.wait(SHORT)).unwrap();
        interrupt_myself();
        tell.send(later.wait(Duration::MAX)).unwrap();
        let (task, mut handle) = TaskOf::new(|| {}).into_parts();
        lane.schedule_task_after(LONG * 60, task).unwrap();
        tell.send(Ok(handle.join_timeout(SHORT).is_some())).unwrap();
        interrupt_myself();
        let interrupted = matches!(handle.join(), Err(JoinError::Interrupted));
        tell.send(if interrupted { Err(Interrupted) } else { Ok(true) }).unwrap();
    });
    let results = [(); 4].map(|()| told.recv_timeout(LONG).inspect_err(|_| scheduler.dispose()));
    scheduler.dispose();
    ended(&waits.unwrap());
    assert_eq!(results, [Ok(Ok(false)), Ok(Err(Interrupted)), Ok(Ok(false)), Ok(Err(Interrupted))]);
    end(&*scheduler);
}
