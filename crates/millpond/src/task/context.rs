//! What the calling thread works for: its pool, its schedulers, and the tasks around the current
//! one.
//!
//! One thread-local holds all of it. A task that is joined by a worker of its own pool runs on that
//! worker, so both sides ask here: the pool before it runs a task in place, and the joiner before
//! it blocks.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;

use super::raw::CellRef;
use super::tracked::Tracked;
use crate::interrupt::RunId;
use crate::sync::{Arc, thread_local};

/// A worker of a pool, in a type that only the pool knows.
pub(crate) type Identity = Arc<dyn Any + Send + Sync>;

/// A task that the future under poll waits for.
pub(super) type AwaitedTask = CellRef<dyn Tracked>;

#[derive(Clone, Default)]
struct Context {
    /// The number of the pool that the thread is a worker of; 0 if there is none.
    pool: u64,
    /// What that pool knows the worker by.
    worker: Option<Identity>,
    /// The schedulers that the thread works for, the innermost last: one may run on a thread of
    /// another, or of a pool.
    schedulers: Vec<u64>,
    /// The threads that wait until this one, a temporary thread, has run a task for them.
    waiting: Vec<u64>,
    /// Tasks that run in place on this thread, one inside the other.
    depth: usize,
    /// The tasks that were polled and not done in the current poll; `None` outside of `block_on`.
    awaited: Option<Vec<AwaitedTask>>,
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

/// Reads the context; the default on a thread that is past its thread-locals.
fn read<R: Default>(f: impl FnOnce(&Context) -> R) -> R {
    CONTEXT.try_with(|context| f(&context.borrow())).unwrap_or_default()
}

/// Changes the context. What `f` returns is dropped without the borrow.
fn change<R: Default>(f: impl FnOnce(&mut Context) -> R) -> R {
    CONTEXT.try_with(|context| f(&mut context.borrow_mut())).unwrap_or_default()
}

/// Makes the calling thread a worker of the pool `number`, which knows it as `worker`; 0: of none.
pub(crate) fn work_for(number: u64, worker: Option<Identity>) {
    let before = change(|context| {
        context.pool = number;
        std::mem::replace(&mut context.worker, worker)
    });
    drop(before); // perhaps the last reference to the pool
}

/// Returns what the pool of the calling worker knows it by.
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

/// Returns true if `run` is on the calling thread, or on one that waits for the calling thread.
pub(crate) fn waits_for_this_thread(run: RunId) -> bool {
    run.thread != 0 && (run.is_of_this_thread() || read(|context| context.waiting.contains(&run.thread)))
}

/// While it lives, the calling thread works for a scheduler, besides all that it works for already.
#[derive(Debug)]
pub(crate) struct WorksForScheduler {
    /// It stays on its thread.
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

/// What a thread works for, for a temporary thread that runs a task in its place.
pub(super) struct WorksFor(Context);

impl WorksFor {
    /// What the calling thread works for; the thread itself is one that waits.
    pub(super) fn current() -> WorksFor {
        let mut context = read(|context| Context { awaited: None, depth: 0, ..context.clone() });
        context.waiting.push(RunId::current().thread);
        WorksFor(context)
    }

    /// Makes the calling thread, which works for nothing yet, work for the same.
    pub(super) fn adopt(&self) {
        let before = change(|context| std::mem::replace(context, self.0.clone()));
        drop(before);
    }
}

/// One more task runs in place on this thread, until this is dropped.
pub(super) struct Level(());

impl Level {
    /// The number of tasks that run in place now.
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

/// Notes that the handle of `task` was polled on this thread and the task is not done.
pub(super) fn note_awaited(task: impl FnOnce() -> AwaitedTask) {
    if is_collecting_awaited() {
        let task = task();
        change(|context| context.awaited.as_mut().map(|awaited| awaited.push(task)));
    }
}

/// Returns true inside of [`collect_awaited`]: the thread runs awaited tasks in place, so it must
/// be woken when one of them is queued.
pub(super) fn is_collecting_awaited() -> bool {
    read(|context| context.awaited.is_some())
}

/// Calls `poll`, and also returns the tasks that it waits for.
///
/// A worker that blocks on a future may be the only thread that can run the tasks which that future
/// waits for. It runs those in place that wait in a queue of its own, as a join does.
#[cfg(feature = "futures")]
pub(super) fn collect_awaited<R>(poll: impl FnOnce() -> R) -> (R, Vec<AwaitedTask>) {
    let mut outer = Outer(swap_awaited(Some(Vec::new())));
    let answer = poll();
    let awaited = swap_awaited(outer.0.take()).unwrap_or_default();
    std::mem::forget(outer);
    (answer, awaited)
}

/// The list of an outer poll: put back if the inner one panics.
#[cfg(feature = "futures")]
struct Outer(Option<Vec<AwaitedTask>>);

#[cfg(feature = "futures")]
impl Drop for Outer {
    fn drop(&mut self) {
        drop(swap_awaited(self.0.take()));
    }
}

#[cfg(feature = "futures")]
fn swap_awaited(list: Option<Vec<AwaitedTask>>) -> Option<Vec<AwaitedTask>> {
    change(|context| std::mem::replace(&mut context.awaited, list))
}
