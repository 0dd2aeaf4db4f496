//! Bounded-elastic: how many tasks may wait, which are rejected, and when room becomes free.

use std::time::Duration;

use crate::scheduling::{
    MINUTE, assert_settled, builder, elastic, end, ended, hold, hold_lane, per_task, strict,
};
use crate::support::{Counter, eventually};
use millpond::schedulers::{Scheduler, SchedulerExt};
use millpond::{ManualClock, RejectReason, Rejected};

#[track_caller]
fn assert_full(refused: &Rejected, would_be: u64, cap: u64) {
    assert_eq!(refused.reason(), RejectReason::Saturated);
    let text = refused.to_string();
    assert!(text.contains(&format!("{would_be} tasks would wait, but at most {cap} may")), "{text}");
}

// RS-045
#[test]
fn one_task_more_than_may_wait_is_refused_and_the_running_one_does_not_count() {
    for scheduler in [elastic(1, 2), strict(1, 2), per_task(1, 2)] {
        let held = hold(&scheduler);
        let waiting = [scheduler.schedule(|| {}).unwrap(), scheduler.schedule(|| {}).unwrap()];
        let ran = Counter::new();
        let count = ran.clone();
        let refused = scheduler.schedule(move || count.add()).unwrap_err();
        assert_full(&refused, 3, 2);
        refused.into_task().run();
        assert_eq!(ran.get(), 1, "the work came back");
        held.let_go();
        waiting.iter().for_each(ended);
        end(&scheduler);
        assert_settled(&scheduler, 3, 2);
        assert_eq!(scheduler.stats().rejected, 1);
    }
}

// No capacity is reserved for a busy lane: others may use what it does not.
#[test]
fn a_busy_lane_takes_no_places_from_its_neighbour() {
    for scheduler in [elastic(1, 10), strict(1, 10), per_task(1, 10)] {
        let (one, other) = (scheduler.create_worker(), scheduler.create_worker());
        let held = hold_lane(&one);
        one.schedule(|| {}).unwrap();
        one.schedule(|| {}).unwrap();
        let mut all: Vec<_> = (0..8).map(|_| other.schedule(|| {}).unwrap()).collect();
        assert_full(&other.schedule(|| {}).unwrap_err(), 11, 10);
        assert_full(&one.schedule(|| {}).unwrap_err(), 11, 10);
        assert_full(&scheduler.schedule(|| {}).unwrap_err(), 11, 10);
        assert!(all.pop().is_some_and(|task| task.dispose()));
        one.schedule(|| {}).unwrap();
        assert_full(&one.schedule(|| {}).unwrap_err(), 11, 10);
        assert_eq!((scheduler.queued(), scheduler.remaining_capacity()), (10, 0));
        held.let_go();
        end(&scheduler);
        assert_settled(&scheduler, 12, 10);
    }
}

// RS-045: delayed and periodic tasks count as waiting too, in their order of submission.
#[test]
fn delayed_tasks_and_series_count_as_waiting() {
    let scheduler = elastic(1, 3);
    let worker = scheduler.create_worker();
    let delayed = scheduler.schedule_after(MINUTE, || {}).unwrap();
    worker.schedule_after(MINUTE, || {}).unwrap();
    let series = scheduler.schedule_periodically(MINUTE, MINUTE, || {}).unwrap();
    assert_eq!((scheduler.queued(), scheduler.remaining_capacity()), (3, 0));
    assert_full(&scheduler.schedule_after(MINUTE, || {}).unwrap_err(), 4, 3);
    assert_full(&worker.schedule_after(MINUTE, || {}).unwrap_err(), 4, 3);
    let runs = Counter::new();
    let counts = runs.clone();
    let refused = scheduler.schedule_periodically(MINUTE, MINUTE, move || counts.add()).unwrap_err();
    assert_full(&refused, 4, 3);
    refused.into_task().run();
    assert_eq!(runs.get(), 1, "a refused series comes back as one run");
    ended(&scheduler.schedule(|| {}).unwrap()); // a thread is idle, so the task does not wait
    assert!(delayed.dispose() && series.dispose());
    worker.dispose();
    assert_settled(&scheduler, 4, 3);
    end(&scheduler);
}

// RS-046
#[test]
fn of_a_hundred_thousand_and_ten_exactly_ten_are_refused_and_the_rest_runs() {
    let scheduler = elastic(1, 100_000);
    let worker = scheduler.create_worker();
    let held = hold(&scheduler);
    let ran = Counter::new();
    let mut refused = 0;
    for n in 0..100_010 {
        let count = ran.clone();
        let by_worker = n < 70_000 || (n >= 100_000 && n % 2 == 0);
        let task = move || count.add();
        let taken = if by_worker { worker.schedule(task) } else { scheduler.schedule(task) };
        match taken {
            Ok(_) => assert!(n < 100_000),
            Err(full) => {
                assert!(n >= 100_000);
                assert_full(&full, 100_001, 100_000);
                refused += 1;
            }
        }
    }
    assert_eq!((refused, scheduler.queued(), scheduler.remaining_capacity()), (10, 100_000, 0));
    held.let_go();
    end(&scheduler);
    assert_eq!(ran.get(), 100_000);
    assert_settled(&scheduler, 100_001, 100_000);
}

// RS-046, for delayed tasks.
#[test]
fn of_a_hundred_thousand_and_ten_delayed_tasks_exactly_ten_are_refused_and_the_rest_runs() {
    let time = ManualClock::new();
    let scheduler = builder(1, 100_000, &time).build().unwrap();
    let worker = scheduler.create_worker();
    let ran = Counter::new();
    let delay = Duration::from_millis(100);
    let mut refused = 0;
    for n in 0..100_010 {
        let count = ran.clone();
        let task = move || count.add();
        let taken = if n < 70_000 || n % 2 == 0 {
            worker.schedule_after(delay, task)
        } else {
            scheduler.schedule_after(delay, task)
        };
        refused += usize::from(taken.is_err());
        assert_eq!(taken.is_err(), n >= 100_000);
    }
    assert_eq!((refused, ran.get(), scheduler.live_threads()), (10, 0, 0), "timers hold no thread");
    time.advance(delay);
    eventually(|| ran.get() == 100_000);
    end(&scheduler);
    assert_settled(&scheduler, 100_000, 100_000);
}

// RS-048
#[test]
fn the_largest_capacity_means_no_bound() {
    let scheduler = elastic(1, usize::MAX);
    assert_eq!(scheduler.remaining_capacity(), u64::MAX);
    assert!(scheduler.to_string().contains("unbounded"), "{scheduler}");
    let held = hold(&scheduler);
    for _ in 0..200_000 {
        scheduler.schedule(|| {}).unwrap();
    }
    assert_eq!((scheduler.queued(), scheduler.remaining_capacity()), (200_000, u64::MAX));
    held.let_go();
    end(&scheduler);
    assert_settled(&scheduler, 200_001, u64::MAX);
}

// RS-049
#[test]
fn a_waiting_task_that_is_cancelled_gives_its_place_back_at_once_and_never_runs() {
    for scheduler in [elastic(1, 1), strict(1, 1), per_task(1, 1)] {
        let worker = scheduler.create_worker();
        let held = hold(&scheduler);
        let (ran, dropped) = (Counter::new(), Counter::new());
        for by_worker in [false, true] {
            for delay in [Duration::ZERO, MINUTE] {
                let (count, captured) = (ran.clone(), dropped.on_drop());
                let before = dropped.get();
                let task = move || {
                    let _captured = &captured;
                    count.add();
                };
                let waits = if by_worker {
                    worker.schedule_after(delay, task).unwrap()
                } else {
                    scheduler.schedule_after(delay, task).unwrap()
                };
                assert_eq!((scheduler.remaining_capacity(), scheduler.queued()), (0, 1));
                assert!(waits.dispose());
                assert_eq!((scheduler.remaining_capacity(), scheduler.queued()), (1, 0));
                assert_eq!(dropped.get(), before + 1, "what it captured goes at once");
                assert_eq!(waits.wait(Duration::ZERO), Ok(true));
            }
        }
        held.let_go();
        worker.dispose();
        end(&scheduler);
        assert_eq!(ran.get(), 0);
        assert_settled(&scheduler, 5, 1);
        assert_eq!(scheduler.stats().cancelled, 4);
    }
}

// RS-050
#[test]
fn a_waiting_task_runs_when_the_one_before_ends_and_its_place_is_free_again() {
    for by_worker in [false, true] {
        let scheduler = elastic(1, 1);
        let worker = scheduler.create_worker();
        let held = if by_worker { hold_lane(&worker) } else { hold(&scheduler) };
        let waits = if by_worker { worker.schedule(|| {}) } else { scheduler.schedule(|| {}) }.unwrap();
        assert_eq!(scheduler.remaining_capacity(), 0);
        held.let_go();
        ended(&waits);
        assert!(!waits.is_cancelled());
        assert_eq!(scheduler.remaining_capacity(), 1);
        end(&scheduler);
    }
}

// RS-052: better than Reactor, whose queue exceeded its capacity by one.
#[test]
fn a_series_has_one_place_for_life_and_room_is_never_negative() {
    let time = ManualClock::new();
    let scheduler = builder(1, 1, &time).build().unwrap();
    let runs = Counter::new();
    let count = runs.clone();
    let series = scheduler.schedule_periodically(Duration::ZERO, MINUTE, move || count.add()).unwrap();
    for run in 1..=3 {
        let completed = 2 * run as u64 - 1;
        eventually(|| runs.get() == run && scheduler.stats().completed == completed);
        assert_eq!((scheduler.remaining_capacity(), scheduler.queued()), (0, 1));
        let held = hold(&scheduler); // the thread is idle at this point
        assert_full(&scheduler.schedule(|| {}).unwrap_err(), 2, 1);
        assert_full(&scheduler.schedule_after(MINUTE, || {}).unwrap_err(), 2, 1);
        time.advance(MINUTE); // now due, but it must wait
        assert_eq!((scheduler.remaining_capacity(), scheduler.queued()), (0, 1));
        held.let_go();
    }
    eventually(|| runs.get() == 4 && scheduler.stats().completed == 7);
    assert!(series.dispose());
    assert_eq!((scheduler.remaining_capacity(), scheduler.queued(), scheduler.busy()), (1, 0, 0));
    end(&scheduler);
}

// RS-055
#[test]
fn room_is_the_sum_of_what_may_wait_for_all_threads_less_what_waits() {
    let scheduler = elastic(3, 5);
    assert_eq!(scheduler.remaining_capacity(), 15);
    let workers = [scheduler.create_worker(), scheduler.create_worker(), scheduler.create_worker()];
    assert_eq!(scheduler.remaining_capacity(), 15);
    let held: Vec<_> = workers.iter().map(hold_lane).collect();
    assert_eq!(scheduler.remaining_capacity(), 15, "what runs does not wait");
    for (n, worker) in workers.iter().enumerate() {
        for _ in 0..=n {
            worker.schedule(|| {}).unwrap();
        }
    }
    assert_eq!((scheduler.remaining_capacity(), scheduler.queued()), (9, 6));
    assert_eq!(workers.iter().map(|worker| worker.queued()).collect::<Vec<_>>(), [1, 2, 3]);
    held.into_iter().for_each(|held| held.let_go());
    end(&scheduler);
    assert_settled(&scheduler, 9, 15);
}

// RS-057: better than Reactor, where this overflows.
#[test]
fn room_without_bound_does_not_overflow() {
    let scheduler = elastic(4, usize::MAX);
    assert_eq!(scheduler.remaining_capacity(), u64::MAX);
    let nearly = elastic(usize::MAX, usize::MAX - 1);
    assert_eq!(nearly.remaining_capacity(), u64::MAX, "a product that does not fit");
    assert_eq!(per_task(4, usize::MAX).remaining_capacity(), u64::MAX);
    ended(&nearly.schedule(|| {}).unwrap());
    assert_eq!(nearly.slots(), 1);
    end(&nearly);
}

// RS-058
#[test]
fn a_refused_task_leaves_nothing_behind_in_its_worker() {
    let scheduler = elastic(1, 1);
    let worker = scheduler.create_worker();
    let held = hold_lane(&worker);
    let waits = worker.schedule(|| {}).unwrap();
    let dropped = Counter::new();
    let captured = dropped.on_drop();
    let refused = worker.schedule(move || drop(captured)).unwrap_err();
    assert_full(&refused, 2, 1);
    assert_eq!((worker.queued(), scheduler.queued()), (1, 1));
    drop(refused);
    assert_eq!(dropped.get(), 1);
    assert_full(&worker.schedule_periodically(MINUTE, MINUTE, || {}).unwrap_err(), 2, 1);
    assert_eq!((worker.queued(), scheduler.queued()), (1, 1));
    held.let_go();
    ended(&waits);
    assert_eq!((worker.queued(), scheduler.remaining_capacity()), (0, 1));
    worker.dispose();
    end(&scheduler);
    assert_settled(&scheduler, 2, 1);
}

// RS-059
#[test]
fn a_series_that_hops_onto_the_same_small_scheduler_gets_through() {
    let time = ManualClock::new();
    let scheduler = builder(1, 2, &time).build().unwrap();
    let (lane, arrived) = (scheduler.create_worker(), Counter::new());
    let (hop, count) = (lane.clone(), arrived.clone());
    let tick = move || {
        let count = count.clone();
        hop.schedule(move || count.add()).unwrap();
    };
    let period = Duration::from_millis(100);
    let series = scheduler.schedule_periodically(period, period, tick).unwrap();
    for n in 1..=5 {
        time.advance(period);
        eventually(|| arrived.get() == n);
    }
    assert!(series.dispose());
    end(&scheduler);
    assert_eq!((scheduler.stats().rejected, scheduler.stats().panicked), (0, 0));
}

// The bound holds at all times, whichever tasks arrive and end.
#[test]
fn no_more_than_may_wait_ever_wait_whatever_is_cancelled_in_between() {
    let scheduler = elastic(2, 3);
    let held = [hold(&scheduler), hold(&scheduler)];
    let mut waiting = Vec::new();
    for n in 0..60 {
        match scheduler.schedule(|| {}) {
            Ok(handle) => waiting.push(handle),
            Err(refused) => {
                assert_eq!((refused.reason(), waiting.len()), (RejectReason::Saturated, 6));
                assert!(waiting.remove(n % 6).dispose());
            }
        }
        assert_eq!(scheduler.queued(), waiting.len() as u64);
        assert_eq!(scheduler.remaining_capacity(), 6 - waiting.len() as u64);
    }
    held.into_iter().for_each(|held| held.let_go());
    waiting.iter().for_each(ended);
    end(&scheduler);
}
