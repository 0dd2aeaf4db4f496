//! Tests of which slot gets which work, with threads that are parked, searching or notified.
//!
//! No thread runs here. A test decides when each thread asks for work, which depends on timing in
//! production. It then checks which threads the state wakes and which work it gives them.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::State;
use super::slot_thread::ThreadState;
use crate::interrupt::wait::WaitCell;
use crate::monitor::{Meter, Timing};
use crate::schedulers::end::Lifecycle;
use crate::schedulers::engine::deferred::Deferred;
use crate::schedulers::engine::model::{Assigned, Done, Next, Permit, Plan, Shape, SlotRef};
use crate::schedulers::engine::source::ThreadSource;
use crate::schedulers::job::JobRef;
use crate::sync::Arc;
use crate::task::{Outcome, RunEnd, TaskId};
use crate::threads::plain_threads;
use crate::time::clock::{Clock, ManualClock, Tick};

const TTL: Duration = Duration::from_secs(60);

/// The state of a bounded-elastic scheduler, its clock, and its deferred effects.
struct Scene {
    state: State,
    deferred: Deferred,
    time: ManualClock,
}

impl Scene {
    fn new(max_slots: usize) -> Scene {
        let time = ManualClock::new();
        let clock = time.clock();
        Scene::with_clock(max_slots, time, clock)
    }

    fn with_clock(max_slots: usize, time: ManualClock, clock: Clock) -> Scene {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let plan = Plan {
            name: "test".to_owned(),
            registered_as: "test".to_owned(),
            shape: Shape::Elastic { ttl: TTL },
            is_work_movable: true,
            max_slots,
            queue_capacity: 10,
            source: ThreadSource::threads(plain_threads(), "test", &NUMBERS, false),
            clock: clock.clone(),
            has_timing: true,
        };
        let meter = Arc::new(Meter::new(clock, Timing::Sampled, 1));
        let state = State::new(&plan, "test".into(), Arc::new(Lifecycle::default()), &meter);
        Scene { state, deferred: Deferred::default(), time }
    }

    /// Creates `N` idle slots whose threads are parked. The last one is the newest.
    fn parked<const N: usize>(&mut self) -> [usize; N] {
        let permits = [(); N].map(|()| self.state.hold_picked());
        permits.map(|permit| {
            let index = permit.slot().index;
            let thread = self.state.slots.at_mut(index).thread_mut();
            thread.arrive(&Arc::new(WaitCell::for_this_thread()));
            thread.park();
            self.release(permit);
            index
        })
    }

    /// The thread of the slot has found no work and searches.
    fn search(&mut self, index: usize) {
        self.state.wakes.search(&mut self.state.slots, index);
    }

    fn submit(&mut self) -> JobRef {
        let job = JobRef::of(TaskId::fresh(), || {}, Duration::ZERO, None);
        let permit = self.state.hold_picked();
        self.state.accept_now(&job, permit, Tick::ORIGIN, &mut self.deferred).expect("there is capacity");
        job
    }

    fn slot(&self, index: usize) -> SlotRef {
        SlotRef { index, id: self.state.slots.at(index).id() }
    }

    /// The thread of the slot asks for work, after a notification or at the end of its search.
    fn come(&mut self, index: usize) -> Option<Assigned> {
        let slot = self.slot(index);
        work_of(self.state.next(slot, false, &mut self.deferred))
    }

    /// The thread of the slot has ended a run and asks for more work.
    fn end(&mut self, index: usize, ran: Assigned) -> Option<Assigned> {
        let slot = self.slot(index);
        let end = RunEnd { outcome: Outcome::Succeeded, again: false };
        let done = Done::new(&ran.job, None, Some(slot), Some(end));
        work_of(self.state.next_after_run(slot, &done, ran.permit, &mut self.deferred))
    }

    fn release(&mut self, permit: Permit) {
        self.state.release(permit, &mut self.deferred);
    }

    fn is_notified(&self, index: usize) -> bool {
        matches!(self.state.slots.at(index).thread().state(), ThreadState::Notified(_))
    }

    fn is_wake_pending(&self, index: usize) -> bool {
        self.state.slots.at(index).thread().state() == ThreadState::WakePending
    }

    /// Returns the idle slots, the newest last.
    fn idle(&self) -> Vec<usize> {
        let mut idle: Vec<_> = self.state.slots.idle().collect();
        idle.reverse();
        idle
    }
}

fn work_of(next: Next) -> Option<Assigned> {
    match next {
        Next::Run(assigned) => Some(assigned),
        Next::Search | Next::Park => None,
        Next::Leave => panic!("the slot is there"),
    }
}

fn is(assigned: Option<&Assigned>, job: &JobRef) -> bool {
    assigned.is_some_and(|assigned| assigned.job.is(job))
}

// RS-025. Previously a thread that was preempted during its search was notified instead. The task
// then ran in a slot that had been idle for longer, while the newest slot counted as used. Both
// were kept.
#[test]
fn the_newest_idle_slot_is_notified_while_the_thread_of_an_older_one_searches() {
    let mut scene = Scene::new(2);
    let [older, newest] = scene.parked();
    scene.search(older);
    let job = scene.submit();
    assert!(scene.is_notified(newest) && !scene.is_notified(older));
    assert_eq!(scene.deferred.wake.len(), 1);
    assert!(scene.come(older).is_none(), "it is not its work");
    assert!(is(scene.come(newest).as_ref(), &job));
    assert_eq!(scene.idle(), [older]);
}

#[test]
fn a_thread_that_searches_in_an_idle_slot_takes_no_work_of_others() {
    let mut scene = Scene::new(3);
    let [older, middle, newest] = scene.parked();
    scene.search(older);
    let jobs = [scene.submit(), scene.submit()];
    assert!(scene.is_notified(newest) && scene.is_wake_pending(middle), "one wake-up at a time");
    assert!(scene.come(older).is_none());
    assert!(is(scene.come(newest).as_ref(), &jobs[0]));
    assert!(scene.is_notified(middle), "the thread that comes wakes the next");
    assert!(is(scene.come(middle).as_ref(), &jobs[1]));
    assert_eq!(scene.idle(), [older]);
}

#[test]
fn a_slot_whose_work_was_stolen_has_not_been_used() {
    let mut scene = Scene::new(4);
    let [oldest, older, notified, works] = scene.parked();
    scene.search(works);
    scene.submit();
    let first = scene.come(works).expect("it was assigned to it");
    scene.time.advance(TTL / 2);
    scene.submit();
    let second = scene.submit();
    assert!(scene.is_notified(notified) && scene.is_wake_pending(older));
    let next = scene.end(works, first);
    assert!(is(next.as_ref(), &second), "a thread that is awake runs it");
    assert_eq!(scene.idle(), [oldest, older], "where it was");
    assert_eq!((scene.state.slots.busy(), scene.state.slots.count()), (2, 4));
    assert!(scene.end(works, next.expect("just seen")).is_none());
    assert_eq!(scene.idle(), [oldest, older, works], "the newest is the one that was used");
    scene.time.advance(TTL / 2);
    scene.state.alarm_rang(&mut scene.deferred);
    assert_eq!(scene.idle(), [works], "the other has aged all the time");
}

// Previously a thread stole, after its run, from a slot whose thread was parked. That slot became
// free, no thread arrived there, and queued work waited for a busy thread.
#[test]
fn work_is_not_stolen_while_other_work_is_queued() {
    let mut scene = Scene::new(3);
    let [pending, notified, works] = scene.parked();
    scene.search(works);
    scene.submit();
    let first = scene.come(works).expect("it was assigned to it");
    let jobs = [scene.submit(), scene.submit(), scene.submit()];
    assert!(scene.is_notified(notified) && scene.is_wake_pending(pending));
    assert!(scene.state.queues.has_shared());
    assert!(is(scene.end(works, first).as_ref(), &jobs[2]), "the queued one");
    assert!(is(scene.come(notified).as_ref(), &jobs[0]));
    assert!(scene.is_notified(pending));
    assert!(is(scene.come(pending).as_ref(), &jobs[1]));
}

#[test]
fn as_many_slots_are_busy_when_work_is_stolen_as_when_it_is_not() {
    let mut scene = Scene::new(4);
    let [pending, notified, works] = scene.parked();
    let home = scene.state.slots.hold(works); // as a lane does
    scene.search(works);
    scene.submit();
    scene.submit();
    assert!(scene.is_notified(notified) && scene.is_wake_pending(pending));
    assert_eq!(scene.state.slots.busy(), 3);
    assert!(scene.come(works).is_none(), "its slot would be busy for two, and the other one idle");
    assert_eq!(scene.state.slots.busy(), 3);
    scene.release(home);
}

/// Submits eight tasks to eight slots with parked threads. Returns the scene, a function that tells
/// which slots are notified, and the slots in the order of their notification.
fn wave() -> (Scene, impl Fn(&Scene) -> [u8; 8], [usize; 8]) {
    let mut scene = Scene::new(8);
    let mut slots = scene.parked();
    slots.reverse();
    for _ in slots {
        scene.submit();
    }
    let called = move |scene: &Scene| slots.map(|index| u8::from(scene.is_notified(index)));
    assert_eq!(called(&scene), [1, 0, 0, 0, 0, 0, 0, 0], "the submitter wakes one");
    (scene, called, slots)
}

// One wake-up at a time, 64 wake-ups took as long as their tasks.
#[test]
fn a_thread_of_a_wave_of_long_tasks_wakes_two_while_many_are_left() {
    let (mut scene, called, [a, b, c, d, e, ..]) = wave();
    assert!(scene.come(a).is_some());
    assert_eq!(called(&scene), [0, 1, 1, 0, 0, 0, 0, 0]);
    assert!(scene.come(b).is_some());
    assert_eq!(called(&scene), [0, 0, 1, 1, 1, 0, 0, 0]);
    assert!(scene.come(c).is_some());
    assert_eq!(called(&scene), [0, 0, 0, 1, 1, 0, 0, 0], "few are left, and two are on their way");
    assert!(scene.come(d).is_some() && scene.come(e).is_some());
    assert_eq!(called(&scene), [0, 0, 0, 0, 0, 1, 0, 0], "now none was");
}

#[test]
fn a_thread_wakes_no_second_one_if_a_run_has_ended_since_it_was_notified() {
    let (mut scene, called, [a, b, c, ..]) = wave();
    let first = scene.come(a).expect("it was assigned to it");
    assert!(scene.end(a, first).is_some(), "it steals");
    assert!(scene.come(b).is_some());
    assert_eq!(called(&scene), [0, 0, 1, 0, 0, 0, 0, 0]);
    assert!(scene.come(c).is_some());
    assert_eq!(called(&scene), [0, 0, 0, 0, 1, 0, 0, 0], "the work of the fourth was stolen");
}

#[test]
fn a_failed_start_does_not_postpone_the_retry_of_another() {
    let mut scene = Scene::new(1);
    let at = |nanos| Tick::from_nanos(nanos);
    [at(20), at(30), at(10), at(40)].into_iter().for_each(|retry| scene.state.set_retry(retry));
    assert_eq!(scene.state.next_alarm(), Some(at(10)));
}

#[test]
fn work_that_is_due_together_is_handled_in_parts() {
    let mut scene = Scene::with_clock(20, ManualClock::new(), Clock::system());
    let due = scene.state.now();
    for _ in 0..200 {
        let job = JobRef::of(TaskId::fresh(), || {}, TTL, None);
        scene.state.accept_delayed(&job, due).expect("there is capacity");
    }
    let mut left = 200;
    for _ in 0..100 {
        scene.state.alarm_rang(&mut scene.deferred);
        let before = std::mem::replace(&mut left, scene.state.timers.jobs());
        assert!(before - left <= 64, "{before} {left}");
        if left == 0 {
            return;
        }
        let now = scene.state.now();
        assert!(scene.state.next_alarm().is_some_and(|next| next <= now), "the alarm rings at once");
    }
    panic!("{left} jobs are left after 100 rings");
}
