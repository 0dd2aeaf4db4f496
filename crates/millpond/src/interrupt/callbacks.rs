//! The interrupt callbacks of one thread: callbacks that wait for an interrupt, and callbacks that
//! run.
//!
//! A callback is waiting, running or gone. It changes its state only under the lock of its
//! [`ThreadContext`](super::ThreadContext), which owns a [`Callbacks`]. To get rid of a callback, a
//! thread removes it while it waits, or waits until it has stopped running. The thread that runs a
//! callback never waits for it, because a callback may drop its own registration.

use std::mem;
use std::task::Waker;

pub(super) type Callback = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(super) struct Callbacks {
    waiting: Vec<Waiting>,
    running: Vec<Running>,
    /// The last key that was assigned. Keys are unique on their thread and never 0.
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
    /// The number of the thread that runs the callback.
    thread: u64,
    /// The threads to wake when the callback has ended.
    waiters: Vec<Waker>,
}

/// Selects running callbacks.
#[derive(Clone, Copy)]
pub(super) enum Which {
    Key(u64),
    Epoch(u64),
}

impl Callbacks {
    pub(super) fn last_key(&self) -> u64 {
        self.last_key
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds `f`, to be called at an interrupt of `epoch`. Returns its key.
    pub(super) fn add(&mut self, epoch: u64, f: Callback) -> u64 {
        self.last_key += 1;
        self.waiting.push(Waiting { epoch, key: self.last_key, f });
        self.last_key
    }

    /// Records that `thread` is about to run a callback that was never waiting. Returns its key.
    pub(super) fn begin(&mut self, epoch: u64, thread: u64) -> u64 {
        self.last_key += 1;
        self.running.push(Running { epoch, key: self.last_key, thread, waiters: Vec::new() });
        self.last_key
    }

    /// Removes the oldest callback that waits for one of `epochs` and has a key up to `last_key`.
    /// Records that `thread` is about to run it.
    pub(super) fn begin_next(
        &mut self,
        epochs: &[u64],
        last_key: u64,
        thread: u64,
    ) -> Option<(u64, Callback)> {
        let is_next = |w: &Waiting| w.key <= last_key && epochs.contains(&w.epoch);
        let at = self.waiting.iter().position(is_next)?;
        let Waiting { epoch, key, f } = self.waiting.remove(at);
        self.running.push(Running { epoch, key, thread, waiters: Vec::new() });
        Some((key, f))
    }

    /// Records that a running callback has ended. Returns the threads to wake.
    pub(super) fn end(&mut self, key: u64) -> Vec<Waker> {
        let at = self.running.iter().position(|running| running.key == key);
        self.running.swap_remove(at.expect("only the thread that runs a callback ends it")).waiters
    }

    /// Removes a waiting callback. Returns `None` if it has begun or is gone.
    pub(super) fn remove(&mut self, key: u64) -> Option<Callback> {
        let at = self.waiting.iter().position(|waiting| waiting.key == key)?;
        Some(self.waiting.remove(at).f)
    }

    /// Removes all callbacks that wait for an interrupt of `epoch`.
    pub(super) fn remove_all(&mut self, epoch: u64) -> Vec<Callback> {
        let all = mem::take(&mut self.waiting);
        let (removed, kept) = all.into_iter().partition::<Vec<_>, _>(|waiting| waiting.epoch == epoch);
        self.waiting = kept;
        removed.into_iter().map(|waiting| waiting.f).collect()
    }

    /// Finds a running callback among `which` that another thread than `this_thread` runs, and
    /// registers `waiter` for its end. Returns false if there is none.
    pub(super) fn wake_at_end(&mut self, which: Which, this_thread: u64, waiter: &Waker) -> bool {
        let is_meant = |running: &Running| match which {
            Which::Key(key) => running.key == key,
            Which::Epoch(epoch) => running.epoch == epoch,
        };
        let mut running = self.running.iter_mut();
        let found = running.find(|running| running.thread != this_thread && is_meant(running));
        found.map(|running| running.waiters.push(waiter.clone())).is_some()
    }
}
