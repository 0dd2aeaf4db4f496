//! The callbacks of one thread: those that wait for an interrupt, and those that run.
//!
//! A callback is in `waiting`, in `running`, or gone, and changes place only under the lock of its
//! [`ThreadContext`]. Whoever wants it gone takes it out of `waiting`, or waits until it has left
//! `running`. The thread that runs a callback never waits for it: a callback may drop its own
//! registration.
//!
//! The end of an epoch and a registration or an interrupt from outside are ordered by the lock: the
//! owner begins the next epoch first and takes the lock afterwards. A thread that takes it earlier
//! leaves its callback to the owner; one that takes it later finds that the epoch has ended.
//! Models: `loom_tests::interrupt`.

use std::mem;

use super::wait::{OnInterrupt, WaitCell};
use super::{RunId, ThreadContext};
use crate::panic::{catch, drop_caught};
use crate::sync::Arc;

pub(super) type Callback = Box<dyn FnOnce() + Send>;

/// Guarded by `ThreadContext::slow`.
#[derive(Default)]
pub(super) struct Callbacks {
    waiting: Vec<Waiting>,
    running: Vec<Running>,
    /// The last key that was given out. Keys are unique on their thread and never 0.
    last_key: u64,
}

struct Waiting {
    epoch: u64,
    key: u64,
    f: Callback,
}

struct Running {
    epoch: u64,
    key: u64,
    /// The number of the thread that runs it.
    thread: u64,
    /// Notified when it has ended.
    waiters: Vec<Arc<WaitCell>>,
}

impl Callbacks {
    pub(super) fn last_key(&self) -> u64 {
        self.last_key
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Keeps `f` for an interrupt of `epoch`.
    pub(super) fn add(&mut self, epoch: u64, f: Callback) -> u64 {
        self.last_key += 1;
        self.waiting.push(Waiting { epoch, key: self.last_key, f });
        self.last_key
    }

    /// The calling thread is about to run a callback that never waited.
    pub(super) fn begin(&mut self, epoch: u64) -> u64 {
        self.last_key += 1;
        self.note_running(epoch, self.last_key);
        self.last_key
    }

    fn note_running(&mut self, epoch: u64, key: u64) {
        let thread = RunId::current().thread;
        self.running.push(Running { epoch, key, thread, waiters: Vec::new() });
    }

    /// Takes out the oldest callback that waits for one of `epochs` and was registered no later than
    /// `last_key`. The calling thread is about to run it.
    fn begin_next(&mut self, epochs: &[u64], last_key: u64) -> Option<(u64, Callback)> {
        let is_next = |w: &Waiting| w.key <= last_key && epochs.contains(&w.epoch);
        let at = self.waiting.iter().position(is_next)?;
        let Waiting { epoch, key, f } = self.waiting.remove(at);
        self.note_running(epoch, key);
        Some((key, f))
    }
}

impl ThreadContext {
    /// Runs all callbacks that wait for one of `epochs` and were registered no later than `last_key`.
    pub(super) fn run_callbacks(&self, epochs: &[u64], last_key: u64) {
        let next = || self.slow.lock().callbacks.begin_next(epochs, last_key);
        while let Some((key, f)) = next() {
            self.run_callback(key, f);
        }
    }

    /// Runs a callback that is in `running`.
    pub(super) fn run_callback(&self, key: u64, f: Callback) {
        catch(f);
        let mut slow = self.slow.lock();
        let running = &mut slow.callbacks.running;
        let at = running.iter().position(|running| running.key == key);
        let ended = running.swap_remove(at.expect("only the thread that runs it takes it out"));
        drop(slow);
        for waiter in ended.waiters {
            waiter.notify();
        }
    }

    /// On return the callback has ended or cannot begin, unless the calling thread runs it.
    pub(super) fn remove_callback(&self, key: u64) {
        let mut slow = self.slow.lock();
        let found = slow.callbacks.waiting.iter().position(|waiting| waiting.key == key);
        let unused = found.map(|at| slow.callbacks.waiting.remove(at));
        drop(slow);
        match unused {
            Some(unused) => drop(unused), // its captures are the user's: not under our lock
            None => self.wait_for_callbacks(|running| running.key == key),
        }
    }

    /// The owner has ended `epoch`: on return its callbacks have ended or are gone, except those
    /// that the owner itself runs.
    #[cold]
    pub(super) fn end_callbacks(&self, epoch: u64) {
        let mut slow = self.slow.lock();
        let all = mem::take(&mut slow.callbacks.waiting);
        let (unused, kept) = all.into_iter().partition::<Vec<_>, _>(|waiting| waiting.epoch == epoch);
        slow.callbacks.waiting = kept;
        drop(slow);
        unused.into_iter().for_each(drop_caught);
        self.wait_for_callbacks(|running| running.epoch == epoch);
    }

    fn wait_for_callbacks(&self, is_meant: impl Fn(&Running) -> bool) {
        let this_thread = RunId::current().thread;
        loop {
            let mut slow = self.slow.lock();
            let mut running = slow.callbacks.running.iter_mut();
            let other = running.find(|other| other.thread != this_thread && is_meant(other));
            let Some(other) = other else { return };
            let ended = Arc::new(WaitCell::for_this_thread());
            other.waiters.push(Arc::clone(&ended));
            drop(slow);
            ended.wait(None, OnInterrupt::Keep);
        }
    }
}
