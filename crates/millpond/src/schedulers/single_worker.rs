//! One worker of a scheduler, as a scheduler of its own.
//!
//! Everything goes into one lane of the original, so order and non-overlap come from there. What is kept here is a register of
//! what was given to whom, so that a worker can dispose of its own work only, and a graceful end knows when all is
//! done. Each piece of work carries its [`WorkToken`]; the ticket goes when the work has run or was thrown away, whoever
//! did that, and strikes the entry out.

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::waiters::{Disposal, Ends, Waiters};
use super::{Disposable, Lane, PeriodicTask, Scheduler, SchedulerStats, Worker};
use crate::executor::{RejectReason, Rejected, SchedulerFacts};
use crate::interrupt::Interrupted;
use crate::sync::{Arc, AtomicBool, Exclusive, Mutex, MutexGuard, Ordering, deadline_after};
use crate::task::Outcome;
use crate::task::Task;
use crate::task::periodic::{Body, OnPanic};

/// One worker of `original`, as a scheduler: everything given to it, and to its workers, runs one at a time in one lane, by due
/// time and then by submission.
///
/// Its workers share the lane, and dispose of what they were given and no more. Disposing of it disposes of the lane and
/// leaves `original` alone. A graceful end takes nothing more, lets the lane finish what it has, ends its series,
/// and then gives the place in `original` free; dropping the last handle begins that.
///
/// Its figures are those of the lane: one slot until it has ended, a thread while something runs. How much may wait
/// is for `original` to say.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, Scheduler, SchedulerExt};
/// use std::time::Duration;
///
/// let pool = schedulers::new_parallel(4, "sum")?;
/// let in_order = schedulers::single_worker(&pool);
/// in_order.schedule(|| println!("first"))?;
/// in_order.create_worker().schedule(|| println!("second"))?;
/// assert!(in_order.dispose_gracefully(Duration::MAX)?);
/// assert!(!pool.is_disposed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn single_worker(original: &dyn Scheduler) -> Arc<dyn Scheduler> {
    let name = format!("singleWorker({original})").into();
    let register = Register { worker: Some(original.create_worker()), ..Register::default() };
    let core = Arc::new(Core { name, register: Mutex::new(register), waiters: Waiters::default() });
    Arc::new(SingleWorker { handle: Arc::new(Handle { core }) })
}

struct SingleWorker {
    handle: Arc<Handle>,
}

/// Shared by the scheduler and its workers: when it goes, nobody can submit any more.
struct Handle {
    core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.begin_drain();
    }
}

struct Core {
    name: Arc<str>,
    register: Mutex<Register>,
    waiters: Waiters,
}

#[derive(Default)]
struct Register {
    phase: Phase,
    /// The place in the original, until the end. Called and dropped without the lock.
    worker: Option<Worker>,
    entries: HashMap<u64, Entry>,
    /// The last number given to an entry or a worker.
    last_number: u64,
    /// What ran last: for the original its run is over a moment later than for us.
    last_run: Option<Disposable>,
    counted: CountedCell,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    #[default]
    Live,
    /// Takes nothing more, and works off what it has.
    Draining,
    /// Has thrown away what waited.
    Disposed,
}

/// A piece of work that the lane has.
struct Entry {
    /// The worker that it was given to; 0: the scheduler.
    owner: u64,
    series: bool,
    state: State,
    /// No further run may begin.
    ended: bool,
    /// It was disposed of by its worker: a run is to be interrupted.
    disposed: bool,
    /// There as soon as the lane has accepted it.
    handle: Option<Disposable>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// CountedCell as queued.
    Waiting,
    /// CountedCell as running.
    Running(ThreadId),
    /// CountedCell by its outcome.
    Done,
}

#[derive(Default)]
struct CountedCell {
    submitted: u64,
    completed: u64,
    panicked: u64,
    cancelled: u64,
    rejected: u64,
    queued: u64,
    running: u64,
}

impl CountedCell {
    fn accept(&mut self) {
        self.submitted += 1;
        self.queued += 1;
    }
}

/// Belongs to a piece of work. When it goes the work is done with.
struct WorkToken {
    core: Arc<Core>,
    number: u64,
}

impl Drop for WorkToken {
    fn drop(&mut self) {
        self.core.strike_out(self.number);
    }
}

/// How a piece of work finds things when its turn has come.
enum Start {
    Run,
    /// It was disposed of.
    Leave,
    /// It was refused, and whoever has it runs it by hand: no affair of ours.
    Foreign,
}

impl WorkToken {
    fn begin(&self) -> Start {
        let mut register = self.core.register.lock();
        let Some(entry) = register.entries.get_mut(&self.number) else { return Start::Foreign };
        if entry.ended {
            return Start::Leave;
        }
        entry.state = State::Running(thread::current().id());
        register.counted.queued -= 1;
        register.counted.running += 1;
        Start::Run
    }

    /// A run has ended, the last one unless it goes on `again`. A series counts as waiting then, until its ticket goes.
    fn end(&self, outcome: Outcome, again: bool) {
        let mut register = self.core.register.lock();
        let phase = register.phase;
        let Some(entry) = register.entries.get_mut(&self.number) else { return };
        entry.ended |= !again || phase != Phase::Live;
        entry.state = if entry.ended { State::Done } else { State::Waiting };
        let (again, handle) = (!entry.ended, entry.handle.clone());
        let counted = &mut register.counted;
        counted.running -= 1;
        match outcome {
            Outcome::Succeeded => counted.completed += 1,
            Outcome::Panicked => counted.panicked += 1,
            Outcome::Cancelled => counted.cancelled += 1,
        }
        if again {
            counted.accept();
        }
        let before = std::mem::replace(&mut register.last_run, handle);
        drop(register);
        drop(before);
    }

    /// Takes work that has ended out of the lane, or says at least that it was cancelled. It does so on its own thread, which is not
    /// interrupted by that.
    fn leave_if_ended(&self) {
        let register = self.core.register.lock();
        let ended = register.entries.get(&self.number).filter(|entry| entry.ended);
        let handle = ended.and_then(|entry| entry.handle.clone());
        drop(register);
        if let Some(handle) = handle {
            handle.dispose();
        }
    }
}

/// Work with its ticket. The work is dropped first.
struct TokenedTask<W> {
    work: W,
    ticket: WorkToken,
}

impl TokenedTask<Task> {
    fn run(self) {
        let TokenedTask { work: task, ticket } = self;
        match ticket.begin() {
            Start::Leave => {
                ticket.leave_if_ended(); // before whoever disposes of it comes to this one
                return task.drop_caught();
            }
            Start::Foreign => return task.run(),
            Start::Run => {}
        }
        let mut outcome = Outcome::Succeeded;
        let payload = task.once().run_settled(&mut |settled| outcome = settled).panic;
        ticket.end(outcome, false);
        if let Some(payload) = payload {
            resume_unwind(payload); // the original tells the error hooks
        }
    }
}

impl TokenedTask<Body> {
    fn run(&mut self, on_panic: OnPanic) {
        match self.ticket.begin() {
            Start::Leave => return self.ticket.leave_if_ended(),
            Start::Foreign => return (self.work)(),
            Start::Run => {}
        }
        let ran = catch_unwind(AssertUnwindSafe(&mut self.work));
        let again = ran.is_ok() || on_panic == OnPanic::Continue;
        self.ticket.end(if ran.is_ok() { Outcome::Succeeded } else { Outcome::Panicked }, again);
        if again {
            self.ticket.leave_if_ended(); // otherwise the original ends the series by itself
        }
        if let Err(payload) = ran {
            resume_unwind(payload);
        }
    }
}

impl Core {
    /// The number of a new entry and the lane to put the work into; else why it is refused.
    fn enter(&self, owner: Option<&Child>, series: bool) -> Result<(u64, Worker), RejectReason> {
        let mut register = self.register.lock();
        let Register { phase: Phase::Live, worker: Some(worker), .. } = &*register else {
            register.counted.rejected += 1;
            return Err(RejectReason::Shutdown);
        };
        let worker = worker.clone();
        if owner.is_some_and(|child| child.closed.load(Ordering::Relaxed)) {
            register.counted.rejected += 1;
            drop(register);
            return Err(RejectReason::WorkerDisposed);
        }
        register.last_number += 1;
        let number = register.last_number;
        let owner = owner.map_or(0, |child| child.number);
        let (state, ended, disposed) = (State::Waiting, false, false);
        register.entries.insert(number, Entry { owner, series, state, ended, disposed, handle: None });
        register.counted.accept();
        Ok((number, worker))
    }

    fn refused(&self, task: Task, reason: RejectReason) -> Rejected {
        Rejected::new(task, reason).by_scheduler(SchedulerFacts { name: Arc::clone(&self.name), full: None })
    }

    fn submit(
        self: &Arc<Self>,
        owner: Option<&Child>,
        delay: Duration,
        task: Task,
    ) -> Result<Disposable, Rejected> {
        let (number, worker) = match self.enter(owner, false) {
            Ok(entered) => entered,
            Err(reason) => return Err(self.refused(task, reason)),
        };
        let info = task.info().clone();
        let ticketed = TokenedTask { work: task, ticket: WorkToken { core: Arc::clone(self), number } };
        let given = worker.schedule_task_after(delay, Task::known_as(info, move || ticketed.run()));
        self.settle(number, given)
    }

    fn submit_series(
        self: &Arc<Self>,
        owner: Option<&Child>,
        (initial, period): (Duration, Duration),
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        let (number, worker) = match self.enter(owner, true) {
            Ok(entered) => entered,
            Err(reason) => return Err(self.refused(task.into_task(), reason)),
        };
        let PeriodicTask { info, body, missed, on_panic } = task;
        let ticket = WorkToken { core: Arc::clone(self), number };
        let mut ticketed = TokenedTask { work: body.into_inner(), ticket };
        let after_panic = on_panic.unwrap_or(OnPanic::Continue);
        let body = Exclusive::new(Box::new(move || ticketed.run(after_panic)) as Body);
        let given =
            worker.schedule_periodically_task(initial, period, PeriodicTask { info, body, missed, on_panic });
        self.settle(number, given)
    }

    /// The lane has taken it, or not.
    fn settle(&self, number: u64, given: Result<Disposable, Rejected>) -> Result<Disposable, Rejected> {
        let handle = match given {
            Ok(handle) => handle,
            Err(rejected) => return Err(self.withdraw(number, rejected)),
        };
        let mut register = self.register.lock();
        let Some(entry) = register.entries.get_mut(&number) else { return Ok(handle) };
        entry.handle = Some(handle.clone());
        // Its end may have come before anybody had the handle. What runs sees to its own end.
        let at_rest = match entry.state {
            State::Waiting => true,
            State::Running(_) => false,
            State::Done => entry.series,
        };
        let unwanted = entry.disposed || (entry.ended && at_rest);
        drop(register);
        if unwanted {
            handle.dispose();
        }
        Ok(handle)
    }

    fn withdraw(&self, number: u64, rejected: Rejected) -> Rejected {
        let mut register = self.register.lock();
        register.counted.rejected += 1;
        if register.entries.remove(&number).is_some() {
            register.counted.submitted -= 1;
            register.counted.queued -= 1;
        }
        let over = register.phase != Phase::Live;
        self.end_if_done(register);
        if over && rejected.reason() == RejectReason::WorkerDisposed {
            return self.refused(rejected.into_task(), RejectReason::Shutdown); // it was us who disposed of the lane
        }
        rejected
    }

    fn strike_out(&self, number: u64) {
        let mut register = self.register.lock();
        let Some(entry) = register.entries.remove(&number) else { return };
        if entry.state == State::Waiting {
            register.counted.queued -= 1;
            register.counted.cancelled += 1;
        }
        self.end_if_done(register);
    }

    /// Gives the place in the original free if nothing is left to do.
    fn end_if_done(&self, mut register: MutexGuard<'_, Register>) {
        if !register.has_ended() {
            return;
        }
        let worker = register.worker.take();
        drop(register);
        drop(worker);
        self.waiters.wake_all();
    }

    fn dispose(&self) {
        let mut register = self.register.lock();
        register.phase = Phase::Disposed;
        let worker = register.worker.clone();
        drop(register);
        if let Some(worker) = worker {
            worker.dispose();
        }
        self.end_if_done(self.register.lock());
    }

    fn is_disposed(&self) -> bool {
        let register = self.register.lock();
        let (phase, worker) = (register.phase, register.worker.clone());
        drop(register);
        phase != Phase::Live || worker.is_none_or(|worker| worker.is_disposed())
    }

    fn wait_for_end(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let deadline = deadline_after(timeout);
        if !self.waiters.wait(timeout, || self.has_ended())? {
            return Ok(false);
        }
        let last_run = self.register.lock().last_run.clone();
        let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
        last_run.map_or(Ok(true), |run| run.wait_for_last_run(left))
    }

    /// The calling thread is just running something of ours.
    fn is_current(&self) -> bool {
        let me = State::Running(thread::current().id());
        self.register.lock().entries.values().any(|entry| entry.state == me)
    }
}

impl Register {
    fn has_ended(&self) -> bool {
        self.phase != Phase::Live && self.entries.is_empty()
    }
}

impl Ends for Core {
    fn begin_drain(&self) {
        let mut register = self.register.lock();
        if register.phase == Phase::Live {
            register.phase = Phase::Draining;
        }
        let mut handles = Vec::new();
        for entry in register.entries.values_mut().filter(|entry| entry.series && !entry.ended) {
            entry.ended = true;
            if entry.state == State::Waiting {
                handles.extend(entry.handle.clone());
            }
        }
        self.end_if_done(register);
        for handle in handles {
            handle.dispose();
        }
    }

    fn has_ended(&self) -> bool {
        self.register.lock().has_ended()
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

impl Scheduler for SingleWorker {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.handle.core.submit(None, Duration::ZERO, task)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.handle.core.submit(None, delay, task)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.handle.core.submit_series(None, (initial, period), task)
    }

    fn create_worker(&self) -> Worker {
        let closed = AtomicBool::new(self.is_disposed());
        let mut register = self.handle.core.register.lock();
        register.last_number += 1;
        let number = register.last_number;
        drop(register);
        Worker::from_lane(Arc::new(Child { handle: Arc::clone(&self.handle), number, closed }))
    }

    fn dispose(&self) {
        self.handle.core.dispose();
    }

    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let core = &self.handle.core;
        core.begin_drain();
        if core.is_current() {
            return Ok(false); // it would wait for itself
        }
        core.wait_for_end(timeout)
    }

    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Disposal::new(Arc::clone(&self.handle.core)))
    }

    fn is_disposed(&self) -> bool {
        self.handle.core.is_disposed()
    }

    fn stats(&self) -> SchedulerStats {
        let core = &self.handle.core;
        let disposed = self.is_disposed();
        let register = core.register.lock();
        let counted = &register.counted;
        let slots = usize::from(register.worker.is_some());
        SchedulerStats {
            name: core.name.to_string(),
            disposed,
            max_threads: 1,
            live_threads: usize::from(counted.running > 0),
            slots,
            busy: slots,
            idle: 0,
            queued: counted.queued,
            remaining_capacity: u64::MAX,
            submitted: counted.submitted,
            completed: counted.completed,
            panicked: counted.panicked,
            cancelled: counted.cancelled,
            rejected: counted.rejected,
        }
    }
}

/// A worker: the same lane, with an end of its own.
struct Child {
    handle: Arc<Handle>,
    number: u64,
    /// Changed and read under the lock of the register. Relaxed: the lock orders it.
    closed: AtomicBool,
}

impl Lane for Child {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.handle.core.submit(Some(self), Duration::ZERO, task)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.handle.core.submit(Some(self), delay, task)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        self.handle.core.submit_series(Some(self), (initial, period), task)
    }

    fn dispose(&self) {
        let mut register = self.handle.core.register.lock();
        self.closed.store(true, Ordering::Relaxed);
        let mut handles = Vec::new();
        for entry in register.entries.values_mut().filter(|entry| entry.owner == self.number) {
            entry.ended = true;
            entry.disposed = true;
            handles.extend(entry.handle.clone());
        }
        drop(register);
        for handle in handles {
            handle.dispose();
        }
    }

    fn is_disposed(&self) -> bool {
        let register = self.handle.core.register.lock();
        let closed = self.closed.load(Ordering::Relaxed);
        drop(register);
        closed || self.handle.core.is_disposed()
    }

    fn queued(&self) -> usize {
        let waits = |entry: &&Entry| entry.owner == self.number && entry.state == State::Waiting;
        self.handle.core.register.lock().entries.values().filter(waits).count()
    }
}
