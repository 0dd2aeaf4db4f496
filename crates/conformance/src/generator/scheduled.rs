//! Random scenarios of kind scheduled.
//!
//! Steps happen at the beginning of a slot and tasks run in the middle, so events rarely coincide.
//! Two cases remain, both with the one busy run of a scenario. In a pool of one worker, if a busy
//! run begins when other tasks are due, their order is unspecified and affects the state of the
//! pool; so no other task is due then. In a larger pool, a graceful shutdown before the end of the
//! busy run may leave tasks waiting, which the reference's player does not count as rest; so
//! shutdown comes later.

use crate::rng::Rng;
use crate::scenario::{ScheduledConfig, ScheduledStep, TimedSpec};

/// The families.
pub(super) const TAGS: [&str; 7] = ["mix", "once", "series", "busy", "cancel", "policy", "shutdown"];

const NEVER: i64 = 3_600_000;

/// A pool, the steps on it, and their times.
pub(super) fn program(rng: &mut Rng, tag: &'static str) -> (ScheduledConfig, Vec<ScheduledStep>) {
    let core = rng.weighted(&[(50, 1), (30, 2), (14, 3), (4, 0), (2, -1)]);
    let slots = rng.range(3, 9);
    let mut author =
        Author { rng, tag, core, slot: 0, tasks: 0, busy: None, others: Vec::new(), steps: Vec::new() };
    if tag == "policy" {
        author.set_policies();
    }
    while author.slot < slots {
        author.write_slot();
    }
    (ScheduledConfig { core }, author.steps)
}

/// When the runs of a task begin, in half slots, if nothing delays them.
#[derive(Debug, Clone, Copy)]
struct Beat {
    first: i64,
    /// `None` if it runs once.
    period: Option<i64>,
}

impl Beat {
    fn meets(self, half: i64) -> bool {
        match self.period {
            None => self.first == half,
            Some(period) => half >= self.first && (half - self.first) % period == 0,
        }
    }
}

/// Writes one scenario.
struct Author<'a> {
    rng: &'a mut Rng,
    tag: &'static str,
    core: i64,
    slot: i64,
    /// The number of submitted tasks.
    tasks: i64,
    /// The half slots in which the busy run begins and ends.
    busy: Option<(i64, i64)>,
    others: Vec<Beat>,
    steps: Vec<ScheduledStep>,
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Once,
    Rate,
    Delay,
    Illegal,
    Cancel,
    Remove,
    Purge,
    Get,
    Policy,
    Shutdown,
    ShutdownNow,
}

impl Author<'_> {
    /// The steps of one slot, and the move to a later one.
    fn write_slot(&mut self) {
        let most = if self.slot == 0 { 6 } else { 4 };
        for _ in 0..self.rng.range(i64::from(self.slot == 0), most) {
            let op = self.rng.weighted(&self.weights());
            let step = self.step(op);
            let at_once = step.handed_in().is_some_and(|task| task.delay_ms <= 0);
            self.steps.push(step);
            if at_once {
                break; // it runs while the next steps would be played
            }
        }
        let slots = self.rng.range(1, 3);
        self.slot += slots;
        self.steps.push(ScheduledStep::Advance { slots: u32::try_from(slots).expect("one to three") });
    }

    /// The weight of each kind of step.
    fn weights(&self) -> [(i64, Op); 11] {
        let of = |tag, many, few| if self.tag == tag { many } else { few };
        // Little happens after the shutdown, so it comes late.
        let end = if self.slot < 2 { 0 } else { of("shutdown", 14, 4) };
        let held_up = self.core > 1 && self.busy.is_some_and(|(_, end)| 2 * self.slot <= end);
        let shutdown = if held_up { 0 } else { end + of("policy", 8, 0) };
        [
            (of("once", 50, 25), Op::Once),
            (of("series", 35, 14), Op::Rate),
            (of("series", 35, 14), Op::Delay),
            (3, Op::Illegal),
            (of("cancel", 35, 10), Op::Cancel),
            (of("cancel", 12, 5), Op::Remove),
            (of("cancel", 12, 4), Op::Purge),
            (10, Op::Get),
            (of("policy", 16, 4), Op::Policy),
            (shutdown, Op::Shutdown),
            (end / 2, Op::ShutdownNow),
        ]
    }

    fn step(&mut self, op: Op) -> ScheduledStep {
        match op {
            Op::Once => ScheduledStep::Schedule(self.task(None)),
            Op::Rate => {
                let period_ms = 100 * self.rng.range(1, 3);
                ScheduledStep::AtFixedRate { period_ms, task: self.task(Some(period_ms)) }
            }
            Op::Delay => {
                let period_ms = 100 * self.rng.range(1, 3);
                ScheduledStep::WithFixedDelay { period_ms, task: self.task(Some(period_ms)) }
            }
            Op::Illegal => self.illegal(),
            Op::Cancel => ScheduledStep::Cancel { t: self.name() },
            Op::Remove => ScheduledStep::Remove { t: self.name() },
            Op::Purge => ScheduledStep::Purge,
            Op::Get => ScheduledStep::FutureGet { t: self.name(), timeout_ms: 0 },
            Op::Policy => self.policy(),
            Op::Shutdown => ScheduledStep::Shutdown,
            Op::ShutdownNow => ScheduledStep::ShutdownNow,
        }
    }

    /// A task that was submitted, rarely one that was not.
    fn name(&mut self) -> i64 {
        let unknown = i64::from(self.rng.chance(10));
        self.rng.range(1, self.tasks.max(1) + unknown)
    }

    fn new_name(&mut self) -> i64 {
        self.tasks += 1;
        self.tasks
    }

    fn task(&mut self, period_ms: Option<i64>) -> TimedSpec {
        let t = self.new_name();
        let fail_run = if self.rng.chance(20) { self.rng.range(1, 3) as u32 } else { 0 };
        let mut task = TimedSpec { t, delay_ms: 0, fail_run, busy_run: 0, busy_ms: 0 };
        let wanted = self.busy.is_none() && self.rng.chance(if self.tag == "busy" { 80 } else { 5 });
        if wanted && self.make_busy(&mut task, period_ms) {
            return task;
        }
        loop {
            task.delay_ms = self.delay(period_ms.is_none());
            let beat = self.beat(&task, period_ms);
            if self.core > 1 || !self.busy.is_some_and(|(begin, _)| beat.meets(begin)) {
                self.others.push(beat);
                return task;
            }
        }
    }

    /// Gives the task a busy run. Returns false if other tasks are due at its beginning.
    fn make_busy(&mut self, task: &mut TimedSpec, period_ms: Option<i64>) -> bool {
        task.delay_ms = 50 + 100 * self.rng.range(0, 3);
        let run = if period_ms.is_some() { self.rng.range(1, 3) } else { 1 };
        let begins = self.beat(task, period_ms).first + (run - 1) * period_ms.unwrap_or(0) / 50;
        if self.core <= 1 && self.others.iter().any(|beat| beat.meets(begins)) {
            return false;
        }
        task.busy_run = run as u32;
        let slots = self.rng.range(1, 4);
        task.busy_ms = 100 * slots.unsigned_abs();
        self.busy = Some((begins, begins + 2 * slots));
        true
    }

    fn delay(&mut self, once: bool) -> i64 {
        match self.rng.range(0, 99) {
            0..8 => NEVER,
            8..16 if once => -50 * self.rng.range(0, 2),
            _ => 50 + 100 * self.rng.range(0, 4),
        }
    }

    fn beat(&self, task: &TimedSpec, period_ms: Option<i64>) -> Beat {
        Beat { first: 2 * self.slot + task.delay_ms.max(0) / 50, period: period_ms.map(|ms| ms / 50) }
    }

    fn illegal(&mut self) -> ScheduledStep {
        let task = TimedSpec { t: self.new_name(), delay_ms: 150, fail_run: 0, busy_run: 0, busy_ms: 0 };
        let period_ms = -100 * self.rng.range(0, 1);
        if self.rng.chance(50) {
            ScheduledStep::AtFixedRate { period_ms, task }
        } else {
            ScheduledStep::WithFixedDelay { period_ms, task }
        }
    }

    fn policy(&mut self) -> ScheduledStep {
        let value = self.rng.chance(50);
        match self.rng.range(0, 2) {
            0 => ScheduledStep::SetRemoveOnCancel { value },
            1 => ScheduledStep::SetContinuePeriodic { value },
            _ => ScheduledStep::SetExecuteDelayed { value },
        }
    }

    fn set_policies(&mut self) {
        for _ in 0..self.rng.range(1, 3) {
            let step = self.policy();
            self.steps.push(step);
        }
    }
}
