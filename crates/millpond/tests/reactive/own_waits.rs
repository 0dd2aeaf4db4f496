//! Threads that wait for futures and tasks of their own pool or scheduler.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::future_fixtures::{Signal, yields};
use crate::support::{LONG, SHORT, end, eventually, soon};
use millpond::reactive::{self, ExecutorFutureExt, SchedulerFutureExt};
use millpond::schedulers::{self, Scheduler, Worker};
use millpond::{
    CancelOnDrop, Canceller, Executor, JoinError, Rejected, ScheduledThreadPoolExecutor, Task, TaskHandle,
    executors, interrupt,
};

fn elastic() -> Arc<dyn Scheduler> {
    schedulers::new_bounded_elastic(2, 100, "elastic", Duration::from_secs(60)).unwrap()
}

/// A worker of a scheduler as an executor: each task is queued in its lane.
#[derive(Clone)]
struct OnLane(Worker);

impl Executor for OnLane {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.0.schedule_task(task).map(drop)
    }
}

/// Spawns a future that is queued behind the current task.
type Spawn<F> = Box<dyn FnOnce(F) -> TaskHandle<()> + Send>;
/// Waits for a future.
type Join = fn(TaskHandle<()>) -> Result<(), JoinError>;

const JOINS: [Join; 3] = [
    |handle| handle.join(),
    |mut handle| handle.join_timeout(Duration::MAX).expect("it has no limit"),
    |handle| reactive::block_on(handle).unwrap(),
];

/// Two ways to run work in one lane: a scheduler for the task that waits, and a function that
/// spawns a future in the same lane.
fn lanes<F: Future<Output = ()> + Send + 'static>(original: &dyn Scheduler) -> [(Worker, Spawn<F>); 2] {
    let one = schedulers::single_worker(original);
    let lane = original.create_worker();
    let on_lane = OnLane(lane.clone());
    [
        (one.create_worker(), Box::new(move |future| one.spawn_future(future).unwrap())),
        (lane, Box::new(move |future| on_lane.spawn_future(future).unwrap())),
    ]
}

fn is_told(told: &mpsc::Receiver<Result<(), JoinError>>, canceller: &Canceller) {
    let answer = told.recv_timeout(LONG / 4);
    canceller.cancel(true); // so that a failure does not hang
    assert!(matches!(answer, Ok(Err(JoinError::WouldDeadlock))), "{answer:?}");
}

/// Regression: the task waited forever, as its future runs only after it.
#[test]
fn joining_a_future_that_is_queued_behind_the_current_task_would_deadlock() {
    let original = elastic();
    for join in JOINS {
        for (lane, spawn) in lanes(&*original) {
            let ((tell, told), (give, given)) = (mpsc::channel(), mpsc::channel());
            let waits = lane.schedule(move || {
                let handle = spawn(async {});
                give.send(handle.canceller()).unwrap();
                tell.send(join(handle)).unwrap();
            });
            is_told(&told, &given.recv_timeout(LONG).unwrap());
            assert_eq!(waits.unwrap().wait(LONG), Ok(true));
        }
    }
    original.dispose();
}

#[test]
fn joining_a_future_behind_the_current_task_with_a_limit_times_out() {
    let original = elastic();
    for (lane, spawn) in lanes(&*original) {
        let (tell, told) = mpsc::channel();
        let waits = lane.schedule(move || {
            let mut handle = spawn(async {});
            tell.send((handle.join_timeout(SHORT).is_none(), handle)).unwrap();
        });
        let (timed_out, handle) = told.recv_timeout(LONG).unwrap();
        assert!(timed_out, "as in the JDK");
        soon(handle).unwrap();
        assert_eq!(waits.unwrap().wait(LONG), Ok(true));
    }
    original.dispose();
}

/// Regression: as above. The future is idle at first. When it is woken, the task already waits.
#[test]
fn a_join_ends_when_its_idle_future_is_queued_behind_the_current_task() {
    let original = elastic();
    for join in JOINS {
        for (lane, spawn) in lanes(&*original) {
            let signal = Signal::new();
            let ((tell, told), (give, given)) = (mpsc::channel(), mpsc::channel());
            let handle = spawn(signal.clone());
            let canceller = handle.canceller();
            eventually(|| signal.is_awaited());
            let waits = lane.schedule(move || {
                give.send(interrupt::current()).unwrap();
                tell.send(join(handle)).unwrap();
            });
            let waiting = given.recv_timeout(LONG).unwrap();
            eventually(|| waiting.is_parked());
            signal.set();
            is_told(&told, &canceller);
            assert_eq!(waits.unwrap().wait(LONG), Ok(true));
        }
    }
    original.dispose();
}

/// How long a worker blocks on a future that waits for `tasks` delayed tasks of its pool, and that
/// is woken as often.
fn time_to_block(pool: &ScheduledThreadPoolExecutor, tasks: usize) -> Duration {
    let inner = pool.clone();
    let blocking = pool.submit(move || {
        let delayed = || inner.schedule(LONG * 60, || ()).unwrap().cancel_on_drop();
        let mut handles: Vec<_> = (0..tasks).map(|_| delayed()).collect();
        let begin = Instant::now();
        let once = poll_fn(|context| {
            let is_pending = |handle: &mut CancelOnDrop<()>| Pin::new(handle).poll(context).is_pending();
            assert!(handles.iter_mut().all(is_pending));
            Poll::Ready(())
        });
        let woken = async {
            once.await;
            yields(tasks).await
        };
        assert_eq!(reactive::block_on(woken), Ok(tasks + 1));
        begin.elapsed()
    });
    soon(blocking.unwrap()).unwrap()
}

/// Regression: with each wake-up, the worker looked at all tasks that it had ever awaited.
#[test]
fn block_on_wakes_up_as_fast_with_many_delayed_tasks_as_with_few() {
    const SECOND: Duration = Duration::from_secs(1);
    let many = if cfg!(miri) { 50 } else { 20_000 };
    let pool = executors::scheduled(1);
    let best = |tasks: usize| (0..3).map(|_| time_to_block(&pool, tasks)).min().unwrap();
    let (few, many) = (best(many / 10), best(many));
    assert!(many < 50 * few || many < SECOND, "10 times as many took {many:?} instead of {few:?}");
    end(&pool);
}
