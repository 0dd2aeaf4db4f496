//! The event loop.
//!
//! There are five kinds of event: a task arrives, a task has finished waiting, a task has finished
//! computing, a blocked caller times out, an idle worker exits. Each kind knows its next event, and
//! the loop takes the earliest of the five. There is no allocation per task: running tasks are in
//! two heaps, waiting tasks in a ring buffer.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use millpond::growth::{self, Admission, Load};

use crate::processor::Processor;
use crate::{Figures, Judged, Levels, NEVER, Nanos, Observe, Policy, Pool, Task, Watch, World};

/// A running task. Ordered by due time, then by start; the greatest is due first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Running {
    /// For a task that waits: the end of the wait. In the processor: see `Processor::tasks`.
    pub(crate) due: u64,
    turn: u64,
    arrival: Nanos,
    start: Nanos,
    pub(crate) compute: Nanos,
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

/// The kinds of event, in the order in which simultaneous events happen. A worker that becomes idle
/// now can take a task that arrives now; so can a worker whose keep-alive expires now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Waited,
    Computed,
    Arrival,
    GiveUp,
    Exit,
}

pub(crate) struct Simulation<'a, W> {
    pool: &'a Pool,
    one_caller: bool,
    now: Nanos,
    workers: usize,
    /// When each idle worker became idle, oldest first. As in the pool, the newest takes the next
    /// task.
    idle: VecDeque<Nanos>,
    queue: VecDeque<Task>,
    /// Blocked callers, each with its deadline.
    outside: VecDeque<(Task, Nanos)>,
    /// Running tasks that wait.
    waiting: BinaryHeap<Running>,
    /// Running tasks that compute.
    processor: Processor,
    caller_is_busy: bool,
    running_in_caller: usize,
    turns: u64,
    levels: Levels,
    figures: Figures,
    observe: &'a Observe,
    watch: &'a mut W,
}

impl<'a, W: Watch> Simulation<'a, W> {
    pub(crate) fn new(pool: &'a Pool, world: World, observe: &'a Observe, watch: &'a mut W) -> Self {
        let late = vec![0; observe.goal.bounds.len()];
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
            levels: Levels::new(observe.warm_up),
            figures: Figures { late, ..Figures::default() },
            observe,
            watch,
        }
    }

    pub(crate) fn run(&mut self, mut tasks: impl Iterator<Item = Task>) {
        let mut next = tasks.next();
        while let Some((event, at)) = self.next_event(next) {
            self.advance(at);
            match event {
                Event::Waited => {
                    let task = self.waiting.pop().expect("next_event saw it");
                    if task.compute > 0 { self.processor.push(at, task) } else { self.finish(task) }
                }
                Event::Computed => {
                    let task = self.processor.pop(at);
                    self.finish(task);
                }
                Event::Arrival => {
                    let task = next.take().expect("next_event saw it");
                    next = tasks.next();
                    self.arrive(task);
                }
                Event::GiveUp => {
                    let (task, _) = self.outside.pop_front().expect("next_event saw it");
                    self.lose(task, |figures| &mut figures.rejected);
                    self.caller_is_busy = false;
                    self.note();
                }
                Event::Exit => {
                    self.idle.pop_front();
                    self.workers -= 1;
                    self.note();
                }
            }
            if self.exceeds_goal() {
                self.figures.given_up = true;
                return;
            }
        }
    }

    /// The figures of the whole run.
    pub(crate) fn finish_run(self) -> Figures {
        let Simulation { mut figures, levels, observe, .. } = self;
        figures.counted_for = figures.end.saturating_sub(observe.warm_up) as f64;
        figures.drain = figures.end.saturating_sub(figures.last_arrival);
        figures.levels = levels;
        figures
    }

    /// The earliest event, or `None` if only idle workers are left.
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
                let exit = since.saturating_add(self.pool.keep_alive);
                Some(if exit < first.1 { (Event::Exit, exit.max(self.now)) } else { first })
            }
            _ => Some(first),
        }
    }

    fn advance(&mut self, to: Nanos) {
        debug_assert!(self.queue.is_empty() || self.idle.is_empty(), "a worker is idle beside a queued task");
        let busy = self.workers - self.idle.len();
        let queued = self.queue.len() + self.outside.len();
        let inside = busy + queued + self.running_in_caller;
        self.levels.advance(to, [self.workers, busy, queued, inside, self.processor.busy_cores()]);
        self.now = to;
    }

    fn note(&mut self) {
        self.levels.note(self.workers, self.queue.len() + self.outside.len());
    }

    fn is_counted(&self, arrival: Nanos) -> bool {
        arrival >= self.observe.warm_up
    }

    fn arrive(&mut self, task: Task) {
        self.figures.arrived += u64::from(self.is_counted(task.arrival));
        self.figures.last_arrival = task.arrival;
        // Blocked callers come before new tasks.
        let decision = if self.outside.is_empty() { self.decision() } else { Admission::Reject };
        if decision == Admission::Reject {
            self.refuse(task)
        } else {
            self.take(task, decision)
        }
        self.note();
    }

    /// The pool's decision about a task that is submitted now.
    fn decision(&self) -> Admission {
        let worker_is_free = !self.idle.is_empty();
        growth::admit(
            self.pool.rule,
            Load {
                workers: self.workers,
                core: self.pool.core,
                maximum: self.pool.maximum,
                queue_has_room: match self.pool.queue {
                    None => true,
                    Some(0) => worker_is_free,
                    Some(capacity) => self.queue.len() < capacity,
                },
                worker_is_free,
            },
        )
    }

    fn take(&mut self, task: Task, decision: Admission) {
        if decision == Admission::Queue {
            if self.idle.pop_back().is_some() {
                self.start(task, false);
                return;
            }
            self.queue.push_back(task);
            if self.workers == 0 {
                // A pool without core threads starts one for its queue.
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
            Policy::Abort => self.lose(task, |figures| &mut figures.rejected),
            Policy::Discard => self.lose(task, |figures| &mut figures.discarded),
            Policy::DiscardOldest => match self.queue.pop_front() {
                Some(oldest) => {
                    self.lose(oldest, |figures| &mut figures.discarded);
                    self.take(task, Admission::Queue);
                }
                None => self.lose(task, |figures| &mut figures.rejected),
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

    fn lose(&mut self, task: Task, counter: impl FnOnce(&mut Figures) -> &mut u64) {
        if self.is_counted(task.arrival) {
            *counter(&mut self.figures) += 1;
        }
        self.levels.lost();
    }

    fn start(&mut self, task: Task, in_caller: bool) {
        self.levels.started(self.now - task.arrival);
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
        // A task of zero duration also ends in an event of its own. Otherwise a worker with a long
        // queue of such tasks would recurse.
        if task.wait == 0 && task.compute > 0 {
            self.processor.push(self.now, running);
        } else {
            self.waiting.push(running);
        }
    }

    fn finish(&mut self, task: Running) {
        self.figures.end = self.now;
        if self.is_counted(task.arrival) {
            self.count(task);
        }
        if task.in_caller {
            self.running_in_caller -= 1;
            self.caller_is_busy = false;
        } else {
            self.look_for_work();
        }
        self.note();
    }

    fn count(&mut self, task: Running) {
        let (wait, total) = (task.start - task.arrival, self.now - task.arrival);
        let figures = &mut self.figures;
        figures.completed += 1;
        figures.in_caller += u64::from(task.in_caller);
        figures.waited += u64::from(wait > 0);
        figures.waits.add(wait);
        figures.totals.add(total);
        for (late, bound) in figures.late.iter_mut().zip(&self.observe.goal.bounds) {
            let judged = if bound.of == Judged::Wait { wait } else { total };
            *late += u64::from(judged > bound.limit);
        }
        self.watch.finished(task.arrival, wait, total);
    }

    /// Gives a worker without a task the next one, or makes it idle.
    fn look_for_work(&mut self) {
        match self.queue.pop_front() {
            Some(task) => self.start(task, false),
            None => self.idle.push_back(self.now),
        }
        self.admit_blocked_callers();
    }

    fn admit_blocked_callers(&mut self) {
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

    fn exceeds_goal(&self) -> bool {
        let goal = &self.observe.goal;
        let mut late = self.figures.late.iter().zip(&goal.bounds);
        self.figures.lost() > goal.most_lost || late.any(|(late, bound)| *late > bound.most_late)
    }
}
