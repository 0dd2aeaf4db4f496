//! The life of a slot's thread, and what carries it: a thread of our own, or somebody's executor.

use std::cell::{Cell, OnceCell};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;
use std::time::Duration;

use super::ending::Done;
use super::lane::{LanePhase, LaneRef};
use super::lane_queue::LaneRun;
use super::slot::{Assigned, SlotRef, Thread};
use super::start::{self, InTask};
use super::state::{Deferred, State};
use super::{Engine, Shape};
use crate::executor::{Executor, ExecutorService, RejectReason};
use crate::interrupt::wait::{OnInterrupt, WaitCell};
use crate::interrupt::{Interrupted, TaskFrame};
use crate::schedulers::hooks::{Decorators, SlotInfo, report};
use crate::schedulers::job::{Ended, Job, Location, Run};
use crate::sync::backoff::spin_briefly;
use crate::sync::{Arc, Ordering, thread_local};
use crate::task::inline::run_inline;
use crate::task::{Help, Outcome, Payload, Place, WorksForScheduler, works_for};
use crate::task::{Task, TaskId, TaskInfo};
use crate::threads::{ThreadBody, ThreadFactory, WorkerBody, WorkerInfo, call_factory};

/// Where the threads of a scheduler come from. A lighter kind of thread would be a third.
pub(in crate::schedulers) enum ThreadSource {
    /// Threads of our own.
    Threads(Threads),
    /// Tasks of an executor.
    Executor { executor: Arc<dyn Executor>, owned: Option<Arc<dyn ExecutorService>> },
}

pub(in crate::schedulers) struct Threads {
    factory: Arc<ThreadFactory>,
    prefix: String,
    /// The threads of all schedulers of a kind are numbered together.
    numbers: &'static AtomicU64,
    non_blocking: bool,
}

/// A slot has not got its thread.
pub(in crate::schedulers) struct NotCarried {
    pub(super) slot: SlotRef,
    /// Which attempt it was.
    pub(super) ticket: u64,
    pub(super) reason: RejectReason,
    pub(super) source: Option<io::Error>,
}

/// Why a carrier has not taken a life.
struct Refusal {
    reason: RejectReason,
    source: Option<io::Error>,
    /// What the executor panicked with: for the error hooks.
    panic: Option<Payload>,
}

impl Refusal {
    fn spawn_failed(error: io::Error) -> Refusal {
        Refusal { reason: RejectReason::SpawnFailed, source: Some(error), panic: None }
    }
}

impl ThreadSource {
    /// Threads called `prefix-N`.
    pub(in crate::schedulers) fn threads(
        factory: Arc<ThreadFactory>,
        prefix: &str,
        numbers: &'static AtomicU64,
        non_blocking: bool,
    ) -> ThreadSource {
        ThreadSource::Threads(Threads { factory, prefix: prefix.to_owned(), numbers, non_blocking })
    }

    pub(super) fn is_ours(&self) -> bool {
        matches!(self, ThreadSource::Threads(_))
    }

    /// Has `life` lived somewhere else, soon.
    fn carry(&self, life: SlotThread) -> Result<Option<JoinHandle<()>>, Refusal> {
        match self {
            ThreadSource::Threads(threads) => {
                // Relaxed: only uniqueness matters.
                let number = threads.numbers.fetch_add(1, Ordering::Relaxed);
                let name = format!("{}-{number}", threads.prefix).into();
                let info = WorkerInfo { name, number: usize::try_from(number).unwrap_or(usize::MAX) };
                let body = WorkerBody::new(info, life);
                call_factory(&*threads.factory, body).map(Some).map_err(Refusal::spawn_failed)
            }
            ThreadSource::Executor { executor, .. } => {
                let task = Task::new(move || Box::new(life).live());
                match catch_unwind(AssertUnwindSafe(|| executor.execute_task(task))) {
                    Ok(Ok(())) => Ok(None),
                    Ok(Err(rejected)) => {
                        let reason = rejected.reason();
                        let (task, source) = rejected.into_parts();
                        task.drop_caught();
                        Err(Refusal { reason, source, panic: None })
                    }
                    Err(payload) => {
                        let reason = RejectReason::CallbackPanicked;
                        Err(Refusal { reason, source: None, panic: Some(payload) })
                    }
                }
            }
        }
    }

    /// The scheduler, called `name`, has ended: an executor that it owns ends too. May be called again, and on any
    /// thread: a panic of the executor goes to the error hooks.
    pub(super) fn retire(&self, by_force: bool, name: &Arc<str>) {
        let ThreadSource::Executor { owned: Some(service), .. } = self else { return };
        let retired = catch_unwind(AssertUnwindSafe(|| match by_force {
            true => service.shutdown_now().into_iter().for_each(Task::drop_caught),
            false => service.shutdown(),
        }));
        if let Err(payload) = retired {
            let mut info = TaskInfo::fresh();
            info.set_name(name.to_string().into());
            report(&info, payload);
        }
    }

    pub(super) fn await_retirement(&self, timeout: Duration) -> Result<bool, Interrupted> {
        match self {
            ThreadSource::Executor { owned: Some(service), .. } => service.await_termination(timeout),
            _ => Ok(true),
        }
    }
}

impl fmt::Debug for ThreadSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadSource::Threads(threads) => write!(f, "Threads({})", threads.prefix),
            ThreadSource::Executor { owned, .. } => write!(f, "Executor(owned: {})", owned.is_some()),
        }
    }
}

thread_local! {
    static NON_BLOCKING: Cell<bool> = not_marked();
}

fn not_marked() -> Cell<bool> {
    Cell::new(false)
}

/// The calling thread belongs to a scheduler for short work, and should not block.
pub(in crate::schedulers) fn in_non_blocking_thread() -> bool {
    NON_BLOCKING.try_with(Cell::get).unwrap_or(false)
}

/// The calling thread works for this scheduler, if only as one that runs on a thread of another.
pub(super) fn is_current(engine: &Engine) -> bool {
    works_for(engine.address.number())
}

impl Engine {
    /// Starts the thread of a slot.
    pub(super) fn carry(self: &Arc<Self>, slot: SlotRef, ticket: u64) -> Result<(), NotCarried> {
        let life = SlotThread { engine: Arc::clone(self), slot, ticket, lived: false };
        let carried = self.carrier.carry(life);
        let promised = carried.is_ok();
        let (join, mut failed) = match carried {
            Ok(join) => (join, None),
            Err(failed) => (None, Some(failed)),
        };
        self.report_panic(slot, failed.as_mut().and_then(|failed| failed.panic.take()));
        self.locked(|state, after| {
            state.carrying -= 1;
            let dropped = state.slot(slot).is_some_and(|there| there.never_started == ticket);
            if promised && dropped && self.carrier.is_ours() {
                let why = io::Error::other("the thread factory dropped the worker body without running it");
                failed = Some(Refusal::spawn_failed(why));
            } else if promised && dropped {
                state.abandon_slot(slot, after); // the executor has taken it, and thrown it away
            }
            if promised {
                state.carried(slot, ticket, join);
            }
            state.end_if_done(after);
        });
        match failed {
            None => Ok(()),
            Some(Refusal { reason, source, .. }) => Err(NotCarried { slot, ticket, reason, source }),
        }
    }

    /// The executor panicked when it was to carry a slot: tells the error hooks, with the task it was for.
    fn report_panic(&self, slot: SlotRef, payload: Option<Payload>) {
        let Some(payload) = payload else { return };
        let info = self.lock().slot(slot).and_then(|there| there.handed.as_ref()?.job.info());
        report(&info.unwrap_or_else(TaskInfo::fresh), payload);
    }
}

impl State {
    /// Whoever was to start the thread says that it will come, or that it has been there.
    fn carried(&mut self, slot: SlotRef, ticket: u64, join: Option<JoinHandle<()>>) {
        let old = match self.slot(slot).filter(|there| there.ticket == ticket) {
            Some(there) => {
                if matches!(there.thread, Thread::Coming) {
                    there.thread = Thread::Promised;
                }
                std::mem::replace(&mut there.join, join)
            }
            None => join,
        };
        self.left(old);
    }

    /// The thread of a slot leaves.
    fn leave(&mut self, slot: SlotRef, after: &mut Deferred) {
        self.live_threads -= 1;
        let thread = self.slot(slot).and_then(|there| there.join.take());
        self.left(thread);
        self.end_if_done(after);
    }
}

/// What a slot's thread does.
struct SlotThread {
    engine: Arc<Engine>,
    slot: SlotRef,
    ticket: u64,
    lived: bool,
}

/// What a slot's thread has at hand.
struct Living {
    life: Box<SlotThread>,
    /// That of the slot, as long as this thread is the slot's.
    cell: Arc<WaitCell>,
    info: SlotInfo,
    /// Whoever starts this thread has it run in the midst of that.
    in_place: bool,
    /// Those of the slot, once it has run something.
    decorators: OnceCell<Decorators>,
}

impl Deref for Living {
    type Target = SlotThread;

    fn deref(&self) -> &SlotThread {
        &self.life
    }
}

/// What a thread finds when it asks for work.
enum Next {
    Run(Assigned),
    /// Look again for a moment.
    Look,
    Park,
    Leave,
}

impl ThreadBody for SlotThread {
    fn live(mut self: Box<Self>) {
        self.lived = true;
        let _works = WorksForScheduler::new(self.engine.address.number());
        if let ThreadSource::Threads(threads) = &self.engine.carrier {
            NON_BLOCKING.with(|mark| mark.set(threads.non_blocking));
        }
        let info = self.engine.info(self.slot.index);
        let in_place = start::is_under_way(&self.engine);
        let me = Living {
            life: self,
            cell: Arc::new(WaitCell::for_this_thread()),
            info,
            in_place,
            decorators: OnceCell::new(),
        };
        let mut next = me.engine.locked(|state, after| me.arrive(state, after));
        loop {
            next = match next {
                Next::Leave => break,
                Next::Look => {
                    me.look();
                    me.engine.locked(|state, after| me.find(state, false, after))
                }
                Next::Park => {
                    me.cell.wait(None, OnInterrupt::Keep);
                    me.engine.locked(|state, after| me.find(state, false, after))
                }
                Next::Run(handed) => me.run(handed),
            };
        }
        if !me.engine.carrier.is_ours() {
            me.engine.locked(|state, after| state.leave(me.slot, after));
        }
    }

    fn never_started(self: Box<Self>) {}
}

impl Drop for SlotThread {
    /// If nobody lived it there will be no thread.
    fn drop(&mut self) {
        if self.lived {
            return;
        }
        self.engine.locked(|state, after| {
            state.live_threads -= 1;
            let late = match state.slot(self.slot).filter(|there| there.ticket == self.ticket) {
                Some(there) => {
                    there.never_started = self.ticket;
                    matches!(std::mem::replace(&mut there.thread, Thread::None), Thread::Promised)
                }
                None => false,
            };
            if late {
                state.abandon_slot(self.slot, after);
            }
            state.end_if_done(after);
        });
    }
}

impl Living {
    fn arrive(&self, state: &mut State, after: &mut Deferred) -> Next {
        match state.slot(self.slot).filter(|there| there.ticket == self.ticket) {
            Some(there) => {
                there.thread = Thread::Here;
                there.cell = Some(Arc::clone(&self.cell));
            }
            None => return self.leave(state, after),
        }
        self.find(state, false, after)
    }

    /// Waits a moment for the bell: less time than a sleep and a wake-up cost.
    ///
    /// It does not yield. Others count on a thread that looks, and give it work that they would else wake somebody for; on a
    /// machine with much to do, one that yields is behind everybody. In a model looking again is a wait without end.
    fn look(&self) {
        const PAUSES: u32 = 64;
        spin_briefly(PAUSES, || self.cell.is_notified());
    }

    /// Asks for work, and says that we look, sleep or leave if there is none. If we `ran` something we hold the slot.
    fn find(&self, state: &mut State, ran: bool, after: &mut Deferred) -> Next {
        let Some(there) = state.slot(self.slot) else { return self.leave(state, after) };
        let before = std::mem::replace(&mut there.thread, Thread::Here);
        let mut call = 1;
        match before {
            Thread::Looking => state.searching.retain(|looker| *looker != self.slot.index),
            Thread::Woken(ended) => {
                state.woken -= 1;
                call = state.many_to_call(ended);
            }
            _ => {}
        }
        let next = state.take_next(self.slot.index, ran, after);
        state.see_to_owed(call, after);
        if let Some(handed) = next {
            if self.decorators.get().is_none()
                && let Some(decorators) = state.slot(self.slot).and_then(|slot| slot.decorators.clone())
            {
                let _ = self.decorators.set(decorators); // a slot keeps those that it has
            }
            return Next::Run(handed);
        }
        let parks = matches!(self.engine.shape, Shape::Fixed | Shape::Elastic { .. });
        match state.slot(self.slot) {
            Some(there) if parks => {
                self.cell.reset(); // it is notified under the lock
                if matches!(before, Thread::Looking) {
                    there.thread = Thread::Parked;
                    return Next::Park;
                }
                there.thread = Thread::Looking;
                state.searching.push(self.slot.index);
                return Next::Look;
            }
            Some(there) => there.thread = Thread::None,
            None => {} // what was in its line was the last to hold it
        }
        self.leave(state, after)
    }

    /// Leaves. A thread of our own is joined at the end; of an executor's nobody hears any more, so it counts until
    /// nothing is left for it to do: whoever waits for its last job has been told (`live`).
    fn leave(&self, state: &mut State, after: &mut Deferred) -> Next {
        if self.engine.carrier.is_ours() {
            state.leave(self.slot, after);
        }
        Next::Leave
    }

    /// Runs a job. `None`: it was cancelled before.
    fn run_job(&self, job: &Job) -> Option<Ended> {
        let _in_task = self.in_place.then(|| InTask::of(&self.engine));
        let decorators = self.decorators.get_or_init(|| self.announce());
        let ours = self.engine.carrier.is_ours();
        let nested = if ours { None } else { Some(TaskFrame::enter()) };
        if ours {
            self.cell.thread().next_epoch();
        }
        let mut ended = None;
        if let Some(run) = job.begin() {
            decorators.around(&self.info, || ended = Some(run.run()));
        }
        if ours {
            self.cell.thread().next_epoch(); // an interrupt that comes now is late
        }
        drop(nested);
        ended
    }

    /// Runs something, and what its lane has ready, and asks for the next.
    fn run(&self, mut handed: Assigned) -> Next {
        let turn = LaneRun::of(&mut handed);
        let Assigned { mut job, lane, permit, .. } = handed;
        let mut ended = self.run_job(&job);
        while let Some(next) = turn.next(outcome(ended.as_ref())) {
            if let Some(ended) = ended {
                job.over(ended);
            }
            job = next;
            ended = self.run_job(&job);
        }
        let again = ended.as_mut().is_some_and(|ended| job.rearm(ended));
        let (next, after) = self.engine.under_lock(|state, after| {
            // A slot whose thread looks for work is held, so that it does not go meanwhile.
            let here = state.slot(self.slot).is_some();
            let looking = here.then(|| state.hold(self.slot.index));
            let outcome = outcome(ended.as_ref());
            let done = Done { job: &job, lane, slot: Some(self.slot), outcome, again };
            state.finish(done, after);
            if let Some(permit) = permit {
                state.give_back(permit, after);
            }
            let next = self.find_after_run(state, again, after);
            if let Some(looking) = looking {
                state.give_back(looking, after);
            }
            state.end_if_done(after);
            next
        });
        // Whoever waits for the job finds its slot free and its run counted.
        if let Some(ended) = ended
            && !again
        {
            job.over(ended);
        }
        drop(job);
        self.engine.see_to(after);
        next
    }

    /// As `find`; where every task has a fresh thread, the next one is for another. So it is in an executor after a run of a
    /// series: one without a period would keep the executor's thread for ever.
    fn find_after_run(&self, state: &mut State, series: bool, after: &mut Deferred) -> Next {
        let next = self.find(state, true, after);
        let passes_on = match self.engine.shape {
            Shape::PerTask => true,
            Shape::Bursts => series,
            Shape::Fixed | Shape::Elastic { .. } => false,
        };
        if !passes_on {
            return next;
        }
        let Next::Run(handed) = next else { return next };
        let there = state.slot(self.slot).expect("it has work, so it is there");
        there.running = None;
        there.handed = Some(handed);
        there.thread = Thread::None;
        state.see_to_thread(self.slot.index, after);
        self.leave(state, after)
    }

    /// The slot came into being without a submission that could have told its decorators.
    fn announce(&self) -> Decorators {
        let told = Decorators::announce(&self.info).unwrap_or_else(Decorators::none);
        self.engine.decorate(self.slot, told)
    }
}

fn outcome(ended: Option<&Ended>) -> Outcome {
    match ended {
        None => Outcome::Cancelled,
        Some(ended) if ended.panicked => Outcome::Panicked,
        Some(_) => Outcome::Succeeded,
    }
}

/// Runs `job` here, inside what this thread runs now, if the thread is one of the scheduler's and the job could start. What
/// its lane has to do before is run first.
pub(super) fn help(engine: &Arc<Engine>, job: &Arc<Job>) {
    if !is_current(engine) {
        return;
    }
    while let Some(handed) = engine.locked(|state, after| state.claim(job, after)) {
        let done = Arc::ptr_eq(&handed.job, job);
        run_in_place(engine, handed);
        if done {
            return;
        }
    }
}

/// The same for a task that somebody on this thread joins. If it cannot start now, whoever joins it is told when it can.
pub(super) fn help_to_join(engine: &Arc<Engine>, id: TaskId, place: &Place) -> Help {
    let found = engine.lock().find_task(id, place.get());
    let Some(job) = found else { return Help::Done };
    let cell = WaitCell::among_other_conditions();
    job.add_waiter(&cell); // first this, then the look whether it can start: as in `Job::wait`
    help(engine, &job);
    Help::WhenNotified(cell)
}

fn run_in_place(engine: &Arc<Engine>, handed: Assigned) {
    let non_blocking = in_non_blocking_thread();
    run_inline(|| {
        NON_BLOCKING.with(|mark| mark.set(non_blocking)); // it may be another thread
        run_nested(engine, handed);
    });
}

fn run_nested(engine: &Arc<Engine>, handed: Assigned) {
    let Assigned { job, lane, permit, .. } = handed;
    let nested = TaskFrame::enter();
    let mut ended = job.begin().map(Run::run);
    drop(nested);
    let again = ended.as_mut().is_some_and(|ended| job.rearm(ended));
    engine.locked(|state, after| {
        let outcome = outcome(ended.as_ref());
        state.finish(Done { job: &job, lane, slot: None, outcome, again }, after);
        if let Some(permit) = permit {
            state.give_back(permit, after);
        }
        state.end_if_done(after);
    });
    if let Some(ended) = ended
        && !again
    {
        job.over(ended);
    }
}

impl State {
    /// Takes what has to run for `job` to be done: the job, or the head of its lane.
    fn claim(&mut self, job: &Arc<Job>, after: &mut Deferred) -> Option<Assigned> {
        match job.spot() {
            Location::Slot(index, place) => {
                let permit = self.take_out_of_line(index as usize, place)?;
                job.set_spot(Location::Nowhere);
                self.free_place(permit.slot());
                self.waiting -= 1;
                self.running += 1;
                Some(Assigned { job: Arc::clone(job), lane: None, permit: Some(permit), more: None })
            }
            Location::Ready(lane, _) | Location::Later(lane, _) => {
                let lane = self.lanes.at(lane)?;
                // First of all: if the lane goes into a line once more before we are through, it is told.
                self.lanes.get_mut(lane)?.note_awaited(job);
                if self.lanes.get(lane)?.phase == LanePhase::Running {
                    return self.claim_handed_head(lane);
                }
                self.step_out_of_line(lane);
                self.lanes.get_mut(lane)?.phase = LanePhase::InLine; // at the very head of it
                let head = self.claim_head(lane, after)?;
                self.running += 1;
                Some(head)
            }
            Location::Nowhere => self.claim_handed(job),
            Location::Timers(_) => None,
        }
    }

    /// Takes the head of a lane that was handed to a thread which is not there yet, as in `claim_handed`: in an executor
    /// whose only thread is ours it would never come.
    fn claim_handed_head(&mut self, lane: LaneRef) -> Option<Assigned> {
        self.slots
            .iter_mut()
            .flatten()
            .filter(|slot| slot.thread.is_absent())
            .find_map(|slot| slot.handed.take_if(|handed| handed.lane == Some(lane)))
    }

    /// Takes a job that was handed to a thread which is not there yet, or could not be started. When it comes it finds nothing to do.
    fn claim_handed(&mut self, job: &Arc<Job>) -> Option<Assigned> {
        self.slots
            .iter_mut()
            .flatten()
            .filter(|slot| slot.thread.is_absent())
            .find_map(|slot| slot.handed.take_if(|handed| Arc::ptr_eq(&handed.job, job)))
    }
}
