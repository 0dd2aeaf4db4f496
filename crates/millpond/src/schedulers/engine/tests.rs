//! Who gets what, where the threads of slots are between two steps: asleep, looking, or called and not come.
//!
//! No thread runs here. A test says what the threads do, which from outside is a matter of luck, and sees whom the
//! state calls and what it lets them take.

use std::time::Duration;

use super::Shape;
use super::slot::{Assigned, Permit, Thread};
use super::state::{Deferred, State};
use crate::interrupt::wait::WaitCell;
use crate::schedulers::job::{Job, Work};
use crate::sync::Arc;
use crate::task::Task;
use crate::time::clock::ManualClock;

const TTL: Duration = Duration::from_secs(60);

/// A bounded-elastic scheduler's state, its clock, and what it leaves to be done.
struct Scene {
    state: State,
    after: Deferred,
    time: ManualClock,
}

impl Scene {
    fn new(max: usize) -> Scene {
        let time = ManualClock::new();
        let state = State::new(time.clock(), "test".into(), Shape::Elastic { ttl: TTL }, true, max, 10);
        Scene { state, after: Deferred::default(), time }
    }

    /// `n` slots that are idle, the last the newest, and whose threads sleep.
    fn asleep<const N: usize>(&mut self) -> [usize; N] {
        let now = self.time.clock().tick();
        let slots = [(); N].map(|()| self.state.new_slot(now));
        for index in slots {
            let permit = self.state.hold(index);
            self.state.at(index).thread = Thread::Parked;
            self.state.at(index).cell = Some(Arc::new(WaitCell::for_this_thread()));
            self.state.give_back(permit, &mut self.after);
        }
        slots
    }

    /// The slot's thread has found nothing, and is still awake.
    fn looks(&mut self, index: usize) {
        let slot = self.state.at(index);
        slot.thread = Thread::Looking;
        slot.cell.as_ref().expect("its thread is there").reset();
        self.state.searching.push(index);
    }

    /// Somebody schedules a task.
    fn submit(&mut self) -> Arc<Job> {
        let task = Task::new(|| {});
        let job = Job::new(Work::Once(task), None);
        let index = self.state.pick();
        let permit = self.state.hold(index);
        self.state.put(&job, permit, false, &mut self.after).expect("there is room");
        job
    }

    /// The slot's thread, which was called or has looked long enough, asks for work.
    fn comes(&mut self, index: usize) -> Option<Assigned> {
        let mut call = 1;
        match std::mem::replace(&mut self.state.at(index).thread, Thread::Here) {
            Thread::Looking => self.state.searching.retain(|looker| *looker != index),
            Thread::Woken(ended) => {
                self.state.woken -= 1;
                call = self.state.many_to_call(ended);
            }
            other => panic!("{other:?}"),
        }
        let next = self.state.take_next(index, false, &mut self.after);
        self.state.see_to_owed(call, &mut self.after);
        next
    }

    /// The slot's thread has run something, and asks for more.
    fn ends(&mut self, index: usize, ran: Assigned) -> Option<Assigned> {
        let looking = self.state.hold(index);
        self.state.running -= 1;
        self.state.counted.completed += 1;
        self.state.at(index).running = None;
        self.give_back(ran.permit);
        let next = self.state.take_next(index, true, &mut self.after);
        self.state.see_to_owed(1, &mut self.after);
        if next.is_none() {
            self.looks(index);
        }
        self.give_back(Some(looking));
        next
    }

    fn give_back(&mut self, permit: Option<Permit>) {
        if let Some(permit) = permit {
            self.state.give_back(permit, &mut self.after);
        }
    }

    fn is_called(&mut self, index: usize) -> bool {
        matches!(self.state.at(index).thread, Thread::Woken(_))
    }

    fn is_owed(&mut self, index: usize) -> bool {
        matches!(self.state.at(index).thread, Thread::Owed)
    }
}

fn is(handed: Option<&Assigned>, job: &Arc<Job>) -> bool {
    handed.is_some_and(|handed| Arc::ptr_eq(&handed.job, job))
}

// RS-025. A thread that was stopped while it looked was called instead: the task ran in a slot that had been idle for longer,
// and the newest came back as if it had been used, so both were kept.
#[test]
fn the_slot_that_became_idle_last_is_called_while_the_thread_of_an_older_one_looks() {
    let mut scene = Scene::new(2);
    let [older, newest] = scene.asleep();
    scene.looks(older);
    let job = scene.submit();
    assert!(scene.is_called(newest) && !scene.is_called(older));
    assert_eq!(scene.after.wake.len(), 1);
    assert!(scene.comes(older).is_none(), "it is not its work");
    assert!(is(scene.comes(newest).as_ref(), &job));
    assert_eq!(scene.state.idle, [older]);
}

#[test]
fn a_thread_that_looks_in_an_idle_slot_takes_nothing_that_was_handed_to_others() {
    let mut scene = Scene::new(3);
    let [older, middle, newest] = scene.asleep();
    scene.looks(older);
    let jobs = [scene.submit(), scene.submit()];
    assert!(scene.is_called(newest) && scene.is_owed(middle), "one wake-up at a time");
    assert!(scene.comes(older).is_none());
    assert!(is(scene.comes(newest).as_ref(), &jobs[0]));
    assert!(scene.is_called(middle), "whoever comes calls the next");
    assert!(is(scene.comes(middle).as_ref(), &jobs[1]));
    assert_eq!(scene.state.idle, [older]);
}

#[test]
fn a_slot_whose_work_another_took_over_has_not_been_used() {
    let mut scene = Scene::new(4);
    let [oldest, older, called, works] = scene.asleep();
    scene.looks(works);
    scene.submit();
    let first = scene.comes(works).expect("it was handed to it");
    scene.time.advance(TTL / 2);
    scene.submit();
    let second = scene.submit();
    assert!(scene.is_called(called) && scene.is_owed(older));
    let next = scene.ends(works, first);
    assert!(is(next.as_ref(), &second), "somebody who is awake does it");
    assert_eq!(scene.state.idle, [oldest, older], "where it was");
    assert_eq!((scene.state.busy(), scene.state.count), (2, 4));
    assert!(scene.ends(works, next.expect("just seen")).is_none());
    assert_eq!(scene.state.idle, [oldest, older, works], "the newest is the one that was used");
    scene.time.advance(TTL / 2);
    let now = scene.time.clock().tick();
    scene.state.evict(now, TTL, &mut scene.after);
    assert_eq!(scene.state.idle, [works], "the other has aged all the time");
}

// A thread that was done took work over from a slot whose thread slept; that slot was free, nobody came to it, and what was
// in line waited for a thread that had work.
#[test]
fn work_is_not_taken_over_as_long_as_something_is_in_line() {
    let mut scene = Scene::new(3);
    let [pending_wake, called, works] = scene.asleep();
    scene.looks(works);
    scene.submit();
    let first = scene.comes(works).expect("it was handed to it");
    let jobs = [scene.submit(), scene.submit(), scene.submit()];
    assert!(scene.is_called(called) && scene.is_owed(pending_wake));
    assert_eq!(scene.state.in_line, 1);
    assert!(is(scene.ends(works, first).as_ref(), &jobs[2]), "what is in line");
    assert!(is(scene.comes(called).as_ref(), &jobs[0]));
    assert!(scene.is_called(pending_wake));
    assert!(is(scene.comes(pending_wake).as_ref(), &jobs[1]));
}

#[test]
fn as_many_slots_are_busy_when_work_is_taken_over_as_when_it_is_not() {
    let mut scene = Scene::new(4);
    let [pending_wake, called, works] = scene.asleep();
    let home = scene.state.hold(works); // as a lane does
    scene.looks(works);
    scene.submit();
    scene.submit();
    assert!(scene.is_called(called) && scene.is_owed(pending_wake));
    assert_eq!(scene.state.busy(), 3);
    assert!(scene.comes(works).is_none(), "its slot would be busy for two, and the other one idle");
    assert_eq!(scene.state.busy(), 3);
    scene.give_back(Some(home));
}

/// Eight tasks for eight slots whose threads sleep: the slots in the order in which they are called, and who of them is.
fn wave() -> (Scene, impl Fn(&mut Scene) -> [u8; 8], [usize; 8]) {
    let mut scene = Scene::new(8);
    let mut slots = scene.asleep();
    slots.reverse();
    for _ in slots {
        scene.submit();
    }
    let called = move |scene: &mut Scene| slots.map(|index| u8::from(scene.is_called(index)));
    assert_eq!(called(&mut scene), [1, 0, 0, 0, 0, 0, 0, 0], "the submitter calls one");
    (scene, called, slots)
}

// One after the other, 64 wake-ups took as long as the tasks they were for.
#[test]
fn whoever_comes_to_a_wave_of_long_tasks_calls_two_as_long_as_many_are_left() {
    let (mut scene, called, [a, b, c, d, e, ..]) = wave();
    assert!(scene.comes(a).is_some());
    assert_eq!(called(&mut scene), [0, 1, 1, 0, 0, 0, 0, 0]);
    assert!(scene.comes(b).is_some());
    assert_eq!(called(&mut scene), [0, 0, 1, 1, 1, 0, 0, 0]);
    assert!(scene.comes(c).is_some());
    assert_eq!(called(&mut scene), [0, 0, 0, 1, 1, 0, 0, 0], "few are left, and two are on their way");
    assert!(scene.comes(d).is_some() && scene.comes(e).is_some());
    assert_eq!(called(&mut scene), [0, 0, 0, 0, 0, 1, 0, 0], "now nobody was");
}

#[test]
fn whoever_comes_calls_no_second_one_if_a_run_has_ended_since_it_was_called() {
    let (mut scene, called, [a, b, c, ..]) = wave();
    let first = scene.comes(a).expect("it was handed to it");
    assert!(scene.ends(a, first).is_some(), "it takes over what another is pending_wake");
    assert!(scene.comes(b).is_some());
    assert_eq!(called(&mut scene), [0, 0, 1, 0, 0, 0, 0, 0]);
    assert!(scene.comes(c).is_some());
    assert_eq!(called(&mut scene), [0, 0, 0, 0, 1, 0, 0, 0], "the fourth has nothing to do any more");
}
