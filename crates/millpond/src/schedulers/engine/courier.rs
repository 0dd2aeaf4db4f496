//! The courier: a helper thread that does the work of a scheduler which the timer thread must not
//! do.
//!
//! All schedulers share one timer thread, so it calls no user code. It only moves due work into its
//! scheduler and unparks threads. Any other effect of a due timer may call a thread factory, an
//! executor, a decorator, a waker or a destructor, and each of these may block. The scheduler sends
//! such effects to its own courier as errands, so they delay no other scheduler.
//!
//! The courier thread starts when the first errand is sent. It exits after 1 s without an errand,
//! or when its scheduler has ended.
//!
//! No errand is lost: one lock guards both the list of errands and the flag `is_present`. The
//! thread clears the flag only if the list is empty. So a sender either finds a thread that will
//! check the list again, or starts one. Model: `errand_against_courier_exit`.

use std::collections::VecDeque;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::interrupt::Wake;
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::panic::catch;
use crate::sync::{Arc, Mutex, deadline_after};

/// How long a courier waits for the next errand before it exits.
const LINGER: Duration = Duration::from_secs(1);

/// Sends errands. On drop, the courier thread runs the remaining errands and exits.
pub(super) struct Courier<E: Send + 'static>(Arc<Desk<E>>);

/// What the courier shares with its senders.
struct Desk<E> {
    /// Runs an errand.
    perform: fn(E),
    state: Mutex<State<E>>,
}

struct State<E> {
    errands: VecDeque<E>,
    /// A thread runs or is being started. It checks `errands` once more before it exits.
    is_present: bool,
    /// The park slot of that thread. `None` until the thread runs.
    thread: Option<Arc<WaitCell>>,
    join: Option<JoinHandle<()>>,
    /// The thread exits as soon as it has no errand.
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

    /// Sends an errand. Starts the courier thread if there is none, see [`start`](Self::start).
    ///
    /// # Errors
    /// Returns the error of the system if no thread can be started. The errand stays in the list
    /// until the next [`start`](Self::start).
    pub(super) fn send(&self, errand: E) -> io::Result<Option<JoinHandle<()>>> {
        let mut state = self.0.state.lock();
        state.errands.push_back(errand);
        if state.is_present {
            let thread = state.thread.clone();
            drop(state);
            thread.into_iter().for_each(|thread| thread.notify());
            return Ok(None);
        }
        drop(state);
        self.start()
    }

    /// Starts a courier thread if errands wait and there is none. If the courier was dismissed
    /// meanwhile, returns the thread for the caller to join.
    ///
    /// # Errors
    /// Returns the error of the system if it cannot start a thread.
    pub(super) fn start(&self) -> io::Result<Option<JoinHandle<()>>> {
        let mut state = self.0.state.lock();
        if state.is_present || state.errands.is_empty() {
            return Ok(None);
        }
        state.is_present = true;
        drop(state);
        let desk = Arc::clone(&self.0);
        let started = spawn(move || desk.work());
        let mut state = self.0.state.lock();
        match started {
            Ok(thread) if state.is_dismissed => return Ok(Some(thread)), // `dismiss` did not find it
            Ok(thread) => state.join = Some(thread), // the previous thread has left its loop
            Err(error) => {
                state.is_present = false;
                return Err(error);
            }
        }
        Ok(None)
    }

    /// Makes the courier exit as soon as it has no errand. Returns its thread for the caller to
    /// join.
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
    /// Runs errands until the thread has to exit.
    fn work(&self) {
        let me = Arc::new(WaitCell::for_this_thread());
        self.state.lock().thread = Some(Arc::clone(&me));
        let mut waited = false;
        loop {
            let mut state = self.state.lock();
            if let Some(errand) = state.errands.pop_front() {
                drop(state);
                waited = false;
                catch(|| (self.perform)(errand)); // an errand may drop user code
                continue;
            }
            if waited || state.is_dismissed {
                (state.is_present, state.thread) = (false, None);
                return;
            }
            me.reset(); // under the lock, so an errand sent later notifies this thread
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

/// Calls `work` on a new thread. Returns false if none can be started; `work` is then dropped.
pub(super) fn on_helper_thread(work: impl FnOnce() + Send + 'static) -> bool {
    spawn(work).is_ok()
}

/// Drops a value that contains user code on a new thread, or here if none can be started.
pub(super) fn drop_elsewhere(value: impl Send + 'static) {
    drop(spawn(move || crate::panic::drop_caught(value)));
}
