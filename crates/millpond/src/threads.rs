//! How threads are made: the thread factory that users may replace, and the [`WorkerBody`] it is given.

use std::fmt;
use std::io;
use std::thread::{self, JoinHandle};

use crate::panic::catch_value;
use crate::sync::Arc;
#[cfg(not(all(loom, test)))]
use crate::sys::show_thread_number;

/// Which worker: what hooks are told about it.
#[derive(Debug, Clone)]
pub struct WorkerInfo {
    pub(crate) name: Arc<str>,
    pub(crate) number: usize,
}

impl WorkerInfo {
    /// The thread's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The worker's number in its pool, from 1.
    pub fn number(&self) -> usize {
        self.number
    }
}

/// Makes the threads of a pool or a scheduler.
pub(crate) type ThreadFactory = dyn Fn(WorkerBody) -> io::Result<JoinHandle<()>> + Send + Sync;

/// The factory of those that were given none.
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

/// Calls the factory. None of our locks may be held; its panic stays here.
pub(crate) fn call_factory(factory: &ThreadFactory, body: WorkerBody) -> io::Result<JoinHandle<()>> {
    catch_value(|| factory(body)).unwrap_or_else(|| Err(io::Error::other("the thread factory panicked")))
}

/// What a thread does.
pub(crate) trait ThreadBody: Send + Sync {
    /// On the new thread: works until there is no more use for it.
    fn live(self: Box<Self>);
    /// In its stead: there will be no thread.
    fn never_started(self: Box<Self>);
}

/// What a new thread has to do: the thread factory passes it to the thread and calls [`run`] there.
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

    /// The name that the thread should have.
    pub fn name(&self) -> &str {
        self.info.name()
    }

    /// The worker's number in its pool, from 1.
    pub fn number(&self) -> usize {
        self.info.number()
    }

    /// Works until there is no more use for this thread.
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
