//! The owners of waiting tasks, by number: pools and schedulers.
//!
//! A task stores only the number of its owner. With a counted reference to the owner, all
//! submitters and workers would write to one word. Only the few threads that cancel or join would
//! benefit.
//!
//! One map leads from numbers to owners. In addition, each thread remembers the [`CancelQueue`]
//! that it used last. So a thread that cancels many timers finds their queue without the lock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::context::works_for;
use super::id::TaskId;
use super::place::Place;
use super::raw::Removal;
use crate::interrupt::wait::WaitCell;
use crate::panic::catch;
use crate::sync::{Arc, Weak, deadline_after, lock_global, thread_local};

/// The result of asking an owner to run a task on the calling thread.
#[derive(Debug, Clone)]
pub(crate) enum Help {
    /// The task has run, or the calling thread may not run it.
    Done,
    /// The task may not start before this instant.
    NotBefore(Instant),
    /// The task may not start yet, and only its owner knows when: try again when the cell is
    /// notified.
    WhenNotified(Arc<WaitCell>),
}

/// The pool or scheduler in whose queue a task waits, as its handle sees it.
///
/// A scheduler implements only `run_inline` and `is_behind_this_thread`. In a scheduler, a task
/// that was cancelled through its handle keeps its place in the queue, and is empty when its turn
/// comes.
pub(crate) trait TaskOwner: Send + Sync {
    /// Removes a task that was cancelled while it waited, if this owner does that at once.
    fn cancelled(&self, id: TaskId, place: &Place) {
        let _ = (id, place);
    }

    /// Returns the queue from which cancelled tasks are removed without the owner, if it has one.
    fn cancel_queue(&self) -> Option<Arc<dyn CancelQueue>> {
        None
    }

    /// Called when the cancel queue has answered [`Removed::First`].
    fn first_removed(&self) {}

    /// Called before a joiner blocks on a task that is queued here. Wakes an idle worker if the
    /// queue needs one. Returns false if there is no worker and none can be started; the joiner
    /// then retries every 10 ms.
    fn is_waited_for(self: Arc<Self>) -> bool {
        true
    }

    /// Returns true if the task cannot start before the calling thread returns from its current
    /// task.
    fn is_behind_this_thread(&self, id: TaskId, place: &Place) -> bool {
        let _ = (id, place);
        false
    }

    /// Runs the task on the calling thread, if that is a worker of this owner and the task is
    /// queued.
    fn run_inline(&self, id: TaskId, place: &Place) -> Help;
}

/// A queue from which cancelled tasks are removed without its pool. It may outlive the pool, and is
/// then empty.
pub(crate) trait CancelQueue: Send + Sync {
    fn remove_cancelled(&self, removal: Removal<'_>) -> Removed;
}

/// The result of removing a cancelled task from a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    No,
    Yes,
    /// The task was removed, and the owner must act on it: the queue is empty, or the task was due
    /// or soon due.
    First,
}

/// All owners that exist. Read by cancellers and joiners, never by submitters.
static OWNERS: std::sync::Mutex<BTreeMap<u64, Weak<dyn TaskOwner>>> = std::sync::Mutex::new(BTreeMap::new());

/// A cancel queue, and the number of its owner.
type Remembered = Option<(u64, Arc<dyn CancelQueue>)>;

thread_local! {
    /// The cancel queue that this thread used last.
    static REMEMBERED: RefCell<Remembered> = nothing_remembered();
}

fn nothing_remembered() -> RefCell<Remembered> {
    RefCell::new(None)
}

/// Returns the owner with this number, if it still exists.
pub(crate) fn find_owner(number: u64) -> Option<Arc<dyn TaskOwner>> {
    if number == 0 {
        return None;
    }
    let owner = lock_global(&OWNERS).get(&number)?.clone();
    owner.upgrade() // after the lock: dropping the last reference to a pool takes the lock too
}

/// Returns true if a task of this owner cannot start before the calling thread returns from its
/// current task. Only schedulers keep such an order.
pub(crate) fn is_behind_this_thread(number: u64, id: TaskId, place: &Place) -> bool {
    number >= FIRST_SCHEDULER
        && works_for(number)
        && find_owner(number).is_some_and(|owner| owner.is_behind_this_thread(id, place))
}

/// Runs the task here, if it waits in a queue of an owner that the calling thread works for.
pub(crate) fn run_inline(number: u64, id: TaskId, place: &Place) -> Help {
    if !works_for(number) {
        return Help::Done; // most threads skip the search
    }
    find_owner(number).map_or(Help::Done, |owner| owner.run_inline(id, place))
}

/// Notifies the owner that the calling thread is about to block on a task that is queued there.
/// Returns when to call this again, if necessary.
pub(crate) fn announce_sleep(number: u64) -> Option<Instant> {
    if cfg!(loom) {
        return None; // models would explore it in all orders
    }
    if find_owner(number)?.is_waited_for() { None } else { retry_deadline() }
}

/// Returns when a worker that joins a task of its own pool should try again to run it inline.
///
/// A task that is not in the queue may be on its way to a new thread. If that thread does not
/// start, the task is queued, and the joiner may be the only thread that can run it.
pub(crate) fn retry_inline(number: u64) -> Option<Instant> {
    if !cfg!(loom) && works_for(number) { retry_deadline() } else { None }
}

/// Returns the instant 10 ms from now.
pub(crate) fn retry_deadline() -> Option<Instant> {
    const RETRY: Duration = Duration::from_millis(10);
    deadline_after(RETRY)
}

/// Removes a cancelled task from the queue of its owner, if the owner still exists.
#[inline]
pub(crate) fn remove_cancelled(number: u64, removal: Removal<'_>) {
    let removed = remove_from_remembered(number, removal);
    if removed != Some(Removed::Yes) {
        remove_by_owner(number, removal, removed);
    }
}

/// Removes the task from the queue that this thread remembers, if the queue belongs to this owner.
#[inline]
fn remove_from_remembered(number: u64, removal: Removal<'_>) -> Option<Removed> {
    let remove = |remembered: &RefCell<Remembered>| {
        let remembered = remembered.try_borrow().ok()?;
        let (_, queue) = remembered.as_ref().filter(|(of, _)| *of == number)?;
        Some(queue.remove_cancelled(removal))
    };
    REMEMBERED.try_with(remove).ok().flatten()
}

/// Like [`remove_cancelled`], through the map. `removed` is the result of the remembered queue.
///
/// The queue of a pool may be user code, so its panics are caught and the canceller continues.
#[inline(never)]
fn remove_by_owner(number: u64, removal: Removal<'_>, removed: Option<Removed>) {
    let Some(owner) = find_owner(number) else { return forget_queue_of(number) };
    let removed = match (removed, owner.cancel_queue()) {
        (Some(removed), _) => removed,
        (None, Some(queue)) => {
            let removed = queue.remove_cancelled(removal);
            remember(Some((number, queue)));
            removed
        }
        (None, None) => {
            catch(|| owner.cancelled(removal.id(), removal.place()));
            return;
        }
    };
    if removed == Removed::First {
        catch(|| owner.first_removed());
    }
}

/// Forgets the remembered queue if it belongs to this owner, which no longer exists.
fn forget_queue_of(number: u64) {
    let is_of_it = |remembered: &RefCell<Remembered>| {
        remembered.try_borrow().is_ok_and(|queue| queue.as_ref().is_some_and(|(of, _)| *of == number))
    };
    if REMEMBERED.try_with(is_of_it).unwrap_or(false) {
        remember(None);
    }
}

fn remember(queue: Remembered) {
    let replace = |remembered: &RefCell<Remembered>| {
        Some(std::mem::replace(&mut *remembered.try_borrow_mut().ok()?, queue))
    };
    drop(REMEMBERED.try_with(replace)); // after the borrow: this may drop many tasks
}

/// Schedulers have numbers from here on, pools from 1.
const FIRST_SCHEDULER: u64 = 1 << 31;

/// The entry of an owner in the map. Dropping it removes the entry.
pub(crate) struct OwnerEntry {
    number: u64,
}

impl OwnerEntry {
    /// Adds a pool.
    pub(crate) fn new(owner: Weak<dyn TaskOwner>) -> OwnerEntry {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        OwnerEntry::enter(&NEXT, 0, owner)
    }

    /// Adds a scheduler, with a number that no pool has.
    pub(crate) fn of_scheduler(owner: Weak<dyn TaskOwner>) -> OwnerEntry {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        OwnerEntry::enter(&NEXT, FIRST_SCHEDULER, owner)
    }

    /// Numbers have 32 bits, because every task stores one. They wrap around and skip numbers in
    /// use.
    fn enter(next: &AtomicU32, first: u64, owner: Weak<dyn TaskOwner>) -> OwnerEntry {
        let mut owners = lock_global(&OWNERS);
        loop {
            let next = u64::from(next.fetch_add(1, Ordering::Relaxed)); // under the lock
            let number = first + next % FIRST_SCHEDULER;
            if number != 0 && !owners.contains_key(&number) {
                owners.insert(number, owner);
                return OwnerEntry { number };
            }
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for OwnerEntry {
    fn drop(&mut self) {
        lock_global(&OWNERS).remove(&self.number);
    }
}

impl fmt::Debug for OwnerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnerEntry").field(&self.number).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};

    struct Pool(u64);

    impl TaskOwner for Pool {
        fn run_inline(&self, _: TaskId, _: &Place) -> Help {
            Help::NotBefore(Instant::now() + Duration::from_secs(self.0))
        }
    }

    #[test]
    fn an_owner_is_found_as_long_as_it_lives() {
        let pools = [1, 2].map(|seconds| Arc::new(Pool(seconds)));
        let weak = |pool: &Arc<Pool>| Arc::downgrade(pool) as Weak<dyn TaskOwner>;
        let entries = pools.each_ref().map(|pool| OwnerEntry::new(weak(pool)));
        let numbers = entries.each_ref().map(OwnerEntry::number);
        let is = |found: &Arc<dyn TaskOwner>, pool: &Arc<Pool>| {
            Arc::as_ptr(found).addr() == Arc::as_ptr(pool).addr()
        };
        for at in [0, 0, 1, 0, 1, 1] {
            let found = find_owner(numbers[at]).expect("it is alive");
            assert!(is(&found, &pools[at]) && !is(&found, &pools[1 - at]));
        }
        let watch = weak(&pools[1]);
        drop((pools, entries));
        assert!(watch.upgrade().is_none(), "the map does not keep an owner alive");
        assert!(numbers.iter().all(|number| find_owner(*number).is_none()));
        assert_eq!(watch.weak_count(), 0, "and forgets it");
    }

    /// A pool with a cancel queue.
    struct Scheduled {
        queue: Arc<Queue>,
        emptied: AtomicU64,
    }

    /// Contains the number of waiting tasks.
    struct Queue(AtomicU64);

    impl CancelQueue for Queue {
        fn remove_cancelled(&self, _: Removal<'_>) -> Removed {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            match left {
                0 => Removed::No,
                1 => Removed::First,
                _ => Removed::Yes,
            }
        }
    }

    impl TaskOwner for Scheduled {
        fn cancelled(&self, _: TaskId, _: &Place) {
            unreachable!("the cancel queue is asked");
        }
        fn cancel_queue(&self) -> Option<Arc<dyn CancelQueue>> {
            Some(Arc::clone(&self.queue) as Arc<dyn CancelQueue>)
        }
        fn first_removed(&self) {
            self.emptied.fetch_add(1, Ordering::Relaxed);
        }
        fn run_inline(&self, _: TaskId, _: &Place) -> Help {
            Help::Done
        }
    }

    #[test]
    fn a_pool_learns_only_of_the_removals_that_its_cancel_queue_reports() {
        let queue = Arc::new(Queue(AtomicU64::new(4)));
        let pool = Arc::new(Scheduled { queue: Arc::clone(&queue), emptied: AtomicU64::new(0) });
        let entry = OwnerEntry::new(Arc::downgrade(&pool) as Weak<dyn TaskOwner>);
        let number = entry.number();
        let cancel_one = || remove_cancelled(number, Removal::new(TaskId::fresh(), &Place::new()));
        let emptied = || pool.emptied.load(Ordering::Relaxed);
        (0..3).for_each(|_| cancel_one());
        assert_eq!((queue.0.load(Ordering::Relaxed), emptied()), (1, 0), "each is removed once");
        cancel_one();
        assert_eq!((queue.0.load(Ordering::Relaxed), emptied()), (0, 1));
        cancel_one();
        let owners = (Arc::strong_count(&queue), emptied());
        assert_eq!(owners, (3, 1), "the test's, the pool's, and what this thread remembers");
        drop((pool, entry));
        cancel_one();
        assert_eq!(Arc::strong_count(&queue), 1, "the thread forgets the queue of a pool that is gone");
    }
}
