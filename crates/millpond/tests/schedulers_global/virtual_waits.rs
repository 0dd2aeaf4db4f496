//! Virtual time: waits inside a task for work that only the advancing thread could run.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::{LONG, SHORT, alone};
use millpond::schedulers::{Disposable, Scheduler, SchedulerExt, VirtualTimeScheduler, Worker};
use millpond::{JoinError, TaskHandle, TaskOf};

const SECOND: Duration = Duration::from_secs(1);

/// Runs `waits` in a task of a lane and returns its result. A wait that never ends fails the test
/// instead of blocking it.
#[track_caller]
fn inside_a_task<R: Send + 'static>(
    waits: impl FnOnce(&VirtualTimeScheduler, &Worker) -> R + Send + 'static,
) -> R {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let time = VirtualTimeScheduler::new();
        let (lane, t) = (time.create_worker(), time.clone());
        let own = lane.clone();
        lane.schedule(move || tell.send(waits(&t, &own)).unwrap()).unwrap();
        time.advance_by(Duration::ZERO);
    });
    told.recv_timeout(LONG / 4).expect("the wait ended")
}

/// Submits a task and returns its handle.
fn handle_of(submit: impl FnOnce(millpond::Task) -> Disposable) -> TaskHandle<u8> {
    let (task, handle) = TaskOf::new(|| 7).into_parts();
    submit(task);
    handle
}

#[test]
fn a_wait_for_later_work_of_the_own_lane_is_false_at_once() {
    let _alone = alone();
    let waited = inside_a_task(|_, own| own.schedule(|| {}).unwrap().wait(Duration::MAX));
    assert_eq!(waited, Ok(false));
}

#[test]
fn a_wait_for_work_that_is_not_due_is_false_at_once() {
    let _alone = alone();
    let waited = inside_a_task(|time, own| {
        let later = time.schedule_after(SECOND, || {}).unwrap();
        let later_here = own.schedule_after(SECOND, || {}).unwrap();
        let series = time.schedule_periodically(SECOND, SECOND, || {}).unwrap();
        [later, later_here, series].map(|work| work.wait(Duration::MAX))
    });
    assert_eq!(waited, [Ok(false); 3]);
}

#[test]
fn a_join_that_only_this_thread_could_end_would_deadlock() {
    let _alone = alone();
    let joined = inside_a_task(|time, own| {
        let handles = [
            handle_of(|task| own.schedule_task(task).unwrap()),
            handle_of(|task| time.schedule_task_after(SECOND, task).unwrap()),
        ];
        handles.map(|mut handle| handle.join_timeout(Duration::MAX))
    });
    for result in joined {
        assert!(matches!(result, Some(Err(JoinError::WouldDeadlock))), "{result:?}");
    }
}

/// As on other schedulers, a join with a limit times out.
#[test]
fn a_join_with_a_limit_of_work_that_is_not_due_times_out() {
    let _alone = alone();
    let joined = inside_a_task(|time, _| {
        handle_of(|task| time.schedule_task_after(SECOND, task).unwrap()).join_timeout(SHORT)
    });
    assert!(joined.is_none(), "{joined:?}");
}

#[test]
fn work_that_is_due_still_runs_in_place() {
    let _alone = alone();
    let (waited, joined) = inside_a_task(|time, _| {
        let other = time.create_worker();
        let first = other.schedule(|| {}).unwrap();
        let last = handle_of(|task| other.schedule_task(task).unwrap());
        let joined = last.join().unwrap();
        (first.wait(Duration::MAX), joined)
    });
    assert_eq!((waited, joined), (Ok(true), 7));
}

/// A thread that does not advance the time waits for the one that does.
#[test]
fn a_wait_outside_of_a_task_lasts_until_another_thread_advances_the_time() {
    let _alone = alone();
    let time = VirtualTimeScheduler::new();
    let task = time.schedule_after(SECOND, || {}).unwrap();
    thread::scope(|s| {
        let waiting = crate::support::block(s, || task.wait(LONG));
        time.advance_by(SECOND);
        assert_eq!(waiting.join(), Ok(true));
    });
}
