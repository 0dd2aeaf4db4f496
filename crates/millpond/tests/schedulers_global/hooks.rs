//! Global extensions of schedulers: schedule hooks and error hooks.

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::scheduling::{MINUTE, kinds, run, run_in};
use crate::support::{Counter, Gate, LONG, Notes, alone, die, eventually};
use millpond::schedulers::{self, Scheduler, SchedulerExt};
use millpond::{Body, RejectReason, Task, TaskOf};

/// A schedule hook that records when and where it is called, and when its returned task runs.
fn noting(name: &'static str, notes: &Notes<String>, threads: &Notes<ThreadId>) {
    let (notes, threads) = (notes.clone(), threads.clone());
    schedulers::on_schedule(name, move |mut body: Body| {
        notes.add(format!("hook {name}"));
        threads.add(thread::current().id());
        let notes = notes.clone();
        Box::new(move || {
            notes.add(format!("run {name}"));
            body();
        })
    });
}

/// RS-118
#[test]
fn hooks_are_called_in_order_on_the_submitting_thread_and_the_last_is_the_outermost() {
    let _alone = alone();
    let (notes, threads) = (Notes::new(), Notes::new());
    for key in ["k1", "k2", "k3"] {
        noting(key, &notes, &threads);
    }
    let expected = ["hook k1", "hook k2", "hook k3", "run k3", "run k2", "run k1", "body"];
    for (kind, scheduler) in kinds() {
        let n = notes.clone();
        run(&*scheduler, move || n.add("body".to_owned()));
        assert_eq!(notes.take(), expected, "{kind}, direct");
        let n = notes.clone();
        run_in(&scheduler.create_worker(), move || n.add("body".to_owned()));
        assert_eq!(notes.take(), expected, "{kind}, by a worker");
        assert_eq!(threads.take(), [thread::current().id(); 6], "{kind}");
    }
    let n = notes.clone();
    schedulers::immediate().schedule(move || n.add("body".to_owned())).unwrap();
    schedulers::immediate().create_worker().schedule(|| {}).unwrap();
    assert_eq!(notes.take(), ["body"], "immediate calls none");
}

/// RS-119
#[test]
fn a_hook_can_be_replaced_in_its_place_and_taken_away() {
    let _alone = alone();
    let (notes, threads) = (Notes::new(), Notes::new());
    let scheduler = schedulers::new_single("one").unwrap();
    let hooks = || {
        run(&*scheduler, || {});
        notes.take().into_iter().filter(|note: &String| note.starts_with("hook")).collect::<Vec<_>>()
    };
    for key in ["k1", "k2", "k3"] {
        noting(key, &notes, &threads);
    }
    let (n, name) = (notes.clone(), "hook new");
    schedulers::on_schedule("k2", move |body| {
        n.add(name.to_owned());
        body
    });
    assert_eq!(hooks(), ["hook k1", "hook new", "hook k3"]);
    assert!(!schedulers::reset_on_schedule("unknown"));
    assert!(schedulers::reset_on_schedule("k1"));
    assert!(!schedulers::reset_on_schedule("k1"));
    assert_eq!(hooks(), ["hook new", "hook k3"]);
    noting("k1", &notes, &threads);
    assert_eq!(hooks(), ["hook new", "hook k3", "hook k1"], "a key that comes again comes last");
    schedulers::reset_all_on_schedule();
    schedulers::reset_all_on_schedule();
    assert_eq!(hooks(), [""; 0]);
}

/// RS-120
#[test]
fn a_series_passes_the_hooks_once() {
    let _alone = alone();
    let hooked = Counter::new();
    let count = hooked.clone();
    schedulers::on_schedule("count", move |body| {
        count.add();
        body
    });
    for (kind, scheduler) in kinds() {
        let before = hooked.get();
        let runs = Counter::new();
        let count = runs.clone();
        let series = scheduler.schedule_periodically(Duration::ZERO, Duration::ZERO, move || count.add());
        eventually(|| runs.get() >= 3);
        series.unwrap().dispose();
        assert_eq!(hooked.get(), before + 1, "{kind}");
    }
}

#[test]
fn a_hook_that_panics_refuses_the_submission_and_gives_the_work_back() {
    let _alone = alone();
    let before = Counter::new();
    let count = before.clone();
    schedulers::on_schedule("first", move |mut body| {
        let count = count.clone();
        Box::new(move || {
            count.add();
            body();
        })
    });
    schedulers::on_schedule("second", |_| die("the hook"));
    for (kind, scheduler) in kinds() {
        let (worker, ran) = (scheduler.create_worker(), Counter::new());
        let count = ran.clone();
        let refused = scheduler.schedule_task(Task::new(move || count.add()).named("mine")).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::CallbackPanicked, "{kind}");
        assert_eq!(refused.task().name(), Some("mine"));
        refused.into_task().run();
        assert_eq!(ran.get(), 1, "{kind}: the very task that was given");
        let count = ran.clone();
        let refused = worker.schedule_periodically(Duration::ZERO, Duration::ZERO, move || count.add());
        refused.unwrap_err().into_task().run();
        assert_eq!(ran.get(), 2, "{kind}: the body of a series runs once");
        let stats = scheduler.stats();
        assert_eq!((stats.rejected, stats.submitted, stats.queued), (2, 0, 0), "{kind}");
        assert_eq!(before.get(), 0, "{kind}: what the first hook made of it is gone");
    }
}

#[test]
fn a_hook_may_come_back_to_the_hooks() {
    let _alone = alone();
    let dropped = Counter::new();
    let kept = dropped.on_drop();
    schedulers::on_schedule("once", move |body| {
        let _kept = &kept;
        assert!(schedulers::reset_on_schedule("once"));
        body
    });
    let scheduler = schedulers::new_single("one").unwrap();
    run(&*scheduler, || {});
    assert_eq!(dropped.get(), 1);
    run(&*scheduler, || {});
    assert_eq!(scheduler.stats().rejected, 0);
}

/// A schedule hook runs in the middle of a submission, so it can provoke these races reliably.
#[test]
fn an_end_that_comes_in_the_middle_of_a_submission_is_not_missed() {
    let _alone = alone();
    let single = || schedulers::single_worker(&schedulers::new_single("below").unwrap());
    let meanwhile = |end: Box<dyn Fn() + Send + Sync>| {
        schedulers::on_schedule("end", move |body| {
            end();
            body
        });
    };
    // Its worker is disposed: the lane has taken the task, and gives it up again.
    for series in [false, true] {
        let scheduler = single();
        let worker = scheduler.create_worker();
        let mine = worker.clone();
        meanwhile(Box::new(move || mine.dispose()));
        let task = match series {
            false => worker.schedule_after(MINUTE, || {}),
            true => worker.schedule_periodically(MINUTE, MINUTE, || {}),
        };
        assert!(task.unwrap().is_cancelled());
        assert_eq!((scheduler.stats().queued, scheduler.stats().cancelled), (0, 1));
    }
    // The scheduler begins a graceful end: a periodic task ends, an accepted one-shot runs.
    let scheduler = single();
    let mine = Arc::downgrade(&scheduler);
    meanwhile(Box::new(move || {
        let _ = mine.upgrade().map(|mine| mine.dispose_gracefully(Duration::ZERO));
    }));
    let series = scheduler.schedule_periodically(MINUTE, MINUTE, || {}).unwrap();
    assert!(series.is_cancelled());
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    let scheduler = single();
    let (mine, ran) = (Arc::downgrade(&scheduler), Counter::new());
    meanwhile(Box::new(move || {
        let _ = mine.upgrade().map(|mine| mine.dispose_gracefully(Duration::ZERO));
    }));
    let count = ran.clone();
    scheduler.schedule(move || count.add()).unwrap();
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    assert_eq!(ran.get(), 1);
    // The scheduler is disposed: the submission is rejected.
    let scheduler = single();
    let mine = Arc::downgrade(&scheduler);
    meanwhile(Box::new(move || {
        let _ = mine.upgrade().map(|mine| mine.dispose());
    }));
    assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    assert_eq!((scheduler.stats().submitted, scheduler.stats().rejected), (0, 1));
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}

/// An error hook that records what it gets.
fn listening(key: &'static str, notes: &Notes<String>) {
    let notes = notes.clone();
    schedulers::on_error(key, move |task, panic| {
        let (name, message) = (task.name().unwrap_or("?"), panic.message().unwrap_or("?"));
        notes.add(format!("{key}: {name} {message}"));
    });
}

/// RS-123
#[test]
fn error_hooks_add_up_in_order_and_can_be_replaced_and_taken_away() {
    let _alone = alone();
    let notes = Notes::new();
    let scheduler = schedulers::new_single("one").unwrap();
    let told = || {
        let task = scheduler.schedule_task(Task::new(|| die("boom")).named("bad"));
        assert_eq!(task.unwrap().wait(LONG), Ok(true));
        notes.take()
    };
    assert_eq!(told(), [""; 0]);
    listening("k1", &notes);
    listening("k2", &notes);
    assert_eq!(told(), ["k1: bad boom", "k2: bad boom"]);
    let n = notes.clone();
    schedulers::on_error("k1", move |_, _| n.add("new".to_owned()));
    assert_eq!(told(), ["new", "k2: bad boom"]);
    assert!(!schedulers::reset_on_error("unknown"));
    assert!(schedulers::reset_on_error("k1") && !schedulers::reset_on_error("k1"));
    assert_eq!(told(), ["k2: bad boom"]);
    schedulers::reset_all_on_error();
    assert_eq!(told(), [""; 0]);
    assert_eq!(scheduler.stats().panicked, 5);
}

/// RS-080: a hook that panics does not stop the next hook.
#[test]
fn an_error_hook_that_panics_stops_neither_the_next_nor_the_scheduler() {
    let _alone = alone();
    let notes = Notes::new();
    schedulers::on_error("k1", |_, _| die("the hook"));
    listening("k2", &notes);
    for (kind, scheduler) in kinds() {
        let worker = scheduler.create_worker();
        run(&*scheduler, || die("boom"));
        run_in(&worker, || die("boom"));
        assert_eq!(notes.take().len(), 2, "{kind}");
        run(&*scheduler, || {});
        run_in(&worker, || {});
        let stats = scheduler.stats();
        assert_eq!((stats.panicked, stats.completed), (2, 2), "{kind}");
    }
}

/// RS-125: every unwinding panic is caught, whatever its payload. An abort cannot be caught.
#[test]
fn every_kind_of_panic_is_told_and_goes_no_further() {
    let _alone = alone();
    let (notes, threads) = (Notes::new(), Notes::new());
    let (n, t) = (notes.clone(), threads.clone());
    schedulers::on_error("test", move |_, panic| {
        n.add(panic.message().map(str::to_owned));
        t.add(thread::current().id());
    });
    let single = schedulers::new_single("one").unwrap();
    let payloads: [Box<dyn Any + Send>; 3] =
        [Box::new("text"), Box::new(String::from("string")), Box::new(42)];
    for payload in payloads {
        run(&*single, move || resume_unwind(payload));
    }
    let bomb = Bomb;
    run(&*single, move || resume_unwind(Box::new(bomb)));
    let expected = [Some("text"), Some("string"), None, None].map(|message| message.map(str::to_owned));
    assert_eq!(notes.take(), expected);
    let n = threads.clone();
    run(&*single, move || n.add(thread::current().id()));
    let threads = threads.take();
    assert!(threads.iter().all(|thread| *thread == threads[4]), "told where it ran, and the thread lives on");
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            die("the payload's destructor");
        }
    }
}

#[test]
fn the_panic_of_a_task_with_a_handle_is_the_handles() {
    let _alone = alone();
    let notes = Notes::new();
    listening("test", &notes);
    for (kind, scheduler) in kinds() {
        let (task, handle) = TaskOf::new(|| -> u32 { die("boom") }).into_parts();
        assert_eq!(scheduler.schedule_task(task).unwrap().wait(LONG), Ok(true));
        assert!(handle.join().is_err(), "{kind}");
        assert_eq!(notes.take(), [""; 0], "{kind}");
    }
}

#[test]
fn each_run_of_a_series_that_panics_is_told_and_the_series_goes_on() {
    let _alone = alone();
    let told = Counter::new();
    let count = told.clone();
    schedulers::on_error("count", move |_, _| count.add());
    for (kind, scheduler) in kinds() {
        let (before, runs) = (told.get(), Counter::new());
        let count = runs.clone();
        let series = scheduler.schedule_periodically(Duration::ZERO, Duration::ZERO, move || {
            count.add();
            die("again");
        });
        let series = series.unwrap();
        eventually(|| runs.get() >= 3);
        series.dispose();
        assert_eq!(series.wait(LONG), Ok(true));
        assert_eq!(told.get() - before, runs.get(), "{kind}");
    }
}

#[test]
fn an_error_hook_may_come_back_to_the_hooks_and_the_schedulers() {
    let _alone = alone();
    let scheduler = schedulers::new_single("one").unwrap();
    let (again, done) = (Arc::clone(&scheduler), Gate::new());
    let open = done.clone();
    schedulers::on_error("once", move |_, _| {
        schedulers::reset_all_on_error();
        let open = open.clone();
        again.schedule(move || open.open()).unwrap();
    });
    run(&*scheduler, || die("boom"));
    done.pass();
}
