//! A scheduler whose time is moved by hand: for tests of code that waits.
//!
//! There is one queue, ordered by due time and then by submission, and no thread: whoever advances the time runs what falls
//! due. A *room* is one scheduler as its user sees it: the [`VirtualTimeScheduler`] itself, and each scheduler
//! that code under test has made while it is installed. They share queue and time, and each has its own end and figures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::factory::{Factory, Snapshot, set_factory_with_snapshot};
use super::hooks;
use super::job::{Disposable, Job, JobHome, Spot, Work};
use super::waiters::{Disposal, Ends, Waiters};
use super::{Lane, PeriodicTask, Scheduler, SchedulerStats, Worker};
use crate::clock::Tick;
use crate::config::ConfigError;
use crate::executor::{RejectReason, Rejected, SchedulerFacts};
use crate::interrupt::{Interrupted, Nested};
use crate::periodic::Rhythm;
use crate::sync::{Arc, Mutex, MutexGuard, Weak};
use crate::task::{Task, TaskInfo};
use crate::timer_queue::TimerQueue;

/// A scheduler whose time stands still until it is advanced; what falls due runs on the advancing thread, before the
/// call returns.
///
/// Work runs in the order of due times, equal ones in the order of submission, and while it runs [`now`](Self::now) is
/// its due time. Work that is scheduled meanwhile and falls due within the same advance runs too. Work
/// without a delay waits for the next advance, which may be by zero. A task that panics goes to the error hooks, and time
/// goes on.
///
/// A series with a period of zero runs once at each moment that the time stops at: at each due time of other work, and
/// at the end of each advance. So it cannot hold the time up for ever. Work that submits more work without a delay
/// each time it runs can.
///
/// Advancing from inside a task adds to the advance that is under way, and returns at once; so does
/// advancing on another thread meanwhile. Nothing runs at the same time as anything else.
///
/// A graceful end lets what waits run when its time comes, so somebody has to advance it. Decorators are not
/// called, as there are no slots.
///
/// # Examples
/// ```
/// use millpond::schedulers::{self, SchedulerExt, VirtualTimeScheduler};
/// use std::time::Duration;
///
/// let (time, before) = VirtualTimeScheduler::install();
/// let tea = schedulers::parallel().schedule_after(Duration::from_secs(300), || println!("tea is ready"))?;
/// time.advance_by(Duration::from_secs(299));
/// assert!(!tea.is_disposed());
/// time.advance_by(Duration::from_secs(1));
/// assert!(tea.is_disposed());
/// schedulers::reset_from(before);
/// # Ok::<(), millpond::Rejected>(())
/// ```
#[derive(Clone)]
pub struct VirtualTimeScheduler {
    view: View,
}

impl VirtualTimeScheduler {
    /// A scheduler at time zero, with nothing to do.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::VirtualTimeScheduler;
    /// use std::time::Duration;
    ///
    /// assert_eq!(VirtualTimeScheduler::new().now(), Duration::ZERO);
    /// ```
    pub fn new() -> VirtualTimeScheduler {
        VirtualTimeScheduler { view: View::new("virtualTime".into(), Core::new(), true) }
    }

    /// Makes one, and lets all shared schedulers and all that are made from now on go by its time. The snapshot brings back
    /// what was before; see [`reset_from`](super::reset_from).
    ///
    /// # Examples
    /// See [`VirtualTimeScheduler`].
    pub fn install() -> (VirtualTimeScheduler, Snapshot) {
        let time = VirtualTimeScheduler::new();
        let snapshot = set_factory_with_snapshot(VirtualFactory(time.clone()));
        (time, snapshot)
    }

    /// Moves the time forward by `duration`, and runs what falls due.
    ///
    /// # Examples
    /// See [`VirtualTimeScheduler`].
    pub fn advance_by(&self, duration: Duration) {
        self.core().advance(|target| target.plus(duration));
    }

    /// Moves the time forward to `time`, counted from the beginning, and runs what falls due. A time that is past moves
    /// nothing; what is due already runs.
    ///
    /// # Examples
    /// ```
    /// use millpond::schedulers::VirtualTimeScheduler;
    /// use std::time::Duration;
    ///
    /// let time = VirtualTimeScheduler::new();
    /// time.advance_to(Duration::from_secs(5));
    /// time.advance_to(Duration::from_secs(2));
    /// assert_eq!(time.now(), Duration::from_secs(5));
    /// ```
    pub fn advance_to(&self, time: Duration) {
        self.core().advance(|target| target.max(Tick::from_nanos(0).plus(time)));
    }

    /// How late it is, counted from the beginning.
    ///
    /// # Examples
    /// See [`advance_to`](Self::advance_to).
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.core().lock().now.nanos())
    }

    fn core(&self) -> &Arc<Core> {
        &self.view.handle.room.core
    }
}

impl Default for VirtualTimeScheduler {
    fn default() -> Self {
        VirtualTimeScheduler::new()
    }
}

impl fmt::Display for VirtualTimeScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.view.handle.room.name)
    }
}

impl fmt::Debug for VirtualTimeScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualTimeScheduler")
            .field("now", &self.now())
            .field("stats", &self.stats())
            .finish()
    }
}

super::forward_scheduler!(VirtualTimeScheduler, view);

/// Gives everybody a room of his own.
struct VirtualFactory(VirtualTimeScheduler);

impl VirtualFactory {
    fn room(&self, kind: &str, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        let name = format!("virtualTime({kind} {name:?})").into();
        Ok(Arc::new(View::new(name, Arc::clone(self.0.core()), false)))
    }
}

impl Factory for VirtualFactory {
    fn new_single(&self, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.room("single", name)
    }

    fn new_parallel(&self, _n: usize, name: &str) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.room("parallel", name)
    }

    fn new_bounded_elastic(
        &self,
        _max_threads: usize,
        _queue_capacity_per_thread: usize,
        name: &str,
        _ttl: Duration,
    ) -> Result<Arc<dyn Scheduler>, ConfigError> {
        self.room("boundedElastic", name)
    }
}

/// A scheduler over a room. A cheap handle.
#[derive(Clone)]
struct View {
    handle: Arc<Handle>,
}

impl View {
    fn new(name: Arc<str>, core: Arc<Core>, whole: bool) -> View {
        let room = Arc::new(Room { name, core, whole, cell: Mutex::default() });
        View { handle: Arc::new(Handle { room }) }
    }
}

/// When it goes nobody can submit to the room any more. That of the whole has the time with it.
struct Handle {
    room: Arc<Room>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.room.whole {
            self.room.dispose(); // nobody can advance the time any more
        } else {
            self.room.begin_drain();
        }
    }
}

/// One scheduler, as its user sees it.
struct Room {
    name: Arc<str>,
    core: Arc<Core>,
    /// It stands for all rooms: its end is theirs, and its figures are the sums.
    whole: bool,
    /// Locked only under the lock of the core.
    cell: Mutex<RoomCell>,
}

#[derive(Default)]
struct RoomCell {
    phase: Phase,
    figures: Figures,
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

#[derive(Default, Clone, Copy)]
struct Figures {
    submitted: u64,
    completed: u64,
    panicked: u64,
    cancelled: u64,
    rejected: u64,
    queued: u64,
    running: u64,
}

struct LaneCell {
    /// Takes nothing more.
    closed: bool,
    queued: usize,
}

/// Something that waits for its time, or runs. What points to what is compared, never what it says.
#[derive(Clone)]
struct Item {
    job: Arc<Job>,
    room: Arc<Room>,
    /// Locked only under the lock of the core.
    lane: Option<Arc<Mutex<LaneCell>>>,
}

/// Which items are meant.
#[derive(Clone, Copy)]
enum Whose<'a> {
    Room(&'a Room),
    Lane(&'a Arc<Mutex<LaneCell>>),
}

impl Whose<'_> {
    fn has(self, item: &Item) -> bool {
        match self {
            Whose::Room(room) => room.whole || std::ptr::eq(room, &*item.room),
            Whose::Lane(lane) => item.lane.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, lane)),
        }
    }
}

struct Core {
    state: Mutex<State>,
    waiters: Waiters,
    me: Weak<Core>,
}

struct State {
    now: Tick,
    /// How far the advance under way goes; `now` if there is none. Never less than `now`.
    target: Tick,
    /// The thread that runs what falls due.
    advancing: Option<ThreadId>,
    queue: TimerQueue<Item>,
    /// Series with a period of zero that have run at this moment: due as soon as it is another.
    resting: TimerQueue<Item>,
    last_number: u64,
    /// What runs, the outermost first.
    running: Vec<Item>,
    /// Of the whole.
    phase: Phase,
    /// Of the whole.
    figures: Figures,
}

impl State {
    fn count(&mut self, room: &Room, change: impl Fn(&mut Figures)) {
        change(&mut self.figures);
        change(&mut room.cell.lock().figures);
    }

    fn phase_of(&self, room: &Room) -> Phase {
        self.phase.max(room.cell.lock().phase)
    }

    fn figures_of(&self, room: &Room) -> Figures {
        if room.whole { self.figures } else { room.cell.lock().figures }
    }

    /// Why nothing more is taken; `None` if it is.
    fn refusal(&self, room: &Room, lane: Option<&Arc<Mutex<LaneCell>>>) -> Option<RejectReason> {
        match lane {
            _ if self.phase_of(room) != Phase::Live => Some(RejectReason::Shutdown),
            Some(lane) if lane.lock().closed => Some(RejectReason::WorkerDisposed),
            _ => None,
        }
    }

    /// Accepts an item that is to wait until `due`, or, `None`, for the next moment.
    fn accept(&mut self, item: Item, due: Option<Tick>) {
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
        *job.spot.lock() = Spot::Timers(key);
    }

    /// An item has left the queues.
    fn leaves(&mut self, item: &Item) {
        *item.job.spot.lock() = Spot::Nowhere;
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
    fn take_out(&mut self, whose: Whose<'_>, only_series: bool) -> Vec<Arc<Job>> {
        let unwanted = |item: &Item| whose.has(item) && (item.job.is_series() || !only_series);
        let mut items = self.queue.remove_if(unwanted);
        items.extend(self.resting.remove_if(unwanted));
        for item in &items {
            self.leaves(item);
            self.count(&item.room, |figures| figures.cancelled += 1);
        }
        items.into_iter().map(|item| item.job).collect()
    }

    fn running_of(&self, whose: Whose<'_>) -> Vec<Arc<Job>> {
        self.running.iter().filter(|item| whose.has(item)).map(|item| Arc::clone(&item.job)).collect()
    }

    /// Takes a job for running it inside the one that runs now, if it could run.
    fn claim(&mut self, job: &Arc<Job>) -> Option<(Tick, Item)> {
        let key = match *job.spot.lock() {
            Spot::Timers(key) if !job.is_series() => key,
            _ => return None,
        };
        let due = self.queue.due(key).filter(|due| *due <= self.now)?;
        let item = self.queue.get(key).filter(|item| Arc::ptr_eq(&item.job, job))?.clone();
        if let Some(lane) = &item.lane {
            let whose = Whose::Lane(lane);
            let mut first = None;
            self.queue.for_each(|_, other| {
                if first.is_none() && whose.has(other) {
                    first = Some(Arc::clone(&other.job));
                }
            });
            let its_turn = first.is_some_and(|first| Arc::ptr_eq(&first, job));
            if !its_turn || !self.running_of(whose).is_empty() {
                return None;
            }
        }
        self.queue.remove(key);
        self.starts(&item);
        Some((due, item))
    }
}

impl Core {
    fn new() -> Arc<Core> {
        let start = Tick::from_nanos(0);
        Arc::new_cyclic(|me| Core {
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
            me: Weak::clone(me),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Moves the target, and goes there unless somebody is on his way.
    fn advance(&self, to: impl FnOnce(Tick) -> Tick) {
        /// What is due never is not due at the last moment either.
        const LAST: u64 = u64::MAX - 1;
        let mut state = self.lock();
        state.target = to(state.target).min(Tick::from_nanos(LAST));
        if state.advancing.is_some() {
            return;
        }
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
        let frame = Nested::enter();
        let mut ended = job.begin().map(|run| job.run(run));
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
            let next = job.rhythm.map(|rhythm| rhythm.next(due, now)).filter(|next| *next > now);
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

    /// Throws out all that is meant, and interrupts what runs of it.
    fn throw_out(&self, mut state: MutexGuard<'_, State>, whose: Whose<'_>) {
        let mut jobs = state.take_out(whose, false);
        jobs.extend(state.running_of(whose));
        drop(state);
        jobs.iter().for_each(|job| job.cancel_taken_out());
        self.waiters.wake_all();
    }
}

impl JobHome for Core {
    fn cancelled(&self, job: &Arc<Job>) {
        let mut state = self.lock();
        let Spot::Timers(key) = *job.spot.lock() else { return };
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
        let mut state = self.lock();
        if state.advancing != Some(thread::current().id()) {
            return;
        }
        let claimed = state.claim(job);
        drop(state);
        if let Some((due, item)) = claimed {
            self.run(due, item);
        }
    }
}

impl Room {
    fn submit(
        self: &Arc<Self>,
        lane: Option<&Arc<Mutex<LaneCell>>>,
        (info, work): (TaskInfo, Work),
        delay: Duration,
        rhythm: Option<Rhythm>,
    ) -> Result<Disposable, Rejected> {
        let core = &self.core;
        let home = Weak::clone(&core.me) as Weak<dyn JobHome>;
        let refusal = core.lock().refusal(self, lane);
        if let Some(reason) = refusal {
            return Err(self.refused(Job::new(info, work, rhythm, home).refused(reason)));
        }
        let work = hooks::pass_schedule_hooks(&info, work).map_err(|rejected| self.refused(rejected))?;
        let job = Job::new(info, work, rhythm, home);
        let mut state = core.lock();
        if let Some(reason) = state.refusal(self, lane) {
            drop(state);
            return Err(self.refused(job.refused(reason)));
        }
        let item = Item { job: Arc::clone(&job), room: Arc::clone(self), lane: lane.cloned() };
        let due = state.now.plus(delay);
        state.accept(item, Some(due));
        drop(state);
        Ok(Disposable::of(job))
    }

    fn refused(&self, rejected: Rejected) -> Rejected {
        self.core.lock().count(self, |figures| figures.rejected += 1);
        rejected.by_scheduler(SchedulerFacts { name: Arc::clone(&self.name), full: None })
    }

    fn enter_phase(&self, state: &mut State, phase: Phase) {
        let mut cell = self.cell.lock();
        cell.phase = cell.phase.max(phase);
        if self.whole {
            state.phase = state.phase.max(phase);
        }
    }

    fn dispose(&self) {
        let mut state = self.core.lock();
        self.enter_phase(&mut state, Phase::Disposed);
        self.core.throw_out(state, Whose::Room(self));
    }

    fn is_disposed(&self) -> bool {
        self.core.lock().phase_of(self) != Phase::Live
    }
}

impl Ends for Room {
    fn begin_drain(&self) {
        let mut state = self.core.lock();
        self.enter_phase(&mut state, Phase::Draining);
        let jobs = state.take_out(Whose::Room(self), true);
        let running = state.running_of(Whose::Room(self));
        drop(state);
        jobs.iter().for_each(|job| job.cancel_taken_out());
        running.iter().filter(|job| job.is_series()).for_each(|job| job.end_series());
        self.core.waiters.wake_all();
    }

    fn has_ended(&self) -> bool {
        let state = self.core.lock();
        let figures = state.figures_of(self);
        state.phase_of(self) != Phase::Live && figures.queued == 0 && figures.running == 0
    }

    fn waiters(&self) -> &Waiters {
        &self.core.waiters
    }
}

impl Scheduler for View {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.schedule_task_after(Duration::ZERO, task)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.handle.room.submit(None, (task.info().clone(), Work::Once(task)), delay, None)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        let (info, body, rhythm) = task.into_series(period);
        self.handle.room.submit(None, (info, Work::Series(body)), initial, Some(rhythm))
    }

    fn create_worker(&self) -> Worker {
        let room = Arc::clone(&self.handle.room);
        let cell = Arc::new(Mutex::new(LaneCell { closed: room.is_disposed(), queued: 0 }));
        let keeps = if room.whole { None } else { Some(Arc::clone(&self.handle)) };
        Worker::from_lane(Arc::new(VirtualLane { room, cell, _keeps: keeps }))
    }

    fn dispose(&self) {
        self.handle.room.dispose();
    }

    fn dispose_gracefully(&self, timeout: Duration) -> Result<bool, Interrupted> {
        let room = &self.handle.room;
        room.begin_drain();
        if room.core.lock().advancing == Some(thread::current().id()) {
            return Ok(room.has_ended()); // it would wait for itself
        }
        room.core.waiters.wait(timeout, || room.has_ended())
    }

    fn disposal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Disposal(Arc::clone(&self.handle.room)))
    }

    fn is_disposed(&self) -> bool {
        self.handle.room.is_disposed()
    }

    fn stats(&self) -> SchedulerStats {
        let room = &self.handle.room;
        let state = room.core.lock();
        let figures = state.figures_of(room);
        SchedulerStats {
            name: room.name.to_string(),
            disposed: state.phase_of(room) != Phase::Live,
            max_threads: 1,
            remaining_capacity: u64::MAX,
            queued: figures.queued,
            submitted: figures.submitted,
            completed: figures.completed,
            panicked: figures.panicked,
            cancelled: figures.cancelled,
            rejected: figures.rejected,
            ..SchedulerStats::default()
        }
    }
}

/// What a worker holds.
struct VirtualLane {
    room: Arc<Room>,
    cell: Arc<Mutex<LaneCell>>,
    /// A room lives as long as its workers; the whole as long as somebody can advance it.
    _keeps: Option<Arc<Handle>>,
}

impl Lane for VirtualLane {
    fn schedule_task(&self, task: Task) -> Result<Disposable, Rejected> {
        self.schedule_task_after(Duration::ZERO, task)
    }

    fn schedule_task_after(&self, delay: Duration, task: Task) -> Result<Disposable, Rejected> {
        self.room.submit(Some(&self.cell), (task.info().clone(), Work::Once(task)), delay, None)
    }

    fn schedule_periodically_task(
        &self,
        initial: Duration,
        period: Duration,
        task: PeriodicTask,
    ) -> Result<Disposable, Rejected> {
        let (info, body, rhythm) = task.into_series(period);
        self.room.submit(Some(&self.cell), (info, Work::Series(body)), initial, Some(rhythm))
    }

    fn dispose(&self) {
        let state = self.room.core.lock();
        self.cell.lock().closed = true;
        self.room.core.throw_out(state, Whose::Lane(&self.cell));
    }

    fn is_disposed(&self) -> bool {
        let state = self.room.core.lock();
        state.refusal(&self.room, Some(&self.cell)).is_some()
    }

    fn queued(&self) -> usize {
        let _state = self.room.core.lock();
        self.cell.lock().queued
    }
}
