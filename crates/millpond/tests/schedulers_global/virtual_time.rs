//! Virtual time: when tasks run, and on which thread.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::support::{Counter, Gate, LONG, Notes, SHORT, alone, block, die, soon};
use millpond::schedulers::{self, Disposable, Scheduler, SchedulerExt, VirtualTimeScheduler};
use millpond::{RejectReason, Task, TaskOf, interrupt};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Schedules a task that records its name and the time.
#[track_caller]
fn note(
    scheduler: &impl Scheduler,
    time: &VirtualTimeScheduler,
    notes: &Notes<(&'static str, Duration)>,
    delay: Duration,
    name: &'static str,
) -> Disposable {
    let (time, notes) = (time.clone(), notes.clone());
    scheduler.schedule_after(delay, move || notes.add((name, time.now()))).unwrap()
}

/// The law of accounting, for an idle scheduler.
#[track_caller]
fn assert_settled(scheduler: &impl Scheduler, accepted: u64) {
    let stats = scheduler.stats();
    assert_eq!(stats.queued, 0, "{stats:?}");
    assert_eq!(stats.submitted, accepted, "{stats:?}");
    assert_eq!(stats.completed + stats.panicked + stats.cancelled, accepted, "{stats:?}");
}

#[test]
fn work_runs_by_due_time_and_then_by_submission_and_sees_its_due_time() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    note(&time, &time, &notes, s(3), "c");
    note(&time, &time, &notes, s(1), "a1");
    note(&time, &time, &notes, s(2), "b");
    note(&time, &time, &notes, s(1), "a2");
    note(&time, &time, &notes, s(9), "never");
    time.advance_by(s(5));
    assert_eq!(notes.take(), [("a1", s(1)), ("a2", s(1)), ("b", s(2)), ("c", s(3))]);
    assert_eq!(time.now(), s(5));
    assert_eq!(time.stats().queued, 1);
}

#[test]
fn nothing_runs_before_its_time() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let task = note(&time, &time, &notes, s(10), "late");
    time.advance_by(s(10) - Duration::from_nanos(1));
    assert!(notes.take().is_empty() && !task.is_disposed());
    time.advance_by(Duration::from_nanos(1));
    assert_eq!(notes.take(), [("late", s(10))]);
    assert!(task.is_disposed() && !task.is_cancelled());
}

#[test]
fn work_without_a_delay_waits_for_the_next_advance_which_may_be_by_zero() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    time.advance_to(s(4));
    note(&time, &time, &notes, Duration::ZERO, "now");
    assert_eq!(notes.take(), []);
    time.advance_by(Duration::ZERO);
    assert_eq!(notes.take(), [("now", s(4))]);
}

#[test]
fn everything_runs_on_the_advancing_thread() {
    let _alone = alone();
    let (time, threads) = (VirtualTimeScheduler::new(), Notes::new());
    let seen = threads.clone();
    time.schedule(move || seen.add(thread::current().id())).unwrap();
    let seen = threads.clone();
    time.create_worker().schedule(move || seen.add(thread::current().id())).unwrap();
    time.advance_by(s(1));
    assert_eq!(threads.take(), [thread::current().id(); 2]);
}

#[test]
fn work_scheduled_by_work_runs_in_the_same_advance_if_it_falls_due() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let (t, n) = (time.clone(), notes.clone());
    time.schedule_after(s(2), move || {
        note(&t, &t, &n, Duration::ZERO, "at once");
        note(&t, &t, &n, s(3), "at the end");
        note(&t, &t, &n, s(4), "too late");
        n.add(("first", t.now()));
    })
    .unwrap();
    note(&time, &time, &notes, s(3), "between");
    time.advance_by(s(5));
    assert_eq!(notes.take(), [("first", s(2)), ("at once", s(2)), ("between", s(3)), ("at the end", s(5))]);
}

#[test]
fn a_time_that_is_past_moves_nothing_and_runs_what_is_due() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    time.advance_to(s(5));
    note(&time, &time, &notes, Duration::ZERO, "due");
    time.advance_to(s(2));
    assert_eq!((notes.take(), time.now()), (vec![("due", s(5))], s(5)));
}

#[test]
fn advancing_inside_a_task_adds_to_the_advance_under_way() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let (t, n) = (time.clone(), notes.clone());
    time.schedule_after(s(1), move || {
        t.advance_by(s(10));
        n.add(("still inside", t.now()));
        t.advance_to(s(3));
    })
    .unwrap();
    note(&time, &time, &notes, s(12), "reached by that");
    time.advance_by(s(2));
    assert_eq!(notes.take(), [("still inside", s(1)), ("reached by that", s(12))]);
    assert_eq!(time.now(), s(12));
}

#[test]
fn advancing_on_another_thread_meanwhile_adds_too_and_returns_at_once() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let (running, go_on) = (Gate::new(), Gate::new());
    let (t, r, g) = (time.clone(), running.clone(), go_on.clone());
    time.schedule(move || {
        r.open();
        g.pass();
        assert_eq!(t.now(), Duration::ZERO, "time stands still while a task runs");
    })
    .unwrap();
    note(&time, &time, &notes, s(5), "later");
    thread::scope(|scope| {
        let first = scope.spawn(|| time.advance_by(s(2)));
        running.pass();
        time.advance_by(s(3));
        assert_eq!(notes.take(), []);
        go_on.open();
        first.join().unwrap();
    });
    assert_eq!(notes.take(), [("later", s(5))]);
    assert_eq!(time.now(), s(5));
    assert_eq!(time.stats().panicked, 0);
}

#[test]
fn a_panic_goes_to_the_error_hooks_and_time_goes_on() {
    let _alone = alone();
    let (time, notes, told) = (VirtualTimeScheduler::new(), Notes::new(), Notes::new());
    let hook = told.clone();
    schedulers::on_error("test", move |task, panic| {
        hook.add((task.name().map(str::to_owned), panic.message().map(str::to_owned)));
    });
    time.schedule_task_after(s(1), Task::new(|| die("boom")).named("bad")).unwrap();
    let mut runs = 0;
    let (t, n) = (time.clone(), notes.clone());
    time.schedule_periodically(s(1), s(1), move || {
        runs += 1;
        if runs == 1 {
            die("first run");
        }
        n.add(("again", t.now()));
    })
    .unwrap();
    note(&time, &time, &notes, s(1), "good");
    time.advance_by(s(3));
    assert_eq!(notes.take(), [("good", s(1)), ("again", s(2)), ("again", s(3))]);
    let bad = (Some("bad".to_owned()), Some("boom".to_owned()));
    assert_eq!(told.take(), [bad, (None, Some("first run".to_owned()))]);
    assert_eq!((time.stats().panicked, time.stats().completed), (2, 3));
}

#[test]
fn a_series_runs_once_in_every_period_until_it_is_disposed_of() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let (t, n) = (time.clone(), notes.clone());
    let series = time.schedule_periodically(s(2), s(3), move || n.add(t.now())).unwrap();
    time.advance_by(s(10));
    assert_eq!(notes.take(), [s(2), s(5), s(8)]);
    assert!(!series.is_disposed());
    assert!(series.dispose() && !series.dispose());
    time.advance_by(s(10));
    assert_eq!(notes.take(), []);
    assert_settled(&time, 4); // three runs, and one that was cancelled
}

#[test]
fn a_series_may_end_itself() {
    let _alone = alone();
    let (time, runs) = (VirtualTimeScheduler::new(), Counter::new());
    let (count, mine) = (runs.clone(), Arc::new(std::sync::OnceLock::<Disposable>::new()));
    let handle = Arc::clone(&mine);
    let series = time.schedule_periodically(Duration::ZERO, s(1), move || {
        count.add();
        if count.get() == 3 {
            assert!(handle.get().unwrap().dispose());
            assert!(!interrupt::is_interrupted(), "its own end does not interrupt it");
        }
    });
    mine.set(series.unwrap()).unwrap();
    time.advance_by(s(60));
    assert_eq!((runs.get(), time.stats().panicked), (3, 0));
    assert_settled(&time, 3);
}

#[test]
fn a_series_without_a_period_runs_once_at_each_moment_the_time_stops_at() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let (t, n) = (time.clone(), notes.clone());
    let series = time
        .schedule_periodically(Duration::ZERO, Duration::ZERO, move || n.add(("again", t.now())))
        .unwrap();
    note(&time, &time, &notes, s(1), "one");
    note(&time, &time, &notes, s(3), "three");
    time.advance_by(s(5));
    let expected =
        [("again", s(0)), ("one", s(1)), ("again", s(1)), ("three", s(3)), ("again", s(3)), ("again", s(5))];
    assert_eq!(notes.take(), expected);
    time.advance_by(Duration::ZERO);
    time.advance_by(Duration::ZERO);
    assert_eq!(notes.take(), [("again", s(5)); 2]);
    assert!(series.dispose());
    time.advance_by(s(1));
    assert_eq!(notes.take(), []);
    assert_settled(&time, 9); // eight runs, and one that was cancelled
}

#[test]
fn a_disposed_task_does_not_run_and_gives_up_what_it_captured_at_once() {
    let _alone = alone();
    let (time, dropped, runs) = (VirtualTimeScheduler::new(), Counter::new(), Counter::new());
    let (kept, count) = (dropped.on_drop(), runs.clone());
    let task = time
        .schedule_after(s(1), move || {
            count.add();
            drop(kept);
        })
        .unwrap();
    assert!(task.dispose() && task.is_cancelled());
    assert_eq!(dropped.get(), 1);
    time.advance_by(s(2));
    assert_eq!(runs.get(), 0);
    assert_settled(&time, 1);
}

#[test]
fn disposing_of_a_worker_cancels_its_work_and_no_other() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let (a, b) = (time.create_worker(), time.create_worker());
    for (worker, name) in [(&a, "a"), (&b, "b")] {
        let n = notes.clone();
        worker.schedule_after(s(1), move || n.add(name)).unwrap();
        let n = notes.clone();
        worker.schedule_periodically(s(2), s(5), move || n.add(name)).unwrap();
    }
    let n = notes.clone();
    time.schedule_after(s(1), move || n.add("direct")).unwrap();
    assert_eq!((a.queued(), b.queued()), (2, 2));
    a.dispose();
    assert!(a.is_disposed() && !b.is_disposed() && !time.is_disposed());
    assert_eq!((a.queued(), b.queued()), (0, 2));
    assert_eq!(a.schedule(|| {}).unwrap_err().reason(), RejectReason::WorkerDisposed);
    time.advance_by(s(2));
    assert_eq!(notes.take(), ["b", "direct", "b"]);
}

#[test]
fn disposing_cancels_everything_and_refuses_the_rest() {
    let _alone = alone();
    let time = VirtualTimeScheduler::new();
    let worker = time.create_worker();
    let tasks = [
        time.schedule(|| {}).unwrap(),
        time.schedule_after(s(1), || {}).unwrap(),
        time.schedule_periodically(s(1), s(1), || {}).unwrap(),
        time.schedule_periodically(Duration::ZERO, Duration::ZERO, || {}).unwrap(),
        worker.schedule_after(s(2), || {}).unwrap(),
    ];
    time.dispose();
    time.dispose();
    assert!(tasks.iter().all(Disposable::is_cancelled));
    assert!(time.is_disposed() && worker.is_disposed() && time.create_worker().is_disposed());
    let refused = time.schedule(|| {}).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::Shutdown);
    assert!(refused.to_string().contains("virtualTime"), "{refused}");
    assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    time.advance_by(s(9));
    assert_eq!(time.now(), s(9));
    assert_settled(&time, 5);
    assert_eq!(time.stats().rejected, 2);
    assert_eq!(time.dispose_gracefully(Duration::ZERO), Ok(true));
}

#[test]
fn disposing_interrupts_what_runs_and_the_advancing_thread_stays_as_it_was() {
    let _alone = alone();
    let time = VirtualTimeScheduler::new();
    let running = Gate::new();
    let started = running.clone();
    let task = time
        .schedule(move || {
            started.open();
            interrupt::sleep(LONG).unwrap_err();
        })
        .unwrap();
    thread::scope(|scope| {
        let advancing = scope.spawn(|| {
            time.advance_by(s(1));
            interrupt::is_interrupted()
        });
        running.pass();
        assert!(task.dispose());
        assert!(!advancing.join().unwrap());
    });
    assert_eq!((time.stats().panicked, time.now()), (0, s(1)));
}

#[test]
fn a_graceful_end_runs_one_shots_in_their_time_and_ends_series() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    note(&time, &time, &notes, s(2), "delayed");
    let series = time.schedule_periodically(s(1), s(1), || {}).unwrap();
    assert_eq!(time.dispose_gracefully(SHORT), Ok(false));
    assert!(series.is_cancelled() && time.is_disposed());
    assert_eq!(time.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    thread::scope(|scope| {
        let waiting = block(scope, || time.dispose_gracefully(LONG));
        time.advance_by(s(2));
        assert_eq!(waiting.join(), Ok(true));
    });
    assert_eq!(notes.take(), [("delayed", s(2))]);
    assert_settled(&time, 2);
}

#[test]
fn a_graceful_end_inside_a_task_does_not_wait_for_itself() {
    let _alone = alone();
    let (time, answers) = (VirtualTimeScheduler::new(), Notes::new());
    let (t, n) = (time.clone(), answers.clone());
    time.schedule(move || n.add(t.dispose_gracefully(Duration::MAX))).unwrap();
    time.advance_by(s(1));
    assert_eq!(answers.take(), [Ok(false)]);
    assert_eq!(time.dispose_gracefully(Duration::ZERO), Ok(true));
}

struct Wakes(Counter);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.add();
    }
}

#[test]
fn the_disposal_begins_with_the_first_poll_and_wakes_its_task() {
    let _alone = alone();
    let time = VirtualTimeScheduler::new();
    time.schedule_after(s(1), || {}).unwrap();
    let wakes = Counter::new();
    let waker = Waker::from(Arc::new(Wakes(wakes.clone())));
    let mut context = Context::from_waker(&waker);
    let mut disposal = pin!(time.disposal());
    assert!(!time.is_disposed());
    assert_eq!(disposal.as_mut().poll(&mut context), Poll::Pending);
    assert!(time.is_disposed());
    time.advance_by(s(1));
    assert!(wakes.get() > 0);
    assert_eq!(disposal.as_mut().poll(&mut context), Poll::Ready(()));
}

#[test]
fn waiting_inside_a_task_runs_what_is_due_in_place() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let (t, n) = (time.clone(), notes.clone());
    time.schedule(move || {
        let m = n.clone();
        let inner = t.schedule(move || m.add("inner")).unwrap();
        assert_eq!(inner.wait(LONG), Ok(true));
        n.add("outer");
    })
    .unwrap();
    time.advance_by(Duration::ZERO);
    assert_eq!(notes.take(), ["inner", "outer"]);
    assert_settled(&time, 2);
}

#[test]
fn waiting_inside_a_task_neither_overtakes_in_a_lane_nor_overlaps_with_it() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let (t, n) = (time.clone(), notes.clone());
    time.schedule(move || {
        let lane = t.create_worker();
        let m = n.clone();
        let first = lane.schedule(move || m.add("first")).unwrap();
        let m = n.clone();
        let second = lane.schedule(move || m.add("second")).unwrap();
        assert_eq!(second.wait(LONG), Ok(true));
        assert!(first.is_disposed() && !first.is_cancelled(), "it is before the second, and ran first");
        let m = n.clone();
        let inside = lane.clone();
        let third = lane.schedule(move || {
            let fourth = inside.schedule(|| {}).unwrap();
            assert_eq!(fourth.wait(SHORT), Ok(false), "the lane is in a run");
            m.add("third");
        });
        assert_eq!(third.unwrap().wait(LONG), Ok(true));
    })
    .unwrap();
    time.advance_by(Duration::ZERO);
    assert_eq!(notes.take(), ["first", "second", "third"]);
    assert_eq!(time.stats().panicked, 0);
    assert_settled(&time, 5);
}

/// With a thread such a wait ran both tasks. Here it waited for the first, which no other thread
/// runs.
#[test]
fn waiting_inside_a_task_runs_what_the_lane_has_to_do_before() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let (t, n) = (time.clone(), notes.clone());
    let lane = time.create_worker();
    let series = lane.schedule_periodically(s(1), s(1), {
        let (time, notes) = (time.clone(), notes.clone());
        move || notes.add(("series", time.now()))
    });
    time.schedule_after(s(1), move || {
        let schedule = |delay, name| {
            let (time, notes) = (t.clone(), n.clone());
            lane.schedule_after(delay, move || notes.add((name, time.now()))).unwrap()
        };
        schedule(Duration::ZERO, "first");
        let later = schedule(s(1), "later");
        assert_eq!(schedule(Duration::ZERO, "second").wait(LONG), Ok(true));
        n.add(("waited", t.now()));
        assert_eq!(later.wait(SHORT), Ok(false), "its time has not come");
    })
    .unwrap();
    time.advance_by(s(2));
    let at_once = ["series", "first", "second", "waited"].map(|name| (name, s(1)));
    assert_eq!(notes.take(), [&at_once[..], &[("series", s(2)), ("later", s(2))]].concat());
    assert!(series.unwrap().dispose());
    assert_eq!(time.stats().panicked, 0);
    assert_settled(&time, 7);
}

/// No thread but the advancing one could run it.
#[test]
fn joining_inside_a_task_runs_what_is_due_in_place() {
    let _alone = alone();
    let time = VirtualTimeScheduler::new();
    let t = time.clone();
    time.schedule(move || {
        let lane = t.create_worker();
        lane.schedule(|| {}).unwrap();
        let (task, handle) = TaskOf::new(|| 7).into_parts();
        lane.schedule_task(task).unwrap();
        assert_eq!(soon(handle).unwrap(), 7);
    })
    .unwrap();
    time.advance_by(Duration::ZERO);
    assert_eq!((time.stats().completed, time.stats().panicked), (3, 0));
}

#[test]
fn the_far_end_of_time_is_reached_at_once_and_what_is_due_never_stays() {
    let _alone = alone();
    let (time, notes) = (VirtualTimeScheduler::new(), Notes::new());
    let never = note(&time, &time, &notes, Duration::MAX, "never");
    note(&time, &time, &notes, s(3600 * 24 * 365 * 100), "in a century");
    time.advance_by(Duration::MAX);
    time.advance_by(Duration::MAX);
    assert_eq!(notes.take().len(), 1);
    assert!(!never.is_disposed());
}

#[test]
fn when_nobody_can_advance_any_more_what_waits_is_cancelled() {
    let _alone = alone();
    let time = VirtualTimeScheduler::new();
    let worker = time.create_worker();
    let (task, in_lane) =
        (time.schedule_after(s(1), || {}).unwrap(), worker.schedule_after(s(1), || {}).unwrap());
    let other = time.clone();
    drop(time);
    assert!(!task.is_disposed(), "there is another handle");
    drop(other);
    assert!(task.is_cancelled() && in_lane.is_cancelled());
    assert_eq!(task.wait(LONG), Ok(true));
    assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
}

#[test]
fn schedule_hooks_are_passed() {
    let _alone = alone();
    let hooked = Counter::new();
    let count = hooked.clone();
    schedulers::on_schedule("test", move |body| {
        count.add();
        body
    });
    let (time, runs) = (VirtualTimeScheduler::new(), Counter::new());
    let count = runs.clone();
    time.schedule_periodically(Duration::ZERO, s(1), move || count.add()).unwrap();
    let count = runs.clone();
    time.create_worker().schedule(move || count.add()).unwrap();
    time.advance_by(s(2));
    assert_eq!((hooked.get(), runs.get()), (2, 4));
    schedulers::on_schedule("test", |_| die("no"));
    let refused = time.schedule(|| {}).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::CallbackPanicked);
    schedulers::reset_all_on_schedule();
    assert_eq!(time.stats().rejected, 1);
}

#[test]
fn once_installed_all_schedulers_go_by_it_and_afterwards_none() {
    let _alone = alone();
    let before = schedulers::parallel();
    let (time, snapshot) = VirtualTimeScheduler::install();
    let notes = Notes::new();
    note(&schedulers::single(), &time, &notes, s(4), "single");
    note(&schedulers::parallel(), &time, &notes, s(3), "parallel");
    note(&schedulers::bounded_elastic(), &time, &notes, s(2), "bounded elastic");
    note(&schedulers::new_single("x").unwrap(), &time, &notes, s(1), "new single");
    let own = schedulers::new_parallel(3, "x").unwrap();
    note(&own, &time, &notes, s(1), "new parallel");
    let elastic = schedulers::new_bounded_elastic(1, 1, "x", s(1)).unwrap();
    note(&elastic, &time, &notes, Duration::ZERO, "new bounded elastic");
    note(&elastic, &time, &notes, Duration::ZERO, "beyond its capacity");
    assert_eq!(time.stats().queued, 7);
    time.advance_by(s(4));
    let expected = [
        ("new bounded elastic", s(0)),
        ("beyond its capacity", s(0)),
        ("new single", s(1)),
        ("new parallel", s(1)),
        ("bounded elastic", s(2)),
        ("parallel", s(3)),
        ("single", s(4)),
    ];
    assert_eq!(notes.take(), expected);
    assert_eq!(own.stats().completed, 1);
    assert_eq!(own.to_string(), "virtualTime(parallel \"x\")");
    schedulers::reset_from(snapshot);
    assert_eq!(schedulers::parallel(), before, "the one from before is back");
    let task = schedulers::parallel().schedule(|| {}).unwrap();
    assert_eq!(task.wait(LONG), Ok(true), "it runs without being advanced");
    assert!(!time.is_disposed());
}

#[test]
fn each_scheduler_made_in_virtual_time_has_an_end_of_its_own() {
    let _alone = alone();
    let (time, _snapshot) = VirtualTimeScheduler::install();
    let notes = Notes::new();
    let (a, b) = (schedulers::new_single("a").unwrap(), schedulers::new_single("b").unwrap());
    let of_a = note(&a, &time, &notes, s(1), "a");
    note(&b, &time, &notes, s(1), "b");
    a.dispose();
    assert!(of_a.is_cancelled() && a.is_disposed());
    assert!(!b.is_disposed() && !time.is_disposed());
    assert_eq!(a.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    assert_eq!(b.dispose_gracefully(Duration::ZERO), Ok(false));
    time.advance_by(s(1));
    assert_eq!(notes.take(), [("b", s(1))]);
    assert_eq!(b.dispose_gracefully(Duration::ZERO), Ok(true));
    let c = schedulers::new_single("c").unwrap();
    let (once, series) =
        (note(&c, &time, &notes, s(1), "c"), c.schedule_periodically(s(1), s(1), || {}).unwrap());
    let worker = c.create_worker();
    drop(c);
    assert!(!series.is_disposed(), "its worker keeps it");
    drop(worker);
    assert!(series.is_cancelled() && !once.is_disposed(), "the last handle is gone: it ends in good order");
    time.advance_by(s(1));
    assert_eq!(notes.take(), [("c", s(2))]);
    time.dispose();
    assert!(schedulers::single().is_disposed(), "its end is the end of all");
}
