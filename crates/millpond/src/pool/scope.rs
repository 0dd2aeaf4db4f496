//! Tasks that borrow from the caller's stack: [`ThreadPoolExecutor::scope`].
//!
//! A pool may hold a task for any length of time, but a scoped closure lives only as long as its
//! scope. So the scope does not end before every closure has been run or dropped. After that, a
//! pool may still hold the cell of a task, which is empty.
//!
//! A scoped task is a [`TaskCell`] with another vtable, [`ScopedCell`], which counts the task in
//! `pending` while a pool has it, and while a thread runs or drops it. A task can also be a
//! *stray*: a policy kept it, or `shutdown_now` returned it. Its holder may run it while the scope
//! lasts. At its end the scope drops the closure, and the task then does nothing when it runs.
//!
//! # Invariants
//!
//! 1. A thread that takes the closure out of a cell is counted in `pending` before it does so, and
//!    until the closure and an unwanted result have been dropped. Two threads need no count because
//!    the scope outlives their actions: the thread that ends the scope, and the thread that creates
//!    the task.
//! 2. Every task is in `tasks` until it is done.
//! 3. The scope ends only after it has seen `pending` at zero, then every task done, then `pending`
//!    at zero again. A task that is not done by then was pending and has been revoked. A thread
//!    that began or dropped a task in between raised `pending` before it changed the state (1), so
//!    the last check sees it.
//! 4. A result is dropped by (1), unless a handle wants it. A handle cannot outlive `'scope`, and
//!    takes the result out when it is dropped. A leaked handle keeps its cell alive forever, so the
//!    result is never dropped.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

pub use handle::ScopedTaskHandle;

use super::ThreadPoolExecutor;
use crate::executor::TrySubmitError;
use crate::interrupt::{ThreadContext, Wake};
use crate::panic::{catch, drop_caught, value_or_first};
use crate::sync::backoff::Backoff;
use crate::sync::{Arc, AtomicBool, AtomicU8, AtomicUsize, Mutex, Ordering};
use crate::task::{
    CellRef, JoinError, Joinable, Panic, Payload, Place, RemoveCancelled, ResultToken, RunEvent, Task,
    TaskCell, TaskId, TaskState, Tracked, Waiter, announce_sleep, help_to_run,
};

/// Starts tasks that may borrow from the caller's stack; see [`ThreadPoolExecutor::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    pool: ThreadPoolExecutor,
    state: Arc<ScopeState>,
    /// Both lifetimes are invariant: neither may shrink to a part of the scope.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The state that a scope shares with its tasks. Outlives the scope.
struct ScopeState {
    /// Number of tasks that a pool has, plus threads that run or drop a task.
    pending: AtomicUsize,
    /// The thread that called `scope`. Woken when `pending` falls to zero, and when `has_new` is
    /// set.
    owner: Arc<ThreadContext>,
    /// The tasks that are not done, and some that are. Emptied at the end of the scope, because the
    /// tasks refer to this state.
    tasks: Mutex<Vec<CellRef<dyn Tracked>>>,
    /// True if the owner is a worker of the pool, so it may run tasks instead of waiting for them.
    owner_helps: bool,
    /// True if a task has entered the pool since the owner last looked for tasks to run.
    has_new: AtomicBool,
    /// The owner number of the pool.
    pool: u64,
    /// Panics of tasks. The scope resumes one that no handle took.
    panics: Mutex<Vec<PanicSlot>>,
}

type PanicSlot = Arc<Mutex<Option<Payload>>>;

impl ScopeState {
    fn is_quiet(&self) -> bool {
        // Acquire: the owner sees what the tasks did before they lowered the count.
        self.pending.load(Ordering::Acquire) == 0
    }

    /// Adds a task. When the list is full, first removes the tasks that are done, so the list does
    /// not grow with every task.
    fn push(&self, task: CellRef<dyn Tracked>) {
        let mut tasks = self.tasks.lock();
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| !task.state().is_done());
            let live = tasks.len();
            tasks.reserve(live + 1);
        }
        tasks.push(task);
    }

    fn put_back(&self, left: Vec<CellRef<dyn Tracked>>) {
        self.tasks.lock().extend(left);
    }

    /// Stores the payload for the scope. Returns a payload by which a handle finds it.
    fn keep_panic(&self, payload: Payload) -> Payload {
        let slot: PanicSlot = Arc::new(Mutex::new(Some(payload)));
        self.panics.lock().push(Arc::clone(&slot));
        Box::new(slot)
    }
}

/// One unit of `pending`.
struct Pending<'a>(&'a ScopeState);

impl<'a> Pending<'a> {
    fn raise(state: &'a ScopeState) -> Pending<'a> {
        // Relaxed: the exchange on the state of a task that follows publishes it (3).
        state.pending.fetch_add(1, Ordering::Relaxed);
        Pending(state)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // Release: pairs with `is_quiet`. After this, the task does not access borrowed data.
        if self.0.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.owner.unpark();
        }
    }
}

/// A task of a scope.
struct ScopedCell<T, F> {
    cell: TaskCell<T, F>,
    scope: Arc<ScopeState>,
    /// True if the task is in a pool and has a unit of `pending`. The unit belongs to the thread
    /// that clears this flag.
    is_counted: AtomicBool,
    /// `MAKING`, `DROPPED` or `MADE`.
    making: AtomicU8,
}

/// The call that creates the task has not returned. If the task is refused, it returns the closure.
const MAKING: u8 = 0;
/// The task was dropped before that call returned, and its closure was left to the call.
const DROPPED: u8 = 1;
const MADE: u8 = 2;

impl<T: Send, F: FnOnce() -> T + Send> ScopedCell<T, F> {
    /// Takes over the unit of a task that is in a pool, or raises a new unit. See (1).
    fn pending(&self) -> Pending<'_> {
        if self.is_counted.swap(false, Ordering::AcqRel) {
            Pending(&self.scope)
        } else {
            Pending::raise(&self.scope)
        }
    }

    /// Releases the unit of a task that has left its pool without a run.
    fn uncount(&self) {
        self.cell.set_owner(0);
        if self.is_counted.load(Ordering::Relaxed) {
            drop(self.pending());
        }
    }

    /// Called when the call that created the task returns. Takes the closure out if no thread can
    /// run it any more: the task was refused, or the policy dropped it.
    fn made(&self, refused: bool) -> Option<F> {
        let dropped = self.making.swap(MADE, Ordering::AcqRel) == DROPPED;
        let refused = refused && !self.is_counted.load(Ordering::Relaxed);
        if dropped || refused { self.cell.take_plain_work() } else { None }
    }
}

impl<T: Send, F: FnOnce() -> T + Send> Tracked for ScopedCell<T, F> {
    fn run(&self, report: &mut dyn FnMut(RunEvent<'_>)) -> bool {
        let _pending = self.pending();
        self.cell.run(report, |payload| self.scope.keep_panic(payload))
    }

    fn abandon(&self) {
        let making = &self.making;
        if making.compare_exchange(MAKING, DROPPED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            || self.cell.state() != TaskState::Pending
        {
            return self.uncount();
        }
        let _pending = self.pending();
        self.cell.abandon();
    }

    fn state(&self) -> TaskState {
        self.cell.state()
    }

    /// Scoped tasks have no canceller: the scope waits for them anyway.
    fn try_cancel(&self, _: bool, _: RemoveCancelled<'_>) -> bool {
        false
    }

    fn is_waiting_for_this_thread(&self) -> bool {
        self.cell.is_waiting_for_this_thread()
    }

    fn entered(&self, owner: u64) {
        let pending = Pending::raise(&self.scope);
        // AcqRel, here and in `pending`: a unit is raised before another thread can take it over.
        if !self.is_counted.swap(true, Ordering::AcqRel) {
            mem::forget(pending); // the task has it now
        }
        self.cell.set_owner(owner);
        if self.cell.state() != TaskState::Pending {
            return self.uncount(); // revoked
        }
        if self.scope.owner_helps && owner == self.scope.pool {
            self.scope.has_new.store(true, Ordering::Release);
            self.scope.owner.unpark();
        }
    }

    fn left(&self) {
        self.uncount();
    }

    fn owner(&self) -> u64 {
        self.cell.owner()
    }

    fn place(&self) -> &Place {
        self.cell.place()
    }

    fn id(&self) -> TaskId {
        self.cell.id()
    }
}

impl<T: Send, F: FnOnce() -> T + Send> Joinable<T> for ScopedCell<T, F> {
    fn wait_done(&self, deadline: Option<Instant>) -> Wake {
        self.cell.wait_done(deadline)
    }

    fn wait_as(&self, waiter: Option<Waiter>) -> Result<(), Option<Waiter>> {
        self.cell.wait_as(waiter)
    }

    fn take_left(&self, token: &mut ResultToken) -> Option<Result<T, JoinError>> {
        let result = self.cell.take_left(token)?;
        Some(result.map_err(|kept| {
            let kept = kept.downcast::<PanicSlot>().ok().and_then(|slot| slot.lock().take());
            kept.map_or(JoinError::Taken, |payload| JoinError::Panicked(Panic::new(payload)))
        }))
    }

    fn detach(&self, token: &mut ResultToken) {
        self.cell.detach(token);
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Runs `f` in the pool before the scope ends. Blocks only if the rejection policy does.
    ///
    /// If `f` panics, the scope panics with the same payload after all its tasks have ended.
    ///
    /// # Errors
    /// [`ScopeRejected`] with the closure, if the pool refuses the task.
    pub fn execute<F: FnOnce() + Send + 'scope>(&'scope self, f: F) -> Result<(), ScopeRejected<F>> {
        self.start(&mut ResultToken::fresh(), f, true).map(drop)
    }

    /// Runs `f` in the pool and returns a handle to its result.
    ///
    /// Blocks only if the rejection policy does. A panic is passed to the handle. If the handle is
    /// not joined, the scope panics as for [`execute`](Self::execute).
    ///
    /// # Errors
    /// [`ScopeRejected`] with the closure, if the pool refuses the task.
    pub fn submit<T, F>(&'scope self, f: F) -> Result<ScopedTaskHandle<'scope, T>, ScopeRejected<F>>
    where
        T: Send + 'scope,
        F: FnOnce() -> T + Send + 'scope,
    {
        let mut token = ResultToken::fresh();
        let cell = self.start(&mut token, f, false)?.into_joinable();
        Ok(ScopedTaskHandle::new(cell, token))
    }

    fn start<T, F>(
        &'scope self,
        token: &mut ResultToken,
        f: F,
        detached: bool,
    ) -> Result<CellRef<ScopedCell<T, F>>, ScopeRejected<F>>
    where
        T: Send + 'scope,
        F: FnOnce() -> T + Send + 'scope,
    {
        let cell = CellRef::new(ScopedCell {
            cell: TaskCell::new(token.id(), f, detached),
            scope: Arc::clone(&self.state),
            is_counted: AtomicBool::new(false),
            making: AtomicU8::new(MAKING),
        });
        let task = forget_scope(cell.clone().into_tracked());
        self.state.push(task.clone());
        let task = Task::tracked(token.id(), task);
        let unwinding = Unwinding(&*cell, token);
        let outcome = self.pool.execute_task(task);
        mem::forget(unwinding);
        match (cell.made(outcome.is_err()), outcome) {
            (Some(f), Err(rejected)) => {
                let reason = rejected.reason();
                let (_, source) = rejected.into_parts();
                Err(TrySubmitError::new(f, reason, source))
            }
            (discarded, _) => {
                drop_caught(discarded);
                Ok(cell)
            }
        }
    }
}

/// Cleans up if the call that submits the task unwinds: a policy may panic, and may keep the task
/// nevertheless. No handle will take its result.
struct Unwinding<'a, T: Send, F: FnOnce() -> T + Send>(&'a ScopedCell<T, F>, &'a mut ResultToken);

impl<T: Send, F: FnOnce() -> T + Send> Drop for Unwinding<'_, T, F> {
    fn drop(&mut self) {
        let Unwinding(cell, token) = self;
        cell.detach(token);
        drop_caught(cell.made(false));
    }
}

/// Erases the lifetime of a task that borrows, so that a pool can hold it.
fn forget_scope<'scope>(task: CellRef<dyn Tracked + 'scope>) -> CellRef<dyn Tracked> {
    // SAFETY: only the lifetime changes. No borrowed data is used after the scope has ended:
    // - The closure is taken out by a thread that (1) counts, or by the end of the scope itself. By
    //   (3) neither is left when the scope returns or unwinds.
    // - The result is covered by (4).
    // - A pool may keep the cell longer, but the cell is then empty: dropping it drops neither a
    //   closure nor a result.
    unsafe { mem::transmute::<CellRef<dyn Tracked + 'scope>, CellRef<dyn Tracked + 'static>>(task) }
}

/// Ends the scope when dropped, whether its closure returned or unwound.
struct EndOfScope<'a> {
    state: &'a ScopeState,
}

/// Aborts on unwinding, because tasks would outlive the data that they borrow.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("millpond: the end of a scope panicked while its tasks still borrow from the stack");
        std::process::abort();
    }
}

impl Drop for EndOfScope<'_> {
    fn drop(&mut self) {
        let abort = AbortOnUnwind;
        let mut backoff = Backoff::default();
        while !self.is_over() {
            self.help(&mut backoff);
            let can_go_on = || self.state.is_quiet() || self.can_help();
            if self.state.is_quiet() {
                backoff.spin(); // a task is between two owners, counted by neither
            } else if !can_go_on() {
                self.state.owner.wait_through_interrupts(announce_sleep(self.state.pool), can_go_on);
            }
        }
        mem::forget(abort);
    }
}

impl EndOfScope<'_> {
    /// Revokes strays, and returns true if the scope may end: see (3).
    ///
    /// Revoking a task drops its captures, which may start another task. The new task is in `tasks`
    /// or in `pending`, so both are checked afterwards.
    fn is_over(&self) -> bool {
        if !self.state.is_quiet() {
            return false;
        }
        let mut tasks = mem::take(&mut *self.state.tasks.lock());
        tasks.retain(|task| {
            if task.state() == TaskState::Pending && task.owner() == 0 {
                task.abandon(); // a stray
            }
            !task.state().is_done()
        });
        let is_quiet = self.state.is_quiet();
        self.state.put_back(tasks);
        is_quiet && self.state.tasks.lock().is_empty()
    }

    fn can_help(&self) -> bool {
        self.state.has_new.load(Ordering::Acquire)
    }

    /// Runs queued tasks of the scope, if the owner is a worker of the pool.
    fn help(&self, backoff: &mut Backoff) {
        if !self.state.has_new.swap(false, Ordering::Acquire) {
            return;
        }
        let pool = self.state.pool;
        let waits = |task: &CellRef<dyn Tracked>| task.state() == TaskState::Pending && task.owner() == pool;
        let mut tasks = mem::take(&mut *self.state.tasks.lock());
        let mut once_more = false;
        tasks.retain(|task| {
            // If a custom queue panics, its tasks are left to the other workers. A task that still
            // waits after this is about to be queued, or on its way to a worker.
            once_more |= waits(task) && catch(|| _ = help_to_run(&**task)) && waits(task);
            !task.state().is_done()
        });
        self.state.put_back(tasks);
        if once_more {
            self.state.has_new.store(true, Ordering::Relaxed); // for this thread
            backoff.spin();
        }
    }
}

pub(super) fn scope<'env, R>(
    pool: &ThreadPoolExecutor,
    f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
) -> R {
    let scope = Scope {
        pool: pool.clone(),
        state: Arc::new(ScopeState {
            pending: AtomicUsize::new(0),
            owner: ThreadContext::current(),
            tasks: Mutex::default(),
            owner_helps: pool.inner().is_current(),
            has_new: AtomicBool::new(false),
            pool: pool.inner().owner_number(),
            panics: Mutex::default(),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let end = EndOfScope { state: &scope.state };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    drop(end);
    let panics = mem::take(&mut *scope.state.panics.lock());
    let payloads = panics.iter().filter_map(|slot| slot.lock().take());
    value_or_first(result, payloads).unwrap_or_else(|payload| resume_unwind(payload))
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.state.pending.load(Ordering::Relaxed);
        f.debug_struct("Scope").field("pool", &self.pool).field("pending", &pending).finish_non_exhaustive()
    }
}

/// The error of a scoped task that the pool refused; it owns the closure.
pub type ScopeRejected<F> = TrySubmitError<F>;

mod handle;
#[cfg(all(test, loom))]
mod models;
