//! The one queue that all rooms share, the time, and the run of what falls due.

use std::thread::{self, ThreadId};

use super::instance::{Figures, Phase, VirtualInstance};
use crate::executor::RejectReason;
use crate::interrupt::TaskFrame;
use crate::schedulers::job::{Job, JobOwner, Location, Run};
use crate::schedulers::waiters::Waiters;
use crate::sync::{Arc, Mutex, MutexGuard, Weak};
use crate::task::TaskId;
use crate::task::inline::run_inline;
use crate::task::{Help, OwnerEntry, Place, TaskOwner, WorksForScheduler};
use crate::time::clock::Tick;
use crate::time::heap::{Key, TimerQueue};

pub(super) struct LaneCell {
    /// Takes nothing more.
    pub(super) closed: bool,
    pub(super) queued: usize,
}

/// Something that waits for its time, or runs. What points to what is compared, never what it says.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) job: Arc<Job>,
    pub(super) room: Arc<VirtualInstance>,
    /// Locked only under the lock of the core.
    pub(super) lane: Option<Arc<Mutex<LaneCell>>>,
}

/// Which items are meant.
#[derive(Clone, Copy)]
pub(super) enum Whose<'a> {
    VirtualInstance(&'a VirtualInstance),
    Lane(&'a Arc<Mutex<LaneCell>>),
}

impl Whose<'_> {
    fn has(self, item: &Item) -> bool {
        match self {
            Whose::VirtualInstance(room) => room.whole || std::ptr::eq(room, &*item.room),
            Whose::Lane(lane) => item.lane.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, lane)),
        }
    }
}

pub(super) struct Core {
    state: Mutex<State>,
    pub(super) waiters: Waiters,
    /// For handles of its tasks, to find it.
    pub(super) address: OwnerEntry,
    pub(super) me: Weak<Core>,
}

pub(super) struct State {
    pub(super) now: Tick,
    /// How far the advance under way goes; `now` if there is none. Never less than `now`.
    pub(super) target: Tick,
    /// The thread that runs what falls due.
    pub(super) advancing: Option<ThreadId>,
    queue: TimerQueue<Item>,
    /// Series with a period of zero that have run at this moment: due as soon as it is another.
    resting: TimerQueue<Item>,
    last_number: u64,
    /// What runs, the outermost first.
    running: Vec<Item>,
    /// Of the whole.
    pub(super) phase: Phase,
    /// Of the whole.
    figures: Figures,
}

impl State {
    pub(super) fn count(&mut self, room: &VirtualInstance, change: impl Fn(&mut Figures)) {
        change(&mut self.figures);
        change(&mut room.cell.lock().figures);
    }

    pub(super) fn phase_of(&self, room: &VirtualInstance) -> Phase {
        self.phase.max(room.cell.lock().phase)
    }

    pub(super) fn figures_of(&self, room: &VirtualInstance) -> Figures {
        if room.whole { self.figures } else { room.cell.lock().figures }
    }

    /// Why nothing more is taken; `None` if it is.
    pub(super) fn refusal(
        &self,
        room: &VirtualInstance,
        lane: Option<&Arc<Mutex<LaneCell>>>,
    ) -> Option<RejectReason> {
        match lane {
            _ if self.phase_of(room) != Phase::Live => Some(RejectReason::Shutdown),
            Some(lane) if lane.lock().closed => Some(RejectReason::WorkerDisposed),
            _ => None,
        }
    }

    /// Accepts an item that is to wait until `due`, or, `None`, for the next moment.
    pub(super) fn accept(&mut self, item: Item, due: Option<Tick>) {
        self.count(&item.room, |figures| {
            figures.submitted += 1;
            figures.queued += 1;
        });
        if let Some(lane) = &item.lane {
            lane.lock().queued += 1;
        }
        self.put(item, due);
    }

    fn put(&mut self, item: Item, due: Option<Tick>) {
        self.last_number += 1;
        let (job, number) = (Arc::clone(&item.job), self.last_number);
        let key = match due {
            Some(due) => self.queue.insert(due, number, item),
            None => self.resting.insert(self.now, number, item),
        };
        job.set_spot(Location::Timers(key));
    }

    /// An item has left the queues.
    fn leaves(&mut self, item: &Item) {
        item.job.set_spot(Location::Nowhere);
        self.count(&item.room, |figures| figures.queued -= 1);
        if let Some(lane) = &item.lane {
            lane.lock().queued -= 1;
        }
    }

    /// An item is going to run here and now.
    fn starts(&mut self, item: &Item) {
        self.leaves(item);
        self.count(&item.room, |figures| figures.running += 1);
        self.running.push(item.clone());
    }

    fn wake_resting(&mut self) {
        while let Some((_, _, item)) = self.resting.pop() {
            self.put(item, Some(self.now));
        }
    }

    /// The next item of the advance under way, and when it was due; moves the time there.
    fn next(&mut self) -> Option<(Tick, Item)> {
        loop {
            if let Some((due, _, item)) = self.queue.pop_due(self.now) {
                self.starts(&item);
                return Some((due, item));
            }
            let next = self.queue.first_due().map_or(self.target, |due| due.min(self.target));
            if next == self.now {
                return None;
            }
            self.now = next;
            self.wake_resting();
        }
    }

    /// Takes everything out that is meant, and all series of it if only those are.
    pub(super) fn take_out(&mut self, whose: Whose<'_>, only_series: bool) -> Vec<Arc<Job>> {
        let unwanted = |item: &Item| whose.has(item) && (item.job.is_series() || !only_series);
        let mut items = self.queue.remove_if(unwanted);
        items.extend(self.resting.remove_if(unwanted));
        for item in &items {
            self.leaves(item);
            self.count(&item.room, |figures| figures.cancelled += 1);
        }
        items.into_iter().map(|item| item.job).collect()
    }

    pub(super) fn running_of(&self, whose: Whose<'_>) -> Vec<Arc<Job>> {
        self.running.iter().filter(|item| whose.has(item)).map(|item| Arc::clone(&item.job)).collect()
    }

    /// Takes what has to run, inside the one that runs now, for `job` to be done: the job, or the head of its lane. `None`: the job
    /// could not run now.
    fn claim(&mut self, job: &Arc<Job>) -> Option<(Tick, Item)> {
        let Location::Timers(key) = job.spot() else { return None };
        let wanted = self.queue.get(key).filter(|item| Arc::ptr_eq(&item.job, job))?;
        if job.is_series() || self.queue.due(key)? > self.now {
            return None;
        }
        let first = match &wanted.lane {
            Some(lane) if !self.running_of(Whose::Lane(lane)).is_empty() => return None,
            Some(lane) => self.first_of(Whose::Lane(lane))?,
            None => key,
        };
        let due = self.queue.due(first)?; // no later than that of the job
        let item = self.queue.remove(first)?;
        self.starts(&item);
        Some((due, item))
    }

    fn first_of(&self, whose: Whose<'_>) -> Option<Key> {
        let mut first = None;
        self.queue.for_each(|_, item| {
            if first.is_none() && whose.has(item) {
                first = Some(item.job.spot());
            }
        });
        match first? {
            Location::Timers(key) => Some(key),
            _ => None,
        }
    }
}

impl Core {
    pub(super) fn new() -> Arc<Core> {
        let start = Tick::from_nanos(0);
        Arc::new_cyclic(|me: &Weak<Core>| Core {
            state: Mutex::new(State {
                now: start,
                target: start,
                advancing: None,
                queue: TimerQueue::new(),
                resting: TimerQueue::new(),
                last_number: 0,
                running: Vec::new(),
                phase: Phase::Live,
                figures: Figures::default(),
            }),
            waiters: Waiters::default(),
            address: OwnerEntry::of_scheduler(Weak::clone(me) as Weak<dyn TaskOwner>),
            me: Weak::clone(me),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Moves the target, and goes there unless somebody is on his way.
    pub(super) fn advance(&self, to: impl FnOnce(Tick) -> Tick) {
        /// What is due never is not due at the last moment either.
        const LAST: u64 = u64::MAX - 1;
        let mut state = self.lock();
        state.target = to(state.target).min(Tick::from_nanos(LAST));
        if state.advancing.is_some() {
            return;
        }
        let _works = WorksForScheduler::new(self.address.number());
        state.advancing = Some(thread::current().id());
        state.wake_resting();
        while let Some((due, item)) = state.next() {
            drop(state);
            self.run(due, item);
            state = self.lock();
        }
        state.advancing = None;
    }

    /// Runs something that has been taken out of the queue.
    fn run(&self, due: Tick, item: Item) {
        let job = &item.job;
        let frame = TaskFrame::enter();
        let mut ended = job.begin().map(Run::run);
        drop(frame);
        let again = ended.as_mut().is_some_and(|ended| job.rearm(ended));
        let mut state = self.lock();
        state.running.retain(|running| !Arc::ptr_eq(&running.job, job));
        let outcome = ended.as_ref().map(|ended| ended.panicked);
        state.count(&item.room, |figures| {
            figures.running -= 1;
            match outcome {
                Some(false) => figures.completed += 1,
                Some(true) => figures.panicked += 1,
                None => figures.cancelled += 1,
            }
        });
        let live = state.refusal(&item.room, item.lane.as_ref()).is_none();
        // Whoever cancels it now finds it in the queue afterwards, or has been seen here.
        if again && live && !job.is_cancelled() {
            let now = state.now;
            let next = job.rhythm().map(|rhythm| rhythm.next(due, now)).filter(|next| *next > now);
            state.accept(item.clone(), next);
        }
        drop(state);
        match ended {
            Some(ended) if !again => job.over(ended),
            _ if again && !live => job.end_series(),
            _ => {}
        }
        self.waiters.wake_all();
    }

    /// As `run`, on the thread that advances the time or on a temporary one that stands in for it.
    fn run_nested(&self, due: Tick, item: Item) {
        let before = self.lock().advancing.replace(thread::current().id());
        self.run(due, item);
        self.lock().advancing = before;
    }

    /// Throws out all that is meant, and interrupts what runs of it.
    pub(super) fn throw_out(&self, mut state: MutexGuard<'_, State>, whose: Whose<'_>) {
        let mut jobs = state.take_out(whose, false);
        jobs.extend(state.running_of(whose));
        drop(state);
        jobs.iter().for_each(|job| job.cancel_taken_out());
        self.waiters.wake_all();
    }
}

impl JobOwner for Core {
    fn cancelled(&self, job: &Arc<Job>) {
        let mut state = self.lock();
        let Location::Timers(key) = job.spot() else { return };
        // A key of one queue may look like one of the other.
        let is_it = |item: Option<&Item>| item.is_some_and(|item| Arc::ptr_eq(&item.job, job));
        let found = if is_it(state.queue.get(key)) {
            state.queue.remove(key)
        } else if is_it(state.resting.get(key)) {
            state.resting.remove(key)
        } else {
            None
        };
        let Some(item) = found else { return };
        state.leaves(&item);
        state.count(&item.room, |figures| figures.cancelled += 1);
        drop(state);
        self.waiters.wake_all();
    }

    fn help(&self, job: &Arc<Job>) {
        if self.lock().advancing != Some(thread::current().id()) {
            return;
        }
        loop {
            let claimed = self.lock().claim(job);
            let Some((due, item)) = claimed else { return };
            run_inline(|| self.run_nested(due, item));
        }
    }
}

/// For handles of tasks, as that of the engine.
impl TaskOwner for Core {
    fn run_inline(&self, id: TaskId, _: &Place) -> Help {
        let found = self.lock().queue.find(|item| item.job.is_of(id)).map(|item| Arc::clone(&item.job));
        if let Some(job) = found {
            JobOwner::help(self, &job);
        }
        Help::Done
    }
}
