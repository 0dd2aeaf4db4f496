//! Cooperative interruption: an interrupt flag for each thread, and for each task that runs on it.
//!
//! Rust threads cannot be interrupted from outside, so the library keeps a flag for each thread.
//! Setting the flag ends the blocking calls of this crate on that thread ([`sleep`], queue `take`
//! and `put`, `join`, `await_termination`, …) with an error. Three waits go on, because they
//! guarantee that other code has ended: `scope`, `close`, and dropping a [`Registration`]. Code
//! that computes checks the flag with [`check`]. Blocking calls of the operating system (a socket
//! read, a file lock) do not end. For these, register a callback with [`Interrupter::on_interrupt`]
//! that closes the socket or kills the child process.
//!
//! A task has its own flag. While the task runs, [`current`] refers to this flag. Once the task has
//! ended, its [`Interrupter`]s do nothing, and its flag is discarded. A task that runs inside
//! another one (a policy runs it on the caller's thread, or a `join` runs it inline) has its own
//! flag, too. Interrupting the outer task sets both flags.
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
mod context;
pub(crate) mod wait;
mod wait_list;
mod word;

use std::fmt;
use std::io;
use std::time::Duration;

use crate::sync::{Arc, deadline_after};

pub(crate) use context::{RunId, TaskFrame, ThreadContext, Wake};

/// The error of a blocking call that was ended by an interrupt. The flag is clear again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted while waiting")
    }
}

impl std::error::Error for Interrupted {}

/// Allows `interrupt::check()?` in functions that return an [`io::Error`].
///
/// The kind is [`Other`](io::ErrorKind::Other), with the `Interrupted` as source. It is not
/// [`io::ErrorKind::Interrupted`], which `read_exact` and `write_all` would retry.
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

/// Returns true if the current task or thread is interrupted. Does not clear the flag.
pub fn is_interrupted() -> bool {
    ThreadContext::with_current(|me| me.is_interrupted())
}

/// Returns true if the current task or thread is interrupted, and clears the flag.
#[inline]
pub fn interrupted() -> bool {
    // Blocking calls check this each time, and the flag is rarely set. So the fast path only reads
    // it.
    ThreadContext::may_be_interrupted() && take_interrupt()
}

#[cold]
fn take_interrupt() -> bool {
    ThreadContext::with_current(|me| me.take_interrupt())
}

/// Returns an error if the current task or thread is interrupted, and clears the flag. Call it in
/// loops, as `check()?`.
///
/// # Errors
/// [`Interrupted`] if the flag was set.
#[inline]
pub fn check() -> Result<(), Interrupted> {
    if interrupted() { Err(Interrupted) } else { Ok(()) }
}

/// Blocks for `duration`, unless interrupted. With `Duration::MAX`, blocks until interrupted.
///
/// # Errors
/// [`Interrupted`] if the flag is set before or during the call. The flag is clear again.
pub fn sleep(duration: Duration) -> Result<(), Interrupted> {
    match ThreadContext::with_current(|me| me.wait(deadline_after(duration), || false)) {
        Wake::Interrupted => Err(Interrupted),
        Wake::Ready | Wake::TimedOut => Ok(()),
    }
}

/// Returns the interrupter of the current task, or of the current thread if it runs no task.
pub fn current() -> Interrupter {
    let interrupter = current_without_callbacks();
    interrupter.thread.expect_callbacks();
    interrupter
}

/// Like [`current`], for an interrupter that stays inside the crate and gets no callbacks. The end
/// of the task then takes no lock.
pub(crate) fn current_without_callbacks() -> Interrupter {
    let thread = ThreadContext::current();
    let epoch = thread.epoch();
    Interrupter { thread, epoch }
}

/// Interrupts one task or thread, from any thread. Returned by [`current`].
#[derive(Clone)]
pub struct Interrupter {
    thread: Arc<ThreadContext>,
    epoch: u64,
}

impl Interrupter {
    /// Sets the flag, and wakes the task or thread if it blocks in a call of this crate.
    ///
    /// Does nothing if the task has ended. Runs the callbacks of
    /// [`on_interrupt`](Self::on_interrupt) before it returns. A callback that panics does not
    /// prevent the others from running.
    pub fn interrupt(&self) {
        self.thread.interrupt(Some(self.epoch));
    }

    /// Returns true if the flag of this task or thread is set. False once the task has ended.
    pub fn is_interrupted(&self) -> bool {
        self.thread.flag_of(self.epoch).unwrap_or(false)
    }

    /// Returns true if the thread is parked in a blocking call of this crate. For tests that wait
    /// for this state.
    #[doc(hidden)]
    pub fn is_parked(&self) -> bool {
        self.thread.is_parked()
    }

    /// Calls `f` on the interrupting thread when this task or thread is interrupted. If it is
    /// already interrupted, calls `f` at once on the calling thread. If it has ended, drops `f`.
    ///
    /// Keep the [`Registration`]: dropping it removes the callback. A callback that was not called
    /// is dropped with the registration, or when its task ends. Dropping the registration blocks
    /// while the callback is running, and so does the end of the task or thread. So a callback
    /// never affects later work of its thread, such as the next query on the same connection. The
    /// thread that runs the callback does not wait for it.
    ///
    /// The callback must be short and must not block: the interrupting thread may belong to an
    /// async runtime (see [`cancel_on_drop`](crate::TaskHandle::cancel_on_drop)). To avoid a
    /// deadlock, it must not wait for the task that it interrupts. Nor may it wait for a lock that
    /// the task holds while it drops the registration.
    ///
    /// # Examples
    /// A task that blocks outside of this crate. The callback closes the socket, kills the child
    /// process or, in this example, drops the other end of a channel.
    /// ```
    /// use millpond::{executors, interrupt};
    /// use std::sync::mpsc;
    ///
    /// let pool = executors::fixed(1)?;
    /// let blocked = pool.submit(|| {
    ///     let (stop, stopped) = mpsc::channel::<()>();
    ///     let _registration = interrupt::current().on_interrupt(move || drop(stop));
    ///     stopped.recv() // is not ended by interrupts
    /// })?;
    /// blocked.cancel(true);
    /// pool.close(); // returns once the task has ended
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_interrupt(&self, f: impl FnOnce() + Send + 'static) -> Registration {
        let key = self.thread.add_callback(self.epoch, Box::new(f));
        Registration { thread: Arc::clone(&self.thread), key }
    }
}

impl fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupter").field("interrupted", &self.is_interrupted()).finish_non_exhaustive()
    }
}

/// Keeps a callback of [`Interrupter::on_interrupt`] registered. Dropping it removes the callback.
///
/// Dropping it blocks while the callback runs on another thread, even if the dropping thread is
/// interrupted. Afterwards the callback has ended or will never begin.
#[must_use = "dropping the registration removes the callback"]
pub struct Registration {
    thread: Arc<ThreadContext>,
    /// The key of the callback on its thread; 0 if not registered.
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
