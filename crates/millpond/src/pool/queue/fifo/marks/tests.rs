//! Tests of time marks: the reported age of the head is never too small and only slightly too
//! large.

use std::time::Duration;

use proptest::prelude::*;

use super::super::Fifo;
use super::*;
use crate::task::{Task, TaskId};
use crate::time::clock::ManualClock;

/// A queue with time marks, and its expected contents.
struct Dated {
    time: ManualClock,
    fifo: Fifo,
    /// The queued tasks and when they were pushed.
    expected: VecDeque<(TaskId, Duration)>,
    /// The largest age of the head so far.
    span: Duration,
}

impl Dated {
    fn new() -> Dated {
        let time = ManualClock::new();
        let fifo = Fifo::new(usize::MAX, time.clock());
        fifo.set_marks(true);
        Dated { time, fifo, expected: VecDeque::new(), span: Duration::ZERO }
    }

    fn push(&mut self) {
        let task = Task::new(|| {});
        self.expected.push_back((task.id(), self.time.elapsed()));
        assert!(self.fifo.push(task.id(), task, || ()).is_ok());
    }

    fn remove(&mut self, keep: impl Fn(usize) -> bool) {
        let kept = self.expected.iter().enumerate().filter(|(at, _)| keep(*at)).map(|(_, entry)| *entry);
        self.expected = kept.collect();
        self.fifo.remove_if(|task| !self.expected.iter().any(|(id, _)| *id == task.id()));
    }

    /// The reported age is at least the actual age, and not much larger.
    fn check(&mut self) {
        let Some((_, pushed)) = self.expected.front() else {
            return assert_eq!(self.fifo.head_since(), None);
        };
        self.span = self.span.max(self.time.elapsed() - *pushed);
        let since = self.fifo.head_since().expect("the queue is not empty").nanos();
        let pushed = pushed.as_nanos() as u64;
        assert!(since <= pushed, "{since} for {pushed}");
        let error = Duration::from_nanos(pushed - since);
        assert!(error <= self.span / 12, "{error:?} in {:?}", self.span);
    }
}

#[test]
fn the_time_of_a_burst_is_that_of_its_first_task_and_later_tasks_have_their_own() {
    let mut queue = Dated::new();
    (0..1000).for_each(|_| queue.push());
    queue.time.advance(Duration::from_secs(10));
    queue.push();
    let positions: Vec<_> = (0..2).map(|_| queue.fifo.segments.begin()).collect();
    assert_eq!(queue.fifo.since(positions[0]), Some(Tick::ORIGIN));
    (0..1000).for_each(|_| assert!(queue.fifo.pop().is_some()));
    assert_eq!(queue.fifo.head_since(), Some(Tick::ORIGIN.plus(Duration::from_secs(10))));
}

#[test]
fn a_burst_has_a_mark_for_every_few_tasks() {
    let mut queue = Dated::new();
    queue.fifo.space_marks(32);
    let before = queue.time.readings();
    (0..1 + 2 + 4 + 8 + 16 + 10 * 32).for_each(|_| queue.push());
    assert!(queue.time.readings() - before <= 17, "{}", queue.time.readings() - before);
    queue.fifo.ask_for_mark();
    queue.fifo.ask_for_mark();
    let before = queue.time.readings();
    queue.push();
    assert_eq!(queue.time.readings() - before, 1);
    // With slow pushes, each task has a mark.
    for _ in 0..40 {
        queue.time.advance(Duration::from_millis(1));
        queue.push();
    }
    assert!(queue.time.readings() - before > 5);
    queue.fifo.set_marks(false);
    let before = queue.time.readings();
    (0..100).for_each(|_| queue.push());
    assert_eq!(queue.time.readings(), before);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 150 })
    })]

    #[test]
    fn the_head_is_as_old_as_it_is(
        steps in prop::collection::vec((0..10_u8, 0..30_u32), 1..if cfg!(miri) { 30 } else { 400 }),
    ) {
        let mut queue = Dated::new();
        for (kind, size) in steps {
            match kind {
                0..4 => (0..size).for_each(|_| queue.push()),
                4..6 => {
                    for _ in 0..size.min(queue.expected.len() as u32) {
                        let (id, _) = queue.expected.pop_front().expect("as many as that");
                        assert_eq!(queue.fifo.pop().map(|task| task.id()), Some(id));
                    }
                }
                6 => queue.remove(|at| at % 3 != 1),
                7 => queue.remove(|at| at % 7 == 3),
                _ => queue.time.advance(Duration::from_nanos(1 << size)),
            }
            queue.check();
        }
    }
}
