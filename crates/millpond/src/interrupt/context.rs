//! [`ThreadContext`]: a thread that can be parked, woken and interrupted.
//!
//! The life of a thread is divided into epochs: each task that it runs is an epoch, and so is the
//! time between tasks. A task that runs inside another one (a [`TaskFrame`]) is a nested epoch. The
//! interrupt flag belongs to the current epoch.
//!
//! Invariants
//! 1. Epochs only grow. Only the owner begins an epoch, by a plain store, and only the owner clears
//!    the flag, by a read-modify-write. Other threads set the flag under the lock of `slow`, by a
//!    compare-exchange from the epoch they mean. So a late interrupt does not reach the next task.
//! 2. The owner ends an epoch before it takes the lock to remove the callbacks of that epoch. A
//!    thread that has the lock earlier leaves its callback to the owner. A thread that has the lock
//!    later finds that the epoch has ended. Models: `loom_tests/interrupt.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::task::Waker;
use std::time::Instant;

use super::callbacks::{Callback, Callbacks, Which};
use super::word::Word;
use crate::panic::{catch, drop_caught};
use crate::sync::{Arc, AtomicBool, AtomicU64, Ordering, Parker, SpinLock, Weak, lock_global, thread_local};

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    Ready,
    TimedOut,
    Interrupted,
}

/// Identifies an epoch of a thread, by the numbers of the thread and the epoch. Cheaper to store in
/// each of many tasks than a reference to the context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunId {
    /// 0 stands for a thread that is not registered.
    pub(crate) thread: u64,
    pub(crate) epoch: u64,
}

impl RunId {
    /// Returns the current epoch of the calling thread.
    #[inline]
    pub(crate) fn current() -> RunId {
        let of = |me: &Arc<ThreadContext>| RunId { thread: me.number, epoch: me.load().epoch() };
        CURRENT.try_with(|me| of(me)).unwrap_or(RunId { thread: 0, epoch: 0 })
    }

    pub(crate) fn is_of_this_thread(self) -> bool {
        self.thread == RunId::current().thread
    }

    /// Interrupts the epoch, like [`Interrupter::interrupt`](super::Interrupter::interrupt). Does
    /// nothing if the epoch has ended.
    pub(crate) fn interrupt(self) {
        let found = lock_global(&THREADS).get(&self.thread).and_then(Weak::upgrade);
        if let Some(thread) = found {
            thread.interrupt(Some(self.epoch));
        }
    }
}

/// All registered threads by number. Read only by threads that interrupt a task.
static THREADS: std::sync::Mutex<BTreeMap<u64, Weak<ThreadContext>>> = std::sync::Mutex::new(BTreeMap::new());

/// A thread that can be parked, woken and interrupted.
///
/// Every blocking call of the crate waits on the parker of its own thread's context. So one
/// `unpark` ends any wait, and an interrupt does not need to know what the thread waits for.
pub(crate) struct ThreadContext {
    /// The key in [`THREADS`]; 0 if not registered.
    number: u64,
    parker: Parker,
    /// True if the owner is in `parker`, or about to enter or leave it. Only tests read it.
    parked: AtomicBool,
    /// A [`Word`]: the current epoch and its flag. Invariant 1. Stores and exchanges release, loads
    /// acquire. So a thread that sees the flag sees what the interrupting thread wrote before.
    word: AtomicU64,
    /// The last epoch that was begun. Accessed by the owner only.
    last_epoch: AtomicU64,
    /// True if an [`Interrupter`](super::Interrupter) was created in this epoch, so callbacks may
    /// exist. If false, ending a task takes no lock. Accessed by the owner only.
    has_interrupters: AtomicBool,
    slow: SpinLock<Slow>,
}

#[derive(Default)]
struct Slow {
    /// The epochs around the current one, outermost first.
    outer: Vec<Outer>,
    callbacks: Callbacks,
}

/// An epoch that continues after the nested one.
struct Outer {
    epoch: u64,
    flag: bool,
    /// The value of `ThreadContext::has_interrupters` in that epoch.
    has_interrupters: bool,
}

impl Slow {
    /// Returns the flag of `epoch`, if that is the current epoch or one around it.
    fn flag_of(&self, epoch: u64, now: Word) -> Option<bool> {
        if now.epoch() == epoch {
            return Some(now.flag());
        }
        self.outer.iter().find(|outer| outer.epoch == epoch).map(|outer| outer.flag)
    }
}

/// Unparks the thread as a waker.
impl std::task::Wake for ThreadContext {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

impl fmt::Debug for ThreadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadContext").field("interrupted", &self.is_interrupted()).finish_non_exhaustive()
    }
}

thread_local! {
    static CURRENT: Owner = Owner(ThreadContext::registered());
}

/// Held by the thread that a context belongs to. Dropping it ends the thread's last epoch.
struct Owner(Arc<ThreadContext>);

impl Deref for Owner {
    type Target = Arc<ThreadContext>;

    fn deref(&self) -> &Arc<ThreadContext> {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.next_epoch();
    }
}

impl ThreadContext {
    fn new(number: u64) -> Self {
        ThreadContext {
            number,
            parker: Parker::for_this_thread(),
            parked: AtomicBool::new(false),
            word: AtomicU64::new(0),
            last_epoch: AtomicU64::new(0),
            has_interrupters: AtomicBool::new(false),
            slow: SpinLock::new(Slow::default()),
        }
    }

    /// Creates a context that can be found by its number while it exists.
    fn registered() -> Arc<ThreadContext> {
        // Always std's atomic, like the registry. Relaxed: only uniqueness matters.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let thread = Arc::new(ThreadContext::new(number));
        lock_global(&THREADS).insert(number, Arc::downgrade(&thread));
        thread
    }

    /// Returns the context of the calling thread. While the thread-locals are destroyed, returns a
    /// temporary context, which can wait but cannot be interrupted.
    #[inline]
    pub(crate) fn current() -> Arc<ThreadContext> {
        CURRENT.try_with(|me| Arc::clone(me)).unwrap_or_else(|_| Arc::new(ThreadContext::new(0)))
    }

    /// Calls `f` with the context of the calling thread, without changing its reference count.
    pub(crate) fn with_current<R>(f: impl FnOnce(&Arc<ThreadContext>) -> R) -> R {
        let mut f = Some(f);
        let mut call = |me: &Arc<ThreadContext>| f.take().map(|f| f(me));
        CURRENT
            .try_with(|me| call(me))
            .unwrap_or_else(|_| call(&Arc::new(ThreadContext::new(0))))
            .expect("exactly one of the two calls runs")
    }

    /// Returns the interrupt flag of the calling thread; true if its thread-locals are destroyed.
    #[inline]
    pub(super) fn may_be_interrupted() -> bool {
        CURRENT.try_with(|me| me.is_interrupted()).unwrap_or(true)
    }

    #[inline]
    fn load(&self) -> Word {
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Returns the current epoch. Other threads cannot reach a temporary context, so it has an
    /// epoch that never begins.
    pub(super) fn epoch(&self) -> u64 {
        if self.number == 0 { Word::NEVER } else { self.load().epoch() }
    }

    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.load().flag()
    }

    /// Reads and clears the flag. Owner only.
    pub(crate) fn take_interrupt(&self) -> bool {
        self.is_interrupted() && Word::from_bits(self.word.fetch_and(!Word::FLAG, Ordering::AcqRel)).flag()
    }

    /// Sets the flag of the current epoch again after an interrupt was taken. Owner only.
    pub(crate) fn restore_interrupt(&self) {
        self.word.fetch_or(Word::FLAG, Ordering::AcqRel);
    }

    #[inline]
    pub(crate) fn unpark(&self) {
        self.parker.unpark();
    }

    pub(super) fn is_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    fn park(&self, deadline: Option<Instant>) -> bool {
        // Relaxed: only tests read it, by polling.
        self.parked.store(true, Ordering::Relaxed);
        let in_time = self.parker.park(deadline);
        self.parked.store(false, Ordering::Relaxed);
        in_time
    }

    #[cfg(all(loom, test))]
    pub(crate) fn fire_timer(&self) {
        self.parker.fire_timer();
    }

    #[cfg(all(loom, test))]
    pub(crate) fn fire_timer_once(&self) {
        self.parker.fire_timer_once();
    }

    /// Blocks until `ready`, an interrupt or `deadline`, checked in this order. Owner only.
    ///
    /// A thread that makes `ready` true calls `unpark` afterwards. `Wake::Interrupted` clears the
    /// flag.
    pub(crate) fn wait(&self, deadline: Option<Instant>, mut ready: impl FnMut() -> bool) -> Wake {
        loop {
            if ready() {
                return Wake::Ready;
            }
            if self.take_interrupt() {
                return Wake::Interrupted;
            }
            if !self.park(deadline) {
                return if ready() { Wake::Ready } else { Wake::TimedOut };
            }
        }
    }

    /// Blocks until `ready` or `deadline`. Returns false at the deadline. An interrupt does not end
    /// the wait, and its flag stays set. Owner only.
    pub(crate) fn wait_through_interrupts(
        &self,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        while !ready() {
            if !self.park(deadline) {
                return ready();
            }
        }
        true
    }

    /// Interrupts the current epoch and all epochs around it.
    pub(crate) fn interrupt_all(&self) {
        self.interrupt(None);
    }

    /// Sets the flags of `epoch` and of the epochs inside it, wakes the thread and runs the
    /// callbacks. `None` stands for all epochs.
    pub(super) fn interrupt(&self, epoch: Option<u64>) {
        let mut slow = self.slow.lock();
        let now = self.load();
        let from = match epoch {
            None => 0,
            Some(epoch) => match slow.outer.iter().position(|outer| outer.epoch == epoch) {
                Some(at) => at,
                None if now.epoch() == epoch => slow.outer.len(),
                None => return, // that epoch has ended
            },
        };
        let reached_now = self.set_flag(now);
        for outer in &mut slow.outer[from..] {
            outer.flag = true;
        }
        if slow.callbacks.is_empty() {
            drop(slow);
            return self.unpark();
        }
        let outer = slow.outer[from..].iter().map(|outer| outer.epoch);
        let reached: Vec<u64> = outer.chain(reached_now.then_some(now.epoch())).collect();
        let last_key = slow.callbacks.last_key();
        drop(slow);
        self.unpark();
        self.run_callbacks(&reached, last_key);
    }

    /// Sets the flag if the epoch is still that of `now`. Returns false if that epoch has ended: a
    /// worker begins new epochs without the lock.
    fn set_flag(&self, now: Word) -> bool {
        let mut current = now;
        while current.epoch() == now.epoch() && !current.flag() {
            let (from, to) = (current.to_bits(), current.to_bits() | Word::FLAG);
            match self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                // The owner took an earlier interrupt, or began another epoch.
                Err(seen) => current = Word::from_bits(seen),
            }
        }
        current.epoch() == now.epoch()
    }

    /// Returns the flag of `epoch`, or `None` if it has ended.
    pub(super) fn flag_of(&self, epoch: u64) -> Option<bool> {
        self.slow.lock().flag_of(epoch, self.load())
    }

    /// Records that an interrupter of the current epoch was created. Owner only.
    pub(super) fn expect_callbacks(&self) {
        self.has_interrupters.store(true, Ordering::Relaxed);
    }

    fn begin_epoch(&self) {
        let epoch = self.last_epoch.load(Ordering::Relaxed) + 1;
        self.last_epoch.store(epoch, Ordering::Relaxed);
        self.word.store(Word::new(epoch, false).to_bits(), Ordering::Release);
    }

    /// Ends the current epoch and begins the next one: a worker's next task, or the time between
    /// tasks. Owner only, and not inside a [`TaskFrame`].
    pub(crate) fn next_epoch(&self) {
        if self.has_interrupters.load(Ordering::Relaxed) {
            return self.next_epoch_with_callbacks();
        }
        self.begin_epoch();
    }

    #[cold]
    fn next_epoch_with_callbacks(&self) {
        let ended = self.load().epoch();
        self.has_interrupters.store(false, Ordering::Relaxed);
        self.begin_epoch();
        self.end_callbacks(ended);
    }

    /// Begins an epoch inside the current one. Owner only.
    fn nest(&self) {
        let mut slow = self.slow.lock();
        // Other threads set the flag under the lock (1), so no flag is lost between the load and
        // the begin.
        let outer = self.load();
        slow.outer.push(Outer {
            epoch: outer.epoch(),
            flag: outer.flag(),
            has_interrupters: self.has_interrupters.load(Ordering::Relaxed),
        });
        self.has_interrupters.store(false, Ordering::Relaxed);
        self.begin_epoch();
    }

    /// Ends a nested epoch. Owner only.
    fn unnest(&self) {
        let had_interrupters = self.has_interrupters.load(Ordering::Relaxed);
        let mut slow = self.slow.lock();
        let ended = self.load().epoch();
        let outer = slow.outer.pop().expect("`nest` has pushed an entry");
        self.word.store(Word::new(outer.epoch, outer.flag).to_bits(), Ordering::Release);
        drop(slow);
        self.has_interrupters.store(outer.has_interrupters, Ordering::Relaxed);
        if had_interrupters {
            self.end_callbacks(ended);
        }
    }

    /// Registers `f` for an interrupt of `epoch` and returns its key. If the flag is already set,
    /// runs `f` at once and returns 0. If the epoch has ended, drops `f` and returns 0.
    pub(super) fn add_callback(&self, epoch: u64, f: Callback) -> u64 {
        let mut slow = self.slow.lock();
        match slow.flag_of(epoch, self.load()) {
            Some(false) => return slow.callbacks.add(epoch, f),
            Some(true) => {
                let key = slow.callbacks.begin(epoch, RunId::current().thread);
                drop(slow);
                self.run_callback(key, f);
            }
            None => {
                drop(slow);
                drop(f); // runs destructors of user code, so after the lock
            }
        }
        0
    }

    /// Runs all callbacks that wait for one of `epochs` and whose key is at most `last_key`.
    fn run_callbacks(&self, epochs: &[u64], last_key: u64) {
        let this_thread = RunId::current().thread;
        let next = || self.slow.lock().callbacks.begin_next(epochs, last_key, this_thread);
        while let Some((key, f)) = next() {
            self.run_callback(key, f);
        }
    }

    fn run_callback(&self, key: u64, f: Callback) {
        catch(f);
        let waiters = self.slow.lock().callbacks.end(key);
        for waiter in waiters {
            waiter.wake();
        }
    }

    /// Removes a callback. On return it has ended or cannot begin, unless the calling thread runs
    /// it.
    pub(super) fn remove_callback(&self, key: u64) {
        let unused = self.slow.lock().callbacks.remove(key);
        match unused {
            Some(unused) => drop(unused), // runs destructors of user code, so after the lock
            None => self.wait_for_callbacks(Which::Key(key)),
        }
    }

    /// Called after the owner has ended `epoch`. On return the callbacks of that epoch have ended
    /// or are gone, except callbacks that the owner itself runs.
    #[cold]
    fn end_callbacks(&self, epoch: u64) {
        let unused = self.slow.lock().callbacks.remove_all(epoch);
        unused.into_iter().for_each(drop_caught);
        self.wait_for_callbacks(Which::Epoch(epoch));
    }

    fn wait_for_callbacks(&self, which: Which) {
        let this_thread = RunId::current().thread;
        let me = ThreadContext::current();
        let waker = Waker::from(Arc::clone(&me));
        // Each check registers for the end of one running callback, so the thread is woken for the
        // next check.
        let all_ended = || !self.slow.lock().callbacks.wake_at_end(which, this_thread, &waker);
        me.wait_through_interrupts(None, all_ended);
    }
}

impl Drop for ThreadContext {
    fn drop(&mut self) {
        if self.number != 0 {
            lock_global(&THREADS).remove(&self.number);
        }
    }
}

/// A nested epoch on the calling thread, for a task that runs inside another call. Dropping it ends
/// the epoch.
pub(crate) struct TaskFrame {
    /// False while the thread-locals are destroyed: no other thread can interrupt this one then.
    nested: bool,
}

impl TaskFrame {
    #[inline]
    pub(crate) fn enter() -> TaskFrame {
        TaskFrame { nested: CURRENT.try_with(|me| me.nest()).is_ok() }
    }
}

impl Drop for TaskFrame {
    fn drop(&mut self) {
        if self.nested {
            // Thread-locals are not destroyed inside a frame, so the context still exists.
            let _ = CURRENT.try_with(|me| me.unnest());
        }
    }
}
