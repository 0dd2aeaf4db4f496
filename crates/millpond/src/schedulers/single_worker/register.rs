//! [`Register`]: the work of a single worker, with its state and the worker it belongs to.
//!
//! The lane of the original scheduler orders and runs the work. The register holds only the data
//! needed to dispose of the work of one worker and to detect that all work is done.

use std::collections::HashMap;
use std::thread::{self, ThreadId};

use crate::executor::RejectReason;
use crate::schedulers::Disposable;
use crate::schedulers::stats::Counters;
use crate::task::Outcome;

/// All work in the lane. Guarded by the lock of the scheduler.
#[derive(Default)]
pub(super) struct Register {
    entries: HashMap<u64, Entry>,
    /// The last number given to an entry or a worker.
    last_number: u64,
    /// The work that ran last. The original scheduler counts its run shortly after this register
    /// does.
    last_run: Option<Disposable>,
    counters: Counters,
}

/// One piece of work.
pub(super) struct Entry {
    /// The worker to which it was submitted, or [`SCHEDULER`].
    owner: u64,
    is_periodic: bool,
    state: State,
    /// No further run may begin.
    ended: bool,
    /// Disposed by its worker, so a run under way is interrupted.
    disposed: bool,
    /// Present once the lane has accepted the work.
    handle: Option<Disposable>,
}

/// The owner of work that was submitted to the scheduler itself.
pub(super) const SCHEDULER: u64 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Counted as queued.
    Waiting,
    /// Counted as running.
    Running(ThreadId),
    /// Counted by its outcome.
    Done,
}

/// What the lane does with a piece of work when its turn comes.
pub(super) enum Start {
    Run,
    /// Do nothing: the work was disposed.
    Skip,
    /// Run it without registering the run: the work was refused, and its submitter runs it.
    Foreign,
}

impl Register {
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn last_run(&self) -> Option<Disposable> {
        self.last_run.clone()
    }

    /// Registers new work and returns its number.
    pub(super) fn add(&mut self, owner: u64, is_periodic: bool) -> u64 {
        let number = self.next_number();
        let (state, ended, disposed) = (State::Waiting, false, false);
        self.entries.insert(number, Entry { owner, is_periodic, state, ended, disposed, handle: None });
        self.counters.accept();
        number
    }

    /// Records that the lane has accepted the work. Returns true if the work has been disposed
    /// meanwhile, so that the caller must dispose of `handle`. Running work ends by itself.
    pub(super) fn accepted(&mut self, number: u64, handle: &Disposable) -> bool {
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        entry.handle = Some(handle.clone());
        let at_rest = match entry.state {
            State::Waiting => true,
            State::Running(_) => false,
            State::Done => entry.is_periodic,
        };
        entry.disposed || (entry.ended && at_rest)
    }

    /// Removes work that the lane has refused.
    pub(super) fn refused(&mut self, number: u64, reason: RejectReason) {
        self.counters.reject(reason);
        if self.entries.remove(&number).is_some() {
            self.counters.withdraw();
        }
    }

    /// Begins a run of the work, or returns the reason why it must not begin.
    pub(super) fn begin(&mut self, number: u64) -> Start {
        let Some(entry) = self.entries.get_mut(&number) else { return Start::Foreign };
        if entry.ended {
            return Start::Skip;
        }
        entry.state = State::Running(thread::current().id());
        self.counters.start();
        Start::Run
    }

    /// Ends a run. `again`: the work may run again and counts as waiting. The caller must drop the
    /// returned value without the lock.
    pub(super) fn end(&mut self, number: u64, outcome: Outcome, again: bool) -> Option<Disposable> {
        let entry = self.entries.get_mut(&number)?;
        entry.ended |= !again;
        entry.state = if entry.ended { State::Done } else { State::Waiting };
        let (again, handle) = (!entry.ended, entry.handle.clone());
        self.counters.end(outcome);
        if again {
            self.counters.accept();
        }
        std::mem::replace(&mut self.last_run, handle)
    }

    /// Returns the handle of work that has ended, for the caller to dispose of.
    pub(super) fn handle_if_ended(&self, number: u64) -> Option<Disposable> {
        self.entries.get(&number).filter(|entry| entry.ended)?.handle.clone()
    }

    /// Removes work that has run for the last time or was dropped. Returns its entry, if it was
    /// registered. The caller must drop the entry without the lock: a handle of a custom scheduler
    /// is user code.
    pub(super) fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        if entry.state == State::Waiting {
            self.counters.cancel();
        }
        Some(entry)
    }

    /// Ends all periodic work. Returns the handles of waiting work, for the caller to dispose of.
    pub(super) fn end_periodic(&mut self) -> Vec<Disposable> {
        let mut waiting = Vec::new();
        for entry in self.entries.values_mut().filter(|entry| entry.is_periodic && !entry.ended) {
            entry.ended = true;
            if entry.state == State::Waiting {
                waiting.extend(entry.handle.clone());
            }
        }
        waiting
    }

    /// Ends all work of a worker. Returns its handles, for the caller to dispose of.
    pub(super) fn dispose_of(&mut self, owner: u64) -> Vec<Disposable> {
        let mut handles = Vec::new();
        for entry in self.entries.values_mut().filter(|entry| entry.owner == owner) {
            entry.ended = true;
            entry.disposed = true;
            handles.extend(entry.handle.clone());
        }
        handles
    }

    pub(super) fn is_waiting(&self, number: u64) -> bool {
        self.entries.get(&number).is_some_and(|entry| entry.state == State::Waiting)
    }

    /// Returns the number of waiting tasks of a worker.
    pub(super) fn queued_of(&self, owner: u64) -> usize {
        let waits = |entry: &&Entry| entry.owner == owner && entry.state == State::Waiting;
        self.entries.values().filter(waits).count()
    }

    /// Returns true if the calling thread runs some of the work.
    pub(super) fn runs_on_this_thread(&self) -> bool {
        let here = State::Running(thread::current().id());
        self.entries.values().any(|entry| entry.state == here)
    }
}
