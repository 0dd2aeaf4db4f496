//! [`End`]: counts what must finish before a scheduler has ended: threads, starts, decorator calls.

use std::thread::JoinHandle;

use crate::schedulers::end::{Lifecycle, Phase};
use crate::schedulers::engine::Engine;
use crate::sync::Arc;

#[derive(Debug)]
pub(super) struct End {
    /// Changed only under the scheduler's lock, which also guards this struct.
    lifecycle: Arc<Lifecycle>,
    /// Threads, counted from the decision to start them until they have left.
    live_threads: usize,
    /// The largest number of live threads so far.
    largest: usize,
    /// The number of own threads that have arrived, and of those that could not be started.
    starts: (u64, u64),
    /// Starts whose call of the source has not returned.
    starting: usize,
    /// Removed slots whose decorators have not been notified yet.
    closing: usize,
    /// Threads that have left their slots and may still be exiting.
    left: Vec<JoinHandle<()>>,
    /// Threads that have exited. `under_lock` moves them to `Deferred`.
    exited: Vec<JoinHandle<()>>,
    /// The number of threads that are being joined.
    joining: usize,
    /// Keeps a draining scheduler alive until it has ended: only its timers may refer to it.
    engine: Option<Arc<Engine>>,
    /// The end has been reported to observers.
    is_known: bool,
}

impl End {
    pub(super) fn new(lifecycle: Arc<Lifecycle>) -> End {
        End {
            lifecycle,
            live_threads: 0,
            largest: 0,
            starts: (0, 0),
            is_known: false,
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

    /// Advances the phase and returns the previous one.
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
        self.largest = self.largest.max(self.live_threads);
    }

    /// Counts an own thread that has arrived or could not be started.
    pub(super) fn count_start(&mut self, has_arrived: bool) {
        *(if has_arrived { &mut self.starts.0 } else { &mut self.starts.1 }) += 1;
    }

    pub(super) fn starts(&self) -> (u64, u64) {
        self.starts
    }

    pub(super) fn largest(&self) -> usize {
        self.largest
    }

    pub(super) fn start_returned(&mut self) {
        self.starting -= 1;
    }

    pub(super) fn thread_left(&mut self) {
        self.live_threads -= 1;
    }

    /// Keeps the handle of a leaving thread, so that a thread that waits for the end can join it.
    /// Drops the handles of threads that have exited, but not the last one to leave. Otherwise it
    /// would depend on timing whether there is a thread to join.
    pub(super) fn remember(&mut self, thread: Option<JoinHandle<()>>) {
        let Some(thread) = thread else { return };
        self.exited.extend(self.left.extract_if(.., |thread| thread.is_finished()));
        self.left.push(thread);
    }

    pub(super) fn take_exited(&mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.exited)
    }

    /// Takes the `selected` threads for the caller to join.
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

    /// Marks the end as reported. Returns true for the first call.
    pub(super) fn report(&mut self) -> bool {
        !std::mem::replace(&mut self.is_known, true)
    }

    /// Returns true if an end has begun and no thread, start or decorator call is left.
    pub(super) fn is_over(&self) -> bool {
        self.phase() != Phase::Live && self.live_threads == 0 && self.starting == 0 && self.closing == 0
    }
}
