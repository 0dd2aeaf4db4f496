//! The courier: a thread that does for one scheduler what the timer thread must not do.
//!
//! All schedulers share the timer thread, so it calls no user code: it moves due work into its scheduler and wakes
//! threads. The rest of what a due timer asks for may call a thread factory, an executor, a decorator, a waker or a
//! destructor, any of which may block. It goes to the courier of that scheduler, and delays no other.
//!
//! The courier is started when it is first needed. It leaves when it had nothing to do for [`LINGER`], or when its
//! scheduler has ended. A scheduler whose threads are all there needs none.
//!
//! Why no errand is left behind: the list of errands and the word whether a thread is there are under one lock. The
//! thread says that it leaves only when it finds the list empty under that lock, so a sender finds either a thread that
//! will look again, or none, and starts one. Model: `models::errand_against_the_courier_leaving`.

use std::collections::VecDeque;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use super::Engine;
use super::state::Deferred;
use crate::interrupt::Wake;
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::panic::catch;
use crate::sync::{Arc, Mutex, deadline_after};

/// How long a courier without an errand stays.
const LINGER: Duration = Duration::from_secs(1);

/// Something for a courier to do.
pub(super) trait Errand: Send + 'static {
    fn run(self);
}

/// What is to be done for an engine without its lock.
pub(super) struct Perform {
    pub(super) engine: Arc<Engine>,
    pub(super) after: Deferred,
}

impl Errand for Perform {
    fn run(self) {
        self.engine.see_to(self.after);
    }
}

/// The right to send errands. When it is dropped the courier does what it has, and leaves.
pub(super) struct Courier<E: Errand>(Arc<Desk<E>>);

/// What the courier and its senders share.
struct Desk<E> {
    state: Mutex<State<E>>,
}

struct State<E> {
    errands: VecDeque<E>,
    /// A thread is there, or is being started, and will look at `errands` before it leaves.
    present: bool,
    /// That thread, once it has come.
    thread: Option<Arc<WaitCell>>,
    /// For whoever waits until it is gone.
    join: Option<JoinHandle<()>>,
    /// It does not linger.
    dismissed: bool,
}

impl<E: Errand> Courier<E> {
    pub(super) fn new() -> Courier<E> {
        let state =
            State { errands: VecDeque::new(), present: false, thread: None, join: None, dismissed: false };
        Courier(Arc::new(Desk { state: Mutex::new(state) }))
    }

    /// Gives the courier something to do. Does not block.
    ///
    /// # Errors
    /// If there is no courier and none can be started. The errand waits for the next [`start`](Self::start).
    pub(super) fn send(&self, errand: E) -> io::Result<()> {
        let mut state = self.0.state.lock();
        state.errands.push_back(errand);
        if state.present {
            let thread = state.thread.clone();
            drop(state);
            thread.into_iter().for_each(|thread| thread.notify());
            return Ok(());
        }
        drop(state);
        self.start()
    }

    /// Starts the courier if errands wait for one.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut state = self.0.state.lock();
        if state.present || state.errands.is_empty() {
            return Ok(());
        }
        state.present = true;
        drop(state);
        let desk = Arc::clone(&self.0);
        let started = spawn(move || desk.work());
        let mut state = self.0.state.lock();
        match started {
            Ok(thread) => state.join = Some(thread), // of the one before nothing is left that matters
            Err(error) => {
                state.present = false;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The courier leaves as soon as it has nothing to do. Returns its thread, for whoever waits until it is gone.
    pub(super) fn dismiss(&self) -> Option<JoinHandle<()>> {
        let mut state = self.0.state.lock();
        state.dismissed = true;
        let (thread, join) = (state.thread.clone(), state.join.take());
        drop(state);
        thread.into_iter().for_each(|thread| thread.notify());
        join
    }
}

impl<E: Errand> Drop for Courier<E> {
    fn drop(&mut self) {
        self.dismiss();
    }
}

impl<E: Errand> Desk<E> {
    /// The life of the thread.
    fn work(&self) {
        let me = Arc::new(WaitCell::for_this_thread());
        self.state.lock().thread = Some(Arc::clone(&me));
        let mut waited = false;
        loop {
            let mut state = self.state.lock();
            if let Some(errand) = state.errands.pop_front() {
                drop(state);
                waited = false;
                catch(|| errand.run()); // destructors of the user's may be at the ends of it
                continue;
            }
            if waited || state.dismissed {
                (state.present, state.thread) = (false, None);
                return;
            }
            me.reset(); // under the lock: what is sent after this look notifies us
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

/// Drops the last reference to something that may have destructors of the user's, on a thread of its own.
///
/// Only if the system cannot start a thread it is dropped here.
pub(super) fn drop_elsewhere(value: impl Send + 'static) {
    drop(spawn(move || crate::panic::drop_caught(value)));
}
