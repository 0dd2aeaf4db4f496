//! Futures on executors, using only `std::task`.

use std::future::{Future, pending, poll_fn, ready};
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use crate::future_fixtures::{Signal, yields};
use crate::support::pools::fixed;
use crate::support::{
    Counter, Gate, LONG, SHORT, assert_settled, block, die, end, eventually, interrupt_myself, occupy,
    rounds, soon, together,
};
use millpond::reactive::{self, ExecutorFutureExt};
use millpond::{
    Executor, Interrupted, JoinError, RejectReason, Rejected, Task, TaskHandle, TaskState,
    ThreadPoolExecutor, WorkQueue, executors, interrupt, policy,
};

/// Runs every task on the submitting thread.
#[derive(Clone)]
struct SameThread;

impl Executor for SameThread {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        task.run();
        Ok(())
    }
}

/// Stores tasks until the test takes them.
#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<Vec<Task>>>);

impl Executor for ByHand {
    fn execute_task(&self, task: Task) -> Result<(), Rejected> {
        self.0.lock().unwrap().push(task);
        Ok(())
    }
}

impl ByHand {
    fn take(&self) -> Vec<Task> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn run_all(&self) {
        self.take().into_iter().for_each(Task::run);
    }
}

#[test]
fn a_future_on_a_pool_gives_its_output() {
    let pool = fixed(2);
    let handle = pool.spawn_future(async { 6 * 7 }).unwrap();
    assert_eq!(soon(handle).unwrap(), 42);
    end(&pool);
    assert_settled(&pool, 1);
}

#[test]
fn a_future_can_be_spawned_on_whatever_holds_an_executor() {
    let shared: Arc<dyn Executor> = Arc::new(fixed(1));
    assert_eq!(soon(shared.spawn_future(ready(1)).unwrap()).unwrap(), 1);
    assert_eq!(soon(executors::single().spawn_future(ready(2)).unwrap()).unwrap(), 2);
}

#[test]
fn every_wake_up_is_one_submission() {
    let pool = fixed(1);
    assert_eq!(soon(pool.spawn_future(yields(3)).unwrap()).unwrap(), 4);
    end(&pool);
    assert_settled(&pool, 4);
}

#[test]
fn wake_ups_before_the_next_poll_are_one() {
    let (hand, signal) = (ByHand::default(), Signal::new());
    let mut handle = hand.spawn_future(signal.clone()).unwrap();
    assert_eq!(handle.state(), TaskState::Pending);
    hand.run_all();
    assert_eq!((handle.state(), hand.len()), (TaskState::Running, 0), "idle: nothing waits in the executor");
    signal.knock();
    signal.knock();
    assert_eq!(hand.len(), 1);
    signal.set();
    assert_eq!(hand.len(), 1);
    assert!(handle.try_join().is_none());
    hand.run_all();
    assert!(handle.try_join().unwrap().is_ok());
}

#[test]
fn a_wake_up_during_the_poll_leads_to_another_poll() {
    let hand = ByHand::default();
    let handle = hand.spawn_future(yields(1)).unwrap();
    hand.run_all();
    assert_eq!((handle.is_done(), hand.len()), (false, 1));
    hand.run_all();
    assert_eq!(handle.join().unwrap(), 2);
}

#[test]
fn a_future_that_wakes_itself_lets_others_in_between() {
    let pool = fixed(1);
    let gate = Gate::new();
    let hold = crate::support::keep_busy(&pool, &gate);
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&over);
    let restless = pool.spawn_future(poll_fn(move |context| {
        if stop.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }));
    let other = pool.submit(move || over.store(true, Ordering::SeqCst)).unwrap();
    gate.open();
    soon(hold).unwrap();
    soon(other).unwrap();
    soon(restless.unwrap()).unwrap();
}

/// Each wake-up runs on the caller's thread, and must not nest inside the previous one.
#[test]
fn waking_oneself_on_the_callers_thread_does_not_fill_the_stack() {
    let handle = SameThread.spawn_future(yields(200_000)).unwrap();
    assert_eq!(handle.join().unwrap(), 200_001);
}

#[test]
fn a_future_is_never_polled_by_two() {
    let pool = fixed(4);
    let inside = Arc::new(AtomicBool::new(false));
    for _ in rounds(200) {
        let signal = Signal::new();
        let (mut ringing, busy) = (signal.clone(), Arc::clone(&inside));
        let handle = pool
            .spawn_future(poll_fn(move |context| {
                assert!(!busy.swap(true, Ordering::SeqCst), "polled by two");
                let polled = Pin::new(&mut ringing).poll(context);
                busy.store(false, Ordering::SeqCst);
                polled
            }))
            .unwrap();
        together(|| (0..20).for_each(|_| signal.knock()), || (0..20).for_each(|_| signal.knock()));
        signal.set();
        soon(handle).unwrap();
    }
    end(&pool);
}

#[test]
fn no_wake_up_is_lost_when_it_meets_the_end_of_a_poll() {
    let pool = fixed(2);
    for _ in rounds(2000) {
        let signal = Signal::new();
        let (handle, ()) = together(|| pool.spawn_future(signal.clone()).unwrap(), || signal.set());
        soon(handle).unwrap();
    }
    end(&pool);
}

#[test]
fn a_panic_of_the_future_goes_to_the_handle() {
    let pool = fixed(1);
    let dropped = Counter::new();
    let captured = dropped.on_drop();
    let handle = pool
        .spawn_future(async move {
            yields(1).await;
            let _captured = captured;
            die("no")
        })
        .unwrap();
    let outcome: Result<(), _> = soon(handle);
    assert!(matches!(outcome, Err(JoinError::Panicked(panic)) if panic.message() == Some("no")));
    assert_eq!(dropped.get(), 1);
    assert_eq!(soon(pool.submit(|| 1).unwrap()).unwrap(), 1, "the pool goes on");
    end(&pool);
    assert_eq!(pool.stats().panicked, 1);
}

#[test]
fn a_panic_in_the_destructor_of_a_ready_future_goes_to_the_handle() {
    struct Bad(Counter);
    impl Future for Bad {
        type Output = crate::support::CountsDrop;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<crate::support::CountsDrop> {
            Poll::Ready(self.0.on_drop())
        }
    }
    impl Drop for Bad {
        fn drop(&mut self) {
            panic_any("bad");
        }
    }
    let (pool, outputs) = (fixed(1), Counter::new());
    let outcome = soon(pool.spawn_future(Bad(outputs.clone())).unwrap());
    assert!(matches!(outcome, Err(JoinError::Panicked(panic)) if panic.message() == Some("bad")));
    assert_eq!(outputs.get(), 1);
}

#[test]
fn cancelling_an_idle_future_drops_it_at_once() {
    let (hand, signal, dropped) = (ByHand::default(), Signal::new(), Counter::new());
    let (waits, captured) = (signal.clone(), dropped.on_drop());
    let mut handle = hand
        .spawn_future(async move {
            let _captured = captured;
            waits.await;
        })
        .unwrap();
    hand.run_all();
    assert_eq!(dropped.get(), 0);
    assert!(handle.cancel(false));
    assert_eq!(dropped.get(), 1);
    assert!(!handle.cancel(true));
    assert!(matches!(handle.try_join(), Some(Err(JoinError::Cancelled))));
    signal.set();
    assert_eq!(hand.len(), 0, "what is over is not polled");
}

#[test]
fn cancelling_a_future_whose_turn_waits_drops_it_and_frees_its_place() {
    let pool = executors::bounded(1, 1, 1).unwrap();
    let (gate, dropped) = (Gate::new(), Counter::new());
    occupy(&pool, &gate);
    let captured = dropped.on_drop();
    let handle = pool.spawn_future(async move { drop(captured) }).unwrap();
    assert_eq!(pool.remaining_queue_capacity(), 0);
    assert!(handle.cancel(true));
    assert_eq!((dropped.get(), pool.remaining_queue_capacity()), (1, 1));
    gate.open();
    end(&pool);
    assert_settled(&pool, 2);
}

#[test]
fn cancelling_while_it_is_polled_interrupts_the_poll_and_drops_the_future_afterwards() {
    let pool = fixed(1);
    let (dropped, running) = (Counter::new(), Gate::new());
    let (captured, knock) = (dropped.on_drop(), running.clone());
    let (send, receive) = mpsc::channel();
    let handle = pool
        .spawn_future(async move {
            let _captured = captured;
            knock.open();
            send.send(interrupt::sleep(LONG)).unwrap();
            pending::<()>().await;
        })
        .unwrap();
    running.pass();
    assert!(handle.cancel(true));
    assert!(matches!(soon(handle), Err(JoinError::Cancelled)));
    assert_eq!(receive.recv().unwrap(), Err(Interrupted));
    eventually(|| dropped.get() == 1);
    end(&pool);
    assert_settled(&pool, 1);
}

#[test]
fn dropping_the_handle_lets_the_future_go_on() {
    let pool = fixed(1);
    let done = Gate::new();
    let knock = done.clone();
    drop(pool.spawn_future(async move {
        yields(2).await;
        knock.open();
    }));
    done.pass();
}

#[test]
fn cancel_on_drop_drops_the_future() {
    let (hand, signal, dropped) = (ByHand::default(), Signal::new(), Counter::new());
    let (waits, captured) = (signal.clone(), dropped.on_drop());
    let handle = hand.spawn_future(async move {
        waits.await;
        drop(captured);
    });
    let handle = handle.unwrap().cancel_on_drop();
    hand.run_all();
    drop(handle);
    assert_eq!(dropped.get(), 1);
}

#[test]
fn a_refused_first_turn_hands_the_future_back() {
    let pool = fixed(1);
    pool.shutdown();
    let ran = Counter::new();
    let count = ran.clone();
    let rejected = pool.spawn_future(async move { count.add() }).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::Shutdown);
    rejected.into_task().run();
    assert_eq!(ran.get(), 1);
}

#[test]
fn a_refused_later_turn_abandons_the_future() {
    let pool = fixed(1);
    let (signal, dropped) = (Signal::new(), Counter::new());
    let (waits, captured) = (signal.clone(), dropped.on_drop());
    let handle = pool
        .spawn_future(async move {
            waits.await;
            drop(captured);
        })
        .unwrap();
    eventually(|| signal.is_awaited());
    pool.shutdown();
    signal.set();
    assert!(matches!(soon(handle), Err(JoinError::Abandoned)));
    assert_eq!(dropped.get(), 1);
    end(&pool);
}

#[test]
fn a_turn_that_is_drained_or_discarded_abandons_the_future() {
    let pool = fixed(1);
    let gate = Gate::new();
    occupy(&pool, &gate);
    let drained = pool.spawn_future(ready(1)).unwrap();
    let tasks = pool.shutdown_now();
    assert_eq!(tasks.iter().map(Task::id).collect::<Vec<_>>(), [drained.id()]);
    assert!(!drained.is_done());
    drop(tasks);
    assert!(matches!(soon(drained), Err(JoinError::Abandoned)));
    gate.open();
    end(&pool);

    let pool = ThreadPoolExecutor::builder()
        .core_pool_size(1)
        .maximum_pool_size(1)
        .work_queue(WorkQueue::synchronous())
        .rejected_execution_handler(policy::Discard)
        .build()
        .unwrap();
    let gate = Gate::new();
    occupy(&pool, &gate);
    assert!(matches!(soon(pool.spawn_future(ready(1)).unwrap()), Err(JoinError::Abandoned)));
    gate.open();
    end(&pool);
}

#[test]
fn a_drained_turn_can_still_be_run_by_hand() {
    let pool = fixed(1);
    let gate = Gate::new();
    occupy(&pool, &gate);
    let handle = pool.spawn_future(ready(5)).unwrap();
    pool.shutdown_now().into_iter().for_each(Task::run);
    assert_eq!(handle.join().unwrap(), 5);
    gate.open();
    end(&pool);
}

/// A handle never hangs because its task was dropped: such a future will never be polled again.
#[test]
fn a_future_that_nobody_can_wake_is_abandoned() {
    let pool = fixed(1);
    let handle = pool.spawn_future(pending::<()>()).unwrap();
    assert!(matches!(soon(handle), Err(JoinError::Abandoned)));

    let signal = Signal::new();
    let handle = pool.spawn_future(signal.clone());
    eventually(|| signal.is_awaited());
    signal.forget();
    assert!(matches!(soon(handle.unwrap()), Err(JoinError::Abandoned)));
}

#[test]
fn an_executor_that_panics_abandons_the_future_and_leaves_the_waking_thread_alone() {
    #[derive(Clone)]
    struct Once(ByHand, Counter);
    impl Executor for Once {
        fn execute_task(&self, task: Task) -> Result<(), Rejected> {
            self.1.add();
            if self.1.get() > 1 {
                die("executor");
            }
            self.0.execute_task(task)
        }
    }
    let (hand, signal) = (ByHand::default(), Signal::new());
    let handle = Once(hand.clone(), Counter::new()).spawn_future(signal.clone()).unwrap();
    hand.run_all();
    signal.set();
    assert!(matches!(handle.join(), Err(JoinError::Abandoned)));
}

#[test]
fn a_pool_lives_until_its_futures_have_ended_and_not_for_their_wakers() {
    let (signal, count) = (Signal::new(), Counter::new());
    let stopped = crate::support::Gate::new();
    struct Tell(Gate);
    impl millpond::Hooks for Tell {
        fn terminated(&self) {
            self.0.open();
        }
    }
    let pool = ThreadPoolExecutor::builder()
        .core_pool_size(1)
        .maximum_pool_size(1)
        .hooks(Tell(stopped.clone()))
        .build()
        .unwrap();
    let (mut waits, counts) = (signal.clone(), count.clone());
    let handle = pool.spawn_future(poll_fn(move |context| {
        let _ = Pin::new(&mut waits).poll(context);
        counts.add();
        if counts.get() == 2 { Poll::Ready(()) } else { Poll::Pending }
    }));
    eventually(|| count.get() == 1);
    drop(pool);
    assert!(!stopped.is_open(), "the future still needs it");
    signal.knock();
    soon(handle.unwrap()).unwrap();
    stopped.pass();
    assert!(signal.is_awaited(), "somebody still has a waker");
}

#[test]
fn an_executor_is_free_of_locks_when_it_is_called() {
    // User code that runs inside the call uses the handle, which would hang if a lock were held.
    #[derive(Clone, Default)]
    struct Looks(Arc<Mutex<Option<millpond::Canceller>>>);
    impl Executor for Looks {
        fn execute_task(&self, task: Task) -> Result<(), Rejected> {
            if let Some(canceller) = &*self.0.lock().unwrap() {
                assert!(!canceller.is_done());
                canceller.cancel(true);
            }
            task.run();
            Ok(())
        }
    }
    let (looks, signal) = (Looks::default(), Signal::new());
    let handle = looks.spawn_future(signal.clone()).unwrap();
    *looks.0.lock().unwrap() = Some(handle.canceller());
    signal.set();
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
}

#[test]
fn a_worker_that_joins_a_future_of_its_own_full_pool_polls_it_itself() {
    let pool = fixed(1);
    let inner = pool.clone();
    let outer = pool.submit(move || inner.spawn_future(yields(10)).unwrap().join().unwrap()).unwrap();
    assert_eq!(soon(outer).unwrap(), 11);
    end(&pool);
    assert_settled(&pool, 12);
}

#[test]
fn a_worker_that_joins_a_future_polls_it_also_when_it_is_woken_from_outside() {
    let pool = fixed(1);
    let (inner, signal) = (pool.clone(), Signal::new());
    let waits = signal.clone();
    let outer = pool.submit(move || inner.spawn_future(waits).unwrap().join().unwrap()).unwrap();
    eventually(|| signal.is_awaited());
    signal.set();
    soon(outer).unwrap();
    end(&pool);
}

#[test]
fn joining_a_future_can_time_out_and_be_interrupted() {
    let pool = fixed(1);
    let signal = Signal::new();
    let mut handle = pool.spawn_future(signal.clone()).unwrap();
    assert!(handle.join_timeout(SHORT).is_none());
    interrupt_myself();
    assert!(matches!(handle.join_timeout(LONG), Some(Err(JoinError::Interrupted))));
    signal.set();
    soon(handle).unwrap();
}

#[test]
fn cancel_racing_wake_and_completion_has_one_winner() {
    let pool = fixed(2);
    for _ in rounds(1000) {
        let (signal, dropped) = (Signal::new(), Counter::new());
        let (waits, captured) = (signal.clone(), dropped.on_drop());
        let handle = pool
            .spawn_future(async move {
                let _captured = captured;
                waits.await;
            })
            .unwrap();
        let ((), cancelled) = together(|| signal.set(), || handle.cancel(true));
        match soon(handle) {
            Ok(()) => assert!(!cancelled),
            Err(JoinError::Cancelled) => assert!(cancelled),
            Err(error) => panic!("{error}"),
        }
        eventually(|| dropped.get() == 1);
    }
    end(&pool);
}

// ---- block_on

#[test]
fn block_on_gives_the_output() {
    let pool = fixed(1);
    assert_eq!(reactive::block_on(yields(3)).unwrap(), 4);
    assert_eq!(reactive::block_on(pool.submit(|| 7).unwrap()).unwrap().unwrap(), 7);
}

#[test]
fn block_on_can_be_interrupted_and_drops_the_future() {
    let (signal, dropped) = (Signal::new(), Counter::new());
    thread::scope(|scope| {
        let (waits, captured) = (signal.clone(), dropped.on_drop());
        let blocked = block(scope, || {
            reactive::block_on(async move {
                let _captured = captured;
                waits.await;
            })
        });
        blocked.interrupt();
        assert_eq!(blocked.join(), Err(Interrupted));
    });
    assert_eq!(dropped.get(), 1);
}

#[test]
fn a_ready_future_wins_over_a_pending_interrupt() {
    interrupt_myself();
    assert_eq!(reactive::block_on(ready(1)), Ok(1));
    assert!(interrupt::interrupted());
}

#[test]
fn a_worker_that_blocks_on_tasks_of_its_own_full_pool_runs_them_itself() {
    let pool = fixed(1);
    let inner = pool.clone();
    let outer = pool.submit(move || {
        let (six, seven) = (inner.submit(|| 6).unwrap(), inner.submit(|| 7).unwrap());
        reactive::block_on(async { six.await.unwrap() * seven.await.unwrap() }).unwrap()
    });
    assert_eq!(soon(outer.unwrap()).unwrap(), 42);
    end(&pool);
}

#[test]
fn a_worker_that_blocks_on_a_future_of_its_own_pool_polls_it_also_when_it_is_woken_from_outside() {
    let pool = fixed(1);
    let signal = Signal::new();
    let (inner, waits) = (pool.clone(), signal.clone());
    let outer = pool.submit(move || {
        let waiting = inner.spawn_future(async move {
            waits.await;
            7
        });
        reactive::block_on(waiting.unwrap()).unwrap().unwrap()
    });
    eventually(|| signal.is_awaited());
    signal.set();
    assert_eq!(soon(outer.unwrap()).unwrap(), 7);
    end(&pool);
}

/// `inside` gets the handle of the task that it runs in.
fn with_own_handle(pool: &ThreadPoolExecutor, inside: impl FnOnce(TaskHandle<()>) -> bool + Send + 'static) {
    let (give, given) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let handle = pool.submit(move || tell.send(inside(given.recv().unwrap())).unwrap()).unwrap();
    let canceller = handle.canceller();
    give.send(handle).unwrap();
    let answer = told.recv_timeout(LONG / 4);
    canceller.cancel(true); // so that a failure does not hang
    assert_eq!(answer, Ok(true), "the task waits for itself");
}

#[test]
fn a_task_that_blocks_on_its_own_handle_is_told_so_at_once() {
    let deadlocks = |result| matches!(result, Ok(Err(JoinError::WouldDeadlock)));
    let pool = executors::fixed(1).unwrap();
    with_own_handle(&pool, move |own| deadlocks(reactive::block_on(own)));
    let inside_another = |own| async { (own.await, ()).0 };
    with_own_handle(&pool, move |own| deadlocks(reactive::block_on(inside_another(own))));
    let inner = pool.clone();
    with_own_handle(&pool, move |outer| {
        inner.submit(move || deadlocks(reactive::block_on(outer))).unwrap().join().unwrap()
    });
    pool.close();
}

/// A future that gets its own handle, on a pool. `inside` gets the handle during the poll.
fn future_with_own_handle(inside: impl FnOnce(TaskHandle<()>) -> bool + Send + 'static) {
    let pool = fixed(1);
    let (give, given) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let handle = pool.spawn_future(async move { tell.send(inside(given.recv().unwrap())).unwrap() }).unwrap();
    let canceller = handle.canceller();
    give.send(handle).unwrap();
    let answer = told.recv_timeout(LONG / 4);
    canceller.cancel(true); // so that a failure does not hang
    assert_eq!(answer, Ok(true), "the future waits for itself");
    end(&pool);
}

#[test]
fn a_future_that_blocks_on_its_own_handle_is_told_so_at_once() {
    future_with_own_handle(|own| matches!(own.join(), Err(JoinError::WouldDeadlock)));
    future_with_own_handle(|own| matches!(reactive::block_on(own), Ok(Err(JoinError::WouldDeadlock))));
}

#[test]
fn another_thread_may_join_a_future_while_it_is_polled() {
    let pool = fixed(1);
    let (gate, begun) = (Gate::new(), Gate::new());
    let (pass, tell) = (gate.clone(), begun.clone());
    let handle = pool.spawn_future(async move {
        tell.open();
        pass.pass();
        5
    });
    begun.pass();
    thread::scope(|scope| {
        let joining = block(scope, || handle.unwrap().join());
        gate.open();
        assert_eq!(joining.join().unwrap(), 5);
    });
    end(&pool);
}

/// The task spawns a future on an executor that runs tasks on the caller's thread, inside the poll
/// of its own `block_on`. That future awaits the handle of the task, which ends later.
#[test]
fn a_future_that_runs_inside_the_poll_of_block_on_may_await_the_task_around_it() {
    let pool = fixed(1);
    let (give, given) = mpsc::channel::<TaskHandle<u32>>();
    let (tell, told) = mpsc::channel();
    let task = pool.submit(move || {
        let mut own = Some(given.recv().unwrap());
        let spawned = poll_fn(|_| Poll::Ready(SameThread.spawn_future(own.take().unwrap()).unwrap()));
        tell.send(reactive::block_on(spawned).unwrap()).unwrap();
        7
    });
    give.send(task.unwrap()).unwrap();
    let detached = told.recv_timeout(LONG).unwrap();
    assert_eq!(soon(detached).unwrap().unwrap(), 7);
    end(&pool);
}

/// Polls a future again only if the future has asked for it, as `FuturesUnordered` does.
struct OnlyWhenWoken<F> {
    future: F,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken {
    is_polled_before: AtomicBool,
    is_set: AtomicBool,
    outer: Mutex<Option<Waker>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_set.store(true, Ordering::SeqCst);
        let outer = self.outer.lock().unwrap().take();
        outer.into_iter().for_each(Waker::wake);
    }
}

impl<F: Future + Unpin> Future for OnlyWhenWoken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let woken = Arc::clone(&self.woken);
        *woken.outer.lock().unwrap() = Some(context.waker().clone());
        let is_first = !woken.is_polled_before.swap(true, Ordering::SeqCst);
        if !is_first && !woken.is_set.swap(false, Ordering::SeqCst) {
            return Poll::Pending;
        }
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&Waker::from(woken)))
    }
}

/// The worker is the only one, so it must run the task itself once that is due.
#[test]
fn block_on_runs_a_task_that_is_due_later_even_if_its_handle_is_not_polled_again() {
    let pool = executors::scheduled(1);
    let inner = pool.clone();
    let outer = pool.submit(move || {
        let later = inner.schedule(Duration::from_millis(20), || 7).unwrap();
        let waits = OnlyWhenWoken { future: later, woken: Arc::default() };
        reactive::block_on(waits)
    });
    let mut outer = outer.unwrap();
    let answer = outer.join_timeout(LONG / 4);
    outer.cancel(true); // so that a failure does not hang
    assert_eq!(answer.expect("the pool waits for itself").unwrap().unwrap().unwrap(), 7);
    end(&pool);
}

#[test]
fn block_on_does_not_run_a_task_in_place_when_the_future_is_ready_without_it() {
    let pool = fixed(1);
    let ran = Counter::new();
    let (inner, count) = (pool.clone(), ran.clone());
    let outer = pool.submit(move || {
        let add = count.clone();
        let mut task = inner.submit(move || add.add()).unwrap();
        let mut polled = false;
        let either = poll_fn(|context| {
            polled |= Pin::new(&mut task).poll(context).is_pending();
            Poll::Ready(())
        });
        reactive::block_on(either).unwrap();
        (polled, count.get())
    });
    assert_eq!(soon(outer.unwrap()).unwrap(), (true, 0));
    end(&pool);
    assert_eq!(ran.get(), 1);
}
