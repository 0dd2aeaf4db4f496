//! `submit_async`: waits for room without a thread, in one line with blocked submitters, and can be
//! dropped at any time.

use std::error::Error;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use crate::support::pools::{bounded_custom, factory, sized};
use crate::support::{
    Counter, Gate, LONG, PanicsOnDrop, Rng, assert_balanced, block, die, end, eventually, occupied, rounds,
    soon,
};
use millpond::{
    RejectReason, Rejected, RejectedExecutionHandler, SubmitAsync, Task, TaskHandle, ThreadPoolExecutor,
    WorkQueue, executors, policy,
};

/// A waker that counts its calls, and on which a thread can wait.
#[derive(Default)]
struct Bell {
    rings: Mutex<usize>,
    rung: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rings.lock().unwrap() += 1;
        self.rung.notify_all();
    }
}

impl Bell {
    fn rings(&self) -> usize {
        *self.rings.lock().unwrap()
    }

    fn wait(&self, seen: usize) {
        let rings = self.rings.lock().unwrap();
        let (rings, _) = self.rung.wait_timeout_while(rings, LONG, |rings| *rings <= seen).unwrap();
        assert!(*rings > seen, "nobody woke the future in {LONG:?}");
    }
}

/// A future with its own waker, polled manually.
struct Polled<F> {
    future: Pin<Box<F>>,
    bell: Arc<Bell>,
}

impl<F: Future> Polled<F> {
    fn new(future: F) -> Self {
        Polled { future: Box::pin(future), bell: Arc::default() }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.bell));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        self.bell.rings() > 0
    }

    fn block(mut self) -> F::Output {
        loop {
            let seen = self.bell.rings();
            match self.poll() {
                Poll::Ready(output) => return output,
                Poll::Pending => self.bell.wait(seen),
            }
        }
    }
}

/// A minimal executor.
fn block_on<F: Future>(future: F) -> F::Output {
    Polled::new(future).block()
}

/// A submission that must wait.
#[track_caller]
fn waiting<T: Send + 'static>(
    pool: &ThreadPoolExecutor,
    f: impl FnOnce() -> T + Send + 'static,
) -> Polled<SubmitAsync<T>> {
    let mut future = Polled::new(pool.submit_async(f));
    assert!(future.poll().is_pending());
    future
}

/// A pool with one busy thread and a full queue of one.
fn full(policy: impl RejectedExecutionHandler) -> (ThreadPoolExecutor, TaskHandle<u32>, Gate) {
    full_with(WorkQueue::array(1), policy)
}

fn full_with(
    queue: WorkQueue,
    policy: impl RejectedExecutionHandler,
) -> (ThreadPoolExecutor, TaskHandle<u32>, Gate) {
    let pool = sized(1, 1).work_queue(queue).rejected_execution_handler(policy).build().unwrap();
    let gate = occupied(&pool);
    let queued = pool.submit(|| 2).unwrap();
    (pool, queued, gate)
}

#[test]
fn the_future_can_be_sent_and_spawned() {
    fn check<F: Future<Output = Result<TaskHandle<u32>, Rejected>> + Send + Unpin + 'static>(_: F) {}
    let pool = executors::fixed(1).unwrap();
    check(pool.submit_async(|| 1));
    end(&pool);
}

#[test]
fn with_room_it_resolves_at_the_first_poll() {
    let pool = executors::bounded(1, 1, 1).unwrap();
    for n in 0..3 {
        let Poll::Ready(accepted) = Polled::new(pool.submit_async(move || n)).poll() else {
            panic!("there is room")
        };
        assert_eq!(soon(accepted.unwrap()).unwrap(), n);
    }
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn it_does_nothing_before_it_is_polled() {
    let pool = executors::bounded(1, 1, 1).unwrap();
    drop(pool.submit_async(|| die("never polled")));
    end(&pool);
    assert_eq!(pool.stats().submitted, 0);
}

#[test]
fn it_waits_for_room_whatever_the_policy() {
    fn check(policy: impl RejectedExecutionHandler) {
        let (pool, queued, gate) = full(policy);
        let future = waiting(&pool, || 3);
        assert_eq!((pool.queued_count(), pool.stats().rejected), (1, 0));
        gate.open();
        assert_eq!(soon(future.block().unwrap()).unwrap(), 3);
        assert_eq!(soon(queued).unwrap(), 2);
        end(&pool);
        assert_eq!(pool.stats().rejected, 0);
        assert_balanced(&pool.stats());
    }
    check(policy::Abort);
    check(policy::CallerRuns);
    check(policy::Discard);
    check(policy::DiscardOldest);
    check(policy::Block::forever());
    check(|_: Task, _: &ThreadPoolExecutor| -> Result<(), Rejected> { unreachable!("no policy is asked") });
}

#[test]
fn every_bounded_queue_makes_it_wait_and_wakes_it() {
    let queues: [fn() -> WorkQueue; 3] =
        [|| WorkQueue::array(1), || WorkQueue::linked_bounded(1), || bounded_custom(1)];
    for queue in queues {
        for eager in [false, true] {
            let builder = sized(1, 1).work_queue(queue());
            let pool = if eager { builder.eager() } else { builder }.build().unwrap();
            let gate = occupied(&pool);
            let queued = pool.submit(|| 2).unwrap();
            let futures = [3, 4, 5].map(|n| waiting(&pool, move || n));
            gate.open();
            for (n, future) in (3..).zip(futures) {
                assert_eq!(soon(future.block().unwrap()).unwrap(), n);
            }
            assert_eq!(soon(queued).unwrap(), 2);
            end(&pool);
            assert_balanced(&pool.stats());
        }
    }
}

#[test]
fn with_a_synchronous_queue_an_idle_worker_is_room() {
    let pool = sized(1, 1).work_queue(WorkQueue::synchronous()).build().unwrap();
    let gate = occupied(&pool);
    let futures = [1, 2, 3].map(|n| waiting(&pool, move || n));
    gate.open();
    for (n, future) in (1..).zip(futures) {
        assert_eq!(soon(future.block().unwrap()).unwrap(), n);
    }
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn a_queue_without_a_bound_never_makes_it_wait() {
    for queue in [WorkQueue::linked(), WorkQueue::priority(), WorkQueue::delay()] {
        let pool = sized(1, 1).work_queue(queue).build().unwrap();
        let gate = occupied(&pool);
        let accepted: Vec<_> = (0..100)
            .map(|n| match Polled::new(pool.submit_async(move || n)).poll() {
                Poll::Ready(accepted) => accepted.unwrap(),
                Poll::Pending => panic!("there is no bound"),
            })
            .collect();
        gate.open();
        for (n, handle) in accepted.into_iter().enumerate() {
            assert_eq!(soon(handle).unwrap(), n);
        }
        end(&pool);
    }
}

#[test]
fn a_larger_pool_is_room() {
    let (pool, queued, gate) = full(policy::Abort);
    let future = waiting(&pool, || 3);
    pool.set_maximum_pool_size(2).unwrap();
    assert_eq!(soon(future.block().unwrap()).unwrap(), 3);
    gate.open();
    assert_eq!(soon(queued).unwrap(), 2);
    end(&pool);
}

#[test]
fn a_cancelled_or_removed_task_is_room() {
    let (pool, queued, gate) = full(policy::Abort);
    let (mut first, second) = (waiting(&pool, || 3), waiting(&pool, || 4));
    assert!(queued.cancel(false));
    first.bell.wait(0);
    assert!(!second.is_woken());
    let Poll::Ready(Ok(handle)) = first.poll() else { panic!("a place is free") };
    assert!(pool.remove(handle.id()));
    let handle = second.block().unwrap();
    gate.open();
    assert_eq!(soon(handle).unwrap(), 4);
    end(&pool);
    assert_balanced(&pool.stats());
}

/// The worker is busy throughout, so each cancelled task leaves room for exactly one submitter.
#[test]
fn blocked_threads_and_futures_get_room_in_one_order() {
    let (pool, queued, gate) = full(policy::Block::forever());
    thread::scope(|s| {
        let first = block(s, || pool.submit(|| 3).unwrap());
        let second = waiting(&pool, || 4);
        let third = block(s, || pool.submit(|| 5).unwrap());
        let fourth = waiting(&pool, || 6);
        assert!(queued.cancel(false));
        assert!(first.join().cancel(false));
        assert!(second.block().unwrap().cancel(false));
        let third = third.join();
        assert!(!fourth.is_woken());
        assert!(third.cancel(false));
        let fourth = fourth.block().unwrap();
        gate.open();
        assert_eq!(soon(fourth).unwrap(), 6);
    });
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn a_newcomer_does_not_overtake_those_who_wait() {
    let pool = executors::bounded(1, 1, 2).unwrap();
    let gate = occupied(&pool);
    let queued = [1, 2].map(|n| pool.submit(move || n).unwrap());
    let (mut first, mut second) = (waiting(&pool, || 3), waiting(&pool, || 4));
    assert!(queued[1].cancel(false)); // room for the first waiter
    first.bell.wait(0);
    let mut newcomer = waiting(&pool, || 5);
    assert!(second.poll().is_pending());
    let Poll::Ready(Ok(third)) = first.poll() else { panic!("its room has been taken") };
    assert!(!second.is_woken() && newcomer.poll().is_pending());
    drop((second, newcomer));
    gate.open();
    assert_eq!(soon(third).unwrap(), 3);
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn dropping_a_waiting_future_drops_the_closure_and_leaves_the_line() {
    let (pool, queued, gate) = full(policy::Abort);
    let drops = Counter::new();
    let (first, second) = (drops.on_drop(), drops.on_drop());
    let leaves = waiting(&pool, move || drop(first));
    let panics = PanicsOnDrop(drops.on_drop());
    let leaves_noisily = waiting(&pool, move || drop(panics));
    let stays = waiting(&pool, move || drop(second));
    drop(leaves);
    drop(leaves_noisily);
    assert_eq!(drops.get(), 2);
    gate.open();
    soon(stays.block().unwrap()).unwrap();
    assert_eq!((drops.get(), soon(queued).unwrap()), (3, 2));
    end(&pool);
    assert_eq!((pool.stats().submitted, pool.stats().completed), (3, 3));
}

/// Otherwise the second future would wait forever, because nothing else happens in the pool.
#[test]
fn a_future_that_is_dropped_after_it_was_woken_passes_the_room_on() {
    let (pool, queued, gate) = full(policy::Block::forever());
    let first = waiting(&pool, || die("dropped"));
    let second = waiting(&pool, || 4);
    let (third, accepted) = thread::scope(|s| {
        let third = block(s, || pool.submit(|| 5).unwrap());
        assert!(queued.cancel(false));
        first.bell.wait(0);
        assert!(!second.is_woken());
        drop(first);
        let accepted = second.block().unwrap(); // takes the place
        assert!(pool.remove(accepted.id())); // and frees it again
        (third.join(), accepted)
    });
    gate.open();
    assert_eq!(soon(third).unwrap(), 5);
    drop(accepted);
    end(&pool);
    assert_balanced(&pool.stats());
}

#[test]
fn the_waker_of_the_last_poll_is_woken() {
    let (pool, queued, gate) = full(policy::Abort);
    let mut future = waiting(&pool, || 3);
    let old = std::mem::take(&mut future.bell);
    assert!(future.poll().is_pending());
    assert_eq!(Arc::strong_count(&old), 1, "the old waker is not kept");
    // Room for one, while the worker is busy. An idle worker would be more room, and a second call.
    assert!(queued.cancel(false));
    let bell = Arc::clone(&future.bell);
    let accepted = future.block().unwrap();
    assert_eq!((old.rings(), bell.rings()), (0, 1));
    gate.open();
    assert_eq!(soon(accepted).unwrap(), 3);
    end(&pool);
}

#[test]
fn a_waker_that_panics_hurts_nobody() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            die("in a waker");
        }
    }
    let (pool, queued, gate) = full(policy::Abort);
    let mut future = pin!(pool.submit_async(|| 3));
    let waker = Waker::from(Arc::new(Panics));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    gate.open();
    assert_eq!(soon(queued).unwrap(), 2);
    assert_eq!(soon(block_on(future).unwrap()).unwrap(), 3);
    end(&pool);
}

#[test]
fn a_shutdown_ends_every_wait_and_gives_the_task_back() {
    for now in [false, true] {
        let (pool, queued, gate) = full(policy::Abort);
        let ran = Counter::new();
        let mut futures: Vec<_> = (0..5)
            .map(|_| {
                let ran = ran.clone();
                waiting(&pool, move || ran.add())
            })
            .collect();
        pool.shutdown();
        let drained = if now { pool.shutdown_now() } else { Vec::new() };
        for future in &futures {
            assert!(future.is_woken());
        }
        futures.push(Polled::new(pool.submit_async(|| ()))); // too late
        for future in futures {
            let rejected = future.block().unwrap_err();
            assert_eq!(rejected.reason(), RejectReason::Shutdown);
            rejected.into_task().run();
        }
        assert_eq!((ran.get(), pool.stats().rejected, drained.len()), (5, 6, usize::from(now)));
        drop(drained);
        gate.open();
        assert_eq!(soon(queued).is_ok(), !now);
        end(&pool);
        assert_balanced(&pool.stats());
    }
}

#[test]
fn a_thread_that_cannot_be_started_is_an_error_with_its_cause() {
    let pool = sized(1, 1).thread_factory(factory(|_| false)).build().unwrap();
    let rejected = block_on(pool.submit_async(|| 1)).unwrap_err();
    assert_eq!(rejected.reason(), RejectReason::SpawnFailed);
    assert_eq!(rejected.source().unwrap().to_string(), "no thread today");
    end(&pool);
}

/// The last handle is dropped, but a submitter still waits: the pool stays open until it is done.
#[test]
fn a_waiting_future_keeps_the_pool_open() {
    let (pool, queued, gate) = full(policy::Abort);
    let future = waiting(&pool, || 3);
    drop(pool);
    gate.open();
    assert_eq!(soon(future.block().unwrap()).unwrap(), 3);
    assert_eq!(soon(queued).unwrap(), 2);
}

/// More producers than room, each polling on its own thread. The number of tasks in the pool never
/// exceeds its bound.
#[test]
fn two_hundred_submissions_of_eight_producers_are_all_accepted_within_the_bound() {
    let pool = executors::bounded(2, 2, 8).unwrap();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    thread::scope(|s| {
        for producer in 0..8 {
            let (pool, inside, most) = (&pool, &inside, &most);
            s.spawn(move || {
                for n in 0..25 {
                    let (inside, most) = (Arc::clone(inside), Arc::clone(most));
                    let handle = block_on(pool.submit_async(move || {
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        producer * 25 + n
                    }))
                    .unwrap();
                    assert!(pool.queued_count() <= 8);
                    if n % 2 == 0 {
                        assert_eq!(soon(handle).unwrap(), producer * 25 + n);
                    }
                }
            });
        }
    });
    end(&pool);
    assert!(most.load(Ordering::SeqCst) <= 2 && pool.largest_pool_size() == 2);
    assert_eq!((pool.stats().submitted, pool.stats().rejected), (200, 0));
    assert_balanced(&pool.stats());
}

/// Futures are dropped at random times, beside blocked threads. Accepted tasks run once, others are
/// dropped once, and every remaining submitter gets room.
#[test]
fn a_storm_of_dropped_futures_loses_nothing_and_strands_nobody() {
    const PRODUCERS: usize = 6;
    let mut rng = Rng::new();
    for round in rounds(12) {
        let pool = sized(2, 2)
            .work_queue(if round % 2 == 0 { WorkQueue::array(2) } else { WorkQueue::synchronous() })
            .rejected_execution_handler(policy::Block::forever())
            .build()
            .unwrap();
        let (ran, dropped, accepted) = (Counter::new(), Counter::new(), AtomicUsize::new(0));
        let made = AtomicUsize::new(0);
        thread::scope(|s| {
            for producer in 0..PRODUCERS {
                let (pool, ran, dropped, accepted, made) = (&pool, &ran, &dropped, &accepted, &made);
                let mut rng = rng.fork();
                s.spawn(move || {
                    for _ in 0..50 {
                        made.fetch_add(1, Ordering::Relaxed);
                        let (ran, captured) = (ran.clone(), dropped.on_drop());
                        let task = move || {
                            let _captured = captured;
                            ran.add();
                        };
                        if producer == 0 {
                            pool.execute(task).unwrap();
                            accepted.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        let mut future = Polled::new(pool.submit_async(task));
                        match rng.below(3) {
                            // Waits until it has room.
                            0 => {
                                drop(future.block().unwrap());
                                accepted.fetch_add(1, Ordering::Relaxed);
                            }
                            // Gives up after a few polls, woken or not.
                            _ => {
                                for _ in 0..rng.below(4) {
                                    if let Poll::Ready(handle) = future.poll() {
                                        drop(handle.unwrap());
                                        accepted.fetch_add(1, Ordering::Relaxed);
                                        break;
                                    }
                                    thread::yield_now();
                                }
                            }
                        }
                    }
                });
            }
        });
        end(&pool);
        let (accepted, made) = (accepted.into_inner(), made.into_inner());
        assert_eq!(pool.stats().submitted, accepted as u64);
        assert_eq!((ran.get(), pool.stats().rejected), (accepted, 0));
        eventually(|| dropped.get() == made);
        assert_balanced(&pool.stats());
    }
}

#[cfg(not(any(loom, miri)))]
#[test]
fn two_hundred_tasks_of_a_tokio_runtime_wait_for_room() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let pool = executors::bounded(2, 2, 8).unwrap();
    let tasks: Vec<_> = (0..200_u64)
        .map(|n| {
            let submission = pool.submit_async(move || n * n);
            runtime.spawn(async move { submission.await.unwrap().await.unwrap() })
        })
        .collect();
    let sum: u64 = runtime.block_on(async {
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, (0..200).map(|n| n * n).sum());
    end(&pool);
    assert_eq!((pool.stats().submitted, pool.stats().rejected), (200, 0));
}

/// A waker that submits a task and joins it.
struct JoinsATask(ThreadPoolExecutor);

impl Wake for JoinsATask {
    fn wake(self: Arc<Self>) {
        self.0.submit(|| ()).unwrap().join().unwrap();
    }
}

// Regression: the waker ran after the only worker had been chosen and before it was woken.
#[test]
fn a_waker_may_join_a_task_while_its_future_enters() {
    let (pool, queued, gate) = full(policy::Abort);
    let mut future = waiting(&pool, || 3);
    gate.open();
    assert_eq!(soon(queued).unwrap(), 2);
    eventually(|| future.is_woken() && pool.parked_workers().all == 1);
    let waker = Waker::from(Arc::new(JoinsATask(pool.clone())));
    let (send, polled) = mpsc::channel();
    let polling = thread::spawn(move || {
        send.send(future.future.as_mut().poll(&mut Context::from_waker(&waker))).unwrap();
    });
    let Poll::Ready(entered) = polled.recv_timeout(LONG).expect("the poll ends") else {
        panic!("there is room")
    };
    polling.join().unwrap();
    assert_eq!(soon(entered.unwrap()).unwrap(), 3);
    end(&pool);
}

// Regression: a worker that parked in a paused pool did not notify the submitters, although it
// takes the head of a full queue.
#[test]
fn a_worker_that_parks_in_a_paused_pool_is_room_which_is_passed_on() {
    let (pool, queued, gate) = full(policy::Abort);
    let mut futures = [waiting(&pool, || 3), waiting(&pool, || 4)];
    pool.pause();
    futures.iter_mut().for_each(|future| assert!(future.poll().is_pending()));
    let seen = futures.each_ref().map(|future| future.bell.rings());
    gate.open();
    let [first, mut second] = futures;
    first.bell.wait(seen[0]);
    assert_eq!(second.bell.rings(), seen[1]);
    drop(first);
    second.bell.wait(seen[1]);
    let Poll::Ready(entered) = second.poll() else { panic!("the worker takes the queued task") };
    pool.resume();
    assert_eq!((soon(queued).unwrap(), soon(entered.unwrap()).unwrap()), (2, 4));
    end(&pool);
}
