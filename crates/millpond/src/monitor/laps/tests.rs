//! Tests of laps with a manual clock: lengths, long tasks, pauses, changes of timing, readers.

use std::time::Duration;

use super::*;
use crate::time::clock::ManualClock;

/// A simulated thread that runs tasks by a manual clock.
struct Thread {
    time: ManualClock,
    meter: Meter,
    laps: Laps,
    finished: u64,
}

impl Thread {
    fn new(timing: Timing) -> Thread {
        let time = ManualClock::new();
        let meter = Meter::new(time.clock(), timing, 1);
        let thread = Thread { time, meter, laps: Laps::default(), finished: 0 };
        thread.resume();
        thread
    }

    fn progress(&self) -> Progress {
        Progress { thread: 0, finished: self.finished }
    }

    fn resume(&self) {
        self.laps.resume(&self.meter, self.progress(), None);
    }

    /// Runs a task that takes `nanos`. Returns true if the lap ended with it.
    fn run(&mut self, nanos: u64) -> bool {
        self.time.advance(Duration::from_nanos(nanos));
        self.finished += 1;
        let over = self.laps.is_over(self.finished);
        if over && let Some(now) = self.meter.now() {
            self.laps.next(&self.meter, self.progress(), now, FirstTask::AcceptedAt(None));
        }
        over
    }

    /// Runs tasks until a lap ends. Returns the number of tasks.
    fn lap(&mut self, nanos: u64) -> u64 {
        (1..).find(|_| self.run(nanos)).expect("a lap ends")
    }

    fn count_below(&self, nanos: u64) -> u64 {
        self.meter.run().count_below(Duration::from_nanos(nanos))
    }
}

#[test]
fn laps_grow_until_they_are_20_us_or_64_tasks_long() {
    let mut thread = Thread::new(Timing::Sampled);
    let lengths: Vec<_> = (0..9).map(|_| thread.lap(10)).collect();
    assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    let mut thread = Thread::new(Timing::Sampled);
    let lengths: Vec<_> = (0..6).map(|_| thread.lap(5_000)).collect();
    assert_eq!(lengths, [1, 2, 4, 4, 4, 4]);
    let mut thread = Thread::new(Timing::Sampled);
    assert_eq!([thread.lap(20_000), thread.lap(20_000), thread.lap(1_000_000)], [1, 1, 1]);
}

#[test]
fn a_long_task_is_charged_what_the_others_of_its_lap_do_not_explain() {
    let mut thread = Thread::new(Timing::Sampled);
    (0..7).for_each(|_| _ = thread.lap(10));
    (0..30).for_each(|_| assert!(!thread.run(10)));
    assert!(!thread.run(1_000_000));
    while !thread.run(10) {}
    let run = thread.meter.run();
    assert_eq!(run.count(), thread.finished);
    assert_eq!(run.sum(), thread.time.elapsed());
    assert_eq!(run.max(), Duration::from_nanos(1_000_000));
    assert_eq!(thread.count_below(1024), thread.finished - 1);
    assert_eq!([thread.lap(10), thread.lap(10)], [1, 2], "the next laps are short");
}

#[test]
fn every_task_is_a_lap_if_each_one_is_timed() {
    let mut thread = Thread::new(Timing::Every);
    assert!((0..100).all(|_| thread.lap(10) == 1));
}

#[test]
fn a_lap_after_a_long_pause_is_short() {
    let mut thread = Thread::new(Timing::Sampled);
    (0..7).for_each(|_| _ = thread.lap(10));
    for (pause, length) in [(LONG_PAUSE / 2, 64), (2 * LONG_PAUSE, 1)] {
        assert!(thread.laps.pause(&thread.meter, thread.progress()));
        assert!(!thread.laps.pause(&thread.meter, thread.progress()));
        thread.time.advance(Duration::from_nanos(pause));
        thread.resume();
        assert_eq!(thread.lap(10), length);
    }
    assert_eq!(thread.meter.run().sum(), Duration::from_nanos(10 * thread.finished), "without the pauses");
}

#[test]
fn a_change_of_timing_takes_effect_at_the_next_task() {
    let mut thread = Thread::new(Timing::Off);
    assert!((0..100).all(|_| !thread.run(10)));
    thread.meter.set_timing(Timing::Every);
    thread.laps.recheck();
    assert!((0..5).all(|_| thread.run(10)));
    assert_eq!(thread.meter.run().count(), 4, "the first one has begun before");
    thread.meter.set_timing(Timing::Off);
    thread.laps.recheck();
    assert!(thread.run(10));
    thread.laps.stop(&thread.meter, thread.progress());
    assert!((0..100).all(|_| !thread.run(10)));
    assert_eq!(thread.meter.run().count(), 4);
}

#[test]
fn a_reader_counts_the_tasks_of_an_idle_thread_once() {
    let mut thread = Thread::new(Timing::Sampled);
    (0..7).for_each(|_| _ = thread.lap(10));
    (0..5).for_each(|_| assert!(!thread.run(10)));
    for _ in 0..2 {
        let now = thread.meter.now().expect("it measures");
        thread.laps.settle(&thread.meter, now, thread.progress(), None);
        assert_eq!(thread.meter.run().count(), thread.finished);
        assert_eq!(thread.laps.busy(None), 10 * thread.finished);
    }
}

/// The thread was preempted after its last task, and a reader assumed that it was busy.
#[test]
fn what_a_reader_counted_after_the_last_task_stays() {
    let mut thread = Thread::new(Timing::Sampled);
    assert!(thread.run(10));
    thread.time.advance(Duration::from_millis(2));
    let seen = thread.laps.busy(thread.meter.now());
    assert_eq!(seen, 2_000_010);
    thread.time.advance(Duration::from_millis(1));
    assert!(thread.laps.pause(&thread.meter, thread.progress()));
    assert_eq!(thread.laps.busy(None), seen);
    let run = thread.meter.run();
    assert_eq!((run.sum(), run.count()), (Duration::from_nanos(seen), 1));
}

/// The thread was preempted between its reading of the clock and the end of the lap, and a reader
/// reported a later time.
#[test]
fn what_a_reader_counted_before_the_lap_ended_stays() {
    for pauses in [false, true] {
        let mut thread = Thread::new(Timing::Sampled);
        thread.time.advance(Duration::from_nanos(10));
        thread.finished += 1;
        let read = thread.meter.now().expect("it measures");
        thread.time.advance(Duration::from_millis(2));
        let seen = thread.laps.busy(thread.meter.now());
        thread.laps.next(&thread.meter, thread.progress(), read, FirstTask::AcceptedAt(None));
        assert_eq!(thread.laps.busy(None), seen);
        let mut busy = seen;
        if pauses {
            assert!(thread.laps.pause(&thread.meter, thread.progress()));
        } else {
            assert!(thread.run(10));
            busy += 10; // the time that was reported is not counted again
        }
        assert_eq!(thread.laps.busy(None), busy);
        assert_eq!(thread.meter.run().sum(), Duration::from_nanos(busy));
    }
}

/// A snapshot reports a running task, and measuring stops before the task ends.
#[test]
fn what_a_reader_counted_before_measuring_stopped_stays() {
    let mut thread = Thread::new(Timing::Sampled);
    thread.time.advance(Duration::from_millis(2));
    let seen = thread.laps.busy(thread.meter.now());
    thread.meter.set_timing(Timing::Off);
    thread.laps.recheck();
    assert!(thread.run(10));
    thread.laps.stop(&thread.meter, thread.progress());
    let figures = |thread: &Thread| (thread.laps.busy(None), thread.meter.run().sum());
    let as_seen = |nanos| (nanos, Duration::from_nanos(nanos));
    thread.meter.set_timing(Timing::Sampled);
    thread.resume();
    assert_eq!(figures(&thread), as_seen(seen));
    assert!(thread.run(10));
    assert_eq!(figures(&thread), as_seen(seen + 10));
}
