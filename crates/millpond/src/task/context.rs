//! The context of the calling thread: its pool, its schedulers, and the tasks around the current
//! one.
//!
//! One thread-local holds all of it. A task that is joined by a worker of its own pool runs on that
//! worker. So both sides read this context: the pool before it runs a task inline, and the joiner
//! before it blocks.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;

use super::raw::CellRef;
use super::tracked::Tracked;
use crate::interrupt::RunId;
use crate::sync::{Arc, thread_local};

/// A worker of a pool, in a type that only that pool knows.
pub(crate) type Identity = Arc<dyn Any + Send + Sync>;

/// A task that the future under poll waits for.
pub(super) type AwaitedTask = CellRef<dyn Tracked>;

#[derive(Clone, Default)]
struct Context {
    /// The number of the pool whose worker this thread is; 0 if there is none.
    pool: u64,
    /// The identity of the worker in that pool.
    worker: Option<Identity>,
    /// The schedulers that the thread works for, the innermost last. A scheduler may run on a
    /// thread of another scheduler, or of a pool.
    schedulers: Vec<u64>,
    /// If this is a temporary thread: the threads that wait until it has run a task for them.
    waiting: Vec<u64>,
    /// Number of tasks that run inline on this thread, one inside the other.
    depth: usize,
    /// The innermost poll by `block_on`; `None` outside of `block_on`.
    awaited: Option<Awaited>,
}

/// A poll by `block_on`.
#[derive(Clone)]
#[cfg_attr(not(feature = "futures"), allow(dead_code, reason = "only `block_on` creates it"))]
struct Awaited {
    /// The epoch of the thread in which `block_on` was called. A task that runs inside the poll has
    /// an epoch of its own: what that task polls does not block this thread.
    epoch: u64,
    /// The tasks that were not done when the future polled them.
    tasks: Vec<AwaitedTask>,
}

impl Context {
    fn works_for(&self, number: u64) -> bool {
        number != 0 && (self.pool == number || self.schedulers.contains(&number))
    }
}

thread_local! {
    static CONTEXT: RefCell<Context> = new_context();
}

fn new_context() -> RefCell<Context> {
    RefCell::new(Context::default())
}

/// Reads the context. Returns the default on a thread whose thread-locals have been destroyed.
fn read<R: Default>(f: impl FnOnce(&Context) -> R) -> R {
    CONTEXT.try_with(|context| f(&context.borrow())).unwrap_or_default()
}

/// Changes the context. Returns the result of `f`, so the caller drops it after the borrow.
fn change<R: Default>(f: impl FnOnce(&mut Context) -> R) -> R {
    CONTEXT.try_with(|context| f(&mut context.borrow_mut())).unwrap_or_default()
}

/// Makes the calling thread a worker of the pool `number`, identified by `worker`. 0 stands for no
/// pool.
pub(crate) fn work_for(number: u64, worker: Option<Identity>) {
    let before = change(|context| {
        context.pool = number;
        std::mem::replace(&mut context.worker, worker)
    });
    drop(before); // may be the last reference to the pool
}

/// Returns the identity of the calling worker in its pool.
pub(crate) fn current_worker() -> Option<Identity> {
    read(|context| context.worker.clone())
}

/// Returns true if the calling thread is a worker of this pool, or works for this scheduler.
pub(crate) fn works_for(number: u64) -> bool {
    read(|context| context.works_for(number))
}

/// Returns true if the calling thread works for any pool or scheduler.
pub(crate) fn works_for_any() -> bool {
    read(|context| context.pool != 0 || !context.schedulers.is_empty())
}

/// Returns the numbers of the pool and the schedulers that the calling thread works for.
pub(crate) fn owners_of_this_thread() -> Vec<u64> {
    read(|context| {
        let pool = Some(context.pool).filter(|number| *number != 0);
        pool.into_iter().chain(context.schedulers.iter().copied()).collect()
    })
}

/// Returns true if `run` is on the calling thread, or on a thread that waits for the calling
/// thread.
pub(crate) fn waits_for_this_thread(run: RunId) -> bool {
    run.thread != 0 && (run.is_of_this_thread() || read(|context| context.waiting.contains(&run.thread)))
}

/// While this exists, the calling thread also works for a scheduler.
#[derive(Debug)]
pub(crate) struct WorksForScheduler {
    /// Not `Send`.
    _here: PhantomData<*const ()>,
}

impl WorksForScheduler {
    pub(crate) fn new(number: u64) -> WorksForScheduler {
        change(|context| context.schedulers.push(number));
        WorksForScheduler { _here: PhantomData }
    }
}

impl Drop for WorksForScheduler {
    fn drop(&mut self) {
        change(|context| context.schedulers.pop());
    }
}

/// A copy of a thread's context, for a temporary thread that runs a task for it.
pub(super) struct WorksFor(Context);

impl WorksFor {
    /// Copies the context of the calling thread, and adds this thread as one that waits.
    pub(super) fn current() -> WorksFor {
        let mut context = read(|context| Context { awaited: None, depth: 0, ..context.clone() });
        context.waiting.push(RunId::current().thread);
        WorksFor(context)
    }

    /// Makes the calling thread, which has no context yet, work for the same pool and schedulers.
    pub(super) fn adopt(&self) {
        let before = change(|context| std::mem::replace(context, self.0.clone()));
        drop(before);
    }
}

/// Counts one more inline task on this thread, until dropped.
pub(super) struct Level(());

impl Level {
    /// Returns the number of tasks that run inline now.
    pub(super) fn current() -> usize {
        read(|context| context.depth)
    }

    pub(super) fn enter() -> Level {
        change(|context| context.depth += 1);
        Level(())
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        change(|context| context.depth = context.depth.saturating_sub(1));
    }
}

/// Records that the handle of `task` was polled on this thread and the task is not done. Called
/// only if [`is_collecting_awaited`].
pub(super) fn note_awaited(task: AwaitedTask) {
    change(|context| context.awaited.as_mut().map(|awaited| awaited.tasks.push(task)));
}

/// Returns true inside [`collect_awaited`]: the thread runs awaited tasks inline, so it must be
/// woken when one of them is queued.
///
/// Returns false again in a task that runs inside that poll, for instance the first turn of a
/// future that is spawned there on an executor which runs tasks on the caller's thread.
pub(super) fn is_collecting_awaited() -> bool {
    let epoch = read(|context| context.awaited.as_ref().map(|awaited| awaited.epoch));
    epoch.is_some_and(|epoch| epoch == RunId::current().epoch)
}

/// Calls `poll`, and also returns the tasks that it waits for.
///
/// A worker that blocks on a future may be the only thread that can run the tasks which that future
/// waits for. Like a join, it runs inline those tasks that wait in a queue of its pool or
/// schedulers.
#[cfg(feature = "futures")]
pub(super) fn collect_awaited<R>(poll: impl FnOnce() -> R) -> (R, Vec<AwaitedTask>) {
    let mine = Awaited { epoch: RunId::current().epoch, tasks: Vec::new() };
    let mut outer = Outer(swap_awaited(Some(mine)));
    let answer = poll();
    let awaited = swap_awaited(outer.0.take());
    std::mem::forget(outer);
    (answer, awaited.map(|awaited| awaited.tasks).unwrap_or_default())
}

/// The outer poll, restored if the inner one panics.
#[cfg(feature = "futures")]
struct Outer(Option<Awaited>);

#[cfg(feature = "futures")]
impl Drop for Outer {
    fn drop(&mut self) {
        drop(swap_awaited(self.0.take()));
    }
}

#[cfg(feature = "futures")]
fn swap_awaited(poll: Option<Awaited>) -> Option<Awaited> {
    change(|context| std::mem::replace(&mut context.awaited, poll))
}
