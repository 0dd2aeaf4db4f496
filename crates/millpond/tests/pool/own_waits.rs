//! Tasks that wait for their own pool: waits that can be helped run the task in place; waits that
//! cannot succeed return at once.

use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::pools::{fixed, sized};
use crate::support::{Gate, LONG, SHORT, await_end, end, eventually, occupied, soon};
use millpond::interrupt;
use millpond::{
    ExecutorCompletionService, ExecutorService, Hooks, JoinError, RejectReason, TaskHandle, TaskOf,
    ThreadPoolExecutor, WorkQueue, WorkerInfo, executors, policy,
};

fn deadlocks<T>(result: Result<T, JoinError>) -> bool {
    matches!(result, Err(JoinError::WouldDeadlock))
}

#[test]
fn a_completion_service_runs_waiting_tasks_in_place_when_a_worker_takes_from_it() {
    for queue in [WorkQueue::linked(), WorkQueue::array(4), WorkQueue::priority(), WorkQueue::delay()] {
        let pool = sized(1, 1).work_queue(queue).build().unwrap();
        let inner = pool.clone();
        let sum = pool.submit(move || {
            let service = ExecutorCompletionService::new(inner);
            (1..=3).for_each(|n| drop(service.submit(move || n).unwrap()));
            let first = service.take().unwrap().join().unwrap();
            let second = service.poll_timeout(LONG).unwrap().expect("in time").join().unwrap();
            let third = service.take().unwrap().join().unwrap();
            assert!(service.poll().is_none());
            first + second + third
        });
        assert_eq!(soon(sum.unwrap()).unwrap(), 6);
        end(&pool);
    }
}

/// The task that takes holds the only worker when the other thread submits.
#[test]
fn a_worker_that_takes_runs_a_task_that_is_submitted_meanwhile() {
    for timeout in [None, Some(LONG)] {
        let pool = fixed(1);
        let service = Arc::new(ExecutorCompletionService::new(pool.clone()));
        let (taker, (tell, told)) = (Arc::clone(&service), mpsc::channel());
        let outer = pool.submit(move || {
            tell.send(interrupt::current()).unwrap();
            let next = match timeout {
                None => taker.take().map(Some),
                Some(timeout) => taker.poll_timeout(timeout),
            };
            next.unwrap().expect("in time").join().unwrap()
        });
        let inside = told.recv_timeout(LONG).unwrap();
        eventually(|| inside.is_parked());
        drop(service.submit(|| 7).unwrap());
        let mut outer = outer.unwrap();
        let sum = outer.join_timeout(LONG / 4);
        inside.interrupt(); // so that a failure does not hang
        assert_eq!(sum.expect("the pool waits for itself").unwrap(), 7);
        end(&pool);
    }
}

/// How long a worker of `pool` takes to submit tasks to the pool `on` and to take their results.
fn time_to_take(pool: &ThreadPoolExecutor, on: &ThreadPoolExecutor, tasks: usize) -> Duration {
    let on = on.clone();
    let taking = pool.submit(move || {
        let service = ExecutorCompletionService::new(on);
        let begin = Instant::now();
        (0..tasks).for_each(|n| drop(service.submit(move || n).unwrap()));
        (0..tasks).for_each(|_| drop(service.take().unwrap()));
        begin.elapsed()
    });
    soon(taking.unwrap()).unwrap()
}

/// Regression: a worker that took a result copied the list of all tasks.
#[test]
fn a_worker_takes_each_of_many_results_as_fast_as_each_of_few() {
    const SECOND: Duration = Duration::from_secs(1);
    let many = if cfg!(miri) { 100 } else { 20_000 };
    let (own, other) = (fixed(1), fixed(1));
    for on in [&own, &other] {
        let best = |tasks: usize| (0..3).map(|_| time_to_take(&own, on, tasks)).min().unwrap();
        let (few, many) = (best(many / 10), best(many));
        assert!(many < 50 * few || many < SECOND, "10 times as many took {many:?} instead of {few:?}");
    }
    end(&own);
    end(&other);
}

#[test]
fn a_completion_service_waits_in_place_until_a_delayed_task_is_due() {
    let pool = sized(1, 1).work_queue(WorkQueue::delay()).build().unwrap();
    let inner = pool.clone();
    let outer = pool.submit(move || {
        let service = ExecutorCompletionService::new(Delaying(inner));
        drop(service.submit(|| 7).unwrap());
        assert!(service.poll_timeout(Duration::ZERO).unwrap().is_none(), "it is not due");
        service.take().unwrap().join().unwrap()
    });
    assert_eq!(soon(outer.unwrap()).unwrap(), 7);
    end(&pool);
}

/// Submits each task to the pool with a delay.
struct Delaying(ThreadPoolExecutor);

impl millpond::Executor for Delaying {
    fn execute_task(&self, task: millpond::Task) -> Result<(), millpond::Rejected> {
        self.0.execute_task(task.with_delay(Duration::from_millis(30)))
    }
}

/// A task that gets its own handle, and the result of joining it inside the task.
fn joins_itself<T: Send + 'static>(
    pool: &ThreadPoolExecutor,
    join: impl FnOnce(TaskHandle<()>) -> T + Send + 'static,
) -> T {
    let (give, given) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let handle = pool.submit(move || tell.send(join(given.recv().unwrap())).unwrap()).unwrap();
    give.send(handle).unwrap();
    told.recv_timeout(LONG).expect("the task waits for itself")
}

#[test]
fn a_task_that_joins_itself_is_told_so_at_once() {
    let pool = fixed(1);
    assert!(joins_itself(&pool, |handle| deadlocks(handle.join())));
    assert!(joins_itself(&pool, |mut handle| deadlocks(
        handle.join_timeout(Duration::MAX).expect("at once")
    )));
    assert!(joins_itself(&pool, |mut handle| handle.join_timeout(SHORT).is_none()), "as in the JDK");
    assert!(joins_itself(&pool, |handle| deadlocks(handle.cancel_on_drop().join())));
    let message = joins_itself(&pool, |handle| handle.join().unwrap_err().to_string());
    assert_eq!(
        message,
        "the task would wait for itself: it is joined by itself or by a task that it waits for"
    );
    end(&pool);
}

#[test]
fn a_task_that_is_joined_inside_a_task_which_it_runs_in_place_would_wait_for_itself() {
    for depth in [1, 300] {
        let pool = fixed(1);
        let inner = pool.clone();
        assert!(joins_itself(&pool, move |outer| join_below(&inner, depth, outer)));
        end(&pool);
    }
}

/// Joins `outer` from a task nested `depth` levels below it.
fn join_below(pool: &ThreadPoolExecutor, depth: usize, outer: TaskHandle<()>) -> bool {
    if depth == 0 {
        return deadlocks(outer.join());
    }
    let inner = pool.clone();
    pool.submit(move || join_below(&inner, depth - 1, outer)).unwrap().join().unwrap()
}

#[test]
fn another_thread_may_join_a_task_while_it_runs() {
    let pool = fixed(1);
    let (gate, begun) = (Gate::new(), Gate::new());
    let (pass, tell) = (gate.clone(), begun.clone());
    let handle = pool.submit(move || {
        tell.open();
        pass.pass();
        5
    });
    begun.pass();
    let joining = thread::spawn(|| soon(handle.unwrap()));
    gate.open();
    assert_eq!(joining.join().unwrap().unwrap(), 5);
    end(&pool);
}

#[test]
fn waiting_for_the_end_of_the_own_pool_returns_false_at_once() {
    let pool = fixed(1);
    let inner = pool.clone();
    let inside = pool.submit(move || {
        inner.shutdown();
        inner.await_termination(Duration::MAX)
    });
    assert_eq!(soon(inside.unwrap()).unwrap(), Ok(false));
    await_end(&pool);

    let single = executors::single();
    let inner = single.clone();
    let closing = single.submit(move || {
        let service: &dyn ExecutorService = &inner;
        service.close();
        service.await_termination(Duration::MAX)
    });
    assert_eq!(soon(closing.unwrap()).unwrap(), Ok(false));
    await_end(&single);
}

/// A custom executor around a pool, with the default `close`.
#[derive(Clone)]
struct Around(ThreadPoolExecutor);

impl millpond::Executor for Around {
    fn execute_task(&self, task: millpond::Task) -> Result<(), millpond::Rejected> {
        self.0.execute_task(task)
    }
}

impl ExecutorService for Around {
    fn shutdown(&self) {
        self.0.shutdown();
    }
    fn shutdown_now(&self) -> Vec<millpond::Task> {
        self.0.shutdown_now()
    }
    fn is_shutdown(&self) -> bool {
        self.0.is_shutdown()
    }
    fn is_terminated(&self) -> bool {
        self.0.is_terminated()
    }
    fn await_termination(&self, timeout: Duration) -> Result<bool, millpond::Interrupted> {
        self.0.await_termination(timeout)
    }
}

#[test]
fn closing_an_executor_around_the_own_pool_does_not_wait_and_does_not_force_it() {
    let around = Around(fixed(1));
    let inner = around.clone();
    let closing = around.0.submit(move || {
        let waiting = inner.0.submit(|| 3).unwrap();
        inner.close();
        waiting
    });
    let waiting = soon(closing.unwrap()).unwrap();
    assert_eq!(soon(waiting).unwrap(), 3, "what was accepted still runs");
    await_end(&around);
}

/// Closes its pool in every hook of the pool's lifecycle, and reports the result.
struct Closing {
    pool: Arc<OnceLock<ThreadPoolExecutor>>,
    told: Mutex<mpsc::Sender<(&'static str, bool)>>,
}

impl Closing {
    fn close(&self, hook: &'static str) {
        let pool = self.pool.get().unwrap();
        let ended = pool.await_termination(Duration::MAX).unwrap();
        pool.close();
        self.told.lock().unwrap().send((hook, ended)).unwrap();
    }
}

impl Hooks for Closing {
    fn worker_stopped(&self, _: &WorkerInfo) {
        self.close("worker_stopped");
    }
    fn terminated(&self) {
        self.close("terminated");
    }
}

#[test]
fn closing_the_pool_in_its_hooks_returns_at_once_on_a_worker_and_on_any_other_thread() {
    for with_worker in [true, false] {
        let slot = Arc::new(OnceLock::new());
        let (tell, told) = mpsc::channel();
        let hooks = Closing { pool: Arc::clone(&slot), told: Mutex::new(tell) };
        let pool = sized(1, 1).hooks(hooks).build().unwrap();
        slot.set(pool.clone()).unwrap();
        if with_worker {
            soon(pool.submit(|| ()).unwrap()).unwrap();
        }
        let ending = thread::spawn({
            let pool = pool.clone();
            move || pool.shutdown()
        });
        if with_worker {
            assert_eq!(told.recv_timeout(LONG), Ok(("worker_stopped", false)));
        }
        assert_eq!(told.recv_timeout(LONG), Ok(("terminated", false)));
        ending.join().unwrap();
        await_end(&pool);
    }
}

#[test]
fn the_blocking_policy_refuses_a_task_of_the_pools_own_worker_when_it_is_full() {
    for block in [policy::Block::forever(), policy::Block::timeout(Duration::MAX)] {
        let pool = sized(1, 1).work_queue(WorkQueue::array(1)).rejected_execution_handler(block);
        let pool = pool.build().unwrap();
        let inner = pool.clone();
        let reasons = pool.submit(move || {
            let fits = inner.submit(|| 1).unwrap();
            let refused = inner.execute_task(TaskOf::new(|| ()).into_parts().0).unwrap_err();
            (fits.join().unwrap(), refused.reason())
        });
        assert_eq!(soon(reasons.unwrap()).unwrap(), (1, RejectReason::Saturated));
        assert_eq!(pool.stats().rejected, 1);

        let gate = occupied(&pool);
        let waiting = pool.submit(|| 2).unwrap();
        let blocked = thread::spawn({
            let pool = pool.clone();
            move || pool.submit(|| 3).unwrap()
        });
        gate.open();
        assert_eq!(soon(waiting).unwrap(), 2);
        assert_eq!(soon(blocked.join().unwrap()).unwrap(), 3, "other threads wait for room");
        end(&pool);
    }
}
