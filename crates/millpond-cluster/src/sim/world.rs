//! Virtual time, the network and what happens in it.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use super::check::Promptness;
use super::client::SimWorker;
use super::{Mutant, Random};
use crate::engine::{
    Claim, Claimed, Engine, Fence, ManualEngineClock, MemoryEngine, NewTask, Renewed, Report, Settle, Tick,
    Verdict,
};
use crate::id::{SubmitterId, TaskId, WorkerId};
use crate::state::{Options, Priority, Record, State};

pub(super) const QUEUE: &str = "q";
pub(super) const LEASE: u64 = 5000;
pub(super) const TICK: u64 = 1000;
pub(super) const POLL: u64 = 1000;
/// A tick touches at most this many records of each kind.
pub(super) const TICK_LIMIT: usize = 3;
const WORKERS: usize = 3;
const TASKS: u64 = 10;
/// From this time on there are no faults, except that hints are still lost.
const QUIET: u64 = 40_000;
/// By this time every accepted task must have ended.
const END: u64 = QUIET + 240_000;

#[derive(Debug, Clone)]
pub(super) enum Event {
    Submit(u64),
    Cancel(u64),
    Feed(usize),
    /// The pool starts a task: worker, incarnation, task, whether it is a long one.
    Begin(usize, u32, Fence, bool),
    /// A handler returns: worker, incarnation, task, whether it has a result.
    Finish(usize, u32, Fence, bool),
    Report(usize),
    Renew(usize),
    Tick(usize),
    Crash(usize),
    Start(usize),
    Stall(usize),
    Drain(usize),
    RestartEngine,
    StepClock,
    CorrectClock(i64),
    Snapshot,
    /// A request that the network delayed; its reply is lost.
    Late(Box<Call>),
    /// The second half of a faulty expiry.
    LateExpire(Vec<TaskId>),
}

#[derive(Debug, Clone)]
pub(super) enum Call {
    Submit(NewTask),
    Cancel(TaskId),
    Claim(Claim),
    Renew(WorkerId, Vec<(Fence, Option<Vec<u8>>)>),
    Settle(WorkerId, Vec<Report>),
    Tick,
}

#[derive(Debug)]
pub(super) enum Reply {
    Submitted,
    Cancelled,
    Claimed(Vec<Claimed>),
    Renewed(Vec<Renewed>),
    Settled(Vec<bool>),
    Ticked(Tick),
}

/// What the simulation knows about the engine's content. Restored together with a snapshot.
#[derive(Debug, Clone, Default)]
pub(super) struct Truth {
    /// The holder of each running task: worker and attempt.
    pub(super) holders: BTreeMap<TaskId, (WorkerId, u32)>,
    pub(super) ends: BTreeMap<TaskId, (State, Option<Vec<u8>>)>,
    /// Tasks that have ended, including those whose record is gone.
    pub(super) done: BTreeSet<TaskId>,
    pub(super) attempts: BTreeMap<TaskId, u32>,
    pub(super) crashes: BTreeMap<TaskId, u32>,
    /// Tasks that the engine has accepted.
    pub(super) accepted: BTreeSet<TaskId>,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) mutant: Mutant,
    pub(super) now: u64,
    pub(super) steps: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    bodies: Vec<Option<Event>>,
    pub(super) engine: MemoryEngine,
    pub(super) clock: ManualEngineClock,
    pub(super) workers: Vec<SimWorker>,
    pub(super) truth: Truth,
    snapshot: Option<(Box<dyn Any>, Truth)>,
    /// Whether the engine was called since the last check.
    is_changed: bool,
    /// Runs of handlers that returned a result.
    pub(super) completed: BTreeSet<(WorkerId, TaskId, u32)>,
    /// Time of the latest fault.
    pub(super) last_fault: u64,
    /// Whether the extra task, submitted while every worker is idle, is on its way.
    has_extra: bool,
    pub(super) promptness: Promptness,
}

impl World {
    pub(super) fn new(seed: u64, mutant: Mutant) -> World {
        let clock = ManualEngineClock::new(1_800_000_000_000);
        let mut world = World {
            random: Random(seed),
            mutant,
            now: 0,
            steps: 0,
            events: BinaryHeap::new(),
            bodies: Vec::new(),
            engine: MemoryEngine::with_clock(clock.clock()),
            clock,
            workers: (0..WORKERS).map(|number| SimWorker::new(number, 0)).collect(),
            truth: Truth::default(),
            snapshot: None,
            is_changed: false,
            completed: BTreeSet::new(),
            last_fault: 0,
            has_extra: false,
            promptness: Promptness::default(),
        };
        for worker in 0..WORKERS {
            world.after(0, Event::Start(worker));
        }
        for task in 0..TASKS {
            let at = world.random.below(QUIET / 2);
            world.after(at, Event::Submit(task));
        }
        for task in TASKS..TASKS + 4 {
            // Long tasks in the time without faults: their leases must hold.
            world.after(QUIET + 2 * LEASE + 100 * task, Event::Submit(task));
        }
        world.plan_faults();
        world
    }

    fn plan_faults(&mut self) {
        let mut faults = Vec::new();
        for worker in 0..WORKERS {
            faults.extend([Event::Crash(worker), Event::Stall(worker), Event::Drain(worker)]);
        }
        faults.extend([Event::RestartEngine, Event::StepClock, Event::Cancel(0), Event::Cancel(1)]);
        for fault in faults {
            if self.random.chance(50) {
                let at = self.random.below(QUIET - 1000);
                self.after(at, fault);
            }
        }
        self.after(0, Event::Snapshot);
    }

    pub(super) fn after(&mut self, time: u64, event: Event) {
        self.bodies.push(Some(event));
        let number = self.bodies.len() - 1;
        self.events.push(Reverse((self.now + time, number as u64, number)));
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.now >= QUIET
    }

    /// Runs to the end, or to the first violated invariant.
    pub(super) fn run(mut self) -> Result<World, String> {
        while let Some(Reverse((at, _, number))) = self.events.pop() {
            if at > END {
                break;
            }
            let event = self.bodies[number].take().expect("an event happens once");
            self.clock.step(i64::try_from(at - self.now).expect("time is short"));
            self.now = at;
            self.steps += 1;
            let told = event.clone();
            self.is_changed = false;
            let result =
                self.happen(event).and_then(|()| if self.is_changed { self.check() } else { Ok(()) });
            result.and_then(|()| self.check_promptness()).map_err(|error| {
                let told = format!("{told:?}");
                format!("{error} at {at} ms after {}", told.get(..200).unwrap_or(&told))
            })?;
            if self.is_over() {
                return Ok(self);
            }
        }
        Err(self.unfinished())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Submit(number) => self.submit(number),
            Event::Cancel(number) => drop(self.call(Call::Cancel(TaskId::from(u128::from(number))))?),
            Event::RestartEngine => self.restart_engine(),
            Event::StepClock => {
                let hour = 3_600_000;
                let step = if self.random.chance(50) { hour } else { -hour };
                self.clock.step(step);
                self.fault();
                // A clock that was set back delays expiry by the same amount, so it is corrected
                // later.
                if step < 0 {
                    self.after(QUIET - self.now, Event::CorrectClock(-step));
                }
            }
            Event::CorrectClock(step) => {
                self.clock.step(step);
                self.fault();
            }
            Event::Snapshot => {
                self.snapshot = Some((self.engine.snapshot(), self.truth.clone()));
                if !self.is_quiet() {
                    self.after(1000, Event::Snapshot);
                }
            }
            Event::Late(call) => drop(self.execute(*call)?),
            Event::LateExpire(ids) => {
                ids.into_iter().for_each(|id| self.engine.tamper(id, expire_without_guard))
            }
            event => self.worker_event(event)?,
        }
        Ok(())
    }

    pub(super) fn fault(&mut self) {
        self.last_fault = self.now;
    }

    fn submit(&mut self, number: u64) {
        let is_new = number >= TASKS;
        let task = new_task(number, if is_new { 0 } else { self.random.below(4) });
        if !matches!(self.call(Call::Submit(task)), Ok(Some(_))) {
            // Without an answer the submitter submits again, under the same id.
            let wait = 50 + self.random.below(500);
            self.after(wait, Event::Submit(number));
        }
    }

    /// Restarts the engine without its latest writes.
    fn restart_engine(&mut self) {
        let Some((snapshot, truth)) = &self.snapshot else { return };
        self.engine.restore(&**snapshot);
        self.is_changed = true;
        // Handles have seen outcomes that are lost now: an engine that loses writes cannot
        // prevent that. The check is that the fences still hold.
        self.truth = truth.clone();
        self.fault();
        // Submitters of lost tasks would notice `ResultGone` and submit them again.
        for number in 0..TASKS {
            let id = TaskId::from(u128::from(number));
            if !self.truth.accepted.contains(&id) {
                let wait = 1000 + self.random.below(1000);
                self.after(wait, Event::Submit(number));
            }
        }
    }

    /// Sends a request through the network. `None`: there is no answer.
    pub(super) fn call(&mut self, call: Call) -> Result<Option<Reply>, String> {
        if self.is_quiet() || !self.random.chance(12) {
            return self.execute(call).map(Some);
        }
        self.fault();
        match self.random.below(4) {
            0 => Ok(None),                         // the request is lost
            1 => self.execute(call).map(|_| None), // the reply is lost
            2 => {
                // The request arrives twice.
                let late = 1 + self.random.below(2 * LEASE);
                self.after(late, Event::Late(Box::new(call.clone())));
                self.execute(call).map(Some)
            }
            _ => {
                let late = 1 + self.random.below(2 * LEASE);
                self.after(late, Event::Late(Box::new(call)));
                Ok(None)
            }
        }
    }

    fn execute(&mut self, call: Call) -> Result<Reply, String> {
        self.is_changed = true;
        let before = self.truth.holders.clone();
        let reply = match call.clone() {
            Call::Submit(task) => {
                let id = task.id;
                self.engine.submit(&[task]).expect("memory does not fail");
                self.truth.accepted.insert(id);
                Reply::Submitted
            }
            Call::Cancel(id) => {
                self.engine.cancel(&[id]).expect("memory does not fail");
                Reply::Cancelled
            }
            Call::Claim(ask) => {
                let claimed = self.engine.claim(&ask).expect("memory does not fail");
                for task in &claimed {
                    self.truth.holders.insert(task.fence.id, (ask.worker.clone(), task.fence.attempt));
                }
                Reply::Claimed(claimed)
            }
            Call::Renew(worker, held) => Reply::Renewed(self.renew(&worker, held)),
            Call::Settle(worker, reports) => Reply::Settled(self.settle(&worker, reports)),
            Call::Tick => Reply::Ticked(self.tick()),
        };
        self.check_call(&call, &reply, &before)?;
        Ok(reply)
    }

    fn renew(&mut self, worker: &WorkerId, mut held: Vec<(Fence, Option<Vec<u8>>)>) -> Vec<Renewed> {
        let asked = held.len();
        match self.mutant {
            Mutant::NoRenewal => held.clear(),
            Mutant::RenewAllButLast => drop(held.pop()),
            _ => {}
        }
        let mut answers =
            self.engine.renew(worker, Duration::from_millis(LEASE), &held).expect("memory does not fail");
        answers.resize(asked, Renewed::Held);
        answers
    }

    fn settle(&mut self, worker: &WorkerId, reports: Vec<Report>) -> Vec<bool> {
        reports.into_iter().map(|report| self.settle_one(worker, report)).collect()
    }

    fn settle_one(&mut self, worker: &WorkerId, mut report: Report) -> bool {
        let id = report.fence.id;
        let record = self.record(id);
        let mut worker = worker.clone();
        // Lets through what an incomplete fence would accept.
        if let Some(record) = record.as_ref().filter(|record| record.state == State::Running) {
            match self.mutant {
                Mutant::FenceWithoutOwner => worker = record.owner.clone().unwrap_or(worker),
                Mutant::FenceWithoutAttempt => report.fence.attempt = record.attempt,
                _ => {}
            }
        }
        let is_given_back = report.verdict == Verdict::GivenBack;
        let settle = Settle { worker: &worker, local: None, reports: std::slice::from_ref(&report) };
        let accepted = self.engine.settle(&settle).expect("memory does not fail")[0];
        if accepted && is_given_back && self.mutant == Mutant::AttemptLowered {
            self.engine.tamper(id, |record| record.attempt -= 1);
        }
        accepted
    }

    fn tick(&mut self) -> Tick {
        if self.mutant == Mutant::MaintenanceWithoutGuard {
            let now = self.clock.clock().now();
            let is_over = |record: &Record| record.lease.is_some_and(|lease| lease < now);
            let over: Vec<TaskId> =
                self.records().iter().filter(|one| is_over(one)).map(|one| one.id).collect();
            self.after(300, Event::LateExpire(over));
            return Tick::default();
        }
        let mut tick = self.engine.tick(QUEUE, TICK_LIMIT).expect("memory does not fail");
        while self.mutant == Mutant::UnboundedBatch && tick.is_full {
            tick = self.engine.tick(QUEUE, TICK_LIMIT).expect("memory does not fail");
        }
        tick
    }

    pub(super) fn record(&self, id: TaskId) -> Option<Record> {
        self.engine.fetch(&[id]).expect("memory does not fail").pop().flatten()
    }

    pub(super) fn records(&self) -> Vec<Record> {
        let ask = crate::engine::Browse { limit: 500, ..Default::default() };
        self.engine.browse(&ask).expect("memory does not fail").records
    }

    /// All tasks have ended. The first time, submits one more while every worker is idle.
    fn is_over(&mut self) -> bool {
        let count = usize::try_from(TASKS + 4).expect("a few");
        if self.truth.done.len() == count && self.is_quiet() && !self.has_extra {
            self.has_extra = true;
            self.after(3000, Event::Submit(TASKS + 5));
        }
        self.truth.done.len() > count
    }

    fn unfinished(&self) -> String {
        let is_open = |record: &&Record| !record.state.is_end();
        match self.records().iter().find(is_open) {
            Some(record) => format!("still open at the end: {record:?}"),
            None => format!("only {} tasks have ended", self.truth.done.len()),
        }
    }
}

fn expire_without_guard(record: &mut Record) {
    record.state = State::Ready;
    (record.owner, record.lease, record.due, record.finished, record.expires) =
        (None, None, None, None, None);
}

fn new_task(number: u64, delay_seconds: u64) -> NewTask {
    NewTask {
        id: TaskId::from(u128::from(number)),
        queue: QUEUE.to_owned(),
        name: "name".to_owned(),
        class: Priority::Normal,
        delay: Duration::from_secs(delay_seconds),
        deadline: None,
        codec: 0,
        args: number.to_le_bytes().to_vec(),
        options: Options { max_attempts: Some(3), max_crashes: Some(5), ..Options::default() },
        submitter: SubmitterId(7),
        retry_of: None,
        over_capacity: false,
    }
}
