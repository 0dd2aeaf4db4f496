//! Where a task waits: the pools and schedulers, by number.
//!
//! A task remembers the number of its pool and nothing more. A scheduler is as good as a pool here. Counting references to the
//! pool would make everybody who submits and everybody who takes write to one place in memory, for the sake of the few who cancel.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::cell::{Help, Place};
use super::shared::{LeakedRef, Removal};
use crate::interrupt::RunId;
use crate::panic::catch;
use crate::sync::{Arc, Weak, deadline_after, lock_global, thread_local};
use crate::task::TaskId;

/// The pool whose queue a task waits in, as far as its handle needs to know.
///
/// For a scheduler it is enough to run a task: one that is cancelled by its handle keeps its place there, and is found to be empty when
/// its turn comes.
pub(crate) trait TaskOwner: Send + Sync {
    /// The task was cancelled while it waited: gives its place free, if this pool does that at once.
    fn cancelled(&self, id: TaskId, place: &Place) {
        let _ = (id, place);
    }

    /// Its waitlist, if it has one. Then this is where tasks that are cancelled are struck off.
    fn cancel_queue(&self) -> Option<Arc<dyn CancelQueue>> {
        None
    }

    /// The last task has been struck off the waitlist.
    fn emptied(&self) {}

    /// Somebody is about to sleep until a task that waits here has run: a processor is about to be free. False: the pool has
    /// nobody to run it, and could not get a thread. It is to be asked again after a while, for nobody else may.
    fn is_waited_for(self: Arc<Self>) -> bool {
        true
    }

    /// The task cannot start before the calling thread returns from what it runs now.
    fn is_behind_this_thread(&self, id: TaskId, place: &Place) -> bool {
        let _ = (id, place);
        false
    }

    /// Runs the task on the calling thread if that is a worker of this pool and the task still waits.
    fn run_inline(&self, id: TaskId, place: &Place) -> Help;
}

/// The queue of a pool of which tasks are struck off without the pool. It may outlive the pool, and is empty then.
pub(crate) trait CancelQueue: Send + Sync {
    /// As [`TaskOwner::cancelled`].
    fn remove_cancelled(&self, removal: Removal<'_>) -> Removed;
}

/// What came of striking a task off.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    /// No task is left.
    pub(crate) was_last: bool,
    /// The queue has leaked its reference to the task, for the caller to give up.
    pub(crate) leaked: Option<LeakedRef>,
}

/// All pools and schedulers that there are. Only those who cancel look here, and workers that join.
static HOMES: std::sync::Mutex<BTreeMap<u64, Weak<dyn TaskOwner>>> = std::sync::Mutex::new(BTreeMap::new());

thread_local! {
    /// The number of the pool that this thread is a worker of; 0: of none.
    static WORKS_FOR: Cell<u64> = nobody();
    /// The numbers of the threads that wait until this one, which is a temporary one, has run a task for them.
    static WAITING: RefCell<Vec<u64>> = none_waits();
    /// What that pool knows this worker by.
    static WORKER: RefCell<Option<Identity>> = no_identity();
    /// The schedulers that this thread works for, the innermost last: one may run on a thread of another, or of a pool.
    static SCHEDULERS: RefCell<Vec<u64>> = no_scheduler();
    /// The pool that this thread has found last. Who cancels many finds the same one again and again, without the lock.
    static LAST: RefCell<Option<Found>> = none_yet();
}

/// What a thread remembers of a pool.
struct Found {
    number: u64,
    home: Weak<dyn TaskOwner>,
    /// Ours, other than the pool: to take part in a pool for a moment takes two exchanges, as much as a fifth of a cancel.
    cancel_queue: Option<Arc<dyn CancelQueue>>,
}

fn none_yet() -> RefCell<Option<Found>> {
    RefCell::new(None)
}

fn no_scheduler() -> RefCell<Vec<u64>> {
    RefCell::new(Vec::new())
}

fn nobody() -> Cell<u64> {
    Cell::new(0)
}

fn none_waits() -> RefCell<Vec<u64>> {
    RefCell::new(Vec::new())
}

fn no_identity() -> RefCell<Option<Identity>> {
    RefCell::new(None)
}

/// A worker of a pool, in a type that only the pool knows.
pub(crate) type Identity = Arc<dyn Any + Send + Sync>;

/// The calling thread is a worker of this pool from now on, known to it as `worker`; 0: of none.
pub(crate) fn work_for(number: u64, worker: Option<Identity>) {
    let _ = WORKS_FOR.try_with(|works_for| works_for.set(number));
    let before = WORKER.try_with(|mine| mine.replace(worker));
    drop(before); // the last reference to the pool, perhaps: not while it is borrowed
}

/// What the pool that this thread is a worker of knows it by.
pub(crate) fn current_worker() -> Option<Identity> {
    WORKER.try_with(|worker| worker.borrow().clone()).ok().flatten()
}

/// All that a thread works for, for a temporary thread that runs a task in its stead.
pub(crate) struct WorksFor {
    pool: u64,
    worker: Option<Identity>,
    schedulers: Vec<u64>,
    /// The thread itself, and those that wait for it.
    waiting: Vec<u64>,
}

impl WorksFor {
    /// What the calling thread works for.
    pub(crate) fn current() -> WorksFor {
        let mut waiting = WAITING.try_with(|waiting| waiting.borrow().clone()).unwrap_or_default();
        waiting.push(RunId::current().thread);
        WorksFor {
            waiting,
            pool: WORKS_FOR.try_with(Cell::get).unwrap_or(0),
            worker: current_worker(),
            schedulers: SCHEDULERS.try_with(|schedulers| schedulers.borrow().clone()).unwrap_or_default(),
        }
    }

    /// From now on the calling thread, which works for nobody, works for the same.
    pub(crate) fn adopt(&self) {
        work_for(self.pool, self.worker.clone());
        let _ = SCHEDULERS.try_with(|schedulers| schedulers.replace(self.schedulers.clone()));
        let _ = WAITING.try_with(|waiting| waiting.replace(self.waiting.clone()));
    }
}

/// Tells whether `run` goes on on the calling thread, or on a thread that waits until this one has run a task for it.
pub(crate) fn waits_for_this_thread(run: RunId) -> bool {
    let waits = || WAITING.try_with(|waiting| waiting.borrow().contains(&run.thread));
    run.thread != 0 && (run.is_of_this_thread() || waits().unwrap_or(false))
}

/// Tells whether the calling thread works for any pool or scheduler.
pub(crate) fn works_for_any() -> bool {
    let of_pool = || WORKS_FOR.try_with(|works_for| works_for.get() != 0);
    let of_scheduler = || SCHEDULERS.try_with(|schedulers| !schedulers.borrow().is_empty());
    of_pool().unwrap_or(false) || of_scheduler().unwrap_or(false)
}

/// While it lives the calling thread works for a scheduler, besides all that it works for already.
#[derive(Debug)]
pub(crate) struct WorksForScheduler {
    /// It stays on its thread.
    _here: PhantomData<*const ()>,
}

impl WorksForScheduler {
    pub(crate) fn new(number: u64) -> WorksForScheduler {
        let _ = SCHEDULERS.try_with(|schedulers| schedulers.borrow_mut().push(number));
        WorksForScheduler { _here: PhantomData }
    }
}

impl Drop for WorksForScheduler {
    fn drop(&mut self) {
        let _ = SCHEDULERS.try_with(|schedulers| schedulers.borrow_mut().pop());
    }
}

/// Tells whether the calling thread is a worker of this pool, or works for this scheduler.
pub(crate) fn works_for(number: u64) -> bool {
    let of_pool = || WORKS_FOR.try_with(|works_for| works_for.get() == number);
    let of_scheduler = || SCHEDULERS.try_with(|schedulers| schedulers.borrow().contains(&number));
    number != 0 && (of_pool().unwrap_or(false) || of_scheduler().unwrap_or(false))
}

/// Tells whether a task that waits in the scheduler with this number cannot start before the calling thread returns from
/// the task that it runs now. Pools have no such order.
pub(crate) fn is_behind_this_thread(number: u64, id: TaskId, place: &Place) -> bool {
    number >= FIRST_SCHEDULER
        && works_for(number)
        && find_home(number).is_some_and(|home| home.is_behind_this_thread(id, place))
}

/// The pool with this number, if it is still there.
pub(crate) fn find_home(number: u64) -> Option<Arc<dyn TaskOwner>> {
    with_found(number, |found| found.home.upgrade()).flatten()
}

/// Tells the pool with this number that somebody is about to sleep until a task that waits there has run. Returns when it is to be
/// told again, if that is of use.
pub(crate) fn announce_sleep(number: u64) -> Option<Instant> {
    if cfg!(loom) {
        return None; // it would be tried in all orders
    }
    if find_home(number)?.is_waited_for() { None } else { after_a_while() }
}

/// When a worker that wants a task of its own pool to be run should look again whether it can do that itself, if it did not find the
/// task. Then a new thread is to begin with it; should that not come after all, the task is put into the queue, and perhaps nobody is
/// there to take it but the one who waits.
pub(crate) fn look_again(number: u64) -> Option<Instant> {
    if !cfg!(loom) && works_for(number) { after_a_while() } else { None }
}

pub(crate) fn after_a_while() -> Option<Instant> {
    const A_WHILE: Duration = Duration::from_millis(10);
    deadline_after(A_WHILE)
}

/// Tells the pool with this number, if it is still there, that a task was cancelled while it waited.
/// Returns the reference that the pool's queue has leaked, if it has.
#[inline]
pub(crate) fn tell_cancelled(number: u64, removal: Removal<'_>) -> Option<LeakedRef> {
    // The short way: the waitlist that this thread knows had the task, and others, so its pool is still there.
    match strike_off_the_known(number, removal) {
        Some(Removed { leaked: Some(leaked), was_last: false }) => Some(leaked),
        struck => tell_the_pool(number, removal, struck),
    }
}

/// Strikes the task off the waitlist that this thread knows, if that is of the right pool.
#[inline]
fn strike_off_the_known(number: u64, removal: Removal<'_>) -> Option<Removed> {
    let remove_cancelled = |last: &RefCell<Option<Found>>| {
        let known = last.try_borrow().ok()?;
        let found = known.as_ref().filter(|found| found.number == number)?;
        Some(found.cancel_queue.as_ref()?.remove_cancelled(removal))
    };
    LAST.try_with(remove_cancelled).ok().flatten()
}

/// As [`tell_cancelled`], on the long way. `struck`: the task has been struck off, with this result.
///
/// The queue may be the user's own. Whatever it does, the canceller goes on.
#[inline(never)]
fn tell_the_pool(number: u64, removal: Removal<'_>, mut struck: Option<Removed>) -> Option<LeakedRef> {
    with_found(number, |found| {
        let Some(cancel_queue) = &found.cancel_queue else {
            let cancelled = |home: Arc<dyn TaskOwner>| home.cancelled(removal.id(), removal.place());
            catch(|| found.home.upgrade().into_iter().for_each(cancelled));
            return;
        };
        if struck.get_or_insert_with(|| cancel_queue.remove_cancelled(removal)).was_last {
            catch(|| found.home.upgrade().into_iter().for_each(|home| home.emptied()));
        }
    });
    struck?.leaked
}

/// Shows `look` what is known of a pool. What is called may come here again: then it finds the same pool, or searches.
#[inline]
fn with_found<R>(number: u64, look: impl FnOnce(&Found) -> R) -> Option<R> {
    if number == 0 {
        return None;
    }
    let mut look = Some(look);
    let mut seen = LAST.try_with(|last| {
        let known = last.try_borrow().ok()?;
        let found = known.as_ref().filter(|found| found.number == number)?;
        let seen = look.take().map(|look| look(found));
        let is_gone = found.home.strong_count() == 0;
        drop(known);
        if is_gone {
            remember(last, None);
        }
        seen
    });
    if let Some(look) = look {
        let found = search(number)?;
        seen = Ok(Some(look(&found)));
        if found.home.strong_count() > 0 {
            let _ = LAST.try_with(|last| remember(last, Some(found)));
        }
    }
    seen.ok().flatten()
}

/// Keeps what was found instead of what was before; of a pool that is gone nothing is kept.
#[cold]
fn remember(last: &RefCell<Option<Found>>, found: Option<Found>) {
    let before = last.try_borrow_mut().map(|mut last| std::mem::replace(&mut *last, found));
    drop(before);
}

#[cold]
fn search(number: u64) -> Option<Found> {
    let home = lock_global(&HOMES).get(&number).cloned()?;
    let cancel_queue = home.upgrade()?.cancel_queue();
    Some(Found { number, home, cancel_queue })
}

/// Schedulers are numbered from here on, pools from 1.
const FIRST_SCHEDULER: u64 = 1 << 31;

/// A pool's entry in the list; it is there as long as this is.
pub(crate) struct OwnerEntry {
    number: u64,
}

impl OwnerEntry {
    /// Enters a pool.
    pub(crate) fn new(home: Weak<dyn TaskOwner>) -> OwnerEntry {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        OwnerEntry::enter(&NEXT, 0, home)
    }

    /// Enters a scheduler, under a number that no pool has.
    pub(crate) fn of_scheduler(home: Weak<dyn TaskOwner>) -> OwnerEntry {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        OwnerEntry::enter(&NEXT, FIRST_SCHEDULER, home)
    }

    /// Numbers have 32 bits, because every task keeps one. They start again when all have been used,
    /// without those that are taken.
    fn enter(next: &AtomicU32, first: u64, home: Weak<dyn TaskOwner>) -> OwnerEntry {
        let mut homes = lock_global(&HOMES);
        loop {
            let next = u64::from(next.fetch_add(1, Ordering::Relaxed)); // changed under the lock only
            let number = first + next % FIRST_SCHEDULER;
            if number != 0 && !homes.contains_key(&number) {
                homes.insert(number, home);
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
        lock_global(&HOMES).remove(&self.number);
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
            Help::NotBefore(std::time::Instant::now() + std::time::Duration::from_secs(self.0))
        }
    }

    #[test]
    fn a_pool_is_found_until_it_is_gone_also_by_who_has_just_found_it() {
        let pools = [1, 2].map(|seconds| Arc::new(Pool(seconds)));
        let weak = |pool: &Arc<Pool>| Arc::downgrade(pool) as Weak<dyn TaskOwner>;
        let addresses = pools.each_ref().map(|pool| OwnerEntry::new(weak(pool)));
        let numbers = addresses.each_ref().map(OwnerEntry::number);
        let is = |found: &Arc<dyn TaskOwner>, pool: &Arc<Pool>| {
            Arc::as_ptr(found).addr() == Arc::as_ptr(pool).addr()
        };
        for at in [0, 0, 1, 0, 1, 1] {
            let found = find_home(numbers[at]).expect("it is there");
            assert!(is(&found, &pools[at]) && !is(&found, &pools[1 - at]));
        }
        let watch = weak(&pools[1]);
        drop((pools, addresses));
        assert!(watch.upgrade().is_none(), "to be found does not keep it");
        assert!(numbers.iter().all(|number| find_home(*number).is_none()));
        assert_eq!(watch.weak_count(), 0, "and it is forgotten");
    }

    /// A pool with a waitlist.
    struct Scheduled {
        list: Arc<List>,
        emptied: AtomicU64,
    }

    /// So many wait.
    struct List(AtomicU64);

    impl CancelQueue for List {
        fn remove_cancelled(&self, _: Removal<'_>) -> Removed {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            Removed { was_last: left == 1, leaked: None }
        }
    }

    impl TaskOwner for Scheduled {
        fn cancelled(&self, _: TaskId, _: &Place) {
            unreachable!("the cancel_queue is told");
        }
        fn cancel_queue(&self) -> Option<Arc<dyn CancelQueue>> {
            Some(Arc::clone(&self.list) as Arc<dyn CancelQueue>)
        }
        fn emptied(&self) {
            self.emptied.fetch_add(1, Ordering::Relaxed);
        }
        fn is_waited_for(self: Arc<Self>) -> bool {
            true
        }
        fn run_inline(&self, _: TaskId, _: &Place) -> Help {
            Help::Done
        }
    }

    #[test]
    fn a_pool_is_told_only_of_the_last_that_is_struck_off_its_waitlist() {
        let list = Arc::new(List(AtomicU64::new(4)));
        let pool = Arc::new(Scheduled { list: Arc::clone(&list), emptied: AtomicU64::new(0) });
        let address = OwnerEntry::new(Arc::downgrade(&pool) as Weak<dyn TaskOwner>);
        let number = address.number();
        let cancel_one = || {
            let leaked = tell_cancelled(number, Removal::new(TaskId::fresh(), &Place::new()));
            assert_eq!(leaked, None);
        };
        let told = || pool.emptied.load(Ordering::Relaxed);
        (0..3).for_each(|_| cancel_one());
        assert_eq!((list.0.load(Ordering::Relaxed), told()), (1, 0), "each is struck off once");
        cancel_one();
        assert_eq!((list.0.load(Ordering::Relaxed), told()), (0, 1));
        cancel_one();
        assert_eq!(
            (Arc::strong_count(&list), told()),
            (3, 1),
            "ours, the pool's, and what this thread knows"
        );
        drop((pool, address));
        cancel_one();
        assert_eq!(Arc::strong_count(&list), 1, "the thread forgets the list of a pool that is gone");
    }
}
