//! Tasks that borrow from the caller's stack: [`ThreadPoolExecutor::scope`].
//!
//! A task of the pool must live for ever, a scoped one only as long as its scope. The scope makes up for the
//! difference: it does not end before every closure of its tasks has been run or dropped. What the
//! pool handles beyond that time is the empty shell of a task.
//!
//! Where a scoped task can be, and what the scope does about it at its end:
//! - in a pool (waiting or running): the scope waits for it;
//! - out, in somebody's hands (a policy kept it, `shutdown_now` returned it): whoever has it may run it as long as
//!   the scope lasts; at the end the scope takes the closure away, and the shell does nothing when run.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::ThreadPoolExecutor;
use crate::executor::TrySubmitError;
use crate::interrupt::{ThreadContext, Wake};
use crate::panic::{catch, drop_caught};
use crate::sync::backoff::Backoff;
use crate::sync::{Arc, AtomicU8, AtomicUsize, Mutex, Ordering, Weak};
use crate::task::{
    Cancelled, JoinError, Outcome, Panic, Place, RunEvent, TaskState, Tracked, announce_sleep, look_again,
    report_panic,
};
use crate::task::{Task, TaskId};

/// A place from which tasks that borrow can be started; see [`ThreadPoolExecutor::scope`].
pub struct Scope<'scope, 'env: 'scope> {
    pool: ThreadPoolExecutor,
    shared: Arc<Shared>,
    /// Both lifetimes are invariant: `'scope` must not shrink to a part of the scope, nor `'env` to less than it.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// What a scope and its tasks share. Outlives the scope.
struct Shared {
    /// Closures that are in a pool or run. A task lowers it only when its closure and result are gone.
    pending: AtomicUsize,
    /// The thread that called `scope`; woken when `pending` falls to zero, or something can be helped with.
    owner: Arc<ThreadContext>,
    /// Tasks that were seen out of a pool.
    strays: Mutex<Tasks>,
    /// If the owner is a worker of the pool: tasks it may run itself instead of waiting for them.
    helpable: Option<Mutex<Tasks>>,
    /// The number of the pool.
    pool: u64,
    /// Panics of tasks; those that no handle took away are raised again.
    panics: Mutex<Vec<PanicSlot>>,
}

/// Some of the scope's tasks. Those that are gone are forgotten now and then, so that it does not grow with all that ever were.
#[derive(Default)]
struct Tasks(Vec<Weak<dyn Scoped>>);

impl Tasks {
    fn push(&mut self, task: Weak<dyn Scoped>) {
        let Tasks(tasks) = self;
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| task.strong_count() > 0);
            tasks.reserve(tasks.len() + 1); // as many again are pushed before the next look
        }
        tasks.push(task);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

type PanicSlot = Arc<Mutex<Option<Box<dyn Any + Send>>>>;

impl Shared {
    fn raise_pending(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Release: what the task did is visible to the owner, which reads zero with Acquire. After this the task must
    /// not touch anything that it borrowed.
    fn lower_pending(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.owner.unpark();
        }
    }

    fn is_quiet(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }
}

/// A task of a scope, whatever its closure.
trait Scoped: Tracked {
    /// The scope ends: takes the closure away if the task is out. False: it runs, and must be waited for.
    fn revoke(&self) -> bool;
    /// The pool of this number has it, and it has not started.
    fn waits_in(&self, pool: u64) -> bool;
}

struct ScopedCore<F, T> {
    id: TaskId,
    /// A [`TaskState`]. Written under `cell`.
    state: AtomicU8,
    place: Place,
    shared: Arc<Shared>,
    me: Weak<dyn Scoped>,
    cell: Mutex<Cell<F, T>>,
}

struct Cell<F, T> {
    work: Option<F>,
    /// In a pool, or running: counted in `pending`.
    counted: bool,
    /// The number of the pool that has it; 0: none.
    home: u64,
    /// The call that made the task has not returned: it wants the closure back if the task is refused.
    in_making: bool,
    result: Option<Result<T, PanicSlot>>,
    /// Nobody will ask for the result.
    detached: bool,
    waiter: Option<Arc<ThreadContext>>,
}

impl<F, T> ScopedCore<F, T> {
    fn set_state(&self, state: TaskState) {
        self.state.store(state as u8, Ordering::Release);
    }

    fn is_done(&self) -> bool {
        self.load_state().is_done()
    }

    fn load_state(&self) -> TaskState {
        TaskState::from_u8(self.state.load(Ordering::Acquire))
    }

    /// The call that made the task is over. Takes the closure out if nobody can run it any more: the task was refused, or the
    /// policy dropped it. If somebody has it the scope is told.
    fn made(&self, refused: bool) -> Option<F> {
        let mut cell = self.cell.lock();
        cell.in_making = false;
        let dropped = self.load_state() == TaskState::Abandoned;
        let work = if dropped || (refused && !cell.counted) { cell.work.take() } else { None };
        if work.is_some() {
            self.set_state(TaskState::Abandoned);
        }
        let stray = !cell.counted && cell.work.is_some();
        drop(cell);
        if stray {
            self.shared.strays.lock().push(Weak::clone(&self.me));
        }
        work
    }

    /// Not in a pool any more; the caller lowers `pending` if this says so, as its last act.
    fn uncount(cell: &mut Cell<F, T>) -> bool {
        mem::replace(&mut cell.counted, false)
    }
}

impl<T: Send, F: FnOnce() -> T + Send> Tracked for ScopedCore<F, T> {
    fn run(&self, report: &mut dyn FnMut(RunEvent<'_>)) -> bool {
        let mut cell = self.cell.lock();
        let Some(work) = cell.work.take() else {
            drop(cell);
            report(RunEvent::Settled(Outcome::Cancelled)); // revoked
            return false;
        };
        if !mem::replace(&mut cell.counted, true) {
            self.shared.raise_pending(); // run by hand, outside a pool
        }
        cell.home = 0;
        self.set_state(TaskState::Running);
        drop(cell);

        let result = catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
            let payload = report_panic(payload, report);
            let slot: PanicSlot = Arc::new(Mutex::new(Some(payload)));
            self.shared.panics.lock().push(Arc::clone(&slot));
            slot
        });
        let (state, outcome) = match &result {
            Ok(_) => (TaskState::Succeeded, Outcome::Succeeded),
            Err(_) => (TaskState::Failed, Outcome::Panicked),
        };
        let mut result = Some(result);
        let mut cell = self.cell.lock();
        if !cell.detached {
            cell.result = result.take();
        }
        report(RunEvent::Settled(outcome));
        self.set_state(state);
        let waiter = cell.waiter.take();
        cell.counted = false;
        drop(cell);
        drop_caught(result);
        if let Some(waiter) = waiter {
            waiter.unpark();
        }
        self.shared.lower_pending();
        false
    }

    fn abandon(&self) {
        let mut cell = self.cell.lock();
        if self.load_state() != TaskState::Pending {
            return;
        }
        self.set_state(TaskState::Abandoned);
        let work = if cell.in_making { None } else { cell.work.take() };
        let waiter = cell.waiter.take();
        // A stray is not counted: while its closure is being dropped it is, so that the scope waits for that.
        if work.is_some() && !mem::replace(&mut cell.counted, true) {
            self.shared.raise_pending();
        }
        drop(cell);
        drop_caught(work);
        if let Some(waiter) = waiter {
            waiter.unpark();
        }
        if Self::uncount(&mut self.cell.lock()) {
            self.shared.lower_pending();
        }
    }

    fn state(&self) -> TaskState {
        self.load_state()
    }

    /// Scoped tasks have no canceller: the scope waits for them anyway.
    fn try_cancel(&self, _may_interrupt: bool) -> Cancelled {
        Cancelled::No
    }

    fn entered(&self, home: u64) {
        let mut cell = self.cell.lock();
        if cell.work.is_none() {
            return; // revoked
        }
        cell.home = home;
        if !mem::replace(&mut cell.counted, true) {
            self.shared.raise_pending();
        }
        drop(cell);
        if let Some(helpable) = self.shared.helpable.as_ref().filter(|_| home == self.shared.pool) {
            helpable.lock().push(Weak::clone(&self.me));
            self.shared.owner.unpark();
        }
    }

    fn left(&self) {
        let mut cell = self.cell.lock();
        cell.home = 0;
        let counted = Self::uncount(&mut cell);
        drop(cell);
        if counted {
            // First on the list, then off the count: a scope that sees zero finds it there.
            self.shared.strays.lock().push(Weak::clone(&self.me));
            self.shared.lower_pending();
        }
    }

    fn home(&self) -> u64 {
        self.cell.lock().home
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn id(&self) -> TaskId {
        self.id
    }
}

impl<T: Send, F: FnOnce() -> T + Send> Scoped for ScopedCore<F, T> {
    fn waits_in(&self, pool: u64) -> bool {
        let cell = self.cell.lock();
        cell.work.is_some() && cell.home == pool
    }

    fn revoke(&self) -> bool {
        let mut cell = self.cell.lock();
        if cell.counted {
            return false;
        }
        let work = cell.work.take();
        if work.is_some() {
            self.set_state(TaskState::Abandoned);
        }
        drop(cell);
        drop_caught(work);
        true
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Runs `f` in the pool; the scope does not end before it has.
    ///
    /// If `f` panics, the scope panics with the same payload when all its tasks have ended.
    ///
    /// # Errors
    /// [`ScopeRejected`] gives the closure back if the pool refuses the task.
    pub fn execute<F: FnOnce() + Send + 'scope>(&'scope self, f: F) -> Result<(), ScopeRejected<F>> {
        self.start(f, true).map(drop)
    }

    /// Runs `f` in the pool and returns a handle to its result.
    ///
    /// A panic goes to the handle; if that is not joined, the scope panics as for [`execute`](Self::execute).
    ///
    /// # Errors
    /// [`ScopeRejected`] gives the closure back if the pool refuses the task.
    pub fn submit<T, F>(&'scope self, f: F) -> Result<ScopedTaskHandle<'scope, T>, ScopeRejected<F>>
    where
        T: Send + 'scope,
        F: FnOnce() -> T + Send + 'scope,
    {
        let core: Arc<dyn ScopedJoin<T> + 'scope> = self.start(f, false)?;
        Ok(ScopedTaskHandle { core, scope: PhantomData })
    }

    fn start<T, F>(&'scope self, f: F, detached: bool) -> Result<Arc<ScopedCore<F, T>>, ScopeRejected<F>>
    where
        T: Send + 'scope,
        F: FnOnce() -> T + Send + 'scope,
    {
        let id = TaskId::fresh();
        let core = Arc::new_cyclic(|me: &Weak<ScopedCore<F, T>>| ScopedCore {
            id,
            state: AtomicU8::new(TaskState::Pending as u8),
            place: Place::new(),
            shared: Arc::clone(&self.shared),
            me: forget_scope_weak(Weak::clone(me)),
            cell: Mutex::new(Cell {
                work: Some(f),
                counted: false,
                home: 0,
                in_making: true,
                result: None,
                detached,
                waiter: None,
            }),
        });
        let task = Task::tracked(id, forget_scope(Arc::clone(&core)).into());
        let unwinds = Unwinds(&core);
        let outcome = self.pool.execute_task(task);
        mem::forget(unwinds);
        let work = core.made(outcome.is_err());
        match (outcome, work) {
            (Err(rejected), Some(work)) => {
                let reason = rejected.reason();
                let (_, source) = rejected.into_parts();
                Err(TrySubmitError::new(work, reason, source))
            }
            (_, discarded) => {
                drop_caught(discarded);
                Ok(core)
            }
        }
    }
}

/// The call that gives a task to the pool unwinds, for a policy may panic, and may keep the task nevertheless. Nobody will ask for
/// its result then.
struct Unwinds<'a, F, T>(&'a ScopedCore<F, T>);

impl<F, T> Drop for Unwinds<'_, F, T> {
    fn drop(&mut self) {
        let Unwinds(core) = self;
        let mut cell = core.cell.lock();
        cell.detached = true;
        let result = cell.result.take();
        drop(cell);
        drop_caught((result, core.made(false)));
    }
}

/// Lets a pool have a task that borrows.
fn forget_scope<'scope, F, T>(core: Arc<ScopedCore<F, T>>) -> Arc<dyn Tracked>
where
    T: Send + 'scope,
    F: FnOnce() -> T + Send + 'scope,
{
    let core: Arc<dyn Tracked + 'scope> = core;
    // SAFETY: only the lifetime changes. What has that lifetime is the closure and the result in the core's cell,
    // and neither is touched after the scope ended:
    // 1. `ThreadPoolExecutor::scope` neither returns nor unwinds before `pending` is zero and every stray is revoked.
    // 2. A closure that is in a pool or runs is counted in `pending` (`entered`, `run`), and the count is lowered
    //    only after the closure was called or dropped (`run`, `abandon`), or once it is a stray (`left`).
    // 3. A stray's closure is taken out and dropped by `revoke`; `run` and `entered` find nothing afterwards.
    // 4. A result is dropped in `run`, before the count is lowered, unless a handle still wants it. A handle can't
    //    outlive 'scope, and dropping it takes the result out; one that was leaked keeps the core alive
    //    for ever, so that the result is never dropped at all.
    unsafe { mem::transmute::<Arc<dyn Tracked + 'scope>, Arc<dyn Tracked + 'static>>(core) }
}

fn forget_scope_weak<'scope, F, T>(core: Weak<ScopedCore<F, T>>) -> Weak<dyn Scoped>
where
    T: Send + 'scope,
    F: FnOnce() -> T + Send + 'scope,
{
    let core: Weak<dyn Scoped + 'scope> = core;
    // SAFETY: as in `forget_scope`; these are used by the scope itself, before it ends.
    unsafe { mem::transmute::<Weak<dyn Scoped + 'scope>, Weak<dyn Scoped + 'static>>(core) }
}

/// What `scope` does at the end, whether its closure returned or unwound.
struct EndOfScope<'a> {
    shared: &'a Shared,
}

/// Nothing may unwind here: tasks that borrow would outlive what they borrow.
struct NeverUnwinds;

impl Drop for NeverUnwinds {
    fn drop(&mut self) {
        eprintln!("millpond: the end of a scope unwound, and its tasks still borrow from the stack");
        std::process::abort();
    }
}

impl Drop for EndOfScope<'_> {
    fn drop(&mut self) {
        let never_unwinds = NeverUnwinds;
        let mut backoff = Backoff::default();
        while !self.is_over() {
            self.help(&mut backoff);
            let quiet = || self.shared.is_quiet() || self.can_help();
            if !quiet() {
                let try_again = announce_sleep(self.shared.pool);
                self.shared.owner.wait_through_interrupts(try_again, quiet);
            }
        }
        mem::forget(never_unwinds);
    }
}

impl EndOfScope<'_> {
    /// No closure is in a pool or runs, and those that somebody has are taken away.
    ///
    /// To take one away drops what it captured, which may start another task; and one that somebody ran before we came to it
    /// may have, too. Such a task is in a pool, or a stray that was not on the list when we took it: so we look at both
    /// afterwards. Once there are no pending and no strays nobody is left who could start one.
    fn is_over(&self) -> bool {
        if !self.shared.is_quiet() {
            return false;
        }
        let Tasks(strays) = mem::take(&mut *self.shared.strays.lock());
        // One that somebody runs right now raised `pending` before we could revoke it: once more.
        let running = strays.into_iter().filter(|stray| stray.upgrade().is_some_and(|stray| !stray.revoke()));
        let running: Vec<_> = running.collect();
        let none_runs = running.is_empty() && self.shared.is_quiet();
        let mut strays = self.shared.strays.lock();
        running.into_iter().for_each(|stray| strays.push(stray));
        none_runs && strays.is_empty()
    }

    fn can_help(&self) -> bool {
        self.shared.helpable.as_ref().is_some_and(|helpable| !helpable.lock().is_empty())
    }

    /// A worker that waits for its own pool runs the waiting tasks itself.
    fn help(&self, backoff: &mut Backoff) {
        let Some(helpable) = &self.shared.helpable else { return };
        let Tasks(mut waiting) = mem::take(&mut *helpable.lock());
        // One that still waits afterwards is just being put into the queue, or on its way to a worker: once more. One that a queue of
        // the user's own does not give out, but panics, is left to the others.
        waiting.retain(|task| {
            task.upgrade().is_some_and(|task| catch(|| _ = task.help()) && task.waits_in(self.shared.pool))
        });
        if !waiting.is_empty() {
            let mut helpable = helpable.lock();
            waiting.into_iter().for_each(|task| helpable.push(task));
            drop(helpable);
            backoff.spin();
        }
    }
}

pub(super) fn scope<'env, R>(
    pool: &ThreadPoolExecutor,
    f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> R,
) -> R {
    let inside = pool.inner().is_current();
    let scope = Scope {
        pool: pool.clone(),
        shared: Arc::new(Shared {
            pending: AtomicUsize::new(0),
            owner: ThreadContext::current(),
            strays: Mutex::default(),
            helpable: inside.then(Mutex::default),
            pool: pool.inner().owner_number(),
            panics: Mutex::new(Vec::new()),
        }),
        scope: PhantomData,
        env: PhantomData,
    };
    let end = EndOfScope { shared: &scope.shared };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    drop(end);
    let panics = mem::take(&mut *scope.shared.panics.lock());
    let task_panic = panics.iter().find_map(|slot| slot.lock().take());
    match (result, task_panic) {
        (Err(payload), _) | (Ok(_), Some(payload)) => resume_unwind(payload),
        (Ok(value), None) => value,
    }
}

/// The half of a scoped task that its handle sees.
trait ScopedJoin<T>: Send + Sync {
    fn join(&self) -> Result<T, JoinError>;
    fn task_state(&self) -> TaskState;
    fn detach(&self);
}

impl<T: Send, F: FnOnce() -> T + Send> ScopedJoin<T> for ScopedCore<F, T> {
    fn join(&self) -> Result<T, JoinError> {
        let me = ThreadContext::current();
        while !self.is_done() {
            self.help();
            let mut cell = self.cell.lock();
            if !self.is_done() {
                cell.waiter = Some(Arc::clone(&me));
            }
            let home = cell.home;
            drop(cell);
            let try_again = look_again(home).or_else(|| announce_sleep(home)); // nowhere if it has begun
            if me.wait(try_again, || self.is_done()) == Wake::Interrupted {
                return Err(JoinError::Interrupted);
            }
        }
        let result = self.cell.lock().result.take();
        match result {
            Some(Ok(value)) => Ok(value),
            Some(Err(slot)) => {
                let payload = slot.lock().take();
                Err(payload.map_or(JoinError::Taken, |payload| JoinError::Panicked(Panic::new(payload))))
            }
            None => Err(JoinError::Abandoned),
        }
    }

    fn task_state(&self) -> TaskState {
        self.load_state()
    }

    fn detach(&self) {
        let mut cell = self.cell.lock();
        cell.detached = true;
        cell.waiter = None;
        let result = cell.result.take();
        drop(cell);
        drop_caught(result);
    }
}

/// The claim to the result of a scoped task; see [`Scope::submit`].
#[must_use = "dropping a handle detaches the task; use `execute` if no result is wanted"]
pub struct ScopedTaskHandle<'scope, T> {
    core: Arc<dyn ScopedJoin<T> + 'scope>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedTaskHandle<'_, T> {
    /// Waits for the task and returns what it returned. Runs it here if this is a worker of its pool and it waits.
    ///
    /// # Errors
    /// As [`TaskHandle::join`](crate::TaskHandle::join).
    pub fn join(self) -> Result<T, JoinError> {
        self.core.join()
    }

    /// How far the task has come.
    pub fn state(&self) -> TaskState {
        self.core.task_state()
    }

    /// Tells whether the task has ended.
    pub fn is_done(&self) -> bool {
        self.state().is_done()
    }
}

impl<T> Drop for ScopedTaskHandle<'_, T> {
    fn drop(&mut self) {
        self.core.detach();
    }
}

impl<T> fmt::Debug for ScopedTaskHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedTaskHandle").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.shared.pending.load(Ordering::Relaxed);
        f.debug_struct("Scope").field("pool", &self.pool).field("pending", &pending).finish_non_exhaustive()
    }
}

/// The error of a scoped task that the pool refused; it owns the closure.
pub type ScopeRejected<F> = TrySubmitError<F>;
