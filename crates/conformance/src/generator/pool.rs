//! Random scenarios of kind pool.

use std::collections::BTreeMap;

use crate::model::Model;
use crate::rng::Rng;
use crate::scenario::{GateState, KeepAlive, OnInterrupt, Policy, PoolConfig, PoolStep, QueueSpec, TaskSpec};

/// A family of scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Mix,
    Cached,
    Fixed,
    Fail,
    CancelPurge,
    GrowCore,
    Resize,
    ShrinkMax,
    Priority,
    Pregate,
    Illegal,
    KeepaliveInstant,
    KeepaliveTimed,
    ShutdownDrain,
    ShutdownNow,
    Construct,
}

impl Tag {
    pub(super) const ALL: [Tag; 16] = [
        Tag::Mix,
        Tag::Cached,
        Tag::Fixed,
        Tag::Fail,
        Tag::CancelPurge,
        Tag::GrowCore,
        Tag::Resize,
        Tag::ShrinkMax,
        Tag::Priority,
        Tag::Pregate,
        Tag::Illegal,
        Tag::KeepaliveInstant,
        Tag::KeepaliveTimed,
        Tag::ShutdownDrain,
        Tag::ShutdownNow,
        Tag::Construct,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tag::Mix => "mix",
            Tag::Cached => "cached",
            Tag::Fixed => "fixed",
            Tag::Fail => "fail",
            Tag::CancelPurge => "cancel_purge",
            Tag::GrowCore => "grow_core",
            Tag::Resize => "resize",
            Tag::ShrinkMax => "shrink_max",
            Tag::Priority => "priority",
            Tag::Pregate => "pregate",
            Tag::Illegal => "illegal",
            Tag::KeepaliveInstant => "keepalive_instant",
            Tag::KeepaliveTimed => "keepalive_timed",
            Tag::ShutdownDrain => "shutdown_drain",
            Tag::ShutdownNow => "shutdown_now",
            Tag::Construct => "construct",
        }
    }

    /// The typical steps of this family, in addition to the common mix.
    fn extra(self) -> &'static [(i64, Op)] {
        match self {
            Tag::Fail => &[(15, Op::Fail), (8, Op::Execute)],
            Tag::CancelPurge => &[(20, Op::Submit), (20, Op::Cancel), (8, Op::Purge), (8, Op::Remove)],
            Tag::GrowCore => &[(15, Op::Execute), (15, Op::Submit), (15, Op::SetCore)],
            Tag::Resize => &[(15, Op::SetCore), (15, Op::SetMax), (5, Op::PrestartAll)],
            Tag::ShrinkMax => &[(15, Op::SetMax), (15, Op::Execute), (25, Op::Release)],
            Tag::Pregate => &[(25, Op::ReleaseEarly), (10, Op::Submit)],
            Tag::Illegal => {
                &[(10, Op::SetCore), (10, Op::SetMax), (10, Op::SetKeepAlive), (10, Op::AllowCore)]
            }
            Tag::KeepaliveInstant => &[(8, Op::SetKeepAlive), (8, Op::AllowCore), (8, Op::PrestartCore)],
            Tag::KeepaliveTimed => &[(10, Op::Sleep), (10, Op::Release)],
            Tag::ShutdownDrain => &[(20, Op::Submit), (10, Op::Cancel), (2, Op::Shutdown)],
            Tag::ShutdownNow => &[(20, Op::Submit), (5, Op::ShutdownNow)],
            _ => &[],
        }
    }
}

/// The kinds of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Execute,
    Submit,
    Release,
    ReleaseEarly,
    Fail,
    Cancel,
    Remove,
    Purge,
    SetCore,
    SetMax,
    SetKeepAlive,
    AllowCore,
    SetPolicy,
    PrestartCore,
    PrestartAll,
    Shutdown,
    ShutdownNow,
    Await,
    Sleep,
    Get,
    Snapshot,
}

const COMMON: &[(i64, Op)] = &[
    (22, Op::Execute),
    (22, Op::Submit),
    (22, Op::Release),
    (2, Op::ReleaseEarly),
    (5, Op::Fail),
    (7, Op::Cancel),
    (4, Op::Remove),
    (2, Op::Purge),
    (4, Op::SetCore),
    (4, Op::SetMax),
    (3, Op::SetKeepAlive),
    (3, Op::AllowCore),
    (2, Op::SetPolicy),
    (2, Op::PrestartCore),
    (2, Op::PrestartAll),
    (1, Op::Shutdown),
    (1, Op::ShutdownNow),
    (1, Op::Await),
    (5, Op::Get),
    (2, Op::Snapshot),
];

/// A pool and the steps on it.
pub(super) fn program(rng: &mut Rng, tag: Tag) -> (PoolConfig, Vec<PoolStep>) {
    let config = config(rng, tag);
    let steps = match Model::new(&config) {
        Some(model) => Author::new(rng, tag, model, &config).write(),
        // None of these steps is played.
        None => vec![PoolStep::Execute(plain_task(1)), PoolStep::Shutdown],
    };
    (config, steps)
}

fn config(rng: &mut Rng, tag: Tag) -> PoolConfig {
    let core = rng.range(0, 3);
    let max = (core + rng.range(0, 3)).max(1);
    let mut config = PoolConfig {
        core,
        max,
        keep_alive_ms: rng.weighted(&[(3, 60_000), (1, 30_000), (1, 120_000), (2, 0), (2, 1), (1, 5)]),
        allow_core_timeout: false,
        queue: any_queue(rng),
        policy: any_policy(rng),
    };
    match tag {
        Tag::Cached => (config.core, config.queue) = (rng.range(0, 1), QueueSpec::Synchronous),
        Tag::Fixed => {
            config.core = rng.range(1, 5);
            (config.max, config.queue) = (config.core, QueueSpec::Linked { capacity: None });
        }
        Tag::GrowCore => {
            (config.core, config.max) = (rng.range(0, 2), rng.range(3, 6));
            config.keep_alive_ms = rng.weighted(&[(4, 60_000), (1, 1)]);
            config.queue = rng.pick(&[
                QueueSpec::Array { capacity: 5 },
                QueueSpec::Linked { capacity: None },
                QueueSpec::Linked { capacity: Some(3) },
                QueueSpec::Priority,
            ]);
        }
        Tag::ShrinkMax => {
            // A short queue, so that the pool grows, and a long keep-alive time.
            (config.core, config.max) = (rng.range(0, 2), rng.range(2, 6));
            config.keep_alive_ms = rng.weighted(&[(4, 60_000), (1, 2)]);
            config.queue = rng.pick(&[
                QueueSpec::Array { capacity: 1 },
                QueueSpec::Linked { capacity: Some(2) },
                QueueSpec::Synchronous,
            ]);
        }
        Tag::Priority => config.queue = QueueSpec::Priority,
        Tag::KeepaliveInstant => config.keep_alive_ms = rng.pick(&[0, 1, 2, 5, 10]),
        Tag::KeepaliveTimed => config.keep_alive_ms = rng.pick(&[200, 300, 400]),
        Tag::ShutdownDrain | Tag::ShutdownNow => config.core = config.core.min(2),
        Tag::Construct => spoil(rng, &mut config),
        _ => {}
    }
    config.max = config.max.max(config.core).max(if tag == Tag::Construct { i64::MIN } else { 1 });
    if tag == Tag::Construct && rng.chance(30) {
        config.max = rng.range(-2, config.core - 1);
    }
    config.allow_core_timeout =
        rng.chance(if tag == Tag::KeepaliveTimed || tag == Tag::KeepaliveInstant { 35 } else { 12 })
            && (config.keep_alive_ms > 0 || tag == Tag::Construct);
    config
}

/// Makes the configuration illegal, most of the time.
fn spoil(rng: &mut Rng, config: &mut PoolConfig) {
    match rng.range(0, 5) {
        0 => config.core = rng.range(-2, -1),
        1 => config.max = rng.range(-2, 0),
        2 => config.keep_alive_ms = -1,
        3 => config.queue = QueueSpec::Array { capacity: rng.range(-1, 0) },
        4 => config.queue = QueueSpec::Linked { capacity: Some(rng.range(-1, 0)) },
        _ => config.keep_alive_ms = 0,
    }
}

fn any_queue(rng: &mut Rng) -> QueueSpec {
    match rng.range(0, 6) {
        0 | 1 => QueueSpec::Array { capacity: rng.range(1, 5) },
        2 | 3 => QueueSpec::Linked { capacity: Some(rng.range(1, 5)) },
        4 => QueueSpec::Linked { capacity: None },
        5 => QueueSpec::Synchronous,
        _ => QueueSpec::Priority,
    }
}

fn any_policy(rng: &mut Rng) -> Policy {
    rng.pick(&[Policy::Abort, Policy::CallerRuns, Policy::Discard, Policy::DiscardOldest])
}

fn plain_task(t: i64) -> TaskSpec {
    TaskSpec { t, priority: 0, gate: GateState::Closed, on_interrupt: OnInterrupt::Exit }
}

/// Writes one scenario, step by step, while the model plays along.
struct Author<'a> {
    rng: &'a mut Rng,
    tag: Tag,
    model: Model,
    queue: QueueSpec,
    class: KeepAlive,
    /// Tasks whose gate was used by a step before the task was submitted.
    planned: BTreeMap<i64, TaskSpec>,
    next_task: i64,
    /// Remaining sleep in milliseconds before the next long sleep.
    nap_budget: i64,
    steps: Vec<PoolStep>,
}

impl<'a> Author<'a> {
    fn new(rng: &'a mut Rng, tag: Tag, model: Model, config: &PoolConfig) -> Author<'a> {
        Author {
            rng,
            tag,
            model,
            queue: config.queue,
            class: KeepAlive::of(config.keep_alive_ms),
            planned: BTreeMap::new(),
            next_task: 1,
            nap_budget: config.keep_alive_ms / 4,
            steps: Vec::new(),
        }
    }

    fn write(mut self) -> Vec<PoolStep> {
        let length = match self.tag {
            Tag::KeepaliveTimed => self.rng.range(6, 14),
            Tag::Mix => self.rng.range(6, 60),
            _ => self.rng.range(6, 28),
        };
        let weights: Vec<(i64, Op)> = COMMON.iter().chain(self.tag.extra()).copied().collect();
        self.open();
        for _ in 0..length {
            let op = self.rng.weighted(&weights);
            self.try_step(op);
        }
        self.close();
        self.steps
    }

    /// Brings the pool into the typical state of the family.
    fn open(&mut self) {
        let fill = match self.tag {
            Tag::GrowCore | Tag::ShrinkMax => self.rng.range(3, 7),
            Tag::ShutdownDrain | Tag::ShutdownNow | Tag::CancelPurge => self.rng.range(2, 6),
            _ => 0,
        };
        for _ in 0..fill {
            let op = self.rng.pick(&[Op::Execute, Op::Submit]);
            self.try_step(op);
        }
        match self.tag {
            Tag::GrowCore => self.try_step(Op::SetCore),
            Tag::ShutdownDrain if self.rng.chance(60) => self.try_step(Op::Shutdown),
            Tag::ShutdownNow if self.rng.chance(40) => self.try_step(Op::ShutdownNow),
            _ => {}
        }
    }

    fn close(&mut self) {
        match self.tag {
            Tag::KeepaliveTimed => {
                let ms = self.model.keep_alive() * 3;
                self.push(PoolStep::Sleep { ms });
                self.try_step(Op::Snapshot);
            }
            Tag::ShutdownDrain => {
                self.try_step(Op::Shutdown);
                for t in self.model.busy().clone() {
                    self.push(PoolStep::Release { t });
                }
                self.try_step(Op::Await);
            }
            Tag::ShutdownNow => self.try_step(Op::ShutdownNow),
            _ => {}
        }
        if self.rng.chance(60) {
            self.try_step(Op::Snapshot);
        }
    }

    fn try_step(&mut self, op: Op) {
        if let Some(step) = self.draw(op)
            && self.model.determines(&step)
        {
            self.push(step);
        }
    }

    fn push(&mut self, step: PoolStep) {
        let mut long_sleep = false;
        if let PoolStep::Sleep { ms } = step {
            long_sleep = ms >= 3 * self.model.keep_alive();
            self.nap_budget = if long_sleep { self.model.keep_alive() / 4 } else { self.nap_budget - ms };
        }
        if let PoolStep::Execute(spec) | PoolStep::Submit(spec) = &step {
            self.next_task = spec.t + 1;
        }
        self.model.play(&step, long_sleep);
        self.steps.push(step);
    }

    fn draw(&mut self, op: Op) -> Option<PoolStep> {
        Some(match op {
            Op::Execute => PoolStep::Execute(self.next_spec()),
            Op::Submit => PoolStep::Submit(self.next_spec()),
            Op::Release => PoolStep::Release { t: self.some_task()? },
            Op::ReleaseEarly => {
                let t = self.next_task + self.rng.range(0, 2);
                self.plan(t);
                if self.rng.chance(80) { PoolStep::Release { t } } else { PoolStep::Fail { t } }
            }
            Op::Fail => PoolStep::Fail { t: self.some_task()? },
            Op::Cancel => PoolStep::Cancel { t: self.some_submitted()?, may_interrupt: self.rng.chance(50) },
            Op::Remove => PoolStep::Remove { t: self.some_queued()? },
            Op::Purge => PoolStep::Purge,
            Op::SetCore => PoolStep::SetCore { n: self.new_core() },
            Op::SetMax => PoolStep::SetMax { n: self.new_max() },
            Op::SetKeepAlive if self.class == KeepAlive::Timed => return None,
            Op::SetKeepAlive => PoolStep::SetKeepAlive {
                ms: self.rng.pick(&[-1, 0, 0, 1, 2, 5, 10, 30_000, 60_000, 120_000]),
            },
            Op::AllowCore => PoolStep::AllowCoreTimeout { value: self.rng.chance(65) },
            Op::SetPolicy => PoolStep::SetPolicy { policy: any_policy(self.rng) },
            Op::PrestartCore => PoolStep::PrestartCore,
            Op::PrestartAll => PoolStep::PrestartAll,
            Op::Shutdown => PoolStep::Shutdown,
            Op::ShutdownNow => PoolStep::ShutdownNow,
            Op::Await => PoolStep::AwaitTermination { ms: self.patience(self.model.is_terminated()) },
            Op::Sleep => PoolStep::Sleep { ms: self.nap()? },
            Op::Get => self.get()?,
            Op::Snapshot => PoolStep::Snapshot,
        })
    }

    fn next_spec(&mut self) -> TaskSpec {
        self.plan(self.next_task);
        self.planned[&self.next_task].clone()
    }

    /// Creates task `t`, unless it exists.
    fn plan(&mut self, t: i64) {
        if self.planned.contains_key(&t) {
            return;
        }
        let gate = match self.tag {
            Tag::GrowCore => self.rng.weighted(&[(9, GateState::Closed), (1, GateState::Open)]),
            _ => self.rng.weighted(&[(14, GateState::Closed), (5, GateState::Open), (1, GateState::Fail)]),
        };
        let priority = if self.queue != QueueSpec::Priority && !self.rng.chance(10) {
            0
        } else if self.rng.chance(40) {
            self.rng.range(0, 2)
        } else {
            self.rng.range(-50, 200)
        };
        let on_interrupt =
            self.rng.weighted(&[(5, OnInterrupt::Exit), (2, OnInterrupt::Ignore), (1, OnInterrupt::Fail)]);
        let priority = i32::try_from(priority).expect("priorities are small");
        let spec = TaskSpec { t, priority, gate, on_interrupt };
        self.model.announce(&spec);
        self.planned.insert(t, spec);
    }

    /// A task for the next step: most often one that runs.
    fn some_task(&mut self) -> Option<i64> {
        let running: Vec<i64> = self.model.busy().iter().copied().collect();
        let queued = self.model.queued();
        let choice = self.rng.range(0, 9);
        if choice < 5 && !running.is_empty() {
            Some(self.rng.pick(&running))
        } else if choice < 8 && !queued.is_empty() {
            Some(self.rng.pick(&queued))
        } else if self.next_task > 1 {
            Some(self.rng.range(1, self.next_task - 1))
        } else {
            None
        }
    }

    /// A task that has a handle, most of the time.
    fn some_submitted(&mut self) -> Option<i64> {
        let has_future = |t: &i64| self.model.task(*t).is_some_and(|task| task.has_future());
        let submitted: Vec<i64> = (1..self.next_task).filter(has_future).collect();
        if submitted.is_empty() || self.rng.chance(40) {
            return self.some_task();
        }
        Some(self.rng.pick(&submitted))
    }

    /// A task that waits in the queue, half of the time.
    fn some_queued(&mut self) -> Option<i64> {
        let queued = self.model.queued();
        if queued.is_empty() || self.rng.chance(50) {
            return self.some_task();
        }
        Some(self.rng.pick(&queued))
    }

    fn new_core(&mut self) -> i64 {
        let (core, max) = (self.model.core(), self.model.max());
        match self.tag {
            Tag::GrowCore if self.rng.chance(60) => self.rng.range(core, max),
            Tag::Illegal => self.rng.range(-1, max + 2),
            _ if self.rng.chance(10) => self.rng.range(-1, max + 2),
            _ => self.rng.range(0, max),
        }
    }

    fn new_max(&mut self) -> i64 {
        let (core, max) = (self.model.core(), self.model.max());
        match self.tag {
            Tag::ShrinkMax if self.rng.chance(60) => self.rng.range(core.max(1), max),
            Tag::Illegal => self.rng.range(-1, max + 2),
            _ if self.rng.chance(10) => self.rng.range(-1, max),
            _ => self.rng.range(core.max(1), max + 2),
        }
    }

    /// Long if the awaited event has happened already, otherwise as short as the domain requires.
    fn patience(&mut self, happened: bool) -> i64 {
        if happened { 2000 } else { self.rng.range(0, 2) }
    }

    fn nap(&mut self) -> Option<i64> {
        if self.class != KeepAlive::Timed {
            return None;
        }
        let long = self.model.keep_alive() * 3;
        let slept = self.steps.iter().filter(|s| matches!(s, PoolStep::Sleep { ms } if *ms >= long)).count();
        if slept < 2 && self.rng.chance(40) {
            return Some(long);
        }
        let nap = self.rng.range(5, 60);
        (nap <= self.nap_budget).then_some(nap)
    }

    fn get(&mut self) -> Option<PoolStep> {
        let t = self.some_submitted()?;
        let task = self.model.task(t)?;
        let settled = task.is_done() || !task.has_future();
        Some(PoolStep::FutureGet { t, timeout_ms: self.patience(settled) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Place, Run};

    #[test]
    fn every_tag_writes_scenarios_and_most_of_them_do_something() {
        for tag in Tag::ALL {
            let mut busy = 0;
            for seed in 0..50 {
                let (config, steps) = program(&mut Rng::new(seed), tag);
                assert!(!steps.is_empty(), "{tag:?} {seed}");
                let Some(mut model) = Model::new(&config) else { continue };
                for step in &steps {
                    if let PoolStep::Execute(spec) | PoolStep::Submit(spec) = step {
                        model.announce(spec);
                    }
                }
                for step in &steps {
                    assert!(model.determines(step), "{tag:?} {seed}: {step:?}");
                    model.play(step, false);
                }
                busy += usize::from(model.largest() > 0 || model.run() > Run::Running);
            }
            assert!(busy >= 5, "{tag:?}: {busy}");
        }
    }

    #[test]
    fn a_task_is_handed_in_once() {
        for seed in 0..200 {
            let (_, steps) = program(&mut Rng::new(seed), Tag::Pregate);
            let mut seen = std::collections::BTreeSet::new();
            for step in &steps {
                if let PoolStep::Execute(spec) | PoolStep::Submit(spec) = step {
                    assert!(seen.insert(spec.t), "seed {seed}: {steps:?}");
                }
            }
        }
    }

    #[test]
    fn a_refused_task_is_outside() {
        let config = PoolConfig {
            core: 1,
            max: 1,
            keep_alive_ms: 60_000,
            allow_core_timeout: false,
            queue: QueueSpec::Synchronous,
            policy: Policy::Abort,
        };
        let mut model = Model::new(&config).unwrap();
        for t in 1..=2 {
            model.announce(&plain_task(t));
            model.play(&PoolStep::Submit(plain_task(t)), false);
        }
        assert_eq!(model.task(1).unwrap().place(), Place::Running);
        assert_eq!(model.task(2).unwrap().place(), Place::Outside);
    }
}
