//! A model of the pool at rest, by the rules that the JDK documents: no threads, no time, only the
//! state after everything has come to rest after a step.
//!
//! The generator uses it to stay within determined outcomes (which tasks run, which threads wait,
//! the state of a handle). It is also an independent check: its observables are compared with
//! recorded traces.
//!
//! A worker is *busy* (at the closed gate of its task) or *idle*. While it moves between the two it
//! is counted separately. Scenarios are restricted so that only one worker moves at a time.

use std::collections::{BTreeMap, BTreeSet};

use crate::scenario::{GateState, KeepAlive, OnInterrupt, Policy, PoolConfig, PoolStep, QueueSpec, TaskSpec};

/// The run state of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Run {
    /// Accepts tasks.
    Running,
    /// Accepts no tasks, but runs those it has.
    Shutdown,
    /// Starts no more tasks.
    Stop,
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Not submitted yet, or rejected.
    Outside,
    /// In the work queue.
    Queued,
    /// At its gate.
    Running,
    /// Ended on a worker or on the caller.
    Ended,
    /// Dropped by a policy, removed, purged or drained: it will never run.
    Dropped,
}

/// A task as the model sees it.
#[derive(Debug, Clone)]
pub struct ModelTask {
    spec: TaskSpec,
    gate: GateState,
    place: Place,
    ordinal: usize,
    submitted: bool,
    has_future: bool,
    cancelled: bool,
}

impl ModelTask {
    /// True if its handle has an outcome.
    pub fn is_done(&self) -> bool {
        self.cancelled || self.place == Place::Ended
    }
    /// True if a step returned a handle for it.
    pub fn has_future(&self) -> bool {
        self.has_future
    }
    /// Where it is.
    pub fn place(&self) -> Place {
        self.place
    }
    /// True if it blocks when it starts.
    pub fn is_closed(&self) -> bool {
        self.gate == GateState::Closed
    }
}

/// A pool at rest.
#[derive(Debug, Clone)]
pub struct Model {
    core: i64,
    max: i64,
    keep_alive: i64,
    allow_core: bool,
    policy: Policy,
    queue_spec: QueueSpec,
    run: Run,
    busy: BTreeSet<i64>,
    idle: i64,
    largest: i64,
    completed: u64,
    /// In arrival order, also for a priority queue.
    queue: Vec<i64>,
    tasks: BTreeMap<i64, ModelTask>,
    ordinals: usize,
}

/// How a body ended, for the worker that ran it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ran {
    Blocked,
    Ended,
    /// The panic reached the worker, whose thread is replaced.
    Died,
}

impl Model {
    /// The pool of `config`. `None` if it cannot be built.
    pub fn new(config: &PoolConfig) -> Option<Model> {
        let capacity = match config.queue {
            QueueSpec::Array { capacity } | QueueSpec::Linked { capacity: Some(capacity) } => capacity,
            _ => i64::MAX,
        };
        let legal = config.core >= 0
            && config.max >= 1
            && config.max >= config.core
            && config.keep_alive_ms >= 0
            && capacity >= 1
            && !(config.allow_core_timeout && config.keep_alive_ms == 0);
        legal.then(|| Model {
            core: config.core,
            max: config.max,
            keep_alive: config.keep_alive_ms,
            allow_core: config.allow_core_timeout,
            policy: config.policy,
            queue_spec: config.queue,
            run: Run::Running,
            busy: BTreeSet::new(),
            idle: 0,
            largest: 0,
            completed: 0,
            queue: Vec::new(),
            tasks: BTreeMap::new(),
            ordinals: 0,
        })
    }

    /// Number of workers.
    pub fn pool_size(&self) -> i64 {
        self.busy.len() as i64 + self.idle
    }
    /// Largest number of workers there ever was.
    pub fn largest(&self) -> i64 {
        self.largest
    }
    /// Tasks that workers have finished.
    pub fn completed(&self) -> u64 {
        self.completed
    }
    /// The tasks that are running.
    pub fn busy(&self) -> &BTreeSet<i64> {
        &self.busy
    }
    /// Core size.
    pub fn core(&self) -> i64 {
        self.core
    }
    /// Maximum size.
    pub fn max(&self) -> i64 {
        self.max
    }
    /// Keep-alive time in milliseconds.
    pub fn keep_alive(&self) -> i64 {
        self.keep_alive
    }
    /// Whether core threads time out.
    pub fn allow_core(&self) -> bool {
        self.allow_core
    }
    /// The run state.
    pub fn run(&self) -> Run {
        self.run
    }
    /// True if the pool has terminated.
    pub fn is_terminated(&self) -> bool {
        self.run > Run::Running && self.pool_size() == 0 && self.queue.is_empty()
    }
    /// The task named `t`, once a step has used it.
    pub fn task(&self, t: i64) -> Option<&ModelTask> {
        self.tasks.get(&t)
    }

    /// The tasks in the work queue, head first.
    pub fn queued(&self) -> Vec<i64> {
        let mut queued = self.queue.clone();
        if self.queue_spec == QueueSpec::Priority {
            queued.sort_by_key(|t| (self.tasks[t].spec.priority, self.tasks[t].ordinal));
        }
        queued
    }

    /// Registers the initial gates of the steps.
    pub fn announce(&mut self, spec: &TaskSpec) {
        let task = ModelTask {
            gate: spec.gate,
            spec: spec.clone(),
            place: Place::Outside,
            ordinal: 0,
            submitted: false,
            has_future: false,
            cancelled: false,
        };
        self.tasks.insert(spec.t, task);
    }

    /// True if the outcome of `step` is determined in the current state.
    pub fn determines(&self, step: &PoolStep) -> bool {
        match step {
            PoolStep::Execute(_) | PoolStep::Submit(_) => !self.would_recurse(),
            PoolStep::SetCore { n } => self.started_by_set_core(*n) < 2 || self.all_queued_block(),
            PoolStep::PrestartAll => {
                let expires = self.allow_core && KeepAlive::of(self.keep_alive) == KeepAlive::Instant;
                self.pool_size() >= self.core || (self.queue.is_empty() && !expires)
            }
            _ => true,
        }
    }

    /// The reference's `discard_oldest` recurses without end if a pool with a synchronous queue is
    /// full.
    fn would_recurse(&self) -> bool {
        self.policy == Policy::DiscardOldest
            && self.queue_spec == QueueSpec::Synchronous
            && self.run == Run::Running
            && self.idle == 0
            && self.pool_size() >= self.max
    }

    fn started_by_set_core(&self, n: i64) -> i64 {
        if n < 0 || n > self.max { 0 } else { (n - self.core).min(self.queue.len() as i64) }
    }

    fn all_queued_block(&self) -> bool {
        self.queue.iter().all(|t| self.tasks[t].is_closed() && !self.tasks[t].cancelled)
    }

    /// Plays one step and its consequences. Idle workers expire in a `long_sleep`.
    pub fn play(&mut self, step: &PoolStep, long_sleep: bool) {
        match step {
            PoolStep::Execute(spec) => self.hand_in(spec, false),
            PoolStep::Submit(spec) => self.hand_in(spec, true),
            PoolStep::Release { t } => self.turn_gate(*t, GateState::Open),
            PoolStep::Fail { t } => self.turn_gate(*t, GateState::Fail),
            PoolStep::Cancel { t, may_interrupt } => self.cancel(*t, *may_interrupt),
            PoolStep::Remove { t } => self.drop_queued(|task| task.spec.t == *t),
            PoolStep::Purge => self.drop_queued(|task| task.cancelled),
            PoolStep::SetCore { n } => self.set_core(*n),
            PoolStep::SetMax { n } if *n >= 1 && *n >= self.core => self.max = *n,
            PoolStep::SetKeepAlive { ms } if *ms > 0 || (*ms == 0 && !self.allow_core) => {
                self.keep_alive = *ms;
            }
            PoolStep::AllowCoreTimeout { value } if !*value || self.keep_alive > 0 => {
                self.allow_core = *value;
            }
            PoolStep::SetPolicy { policy } => self.policy = *policy,
            PoolStep::PrestartCore => self.prestart(),
            PoolStep::PrestartAll => (self.pool_size()..self.core).for_each(|_| self.prestart()),
            PoolStep::Shutdown => self.run = self.run.max(Run::Shutdown),
            PoolStep::ShutdownNow => self.shutdown_now(),
            _ => {}
        }
        self.come_to_rest(long_sleep || KeepAlive::of(self.keep_alive) == KeepAlive::Instant);
    }

    fn hand_in(&mut self, spec: &TaskSpec, submit: bool) {
        let ordinal = self.ordinals;
        self.ordinals += 1;
        let task = self.known(spec.t);
        task.ordinal = ordinal;
        task.submitted = submit;
        task.has_future = submit;
        self.execute(spec.t);
    }

    fn execute(&mut self, t: i64) {
        let size = self.pool_size();
        if self.run > Run::Running {
            self.refuse(t);
        } else if size < self.core {
            self.start_worker(Some(t));
        } else if self.has_room() {
            self.known(t).place = Place::Queued;
            self.queue.push(t);
            if size == 0 {
                self.start_worker(None);
            } else if self.idle > 0 {
                self.idle -= 1;
                self.work(None);
            }
        } else if self.queue_spec == QueueSpec::Synchronous && self.idle > 0 {
            self.idle -= 1;
            self.work(Some(t));
        } else if size < self.max {
            self.start_worker(Some(t));
        } else {
            self.refuse(t);
        }
    }

    fn has_room(&self) -> bool {
        match self.queue_spec {
            QueueSpec::Array { capacity } | QueueSpec::Linked { capacity: Some(capacity) } => {
                (self.queue.len() as i64) < capacity
            }
            QueueSpec::Synchronous => false,
            _ => true,
        }
    }

    fn refuse(&mut self, t: i64) {
        let running = self.run == Run::Running;
        match self.policy {
            Policy::Abort => {
                let task = self.known(t);
                (task.has_future, task.place) = (false, Place::Outside);
            }
            Policy::CallerRuns if running => self.known(t).place = Place::Ended,
            Policy::DiscardOldest if running && !self.queue.is_empty() => {
                self.take_head();
                self.execute(t);
            }
            _ => self.known(t).place = Place::Dropped,
        }
    }

    fn take_head(&mut self) -> Option<i64> {
        let head = *self.queued().first()?;
        self.queue.retain(|t| *t != head);
        self.known(head).place = Place::Dropped;
        Some(head)
    }

    fn start_worker(&mut self, first: Option<i64>) {
        self.largest = self.largest.max(self.pool_size() + 1);
        self.work(first);
    }

    /// Moves one worker, counted neither as busy nor as idle, until it is busy or idle again or has
    /// exited.
    fn work(&mut self, first: Option<i64>) {
        let mut next = first;
        loop {
            let Some(t) = next.take().or_else(|| self.fetch()) else { return };
            let ran = self.run_body(t);
            if ran == Ran::Blocked || !self.goes_on_after(ran) {
                return;
            }
        }
    }

    /// The next task for the moving worker. `None` if it has become idle or has exited.
    fn fetch(&mut self) -> Option<i64> {
        let size = self.pool_size() + 1;
        let drained = self.run == Run::Shutdown && self.queue.is_empty();
        let surplus = size > self.max && (size > 1 || self.queue.is_empty());
        if self.run == Run::Stop || drained || surplus {
            return None;
        }
        let head = self.take_head();
        if head.is_none() {
            self.idle += 1;
        }
        head
    }

    fn run_body(&mut self, t: i64) -> Ran {
        let task = self.known(t);
        if task.cancelled {
            task.place = Place::Ended;
            self.completed += 1;
            return Ran::Ended;
        }
        if task.gate == GateState::Closed {
            task.place = Place::Running;
            self.busy.insert(t);
            return Ran::Blocked;
        }
        let failed = task.gate == GateState::Fail;
        self.end_body(t, failed)
    }

    fn end_body(&mut self, t: i64, failed: bool) -> Ran {
        self.completed += 1;
        let task = self.known(t);
        task.place = Place::Ended;
        if failed && !task.submitted { Ran::Died } else { Ran::Ended }
    }

    /// Whether a worker continues after a task: a thread that died is replaced if the pool needs
    /// it.
    fn goes_on_after(&mut self, ran: Ran) -> bool {
        if ran != Ran::Died {
            return true;
        }
        let needless = self.run == Run::Shutdown && self.queue.is_empty();
        self.run < Run::Stop && !needless && self.pool_size() < self.max
    }

    fn turn_gate(&mut self, t: i64, to: GateState) {
        let Some(task) = self.tasks.get_mut(&t) else { return };
        if task.gate == GateState::Closed {
            task.gate = to;
            if task.place == Place::Running {
                self.leave_gate(t, to == GateState::Fail);
            }
        }
    }

    fn leave_gate(&mut self, t: i64, failed: bool) {
        self.busy.remove(&t);
        let ran = self.end_body(t, failed);
        if self.goes_on_after(ran) {
            self.work(None);
        }
    }

    fn cancel(&mut self, t: i64, may_interrupt: bool) {
        let Some(task) = self.tasks.get_mut(&t) else { return };
        if !task.has_future || task.is_done() {
            return;
        }
        task.cancelled = true;
        if may_interrupt && task.place == Place::Running {
            self.interrupt(t);
        }
    }

    fn interrupt(&mut self, t: i64) {
        match self.tasks[&t].spec.on_interrupt {
            OnInterrupt::Exit => self.leave_gate(t, false),
            OnInterrupt::Fail => self.leave_gate(t, true),
            OnInterrupt::Ignore => {}
        }
    }

    fn drop_queued(&mut self, which: impl Fn(&ModelTask) -> bool) {
        for t in self.queue.clone() {
            if which(&self.tasks[&t]) {
                self.queue.retain(|queued| *queued != t);
                self.known(t).place = Place::Dropped;
            }
        }
    }

    fn set_core(&mut self, n: i64) {
        if n < 0 || n > self.max {
            return;
        }
        let wanted = self.started_by_set_core(n);
        self.core = n;
        for _ in 0..wanted {
            if !self.queue.is_empty() {
                self.prestart();
            }
        }
    }

    fn prestart(&mut self) {
        let refused = self.run == Run::Stop || (self.run == Run::Shutdown && self.queue.is_empty());
        if !refused && self.pool_size() < self.core {
            self.start_worker(None);
        }
    }

    fn shutdown_now(&mut self) {
        self.run = Run::Stop;
        self.drop_queued(|_| true);
        for t in self.busy.clone() {
            self.interrupt(t);
        }
    }

    /// Removes idle workers that may not stay.
    fn come_to_rest(&mut self, expiry: bool) {
        if self.run > Run::Running {
            self.idle = 0;
        }
        while self.idle > 0 && self.pool_size() > self.max {
            self.idle -= 1;
        }
        while expiry && self.idle > 0 && (self.allow_core || self.pool_size() > self.core) {
            self.idle -= 1;
        }
    }

    fn known(&mut self, t: i64) -> &mut ModelTask {
        self.tasks.get_mut(&t).expect("tasks are announced before the first step")
    }
}
