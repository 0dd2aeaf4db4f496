//! Executors and schedulers together with tokio: each awaits what the other runs.
#![cfg(not(loom))] // tokio has no runtime under its own `cfg(loom)`

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crate::support::{Counter, LONG, SHORT, die, eventually, soon};
use futures_core::Stream;
use millpond::reactive::{ExecutorFutureExt, SchedulerFutureExt, StreamError, StreamOn};
use millpond::schedulers::{self, Scheduler};
use millpond::{JoinError, ThreadPoolExecutor, executors, interrupt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

/// A runtime with its own threads: its timers run even if no thread blocks on it.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap()
}

/// A tokio channel as a stream.
struct Receiver<T>(mpsc::Receiver<T>);

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        self.0.poll_recv(context)
    }
}

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

#[test]
fn a_timer_of_the_runtime_is_awaited_on_a_pool() {
    let (runtime, pool) = (runtime(), executors::fixed(1).unwrap());
    let begin = Instant::now();
    let timer = {
        let _entered = runtime.enter();
        tokio::time::sleep(SHORT)
    };
    let handle = pool.spawn_future(async move {
        timer.await;
        std::thread::current().name().unwrap().to_owned()
    });
    let name = soon(handle.unwrap()).unwrap();
    assert!(begin.elapsed() >= SHORT);
    assert!(name.starts_with("pool-"), "{name}");
}

#[test]
fn a_timer_of_the_runtime_is_awaited_on_a_scheduler() {
    let (runtime, scheduler) = (runtime(), schedulers::new_single("tick").unwrap());
    let begin = Instant::now();
    let timer = {
        let _entered = runtime.enter();
        tokio::time::sleep(SHORT)
    };
    soon(scheduler.spawn_future(timer).unwrap()).unwrap();
    assert!(begin.elapsed() >= SHORT);
}

#[test]
fn a_handle_is_awaited_in_the_runtime() {
    let (runtime, pool) = (runtime(), executors::fixed(1).unwrap());
    let sum = runtime.block_on(async {
        let plain = pool.submit(|| 40).unwrap();
        let future = pool.spawn_future(async { 2 }).unwrap();
        plain.await.unwrap() + future.await.unwrap()
    });
    assert_eq!(sum, 42);
}

#[test]
fn a_panic_and_a_cancel_on_the_pool_are_errors_in_the_runtime() {
    let (runtime, pool) = (runtime(), executors::fixed(1).unwrap());
    runtime.block_on(async {
        let panics = pool.spawn_future(async { die("here") }).unwrap();
        let outcome: Result<(), _> = panics.await;
        assert!(matches!(outcome, Err(JoinError::Panicked(panic)) if panic.message() == Some("here")));

        let (send, receive) = oneshot::channel::<()>();
        let cancelled = pool.spawn_future(receive).unwrap();
        assert!(cancelled.cancel(true));
        assert!(matches!(cancelled.await, Err(JoinError::Cancelled)));
        eventually(|| send.is_closed()); // the receiver was dropped with the future
    });
}

#[test]
fn a_runtimes_time_out_cancels_the_future_on_the_pool() {
    let (runtime, pool) = (runtime(), executors::fixed(1).unwrap());
    let (send, receive) = oneshot::channel::<()>();
    runtime.block_on(async {
        let handle = pool.spawn_future(receive).unwrap().cancel_on_drop();
        assert!(tokio::time::timeout(SHORT, handle).await.is_err());
    });
    eventually(|| send.is_closed());
}

#[test]
fn a_stream_flows_from_the_runtime_over_two_schedulers_and_back() {
    let runtime = runtime();
    let (blocking, cpu) =
        (schedulers::new_single("blocking").unwrap(), schedulers::new_parallel(2, "cpu").unwrap());
    let seen: Vec<u64> = runtime.block_on(async {
        let (send, receive) = mpsc::channel(4);
        let producer = tokio::spawn(async move {
            for n in 0..500_u64 {
                send.send(n).await.unwrap();
            }
        });
        let mut stream =
            Receiver(receive).subscribe_on(&blocking).publish_on(&cpu).map_on(|n| n.unwrap() * 2);
        let mut seen = Vec::new();
        while let Some(item) = next(&mut stream).await {
            seen.push(item.unwrap());
        }
        producer.await.unwrap();
        seen
    });
    assert_eq!(seen, (0..500).map(|n| n * 2).collect::<Vec<_>>());
}

#[test]
fn back_pressure_reaches_the_producer_in_the_runtime() {
    let (runtime, scheduler) = (runtime(), schedulers::new_single("narrow").unwrap());
    let sent = Counter::new();
    let count = sent.clone();
    runtime.block_on(async {
        let (send, receive) = mpsc::channel(1);
        let producer = tokio::spawn(async move {
            while send.send(()).await.is_ok() {
                count.add();
            }
        });
        let mut stream = Receiver(receive).subscribe_on_buffered(&scheduler, 2.try_into().unwrap());
        for taken in 1..=100 {
            next(&mut stream).await.unwrap().unwrap();
            // Two in our buffer, one in the channel, and one between them.
            let ahead = sent.get().saturating_sub(taken);
            assert!(ahead <= 4, "{ahead} items ahead");
        }
        drop(stream); // drops the receiver: the producer ends
        producer.await.unwrap();
    });
}

#[test]
fn the_end_of_the_scheduler_is_seen_by_a_consumer_in_the_runtime() {
    let (runtime, scheduler) = (runtime(), schedulers::new_single("ends").unwrap());
    let (send, receive) = mpsc::channel(1);
    let mut stream = Receiver(receive).subscribe_on(&scheduler);
    runtime.block_on(async {
        send.send(1).await.unwrap();
        assert_eq!(next(&mut stream).await.unwrap().unwrap(), 1);
        let other: Arc<dyn Scheduler> = Arc::clone(&scheduler);
        let disposer = tokio::task::spawn_blocking(move || other.dispose());
        assert!(matches!(next(&mut stream).await, Some(Err(StreamError::CutOff))));
        assert!(next(&mut stream).await.is_none());
        disposer.await.unwrap();
        send.closed().await; // the source is gone
    });
    assert!(scheduler.dispose_gracefully(LONG).unwrap());
}

#[test]
fn for_each_is_awaited_in_the_runtime() {
    let (runtime, scheduler) = (runtime(), schedulers::new_single("each").unwrap());
    let count = Counter::new();
    let counts = count.clone();
    runtime.block_on(async {
        let (send, receive) = mpsc::channel(8);
        let done = Receiver(receive).publish_on(&scheduler).for_each(move |()| counts.add()).unwrap();
        for _ in 0..50 {
            send.send(()).await.unwrap();
        }
        drop(send);
        tokio::time::timeout(LONG, done).await.unwrap().unwrap();
    });
    assert_eq!(count.get(), 50);
}

/// The recipe of `docs/service.md`.
#[test]
fn a_thread_factory_gives_workers_the_context_of_a_runtime_and_keeps_their_names() {
    let runtime = runtime();
    let context = runtime.handle().clone();
    let pool = ThreadPoolExecutor::builder()
        .thread_name_prefix("db-")
        .thread_factory(move |body| {
            let context = context.clone();
            thread::Builder::new().name(body.name().to_owned()).spawn(move || {
                let _context = context.enter();
                body.run()
            })
        })
        .build()
        .unwrap();
    let inside = pool.submit(|| {
        let name = thread::current().name().unwrap().to_owned();
        (name, tokio::runtime::Handle::current().block_on(tokio::spawn(async { 7 })).unwrap())
    });
    assert_eq!(soon(inside.unwrap()).unwrap(), ("db-1".to_owned(), 7));
    pool.close();
}

/// The recipe of `docs/service.md`.
#[test]
fn the_end_of_a_pool_is_awaited_within_a_time_limit_of_the_runtime() {
    let (runtime, pool) = (runtime(), executors::fixed(1).unwrap());
    pool.execute(|| _ = interrupt::sleep(LONG)).unwrap();
    runtime.block_on(async {
        pool.shutdown();
        assert!(tokio::time::timeout(SHORT, pool.terminated()).await.is_err(), "it ignores the shutdown");
        pool.shutdown_now();
        tokio::time::timeout(LONG, pool.terminated()).await.unwrap();
    });
    assert!(pool.is_terminated());
}
