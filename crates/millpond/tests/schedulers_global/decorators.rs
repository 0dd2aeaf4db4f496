//! Global extensions of schedulers: decorators, and the built-in statistics.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::scheduling::{MINUTE, kinds, run, run_in};
use crate::support::{Counter, Gate, LONG, Notes, alone, die, eventually};
use millpond::schedulers::{
    self, BoundedElasticScheduler, Decorator, Disposable, Scheduler, SchedulerExt, SlotInfo,
    VirtualTimeScheduler,
};
use millpond::{ManualClock, RejectReason, Task, executors};

/// Records the events of slots, as `what scheduler/index`.
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

/// A decorator that is registered until this is dropped.
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
        // As many concurrent tasks as slots, so that each slot is used.
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

/// Makes every possible mistake around a run.
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

/// Panics at the creation of a slot.
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
            continue; // its slot belongs to another scheduler
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
            drop(watch); // existing slots keep it
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

/// Blocks in `slot_created`, and counts its calls and those of `slot_closed`.
struct Dawdles<F> {
    dawdle: F,
    created: Counter,
    closed: Counter,
}

impl<F: Fn() + Send + Sync + 'static> Decorator for Dawdles<F> {
    fn slot_created(&self, _: &SlotInfo) {
        self.created.add();
        (self.dawdle)();
    }

    fn slot_closed(&self, _: &SlotInfo) {
        self.closed.add();
    }
}

impl<F: Fn() + Send + Sync + 'static> Dawdles<F> {
    fn new(dawdle: F) -> Arc<Dawdles<F>> {
        Arc::new(Dawdles { dawdle, created: Counter::new(), closed: Counter::new() })
    }

    fn counts(&self) -> (usize, usize) {
        (self.created.get(), self.closed.get())
    }
}

/// Regression: several threads announced the slot to their decorators, but only the announcement
/// that the slot stored was closed.
#[test]
fn a_slot_that_several_use_first_at_once_is_closed_as_often_as_it_was_created() {
    let _alone = alone();
    let both = Barrier::new(2);
    let decorator = Dawdles::new(move || {
        both.wait();
    });
    let _decorated = Decorated::by("dawdles", Arc::clone(&decorator) as _);
    let scheduler = schedulers::new_single("d").unwrap();
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| run(&*scheduler, || {}));
        }
    });
    assert_eq!(decorator.counts(), (2, 1));
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    assert_eq!(decorator.counts(), (2, 2));
}

/// Regression: the slot was gone before its decorators had been told of it, and they never learned
/// of its end.
#[test]
fn a_slot_that_goes_while_it_is_announced_is_closed() {
    let _alone = alone();
    let (there, go) = (Gate::new(), Gate::new());
    let (knock, pass) = (there.clone(), go.clone());
    let decorator = Dawdles::new(move || {
        knock.open();
        pass.pass();
    });
    let _decorated = Decorated::by("dawdles", Arc::clone(&decorator) as _);
    let scheduler = schedulers::new_single("d").unwrap();
    let refused = thread::scope(|s| {
        let submits = s.spawn(|| scheduler.schedule(|| {}).map(drop));
        there.pass();
        scheduler.dispose();
        go.open();
        submits.join().unwrap()
    });
    assert_eq!(refused.unwrap_err().reason(), RejectReason::Shutdown);
    assert_eq!(decorator.counts(), (1, 1));
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    assert_eq!(decorator.counts(), (1, 1));
}

/// Ends its scheduler when a slot is closed, and sends the result.
struct Ends(Mutex<Option<Arc<dyn Scheduler>>>, mpsc::Sender<bool>);

impl Decorator for Ends {
    fn slot_closed(&self, slot: &SlotInfo) {
        if !slot.scheduler().contains("ends-itself") {
            return;
        }
        let scheduler = self.0.lock().unwrap().take();
        let ended = scheduler.map(|scheduler| scheduler.dispose_gracefully(Duration::MAX));
        self.1.send(ended.unwrap().unwrap()).unwrap();
    }
}

/// Regression: the end waits until the decorators know of all closed slots, and the decorator
/// waited for the end.
#[test]
fn a_decorator_that_ends_the_scheduler_of_a_closed_slot_does_not_wait_for_itself() {
    let _alone = alone();
    let scheduler = schedulers::new_single("ends-itself").unwrap();
    let (tell, told) = mpsc::channel();
    let ends = Ends(Mutex::new(Some(Arc::clone(&scheduler))), tell);
    assert!(schedulers::add_decorator("ends", Arc::new(ends)));
    assert_eq!(scheduler.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    let disposing = Arc::clone(&scheduler);
    let disposes = thread::spawn(move || disposing.dispose());
    assert_eq!(told.recv_timeout(LONG), Ok(false));
    disposes.join().unwrap();
    schedulers::remove_decorator("ends");
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}
