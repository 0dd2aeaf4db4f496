//! Awaiting a handle, using only `std::task`.

use std::future::Future;
use std::panic::{panic_any, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::support::pools::{busy, fixed};
use crate::support::{Counter, Gate, LONG, SHORT, end, eventually, interrupt_myself, rounds};
use millpond::{Canceller, JoinError, Task, TaskHandle, TaskOf, TaskState, ThreadPoolExecutor, interrupt};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A minimal runtime: polls, and sleeps until woken.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A waker that counts its calls.
#[derive(Default)]
struct Calls(Counter);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.add();
    }
}

fn counting() -> (Arc<Calls>, Waker) {
    let calls = Arc::new(Calls::default());
    let waker = Waker::from(Arc::clone(&calls));
    (calls, waker)
}

fn poll<T>(handle: &mut TaskHandle<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    Pin::new(handle).poll(&mut Context::from_waker(waker))
}

fn pair() -> (Task, TaskHandle<u8>) {
    TaskOf::new(|| 7).into_parts()
}

#[test]
fn an_awaited_handle_gives_the_value() {
    let pool = fixed(1);
    let gate = Gate::new();
    let wait = gate.clone();
    let handle = pool
        .submit(move || {
            wait.pass();
            6
        })
        .unwrap();
    let opener = thread::spawn(move || gate.open());
    let seven = block_on(async { handle.await.map(|six| six + 1) });
    assert_eq!(seven.unwrap(), 7);
    opener.join().unwrap();
    pool.close();
}

#[test]
fn a_panic_comes_out_of_the_await() {
    let pool = fixed(1);
    let handle = pool.submit(|| -> u8 { resume_unwind(Box::new("broken")) }).unwrap();
    let outcome = block_on(handle);
    assert!(matches!(outcome, Err(JoinError::Panicked(panic)) if panic.message() == Some("broken")));
    pool.close();
}

#[test]
fn a_task_that_ends_wakes_once() {
    let (task, mut handle) = pair();
    let (calls, waker) = counting();
    assert!(poll(&mut handle, &waker).is_pending());
    assert!(poll(&mut handle, &waker).is_pending());
    assert_eq!(calls.0.get(), 0);
    task.run();
    assert_eq!(calls.0.get(), 1);
    assert!(matches!(poll(&mut handle, &waker), Poll::Ready(Ok(7))));
}

#[test]
fn a_cancel_wakes_whether_the_task_waits_or_runs() {
    let (_task, mut waiting) = pair();
    let (calls, waker) = counting();
    assert!(poll(&mut waiting, &waker).is_pending());
    assert!(waiting.cancel(false));
    assert_eq!(calls.0.get(), 1);
    assert!(matches!(poll(&mut waiting, &waker), Poll::Ready(Err(JoinError::Cancelled))));

    let pool = fixed(1);
    let (begun, gate) = (Gate::new(), Gate::new());
    let (tell, wait) = (begun.clone(), gate.clone());
    let mut running = pool
        .submit(move || {
            tell.open();
            wait.pass();
        })
        .unwrap();
    let (calls, waker) = counting();
    assert!(poll(&mut running, &waker).is_pending());
    begun.pass();
    assert!(running.canceller().cancel(true));
    assert_eq!(calls.0.get(), 1);
    assert!(matches!(poll(&mut running, &waker), Poll::Ready(Err(JoinError::Cancelled))));
    gate.open();
    pool.close();
    assert_eq!(calls.0.get(), 1, "the end of the body is nobody's business any more");
}

#[test]
fn a_task_that_is_dropped_wakes() {
    let (task, mut handle) = pair();
    let (calls, waker) = counting();
    assert!(poll(&mut handle, &waker).is_pending());
    drop(task);
    assert_eq!(calls.0.get(), 1);
    assert!(matches!(poll(&mut handle, &waker), Poll::Ready(Err(JoinError::Abandoned))));
}

#[test]
fn polled_after_it_was_ready_a_handle_says_taken() {
    let (task, mut handle) = pair();
    let (calls, waker) = counting();
    task.run();
    assert!(matches!(poll(&mut handle, &waker), Poll::Ready(Ok(7))));
    assert!(matches!(poll(&mut handle, &waker), Poll::Ready(Err(JoinError::Taken))));
    assert!(matches!(handle.try_join(), Some(Err(JoinError::Taken))));
    assert_eq!(handle.state(), TaskState::Succeeded);
    assert_eq!(calls.0.get(), 0);

    let (task, mut abandoned) = pair();
    drop(task);
    for _ in 0..2 {
        assert!(matches!(poll(&mut abandoned, &waker), Poll::Ready(Err(JoinError::Abandoned))));
    }
}

#[test]
fn of_two_wakers_the_last_one_is_called() {
    let (task, mut handle) = pair();
    let (first_calls, first) = counting();
    let (second_calls, second) = counting();
    assert!(poll(&mut handle, &first).is_pending());
    assert_eq!(Arc::strong_count(&first_calls), 3);
    assert!(poll(&mut handle, &second).is_pending());
    assert_eq!(Arc::strong_count(&first_calls), 2, "the one that was replaced is let go");
    task.run();
    assert_eq!((first_calls.0.get(), second_calls.0.get()), (0, 1));
    assert_eq!(Arc::strong_count(&second_calls), 2);
    assert_eq!(block_on(handle).unwrap(), 7);
}

#[test]
fn a_dropped_handle_lets_its_waker_go_and_the_task_runs() {
    let (task, mut handle) = pair();
    let canceller = handle.canceller();
    let (calls, waker) = counting();
    assert!(poll(&mut handle, &waker).is_pending());
    drop(handle);
    drop(waker);
    assert_eq!(Arc::strong_count(&calls), 1);
    task.run();
    assert_eq!(calls.0.get(), 0);
    assert_eq!(canceller.state(), TaskState::Succeeded);
}

#[test]
fn polls_and_timed_joins_may_alternate() {
    let (task, mut handle) = pair();
    let (calls, waker) = counting();
    assert!(poll(&mut handle, &waker).is_pending());
    assert!(handle.join_timeout(SHORT).is_none());
    assert!(handle.try_join().is_none());
    assert!(poll(&mut handle, &waker).is_pending());
    let runner = thread::spawn(move || task.run());
    assert_eq!(handle.join_timeout(LONG).unwrap().unwrap(), 7);
    runner.join().unwrap();
    assert!(calls.0.get() <= 1, "woken once at most, if the task ended before the join began");
}

#[test]
fn an_await_pays_no_heed_to_interrupts() {
    let (task, handle) = pair();
    let runner = thread::spawn(move || task.run());
    interrupt_myself();
    assert_eq!(block_on(handle).unwrap(), 7);
    assert!(interrupt::interrupted());
    runner.join().unwrap();
}

#[test]
fn a_guard_can_be_awaited_and_cancels_when_the_await_is_given_up() {
    let (task, handle) = pair();
    let mut guard = handle.cancel_on_drop();
    let canceller = guard.canceller();
    let (calls, waker) = counting();
    assert!(Pin::new(&mut guard).poll(&mut Context::from_waker(&waker)).is_pending());
    drop(guard);
    assert!(canceller.is_cancelled());
    assert!(calls.0.get() <= 1);
    task.run();

    let (task, handle) = pair();
    let runner = thread::spawn(move || task.run());
    assert_eq!(block_on(handle.cancel_on_drop()).unwrap(), 7);
    runner.join().unwrap();
}

#[test]
fn many_handles_can_be_awaited_in_any_order() {
    let pool = fixed(2);
    let handles: Vec<_> = (0..20_u64).map(|n| pool.submit(move || n).unwrap()).collect();
    let sum = block_on(async {
        let mut sum = 0;
        for handle in handles.into_iter().rev() {
            sum += handle.await?;
        }
        Ok::<u64, JoinError>(sum)
    });
    assert_eq!(sum.unwrap(), 190);
    pool.close();
}

/// No lock is held while a waker is called: it may query or cancel the task, or submit another one.
#[test]
fn a_waker_may_call_the_handle_and_the_pool() {
    struct Curious {
        pool: ThreadPoolExecutor,
        canceller: Mutex<Option<Canceller>>,
        send: mpsc::Sender<(TaskState, bool, TaskHandle<u8>)>,
    }
    impl Wake for Curious {
        fn wake(self: Arc<Self>) {
            let canceller = self.canceller.lock().unwrap().take().unwrap();
            let next = self.pool.submit(|| 8).unwrap();
            self.send.send((canceller.state(), canceller.cancel(true), next)).unwrap();
        }
    }
    let pool = fixed(1);
    let gate = Gate::new();
    let wait = gate.clone();
    let mut handle = pool.submit(move || wait.pass()).unwrap();
    let (send, receive) = mpsc::channel();
    let waker = Waker::from(Arc::new(Curious {
        pool: pool.clone(),
        canceller: Mutex::new(Some(handle.canceller())),
        send,
    }));
    assert!(poll(&mut handle, &waker).is_pending());
    gate.open();
    let (state, cancelled, next) = receive.recv_timeout(LONG).unwrap();
    assert_eq!((state, cancelled), (TaskState::Succeeded, false));
    assert_eq!(next.join().unwrap(), 8);
    drop(waker);
    pool.close();
}

/// A waker is user code: its panic must not reach the worker or change the counters.
#[test]
fn a_waker_that_panics_does_not_harm_the_pool() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic_any("waker");
        }
    }
    let pool = fixed(1);
    let gate = Gate::new();
    let wait = gate.clone();
    let mut handle = pool.submit(move || wait.pass()).unwrap();
    assert!(poll(&mut handle, &Waker::from(Arc::new(Panics))).is_pending());
    gate.open();
    eventually(|| handle.is_done());
    assert_eq!(pool.submit(|| 1).unwrap().join().unwrap(), 1);
    eventually(|| pool.completed_task_count() == 2);
    pool.close();
}

#[test]
fn an_await_racing_the_end_never_misses_it() {
    let (send, receive) = mpsc::sync_channel::<Task>(1);
    let runner = thread::spawn(move || {
        for (at, task) in receive.into_iter().enumerate() {
            if at % 3 == 0 { drop(task) } else { task.run() }
        }
    });
    for round in rounds(5000) {
        let (task, handle) = TaskOf::new(move || round).into_parts();
        send.send(task).unwrap();
        match block_on(handle) {
            Ok(value) => assert!(round % 3 != 0 && value == round),
            Err(JoinError::Abandoned) => assert!(round % 3 == 0),
            other => panic!("{other:?}"),
        }
    }
    drop(send);
    runner.join().unwrap();
}

/// A waker that cancels a task in its destructor.
struct CancelsOnDrop(Canceller);

impl Wake for CancelsOnDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for CancelsOnDrop {
    fn drop(&mut self) {
        self.0.cancel(false);
    }
}

// Regression: the waker was dropped under the lock that the cancel takes to wake the joiner.
#[test]
fn the_destructor_of_a_waker_may_cancel_the_task() {
    let (pool, gate) = busy();
    let (send, ended) = mpsc::channel();
    let submitter = pool.clone();
    let dropping = thread::spawn(move || {
        let mut handle = submitter.submit(|| ()).unwrap();
        let waker = Waker::from(Arc::new(CancelsOnDrop(handle.canceller())));
        let polled = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(waker);
        drop(handle);
        send.send(()).unwrap();
    });
    ended.recv_timeout(LONG).expect("the drop of the handle ends");
    dropping.join().unwrap();
    assert_eq!(pool.queued_count(), 0, "cancelled");
    gate.open();
    end(&pool);
}
