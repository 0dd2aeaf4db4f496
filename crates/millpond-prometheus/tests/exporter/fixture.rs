//! A pool in a known state.

use std::sync::mpsc;

use millpond::{TaskHandle, ThreadPoolExecutor, WorkQueue};

/// A pool with one thread and a queue of two. One task completed, one panicked, one was cancelled,
/// one was rejected, one is running and one is queued.
pub(crate) struct Fixture {
    pub(crate) pool: ThreadPoolExecutor,
    /// Dropping it ends the running task.
    release: mpsc::Sender<()>,
    runs: TaskHandle<()>,
    waits: TaskHandle<()>,
}

impl Fixture {
    pub(crate) fn new(name: &str) -> Fixture {
        let queue = WorkQueue::array(2);
        let builder = ThreadPoolExecutor::builder().name(name).core_pool_size(1).maximum_pool_size(1);
        let pool = builder.work_queue(queue).build().unwrap();
        pool.submit(|| ()).unwrap().join().unwrap();
        pool.submit(|| panic!("on purpose")).unwrap().join().unwrap_err();
        let (release, released) = mpsc::channel::<()>();
        let (start, started) = mpsc::channel();
        let runs = pool.submit(move || {
            start.send(()).unwrap();
            released.recv().unwrap_err();
        });
        let runs = runs.unwrap();
        started.recv().unwrap();
        let waits = pool.submit(|| ()).unwrap();
        let cancelled = pool.submit(|| ()).unwrap();
        pool.submit(|| ()).unwrap_err();
        assert!(cancelled.cancel(false));
        Fixture { pool, release, runs, waits }
    }

    /// Lets all tasks and threads end, so that nothing changes any more.
    pub(crate) fn end(self) -> ThreadPoolExecutor {
        drop(self.release);
        self.runs.join().unwrap();
        self.waits.join().unwrap();
        self.pool.close();
        self.pool
    }
}
