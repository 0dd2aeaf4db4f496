//! A pool in virtual time: tasks arrive, are admitted by the library's own growth rule, wait, run and end.
//!
//! A discrete-event simulation. There are five kinds of event (a task arrives, a task has waited for what it waits for, a
//! task has computed, a blocked caller gives up, an idle worker leaves) and each kind knows its next, so the loop takes the
//! earliest of five. Nothing is allocated for a task: what runs is kept in two heaps, what waits in a ring, and all
//! keep their memory.
//!
//! Times are whole nanoseconds. The same tasks give the same figures, to the last digit, on every machine.
//!
//! # Examples
//! ```
//! use millpond_sim::{Arrivals, Kind, Length, Limit, Mix, Pool, Stream, World, simulate};
//!
//! let pool = Pool { maximum: 4, ..Pool::fixed(2, Some(4)) };
//! // Nine tasks at once that wait for a second each: two core threads, four in the queue, two more threads, one refused.
//! let second = Mix::new(vec![Kind { weight: 1.0, length: Length::Fixed(1e9), cpu: 0.0 }]);
//! let nine = Stream::new(&[Arrivals::Burst { count: 9, every: None }], Limit::None, &second, 1);
//! let figures = simulate(&pool, World { cores: 1, one_caller: false }, nine, None, &mut ());
//! assert_eq!((figures.levels.peak_threads, figures.completed, figures.rejected), (4, 8, 1));
//! ```

mod arrivals;
mod chance;
mod histogram;
mod lengths;
mod levels;
mod processor;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use millpond::growth::{self, Admission, GrowthRule, Load};

pub use arrivals::{Arrivals, Limit, Stream};
pub use chance::Chance;
pub use histogram::Histogram;
pub use lengths::{Kind, Length, Mix};
pub use levels::{Bin, Levels};
use processor::Processor;

/// A moment or a length of time, in nanoseconds.
pub type Nanos = u64;

/// No event of this kind is due.
const NEVER: Nanos = Nanos::MAX;

/// One task: when it arrives, how long it then waits for others (a disk, a server), and how long it computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// When it arrives.
    pub arrival: Nanos,
    /// How long it waits, first.
    pub wait: Nanos,
    /// How long it computes, if it has a core to itself.
    pub compute: Nanos,
}

/// A pool: the settings of a `ThreadPoolExecutor`, under their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Threads that stay.
    pub core: usize,
    /// The most threads.
    pub maximum: usize,
    /// How many tasks may wait. `None`: as many as come. 0: a synchronous queue.
    pub queue: Option<usize>,
    /// How long an extra thread stays without work.
    pub keep_alive: Nanos,
    /// Do core threads leave as well?
    pub core_time_out: bool,
    /// Whether it queues or grows first.
    pub rule: GrowthRule,
    /// For what does not fit.
    pub policy: Policy,
}

impl Pool {
    /// So many threads and so many places in the queue, and all else as it is where nobody tells.
    pub fn fixed(threads: usize, queue: Option<usize>) -> Pool {
        Pool {
            core: threads,
            maximum: threads,
            queue,
            keep_alive: 60_000_000_000,
            core_time_out: false,
            rule: GrowthRule::QueueFirst,
            policy: Policy::Abort,
        }
    }
}

/// What becomes of a task that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is given back.
    Abort,
    /// It is dropped.
    Discard,
    /// The task that is first in the queue is dropped, and this one queued.
    DiscardOldest,
    /// The caller runs it.
    CallerRuns,
    /// The caller waits for room, for this time at most if there is one.
    Block(Option<Nanos>),
}

/// Where the tasks come from and what they compute on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// Computing tasks share so many cores evenly.
    pub cores: usize,
    /// One caller hands in all tasks, one after the other: while it is blocked or runs a task itself, the others are late.
    /// If not, each task has a caller of its own.
    pub one_caller: bool,
}

/// When a run is not worth finishing: more tasks than this are late or lost.
#[derive(Debug, Clone, Copy)]
pub struct Goal {
    /// The time that is judged: of waiting for a thread, or in total.
    pub of: Judged,
    /// A task that takes longer is late.
    pub limit: Nanos,
    /// So many tasks may be late.
    pub most_late: u64,
    /// So many may never run.
    pub most_lost: u64,
}

/// Which time of a task is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// From arrival to the first step.
    Wait,
    /// From arrival to the end.
    Total,
}

/// What came out.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Tasks that were handed in.
    pub arrived: u64,
    /// Tasks that ran.
    pub completed: u64,
    /// Given back to the caller.
    pub rejected: u64,
    /// Dropped, the task itself or one for which it had to make room.
    pub discarded: u64,
    /// Of those that completed: run by the caller.
    pub in_caller: u64,
    /// Of those that began: not at once.
    pub waited: u64,
    /// From arrival to the first step, in a worker or in the caller.
    pub waits: Histogram,
    /// From arrival to the end.
    pub totals: Histogram,
    /// When the last task arrived.
    pub last_arrival: Nanos,
    /// When the last task ended.
    pub end: Nanos,
    /// Threads, queue and cores.
    pub levels: Levels,
    /// Tasks that were late for the goal.
    pub late: u64,
    /// The goal was missed by so much that the run was ended early. The other figures are then of no use.
    pub given_up: bool,
}

impl Figures {
    /// Tasks that never ran.
    pub fn lost(&self) -> u64 {
        self.rejected + self.discarded
    }

    /// The share of the tasks that never ran.
    pub fn lost_share(&self) -> f64 {
        if self.arrived == 0 { 0.0 } else { self.lost() as f64 / self.arrived as f64 }
    }

    /// Tasks that ended, per second, from the beginning to the end of the last.
    pub fn throughput(&self) -> f64 {
        if self.end == 0 { 0.0 } else { self.completed as f64 * 1e9 / self.end as f64 }
    }

    /// How long it took after the last arrival until the last task ended.
    pub fn drain(&self) -> Nanos {
        self.end.saturating_sub(self.last_arrival)
    }
}

/// Is told what becomes of each task that runs, as it ends.
pub trait Watch {
    /// A task has ended: when it arrived, how long it waited for a thread, how long it took in total.
    fn finished(&mut self, _arrival: Nanos, _wait: Nanos, _total: Nanos) {}
}

/// Nobody watches.
impl Watch for () {}

/// Sends `tasks`, which come by rising arrival, through `pool`. A goal ends it early if it is missed by far.
pub fn simulate(
    pool: &Pool,
    world: World,
    tasks: impl Iterator<Item = Task>,
    goal: Option<Goal>,
    watch: &mut impl Watch,
) -> Figures {
    let mut simulation = Simulation::new(pool, world, goal, watch);
    simulation.run(tasks);
    let Simulation { mut figures, levels, .. } = simulation;
    figures.levels = levels;
    figures
}

/// A task that runs. Ordered by what it is due at, then by when it came to be so: the greatest is the first.
#[derive(Debug, Clone, Copy)]
struct Running {
    /// In the heap of those that wait: when that ends. In the processor: see there.
    due: u64,
    turn: u64,
    arrival: Nanos,
    start: Nanos,
    compute: Nanos,
    in_caller: bool,
}

impl PartialEq for Running {
    fn eq(&self, other: &Running) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Running {}

impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Running) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Running {
    fn cmp(&self, other: &Running) -> Ordering {
        (other.due, other.turn).cmp(&(self.due, self.turn))
    }
}

/// The kinds of event, in the order in which they happen if they are due at the same moment: a worker that becomes free now
/// is free for a task that arrives now, and a task that arrives now is still in time for a worker that would leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Waited,
    Computed,
    Arrival,
    GiveUp,
    Leave,
}

struct Simulation<'a, W> {
    pool: &'a Pool,
    one_caller: bool,
    now: Nanos,
    workers: usize,
    /// Since when each idle worker is idle, the longest first. The last gets the next task, as in the pool.
    idle: VecDeque<Nanos>,
    queue: VecDeque<Task>,
    /// Callers that wait for room, and until when.
    outside: VecDeque<(Task, Nanos)>,
    /// Tasks that run and wait.
    waiting: BinaryHeap<Running>,
    /// Tasks that run and compute.
    processor: Processor,
    caller_is_busy: bool,
    running_in_caller: usize,
    turns: u64,
    levels: Levels,
    figures: Figures,
    goal: Option<Goal>,
    watch: &'a mut W,
}

impl<'a, W: Watch> Simulation<'a, W> {
    fn new(pool: &'a Pool, world: World, goal: Option<Goal>, watch: &'a mut W) -> Self {
        Simulation {
            pool,
            one_caller: world.one_caller,
            now: 0,
            workers: 0,
            idle: VecDeque::new(),
            queue: VecDeque::new(),
            outside: VecDeque::new(),
            waiting: BinaryHeap::new(),
            processor: Processor::new(world.cores),
            caller_is_busy: false,
            running_in_caller: 0,
            turns: 0,
            levels: Levels::default(),
            figures: Figures::default(),
            goal,
            watch,
        }
    }

    fn run(&mut self, mut tasks: impl Iterator<Item = Task>) {
        let mut next = tasks.next();
        while let Some((event, at)) = self.next_event(next) {
            self.advance(at);
            match event {
                Event::Waited => {
                    let task = self.waiting.pop().expect("it was due");
                    if task.compute > 0 { self.processor.push(at, task) } else { self.finish(task) }
                }
                Event::Computed => {
                    let task = self.processor.pop(at);
                    self.finish(task);
                }
                Event::Arrival => {
                    let task = next.take().expect("it was due");
                    next = tasks.next();
                    self.figures.arrived += 1;
                    self.figures.last_arrival = task.arrival;
                    self.place(task);
                }
                Event::GiveUp => {
                    self.outside.pop_front();
                    self.lose(|figures| figures.rejected += 1);
                    self.caller_is_busy = false;
                    self.note();
                }
                Event::Leave => {
                    self.idle.pop_front();
                    self.workers -= 1;
                    self.note();
                }
            }
            if self.is_hopeless() {
                self.figures.given_up = true;
                return;
            }
        }
    }

    /// The earliest event, unless only idle workers are left.
    fn next_event(&self, next: Option<Task>) -> Option<(Event, Nanos)> {
        let waited = self.waiting.peek().map_or(NEVER, |task| task.due);
        let computed = self.processor.next();
        let arrival = match next {
            Some(task) if !self.caller_is_busy => task.arrival.max(self.now),
            _ => NEVER,
        };
        let give_up = self.outside.front().map_or(NEVER, |(_, deadline)| *deadline);
        let mut first = (Event::Waited, waited);
        for other in [(Event::Computed, computed), (Event::Arrival, arrival), (Event::GiveUp, give_up)] {
            if other.1 < first.1 {
                first = other;
            }
        }
        if first.1 == NEVER {
            return None;
        }
        match self.idle.front() {
            Some(since) if self.workers > self.pool.core || self.pool.core_time_out => {
                let leave = since.saturating_add(self.pool.keep_alive);
                Some(if leave < first.1 { (Event::Leave, leave.max(self.now)) } else { first })
            }
            _ => Some(first),
        }
    }

    fn advance(&mut self, to: Nanos) {
        debug_assert!(self.queue.is_empty() || self.idle.is_empty(), "nobody is idle while there is work");
        let busy = self.workers - self.idle.len();
        let queued = self.queue.len() + self.outside.len();
        let inside = busy + queued + self.running_in_caller;
        self.levels.advance(to, [self.workers, busy, queued, inside, self.processor.busy_cores()]);
        self.now = to;
    }

    fn note(&mut self) {
        self.levels.note(self.workers, self.queue.len() + self.outside.len());
    }

    /// What the pool would decide now.
    fn decision(&self) -> Admission {
        let somebody_is_idle = !self.idle.is_empty();
        growth::admit(
            self.pool.rule,
            Load {
                workers: self.workers,
                core: self.pool.core,
                maximum: self.pool.maximum,
                queue_has_room: match self.pool.queue {
                    None => true,
                    Some(0) => somebody_is_idle,
                    Some(capacity) => self.queue.len() < capacity,
                },
                worker_is_free: somebody_is_idle,
            },
        )
    }

    /// A task is handed in.
    fn place(&mut self, task: Task) {
        // Whoever waits for room was there before.
        let decision = if self.outside.is_empty() { self.decision() } else { Admission::Reject };
        if decision == Admission::Reject {
            self.refuse(task)
        } else {
            self.take(task, decision)
        }
        self.note();
    }

    fn take(&mut self, task: Task, decision: Admission) {
        if decision == Admission::Queue {
            if self.idle.pop_back().is_some() {
                self.start(task, false);
                return;
            }
            self.queue.push_back(task);
            if self.workers == 0 {
                // Nobody would take it from there.
                self.workers = 1;
                self.look_for_work();
            }
        } else {
            self.workers += 1;
            self.start(task, false);
        }
    }

    fn refuse(&mut self, task: Task) {
        match self.pool.policy {
            Policy::Abort => self.lose(|figures| figures.rejected += 1),
            Policy::Discard => self.lose(|figures| figures.discarded += 1),
            Policy::DiscardOldest => match self.queue.pop_front() {
                Some(_oldest) => {
                    self.lose(|figures| figures.discarded += 1);
                    self.take(task, Admission::Queue);
                }
                None => self.lose(|figures| figures.rejected += 1),
            },
            Policy::CallerRuns => {
                self.caller_is_busy = self.one_caller;
                self.start(task, true);
            }
            Policy::Block(most) => {
                self.caller_is_busy = self.one_caller;
                let deadline = most.map_or(NEVER, |most| self.now.saturating_add(most));
                self.outside.push_back((task, deadline));
            }
        }
    }

    fn lose(&mut self, count: impl FnOnce(&mut Figures)) {
        count(&mut self.figures);
        self.levels.lost();
    }

    fn start(&mut self, task: Task, in_caller: bool) {
        let wait = self.now - task.arrival;
        self.levels.started(wait);
        self.running_in_caller += usize::from(in_caller);
        self.turns += 1;
        let running = Running {
            due: self.now.saturating_add(task.wait),
            turn: self.turns,
            arrival: task.arrival,
            start: self.now,
            compute: task.compute,
            in_caller,
        };
        // A task that takes no time at all ends in an event of its own too: a worker that finds a long queue of them must
        // not recurse.
        if task.wait == 0 && task.compute > 0 {
            self.processor.push(self.now, running);
        } else {
            self.waiting.push(running);
        }
    }

    fn finish(&mut self, task: Running) {
        let (wait, total) = (task.start - task.arrival, self.now - task.arrival);
        let figures = &mut self.figures;
        figures.completed += 1;
        figures.waited += u64::from(wait > 0);
        figures.waits.add(wait);
        figures.totals.add(total);
        figures.end = self.now;
        if let Some(goal) = &self.goal {
            let judged = if goal.of == Judged::Wait { wait } else { total };
            figures.late += u64::from(judged > goal.limit);
        }
        self.watch.finished(task.arrival, wait, total);
        if task.in_caller {
            self.figures.in_caller += 1;
            self.running_in_caller -= 1;
            self.caller_is_busy = false;
        } else {
            self.look_for_work();
        }
        self.note();
    }

    /// A worker has nothing to do.
    fn look_for_work(&mut self) {
        match self.queue.pop_front() {
            Some(task) => self.start(task, false),
            None => self.idle.push_back(self.now),
        }
        self.let_in();
    }

    /// There may be room for callers who wait.
    fn let_in(&mut self) {
        while let Some((task, _)) = self.outside.front().copied() {
            let decision = self.decision();
            if decision == Admission::Reject {
                return;
            }
            self.outside.pop_front();
            self.caller_is_busy = false;
            self.take(task, decision);
        }
    }

    fn is_hopeless(&self) -> bool {
        self.goal
            .as_ref()
            .is_some_and(|goal| self.figures.late > goal.most_late || self.figures.lost() > goal.most_lost)
    }
}
