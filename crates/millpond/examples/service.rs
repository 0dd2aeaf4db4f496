//! How does it all fit together in a service?
//!
//! A bounded pool for one database, requests that are rejected when it is full and abandoned when
//! they take too long, periodic figures, and a shutdown that loses no work. Clients are threads
//! here; a web framework would call `Service::serve` or `Service::serve_async`. `docs/service.md`
//! explains the reasons.
//!
//! Run it: `cargo run --example service`

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use millpond::{
    Hooks, JoinError, Panic, RejectReason, Rejected, ShutdownOutcome, Task, TaskHandle, TaskInfo,
    ThreadPoolExecutor, WorkQueue, executors, interrupt,
};

const DEADLINE: Duration = Duration::from_millis(250);

/// Logs events that would otherwise go unnoticed.
struct Log;

impl Hooks for Log {
    fn after_execute(&self, task: &TaskInfo, panic: Option<&Panic>) {
        if let Some(panic) = panic {
            println!("log: {} panicked: {panic}", task.name().unwrap_or("a task"));
        }
    }
}

#[derive(Clone)]
struct Service {
    database: ThreadPoolExecutor,
}

impl Service {
    fn new() -> Result<Service, Box<dyn Error>> {
        let database = ThreadPoolExecutor::builder()
            .core_pool_size(2)
            .maximum_pool_size(4) // number of database connections
            .work_queue(WorkQueue::array(4)) // as many as can be answered in time
            .thread_name_prefix("database-")
            .hooks(Log)
            .build()?;
        Ok(Service { database })
    }

    /// Answers with a status. Blocks the calling thread.
    fn serve(&self, row: u32) -> (u16, String) {
        let mut answer = match self.database.submit(move || query(row)) {
            Ok(answer) => answer,
            Err(rejected) => return refused(&rejected),
        };
        match answer.join_timeout(DEADLINE) {
            Some(outcome) => answered(outcome),
            None => {
                // No thread waits for it now. Interrupt it if it runs; otherwise free its place at
                // once.
                answer.cancel(true);
                (504, "too slow".to_owned())
            }
        }
    }

    /// The same in async code. If the future is dropped, for example by a timeout, the query is
    /// cancelled.
    async fn serve_async(&self, row: u32) -> (u16, String) {
        match self.database.submit(move || query(row)).map(TaskHandle::cancel_on_drop) {
            Ok(answer) => answered(answer.await),
            Err(rejected) => refused(&rejected),
        }
    }
}

fn refused(rejected: &Rejected) -> (u16, String) {
    match rejected.reason() {
        RejectReason::Saturated => (503, "busy, come again".to_owned()),
        RejectReason::Shutdown => (503, "going away".to_owned()),
        _ => (500, rejected.to_string()),
    }
}

fn answered(outcome: Result<io::Result<String>, JoinError>) -> (u16, String) {
    match outcome {
        Ok(Ok(text)) => (200, text),
        Ok(Err(error)) => (502, error.to_string()), // the query failed
        Err(error) => (500, error.to_string()),     // there is no answer: it panicked, or was cancelled
    }
}

/// A blocking call. A real one would have its own timeout, or be ended by
/// `Interrupter::on_interrupt`.
fn query(row: u32) -> io::Result<String> {
    interrupt::sleep(Duration::from_millis(if row == 0 { 60_000 } else { 30 }))?;
    Ok(format!("row {row}"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let service = Service::new()?;

    // Periodic figures. Delayed and periodic tasks have their own small pool.
    let clock = executors::single_scheduled();
    let watched = service.clone();
    let figures = clock.schedule_at_fixed_rate(Duration::ZERO, Duration::from_millis(100), move || {
        let stats = watched.database.stats();
        println!(
            "figures: {} of {} threads busy, {} waiting, {} completed, {} rejected",
            stats.active_count, stats.maximum_pool_size, stats.queued_count, stats.completed, stats.rejected
        );
    })?;

    // Row 0 takes a minute, so it times out.
    println!("request 0: {:?}", service.serve(0));

    // A burst: 12 requests at once, for a pool with room for 4 + 4.
    thread::scope(|clients| {
        for row in 1..=12 {
            let service = &service;
            clients.spawn(move || println!("request {row}: {:?}", service.serve(row)));
        }
    });
    println!("request 13: {:?}", block_on(service.serve_async(13)));

    // Shutdown: stop the figures, then give accepted requests time. Unstarted ones are returned.
    figures.cancel(false);
    clock.close();
    for letter in 1..=6 {
        let send = Task::new(move || {
            if interrupt::sleep(Duration::from_secs(60)).is_err() {
                println!("letter {letter}: interrupted, so it goes back into the box");
            }
        });
        service.database.execute_task(send.named(format!("letter {letter}")))?;
    }
    let report = service.database.shutdown_gracefully(Duration::from_millis(100), Duration::from_secs(5));
    println!("end: {} after {:.0?}", report.outcome, report.elapsed);
    for task in &report.never_run {
        println!("to be sent after the restart: {}", task.name().unwrap_or("a task"));
    }
    println!("request 14: {:?}", service.serve(14));

    let stats = service.database.stats();
    let ended = stats.completed + stats.panicked + stats.cancelled + stats.handed_back;
    assert_eq!((stats.submitted, report.outcome), (ended, ShutdownOutcome::Interrupted));
    Ok(())
}

/// Replaces an async runtime; see the example `from_async`.
fn block_on<F: Future>(future: F) -> F::Output {
    use std::task::{Context, Poll, Wake, Waker};
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
