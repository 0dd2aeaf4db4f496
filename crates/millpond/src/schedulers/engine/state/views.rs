//! The running and waiting tasks of a scheduler, listed for observers.
//!
//! All of this is read under the scheduler's lock. Jobs are described in place, not cloned. So an
//! observer never holds the last reference to a job, and runs no destructor of the user.

use super::State;
use super::lanes::LaneCell;
use super::slot::Slot;
use super::slot_thread::ThreadState;
use crate::monitor::{MOST_LISTED, RunningTask, Waiting, WaitingTask, WorkerState, WorkerView};
use crate::schedulers::engine::model::{Item, LaneRef};
use crate::schedulers::job::Job;
use crate::threads::WorkerInfo;
use crate::time::clock::Tick;

/// A snapshot of one thread of a scheduler.
pub(crate) struct ThreadView {
    number: u64,
    os_thread_id: Option<u64>,
    state: WorkerState,
    task: Option<RunningTask>,
}

impl ThreadView {
    /// Returns the number in the name of an own thread.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn of_worker(self, worker: &WorkerInfo) -> WorkerView {
        WorkerView::new(worker, self.os_thread_id, self.state, self.task)
    }
}

/// A snapshot of the waiting tasks, up to a limit.
pub(crate) struct WaitingView {
    limit: usize,
    now: Tick,
    /// The number of all waiting tasks and the age of the oldest. The list of tasks is filled by
    /// `sorted`.
    waiting: Waiting,
    /// Tasks that could start, with the time since which they wait: [`Tick::NEVER`] if unknown.
    ready: Vec<(Tick, WaitingTask)>,
    /// Tasks that are not due yet, with their due times.
    later: Vec<(Tick, WaitingTask)>,
}

impl WaitingView {
    fn is_full(&self) -> bool {
        self.ready.len() >= self.limit
    }

    /// Adds a job that could start.
    fn add_ready(&mut self, job: &Job, since: Tick) {
        let age = (since != Tick::NEVER).then(|| self.now.since(since));
        self.ready.push((since, WaitingTask::new(&job.info(), age, None)));
    }

    /// Adds a job that can start at or after `due`.
    fn add_timed(&mut self, job: &Job, due: Tick) {
        if due <= self.now {
            return self.add_ready(job, due);
        }
        self.later.push((due, WaitingTask::new(&job.info(), None, Some(due.since(self.now)))));
    }

    /// Adds the jobs of a lane that are neither running nor assigned. Takes time in proportion to
    /// the number of jobs that it adds.
    fn add_lane(&mut self, lane: &LaneCell) {
        lane.queue().describe_ready(self.limit.saturating_sub(self.ready.len()), |job, since| {
            self.add_ready(job, since);
        });
        for (due, job) in lane.later() {
            let listed = if due <= self.now { &self.ready } else { &self.later };
            if listed.len() >= self.limit {
                return;
            }
            self.add_timed(job, due);
        }
    }

    /// Returns the first tasks in order: ready ones by age, then later ones by due time.
    pub(crate) fn sorted(mut self) -> Waiting {
        self.ready.sort_by_key(|(since, _)| *since);
        self.later.sort_by_key(|(due, _)| *due);
        let tasks = self.ready.into_iter().chain(self.later).map(|(_, task)| task);
        let tasks: Vec<_> = tasks.take(self.limit).collect();
        // `ages` reads only the head of each queue. A lane that has run is queued at the end, so an
        // older task may be further back.
        let oldest = self.waiting.oldest.max(tasks.first().and_then(|task| task.age));
        Waiting { tasks, oldest, ..self.waiting }
    }
}

impl State {
    // ---- what runs

    /// Returns the threads that have not left, then threads that have not arrived at their slots.
    /// The list of the latter is limited, because an executor may have any number of them.
    pub(crate) fn thread_views(&self) -> Vec<ThreadView> {
        let now = self.now();
        let arrived = self.threads.iter().map(|(start, os_thread_id)| {
            let slot = self.slots.get(start.slot).filter(|slot| {
                slot.thread().is_attempt(start.attempt) && slot.thread().state() != ThreadState::None
            });
            let task = slot.and_then(|slot| self.task_of(slot, now));
            let state = match (slot, &task) {
                (None, _) => WorkerState::Leaving,
                (_, None) => WorkerState::Idle,
                (_, Some(_)) => WorkerState::Running,
            };
            ThreadView { number: start.attempt, os_thread_id, state, task }
        });
        let starting = self.slots.iter().filter_map(|(_, slot)| {
            let (number, task) = (slot.thread().starting()?, self.task_of(slot, now));
            Some(ThreadView { number, os_thread_id: None, state: WorkerState::Starting, task })
        });
        arrived.chain(starting.take(MOST_LISTED)).collect()
    }

    /// Returns the task that the thread of a slot runs or has been assigned.
    fn task_of(&self, slot: &Slot, now: Tick) -> Option<RunningTask> {
        let Some(first) = slot.running() else {
            let assigned = slot.assigned().filter(|_| !self.is_assigned_waiting(slot))?;
            return Some(running_task(&assigned.job, None));
        };
        let running_for = slot.lap().opened().map(|opened| now.since(opened));
        // A thread that continues in a lane records its current job only in the lane's queue.
        let lane = slot.running_lane().and_then(|lane| self.lanes.get(lane));
        let current =
            lane.and_then(|lane| lane.queue().describe_running(|current| running_task(current, running_for)));
        Some(current.unwrap_or_else(|| running_task(first, running_for)))
    }

    // ---- what waits

    /// Returns true if the work assigned to a slot waits: its thread could not be started, or a
    /// pause keeps the thread from taking it.
    pub(super) fn is_assigned_waiting(&self, slot: &Slot) -> bool {
        self.is_paused || slot.thread().state() == ThreadState::None
    }

    /// Lists at most `limit` waiting tasks of each kind. Visits each slot and about `limit` jobs.
    pub(crate) fn waiting(&mut self, limit: usize) -> WaitingView {
        let waiting =
            Waiting { total: self.queued_count(), oldest: self.ages().oldest_wait(), tasks: Vec::new() };
        let mut view = WaitingView { limit, now: self.now(), waiting, ready: Vec::new(), later: Vec::new() };
        self.add_ready(&mut view);
        if !view.is_full() {
            self.add_delayed(&mut view);
        }
        view
    }

    /// Adds tasks that wait for a thread, and those in lanes that run or are queued.
    fn add_ready(&self, view: &mut WaitingView) {
        for (_, slot) in self.slots.iter().filter(|(_, slot)| self.is_assigned_waiting(slot)) {
            if let Some(assigned) = slot.assigned().filter(|_| !view.is_full()) {
                view.add_ready(&assigned.job, assigned.since);
            }
        }
        for item in self.queues.in_order(&self.slots).take(view.limit).flatten() {
            match item {
                Item::Job(job, _, since) => view.add_ready(job, *since),
                Item::Lane(lane, _) => self.add_lane(*lane, view),
            }
        }
        let lanes = self.slots.iter().filter_map(|(_, slot)| slot.lane());
        lanes.chain(self.lanes.in_place()).for_each(|lane| self.add_lane(lane, view));
    }

    /// Adds tasks that wait for their due time.
    fn add_delayed(&self, view: &mut WaitingView) {
        self.timers.first_lanes(view.limit).for_each(|lane| self.add_lane(lane, view));
        self.timers.first_jobs(view.limit).for_each(|(due, job)| view.add_timed(job, due));
    }

    fn add_lane(&self, lane: LaneRef, view: &mut WaitingView) {
        if let Some(cell) = self.lanes.get(lane).filter(|_| !view.is_full()) {
            view.add_lane(cell);
        }
    }
}

fn running_task(job: &Job, running_for: Option<std::time::Duration>) -> RunningTask {
    let info = job.info();
    RunningTask::new(info.id(), info.name().map(str::to_owned), running_for)
}
