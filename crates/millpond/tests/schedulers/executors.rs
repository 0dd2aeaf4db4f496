//! Schedulers over existing executors, and the immediate scheduler.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::executor_panics::Panicking;
use crate::scheduling::{builder, ended, poll_once};
use crate::support::pools::fixed;
use crate::support::{
    Counter, Gate, LONG, Notes, SHORT, block, die, eventually, in_a_process_of_its_own, keep_busy,
};
use millpond::schedulers::{self, Disposable, Scheduler, SchedulerExt};
use millpond::{
    Executor, ManualClock, RejectReason, Rejected, ScheduledThreadPoolExecutor, Task, TaskOf,
    ThreadPoolExecutor, WorkQueue, interrupt, policy,
};

const SECOND: Duration = Duration::from_secs(1);

/// Stores its tasks until the test runs them.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Vec<Task>>>);

impl Shelf {
    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Takes all tasks, to run or drop them.
    fn take(&self) -> Vec<Task> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn run_all(&self) {
        self.take().into_iter().for_each(Task::run);
    }
}

impl Executor for Shelf {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.0.lock().unwrap().push(task);
        Ok(())
    }
}

/// Rejects every task with a given reason.
struct Refusing(RejectReason);

impl Executor for Refusing {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        Err(Rejected::new(task, self.0))
    }
}

/// RS-086
#[test]
fn without_timing_delays_and_periods_are_refused_and_the_work_comes_back() {
    let kinds: [Arc<dyn Scheduler>; 3] = [
        Arc::new(schedulers::immediate()),
        schedulers::from_executor(fixed(1)),
        schedulers::from_executor_service(fixed(1)),
    ];
    for scheduler in kinds {
        let (ran, worker) = (Counter::new(), scheduler.create_worker());
        let count = || {
            let ran = ran.clone();
            move || ran.add()
        };
        let zero = Duration::ZERO;
        let refusals = [
            scheduler.schedule_after(SECOND, count()),
            worker.schedule_after(SECOND, count()),
            scheduler.schedule_periodically(SECOND, SECOND, count()),
            worker.schedule_periodically(SECOND, SECOND, count()),
            scheduler.schedule_periodically(zero, SECOND, count()),
            worker.schedule_periodically(SECOND, zero, count()),
        ];
        for refusal in refusals {
            let refused = refusal.unwrap_err();
            assert_eq!(refused.reason(), RejectReason::NotTimeCapable, "{scheduler}");
            refused.into_task().run();
        }
        assert_eq!(ran.get(), 6, "{scheduler}: each came back whole");
        assert_eq!(scheduler.schedule_after(zero, count()).unwrap().wait(LONG), Ok(true));
        assert_eq!(worker.schedule_after(zero, count()).unwrap().wait(LONG), Ok(true));
        assert_eq!(ran.get(), 8, "{scheduler}: no delay is no timing");
    }
}

/// RS-114
#[test]
fn without_timing_a_series_without_delay_and_period_runs_again_at_once() {
    for scheduler in [schedulers::from_executor(fixed(1)), schedulers::from_executor_service(fixed(1))] {
        let (three, runs) = (Gate::new(), Counter::new());
        let (open, count) = (three.clone(), runs.clone());
        let series = scheduler.schedule_periodically(Duration::ZERO, Duration::ZERO, move || {
            count.add();
            if count.get() == 3 {
                open.open();
            }
        });
        three.pass();
        assert!(series.unwrap().dispose());
        assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
        assert!(runs.get() >= 3);
    }
}

/// RS-114: the only thread can run other tasks between two runs.
#[test]
fn others_get_the_one_thread_between_the_runs_of_a_series_without_a_period() {
    let pool = fixed(1);
    for scheduler in [schedulers::from_executor(pool.clone()), schedulers::from_executor_service(pool)] {
        let (began, runs) = (Gate::new(), Counter::new());
        let (open, count) = (began.clone(), runs.clone());
        let series = scheduler
            .schedule_periodically(Duration::ZERO, Duration::ZERO, move || {
                open.open();
                count.add();
            })
            .unwrap();
        began.pass();
        let (direct, in_lane) =
            (scheduler.schedule(|| {}).unwrap(), scheduler.create_worker().schedule(|| {}).unwrap());
        assert_eq!(direct.wait(LONG), Ok(true), "the series keeps the thread for itself");
        assert_eq!(in_lane.wait(LONG), Ok(true));
        let before = runs.get();
        eventually(|| runs.get() > before);
        assert!(series.dispose());
    }
}

/// A scheduled pool with one thread and a manual clock, and a scheduler over it.
fn scheduled() -> (ManualClock, ScheduledThreadPoolExecutor, Arc<dyn Scheduler>) {
    let time = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder().core_pool_size(1).clock(time.clock()).build().unwrap();
    let scheduler = schedulers::from_scheduled_executor(pool.clone());
    (time, pool, scheduler)
}

/// RS-110, RS-114
#[test]
fn over_a_scheduled_pool_there_is_timing_by_the_clock_of_the_pool() {
    let (time, _pool, scheduler) = scheduled();
    let (notes, worker) = (Notes::new(), scheduler.create_worker());
    let n = notes.clone();
    let direct = scheduler.schedule_after(2 * SECOND, move || n.add("direct")).unwrap();
    let n = notes.clone();
    let in_lane = worker.schedule_after(SECOND, move || n.add("lane")).unwrap();
    let n = notes.clone();
    let series = worker.schedule_periodically(SECOND, SECOND, move || n.add("series")).unwrap();
    assert_eq!(scheduler.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    assert!(!direct.is_disposed() && !in_lane.is_disposed());
    assert_eq!(scheduler.stats().queued, 3);
    time.advance(SECOND);
    assert_eq!(in_lane.wait(LONG), Ok(true));
    time.advance(SECOND);
    assert_eq!(direct.wait(LONG), Ok(true));
    let mut seen = Vec::new();
    eventually(|| {
        seen.extend(notes.take());
        seen.len() == 4
    });
    assert_eq!(seen.iter().filter(|note| **note == "series").count(), 2);
    assert_eq!(seen[0], "lane");
    assert!(series.dispose());
    assert_eq!(scheduler.to_string(), "fromScheduledExecutor");
}

/// RS-113
#[test]
fn disposing_of_a_scheduler_over_a_scheduled_pool_shuts_the_pool_down() {
    let (_time, pool, scheduler) = scheduled();
    let waits = scheduler.schedule_after(SECOND, || {}).unwrap();
    let of_pool = pool.schedule(SECOND, || {}).unwrap();
    scheduler.dispose();
    assert!(waits.is_cancelled() && pool.is_shutdown());
    assert!(of_pool.join().is_err(), "what others gave it went with it");
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    assert!(pool.is_terminated());
}

/// RS-104
#[test]
fn a_graceful_end_over_a_scheduled_pool_runs_delayed_work_in_its_time() {
    let (time, pool, scheduler) = scheduled();
    let ran = Counter::new();
    let count = ran.clone();
    scheduler.schedule_after(SECOND, move || count.add()).unwrap();
    let series = scheduler.schedule_periodically(SECOND, SECOND, || {}).unwrap();
    assert_eq!(scheduler.dispose_gracefully(SHORT), Ok(false));
    assert!(series.is_cancelled() && !pool.is_shutdown());
    thread::scope(|scope| {
        let waiting = block(scope, || scheduler.dispose_gracefully(LONG));
        time.advance(SECOND);
        assert_eq!(waiting.join(), Ok(true));
    });
    assert_eq!((ran.get(), pool.is_terminated()), (1, true));
}

#[test]
fn a_scheduled_pool_that_is_shut_down_from_outside_ends_its_scheduler() {
    let (time, pool, scheduler) = scheduled();
    let waits = scheduler.schedule_after(SECOND, || {}).unwrap();
    pool.shutdown();
    assert!(!scheduler.is_disposed(), "it has not been told yet");
    time.advance(SECOND);
    assert_eq!(waits.wait(LONG), Ok(true));
    assert!(waits.is_cancelled(), "there was no thread for it");
    eventually(|| scheduler.is_disposed());
    assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
}

/// Regression: several tasks became due at the same time, and no thread could be started for them.
/// Only the last failure was handled: the other slots got no thread and never ended, and so neither
/// did the scheduler.
#[test]
fn of_delayed_tasks_that_ring_together_for_a_pool_that_refuses_each_is_cancelled() {
    let (time, pool, scheduler) = scheduled();
    let worker = scheduler.create_worker();
    let mut tasks: Vec<Disposable> =
        (0..3).map(|_| scheduler.schedule_after(SECOND, || {}).unwrap()).collect();
    tasks.push(worker.schedule_after(SECOND, || {}).unwrap());
    pool.shutdown();
    time.advance(SECOND);
    assert!(tasks.iter().all(Disposable::is_cancelled), "{tasks:?}");
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    let stats = scheduler.stats();
    assert_eq!((stats.submitted, stats.cancelled, stats.slots), (4, 4, 0), "{stats:?}");
}

/// The same if the executor rejects for another reason than its shutdown.
#[test]
fn of_delayed_tasks_that_ring_together_for_a_pool_without_threads_each_is_cancelled() {
    let time = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder()
        .core_pool_size(1)
        .clock(time.clock())
        .thread_factory(|_| Err(std::io::Error::other("out of threads")))
        .build()
        .unwrap();
    let scheduler = schedulers::from_scheduled_executor(pool);
    let tasks: Vec<Disposable> = (0..3).map(|_| scheduler.schedule_after(SECOND, || {}).unwrap()).collect();
    time.advance(SECOND);
    assert!(tasks.iter().all(Disposable::is_cancelled), "{tasks:?}");
    assert!(!scheduler.is_disposed());
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}

/// RS-110: a worker keeps order and does not overlap, over any executor.
#[test]
fn a_worker_over_many_threads_keeps_order_and_never_overlaps() {
    for scheduler in [schedulers::from_executor(fixed(3)), schedulers::from_executor_service(fixed(3))] {
        let (order, inside) = (Notes::new(), Arc::new(AtomicUsize::new(0)));
        let worker = scheduler.create_worker();
        let give = |number: usize| {
            let (order, inside) = (order.clone(), Arc::clone(&inside));
            worker
                .schedule(move || {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at a time");
                    order.add(number);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
                .unwrap()
        };
        let tasks: Vec<Disposable> = (0..200).map(give).collect();
        tasks.iter().for_each(|task| assert_eq!(task.wait(LONG), Ok(true)));
        assert_eq!(order.take(), (0..200).collect::<Vec<_>>());
        assert_eq!(scheduler.stats().panicked, 0);
    }
}

/// RS-110
#[test]
fn direct_tasks_use_all_threads_of_the_executor() {
    for scheduler in [schedulers::from_executor(fixed(3)), schedulers::from_executor_service(fixed(3))] {
        let all_here = Arc::new(std::sync::Barrier::new(3));
        let meet = |_| {
            let all_here = Arc::clone(&all_here);
            scheduler
                .schedule(move || {
                    all_here.wait();
                })
                .unwrap()
        };
        let tasks: Vec<Disposable> = (0..3).map(meet).collect();
        tasks.iter().for_each(|task| assert_eq!(task.wait(LONG), Ok(true)));
    }
}

/// RS-115
#[test]
fn what_a_worker_has_is_one_submission_to_the_executor() {
    let (shelf, notes) = (Shelf::default(), Notes::new());
    let scheduler = schedulers::from_executor(shelf.clone());
    let worker = scheduler.create_worker();
    for number in 0..3 {
        let (n, mine) = (notes.clone(), worker.clone());
        worker.schedule(move || n.add((number, mine.queued()))).unwrap();
    }
    assert_eq!((shelf.len(), worker.queued()), (1, 2), "the first has its thread, as far as we know");
    assert_eq!(scheduler.stats().queued, 2);
    shelf.run_all();
    assert_eq!(notes.take(), [(0, 2), (1, 1), (2, 0)]);
    assert_eq!(shelf.len(), 0);
    worker.schedule(|| {}).unwrap();
    assert_eq!(shelf.len(), 1, "the next burst is the next submission");
    worker.schedule(|| {}).unwrap();
    worker.dispose();
    assert_eq!(worker.queued(), 0);
    shelf.run_all();
    let stats = scheduler.stats();
    assert_eq!((stats.completed, stats.cancelled, stats.queued), (3, 2, 0));
}

#[test]
fn a_task_that_the_executor_drops_is_cancelled_and_the_rest_of_its_lane_gets_another_chance() {
    let shelf = Shelf::default();
    let scheduler = schedulers::from_executor(shelf.clone());
    let worker = scheduler.create_worker();
    let dropped = [scheduler.schedule(|| {}).unwrap(), worker.schedule(|| {}).unwrap()];
    let next = worker.schedule(|| {}).unwrap();
    drop(shelf.take());
    for task in &dropped {
        assert_eq!(task.wait(LONG), Ok(true));
        assert!(task.is_cancelled());
    }
    assert_eq!((shelf.len(), next.is_disposed()), (1, false), "a submission of its own");
    shelf.run_all();
    assert!(next.is_disposed() && !next.is_cancelled());
    let stats = scheduler.stats();
    assert_eq!((stats.submitted, stats.cancelled, stats.completed), (3, 2, 1));
    assert_eq!((stats.queued, stats.live_threads), (0, 0));
}

/// Stores the first task, and passes the others to a function.
struct OnlyTheFirst<F> {
    shelf: Shelf,
    is_next: AtomicBool,
    others: F,
}

impl<F: Fn(Task) -> Result<(), Rejected> + Send + Sync> OnlyTheFirst<F> {
    fn new(shelf: &Shelf, others: F) -> Self {
        OnlyTheFirst { shelf: shelf.clone(), is_next: AtomicBool::new(false), others }
    }
}

impl<F: Fn(Task) -> Result<(), Rejected> + Send + Sync> Executor for OnlyTheFirst<F> {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        let is_next = self.is_next.swap(true, Ordering::SeqCst);
        if is_next { (self.others)(task) } else { self.shelf.execute_task(task) }
    }
}

/// More nested calls than fit on a stack.
const MANY: usize = 20_000;

/// Gives a worker many tasks, and makes the executor drop the first.
fn drop_the_first_of_many(others: impl Fn(Task) -> Result<(), Rejected> + Send + Sync + 'static) {
    let shelf = Shelf::default();
    let scheduler = schedulers::from_executor(OnlyTheFirst::new(&shelf, others));
    let worker = scheduler.create_worker();
    let tasks: Vec<Disposable> = (0..MANY).map(|_| worker.schedule(|| {}).unwrap()).collect();
    drop(shelf.take());
    assert!(tasks.iter().all(Disposable::is_cancelled));
    assert_eq!(scheduler.stats().cancelled, MANY as u64);
    worker.dispose();
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}

/// Regression: when a task was rejected, the lane's next task was started inside the call that had
/// rejected it. The nested calls overflowed the stack and aborted the process.
#[test]
fn an_executor_that_refuses_a_long_lane_cancels_its_tasks_on_a_short_stack() {
    in_a_process_of_its_own(
        "executors::an_executor_that_refuses_a_long_lane_cancels_its_tasks_on_a_short_stack",
        || {
            for reason in [RejectReason::Saturated, RejectReason::Shutdown] {
                drop_the_first_of_many(move |task| Err(Rejected::new(task, reason)));
            }
        },
    );
}

#[test]
fn an_executor_that_throws_a_long_lane_away_cancels_its_tasks_on_a_short_stack() {
    in_a_process_of_its_own(
        "executors::an_executor_that_throws_a_long_lane_away_cancels_its_tasks_on_a_short_stack",
        || {
            drop_the_first_of_many(|task| {
                drop(task);
                Ok(())
            });
        },
    );
}

/// Stores the latest tasks, and drops older ones.
#[derive(Clone)]
struct Latest {
    shelf: Shelf,
    capacity: Arc<AtomicUsize>,
}

impl Executor for Latest {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        let mut kept = self.shelf.0.lock().unwrap();
        kept.push(task);
        let too_many = kept.len().saturating_sub(self.capacity.load(Ordering::SeqCst));
        let older: Vec<Task> = kept.drain(..too_many).collect();
        drop(kept);
        drop(older);
        Ok(())
    }
}

/// Regression: an evicted task was followed by the next of its lane, which evicted another, in
/// nested calls.
#[test]
fn lanes_that_push_each_other_out_of_an_executor_do_so_on_a_short_stack() {
    in_a_process_of_its_own(
        "executors::lanes_that_push_each_other_out_of_an_executor_do_so_on_a_short_stack",
        || {
            let latest = Latest { shelf: Shelf::default(), capacity: Arc::new(AtomicUsize::new(2)) };
            let scheduler = schedulers::from_executor(latest.clone());
            let lanes = [scheduler.create_worker(), scheduler.create_worker()];
            for _ in 0..MANY {
                lanes.iter().for_each(|lane| drop(lane.schedule(|| {}).unwrap()));
            }
            latest.capacity.store(1, Ordering::SeqCst);
            scheduler.schedule(|| {}).unwrap();
            let stats = scheduler.stats();
            assert_eq!((stats.cancelled, stats.queued), (2 * MANY as u64, 0), "{stats:?}");
            latest.shelf.run_all();
            assert_eq!(scheduler.stats().completed, 1);
        },
    );
}

/// Runs each task inside the call.
struct Inline;

impl Executor for Inline {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

/// RS-114. Regression: after each run the periodic task was submitted again, and the executor ran
/// it inside this call. The nested calls overflowed the stack and aborted the process.
#[test]
fn a_series_without_a_period_runs_in_place_on_a_short_stack() {
    in_a_process_of_its_own("executors::a_series_without_a_period_runs_in_place_on_a_short_stack", || {
        let scheduler = schedulers::from_executor(Inline);
        let (worker, runs) = (scheduler.create_worker(), Counter::new());
        let (ends, count) = (worker.clone(), runs.clone());
        let run = move || {
            count.add();
            if count.get() == MANY {
                ends.dispose();
            }
        };
        let series = worker.schedule_periodically(Duration::ZERO, Duration::ZERO, run).unwrap();
        assert_eq!((series.is_cancelled(), runs.get()), (true, MANY));
        assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    });
}

/// The same with a full pool and `CallerRuns`.
#[test]
fn a_series_without_a_period_runs_on_the_caller_on_a_short_stack() {
    in_a_process_of_its_own(
        "executors::a_series_without_a_period_runs_on_the_caller_on_a_short_stack",
        || {
            let pool = ThreadPoolExecutor::builder()
                .core_pool_size(1)
                .maximum_pool_size(1)
                .work_queue(WorkQueue::array(1))
                .rejected_execution_handler(policy::CallerRuns)
                .build()
                .unwrap();
            let (gate, runs) = (Gate::new(), Counter::new());
            let busy = keep_busy(&pool, &gate);
            pool.execute(|| {}).unwrap();
            let scheduler = schedulers::from_executor(pool.clone());
            let (opens, count) = (gate.clone(), runs.clone());
            let run = move || {
                count.add();
                if count.get() == MANY {
                    opens.open(); // now the pool has room
                }
            };
            let series = scheduler.schedule_periodically(Duration::ZERO, Duration::ZERO, run).unwrap();
            eventually(|| runs.get() > MANY);
            assert!(series.dispose());
            assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
            busy.join().unwrap();
            pool.close();
        },
    );
}

/// A task that the executor runs inline may wait for tasks that it starts, even without a handle.
/// None of them may be delayed until it has ended.
#[test]
fn a_task_that_runs_in_place_does_not_put_off_what_it_starts() {
    let shelf = Shelf::default();
    let scheduler = schedulers::from_executor(OnlyTheFirst::new(&shelf, |task| Inline.execute_task(task)));
    let worker = scheduler.create_worker();
    let [dropped, next] = [worker.schedule(|| {}).unwrap(), worker.schedule(|| {}).unwrap()];
    let seen = Notes::new();
    let (n, late) = (seen.clone(), next.clone());
    let in_place = scheduler.schedule(move || {
        drop(shelf.take());
        n.add(late.is_disposed());
    });
    assert!(in_place.unwrap().is_disposed() && dropped.is_cancelled());
    assert_eq!(seen.take(), [true], "it ran where the one before it was dropped");
    assert!(!next.is_cancelled());
}

/// RS-113: the executor's reason is passed through. If the executor is shut down, the scheduler is
/// disposed too.
#[test]
fn what_the_executor_refuses_comes_back_with_its_reason() {
    for (reason, ends) in [(RejectReason::Saturated, false), (RejectReason::Shutdown, true)] {
        let scheduler = schedulers::from_executor(Refusing(reason));
        let (ran, worker) = (Counter::new(), scheduler.create_worker());
        let count = ran.clone();
        let refused = worker.schedule(move || count.add()).unwrap_err();
        assert_eq!(refused.reason(), reason);
        refused.into_task().run();
        assert_eq!(ran.get(), 1);
        assert_eq!((scheduler.is_disposed(), worker.is_disposed()), (ends, ends));
        let count = ran.clone();
        let refused = scheduler.schedule(move || count.add()).unwrap_err();
        assert_eq!(refused.reason(), reason);
        refused.into_task().run();
        assert_eq!(ran.get(), 2);
        let stats = scheduler.stats();
        assert_eq!((stats.rejected, stats.submitted, stats.queued, stats.live_threads), (2, 0, 0, 0));
    }
}

/// A pool that cannot start a thread, with a cause from its factory.
fn no_threads(prefix: &str) -> ThreadPoolExecutor {
    let builder = ThreadPoolExecutor::builder().core_pool_size(1).thread_name_prefix(prefix);
    builder.thread_factory(|_| Err(io::Error::other("no more threads"))).build().unwrap()
}

#[test]
fn a_failed_thread_start_keeps_its_cause_through_a_scheduler_over_an_executor() {
    let scheduled = ScheduledThreadPoolExecutor::builder().core_pool_size(1);
    let scheduled = scheduled.thread_factory(|_| Err(io::Error::other("no more threads"))).build().unwrap();
    let elastic = schedulers::BoundedElasticScheduler::builder()
        .max_threads(1)
        .thread_factory(|_| Err(io::Error::other("no more threads")))
        .build()
        .unwrap();
    let kinds: [Arc<dyn Scheduler>; 6] = [
        schedulers::from_executor(no_threads("a")),
        schedulers::from_executor_service(no_threads("b")),
        schedulers::from_scheduled_executor(scheduled),
        schedulers::single_worker(&schedulers::from_executor(no_threads("c"))),
        schedulers::single_worker(&elastic),
        Arc::new(elastic.clone()),
    ];
    for scheduler in kinds {
        for refused in
            [scheduler.schedule(|| {}).unwrap_err(), scheduler.create_worker().schedule(|| {}).unwrap_err()]
        {
            assert_eq!(refused.reason(), RejectReason::SpawnFailed, "{scheduler}");
            let cause = refused.source().and_then(|source| source.downcast_ref::<io::Error>());
            assert_eq!(cause.expect("it has a cause").to_string(), "no more threads", "{scheduler}");
        }
    }
}

#[test]
fn an_executor_that_panics_refuses() {
    let scheduler = schedulers::from_executor(Panicking);
    let ran = Counter::new();
    let count = ran.clone();
    let refused = scheduler.schedule(move || count.add()).unwrap_err();
    assert_eq!(refused.reason(), RejectReason::CallbackPanicked);
    refused.into_task().run();
    assert_eq!(ran.get(), 1);
    assert!(!scheduler.is_disposed());
}

/// RS-112: its workers reject too, and the executor is not affected.
#[test]
fn disposing_of_a_scheduler_over_an_executor_leaves_the_executor_alone() {
    let pool = fixed(1);
    let scheduler = schedulers::from_executor(pool.clone());
    let (worker, gate) = (scheduler.create_worker(), Gate::new());
    let busy = keep_busy(&pool, &gate);
    let waits = [scheduler.schedule(|| {}).unwrap(), worker.schedule(|| {}).unwrap()];
    scheduler.dispose();
    scheduler.dispose();
    assert!(waits.iter().all(Disposable::is_cancelled));
    assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    assert!(worker.is_disposed() && scheduler.create_worker().is_disposed());
    gate.open();
    busy.join().unwrap();
    assert!(!pool.is_shutdown());
    assert_eq!(pool.submit(|| 7).unwrap().join().unwrap(), 7);
    pool.close();
}

/// RS-112
#[test]
fn dropping_a_scheduler_over_an_executor_runs_what_it_has_and_leaves_the_executor_alone() {
    let (pool, gate, ran) = (fixed(1), Gate::new(), Counter::new());
    let busy = keep_busy(&pool, &gate);
    let scheduler = schedulers::from_executor(pool.clone());
    let count = ran.clone();
    let task = scheduler.schedule(move || count.add()).unwrap();
    drop(scheduler);
    gate.open();
    busy.join().unwrap();
    assert_eq!(task.wait(LONG), Ok(true));
    assert_eq!((ran.get(), pool.is_shutdown()), (1, false));
    pool.close();
}

/// RS-113
#[test]
fn disposing_of_a_scheduler_that_owns_its_service_shuts_the_service_down() {
    let (pool, gate) = (fixed(1), Gate::new());
    let scheduler = schedulers::from_executor_service(pool.clone());
    let busy = keep_busy(&pool, &gate);
    let (of_scheduler, of_pool) = (scheduler.schedule(|| {}).unwrap(), pool.submit(|| {}).unwrap());
    scheduler.dispose();
    assert!(pool.is_shutdown() && of_scheduler.is_cancelled());
    assert!(of_pool.join().is_err(), "what others gave it went with it");
    gate.open();
    assert!(busy.join().is_ok());
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    assert!(pool.is_terminated());
}

/// RS-113. Regression: the service was ended only by a thread that waited for the scheduler's end.
/// Without such a thread, the service's threads stayed forever.
#[test]
fn the_end_of_a_scheduler_that_owns_its_service_ends_the_service_although_nobody_waits() {
    let drops = |scheduler: Arc<dyn Scheduler>| drop(scheduler);
    let begins = |scheduler: Arc<dyn Scheduler>| {
        assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    };
    let polls = |scheduler: Arc<dyn Scheduler>| assert!(!poll_once(&mut scheduler.disposal()));
    for way in [drops, begins, polls] {
        let (pool, gate) = (fixed(1), Gate::new());
        let scheduler = schedulers::from_executor_service(pool.clone());
        let pass = gate.clone();
        let last = scheduler.schedule(move || pass.pass()).unwrap();
        way(scheduler);
        assert!(!pool.is_shutdown(), "there is work to do");
        gate.open();
        crate::support::await_end(&pool);
        assert!(last.is_disposed() && !last.is_cancelled());
    }
}

#[test]
fn dropping_an_idle_scheduler_that_owns_its_service_ends_the_service() {
    let pool = fixed(1);
    let scheduler = schedulers::from_executor_service(pool.clone());
    assert_eq!(scheduler.schedule(|| {}).unwrap().wait(LONG), Ok(true));
    let worker = scheduler.create_worker();
    drop(scheduler);
    assert!(!pool.is_shutdown(), "a worker keeps its scheduler");
    drop(worker);
    crate::support::await_end(&pool);
}

/// RS-113
#[test]
fn a_service_that_is_shut_down_from_outside_ends_its_scheduler_at_the_next_submission() {
    for owned in [true, false] {
        let pool = fixed(1);
        let scheduler = if owned {
            schedulers::from_executor_service(pool.clone())
        } else {
            schedulers::from_executor(pool.clone())
        };
        let worker = scheduler.create_worker();
        pool.shutdown();
        assert!(!scheduler.is_disposed(), "it has not been told yet");
        assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
        assert!(scheduler.is_disposed() && worker.is_disposed());
        assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    }
}

/// RS-104: a graceful end is delegated to the service.
#[test]
fn a_graceful_end_runs_what_waits_and_then_ends_an_owned_service() {
    let (pool, gate, ran) = (fixed(1), Gate::new(), Notes::new());
    let scheduler = schedulers::from_executor_service(pool.clone());
    let busy = keep_busy(&pool, &gate);
    let n = ran.clone();
    scheduler.schedule(move || n.add("direct")).unwrap();
    let n = ran.clone();
    scheduler.create_worker().schedule(move || n.add("worker")).unwrap();
    assert_eq!(scheduler.dispose_gracefully(SHORT), Ok(false));
    assert!(scheduler.is_disposed());
    assert_eq!(scheduler.schedule(|| {}).unwrap_err().reason(), RejectReason::Shutdown);
    thread::scope(|scope| {
        let waiting = block(scope, || scheduler.dispose_gracefully(LONG));
        gate.open();
        assert_eq!(waiting.join(), Ok(true));
    });
    busy.join().unwrap();
    assert_eq!(ran.take(), ["direct", "worker"]);
    assert!(pool.is_terminated());
}

/// RS-104
#[test]
fn a_graceful_end_over_a_borrowed_executor_runs_what_waits_and_leaves_it_alone() {
    let (pool, gate, ran) = (fixed(1), Gate::new(), Counter::new());
    let scheduler = schedulers::from_executor(pool.clone());
    let busy = keep_busy(&pool, &gate);
    let count = ran.clone();
    scheduler.schedule(move || count.add()).unwrap();
    assert_eq!(scheduler.dispose_gracefully(SHORT), Ok(false));
    gate.open();
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    assert_eq!((ran.get(), pool.is_shutdown()), (1, false));
    busy.join().unwrap();
    pool.close();
}

/// Regression: at the end of each task all slots were scanned under the lock, and over an executor
/// every task has one. Ten thousand tasks took a second, and a hundred thousand 100 times as long.
#[test]
fn ending_many_tasks_over_an_executor_takes_as_long_for_each_as_ending_few() {
    let time_for = |tasks: usize| {
        let shelf = Shelf::default();
        let scheduler = schedulers::from_executor(shelf.clone());
        (0..tasks).for_each(|_| drop(scheduler.schedule(|| {}).unwrap()));
        scheduler.dispose();
        let begin = Instant::now();
        drop(shelf.take());
        assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
        begin.elapsed()
    };
    let best = |tasks: usize| (0..3).map(|_| time_for(tasks)).min().unwrap();
    let (few, many) = (best(MANY / 20), best(MANY));
    assert!(many < 100 * few || many < SECOND, "20 times as many took {many:?} instead of {few:?}");
}

/// Regression: each join searched the queue from its newest task, twice and under the lock.
#[test]
fn joining_many_tasks_in_order_takes_as_long_for_each_as_joining_few() {
    let time_for = |tasks: usize, in_a_lane: bool| {
        let scheduler = schedulers::new_single("joins").unwrap();
        let (inner, (tell, told)) = (Arc::clone(&scheduler), mpsc::channel());
        let joins = scheduler.schedule(move || {
            let lane = inner.create_worker();
            let submit = |_| {
                let (task, handle) = TaskOf::new(|| {}).into_parts();
                let submitted = if in_a_lane { lane.schedule_task(task) } else { inner.schedule_task(task) };
                submitted.unwrap();
                handle
            };
            let handles: Vec<_> = (0..tasks).map(submit).collect();
            let begin = Instant::now();
            handles.into_iter().for_each(|handle| handle.join().unwrap());
            tell.send(begin.elapsed()).unwrap();
        });
        let time = told.recv_timeout(LONG).unwrap();
        ended(&joins.unwrap());
        time
    };
    for in_a_lane in [false, true] {
        let best = |tasks: usize| (0..3).map(|_| time_for(tasks, in_a_lane)).min().unwrap();
        let (few, many) = (best(MANY / 20), best(MANY));
        assert!(many < 100 * few || many < 5 * SECOND, "20 times as many took {many:?} instead of {few:?}");
    }
}

/// Reports when it is dropped, and blocks in its destructor until the gate opens.
struct DropsSlowly {
    begun: Gate,
    gate: Gate,
}

impl Drop for DropsSlowly {
    fn drop(&mut self) {
        self.begun.open();
        self.gate.pass();
    }
}

/// Regression: the end was reported when the last run was counted, while captures of a periodic
/// task were still being dropped.
#[test]
fn a_graceful_end_over_an_executor_waits_until_the_last_run_is_over() {
    let pool = fixed(1);
    let scheduler = schedulers::from_executor(pool.clone());
    let [running, last_run, begun, gate] = [(); 4].map(|()| Gate::new());
    let (knock, pass) = (running.clone(), last_run.clone());
    let captured = DropsSlowly { begun: begun.clone(), gate: gate.clone() };
    let run = move || {
        let _ = &captured;
        knock.open();
        pass.pass();
    };
    let series = scheduler.schedule_periodically(Duration::ZERO, Duration::ZERO, run).unwrap();
    running.pass();
    assert_eq!(scheduler.dispose_gracefully(Duration::ZERO), Ok(false));
    last_run.open();
    begun.pass();
    assert_eq!(scheduler.dispose_gracefully(SHORT), Ok(false), "its closure is not dropped yet");
    gate.open();
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    assert_eq!(series.wait(Duration::ZERO), Ok(true));
    crate::support::end(&pool);
}

#[test]
fn immediate_runs_here_and_now_and_lets_panics_through() {
    let immediate = schedulers::immediate();
    let (here, worker) = (thread::current().id(), immediate.create_worker());
    let seen = Notes::new();
    let n = seen.clone();
    let done = immediate.schedule(move || n.add(thread::current().id())).unwrap();
    let n = seen.clone();
    worker.schedule(move || n.add(thread::current().id())).unwrap();
    assert_eq!(seen.take(), [here; 2]);
    assert!(done.is_disposed() && !done.is_cancelled() && !done.dispose());
    assert_eq!(done.wait(Duration::ZERO), Ok(true));
    let panic = std::panic::catch_unwind(|| immediate.schedule(|| die("mine"))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"mine"));
    worker.dispose();
    assert_eq!(worker.schedule(|| {}).unwrap_err().reason(), RejectReason::WorkerDisposed);
    assert!(immediate.schedule(|| {}).is_ok(), "that was the worker's end only");
}

/// A task on the only thread of a pool waits for delayed work, direct or of a worker.
fn task_that_waits_for_delayed_work(in_lane: bool) {
    let (time, _pool, scheduler) = scheduled();
    let worker = scheduler.create_worker();
    let due = vec![scheduler.schedule_after(SECOND, || {}), worker.schedule_after(SECOND, || {})];
    let due = due.into_iter().map(Result::unwrap).nth(usize::from(in_lane)).unwrap();
    let ((tell, told), waits) = (mpsc::channel(), due.clone());
    let waiting = scheduler.schedule(move || {
        tell.send(interrupt::current()).unwrap();
        assert_eq!(waits.wait(LONG), Ok(true));
    });
    let thread = told.recv().unwrap();
    eventually(|| thread.is_parked());
    time.advance(SECOND);
    assert_eq!(waiting.unwrap().wait(LONG), Ok(true));
    assert_eq!(due.wait(LONG), Ok(true));
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    let stats = scheduler.stats();
    assert_eq!((stats.completed, stats.panicked, stats.cancelled), (3, 0, 0), "{stats:?}");
}

/// Regression: the thread for the delayed work was queued behind the task, and nothing woke the
/// task to run the work itself.
#[test]
fn a_task_on_the_one_thread_of_a_pool_is_woken_for_delayed_work_that_it_waits_for() {
    task_that_waits_for_delayed_work(false);
    task_that_waits_for_delayed_work(true);
}

/// Regression: a submission started another job of the lane, whose alarm had not rung yet. The
/// executor refused, the submission was taken back, and the other job kept its slot for ever.
#[test]
fn a_refused_submission_to_a_lane_leaves_no_due_job_without_a_thread() {
    let time = ManualClock::new();
    let pool = ScheduledThreadPoolExecutor::builder()
        .core_pool_size(1)
        .clock(time.clock())
        .thread_factory(|_| Err(io::Error::other("out of threads")))
        .build()
        .unwrap();
    let scheduler = schedulers::from_scheduled_executor(pool);
    let worker = scheduler.create_worker();
    let (mine, (tell, told)) = (worker.clone(), mpsc::channel());
    // This factory runs on the thread that advances the clock, before the alarm of `due` rings.
    let first = builder(1, 10, &time).thread_factory(move |body| {
        tell.send(mine.schedule(|| {}).map(|_| ()).map_err(|refused| refused.reason())).unwrap();
        crate::scheduling::start(body)
    });
    let first = first.build().unwrap();
    let before = first.schedule_after(SECOND / 2, || {}).unwrap();
    let due = worker.schedule_after(SECOND, || {}).unwrap();
    time.advance(SECOND);
    assert_eq!(told.recv().unwrap(), Err(RejectReason::SpawnFailed));
    assert_eq!(due.wait(LONG), Ok(true), "it waits for a thread that does not come");
    assert!(due.is_cancelled());
    assert_eq!(before.wait(LONG), Ok(true));
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
    let stats = scheduler.stats();
    assert_eq!((stats.submitted, stats.cancelled, stats.slots), (1, 1, 0), "{stats:?}");
}

/// Stores its tasks, but its first call panics.
#[derive(Clone, Default)]
struct KeepsAndPanics(Shelf, Arc<AtomicBool>);

impl Executor for KeepsAndPanics {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.0.execute_task(task)?;
        assert!(self.1.swap(true, Ordering::SeqCst), "after it stored the task");
        Ok(())
    }
}

/// Regression: the slot waited for the stored thread, so later work had none.
#[test]
fn an_executor_that_keeps_a_task_and_panics_is_called_again_for_the_next() {
    let executor = KeepsAndPanics::default();
    let scheduler = schedulers::from_executor(executor.clone());
    let lane = scheduler.create_worker();
    assert_eq!(lane.schedule(|| {}).unwrap_err().reason(), RejectReason::CallbackPanicked);
    let next = lane.schedule(|| {}).unwrap();
    assert_eq!(executor.0.len(), 2, "the second task has a thread of its own");
    let kept = executor.0.take();
    drop(kept);
    assert_eq!(next.wait(LONG), Ok(true));
    assert!(next.is_cancelled());
    assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
}

/// The stored thread comes although its start was refused.
#[test]
fn a_kept_thread_that_comes_after_its_refusal_runs_what_waits_or_leaves() {
    for takes_all in [false, true] {
        let executor = KeepsAndPanics::default();
        let scheduler = schedulers::from_executor(executor.clone());
        let lane = scheduler.create_worker();
        lane.schedule(|| {}).unwrap_err();
        if takes_all {
            executor.0.run_all();
        }
        let next = lane.schedule(|| {}).unwrap();
        executor.0.run_all();
        assert_eq!((next.wait(LONG), next.is_cancelled()), (Ok(true), false));
        assert_eq!(scheduler.dispose_gracefully(LONG), Ok(true));
        assert_eq!(scheduler.stats().live_threads, 0);
    }
}
