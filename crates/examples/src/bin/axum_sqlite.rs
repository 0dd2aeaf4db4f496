//! A web service over a blocking SQLite driver that keeps answering under overload.
//!
//! - Queries run on a bounded pool. Under overload requests get 503 with `Retry-After`.
//! - A request has a deadline. At the deadline, or if the client disconnects, its query is
//!   cancelled.
//! - SIGTERM and Ctrl-C: no new connections, running requests end, then the pool shuts down.
//! - `/metrics` is Prometheus text: threads, queue, waiting and run times, rejections by reason.
//! - Log lines of a query are in the span of its request, although it runs on another thread.
//!
//! ```sh
//! cargo run -p examples --bin axum_sqlite
//! curl -i -d 'a cup' localhost:3000/items     # 201 with the number of the item
//! curl -i localhost:3000/items/1              # 200
//! curl -i localhost:3000/report/1000000000    # 504: takes longer than the deadline
//! curl -s localhost:3000/metrics
//! ```
//!
//! In a crate of your own: `cargo add millpond millpond-prometheus millpond-tracing axum tracing
//! tracing-subscriber`, `cargo add rusqlite -F bundled,hooks` and `cargo add tokio -F
//! macros,rt-multi-thread,net,signal,sync,time`.

use std::env;
use std::error::Error;
use std::path::{Path as FilePath, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use millpond::{JoinError, Rejected, ThreadPoolExecutor, WorkQueue, interrupt};
use millpond_tracing::CurrentSpan;
use rusqlite::Connection;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{Instrument, error, info, info_span};

/// At the shutdown: how long accepted queries may take, and then how long interrupted ones may
/// take.
const GRACE: Duration = Duration::from_secs(5);
const FORCE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let _events = millpond_tracing::observe(); // logs rejections, panics and changes of settings
    let database = Database::open()?;
    let (changes, log) = mpsc::channel(100);
    tokio::spawn(log_changes(log));
    let app = Router::new()
        .route("/items", post(add_item))
        .route("/items/{id}", get(item))
        .route("/report/{rows}", get(report))
        .layer(middleware::from_fn(in_span))
        .route("/metrics", get(metrics))
        .with_state(App { database: database.clone(), changes });

    // Before the address is printed: from then on a signal must not kill the process.
    let end_requested = end_requested()?;
    let listener = TcpListener::bind(setting("LISTEN", "127.0.0.1:3000".to_owned())?).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(end_requested).await?;
    println!("ended: {}", database.end().await);
    Ok(())
}

#[derive(Clone)]
struct App {
    database: Database,
    changes: mpsc::Sender<i64>,
}

async fn add_item(State(app): State<App>, name: String) -> Result<Response, Failure> {
    let changes = app.changes;
    let id = app.database.call(move |connection| {
        connection.execute("INSERT INTO item (name) VALUES (?1)", [name])?;
        let id = connection.last_insert_rowid();
        info!(id, "added an item"); // on a worker thread, but in the span of the request
        // Async code from a worker thread, which has the runtime's context: see `Database::open`.
        tokio::spawn(async move { changes.send(id).await });
        Ok(id)
    });
    Ok((StatusCode::CREATED, format!("{}\n", id.await?)).into_response())
}

async fn item(State(app): State<App>, Path(id): Path<i64>) -> Result<String, Failure> {
    let name = app.database.call(move |connection| {
        connection.query_row("SELECT name FROM item WHERE id = ?1", [id], |row| row.get::<_, String>(0))
    });
    Ok(name.await? + "\n")
}

/// An expensive query, proportional to `rows`.
async fn report(State(app): State<App>, Path(rows): Path<i64>) -> Result<String, Failure> {
    const SQL: &str = "WITH RECURSIVE row(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < ?1) \
                       SELECT count(*) FROM row";
    let count =
        app.database.call(move |connection| connection.query_row(SQL, [rows], |row| row.get::<_, i64>(0)));
    Ok(format!("{}\n", count.await?))
}

/// All pools of the process.
async fn metrics() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, millpond_prometheus::CONTENT_TYPE)], millpond_prometheus::render())
}

/// Runs a request in its own span.
async fn in_span(request: Request, next: Next) -> Response {
    let span = info_span!("request", method = %request.method(), path = request.uri().path());
    next.run(request).instrument(span).await
}

async fn log_changes(mut log: mpsc::Receiver<i64>) {
    while let Some(id) = log.recv().await {
        println!("item {id} was added");
    }
}

/// Runs blocking queries on its own threads.
#[derive(Clone)]
struct Database {
    pool: ThreadPoolExecutor,
    connections: Arc<Connections>,
    /// Of a whole request: time in the queue plus time of the query.
    deadline: Duration,
}

impl Database {
    /// Must be called inside a tokio runtime.
    fn open() -> Result<Database, Box<dyn Error>> {
        let threads = setting("DB_THREADS", 4)?;
        let deadline = Duration::from_millis(setting("DEADLINE_MS", 250)?);
        let tokio = tokio::runtime::Handle::current();
        let pool = ThreadPoolExecutor::builder()
            .core_pool_size(threads)
            .maximum_pool_size(threads)
            .work_queue(WorkQueue::array(setting("DB_QUEUE", 32)?))
            // After waiting for half of its deadline, a query would probably finish too late.
            .max_queue_time(deadline / 2)
            .name("db") // for metrics and threads
            .propagate(CurrentSpan)
            // Gives the workers the runtime's context, for `tokio::spawn` and `Handle::current`.
            .thread_factory(move |body| {
                let tokio = tokio.clone();
                thread::Builder::new().name(body.name().to_owned()).spawn(move || {
                    let _context = tokio.enter();
                    body.run();
                })
            })
            .build()?;
        let connections = Connections::new(PathBuf::from(setting("DB_FILE", "items.db".to_owned())?))?;
        Ok(Database { pool, connections: Arc::new(connections), deadline })
    }

    /// Runs a query on the pool. Dropping the future cancels the query: axum drops it when the
    /// client disconnects, `timeout` at the deadline.
    async fn call<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let connections = Arc::clone(&self.connections);
        let handle = self.pool.submit(move || connections.with(query))?.cancel_on_drop();
        Ok(timeout(self.deadline, handle).await???)
    }

    /// Call it after the server has ended: then no handler waits for a query.
    async fn end(&self) -> String {
        self.pool.shutdown();
        if timeout(GRACE, self.pool.terminated()).await.is_err() {
            drop(self.pool.shutdown_now()); // interrupts running queries; all handles resolve
            let _ = timeout(FORCE, self.pool.terminated()).await;
        }
        self.pool.to_string()
    }
}

/// A pool of connections: never more than concurrent queries; idle ones are reused.
struct Connections {
    file: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Connections {
    fn new(file: PathBuf) -> rusqlite::Result<Connections> {
        let first = connect(&file)?;
        first
            .execute_batch("CREATE TABLE IF NOT EXISTS item (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")?;
        Ok(Connections { file, idle: Mutex::new(vec![first]) })
    }

    /// Runs `query`. An interrupt of the calling task cancels it.
    fn with<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let idle = self.idle.lock().expect("no code panics under this lock").pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.file)?,
        };
        let handle = connection.get_interrupt_handle();
        let cancellation = interrupt::current().on_interrupt(move || handle.interrupt());
        let result = query(&connection);
        // Waits for a running callback, so that it cannot hit the next query on this connection.
        drop(cancellation);
        self.idle.lock().expect("no code panics under this lock").push(connection);
        result
    }
}

fn connect(file: &FilePath) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.busy_timeout(Duration::from_secs(1))?;
    // SQLite ignores an interrupt while no statement runs. This also catches an interrupt right
    // before the first step: the flag is checked every 10,000 instructions.
    connection.progress_handler(10_000, Some(interrupt::is_interrupted))?;
    Ok(connection)
}

/// Every reason for which a request fails. With `From`, handlers can use `?`.
enum Failure {
    Busy,
    ShuttingDown,
    TooLate,
    NotFound,
    Internal(String),
}

impl From<Rejected> for Failure {
    fn from(rejected: Rejected) -> Failure {
        match rejected.reason() {
            reason if reason.is_overload() => Failure::Busy,
            reason if reason.is_shutdown() => Failure::ShuttingDown,
            _ => Failure::Internal(rejected.to_string()),
        }
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Failure {
        match error {
            JoinError::Expired => Failure::Busy, // waited for longer than `max_queue_time`
            JoinError::Cancelled | JoinError::Abandoned => Failure::ShuttingDown,
            other => Failure::Internal(other.to_string()),
        }
    }
}

impl From<tokio::time::error::Elapsed> for Failure {
    fn from(_: tokio::time::error::Elapsed) -> Failure {
        Failure::TooLate
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Failure {
        match error {
            rusqlite::Error::QueryReturnedNoRows => Failure::NotFound,
            error if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => {
                Failure::ShuttingDown
            }
            error => Failure::Internal(error.to_string()),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
        const RETRY: [(header::HeaderName, &str); 1] = [(header::RETRY_AFTER, "1")];
        match self {
            Failure::Busy => (UNAVAILABLE, RETRY, "busy\n").into_response(),
            Failure::ShuttingDown => (UNAVAILABLE, RETRY, "shutting down\n").into_response(),
            Failure::TooLate => (StatusCode::GATEWAY_TIMEOUT, "too late\n").into_response(),
            Failure::NotFound => (StatusCode::NOT_FOUND, "not found\n").into_response(),
            Failure::Internal(why) => {
                error!(why, "internal error"); // logged, but not sent to the client
                (StatusCode::INTERNAL_SERVER_ERROR, "internal error\n").into_response()
            }
        }
    }
}

/// Resolves at SIGTERM or Ctrl-C. The handlers are installed when this returns.
#[cfg(unix)]
fn end_requested() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut ctrl_c) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = ctrl_c.recv() => {}
        }
    })
}

/// Resolves at Ctrl-C.
#[cfg(not(unix))]
fn end_requested() -> std::io::Result<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}

/// A setting from the environment.
fn setting<T: FromStr>(name: &str, default: T) -> Result<T, String> {
    match env::var(name) {
        Ok(value) => value.parse().map_err(|_| format!("{name} has the unusable value '{value}'")),
        Err(_) => Ok(default),
    }
}
