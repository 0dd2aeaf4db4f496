//! How do I call blocking code from async code, with a bound on how much of it may wait?
//!
//! A handle is a future, for any runtime. Here a `block_on` of twenty lines replaces the runtime.
//!
//! Run it: `cargo run --example from_async`

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use millpond::{RejectReason, Rejected, ThreadPoolExecutor, executors};

fn main() -> Result<(), Box<dyn Error>> {
    // At most 2 concurrent blocking calls and at most 3 waiting: further ones are rejected at once.
    let pool = executors::bounded(2, 2, 3)?;
    for request in 1..=3 {
        println!("request {request}: {}", block_on(serve(&pool, request)));
    }

    // The async code sees overload as an error, not as a growing queue.
    let calls: Vec<_> = (0..8).map(|_| pool.submit(|| thread::sleep(Duration::from_millis(30)))).collect();
    let is_saturated = |call: &Result<_, Rejected>| {
        call.as_ref().is_err_and(|rejected| rejected.reason() == RejectReason::Saturated)
    };
    let refused = calls.iter().filter(|call| is_saturated(call)).count();
    println!("of {} calls at once, {refused} were refused: the pool holds at most 2 + 3", calls.len());
    for call in calls.into_iter().flatten() {
        block_on(call)?;
    }
    Ok(())
}

/// An async handler.
async fn serve(pool: &ThreadPoolExecutor, request: u32) -> String {
    let answer = match pool.submit(move || blocking_lookup(request)) {
        Ok(handle) => handle.await,
        Err(rejected) => return format!("503, {rejected}"),
    };
    match answer {
        Ok(value) => format!("200, {value}"),
        Err(error) => format!("500, {error}"),
    }
}

fn blocking_lookup(request: u32) -> u32 {
    thread::sleep(Duration::from_millis(10));
    request * 100
}

/// Runs one future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
