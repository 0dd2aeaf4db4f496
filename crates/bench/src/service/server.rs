//! The server process: answers queries until SIGTERM, then reports how it ended.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use bench::{machine, processor};
use nix::sys::resource::{UsageWho, getrusage};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::backend::{Answer, Backend};
use crate::database::{self, Query};

const RUNTIME_THREADS: usize = 2;

/// Arguments: variant, database file, queue length, limit on the time in the queue in milliseconds
/// (0: none).
pub(crate) fn main(args: &[String]) -> Result<(), Box<dyn Error>> {
    let [variant, file, queue, max_queue_time] = args else {
        return Err("--serve needs four arguments".into());
    };
    database::set_file(PathBuf::from(file));
    let max_queue_time =
        Some(Duration::from_millis(max_queue_time.parse()?)).filter(|limit| !limit.is_zero());
    let backend = Backend::new(variant, queue.parse()?, max_queue_time).ok_or("no such variant")?;

    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(RUNTIME_THREADS).enable_all().build()?;
    let told = runtime.block_on(serve(backend.clone()))?;
    // All handlers have ended. This ends the queries that they left behind.
    let report = backend.shut_down();
    drop(runtime);
    say(&format!("ended {} {report}", told.elapsed().as_millis()))
}

/// Returns the time of the signal.
async fn serve(backend: Backend) -> Result<Instant, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut terminate = signal(SignalKind::terminate())?;
    say(&format!("listening {}", listener.local_addr()?.port()))?;
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    let app =
        Router::new().route("/metrics", get(metrics)).route("/{query}/{id}", get(answer)).with_state(backend);
    let (sender, told) = tokio::sync::oneshot::channel();
    let signalled = async move {
        terminate.recv().await;
        _ = sender.send(Instant::now());
    };
    axum::serve(listener, app).with_graceful_shutdown(signalled).await?;
    Ok(told.await?)
}

/// Prints a line for the parent process.
fn say(line: &str) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

async fn answer(State(backend): State<Backend>, Path((query, id)): Path<(String, u32)>) -> Response {
    let Some(query) = Query::ALL.into_iter().find(|known| known.name() == query) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match backend.answer(query, id).await {
        Answer::Found(sum) => sum.to_string().into_response(),
        Answer::Busy => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")]).into_response(),
        Answer::TooLate => StatusCode::GATEWAY_TIMEOUT.into_response(),
        Answer::Failed(what) => (StatusCode::INTERNAL_SERVER_ERROR, what).into_response(),
    }
}

/// Processor time in nanoseconds, context switches, resident bytes, threads.
async fn metrics() -> String {
    let used = processor::cpu_time().map_or(0, |time| time.process.as_nanos());
    let switches = getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0, |usage| usage.voluntary_context_switches() + usage.involuntary_context_switches());
    let (resident, threads) = (machine::resident().unwrap_or(0), machine::threads().len());
    format!("{used} {switches} {resident} {threads}")
}
