//! The courier: a thread that does for one scheduler what the timer thread must not do.
//!
//! All schedulers share the timer thread, so it calls no user code: it moves due work into its
//! scheduler and wakes threads. Everything else that a due timer needs may call a thread factory,
//! an executor, a decorator, a waker or a destructor, any of which may block. It goes to the
//! courier of that scheduler and delays no other.
//!
//! The courier starts when it is first needed, and leaves when it had no errand for 1 s or when its
//! scheduler has ended.
//!
//! No errand is left behind: the list of errands and the flag `is_present` have one lock. The
//! thread clears the flag only if the list is empty, so a sender finds a thread that will look
//! again, or starts one. Model: `models::errand_against_the_courier_leaving`.

use std::collections::VecDeque;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::interrupt::Wake;
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::panic::catch;
use crate::sync::{Arc, Mutex, deadline_after};

/// How long a courier without errands stays.
const LINGER: Duration = Duration::from_secs(1);

/// Sends errands. When it is dropped, the courier runs those that it has, and leaves.
pub(super) struct Courier<E: Send + 'static>(Arc<Desk<E>>);

/// What the courier shares with its senders.
struct Desk<E> {
    /// Does what an errand asks for.
    perform: fn(E),
    state: Mutex<State<E>>,
}

struct State<E> {
    errands: VecDeque<E>,
    /// A thread is there or being started, and will look at `errands` before it leaves.
    is_present: bool,
    /// What that thread waits on, once it has arrived.
    thread: Option<Arc<WaitCell>>,
    join: Option<JoinHandle<()>>,
    /// The thread leaves as soon as it has no errand.
    is_dismissed: bool,
}

impl<E: Send + 'static> Courier<E> {
    pub(super) fn new(perform: fn(E)) -> Courier<E> {
        let state = State {
            errands: VecDeque::new(),
            is_present: false,
            thread: None,
            join: None,
            is_dismissed: false,
        };
        Courier(Arc::new(Desk { perform, state: Mutex::new(state) }))
    }

    /// Sends an errand. Does not block.
    ///
    /// # Errors
    /// If there is no courier and none can be started. The errand waits for the next
    /// [`start`](Self::start).
    pub(super) fn send(&self, errand: E) -> io::Result<()> {
        let mut state = self.0.state.lock();
        state.errands.push_back(errand);
        if state.is_present {
            let thread = state.thread.clone();
            drop(state);
            thread.into_iter().for_each(|thread| thread.notify());
            return Ok(());
        }
        drop(state);
        self.start()
    }

    /// Starts a courier if errands wait for one.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut state = self.0.state.lock();
        if state.is_present || state.errands.is_empty() {
            return Ok(());
        }
        state.is_present = true;
        drop(state);
        let desk = Arc::clone(&self.0);
        let started = spawn(move || desk.work());
        let mut state = self.0.state.lock();
        match started {
            Ok(thread) => state.join = Some(thread), // the thread before has left
            Err(error) => {
                state.is_present = false;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Lets the courier leave as soon as it has no errand. Returns its thread, to be joined.
    pub(super) fn dismiss(&self) -> Option<JoinHandle<()>> {
        let mut state = self.0.state.lock();
        state.is_dismissed = true;
        let (thread, join) = (state.thread.clone(), state.join.take());
        drop(state);
        thread.into_iter().for_each(|thread| thread.notify());
        join
    }
}

impl<E: Send + 'static> Drop for Courier<E> {
    fn drop(&mut self) {
        self.dismiss();
    }
}

impl<E> Desk<E> {
    /// The loop of the thread.
    fn work(&self) {
        let me = Arc::new(WaitCell::for_this_thread());
        self.state.lock().thread = Some(Arc::clone(&me));
        let mut waited = false;
        loop {
            let mut state = self.state.lock();
            if let Some(errand) = state.errands.pop_front() {
                drop(state);
                waited = false;
                catch(|| (self.perform)(errand)); // it may drop user code
                continue;
            }
            if waited || state.is_dismissed {
                (state.is_present, state.thread) = (false, None);
                return;
            }
            me.reset(); // under the lock: an errand that is sent later notifies this thread
            drop(state);
            waited = me.wait(deadline_after(LINGER), OnInterrupt::Keep) == Wake::TimedOut;
        }
    }
}

#[cfg(not(all(loom, test)))]
fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("millpond-courier".to_owned()).spawn(work)
}

#[cfg(all(loom, test))]
fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    loom::thread::spawn(work);
    Ok(std::thread::spawn(|| {}))
}

/// Drops a value with user code in it on a new thread, or here if none can be started.
pub(super) fn drop_elsewhere(value: impl Send + 'static) {
    drop(spawn(move || crate::panic::drop_caught(value)));
}
