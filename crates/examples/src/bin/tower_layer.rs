//! A tower layer that runs a blocking function on a bounded pool.
//!
//! [`OnPool`] turns a blocking function into a tower service. It combines with other layers: a
//! timeout above it cancels the task, because dropping the future of a call cancels its task. A
//! full pool rejects a call at once, whereas tower's own limits wait.
//!
//! `cargo run -p examples --bin tower_layer`

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use millpond::{ThreadPoolExecutor, executors};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};

/// Runs the wrapped function on a pool.
#[derive(Clone)]
struct OnPool {
    pool: ThreadPoolExecutor,
}

impl<F> Layer<F> for OnPool {
    type Service = BlockingService<F>;

    fn layer(&self, function: F) -> BlockingService<F> {
        BlockingService { pool: self.pool.clone(), function }
    }
}

/// A blocking function as a service. Its errors are `Rejected` and `JoinError`.
#[derive(Clone)]
struct BlockingService<F> {
    pool: ThreadPoolExecutor,
    function: F,
}

impl<F, Request, Response> Service<Request> for BlockingService<F>
where
    F: Fn(Request) -> Response + Clone + Send + 'static,
    Request: Send + 'static,
    Response: Send + 'static,
{
    type Response = Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, BoxError>> + Send>>;

    /// Always ready: the pool decides about each call. To wait for room instead, begin the future
    /// of `call` with `pool.submit_async(task).await?`.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let function = self.function.clone();
        let submitted = self.pool.submit(move || function(request));
        Box::pin(async move { Ok(submitted?.cancel_on_drop().await?) })
    }
}

/// Represents a blocking driver.
fn look_up(id: u32) -> String {
    std::thread::sleep(Duration::from_millis(20));
    format!("row {id}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let pool = executors::bounded(2, 2, 4)?;
    let service = ServiceBuilder::new()
        .timeout(Duration::from_millis(200))
        .layer(OnPool { pool: pool.clone() })
        .service(look_up);

    let calls: Vec<_> = (1..=10).map(|id| tokio::spawn(service.clone().oneshot(id))).collect();
    for (call, id) in calls.into_iter().zip(1..) {
        match call.await? {
            Ok(row) => println!("{id}: {row}"),
            Err(error) => println!("{id}: {error}"), // four of ten do not fit
        }
    }
    pool.shutdown();
    pool.terminated().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond::{Rejected, interrupt};
    use std::sync::mpsc;

    type Gate = std::sync::Arc<std::sync::Mutex<mpsc::Receiver<()>>>;

    /// A service with one thread and no queue, whose function waits for the gate.
    fn gated() -> (ThreadPoolExecutor, mpsc::Sender<()>, BlockingService<impl Fn(u32) -> u32 + Clone>) {
        let (open, gate) = mpsc::channel();
        let gate: Gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
        let pool = executors::bounded(1, 1, 1).unwrap();
        let wait = move |id| {
            gate.lock().unwrap().recv().unwrap();
            id
        };
        (pool.clone(), open, OnPool { pool }.layer(wait))
    }

    #[tokio::test]
    async fn full_pool_refuses_the_call_at_once() {
        let (pool, open, mut service) = gated();
        let (first, second) = (service.call(1), service.call(2));
        let refused = service.call(3).await.unwrap_err();
        assert!(refused.downcast_ref::<Rejected>().is_some_and(|rejected| rejected.reason().is_overload()));
        open.send(()).unwrap();
        open.send(()).unwrap();
        assert_eq!((first.await.unwrap(), second.await.unwrap()), (1, 2));
        pool.close();
    }

    #[tokio::test]
    async fn timeout_above_the_layer_cancels_the_task() {
        let (sender, ended) = mpsc::channel();
        let pool = executors::bounded(1, 1, 1).unwrap();
        let sleep = move |()| sender.send(interrupt::sleep(Duration::MAX)).unwrap();
        let service = ServiceBuilder::new()
            .timeout(Duration::from_millis(10))
            .layer(OnPool { pool: pool.clone() })
            .service(sleep);
        assert!(service.oneshot(()).await.unwrap_err().is::<tower::timeout::error::Elapsed>());
        // A task that was cancelled before it began sends nothing.
        assert!(ended.recv().is_ok_and(|slept| slept.is_err()) || pool.stats().cancelled == 1);
        pool.close();
    }
}
