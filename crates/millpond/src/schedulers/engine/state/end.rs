//! What has to be over before a scheduler has ended: its threads, starts, and calls of decorators.

use std::thread::JoinHandle;

use crate::schedulers::end::{Lifecycle, Phase};
use crate::schedulers::engine::Engine;
use crate::sync::Arc;

#[derive(Debug)]
pub(super) struct End {
    /// Changed only under the scheduler's lock, which `End` is inside.
    lifecycle: Arc<Lifecycle>,
    /// Threads, from the decision to start them until they have left.
    live_threads: usize,
    /// Starts that have not returned.
    starting: usize,
    /// Removed slots whose decorators have not been told yet.
    closing: usize,
    /// Threads that have left and may still be exiting.
    left: Vec<JoinHandle<()>>,
    /// Threads that have exited, on their way to `Deferred`.
    exited: Vec<JoinHandle<()>>,
    /// Threads that are being joined.
    joining: usize,
    /// Keeps a draining scheduler alive: its timers may be all that is left of it.
    engine: Option<Arc<Engine>>,
}

impl End {
    pub(super) fn new(lifecycle: Arc<Lifecycle>) -> End {
        End {
            lifecycle,
            live_threads: 0,
            starting: 0,
            closing: 0,
            left: Vec::new(),
            exited: Vec::new(),
            joining: 0,
            engine: None,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.lifecycle.phase()
    }

    /// Returns the phase before.
    pub(super) fn advance(&self, phase: Phase) -> Phase {
        self.lifecycle.advance(phase)
    }

    pub(super) fn keep_alive(&mut self, engine: Arc<Engine>) {
        self.engine = Some(engine);
    }

    pub(super) fn take_engine(&mut self) -> Option<Arc<Engine>> {
        self.engine.take()
    }

    // ---- threads

    pub(super) fn live_threads(&self) -> usize {
        self.live_threads
    }

    pub(super) fn thread_starting(&mut self) {
        self.live_threads += 1;
        self.starting += 1;
    }

    pub(super) fn start_returned(&mut self) {
        self.starting -= 1;
    }

    pub(super) fn thread_left(&mut self) {
        self.live_threads -= 1;
    }

    /// Keeps the handle of a thread that leaves, so that the end can wait for it. Forgets threads
    /// that have exited, but never the last one that left: whether the end has a thread to join
    /// must not depend on how fast the system is.
    pub(super) fn remember(&mut self, thread: Option<JoinHandle<()>>) {
        let Some(thread) = thread else { return };
        self.exited.extend(self.left.extract_if(.., |thread| thread.is_finished()));
        self.left.push(thread);
    }

    pub(super) fn take_exited(&mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.exited)
    }

    /// Takes the `selected` threads, for the caller to join.
    pub(super) fn take_to_join(&mut self, selected: impl Fn(&JoinHandle<()>) -> bool) -> Vec<JoinHandle<()>> {
        let threads: Vec<_> = self.left.extract_if(.., |thread| selected(thread)).collect();
        self.joining += threads.len();
        threads
    }

    pub(super) fn joined(&mut self, threads: usize) {
        self.joining -= threads;
    }

    pub(super) fn has_joined_all(&self) -> bool {
        self.left.is_empty() && self.joining == 0
    }

    // ---- decorators

    pub(super) fn slot_closing(&mut self) {
        self.closing += 1;
    }

    pub(super) fn slots_closed(&mut self, slots: usize) {
        self.closing -= slots;
    }

    /// Returns true if an end has begun and no thread, start or call is left.
    pub(super) fn is_over(&self) -> bool {
        self.phase() != Phase::Live && self.live_threads == 0 && self.starting == 0 && self.closing == 0
    }
}
