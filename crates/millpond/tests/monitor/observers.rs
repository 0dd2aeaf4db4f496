//! Observers: each event arrives once and in order, and observers cannot harm a pool.

use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::thread;

use millpond::monitor::{Event, Observer, Subscription};
use millpond::{PoolRef, Task, ThreadPoolExecutor, WorkQueue, registry};

use crate::support::Gate;

/// Collects the events of the pool with one name, because other tests run at the same time.
#[derive(Default)]
struct Log {
    pool: &'static str,
    events: Mutex<Vec<String>>,
}

impl Log {
    fn of(pool: &'static str) -> (Arc<Log>, Subscription) {
        let log = Arc::new(Log { pool, events: Mutex::default() });
        let subscription = registry::observe(Arc::clone(&log) as Arc<dyn Observer>);
        (log, subscription)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock().unwrap())
    }
}

fn shown(event: &Event<'_>) -> String {
    match event {
        Event::Rejected { task, reason } => format!("rejected {:?}: {}", task.name(), reason.as_str()),
        Event::Panicked { task, message } => format!("panicked {:?}: {message}", task.name()),
        Event::WorkerStarted { worker } => format!("started {}", worker.name()),
        Event::WorkerStopped { worker } => format!("stopped {}", worker.name()),
        Event::WorkerFailed { error } => format!("failed: {error}"),
        other => format!("{other:?}"),
    }
}

impl Observer for Log {
    fn event(&self, pool: &PoolRef, event: &Event<'_>) {
        if pool.name().as_deref() == Some(self.pool) {
            self.events.lock().unwrap().push(shown(event));
        }
    }
}

#[test]
fn every_event_comes_once_and_in_order() {
    let (log, subscription) = Log::of("observed");
    let builder = ThreadPoolExecutor::builder().name("observed").work_queue(WorkQueue::array(1));
    let pool = builder.build().unwrap();
    assert_eq!(log.take(), ["Created"]);
    let gate = Gate::new();
    let (first, second) = (gate.clone(), gate.clone());
    pool.execute(move || first.pass()).unwrap();
    pool.execute(move || second.pass()).unwrap();
    assert!(pool.execute_task(Task::new(|| {}).named("third")).is_err());
    assert!(pool.execute(|| {}).is_err() && pool.try_submit(|| 1).is_err());
    gate.open();
    assert!(pool.wait_idle(crate::support::LONG).unwrap());
    drop(pool.submit(|| resume_unwind(Box::new("broken"))).unwrap());
    pool.close();
    let started = "started observed-1";
    let mut events = log.take();
    events.sort_by_key(|event| event != started); // the worker starts while tasks are rejected
    let saturated = "rejected None: saturated";
    let refused = ["rejected Some(\"third\"): saturated", saturated, saturated];
    assert_eq!(events[0], started);
    assert_eq!(events[1..4], refused);
    assert_eq!(events[4..], ["panicked None: broken", "stopped observed-1", "Ended"]);
    drop(subscription);
    drop(pool);
    let again = ThreadPoolExecutor::builder().name("observed").build().unwrap();
    again.close();
    assert!(log.take().is_empty(), "the subscription has ended");
}

#[test]
fn a_thread_that_cannot_be_started_is_an_event() {
    let (log, _subscription) = Log::of("threadless");
    let builder = ThreadPoolExecutor::builder().name("threadless");
    let pool = builder.thread_factory(|_| Err(io::Error::other("none left"))).build().unwrap();
    assert!(pool.execute(|| {}).is_err());
    drop(pool);
    let spawn_failed = "rejected None: spawn_failed";
    assert_eq!(log.take(), ["Created", "failed: none left", spawn_failed, "Ended"]);
}

#[test]
fn an_unregistered_pool_has_no_events() {
    let (log, _subscription) = Log::of("unobserved");
    let pool = ThreadPoolExecutor::builder().name("unobserved").unregistered().build().unwrap();
    pool.submit(|| {}).unwrap().join().unwrap();
    pool.close();
    assert!(log.take().is_empty());
}

/// Panics, or calls the pool and the registry, at every event.
struct Hostile {
    name: &'static str,
    panics: bool,
}

impl Observer for Hostile {
    fn event(&self, pool: &PoolRef, _: &Event<'_>) {
        if pool.name().as_deref() != Some(self.name) {
            return;
        }
        if self.panics {
            resume_unwind(Box::new("an observer"));
        }
        pool.snapshot();
        registry::pools();
        let _other = registry::observe(Arc::new(Hostile { name: "nothing", panics: true }));
        if let Some(pool) = pool.upgrade() {
            if pool.is_shutdown() {
                pool.close(); // on a thread of the pool: does not wait
            } else {
                let _ = pool.try_submit(|| {});
            }
        }
    }
}

#[test]
fn an_observer_that_panics_or_calls_the_pool_does_no_harm() {
    for (name, panics) in [("hostile panic", true), ("hostile calls", false)] {
        let _subscription = registry::observe(Arc::new(Hostile { name, panics }));
        let pool = ThreadPoolExecutor::builder().name(name).core_pool_size(2).build().unwrap();
        let tasks: Vec<_> = (0..20).map(|number| pool.submit(move || number).unwrap()).collect();
        let sum: i32 = tasks.into_iter().map(|task| task.join().unwrap()).sum();
        assert_eq!(sum, 190);
        assert!(pool.submit(|| resume_unwind(Box::new("a task"))).unwrap().join().is_err());
        pool.close();
        assert!(pool.execute(|| {}).is_err());
        assert!(pool.is_terminated());
    }
}

/// Blocks the thread that starts the first worker.
struct Blocking(Gate, Gate);

impl Observer for Blocking {
    fn event(&self, pool: &PoolRef, event: &Event<'_>) {
        if pool.name().as_deref() == Some("blocked")
            && matches!(event, Event::WorkerStarted { worker } if worker.number() == 1)
        {
            self.0.open();
            self.1.pass();
        }
    }
}

#[test]
fn an_observer_that_blocks_holds_up_its_own_thread_only() {
    let (begun, end) = (Gate::new(), Gate::new());
    let _subscription = registry::observe(Arc::new(Blocking(begun.clone(), end.clone())));
    let builder = ThreadPoolExecutor::builder().name("blocked").core_pool_size(2).maximum_pool_size(2);
    let pool = builder.build().unwrap();
    pool.prestart_core_thread();
    begun.pass();
    thread::scope(|s| {
        s.spawn(|| assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7)); // by the second worker
        s.spawn(|| assert!(pool.snapshot().stats.pool_size > 0));
    });
    end.open();
    pool.close();
}
