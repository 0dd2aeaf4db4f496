//! Thread creation: the thread factory, which users may replace, and the [`WorkerBody`] that the
//! new thread runs.

use std::fmt;
use std::io;
use std::thread::{self, JoinHandle};

use crate::panic::catch_value;
use crate::sync::Arc;
#[cfg(not(all(loom, test)))]
use crate::sys::show_thread_number;

/// The description of a worker that hooks receive.
#[derive(Debug, Clone)]
pub struct WorkerInfo {
    name: Arc<str>,
    number: usize,
}

impl WorkerInfo {
    pub(crate) fn new(name: Arc<str>, number: usize) -> WorkerInfo {
        WorkerInfo { name, number }
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Returns the name of the thread.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the worker in its pool, from 1.
    pub fn number(&self) -> usize {
        self.number
    }
}

/// Creates the threads of a pool or a scheduler.
pub(crate) type ThreadFactory = dyn Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync;

/// Returns the default factory.
pub(crate) fn plain_threads() -> Arc<ThreadFactory> {
    #[cfg(all(loom, test))]
    return Arc::new(|body: WorkerBody| {
        loom::thread::spawn(move || body.run());
        Ok(thread::spawn(|| {}))
    });
    #[cfg(not(all(loom, test)))]
    Arc::new(|body: WorkerBody| {
        thread::Builder::new().name(body.name().to_owned()).spawn(move || {
            show_thread_number(body.name());
            body.run();
        })
    })
}

/// Calls the factory, which is user code: the caller holds no lock, and a panic becomes an error.
pub(crate) fn call_factory(factory: &ThreadFactory, body: WorkerBody) -> io::Result<JoinHandle<()>> {
    catch_value(|| factory(body)).unwrap_or_else(|| Err(io::Error::other("the thread factory panicked")))
}

/// The cause of a start that failed because the factory dropped the body of the thread.
pub(crate) fn body_dropped() -> io::Error {
    io::Error::other("the thread factory dropped the worker body without running it")
}

/// What a new thread does.
pub(crate) trait ThreadBody: Send + Sync {
    /// Runs on the new thread, until the thread is no longer needed.
    fn live(self: Box<Self>);
    /// Called instead of `live` if no thread will run the body.
    fn never_started(self: Box<Self>);
}

/// The body of a worker thread. The thread factory moves it to the new thread and calls [`run`]
/// there.
///
/// Dropping it without running it counts as a failed spawn.
///
/// [`run`]: WorkerBody::run
#[must_use = "a worker body that is dropped counts as a failed spawn"]
pub struct WorkerBody {
    info: WorkerInfo,
    life: Option<Box<dyn ThreadBody>>,
}

impl WorkerBody {
    pub(crate) fn new(info: WorkerInfo, life: impl ThreadBody + 'static) -> WorkerBody {
        WorkerBody { info, life: Some(Box::new(life)) }
    }

    /// Returns the name that the thread should have.
    pub fn name(&self) -> &str {
        self.info.name()
    }

    /// Returns the number of the worker in its pool, from 1.
    pub fn number(&self) -> usize {
        self.info.number()
    }

    /// Runs the worker. Blocks until the thread is no longer needed.
    pub fn run(mut self) {
        if let Some(life) = self.life.take() {
            life.live();
        }
    }
}

impl Drop for WorkerBody {
    fn drop(&mut self) {
        if let Some(life) = self.life.take() {
            life.never_started();
        }
    }
}

impl fmt::Debug for WorkerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBody").field("worker", &self.info).finish_non_exhaustive()
    }
}
