//! The tasks that a worker holds, and the decisions about them. No threads, no I/O, no clock.
//!
//! The threads of a worker and the simulation use the same ledger. Time is the worker's own
//! monotonic clock, counted from its start. It decides only what this worker does with its tasks;
//! the engine uses its own clock.
//!
//! Invariants
//! 1. A task is held from its claim until its report is answered or its lease is lost. Then it is
//!    removed, and nothing that its handler still does is reported.
//! 2. `valid_until` is counted from before the call that set it, so the worker gives up no later
//!    than the engine does.
//! 3. At most one suspect is held at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millpond::interrupt::Interrupter;

use crate::context::Flags;
use crate::engine::{BATCH_LIMIT, Claim, Claimed, Fence, Renewed};
use crate::id::{TaskId, WorkerId};

/// Maximum number of tasks that are claimed beyond the threads of the pool.
const PREFETCH_LIMIT: usize = 100;
/// Maximum number of tasks in one claim.
const CLAIM_LIMIT: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// In the pool's queue.
    Waiting,
    /// Its handler runs.
    Running,
    /// Its report is on its way.
    Reporting,
}

#[derive(Debug)]
struct Held {
    attempt: u32,
    phase: Phase,
    is_suspect: bool,
    flags: Arc<Flags>,
    interrupter: Option<Interrupter>,
    /// When the lease was last set.
    renewed: Duration,
    /// From this time on, another worker may hold the task.
    valid_until: Duration,
    /// When the attempt will be interrupted.
    timeout: Option<Duration>,
    timed_out: bool,
    began: Duration,
    progress: Option<Vec<u8>>,
}

/// Running tasks to interrupt. The caller does it, holding no lock.
pub(crate) type Interrupts = Vec<Interrupter>;

/// What to do with a task that the pool is about to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Run it.
    Run,
    /// It was cancelled while it waited: report this.
    Cancelled,
    /// This worker no longer holds it: do nothing.
    Lost,
}

/// The ledger's entry of a task whose handler has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) is_cancelled: bool,
    pub(crate) timed_out: bool,
    /// Whether the worker is past its grace period: an interrupted attempt is then given back.
    pub(crate) is_stopping: bool,
    /// Whether no other task waits or runs: the pool thread may then settle the report itself.
    pub(crate) is_last: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Ledger {
    worker: WorkerId,
    queue: String,
    lease: Duration,
    threads: usize,
    held: HashMap<TaskId, Held>,
    waiting: usize,
    running: usize,
    suspects: usize,
    prefetch: usize,
    claim_time: Average,
    run_time: Average,
    is_draining: bool,
    is_stopping: bool,
    failing_since: Option<Duration>,
    pub(crate) lease_lost: u64,
}

/// A moving average, in seconds.
#[derive(Debug, Default, Clone, Copy)]
struct Average(Option<f64>);

impl Average {
    fn add(&mut self, time: Duration) {
        let time = time.as_secs_f64();
        self.0 = Some(self.0.map_or(time, |average| average + (time - average) / 8.0));
    }
}

impl Ledger {
    pub(crate) fn new(worker: WorkerId, queue: &str, lease: Duration, threads: usize) -> Ledger {
        Ledger {
            worker,
            queue: queue.to_owned(),
            lease,
            threads,
            held: HashMap::new(),
            waiting: 0,
            running: 0,
            suspects: 0,
            prefetch: 0,
            claim_time: Average::default(),
            run_time: Average::default(),
            is_draining: false,
            is_stopping: false,
            failing_since: None,
            lease_lost: 0,
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn unfinished(&self) -> usize {
        self.waiting + self.running
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    pub(crate) fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    pub(crate) fn allows_suspects(&self) -> bool {
        self.suspects == 0
    }

    /// Engine calls have failed for two thirds of a lease: leases may be lost soon, so claim
    /// nothing.
    pub(crate) fn is_cut_off(&self, now: Duration) -> bool {
        self.failing_since.is_some_and(|since| now.saturating_sub(since) >= self.lease * 2 / 3)
    }

    /// What to claim now. `None`: nothing, until a task has finished.
    pub(crate) fn ask(&self, now: Duration) -> Option<Claim> {
        if self.is_draining || self.is_cut_off(now) {
            return None;
        }
        let room = (self.threads + self.prefetch).saturating_sub(self.unfinished());
        let backlog = self.held.len() - self.unfinished();
        // Wait until half of it is free: a claim of one task costs the engine as much as a claim of
        // fifty.
        if room == 0 || room < self.prefetch / 2 || backlog > BATCH_LIMIT {
            return None;
        }
        Some(self.claim(room.min(CLAIM_LIMIT), Vec::new()))
    }

    /// A claim of one task by its id.
    pub(crate) fn ask_for(&self, id: TaskId) -> Claim {
        self.claim(1, vec![id])
    }

    fn claim(&self, max: usize, ids: Vec<TaskId>) -> Claim {
        Claim {
            queue: self.queue.clone(),
            worker: self.worker.clone(),
            max,
            max_suspects: usize::from(self.allows_suspects()),
            lease: self.lease,
            ids,
        }
    }

    /// Enters the answer to a claim that was sent at `asked`. If this worker lost one of the tasks
    /// without noticing, the old attempt must be interrupted.
    pub(crate) fn claimed(
        &mut self,
        tasks: &[Claimed],
        asked: Duration,
        now: Duration,
    ) -> (Vec<Arc<Flags>>, Interrupts) {
        if !tasks.is_empty() {
            self.claim_time.add(now.saturating_sub(asked));
            self.prefetch = self.choose_prefetch();
        }
        let lost = tasks.iter().filter_map(|task| self.lose_earlier(task.fence.id)).collect();
        (tasks.iter().map(|task| self.hold(task, asked)).collect(), lost)
    }

    fn hold(&mut self, task: &Claimed, asked: Duration) -> Arc<Flags> {
        let flags = Arc::new(Flags::default());
        let held = Held {
            attempt: task.fence.attempt,
            phase: Phase::Waiting,
            is_suspect: task.is_suspect,
            flags: Arc::clone(&flags),
            interrupter: None,
            renewed: asked,
            valid_until: asked + self.lease,
            timeout: task.deadline_in.map(|left| asked + left),
            timed_out: false,
            began: asked,
            progress: None,
        };
        self.waiting += 1;
        self.suspects += usize::from(held.is_suspect);
        self.held.insert(task.fence.id, held);
        flags
    }

    /// Prefetches to hide the round trip, but only for short tasks.
    fn choose_prefetch(&self) -> usize {
        let (Some(claim), Some(run)) = (self.claim_time.0, self.run_time.0) else { return 0 };
        if run > 10.0 * claim {
            return 0;
        }
        let wanted = (self.threads as f64 * claim / run.max(1e-9)).ceil();
        if wanted >= PREFETCH_LIMIT as f64 { PREFETCH_LIMIT } else { wanted as usize }
    }

    fn get(&mut self, fence: Fence) -> Option<&mut Held> {
        self.held.get_mut(&fence.id).filter(|held| held.attempt == fence.attempt)
    }

    /// Called before the pool runs a task.
    pub(crate) fn begin(
        &mut self,
        fence: Fence,
        attempt_timeout: Option<Duration>,
        interrupter: Option<Interrupter>,
        now: Duration,
    ) -> Begin {
        let Some(held) = self.get(fence).filter(|held| held.phase == Phase::Waiting) else {
            return Begin::Lost;
        };
        if held.flags.cancelled.load(Ordering::Relaxed) {
            // The cancel found no thread to interrupt, so it is handled here.
            self.skip(fence);
            return Begin::Cancelled;
        }
        held.phase = Phase::Running;
        held.interrupter = interrupter;
        held.began = now;
        let timeout = attempt_timeout.and_then(|timeout| now.checked_add(timeout));
        held.timeout = held.timeout.into_iter().chain(timeout).min();
        self.waiting -= 1;
        self.running += 1;
        Begin::Run
    }

    /// When a running task will be interrupted.
    pub(crate) fn timeout(&self, fence: Fence) -> Option<Duration> {
        self.held.get(&fence.id).and_then(|held| held.timeout)
    }

    /// Called when the handler has returned. `None`: the task was lost meanwhile, so there is
    /// nothing to report.
    pub(crate) fn finish(&mut self, fence: Fence, now: Duration) -> Option<Finished> {
        let (is_stopping, is_last) = (self.is_stopping, self.unfinished() == 1);
        let held = self.get(fence).filter(|held| held.phase == Phase::Running)?;
        held.phase = Phase::Reporting;
        held.interrupter = None;
        let began = held.began;
        let is_cancelled = held.flags.cancelled.load(Ordering::Relaxed);
        let timed_out = held.timed_out;
        self.running -= 1;
        self.run_time.add(now.saturating_sub(began));
        Some(Finished { is_cancelled, timed_out, is_stopping, is_last })
    }

    /// Prepares the report of a task that never began. False: this worker no longer holds it.
    pub(crate) fn skip(&mut self, fence: Fence) -> bool {
        let Some(held) = self.get(fence).filter(|held| held.phase == Phase::Waiting) else { return false };
        held.phase = Phase::Reporting;
        self.waiting -= 1;
        true
    }

    /// Removes a task whose report was answered.
    pub(crate) fn settled(&mut self, fence: Fence) {
        if self.get(fence).is_some() {
            self.forget(fence.id);
        }
    }

    /// Returns true if a report may still be accepted.
    pub(crate) fn holds(&self, fence: Fence) -> bool {
        self.held.get(&fence.id).is_some_and(|held| held.attempt == fence.attempt)
    }

    fn forget(&mut self, id: TaskId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        match held.phase {
            Phase::Waiting => self.waiting -= 1,
            Phase::Running => self.running -= 1,
            Phase::Reporting => {}
        }
        self.suspects -= usize::from(held.is_suspect);
        if self.held.is_empty() {
            // Without leases no renewal can end the cut-off state. Let claims try again.
            self.failing_since = None;
        }
        Some(held)
    }

    /// The engine has handed out a task again. If this worker's report is on its way, the engine
    /// may have taken it: a retry without a delay can be claimed before the answer arrives here.
    fn lose_earlier(&mut self, id: TaskId) -> Option<Interrupter> {
        if self.held.get(&id)?.phase == Phase::Reporting {
            self.forget(id);
            return None;
        }
        self.lose(id)
    }

    fn lose(&mut self, id: TaskId) -> Option<Interrupter> {
        let held = self.forget(id)?;
        self.lease_lost += 1;
        held.flags.lease_lost.store(true, Ordering::Relaxed);
        held.interrupter
    }

    /// Leases to extend now: those older than a third of a lease, oldest first, and those with a
    /// progress report.
    pub(crate) fn renewals(&mut self, now: Duration) -> Vec<(Fence, Option<Vec<u8>>)> {
        let third = self.lease / 3;
        let is_due = |held: &Held| now.saturating_sub(held.renewed) >= third || held.progress.is_some();
        let mut due: Vec<(Duration, TaskId)> =
            self.held.iter().filter(|(_, held)| is_due(held)).map(|(id, held)| (held.renewed, *id)).collect();
        due.sort_unstable();
        due.truncate(BATCH_LIMIT);
        let take = |(_, id): (Duration, TaskId)| {
            let held = self.held.get_mut(&id).expect("it was just listed");
            (Fence { id, attempt: held.attempt }, held.progress.take())
        };
        due.into_iter().map(take).collect()
    }

    /// Enters the answers to renewals that were sent at `asked`.
    pub(crate) fn renewed(&mut self, fences: &[Fence], answers: &[Renewed], asked: Duration) -> Interrupts {
        self.failing_since = None;
        let mut interrupts = Vec::new();
        for (fence, answer) in fences.iter().zip(answers) {
            if !self.holds(*fence) {
                continue;
            }
            match answer {
                Renewed::Lost => interrupts.extend(self.lose(fence.id)),
                Renewed::Held | Renewed::Cancel => {
                    let valid_until = asked + self.lease;
                    let held = self.held.get_mut(&fence.id).expect("it is held");
                    (held.renewed, held.valid_until) = (asked, valid_until);
                }
            }
            if *answer == Renewed::Cancel {
                interrupts.extend(self.cancel(*fence));
            }
        }
        interrupts
    }

    /// Notes that a renewal failed.
    pub(crate) fn renew_failed(&mut self, now: Duration) {
        self.failing_since.get_or_insert(now);
    }

    /// Marks a task as cancelled. Returns what to interrupt.
    pub(crate) fn cancel(&mut self, fence: Fence) -> Option<Interrupter> {
        let held = self.get(fence)?;
        if held.flags.cancelled.swap(true, Ordering::Relaxed) {
            return None;
        }
        held.interrupter.clone()
    }

    /// The fence of this worker's attempt of a task.
    pub(crate) fn fence_of(&self, id: TaskId) -> Option<Fence> {
        self.held.get(&id).map(|held| Fence { id, attempt: held.attempt })
    }

    /// Gives up tasks whose lease has expired, and interrupts attempts that have timed out.
    pub(crate) fn pass_time(&mut self, now: Duration) -> Interrupts {
        let over: Vec<TaskId> =
            self.held.iter().filter(|(_, held)| now >= held.valid_until).map(|(id, _)| *id).collect();
        let mut interrupts: Interrupts = over.into_iter().filter_map(|id| self.lose(id)).collect();
        for held in self.held.values_mut() {
            let is_over = held.phase == Phase::Running && held.timeout.is_some_and(|timeout| now >= timeout);
            if is_over && !held.timed_out {
                held.timed_out = true;
                interrupts.extend(held.interrupter.clone());
            }
        }
        interrupts
    }

    /// When the next lease or attempt needs attention.
    pub(crate) fn next_wake(&self, now: Duration) -> Duration {
        let third = self.lease / 3;
        let of = |held: &Held| {
            let timeout = held.timeout.filter(|_| held.phase == Phase::Running && !held.timed_out);
            (held.renewed + third).min(held.valid_until).min(timeout.unwrap_or(Duration::MAX))
        };
        let next = self.held.values().map(of).min().unwrap_or(Duration::MAX);
        // A failed renewal is repeated at the regular beat, not in a tight loop.
        next.max(now + Duration::from_millis(10)).min(now + self.lease / 6)
    }

    /// Stores a progress report of the handler.
    pub(crate) fn report_progress(&mut self, fence: Fence, progress: Vec<u8>) {
        if let Some(held) = self.get(fence) {
            held.progress = Some(progress);
        }
    }

    /// Stops claiming. Returns the tasks that have not begun, to be given back.
    pub(crate) fn drain(&mut self) -> Vec<Fence> {
        self.is_draining = true;
        let waiting = self.held.iter().filter(|(_, held)| held.phase == Phase::Waiting);
        let mut fences: Vec<Fence> =
            waiting.map(|(id, held)| Fence { id: *id, attempt: held.attempt }).collect();
        fences.sort_unstable_by_key(|fence| fence.id);
        for fence in &fences {
            self.skip(*fence);
        }
        fences
    }

    /// The grace period is over: everything that runs should stop.
    pub(crate) fn stop(&mut self) -> Interrupts {
        self.is_stopping = true;
        self.held.values().filter_map(|held| held.interrupter.clone()).collect()
    }

    /// Gives up running handlers that ignored the interrupt. Their tasks are given back; what the
    /// handlers still do is ignored.
    pub(crate) fn abandon(&mut self) -> Vec<Fence> {
        let mut fences = Vec::new();
        for (id, held) in &mut self.held {
            if held.phase == Phase::Running {
                held.phase = Phase::Reporting;
                held.flags.lease_lost.store(true, Ordering::Relaxed);
                fences.push(Fence { id: *id, attempt: held.attempt });
            }
        }
        self.running = 0;
        fences
    }
}

#[cfg(test)]
mod tests;
