//! What users may hang into all schedulers: schedule hooks, error hooks and decorators.

mod support;

use std::any::Any;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use millpond::schedulers::{
    self, BoundedElasticScheduler, Decorator, Disposable, Scheduler, SchedulerExt, SlotInfo,
    VirtualTimeScheduler, Worker,
};
use millpond::{Body, ManualClock, RejectReason, Task, TaskOf, executors};
use support::{Counter, Gate, LONG, Notes, alone, die, eventually};

const MINUTE: Duration = Duration::from_secs(60);

type Kind = (&'static str, Arc<dyn Scheduler>);

/// One scheduler of each kind that has threads.
fn kinds() -> Vec<Kind> {
    let per_task = BoundedElasticScheduler::builder().max_threads(2).thread_per_task(true).build().unwrap();
    let elastic = BoundedElasticScheduler::builder().max_threads(2).thread_per_task(false).build().unwrap();
    vec![
        ("single worker", schedulers::single_worker(&schedulers::new_single("below").unwrap())),
        ("single", schedulers::new_single("single").unwrap()),
        ("parallel", schedulers::new_parallel(2, "parallel").unwrap()),
        ("bounded elastic", Arc::new(elastic)),
        ("thread per task", Arc::new(per_task)),
        ("executor", schedulers::from_executor(executors::fixed(2).unwrap())),
        ("executor service", schedulers::from_executor_service(executors::fixed(2).unwrap())),
    ]
}

#[track_caller]
fn run(scheduler: &dyn Scheduler, f: impl FnOnce() + Send + 'static) {
    assert_eq!(scheduler.schedule(f).unwrap().wait(LONG), Ok(true));
}

#[track_caller]
fn run_in(worker: &Worker, f: impl FnOnce() + Send + 'static) {
    assert_eq!(worker.schedule(f).unwrap().wait(LONG), Ok(true));
}

/// A schedule hook that notes when and where it is called, and when what it returned runs.
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

/// A schedule hook runs in the middle of a submission, which is what makes these races sure to happen.
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
    // Its worker is disposed of: the lane has taken it, and gives it up again.
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
    // The scheduler begins to end in good order: a series ends, a one-shot that was under way runs.
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
    // The scheduler is disposed of: the submission is refused.
    let scheduler = single();
    let mine = Arc::downgrade(&scheduler);
    meanwhile(Box::new(move || {
        let _ = mine.upgrade().map(|mine| mine.dispose());
    }));
    assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    assert_eq!((scheduler.stats().submitted, scheduler.stats().rejected), (0, 1));
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}

/// An error hook that notes what it is told.
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

/// RS-080: also in the words of the API: a hook that panics does not stop the next.
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

/// RS-125: nothing that unwinds is rethrown, whatever it carries. What aborts the process cannot be caught.
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

/// Notes what happens to slots, as `what scheduler/index`.
struct Noting {
    key: &'static str,
    notes: Notes<String>,
    threads: Notes<ThreadId>,
}

impl Noting {
    fn new(key: &'static str, notes: &Notes<String>) -> Arc<Noting> {
        Arc::new(Noting { key, notes: notes.clone(), threads: Notes::new() })
    }

    fn note(&self, what: &str, slot: &SlotInfo) {
        self.notes.add(format!("{} {what} {}/{}", self.key, slot.scheduler(), slot.index()));
    }
}

impl Decorator for Noting {
    fn slot_created(&self, slot: &SlotInfo) {
        self.threads.add(thread::current().id());
        self.note("created", slot);
    }

    fn around(&self, slot: &SlotInfo, run: &mut dyn FnMut()) {
        self.note("begin", slot);
        run();
        self.note("end", slot);
    }

    fn slot_closed(&self, slot: &SlotInfo) {
        self.note("closed", slot);
    }
}

/// A decorator that is there until this goes.
struct Decorated(&'static str);

impl Decorated {
    #[track_caller]
    fn by(key: &'static str, decorator: Arc<dyn Decorator>) -> Decorated {
        assert!(schedulers::add_decorator(key, decorator), "left over from another test");
        Decorated(key)
    }
}

impl Drop for Decorated {
    fn drop(&mut self) {
        schedulers::remove_decorator(self.0);
    }
}

fn only(what: &str, notes: Vec<String>) -> Vec<String> {
    notes.into_iter().filter(|note| note.contains(what)).collect()
}

/// RS-121
#[test]
fn decorators_are_added_once_set_always_and_removed_with_an_answer() {
    let _alone = alone();
    let notes = Notes::new();
    let created = || {
        run(&*schedulers::new_single("d").unwrap(), || {});
        only("created", notes.take())
    };
    let (a, b) = (Noting::new("a", &notes), Noting::new("b", &notes));
    assert!(schedulers::add_decorator("k1", Arc::clone(&a) as _));
    assert!(!schedulers::add_decorator("k1", Arc::clone(&b) as _));
    assert_eq!(created(), ["a created single(\"d\")/0"], "the first stays");
    schedulers::set_decorator("k1", Arc::clone(&b) as _);
    assert_eq!(created(), ["b created single(\"d\")/0"]);
    schedulers::set_decorator("k2", Arc::clone(&b) as _);
    assert_eq!(created(), ["b created single(\"d\")/0"; 2], "the same under two keys stacks");
    assert!(schedulers::remove_decorator("unknown").is_none());
    let removed = schedulers::remove_decorator("k1").expect("it was there");
    assert!(Arc::ptr_eq(&removed, &(b as Arc<dyn Decorator>)));
    assert!(schedulers::remove_decorator("k1").is_none());
    assert!(schedulers::remove_decorator("k2").is_some());
    assert_eq!(created(), [""; 0]);
}

/// RS-122
#[test]
fn decorators_see_each_slot_once_in_order_on_the_submitting_thread() {
    let _alone = alone();
    let notes = Notes::new();
    let first = Noting::new("a", &notes);
    let _first = Decorated::by("first", Arc::clone(&first) as _);
    let _second = Decorated::by("second", Noting::new("b", &notes));
    let elastic =
        BoundedElasticScheduler::builder().max_threads(2).name("e").thread_per_task(false).build().unwrap();
    let per_task =
        BoundedElasticScheduler::builder().max_threads(2).name("t").thread_per_task(true).build().unwrap();
    let schedulers: [(usize, Arc<dyn Scheduler>); 5] = [
        (1, schedulers::new_single("s").unwrap()),
        (3, schedulers::new_parallel(3, "p").unwrap()),
        (2, Arc::new(elastic)),
        (2, Arc::new(per_task)),
        (1, schedulers::from_executor(executors::fixed(1).unwrap())),
    ];
    for (slots, scheduler) in schedulers {
        // As many at a time as there are slots, so that each is used.
        let gate = Gate::new();
        let busy = |_| {
            let pass = gate.clone();
            scheduler.schedule(move || pass.pass()).unwrap()
        };
        let tasks: Vec<Disposable> = (0..slots).map(busy).collect();
        gate.open();
        tasks.iter().for_each(|task| assert_eq!(task.wait(LONG), Ok(true)));
        let name = scheduler.to_string();
        let expected: Vec<String> = (0..slots)
            .flat_map(|index| [format!("a created {name}/{index}"), format!("b created {name}/{index}")])
            .collect();
        assert_eq!(only("created", notes.take()), expected);
        assert_eq!(first.threads.take(), vec![thread::current().id(); slots], "{name}");
        scheduler.dispose_gracefully(LONG).unwrap();
        notes.take();
    }
}

#[test]
fn what_runs_in_a_slot_runs_inside_its_decorators_the_first_outermost() {
    let _alone = alone();
    let notes = Notes::new();
    let _first = Decorated::by("first", Noting::new("a", &notes));
    let _second = Decorated::by("second", Noting::new("b", &notes));
    for (kind, scheduler) in kinds() {
        let worker = scheduler.create_worker();
        let n = notes.clone();
        run_in(&worker, move || n.add("body".to_owned()));
        let mut seen = notes.take();
        seen.retain(|note| !note.contains("created") && !note.contains("closed"));
        for (note, expected) in seen.iter().zip(["a begin", "b begin", "body", "b end", "a end"]) {
            assert!(note.starts_with(expected), "{kind}: {seen:?}");
        }
        assert_eq!(seen.len(), 5, "{kind}: {seen:?}");
        run(&*scheduler, || die("boom"));
        assert_eq!(only("end", notes.take()).len(), 2, "{kind}: a panic does not pass through them");
    }
}

/// Does everything wrong that a decorator can do around a run.
struct Unruly(Mutex<u32>);

impl Decorator for Unruly {
    fn around(&self, _slot: &SlotInfo, run: &mut dyn FnMut()) {
        let mut time = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *time += 1;
        match *time {
            1 => {}
            2 => {
                run();
                run();
            }
            3 => die("before"),
            _ => {
                run();
                die("after");
            }
        }
    }

    fn slot_closed(&self, _slot: &SlotInfo) {
        die("closed");
    }
}

#[test]
fn a_decorator_cannot_keep_a_task_from_running_exactly_once() {
    let _alone = alone();
    let _unruly = Decorated::by("unruly", Arc::new(Unruly(Mutex::new(0))));
    let scheduler = schedulers::new_single("one").unwrap();
    for _ in 0..4 {
        let runs = Counter::new();
        let count = runs.clone();
        run(&*scheduler, move || count.add());
        assert_eq!(runs.get(), 1);
    }
    let stats = scheduler.stats();
    assert_eq!((stats.completed, stats.panicked), (4, 0));
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}

/// Panics when it is told of a slot.
struct Refuses;

impl Decorator for Refuses {
    fn slot_created(&self, _slot: &SlotInfo) {
        die("no more slots");
    }
}

#[test]
fn a_decorator_that_panics_at_a_new_slot_refuses_the_submission_and_leaves_no_trace() {
    let _alone = alone();
    let notes = Notes::new();
    let _first = Decorated::by("first", Noting::new("a", &notes));
    for (kind, scheduler) in kinds() {
        if kind == "single worker" {
            continue; // its slot is another's
        }
        let refuses = Decorated::by("refuses", Arc::new(Refuses));
        let ran = Counter::new();
        let count = ran.clone();
        let refused = scheduler.schedule_task(Task::new(move || count.add())).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::CallbackPanicked, "{kind}");
        refused.into_task().run();
        assert_eq!(ran.get(), 1);
        let told = notes.take();
        assert_eq!((only("created", told.clone()).len(), only("closed", told).len()), (1, 1), "{kind}");
        let worker = scheduler.create_worker();
        let refused = worker.schedule(|| {}).unwrap_err();
        assert_eq!(refused.reason(), RejectReason::CallbackPanicked, "{kind}, by a worker");
        drop(worker);
        let stats = scheduler.stats();
        assert_eq!((stats.busy, stats.queued, stats.submitted, stats.rejected), (0, 0, 0, 2), "{kind}");
        drop(refuses);
        run(&*scheduler, || {});
        scheduler.dispose_gracefully(LONG).unwrap();
        notes.take();
    }
}

/// A meter for each slot, by the scheduler's name and the slot's number.
#[derive(Default)]
struct Meters {
    open: Mutex<Vec<String>>,
    created: Counter,
    closed: Counter,
}

impl Meters {
    fn open(&self) -> Vec<String> {
        self.open.lock().unwrap().clone()
    }
}

impl Decorator for Meters {
    fn slot_created(&self, slot: &SlotInfo) {
        self.created.add();
        self.open.lock().unwrap().push(format!("{}/{}", slot.scheduler(), slot.index()));
    }

    fn slot_closed(&self, slot: &SlotInfo) {
        self.closed.add();
        let meter = format!("{}/{}", slot.scheduler(), slot.index());
        let mut open = self.open.lock().unwrap();
        if let Some(at) = open.iter().position(|known| *known == meter) {
            open.remove(at);
        }
    }
}

/// RS-146
#[test]
fn each_slot_that_was_announced_is_closed_once_with_its_scheduler() {
    let _alone = alone();
    for gracefully in [true, false] {
        for (kind, scheduler) in kinds() {
            let meters = Arc::new(Meters::default());
            let watch = Decorated::by("watch", Arc::clone(&meters) as _);
            let worker = scheduler.create_worker();
            run_in(&worker, || {});
            run(&*scheduler, || {});
            drop(watch); // those that have it keep it
            let open = meters.open();
            assert!(!open.is_empty());
            if kind != "single worker" {
                assert!(open.iter().all(|meter| meter.starts_with(&scheduler.to_string())), "{open:?}");
            }
            drop(worker);
            if gracefully {
                assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true), "{kind}");
            } else {
                scheduler.dispose();
            }
            drop(scheduler);
            eventually(|| meters.open().is_empty() && meters.closed.get() == meters.created.get());
        }
    }
}

/// RS-147
#[test]
fn an_evicted_slot_is_closed_the_others_stay_and_its_number_is_used_again() {
    let _alone = alone();
    let (notes, time) = (Notes::new(), ManualClock::new());
    let _watch = Decorated::by("watch", Noting::new("a", &notes));
    let scheduler = BoundedElasticScheduler::builder()
        .max_threads(2)
        .ttl(Duration::from_secs(1))
        .thread_per_task(false)
        .clock(time.clock())
        .build()
        .unwrap();
    let gates = [Gate::new(), Gate::new()];
    let tasks = gates.clone().map(|gate| scheduler.schedule(move || gate.pass()).unwrap());
    gates[0].open();
    assert_eq!(tasks[0].wait(LONG), Ok(true));
    notes.take();
    time.advance(Duration::from_secs(1));
    assert_eq!(only("closed", notes.take()), [format!("a closed {scheduler}/0")]);
    assert_eq!(scheduler.slots(), 1);
    run(&scheduler, || {});
    assert_eq!(only("created", notes.take()), [format!("a created {scheduler}/0")]);
    gates[1].open();
    assert_eq!(tasks[1].wait(LONG), Ok(true));
}

/// RS-148: the counters are built in, for every kind.
#[test]
fn every_scheduler_counts_what_it_does() {
    let _alone = alone();
    let (time, snapshot) = VirtualTimeScheduler::install();
    let scheduler = schedulers::new_parallel(2, "counted").unwrap();
    scheduler.schedule(|| {}).unwrap();
    scheduler.schedule_after(MINUTE, || {}).unwrap();
    let series = scheduler.schedule_periodically(MINUTE, MINUTE, || {}).unwrap();
    let stats = scheduler.stats();
    assert_eq!((stats.submitted, stats.queued, stats.completed), (3, 3, 0));
    time.advance_by(3 * MINUTE);
    let stats = scheduler.stats();
    assert_eq!((stats.submitted, stats.queued, stats.completed), (6, 1, 5), "the fourth run waits");
    series.dispose();
    let stats = scheduler.stats();
    assert_eq!((stats.queued, stats.cancelled), (0, 1));
    schedulers::reset_from(snapshot);

    for (kind, scheduler) in kinds() {
        run(&*scheduler, || {});
        run(&*scheduler, || die("boom"));
        let (gate, running) = (Gate::new(), Gate::new());
        let worker = scheduler.create_worker();
        let (pass, started) = (gate.clone(), running.clone());
        let busy = worker.schedule(move || {
            started.open();
            pass.pass();
        });
        running.pass();
        let waits = worker.schedule(|| {}).unwrap();
        assert_eq!(scheduler.stats().queued, 1, "{kind}");
        waits.dispose();
        gate.open();
        assert_eq!(busy.unwrap().wait(LONG), Ok(true));
        let stats = scheduler.stats();
        assert_eq!((stats.submitted, stats.queued, stats.cancelled), (4, 0, 1), "{kind}");
        assert_eq!((stats.completed, stats.panicked, stats.rejected), (2, 1, 0), "{kind}");
    }
}

/// RS-150, RS-107
#[test]
fn stats_show_threads_slots_and_the_end() {
    let _alone = alone();
    let elastic = BoundedElasticScheduler::builder().max_threads(3).thread_per_task(false).build().unwrap();
    let worker = elastic.create_worker();
    run(&elastic, || {});
    let stats = elastic.stats();
    assert_eq!((stats.max_threads, stats.live_threads), (3, 1));
    assert_eq!((stats.slots, stats.busy, stats.idle), (2, 1, 1));
    assert!(!stats.disposed);
    drop(worker);
    elastic.dispose();
    let stats = elastic.stats();
    assert!(stats.disposed);
    assert_eq!((stats.slots, stats.busy, stats.idle), (0, 0, 0));
    let parallel = schedulers::new_parallel(3, "p").unwrap().stats();
    assert_eq!((parallel.max_threads, parallel.slots, parallel.live_threads), (3, 3, 0));
    let single = schedulers::new_single("s").unwrap().stats();
    assert_eq!((single.max_threads, single.slots, single.live_threads), (1, 1, 0));
}
