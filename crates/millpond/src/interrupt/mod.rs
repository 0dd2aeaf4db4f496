//! Cooperative interruption: one flag for every thread, and for every task that runs on it.
//!
//! Rust threads cannot be interrupted from outside, so the library keeps a flag for them. Setting it wakes
//! the thread out of every blocking call of this crate ([`sleep`], queue `take` and `put`, `join`,
//! `await_termination`, …), which then returns an error; code that computes looks at the flag itself with
//! [`check`]. Blocking calls of the operating system (a socket read, a file lock) are not woken:
//! register a callback with [`Interrupter::on_interrupt`] that closes the socket or kills the child.
//!
//! A task has a flag of its own. While it runs, [`current`] belongs to it; once it has ended its
//! [`Interrupter`]s do nothing, and a flag set for it is gone. A task that runs inside another one (run by the
//! caller, or run in place by a `join`) again has its own flag; interrupting the outer one reaches both.
//!
//! # Examples
//! ```
//! use millpond::interrupt;
//! use std::time::Duration;
//!
//! let (send, receive) = std::sync::mpsc::channel();
//! let thread = std::thread::spawn(move || {
//!     send.send(interrupt::current()).unwrap();
//!     interrupt::sleep(Duration::from_secs(3600))
//! });
//! receive.recv().unwrap().interrupt();
//! assert!(thread.join().unwrap().is_err());
//! ```

mod callbacks;
pub(crate) mod wait;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::time::{Duration, Instant};

use self::callbacks::{Callback, Callbacks};
use crate::sync::SpinLock;
use crate::sync::{
    Arc, AtomicBool, AtomicU64, Ordering, Parker, Weak, deadline_after, lock_global, thread_local,
};

/// The error of a blocking call that ended because its thread was interrupted; the flag is clear again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted while waiting")
    }
}

impl std::error::Error for Interrupted {}

/// For tasks that read and write: `interrupt::check()?` where the error is an [`io::Error`].
///
/// Its kind is [`Other`](io::ErrorKind::Other), with the `Interrupted` inside. It is not
/// [`io::ErrorKind::Interrupted`], which means "try again", and which `read_exact` and `write_all` obey.
///
/// # Examples
/// ```
/// use millpond::interrupt;
/// use std::io::{self, Read, Write};
///
/// fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
///     let mut block = [0; 4096];
///     loop {
///         interrupt::check()?;
///         match from.read(&mut block)? {
///             0 => return Ok(()),
///             n => to.write_all(&block[..n])?,
///         }
///     }
/// }
/// let mut copied = Vec::new();
/// copy(&mut &b"ten thousand rows"[..], &mut copied)?;
/// assert_eq!(copied.len(), 17);
/// # Ok::<(), io::Error>(())
/// ```
impl From<Interrupted> for io::Error {
    fn from(interrupted: Interrupted) -> io::Error {
        io::Error::other(interrupted)
    }
}

/// Tells whether the current task or thread is interrupted, and leaves the flag as it is.
pub fn is_interrupted() -> bool {
    ThreadContext::with_current(|me| me.is_interrupted())
}

/// Tells whether the current task or thread is interrupted, and clears the flag.
#[inline]
pub fn interrupted() -> bool {
    // As a rule it is not, and blocking calls ask each time: a queue hands an item over in the time of three such looks.
    CURRENT.try_with(|me| me.is_interrupted()).unwrap_or(true) && take_interrupt()
}

#[cold]
fn take_interrupt() -> bool {
    ThreadContext::with_current(|me| me.take_interrupt())
}

/// Fails if the current task or thread is interrupted, and then clears the flag: for loops, as `check()?`.
///
/// # Errors
/// [`Interrupted`] if the flag was set.
#[inline]
pub fn check() -> Result<(), Interrupted> {
    if interrupted() { Err(Interrupted) } else { Ok(()) }
}

/// Sleeps for `duration`, unless interrupted. `Duration::MAX` sleeps for ever.
///
/// # Errors
/// [`Interrupted`] if the flag is set when called, or as soon as it is set.
pub fn sleep(duration: Duration) -> Result<(), Interrupted> {
    match ThreadContext::with_current(|me| me.wait(deadline_after(duration), || false)) {
        Wake::Interrupted => Err(Interrupted),
        Wake::Ready | Wake::TimedOut => Ok(()),
    }
}

/// The interrupter of the current task, or of the current thread when it runs no task.
pub fn current() -> Interrupter {
    let interrupter = current_without_callbacks();
    interrupter.thread.has_interrupters.store(true, Ordering::Relaxed);
    interrupter
}

/// As [`current`], for an interrupter that stays inside the crate and on which nobody calls
/// `on_interrupt`: spares the end of the task a lock.
pub(crate) fn current_without_callbacks() -> Interrupter {
    let thread = ThreadContext::current();
    // A thread whose locals are destroyed has no sleeper that others could reach.
    let epoch = if thread.number == 0 { Word::NEVER } else { thread.load().epoch() };
    Interrupter { thread, epoch }
}

/// What a thread does at one moment, by numbers: the thread's and the epoch's. For whoever has to remember it for each of
/// many tasks, of which few are ever interrupted: to remember an [`Interrupter`] means to count it in and out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunId {
    /// 0: a thread that nobody can find.
    pub(crate) thread: u64,
    pub(crate) epoch: u64,
}

impl RunId {
    /// Of what the calling thread does now.
    #[inline]
    pub(crate) fn current() -> RunId {
        let of = |me: &Arc<ThreadContext>| RunId { thread: me.number, epoch: me.load().epoch() };
        CURRENT.try_with(|me| of(me)).unwrap_or(RunId { thread: 0, epoch: 0 })
    }

    /// It is of the calling thread.
    pub(crate) fn is_of_this_thread(self) -> bool {
        self.thread == RunId::current().thread
    }

    /// As [`Interrupter::interrupt`] of what was going on: does nothing if that has ended.
    pub(crate) fn interrupt(self) {
        let found = lock_global(&THREADS).get(&self.thread).and_then(Weak::upgrade);
        if let Some(thread) = found {
            Interrupter { thread, epoch: self.epoch }.interrupt();
        }
    }
}

/// All threads that have an interrupt flag, by number. Only those who interrupt a task look here.
static THREADS: std::sync::Mutex<BTreeMap<u64, Weak<ThreadContext>>> = std::sync::Mutex::new(BTreeMap::new());

/// Interrupts one task or thread, from anywhere. Made by [`current`].
#[derive(Clone)]
pub struct Interrupter {
    thread: Arc<ThreadContext>,
    epoch: u64,
}

impl Interrupter {
    /// Sets the flag and wakes the task or thread if it blocks in a call of this crate.
    ///
    /// Does nothing if the task has ended. Runs the callbacks of [`on_interrupt`](Self::on_interrupt) before it
    /// returns; a callback that panics does not keep the others from running.
    pub fn interrupt(&self) {
        self.thread.interrupt(Some(self.epoch));
    }

    /// Tells whether the flag of this task or thread is set. False once the task has ended.
    pub fn is_interrupted(&self) -> bool {
        self.thread.slow.lock().flag_of(self.epoch, self.thread.load()).unwrap_or(false)
    }

    /// Tells whether the thread sleeps in a blocking call of this crate: for tests that must not begin before it does.
    #[doc(hidden)]
    pub fn is_parked(&self) -> bool {
        self.thread.parked.load(Ordering::Relaxed)
    }

    /// Calls `f` when this task or thread is interrupted, on the interrupting thread; at once, on this
    /// thread, if it already is. Does nothing, and drops `f`, if the task or thread has ended.
    ///
    /// Keep the [`Registration`]: dropping it takes the callback back. A callback that was not called is
    /// dropped with the registration, or when its task ends. Dropping the registration waits for a
    /// callback that is running, and so does the end of the task or thread: a callback never reaches
    /// what its thread does next, such as the next query on the same connection. The thread that runs
    /// the callback does not wait for it.
    ///
    /// The callback must be short and must not block: the interrupting thread may be a thread of an
    /// async runtime (see [`cancel_on_drop`](crate::TaskHandle::cancel_on_drop)). To avoid a deadlock it
    /// must not wait for the task that it interrupts, nor for a lock that the task holds while it drops
    /// the registration.
    ///
    /// # Examples
    /// For a task that blocks outside of this crate: the callback closes the socket, kills the child, or, here, drops the
    /// other end of a channel.
    /// ```
    /// use millpond::{executors, interrupt};
    /// use std::sync::mpsc;
    ///
    /// let pool = executors::fixed(1)?;
    /// let blocked = pool.submit(|| {
    ///     let (stop, stopped) = mpsc::channel::<()>();
    ///     let _registration = interrupt::current().on_interrupt(move || drop(stop));
    ///     stopped.recv() // knows nothing of interrupts
    /// })?;
    /// blocked.cancel(true);
    /// pool.close(); // does not wait for ever
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_interrupt(&self, f: impl FnOnce() + Send + 'static) -> Registration {
        let f: Callback = Box::new(f);
        let thread = &self.thread;
        let mut slow = thread.slow.lock();
        let key = match slow.flag_of(self.epoch, thread.load()) {
            Some(false) => slow.callbacks.add(self.epoch, f),
            Some(true) => {
                let key = slow.callbacks.begin(self.epoch);
                drop(slow);
                thread.run_callback(key, f);
                0
            }
            None => {
                drop(slow);
                drop(f); // its captures are the user's: not under our lock
                0
            }
        };
        Registration { thread: Arc::clone(thread), key }
    }
}

impl fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupter").field("interrupted", &self.is_interrupted()).finish_non_exhaustive()
    }
}

/// Keeps a callback of [`Interrupter::on_interrupt`] in place; dropping it takes the callback back.
///
/// Dropping it blocks while the callback runs on another thread, whether the dropping thread is
/// interrupted or not. Afterwards the callback has ended or never begins.
#[must_use = "dropping the registration takes the callback back"]
pub struct Registration {
    thread: Arc<ThreadContext>,
    /// The callback's number on its thread; 0: it is not registered.
    key: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.key != 0 {
            self.thread.remove_callback(self.key);
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").finish_non_exhaustive()
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    Ready,
    TimedOut,
    Interrupted,
}

/// Bit 0: the interrupt flag. The rest: the epoch that the flag belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

impl Word {
    /// An epoch that never comes.
    const NEVER: u64 = u64::MAX >> 1;

    fn clear(epoch: u64) -> Word {
        Word(epoch << 1)
    }
    fn epoch(self) -> u64 {
        self.0 >> 1
    }
    fn flag(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A thread, seen as something that can be put to sleep, woken and interrupted.
///
/// Every blocking call of the crate waits on the parker of its own thread's `ThreadContext`, so one `unpark` serves
/// as wake-up for whatever the thread waits for, and an interrupt needs to know nothing about it.
pub(crate) struct ThreadContext {
    /// Under which it is listed; 0: it is not.
    number: u64,
    parker: Parker,
    /// The owner is in `parker`, or on its way into or out of it. Nothing but tests looks at it.
    parked: AtomicBool,
    /// A [`Word`]: the epoch of what the thread does now (one task, or the time between tasks) and its flag.
    ///
    /// Epochs only grow. The owner begins an epoch by a plain store and clears the flag by a read-modify-write;
    /// others only set the flag, by compare-exchange from the epoch that they mean. So a flag that
    /// comes too late fails to be set, and can't reach the task after.
    word: AtomicU64,
    /// The last epoch given out. Only the owner touches it.
    last_epoch: AtomicU64,
    /// True if an [`Interrupter`] was handed out in this epoch, so that there may be callbacks: spares
    /// the end of most tasks the lock. Only the owner touches it.
    has_interrupters: AtomicBool,
    slow: SpinLock<Slow>,
}

#[derive(Default)]
struct Slow {
    /// What the thread was doing when a nested task began: outermost first.
    outer: Vec<Outer>,
    callbacks: Callbacks,
}

/// An epoch that goes on after the nested task.
struct Outer {
    epoch: u64,
    flag: bool,
    /// What `has_interrupters` was.
    has_interrupters: bool,
}

impl Slow {
    /// The flag of `epoch`, if that is going on: now, or around what goes on now.
    fn flag_of(&self, epoch: u64, now: Word) -> Option<bool> {
        if now.epoch() == epoch {
            return Some(now.flag());
        }
        self.outer.iter().find(|outer| outer.epoch == epoch).map(|outer| outer.flag)
    }
}

/// For those who wake whatever waits: a task of an async runtime, or a thread.
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
    static CURRENT: Owner = Owner(ThreadContext::listed());
}

/// The thread that a sleeper belongs to. Dropping it ends the thread's last epoch.
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

    /// One that can be found by its number, as long as it is there.
    fn listed() -> Arc<ThreadContext> {
        // Always std's, as the list is. Relaxed: only uniqueness matters.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let thread = Arc::new(ThreadContext::new(number));
        lock_global(&THREADS).insert(number, Arc::downgrade(&thread));
        thread
    }

    /// The calling thread's sleeper. While the thread's locals are being destroyed it is a passing one,
    /// which can wait but which nobody can interrupt.
    pub(crate) fn current() -> Arc<ThreadContext> {
        CURRENT.try_with(|me| Arc::clone(me)).unwrap_or_else(|_| Arc::new(ThreadContext::new(0)))
    }

    /// Calls `f` with the calling thread's sleeper, without touching its reference count.
    pub(crate) fn with_current<R>(f: impl FnOnce(&Arc<ThreadContext>) -> R) -> R {
        let mut f = Some(f);
        let mut call = |me: &Arc<ThreadContext>| f.take().map(|f| f(me));
        CURRENT
            .try_with(|me| call(me))
            .unwrap_or_else(|_| call(&Arc::new(ThreadContext::new(0))))
            .expect("one of the two calls it, and only one")
    }

    #[inline]
    fn load(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.load().flag()
    }

    /// Reads and clears the flag. Owner only.
    pub(crate) fn take_interrupt(&self) -> bool {
        self.is_interrupted() && Word(self.word.fetch_and(!1, Ordering::AcqRel)).flag()
    }

    /// Sets the flag of what the thread does now. Owner only: to give an interrupt back that was taken.
    pub(crate) fn restore_interrupt(&self) {
        self.word.fetch_or(1, Ordering::AcqRel);
    }

    pub(crate) fn unpark(&self) {
        self.parker.unpark();
    }

    fn park(&self, deadline: Option<Instant>) -> bool {
        // Relaxed is enough for a look from outside, and costs nothing beside a sleep.
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

    /// Blocks until `ready`, an interrupt or `deadline`, looked at in this order. Owner only.
    ///
    /// Whoever makes `ready` true calls `unpark` afterwards. An interrupt is consumed when it is returned.
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

    /// Blocks until `ready` or `deadline`; false at the deadline. Interrupts wait meanwhile. Owner only.
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

    /// Sets the flag of `epoch` (`None`: of all that goes on), wakes the thread and runs the callbacks.
    fn interrupt(&self, epoch: Option<u64>) {
        let mut slow = self.slow.lock();
        let now = self.load();
        let from = match epoch {
            None => 0,
            Some(epoch) => match slow.outer.iter().position(|outer| outer.epoch == epoch) {
                Some(at) => at,
                None if now.epoch() == epoch => slow.outer.len(),
                None => return, // that task has ended
            },
        };
        // A worker goes from epoch to epoch without the lock: the exchange then fails and we must not follow.
        // It may also fail because the owner took an earlier interrupt: then ours is still to be set.
        let mut current = now;
        while current.epoch() == now.epoch() && !current.flag() {
            let set = current.0 | 1;
            match self.word.compare_exchange(current.0, set, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(seen) => current = Word(seen),
            }
        }
        for outer in &mut slow.outer[from..] {
            outer.flag = true;
        }
        if slow.callbacks.is_empty() {
            drop(slow);
            return self.unpark();
        }
        let reached = slow.outer[from..].iter().map(|outer| outer.epoch);
        let reached: Vec<u64> =
            reached.chain((current.epoch() == now.epoch()).then_some(now.epoch())).collect();
        let last_key = slow.callbacks.last_key();
        drop(slow);
        self.unpark();
        self.run_callbacks(&reached, last_key);
    }

    /// Interrupts whatever the thread does now.
    pub(crate) fn interrupt_all(&self) {
        self.interrupt(None);
    }

    fn begin_epoch(&self) -> u64 {
        let epoch = self.last_epoch.load(Ordering::Relaxed) + 1;
        self.last_epoch.store(epoch, Ordering::Relaxed);
        self.word.store(Word::clear(epoch).0, Ordering::Release);
        epoch
    }

    /// Begins a new epoch in the place of the one before: a worker's next task, or its time between tasks.
    /// Owner only, and not inside a [`TaskFrame`].
    pub(crate) fn next_epoch(&self) {
        if self.has_interrupters.load(Ordering::Relaxed) {
            return self.next_epoch_without_callbacks();
        }
        self.begin_epoch();
    }

    #[cold]
    fn next_epoch_without_callbacks(&self) {
        let ended = self.load().epoch();
        self.has_interrupters.store(false, Ordering::Relaxed);
        self.begin_epoch();
        self.end_callbacks(ended);
    }
}

impl Drop for ThreadContext {
    fn drop(&mut self) {
        if self.number != 0 {
            lock_global(&THREADS).remove(&self.number);
        }
    }
}

/// The frame of a task that runs inside something else on this thread; dropping it goes back to that.
pub(crate) struct TaskFrame {
    /// `None`: the thread's own. Its reference count is not touched, which would cost as much as all else here.
    passing: Option<Arc<ThreadContext>>,
}

impl TaskFrame {
    #[inline]
    pub(crate) fn enter() -> TaskFrame {
        let passing = CURRENT.try_with(|me| me.nest()).map_or_else(
            |_| {
                let passing = Arc::new(ThreadContext::new(0));
                passing.nest();
                Some(passing)
            },
            |()| None,
        );
        TaskFrame { passing }
    }
}

impl Drop for TaskFrame {
    fn drop(&mut self) {
        match &self.passing {
            Some(passing) => passing.unnest(),
            // It was there when the frame began, and a thread's locals are not destroyed inside of a frame.
            None => drop(CURRENT.try_with(|me| me.unnest())),
        }
    }
}

impl ThreadContext {
    /// A task begins inside of what goes on. Owner only.
    fn nest(&self) {
        let mut slow = self.slow.lock();
        let outer = self.load();
        slow.outer.push(Outer {
            epoch: outer.epoch(),
            flag: outer.flag(),
            has_interrupters: self.has_interrupters.load(Ordering::Relaxed),
        });
        self.has_interrupters.store(false, Ordering::Relaxed);
        self.begin_epoch();
        // An interrupt is set under the lock, or by the owner: none can fall between load and begin.
    }

    /// It has ended. Owner only.
    fn unnest(&self) {
        let had_interrupters = self.has_interrupters.load(Ordering::Relaxed);
        let mut slow = self.slow.lock();
        let ended = self.load().epoch();
        let outer = slow.outer.pop().expect("pushed when the task began");
        self.word.store(Word::clear(outer.epoch).0 | u64::from(outer.flag), Ordering::Release);
        drop(slow);
        self.has_interrupters.store(outer.has_interrupters, Ordering::Relaxed);
        if had_interrupters {
            self.end_callbacks(ended);
        }
    }
}
