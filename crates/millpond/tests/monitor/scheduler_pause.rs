//! Pausing and resuming schedulers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use millpond::monitor::{Actor, Event, Observer};
use millpond::schedulers::{self, Affinity, BoundedElasticScheduler, Scheduler, SchedulerExt};
use millpond::{Executor, ManualClock, PoolRef, RejectReason, Rejected, Task, executors, registry};

use crate::support::{Gate, LONG, SHORT, eventually};

const SECOND: Duration = Duration::from_secs(1);

fn pool(scheduler: &dyn Scheduler) -> PoolRef {
    scheduler.pool_ref().expect("it is listed")
}

fn pause(scheduler: &dyn Scheduler) {
    pool(scheduler).pause(&Actor::default()).expect("it is there");
    assert_eq!(pool(scheduler).is_paused(), Some(true));
}

fn resume(scheduler: &dyn Scheduler) {
    pool(scheduler).resume(&Actor::default()).expect("it is there");
    assert_eq!(pool(scheduler).is_paused(), Some(false));
}

fn kinds() -> Vec<Arc<dyn Scheduler>> {
    let elastic = |name: &str| BoundedElasticScheduler::builder().name(name).max_threads(2);
    vec![
        schedulers::new_single("paused single").unwrap(),
        schedulers::new_parallel(2, "paused parallel").unwrap(),
        Arc::new(elastic("paused soft").build().unwrap()),
        Arc::new(elastic("paused strict").affinity(Affinity::Strict).build().unwrap()),
        Arc::new(elastic("paused per task").thread_per_task(true).build().unwrap()),
        schedulers::from_executor(executors::fixed(2).unwrap()),
        schedulers::from_scheduled_executor(executors::scheduled(2)),
    ]
}

/// Submits four direct tasks and four of a worker, which count their runs.
fn submit(scheduler: &dyn Scheduler) -> Arc<AtomicUsize> {
    let ran = Arc::new(AtomicUsize::new(0));
    let task = || {
        let ran = Arc::clone(&ran);
        move || _ = ran.fetch_add(1, Ordering::Relaxed)
    };
    let lane = scheduler.create_worker();
    for _ in 0..4 {
        scheduler.schedule(task()).unwrap();
        lane.schedule(task()).unwrap();
    }
    ran
}

#[test]
fn work_of_every_kind_waits_until_the_scheduler_is_resumed() {
    for scheduler in kinds() {
        assert!(scheduler.schedule(|| {}).unwrap().wait(LONG).unwrap());
        pause(&*scheduler);
        let ran = submit(&*scheduler);
        thread::sleep(SHORT); // exposes a thread that takes one
        assert_eq!(ran.load(Ordering::Relaxed), 0, "{scheduler}");
        let held = pool(&*scheduler).snapshot().unwrap();
        assert!(held.paused, "{scheduler}");
        assert_eq!((held.stats.active_count, held.stats.queued_count), (0, 8), "{scheduler}: {held:?}");
        resume(&*scheduler);
        eventually(|| ran.load(Ordering::Relaxed) == 8);
        assert!(scheduler.dispose_gracefully(LONG).unwrap(), "{scheduler}");
        assert_eq!(scheduler.stats().completed, 9, "{scheduler}");
    }
}

#[test]
fn a_graceful_end_resumes_and_a_dispose_cancels() {
    for scheduler in kinds() {
        pause(&*scheduler);
        let ran = submit(&*scheduler);
        assert!(scheduler.dispose_gracefully(LONG).unwrap(), "{scheduler}");
        assert_eq!(ran.load(Ordering::Relaxed), 8, "{scheduler}");
        assert_eq!(pool(&*scheduler).is_paused(), Some(false));
        pool(&*scheduler).pause(&Actor::default()).unwrap();
        assert_eq!(pool(&*scheduler).is_paused(), Some(false), "{scheduler} has ended");
    }
    for scheduler in kinds() {
        pause(&*scheduler);
        submit(&*scheduler);
        scheduler.dispose();
        assert!(scheduler.dispose_gracefully(LONG).unwrap(), "{scheduler}");
        let stats = scheduler.stats();
        assert_eq!(stats.submitted, stats.completed + stats.cancelled, "{scheduler}: {stats:?}");
    }
}

#[test]
fn what_runs_is_finished_and_a_lane_does_not_go_on() {
    let scheduler = schedulers::new_single("paused lane").unwrap();
    let lane = scheduler.create_worker();
    let (gate, begun) = (Gate::new(), Gate::new());
    let (wait, begins) = (gate.clone(), begun.clone());
    let first = lane.schedule(move || {
        begins.open();
        wait.pass();
    });
    let second = lane.schedule(|| {}).unwrap();
    begun.pass();
    pause(&*scheduler);
    gate.open();
    assert!(first.unwrap().wait(LONG).unwrap());
    assert!(!second.wait(SHORT).unwrap());
    resume(&*scheduler);
    assert!(second.wait(LONG).unwrap());
}

#[test]
fn timers_become_due_and_wait() {
    let time = ManualClock::new();
    let builder = BoundedElasticScheduler::builder().name("paused timers").max_threads(2);
    let elastic = builder.clock(time.clock()).build().unwrap();
    let (sender, received) = mpsc::channel();
    for number in 0..3 {
        let sender = sender.clone();
        elastic.schedule_after(SECOND, move || _ = sender.send(number)).unwrap();
    }
    pause(&elastic);
    time.advance(3 * SECOND);
    assert!(received.recv_timeout(SHORT).is_err());
    let held = pool(&elastic).snapshot().unwrap();
    assert_eq!((held.oldest_wait, held.delayed_count, held.stats.queued_count), (Some(2 * SECOND), 0, 3));
    resume(&elastic);
    (0..3).for_each(|_| _ = received.recv_timeout(LONG).unwrap());
}

#[test]
fn a_slot_that_became_free_in_the_pause_takes_queued_work() {
    let elastic = BoundedElasticScheduler::builder().name("freed").max_threads(2).build().unwrap();
    let gates = [(); 2].map(|()| {
        let (gate, begun) = (Gate::new(), Gate::new());
        let (wait, begins) = (gate.clone(), begun.clone());
        let task = elastic.schedule(move || {
            begins.open();
            wait.pass();
        });
        begun.pass();
        (gate, task.unwrap())
    });
    let queued = [(); 2].map(|()| elastic.schedule(|| {}).unwrap());
    pause(&elastic);
    gates[1].0.open();
    assert!(gates[1].1.wait(LONG).unwrap());
    resume(&elastic);
    queued.iter().for_each(|task| assert!(task.wait(LONG).unwrap(), "the other thread is still busy"));
    gates[0].0.open();
}

#[test]
fn a_wait_inside_a_task_still_runs_its_own_work() {
    for scheduler in kinds() {
        let inner = Arc::clone(&scheduler);
        let (go, begun) = (Gate::new(), Gate::new());
        let (wait, begins) = (go.clone(), begun.clone());
        let outer = scheduler.schedule(move || {
            begins.open();
            wait.pass();
            let lane = inner.create_worker();
            let direct = inner.schedule(|| {}).unwrap();
            let [_, second] = [(); 2].map(|()| lane.schedule(|| {}).unwrap());
            assert!(direct.wait(LONG).unwrap() && second.wait(LONG).unwrap());
        });
        begun.pass();
        pause(&*scheduler);
        go.open();
        assert!(outer.unwrap().wait(LONG).unwrap(), "{scheduler}");
        let stats = scheduler.stats();
        assert_eq!((stats.completed, stats.panicked), (4, 0), "{scheduler}: {stats:?}");
        resume(&*scheduler);
    }
}

#[test]
fn observers_hear_of_the_author() {
    struct Log(Mutex<Vec<String>>);
    impl Observer for Log {
        fn event(&self, pool: &PoolRef, event: &Event<'_>) {
            if pool.name().as_deref() == Some("paused by") {
                match event {
                    Event::Paused { by } => self.0.lock().unwrap().push(format!("paused by {by}")),
                    Event::Resumed { by } => self.0.lock().unwrap().push(format!("resumed by {by}")),
                    _ => {}
                }
            }
        }
    }
    let log = Arc::new(Log(Mutex::default()));
    let _subscription = registry::observe(Arc::clone(&log) as Arc<dyn Observer>);
    let scheduler = schedulers::new_single("paused by").unwrap();
    let console = Actor::new("console", "incident 17");
    for _ in 0..2 {
        pool(&*scheduler).pause(&console); // the second time nothing happens
    }
    pool(&*scheduler).resume(&console);
    pool(&*scheduler).pause(&console);
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
    let paused = "paused by console: incident 17";
    let expected = [paused, "resumed by console: incident 17", paused, "resumed by the program: shutdown"];
    assert_eq!(*log.0.lock().unwrap(), expected);
}

/// Pauses and resumes while several threads submit: no task is lost.
#[test]
fn pausing_at_any_moment_loses_nothing() {
    for scheduler in kinds() {
        let stop = Gate::new();
        thread::scope(|scope| {
            let pausing = scope.spawn(|| {
                while !stop.is_open() {
                    pool(&*scheduler).pause(&Actor::default());
                    thread::yield_now();
                    pool(&*scheduler).resume(&Actor::default());
                    thread::yield_now();
                }
            });
            let work =
                || (0..if cfg!(miri) { 1 } else { 40 }).map(|_| submit(&*scheduler)).collect::<Vec<_>>();
            let submitters = [scope.spawn(work), scope.spawn(work)];
            for ran in submitters.into_iter().flat_map(|submitter| submitter.join().unwrap()) {
                eventually(|| ran.load(Ordering::Relaxed) == 8);
            }
            stop.open();
            pausing.join().unwrap();
        });
        assert!(scheduler.dispose_gracefully(LONG).unwrap());
        let stats = scheduler.stats();
        assert_eq!(stats.submitted, stats.completed, "{scheduler}: {stats:?}");
    }
}

/// Calls a closure, then refuses the task. Accepts all later tasks and runs them in place.
#[derive(Default)]
struct RefusesOnce(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Executor for RefusesOnce {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        let before = self.0.lock().unwrap().take();
        match before {
            Some(before) => before(),
            None => {
                task.run();
                return Ok(());
            }
        }
        Err(Rejected::new(task, RejectReason::Saturated))
    }
}

/// Regression: the second task relied on the refused thread, although `resume` starts another one.
#[test]
fn a_refusal_during_a_pause_cancels_no_other_work() {
    let executor = Arc::new(RefusesOnce::default());
    let scheduler = schedulers::from_executor(Arc::clone(&executor));
    let lane = scheduler.create_worker();
    let (tell, told) = mpsc::channel();
    let (paused, mine) = (pool(&*scheduler), lane.clone());
    *executor.0.lock().unwrap() = Some(Box::new(move || {
        paused.pause(&Actor::default()).expect("it is there");
        tell.send(mine.schedule(|| {}).expect("it waits for `resume`")).unwrap();
    }));
    assert_eq!(lane.schedule(|| {}).unwrap_err().reason(), RejectReason::Saturated);
    let accepted = told.recv().unwrap();
    assert!(!accepted.is_disposed());
    resume(&*scheduler);
    assert_eq!((accepted.wait(LONG), accepted.is_cancelled()), (Ok(true), false));
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}
