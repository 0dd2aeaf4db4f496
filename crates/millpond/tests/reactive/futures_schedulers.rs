//! Futures on schedulers, using only `std::task`.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::future_fixtures::{Signal, yields};
use crate::support::{Counter, Gate, LONG, SMALL, end, eventually, rounds, soon, together};
use millpond::reactive::{self, SchedulerFutureExt};
use millpond::schedulers::{
    self, Disposable, Lane, PeriodicTask, Scheduler, SchedulerExt, SchedulerStats, Worker,
};
use millpond::{Interrupted, JoinError, RejectReason, Rejected, Task, TaskOf, executors};

fn single() -> Arc<dyn Scheduler> {
    schedulers::new_single("one").unwrap()
}

#[test]
fn a_future_on_a_scheduler_is_polled_on_its_thread() {
    let scheduler = schedulers::new_parallel(2, "lane").unwrap();
    let handle = scheduler.spawn_future(async {
        let before = thread::current().id();
        yields(3).await;
        (before == thread::current().id(), thread::current().name().unwrap().to_owned())
    });
    let (same, name) = soon(handle.unwrap()).unwrap();
    assert!(same && name.starts_with("lane"), "{name}");
}

#[test]
fn a_future_frees_its_worker_when_it_has_ended() {
    let scheduler = schedulers::new_bounded_elastic(1, 10, "elastic", Duration::from_secs(60)).unwrap();
    let signal = Signal::new();
    let handle = scheduler.spawn_future(signal.clone()).unwrap();
    eventually(|| signal.is_awaited());
    assert_eq!(scheduler.stats().busy, 1);
    signal.set();
    soon(handle).unwrap();
    eventually(|| scheduler.stats().busy == 0 && scheduler.stats().queued == 0);
}

#[test]
fn disposing_of_a_scheduler_abandons_an_idle_future() {
    for end in [
        |s: &dyn Scheduler| s.dispose(),
        |s: &dyn Scheduler| {
            let _ = s.dispose_gracefully(Duration::ZERO);
        },
    ] {
        let (scheduler, signal, dropped) = (single(), Signal::new(), Counter::new());
        let (waits, captured) = (signal.clone(), dropped.on_drop());
        let handle = scheduler
            .spawn_future(async move {
                let _captured = captured;
                waits.await;
            })
            .unwrap();
        eventually(|| signal.is_awaited());
        end(&*scheduler);
        assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
        assert_eq!(dropped.get(), 1);
        assert!(scheduler.dispose_gracefully(LONG).unwrap());
    }
}

#[test]
fn disposing_of_a_scheduler_abandons_a_future_whose_turn_waits() {
    let (scheduler, gate) = (single(), Gate::new());
    let (running, pass) = (Gate::new(), gate.clone());
    let knock = running.clone();
    scheduler
        .schedule(move || {
            knock.open();
            pass.pass();
        })
        .unwrap();
    running.pass();
    let handle = scheduler.spawn_future(ready(1)).unwrap();
    scheduler.dispose();
    assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
    gate.open();
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
}

#[test]
fn a_graceful_end_lets_a_turn_finish_the_future() {
    let (scheduler, gate, running) = (single(), Gate::new(), Gate::new());
    let (pass, knock) = (gate.clone(), running.clone());
    let handle = scheduler.spawn_future(async move {
        knock.open();
        pass.pass();
        5
    });
    running.pass();
    assert!(!scheduler.dispose_gracefully(Duration::ZERO).unwrap());
    gate.open();
    assert_eq!(soon(handle.unwrap()).unwrap(), 5);
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
}

#[test]
fn a_future_is_refused_by_a_scheduler_that_has_ended() {
    let scheduler = single();
    scheduler.dispose();
    assert_eq!(scheduler.spawn_future(ready(1)).unwrap_err().reason(), RejectReason::Shutdown);
}

#[test]
fn a_future_on_a_scheduler_over_an_executor_learns_of_the_end_with_the_next_wake_up() {
    let pool = executors::fixed(1).unwrap();
    let scheduler = schedulers::from_executor(pool.clone());
    let signal = Signal::new();
    let handle = scheduler.spawn_future(signal.clone()).unwrap();
    eventually(|| signal.is_awaited());
    scheduler.dispose();
    signal.set();
    assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
    end(&pool);
}

/// One thread and one place in the queue: the future's watch holds it and gives it to the next
/// turn.
#[test]
fn a_full_scheduler_has_a_place_for_the_next_turn() {
    let scheduler = schedulers::new_bounded_elastic(1, 1, "full", Duration::from_secs(60)).unwrap();
    let signal = Signal::new();
    let handle = scheduler.spawn_future(signal.clone()).unwrap();
    // The first turn is over, and the watch holds the place.
    eventually(|| scheduler.stats().completed == 1 && scheduler.stats().queued == 1);
    let (gate, running) = (Gate::new(), Gate::new());
    let (pass, knock) = (gate.clone(), running.clone());
    scheduler
        .schedule(move || {
            knock.open();
            pass.pass();
        })
        .unwrap();
    running.pass();
    assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Saturated);
    signal.set();
    gate.open();
    soon(handle).unwrap();
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
}

#[test]
fn dispose_racing_wake_leaves_no_handle_pending() {
    for _ in rounds(300) {
        let (scheduler, signal) = (single(), Signal::new());
        let handle = scheduler.spawn_future(signal.clone()).unwrap();
        together(|| scheduler.dispose(), || signal.set());
        assert!(matches!(soon(handle), Ok(()) | Err(JoinError::Abandoned)));
        assert!(scheduler.dispose_gracefully(LONG).unwrap());
    }
}

/// Regression: only a worker of a pool polled a future that it joined. On the only thread of a
/// scheduler the join waited forever.
#[test]
fn a_task_that_joins_a_future_of_its_own_scheduler_takes_the_turns() {
    let elastic = schedulers::new_bounded_elastic(1, 10, "elastic", Duration::from_secs(60)).unwrap();
    let on_pool = schedulers::from_executor_service(executors::fixed(1).unwrap());
    for scheduler in [single(), elastic, on_pool] {
        let (mine, signal, waits) = (Arc::clone(&scheduler), Signal::new(), Gate::new());
        let (awaited, knock) = (signal.clone(), waits.clone());
        let joins = scheduler.schedule(move || {
            assert_eq!(soon(mine.spawn_future(yields(3)).unwrap()).unwrap(), 4);
            knock.open();
            soon(mine.spawn_future(awaited).unwrap()).unwrap();
        });
        waits.pass();
        eventually(|| signal.is_awaited());
        signal.set();
        assert_eq!(joins.unwrap().wait(LONG), Ok(true));
        assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
        assert_eq!(scheduler.stats().panicked, 0);
    }
}

/// Forwards everything, but is slow to return from submitting a periodic task. Calls `before` first.
struct Slow {
    inner: Arc<dyn Scheduler>,
    before: Arc<dyn Fn() + Send + Sync>,
    taken: Gate,
    refused: Gate,
    ended: Counter,
}

struct SlowLane {
    inner: Worker,
    before: Arc<dyn Fn() + Send + Sync>,
    taken: Gate,
    refused: Gate,
    ended: Counter,
}

impl Lane for SlowLane {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.inner.schedule_task(task).inspect_err(|_| self.refused.open())
    }
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.inner.schedule_task_after(delay, task)
    }
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        (self.before)();
        let series = self.inner.schedule_periodically_task(initial, period, task);
        self.taken.open();
        self.refused.pass();
        // The turn is now between the refusal and its consequence. The test is valid at any point
        // in between.
        let begin = Instant::now();
        while self.ended.get() == 0 && begin.elapsed() < SMALL {
            thread::yield_now();
        }
        series
    }
    fn dispose(&self) {
        self.inner.dispose();
    }
    fn is_disposed(&self) -> bool {
        self.inner.is_disposed()
    }
    fn queued(&self) -> usize {
        self.inner.queued()
    }
}

impl Scheduler for Slow {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.inner.schedule_task(task)
    }
    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.inner.schedule_task_after(delay, task)
    }
    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.inner.schedule_periodically_task(initial, period, task)
    }
    fn create_worker(&self) -> Worker {
        let (taken, refused) = (self.taken.clone(), self.refused.clone());
        let (inner, before) = (self.inner.create_worker(), Arc::clone(&self.before));
        Worker::from_lane(Arc::new(SlowLane { inner, before, taken, refused, ended: self.ended.clone() }))
    }
    fn dispose(&self) {
        self.inner.dispose();
    }
    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        self.inner.dispose_gracefully(timeout)
    }
    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.inner.disposal()
    }
    fn is_disposed(&self) -> bool {
        self.inner.is_disposed()
    }
    fn stats(&self) -> SchedulerStats {
        self.inner.stats()
    }
}

/// Regression: the watch had the last place, but was not yet registered as able to give it up, so
/// the future was abandoned.
#[test]
fn a_turn_gets_the_place_of_a_watch_that_is_just_being_set() {
    let inner = schedulers::new_bounded_elastic(1, 1, "elastic", Duration::from_secs(60)).unwrap();
    let (taken, refused, ended) = (Gate::new(), Gate::new(), Counter::new());
    let scheduler = Slow {
        inner: Arc::clone(&inner),
        before: Arc::new(|| {}),
        taken: taken.clone(),
        refused: refused.clone(),
        ended: ended.clone(),
    };
    let captured = ended.on_drop();
    let handle = scheduler.spawn_future(async move {
        let _captured = captured;
        taken.pass();
        yields(1).await
    });
    assert_eq!(soon(handle.unwrap()).unwrap(), 2);
    assert!(refused.is_open(), "the turn found the queue full");
    eventually(|| inner.stats().busy == 0 && inner.stats().queued == 0);
    assert_eq!(inner.dispose_gracefully(LONG), Ok(true));
}

/// Regression: the scheduler ended after the first turn and before it received the watch. No thread
/// noticed the refusal, and the handle waited for as long as a waker existed.
#[test]
fn a_scheduler_that_ends_before_it_receives_the_watch_abandons_the_future() {
    let (inner, signal, refused, ended) = (single(), Signal::new(), Gate::new(), Counter::new());
    refused.open();
    ended.add();
    let (awaited, ends) = (signal.clone(), Arc::clone(&inner));
    let before = Arc::new(move || {
        eventually(|| awaited.is_awaited());
        ends.dispose();
    });
    let scheduler = Slow { inner, before, taken: Gate::new(), refused, ended };
    let handle = scheduler.spawn_future(signal.clone()).unwrap();
    assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}

/// Regression: the first turn had the only place when the watch was submitted. The watch was
/// submitted again only with the next turn, which an idle future does not have.
#[test]
fn a_future_whose_first_turn_had_the_last_place_learns_of_the_end() {
    let scheduler = schedulers::new_bounded_elastic(1, 1, "full", Duration::from_secs(60)).unwrap();
    let (gate, running, signal) = (Gate::new(), Gate::new(), Signal::new());
    let (pass, knock) = (gate.clone(), running.clone());
    scheduler
        .schedule(move || {
            knock.open();
            pass.pass();
        })
        .unwrap();
    running.pass();
    let handle = scheduler.spawn_future(signal.clone()).unwrap();
    assert_eq!(scheduler.stats().remaining_capacity, 0, "the turn has the only place");
    gate.open();
    eventually(|| signal.is_awaited());
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
}

#[test]
fn a_task_that_blocks_on_a_task_of_its_own_scheduler_runs_it_itself() {
    let scheduler = single();
    let (inner, (done, result)) = (Arc::clone(&scheduler), std::sync::mpsc::channel());
    scheduler
        .schedule(move || {
            let (task, handle) = TaskOf::new(|| 42).into_parts();
            inner.schedule_task(task).unwrap();
            let future = inner.spawn_future(async { yields(2).await }).unwrap();
            let both = async { (handle.await.unwrap(), future.await.unwrap()) };
            done.send(reactive::block_on(both)).unwrap();
        })
        .unwrap();
    assert_eq!(result.recv_timeout(LONG), Ok(Ok((42, 3))));
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
}
