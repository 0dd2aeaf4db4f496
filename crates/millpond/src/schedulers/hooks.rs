//! What users may hang into every scheduler of the process: schedule hooks, error hooks and decorators.
//!
//! Each kind is a list with keys, in the order in which the keys came. None is called while one of our locks is held,
//! and a panic of one of them is caught: that of a schedule hook or of `slot_created` refuses the submission, any
//! other goes no further.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool as Flag; // always std's: it belongs to the process

use super::job::Work;
use crate::executor::{RejectReason, Rejected};
use crate::interrupt::TaskFrame;
use crate::panic::{catch, drop_caught};
use crate::sync::{Arc, AtomicBool, Mutex, Ordering, lock_global};
use crate::task::periodic::Body;
use crate::task::{Outcome, Panic};
use crate::task::{Task, TaskInfo};

/// Things with keys, in order of their first coming.
struct Keyed<T: ?Sized>(Vec<(String, Arc<T>)>);

impl<T: ?Sized> Keyed<T> {
    const fn new() -> Self {
        Keyed(Vec::new())
    }

    /// Sets what is under `key`, in the place of what was there.
    fn set(&mut self, key: &str, value: Arc<T>) -> Option<Arc<T>> {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => Some(std::mem::replace(old, value)),
            None => {
                self.0.push((key.to_owned(), value));
                None
            }
        }
    }

    fn remove(&mut self, key: &str) -> Option<Arc<T>> {
        let at = self.0.iter().position(|(known, _)| known == key)?;
        Some(self.0.remove(at).1)
    }

    fn contains(&self, key: &str) -> bool {
        self.0.iter().any(|(known, _)| known == key)
    }

    fn all(&self) -> Vec<InUse<T>> {
        self.0.iter().map(|(_, value)| InUse(Some(Arc::clone(value)))).collect()
    }
}

/// A hook or decorator while somebody calls it, or a slot has it. If it has been taken out of the list meanwhile it is dropped with this,
/// on whatever thread; then its destructor is one more call that must not panic there.
struct InUse<T: ?Sized>(Option<Arc<T>>);

impl<T: ?Sized> Deref for InUse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl<T: ?Sized> Drop for InUse<T> {
    fn drop(&mut self) {
        drop_caught(self.0.take());
    }
}

/// One of the lists of the process.
struct Registry<T: ?Sized> {
    list: std::sync::Mutex<Keyed<T>>,
    /// The list is not empty: most programs have no hooks, and spare the lock. Written under it.
    ///
    /// Relaxed: whoever knows that something was set knows it from somebody who came after the store.
    any: Flag,
}

impl<T: ?Sized> Registry<T> {
    const fn new() -> Self {
        Registry { list: std::sync::Mutex::new(Keyed::new()), any: Flag::new(false) }
    }

    fn change<R>(&self, f: impl FnOnce(&mut Keyed<T>) -> R) -> R {
        let mut list = lock_global(&self.list);
        let result = f(&mut list);
        self.any.store(!list.0.is_empty(), Ordering::Relaxed);
        result
    }

    fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    fn all(&self) -> Vec<InUse<T>> {
        if self.is_empty() { Vec::new() } else { lock_global(&self.list).all() }
    }
}

type ScheduleHook = dyn Fn(Body) -> Body + Send + Sync;
type ErrorHook = dyn Fn(&TaskInfo, &Panic) + Send + Sync;

static ON_SCHEDULE: Registry<ScheduleHook> = Registry::new();
static ON_ERROR: Registry<ErrorHook> = Registry::new();
static DECORATORS: Registry<dyn Decorator> = Registry::new();

/// Calls `hook` for everything that is scheduled, on the submitting thread; what it returns is what runs.
///
/// Hooks are called in the order in which their keys were first set, so the last one is the outermost when the work
/// runs. A series passes them once, not for each run. A key that is set again keeps its place. A hook that
/// panics refuses the submission with [`CallbackPanicked`](RejectReason::CallbackPanicked). The
/// [`immediate`](super::immediate) scheduler calls none.
///
/// # Examples
/// ```
/// use millpond::schedulers;
///
/// schedulers::on_schedule("trace", |mut body| {
///     Box::new(move || {
///         println!("begins");
///         body();
///         println!("has ended");
///     })
/// });
/// assert!(schedulers::reset_on_schedule("trace"));
/// ```
pub fn on_schedule(key: &str, hook: impl Fn(Body) -> Body + Send + Sync + 'static) {
    let old = ON_SCHEDULE.change(|hooks| hooks.set(key, Arc::new(hook)));
    drop(old); // not under the lock: it is the user's
}

/// Takes the schedule hook under `key` away. False: there is none.
pub fn reset_on_schedule(key: &str) -> bool {
    let old = ON_SCHEDULE.change(|hooks| hooks.remove(key));
    old.is_some()
}

/// Takes all schedule hooks away.
pub fn reset_all_on_schedule() {
    let old = ON_SCHEDULE.change(|hooks| std::mem::replace(hooks, Keyed::new()));
    drop(old);
}

/// Calls `hook` when a scheduled task panics and no handle keeps the panic, on the thread on which it ran.
///
/// Hooks are called in the order in which their keys were first set. One that panics does not stop the next.
///
/// # Examples
/// ```
/// use millpond::schedulers;
///
/// schedulers::on_error("log", |task, panic| eprintln!("{} panicked: {:?}", task.id(), panic.message()));
/// assert!(schedulers::reset_on_error("log"));
/// ```
pub fn on_error(key: &str, hook: impl Fn(&TaskInfo, &Panic) + Send + Sync + 'static) {
    let old = ON_ERROR.change(|hooks| hooks.set(key, Arc::new(hook)));
    drop(old);
}

/// Takes the error hook under `key` away. False: there is none.
pub fn reset_on_error(key: &str) -> bool {
    let old = ON_ERROR.change(|hooks| hooks.remove(key));
    old.is_some()
}

/// Takes all error hooks away.
pub fn reset_all_on_error() {
    let old = ON_ERROR.change(|hooks| std::mem::replace(hooks, Keyed::new()));
    drop(old);
}

/// Tells the error hooks of a panic.
pub(crate) fn report(info: &TaskInfo, payload: Box<dyn Any + Send>) {
    let hooks = ON_ERROR.all();
    let panic = Panic::new(payload);
    for hook in hooks {
        catch(|| hook(info, &panic));
    }
    drop_caught(panic); // the payload is the user's, and so is its destructor
}

/// Passes `work` through the schedule hooks.
///
/// While the hooks have it the work lies in a cell that both sides reach, so that it can be handed back if one of them
/// panics.
///
/// # Errors
/// [`Rejected`], with the work, if a hook panicked.
pub(crate) fn pass_schedule_hooks(work: Work) -> Result<Work, Rejected> {
    let hooks = ON_SCHEDULE.all();
    if hooks.is_empty() {
        return Ok(work);
    }
    let series = if let Work::Series(_, _, on_panic) = &work { Some(*on_panic) } else { None };
    let info = work.info().clone();
    let cell = Arc::new(Mutex::new(Some(work)));
    let panicked = Arc::new(AtomicBool::new(false));
    let (inner, has_panicked) = (Arc::clone(&cell), Arc::clone(&panicked));
    let mut body: Option<Body> = None;
    let passed = catch(|| {
        let first: Body = Box::new(move || run_in(&inner, &has_panicked));
        body = Some(hooks.iter().fold(first, |body, hook| hook(body)));
    });
    match body {
        Some(body) if passed => Ok(match series {
            Some(on_panic) => Work::Series(info, body, on_panic),
            None => Work::Hooked(info, body, panicked),
        }),
        _ => {
            let work = cell.lock().take();
            let task = match work {
                Some(work) => work.into_task(),
                None => Task::known_as(info, || {}),
            };
            Err(Rejected::new(task, RejectReason::CallbackPanicked))
        }
    }
}

/// Runs what lies in the cell: a task once, the body of a series each time.
fn run_in(cell: &Mutex<Option<Work>>, panicked: &AtomicBool) {
    let work = cell.lock().take();
    let payload = match work {
        None => None,
        Some(Work::Once(task)) => {
            let _frame = TaskFrame::enter();
            let mut settle = |outcome| panicked.store(outcome == Outcome::Panicked, Ordering::Relaxed);
            task.once().run_settled(&mut settle).panic
        }
        Some(Work::Hooked(_, mut body, _)) => catch_unwind(AssertUnwindSafe(&mut body)).err(),
        Some(Work::Series(info, mut body, on_panic)) => {
            let ran = catch_unwind(AssertUnwindSafe(&mut body));
            *cell.lock() = Some(Work::Series(info, body, on_panic));
            ran.err()
        }
    };
    if let Some(payload) = payload {
        resume_unwind(payload); // through the hooks' own code, to whoever runs it
    }
}

/// Which slot of which scheduler: what decorators are told.
#[derive(Debug, Clone)]
pub struct SlotInfo {
    pub(crate) scheduler: Arc<str>,
    pub(crate) index: usize,
}

impl SlotInfo {
    /// The scheduler, as its `Display` writes it.
    pub fn scheduler(&self) -> &str {
        &self.scheduler
    }

    /// The slot's number in its scheduler, from 0; one that was closed is used again.
    pub fn index(&self) -> usize {
        self.index
    }
}

/// Watches the slots of all schedulers, and stands around everything that runs in them: for metrics, tracing, thread-locals.
///
/// A slot has the decorators that there were when it was first used.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Decorator, SlotInfo};
/// use std::sync::Arc;
/// use std::time::Instant;
///
/// struct DelayedQueue;
/// impl Decorator for DelayedQueue {
///     fn around(&self, slot: &SlotInfo, run: &mut dyn FnMut()) {
///         let begin = Instant::now();
///         run();
///         println!("{}/{}: {:?}", slot.scheduler(), slot.index(), begin.elapsed());
///     }
/// }
/// assert!(schedulers::add_decorator("time", Arc::new(DelayedQueue)));
/// assert!(!schedulers::add_decorator("time", Arc::new(DelayedQueue)), "the first one stays");
/// assert!(schedulers::remove_decorator("time").is_some());
/// ```
pub trait Decorator: Send + Sync + 'static {
    /// A slot is used for the first time. On the submitting thread; a panic refuses that submission.
    ///
    /// Threads that use it for the first time at the same time may each call this. The slot has the decorators of one of them;
    /// those of the others are told that it is [closed](Self::slot_closed), and so are all if it is gone by then. So there
    /// is one such call for each of these.
    fn slot_created(&self, slot: &SlotInfo) {
        let _ = slot;
    }

    /// Something runs in the slot: calls `run`, once, on the thread on which this is called. The decorator that came first is
    /// the outermost.
    fn around(&self, slot: &SlotInfo, run: &mut dyn FnMut()) {
        let _ = slot;
        run();
    }

    /// The slot is closed: its scheduler has ended, or it was idle for too long.
    fn slot_closed(&self, slot: &SlotInfo) {
        let _ = slot;
    }
}

/// Adds a decorator for slots that are used for the first time from now on. False: there is one under `key`, which stays.
pub fn add_decorator(key: &str, decorator: Arc<dyn Decorator>) -> bool {
    let mut new = Some(decorator); // one that is not taken is not dropped under the lock
    DECORATORS.change(|decorators| {
        if !decorators.contains(key)
            && let Some(new) = new.take()
        {
            decorators.set(key, new);
        }
    });
    new.is_none()
}

/// Sets the decorator under `key`, in the place of one that was there.
pub fn set_decorator(key: &str, decorator: Arc<dyn Decorator>) {
    let old = DECORATORS.change(|decorators| decorators.set(key, decorator));
    drop(old);
}

/// Takes the decorator under `key` away, and returns it. Slots that have it keep it.
pub fn remove_decorator(key: &str) -> Option<Arc<dyn Decorator>> {
    DECORATORS.change(|decorators| decorators.remove(key))
}

pub(crate) fn there_are_decorators() -> bool {
    !DECORATORS.is_empty()
}

/// Wakes a task of some async runtime; its waker is not ours.
pub(crate) fn quietly_wake(waker: std::task::Waker) {
    catch(|| waker.wake());
}

/// The decorators of one slot.
#[derive(Clone)]
pub(crate) struct Decorators(Arc<[InUse<dyn Decorator>]>);

impl Decorators {
    /// Those that there are now, told that `slot` was created. `None`: one of them panicked.
    pub(crate) fn announce(slot: &SlotInfo) -> Option<Decorators> {
        let all = DECORATORS.all();
        for (told, decorator) in all.iter().enumerate() {
            if !catch(|| decorator.slot_created(slot)) {
                // Those who were told of it are told of its end.
                for decorator in &all[..told] {
                    catch(|| decorator.slot_closed(slot));
                }
                return None;
            }
        }
        Some(Decorators(all.into()))
    }

    pub(crate) fn none() -> Decorators {
        Decorators(Arc::new([]))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls `run` inside all of them. One that panics, or that does not call it, does not keep it from running.
    pub(crate) fn around(&self, slot: &SlotInfo, run: impl FnOnce()) {
        if self.0.is_empty() {
            return run();
        }
        let mut run = Some(run);
        let mut once = || {
            if let Some(run) = run.take() {
                run();
            }
        };
        catch(|| nest(&self.0, slot, &mut once));
        once();
    }

    pub(crate) fn closed(&self, slot: &SlotInfo) {
        for decorator in self.0.iter() {
            catch(|| decorator.slot_closed(slot));
        }
    }
}

fn nest(decorators: &[InUse<dyn Decorator>], slot: &SlotInfo, run: &mut dyn FnMut()) {
    match decorators.split_first() {
        None => run(),
        Some((outer, inner)) => outer.around(slot, &mut || nest(inner, slot, run)),
    }
}

impl fmt::Debug for Decorators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decorators({})", self.0.len())
    }
}
