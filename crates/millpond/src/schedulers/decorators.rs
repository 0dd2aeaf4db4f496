//! Decorators: user callbacks that observe slots and wrap every run in them.
//!
//! A panic in `slot_created` refuses the submission. Any other panic of a decorator is caught and
//! ignored.

use std::fmt;

use super::registry::{InUse, Registry};
use crate::panic::catch;
use crate::sync::Arc;

static DECORATORS: Registry<dyn Decorator> = Registry::new();

/// A slot of a scheduler, as decorators see it.
#[derive(Debug, Clone)]
pub struct SlotInfo {
    scheduler: Arc<str>,
    index: usize,
}

impl SlotInfo {
    pub(super) fn new(scheduler: Arc<str>, index: usize) -> SlotInfo {
        SlotInfo { scheduler, index }
    }

    /// Returns the scheduler's name, as its `Display` writes it.
    pub fn scheduler(&self) -> &str {
        &self.scheduler
    }

    /// Returns the number of the slot in its scheduler, from 0. Numbers of closed slots are reused.
    pub fn index(&self) -> usize {
        self.index
    }
}

/// Observes the slots of all schedulers and wraps every run in them, for metrics, tracing or
/// thread-locals.
///
/// A slot keeps the decorators that were registered when it was first used.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Decorator, SlotInfo};
/// use std::sync::Arc;
/// use std::time::Instant;
///
/// struct Stopwatch;
/// impl Decorator for Stopwatch {
///     fn around(&self, slot: &SlotInfo, run: &mut dyn FnMut()) {
///         let begin = Instant::now();
///         run();
///         println!("{}/{}: {:?}", slot.scheduler(), slot.index(), begin.elapsed());
///     }
/// }
/// assert!(schedulers::add_decorator("time", Arc::new(Stopwatch)));
/// assert!(!schedulers::add_decorator("time", Arc::new(Stopwatch)), "the first one stays");
/// assert!(schedulers::remove_decorator("time").is_some());
/// ```
pub trait Decorator: Send + Sync + 'static {
    /// Called on the submitting thread before a slot is used for the first time; a panic then
    /// refuses the submission. If a slot was created without a submission, this is called on the
    /// slot's thread; after a panic the slot has no decorators.
    ///
    /// If several threads use a new slot at the same time, each of them may call this. The slot
    /// keeps the decorators of one of these calls; those of the other calls receive
    /// [`slot_closed`](Self::slot_closed) at once. The same happens if the slot is gone by then. So
    /// every call of this method is followed by one call of `slot_closed`.
    fn slot_created(&self, slot: &SlotInfo) {
        let _ = slot;
    }

    /// Called for each run in the slot. Must call `run` once, on the same thread. The decorator
    /// that was added first is the outermost. A panic is caught, and the run happens anyway.
    ///
    /// Not called for work that runs in place, inside a task that waits for it. Such a run is
    /// inside the call for the waiting task.
    fn around(&self, slot: &SlotInfo, run: &mut dyn FnMut()) {
        let _ = slot;
        run();
    }

    /// Called when the slot is closed, because its scheduler has ended or the slot was idle for
    /// longer than its time to live. The end of the scheduler waits for this call, so a
    /// `dispose_gracefully` inside it returns false at once.
    fn slot_closed(&self, slot: &SlotInfo) {
        let _ = slot;
    }
}

/// Adds a decorator for slots that are used for the first time from now on. Returns false and
/// changes nothing if `key` already has one.
pub fn add_decorator(key: &str, decorator: Arc<dyn Decorator>) -> bool {
    DECORATORS.set_if_absent(key, decorator).is_none()
}

/// Sets the decorator of `key`, replacing any previous one. Slots in use keep the previous one.
pub fn set_decorator(key: &str, decorator: Arc<dyn Decorator>) {
    let replaced = DECORATORS.set(key, decorator);
    drop(replaced);
}

/// Removes the decorator of `key` and returns it. Slots in use keep it.
pub fn remove_decorator(key: &str) -> Option<Arc<dyn Decorator>> {
    DECORATORS.remove(key)
}

/// Returns true if any decorator is registered.
pub(super) fn any_decorators() -> bool {
    !DECORATORS.is_empty()
}

/// The decorators of one slot.
#[derive(Clone)]
pub(super) struct Decorators(Arc<[InUse<dyn Decorator>]>);

impl Decorators {
    /// Takes the current decorators and calls `slot_created` on each. Returns `None` if one of them
    /// panicked; those called before it have then received `slot_closed`.
    pub(super) fn announce(slot: &SlotInfo) -> Option<Decorators> {
        let all = DECORATORS.all();
        for (told, decorator) in all.iter().enumerate() {
            if !catch(|| decorator.slot_created(slot)) {
                for decorator in &all[..told] {
                    catch(|| decorator.slot_closed(slot));
                }
                return None;
            }
        }
        Some(Decorators(all.into()))
    }

    pub(super) fn none() -> Decorators {
        Decorators(Arc::new([]))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls `run` inside all decorators. `run` is called even if a decorator panics or does not
    /// call it.
    pub(super) fn around(&self, slot: &SlotInfo, run: impl FnOnce()) {
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

    pub(super) fn closed(&self, slot: &SlotInfo) {
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
