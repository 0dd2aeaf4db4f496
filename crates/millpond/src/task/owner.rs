//! The owners of waiting tasks, by number: pools and schedulers.
//!
//! A task stores the number of its owner and nothing more. A counted reference to the owner would
//! make all submitters and workers write to one word, for the few threads that cancel or join.
//!
//! There is one map from numbers to owners. In addition each thread remembers the [`CancelQueue`]
//! that it used last: a thread that cancels many timers finds the same queue without the lock.

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

/// The answer of an owner that was asked to run a task on the calling thread.
#[derive(Debug, Clone)]
pub(crate) enum Help {
    /// The task has run, or the calling thread may not run it.
    Done,
    /// The task may not start before this instant.
    NotBefore(Instant),
    /// The task may not start yet, and only its owner knows when: ask again when the cell is
    /// notified.
    WhenNotified(Arc<WaitCell>),
}

/// The pool or scheduler in whose queue a task waits, as far as its handle needs to know.
///
/// A scheduler implements `run_inline` and `is_behind_this_thread` only. A task that is cancelled
/// by its handle keeps its place there, and is found to be empty when its turn comes.
pub(crate) trait TaskOwner: Send + Sync {
    /// Removes a task that was cancelled while it waited, if this owner does that at once.
    fn cancelled(&self, id: TaskId, place: &Place) {
        let _ = (id, place);
    }

    /// Returns the queue from which cancelled tasks are removed without the owner, if it has one.
    fn cancel_queue(&self) -> Option<Arc<dyn CancelQueue>> {
        None
    }

    /// The last task was removed from the cancel queue.
    fn emptied(&self) {}

    /// Called before a joiner blocks on a task that is queued here. Wakes an idle worker if the
    /// queue needs one. Returns false if there is no worker and none can be started; the joiner
    /// then retries every 10 ms.
    fn is_waited_for(self: Arc<Self>) -> bool {
        true
    }

    /// Returns true if the task cannot start before the calling thread returns from its current
    /// one.
    fn is_behind_this_thread(&self, id: TaskId, place: &Place) -> bool {
        let _ = (id, place);
        false
    }

    /// Runs the task on the calling thread, if that is a worker of this owner and the task waits.
    fn run_inline(&self, id: TaskId, place: &Place) -> Help;
}

/// A queue from which cancelled tasks are removed without its pool. It may outlive the pool, and is
/// empty then.
pub(crate) trait CancelQueue: Send + Sync {
    fn remove_cancelled(&self, removal: Removal<'_>) -> Removed;
}

/// Whether a queue has removed a cancelled task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    No,
    Yes,
    /// Yes, and no task is left.
    Last,
}

/// All owners that exist. Cancellers and joiners look here, submitters never do.
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
    owner.upgrade() // after the lock: dropping the last reference to a pool takes it too
}

/// Returns true if a task of this owner cannot start before the calling thread returns from its
/// current one. Only schedulers keep such an order.
pub(crate) fn is_behind_this_thread(number: u64, id: TaskId, place: &Place) -> bool {
    number >= FIRST_SCHEDULER
        && works_for(number)
        && find_owner(number).is_some_and(|owner| owner.is_behind_this_thread(id, place))
}

/// If the task waits in a queue of an owner that the calling thread works for, runs it here.
pub(crate) fn run_inline(number: u64, id: TaskId, place: &Place) -> Help {
    if !works_for(number) {
        return Help::Done; // spares all other threads the search
    }
    find_owner(number).map_or(Help::Done, |owner| owner.run_inline(id, place))
}

/// Tells the owner that the calling thread is about to block on a task that is queued there.
/// Returns when to tell it again, if that is needed.
pub(crate) fn announce_sleep(number: u64) -> Option<Instant> {
    if cfg!(loom) {
        return None; // models would try it in all orders
    }
    if find_owner(number)?.is_waited_for() { None } else { retry_deadline() }
}

/// Returns when a worker that joins a task of its own pool should try again to run it in place.
///
/// A task that is not in the queue may be on its way to a new thread. If that thread does not
/// start, the task is queued, and perhaps only the joiner is there to run it.
pub(crate) fn retry_inline(number: u64) -> Option<Instant> {
    if !cfg!(loom) && works_for(number) { retry_deadline() } else { None }
}

/// 10 ms from now.
pub(crate) fn retry_deadline() -> Option<Instant> {
    const RETRY: Duration = Duration::from_millis(10);
    deadline_after(RETRY)
}

/// Removes a task that was cancelled while it waited from the queue of its owner, if that exists.
#[inline]
pub(crate) fn remove_cancelled(number: u64, removal: Removal<'_>) {
    let removed = remove_from_remembered(number, removal);
    if removed != Some(Removed::Yes) {
        remove_by_owner(number, removal, removed);
    }
}

/// Uses the queue that this thread remembers, if it is the right one.
#[inline]
fn remove_from_remembered(number: u64, removal: Removal<'_>) -> Option<Removed> {
    let remove = |remembered: &RefCell<Remembered>| {
        let remembered = remembered.try_borrow().ok()?;
        let (_, queue) = remembered.as_ref().filter(|(of, _)| *of == number)?;
        Some(queue.remove_cancelled(removal))
    };
    REMEMBERED.try_with(remove).ok().flatten()
}

/// As [`remove_cancelled`], through the map. `removed`: the answer of the remembered queue.
///
/// The queue of a pool may be user code: whatever it does, the canceller goes on.
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
    if removed == Removed::Last {
        catch(|| owner.emptied());
    }
}

/// Keeps nothing of an owner that is gone.
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
    drop(REMEMBERED.try_with(replace)); // without the borrow: a queue may hold the last of many tasks
}

/// Schedulers are numbered from here on, pools from 1.
const FIRST_SCHEDULER: u64 = 1 << 31;

/// The entry of an owner in the map, as long as this lives.
pub(crate) struct OwnerEntry {
    number: u64,
}

impl OwnerEntry {
    /// Enters a pool.
    pub(crate) fn new(owner: Weak<dyn TaskOwner>) -> OwnerEntry {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        OwnerEntry::enter(&NEXT, 0, owner)
    }

    /// Enters a scheduler, under a number that no pool has.
    pub(crate) fn of_scheduler(owner: Weak<dyn TaskOwner>) -> OwnerEntry {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        OwnerEntry::enter(&NEXT, FIRST_SCHEDULER, owner)
    }

    /// Numbers have 32 bits, because every task stores one. They wrap around and skip those in use.
    fn enter(next: &AtomicU32, first: u64, owner: Weak<dyn TaskOwner>) -> OwnerEntry {
        let mut owners = lock_global(&OWNERS);
        loop {
            let next = u64::from(next.fetch_add(1, Ordering::Relaxed)); // changed under the lock only
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

    /// The number of waiting tasks.
    struct Queue(AtomicU64);

    impl CancelQueue for Queue {
        fn remove_cancelled(&self, _: Removal<'_>) -> Removed {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            match left {
                0 => Removed::No,
                1 => Removed::Last,
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
        fn emptied(&self) {
            self.emptied.fetch_add(1, Ordering::Relaxed);
        }
        fn run_inline(&self, _: TaskId, _: &Place) -> Help {
            Help::Done
        }
    }

    #[test]
    fn a_pool_learns_only_of_the_last_task_that_leaves_its_cancel_queue() {
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
