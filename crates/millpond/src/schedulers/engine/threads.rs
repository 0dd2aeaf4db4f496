//! The threads of slots: how they start, find work, run it and exit.

use std::cell::{Cell, OnceCell};

use super::Engine;
use super::deferred::Deferred;
use super::lane_queue::LaneRun;
use super::model::{Assigned, Done, NOT_RUN, Next, SlotRef, Start, StartFailure};
use super::source::Refusal;
use super::start::{self, InTask, Starting};
use super::state::State;
use crate::interrupt::TaskFrame;
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::schedulers::decorators::{Decorators, SlotInfo};
use crate::schedulers::hooks::report_payload;
use crate::schedulers::job::{Job, JobOwner};
use crate::sync::backoff::spin_briefly;
use crate::sync::{Arc, thread_local};
use crate::sys;
use crate::task::{Panic, RunEnd, TaskInfo, WorksForScheduler};
use crate::threads::{ThreadBody, WorkerInfo};

thread_local! {
    static NON_BLOCKING: Cell<bool> = not_marked();
}

fn not_marked() -> Cell<bool> {
    Cell::new(false)
}

/// Returns true if the calling thread belongs to a scheduler for short work and should not block.
pub(in crate::schedulers) fn is_in_non_blocking_thread() -> bool {
    NON_BLOCKING.try_with(Cell::get).unwrap_or(false)
}

/// Marks the calling thread as one that should not block, or as one that may.
pub(super) fn mark_non_blocking(is_non_blocking: bool) {
    NON_BLOCKING.with(|mark| mark.set(is_non_blocking));
}

impl Engine {
    /// Starts threads one after the other, then the starts that were postponed meanwhile. Calls
    /// `failed` for each of `starts` that failed.
    pub(super) fn start_threads(self: &Arc<Self>, starts: Vec<Start>, mut failed: impl FnMut(StartFailure)) {
        if starts.is_empty() {
            return;
        }
        let starting = Starting::enter(self.address());
        for start in starts {
            self.start_thread(start).unwrap_or_else(&mut failed);
        }
        while let Some(start) = starting.next_postponed() {
            self.start_thread(start).unwrap_or_else(|failure| self.start_failed(&failure));
        }
    }

    fn start_thread(self: &Arc<Self>, start: Start) -> Result<(), StartFailure> {
        let worker = self.source.worker(start.attempt);
        let body = SlotThread { engine: Arc::clone(self), start, worker: worker.clone(), has_run: false };
        let mut started = self.source.start(body, worker);
        if let Err(refusal) = &mut started
            && let Some(payload) = refusal.take_panic()
        {
            let job = self.lock().assigned_job(start.slot);
            report_payload(&job.map_or_else(TaskInfo::fresh, |job| job.info()), payload);
        }
        let refusal = self.locked(|state, deferred| {
            let was_dropped = state.start_returned(start);
            let refusal = match started {
                Err(refusal) => {
                    state.thread_refused(start);
                    Some(refusal)
                }
                Ok(join) => {
                    if was_dropped && !self.source.is_own() {
                        state.abandon_slot(start.slot, deferred); // accepted, then dropped
                    }
                    state.thread_promised(start, join);
                    (was_dropped && self.source.is_own()).then(Refusal::body_dropped)
                }
            };
            state.end_if_done(deferred);
            refusal
        });
        let Some(refusal) = refusal else { return Ok(()) };
        self.tell_start_failed(&refusal);
        let (reason, source) = refusal.into_parts();
        Err(StartFailure { start, reason, source })
    }
}

/// The body of a slot's thread.
struct SlotThread {
    engine: Arc<Engine>,
    start: Start,
    /// Set for an own thread.
    worker: Option<WorkerInfo>,
    has_run: bool,
}

impl ThreadBody for SlotThread {
    fn live(mut self: Box<Self>) {
        self.has_run = true;
        let _works = WorksForScheduler::new(self.engine.owner.number());
        if self.engine.source.is_own() {
            mark_non_blocking(self.engine.source.is_non_blocking());
        }
        if let Some(worker) = &self.worker {
            self.engine.tell_started(worker);
        }
        let place = Running::new(&self).work();
        if !self.engine.source.is_own() {
            self.engine.locked(|state, deferred| state.thread_left(self.start.slot, place, deferred));
        }
    }

    fn never_started(self: Box<Self>) {}
}

impl Drop for SlotThread {
    fn drop(&mut self) {
        if !self.has_run {
            self.engine.locked(|state, deferred| state.body_dropped(self.start, deferred));
        }
    }
}

/// The thread of a slot while it runs.
struct Running<'a> {
    engine: &'a Arc<Engine>,
    start: Start,
    slot: SlotRef,
    worker: Option<&'a WorkerInfo>,
    /// The park slot of the thread.
    cell: Arc<WaitCell>,
    /// The index of the thread in the list of the scheduler's threads, once it has arrived.
    place: Cell<usize>,
    info: SlotInfo,
    /// An executor runs this body inside the call that starts it.
    is_in_start: bool,
    /// The decorators of the slot. Set before the first run.
    decorators: OnceCell<Decorators>,
}

impl Running<'_> {
    fn new(thread: &SlotThread) -> Running<'_> {
        let (engine, start) = (&thread.engine, thread.start);
        Running {
            engine,
            start,
            slot: start.slot,
            worker: thread.worker.as_ref(),
            cell: Arc::new(WaitCell::for_this_thread()),
            place: Cell::new(usize::MAX),
            info: engine.slot_info(start.slot.index),
            is_in_start: start::is_under_way(engine.address()),
            decorators: OnceCell::new(),
        }
    }

    /// Runs work until the thread has to exit. Returns the thread's index in the scheduler's list.
    fn work(&self) -> usize {
        // Not for a thread of an executor: the system call would take longer than a short task.
        let os_thread_id = self.worker.and_then(|_| sys::thread_id());
        let mut next = self.ask(|state, deferred| self.arrive(os_thread_id, state, deferred));
        loop {
            next = match next {
                Next::Leave => return self.place.get(),
                Next::Run(assigned) => self.run(assigned),
                Next::Search => {
                    self.search();
                    self.ask(|state, deferred| self.find(state, deferred))
                }
                Next::Park => {
                    self.cell.wait(None, OnInterrupt::Keep);
                    self.ask(|state, deferred| self.find(state, deferred))
                }
            };
        }
    }

    fn ask(&self, question: impl FnOnce(&mut State, &mut Deferred) -> Next) -> Next {
        let (next, deferred) = self.engine.under_lock(question);
        self.perform(&next, deferred);
        next
    }

    /// Performs effects. Observers are notified that a thread stops before they are notified that
    /// its scheduler has ended.
    fn perform(&self, next: &Next, mut deferred: Deferred) {
        if let (Next::Leave, Some(worker)) = (next, self.worker) {
            deferred.unpark();
            self.engine.tell_stopped(worker);
        }
        self.engine.perform_unattended(deferred);
    }

    fn arrive(&self, os_thread_id: Option<u64>, state: &mut State, deferred: &mut Deferred) -> Next {
        let (has_slot, place) = state.thread_arrived(self.start, &self.cell, os_thread_id);
        self.place.set(place);
        if has_slot {
            return self.find(state, deferred);
        }
        self.answer(state, Next::Leave, deferred)
    }

    fn find(&self, state: &mut State, deferred: &mut Deferred) -> Next {
        let next = state.next(self.slot, false, deferred);
        self.answer(state, next, deferred)
    }

    /// Performs the part of the answer that must happen before the lock is released.
    fn answer(&self, state: &mut State, next: Next, deferred: &mut Deferred) -> Next {
        match &next {
            // An own thread can be joined, so it counts as gone here. A thread of an executor
            // counts until its body has nothing left to do (`live`).
            Next::Leave if self.engine.source.is_own() => {
                state.thread_left(self.slot, self.place.get(), deferred);
            }
            Next::Run(_) if self.decorators.get().is_none() => {
                let decorators = state.decorators(self.slot);
                decorators.into_iter().for_each(|decorators| _ = self.decorators.set(decorators));
            }
            _ => {}
        }
        next
    }

    /// Spins until notified, for less time than parking and waking take.
    ///
    /// Does not yield: submitters rely on a searching thread instead of waking one. On a busy
    /// machine a thread that yields is not scheduled again soon.
    fn search(&self) {
        const PAUSES: u32 = 64;
        spin_briefly(PAUSES, || self.cell.is_notified());
    }

    /// Runs assigned work and the ready jobs of its lane, then asks for the next work.
    fn run(&self, mut assigned: Assigned) -> Next {
        let mut lane_run = LaneRun::new(assigned.more.take());
        let Assigned { mut job, lane, permit, .. } = assigned;
        let mut end = self.run_job(&job);
        let mut runs = 0;
        while let Some(next) = lane_run.next(end.unwrap_or(NOT_RUN).outcome) {
            if end.is_some() {
                runs += 1;
                job.finish();
            }
            job = next;
            end = self.run_job(&job);
        }
        let (next, deferred) = self.engine.under_lock(|state, deferred| {
            let done = Done::new(&job, lane, Some(self.slot), end).after(runs, lane_run.is_late());
            let next = state.next_after_run(self.slot, &done, permit, deferred);
            let next = self.answer(state, next, deferred);
            state.end_if_done(deferred);
            next
        });
        // Only after the critical section: a waiter of the job then finds the run counted.
        if end.is_some_and(|end| !end.again) {
            job.finish();
        }
        drop(job);
        self.perform(&next, deferred);
        next
    }

    /// Runs a job inside the decorators. Returns `None` if it was cancelled before it started.
    fn run_job(&self, job: &Job) -> Option<RunEnd> {
        let _in_task = self.is_in_start.then(|| InTask::enter(self.engine.address()));
        let decorators = self.decorators.get_or_init(|| self.announce());
        let is_own = self.engine.source.is_own();
        let frame = if is_own { None } else { Some(TaskFrame::enter()) };
        if is_own {
            self.cell.thread().next_epoch();
        }
        let panicked = |task: &TaskInfo, panic: &Panic| self.engine.panicked(task, panic);
        let end = job.run(&mut |run| decorators.around(&self.info, run), &panicked);
        if is_own {
            self.cell.thread().next_epoch(); // an interrupt from now on must not reach the next job
        }
        drop(frame);
        end
    }

    /// Announces a slot that was created without a submission to the decorators.
    fn announce(&self) -> Decorators {
        let announced = Decorators::announce(&self.info).unwrap_or_else(Decorators::none);
        self.engine.decorate(self.slot, announced)
    }
}
