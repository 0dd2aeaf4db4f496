//! The player: plays a scene and returns the record. Builds a real pool, executes the steps and
//! records what happens.

mod account;
mod arrivals;
mod gate;
mod pond;
mod recorder;
mod stage;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use millpond::ConfigError;
use millpond_sim::{Arrivals, Chance};

use self::account::Account;
use self::arrivals::{choose, length, times};
use self::gate::Gate;
use self::pond::Pond;
use self::recorder::{Recorder, Seen, TaskSeen, i_am_the_caller};
use self::stage::{Job, Stage};
use super::record::{Ending, Record, StepRecord};
use super::workload::{Does, PoolPlan, Scene, Submit, TaskPlan};
use crate::error::Error;

/// The speed-up: 2 plays twice as fast as the workload says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace(pub(crate) f64);

impl Pace {
    /// Converts `time` of the workload to real time.
    pub(super) fn real(self, time: Duration) -> Duration {
        if time == Duration::MAX {
            return time; // unlimited
        }
        Duration::try_from_secs_f64(time.as_secs_f64() / self.0).unwrap_or(Duration::MAX)
    }

    /// Converts `real` time to the workload's time.
    pub(super) fn told(self, real: Duration) -> Duration {
        Duration::try_from_secs_f64(real.as_secs_f64() * self.0).unwrap_or(Duration::MAX)
    }
}

/// The progress of a scene.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Glance {
    pub(crate) at: Duration,
    pub(crate) tasks: usize,
    /// How many of them have ended.
    pub(crate) over: usize,
    pub(crate) threads: usize,
    pub(crate) queued: usize,
}

/// Interval between progress reports.
const GLANCES: Duration = Duration::from_millis(100);

/// Checks whether such a pool can be built. Starts no thread.
pub(crate) fn trial(plan: &PoolPlan) -> Result<(), ConfigError> {
    Pond::build(plan, Pace(1.0), &Arc::new(Recorder::new()), &Arc::default()).map(drop)
}

/// Plays `scene`. Reports the progress to `onlooker`, if there is one.
pub(crate) fn play(
    scene: &Scene,
    pace: Pace,
    onlooker: Option<&(dyn Fn(Glance) + Sync)>,
) -> Result<Record, Error> {
    i_am_the_caller();
    let recorder = Arc::new(Recorder::new());
    let gate: Arc<Gate> = Arc::default();
    let pond = Pond::build(&scene.pool, pace, &recorder, &gate)?;
    let exit: Arc<Gate> = Arc::default();
    exit.close();
    let stage = Arc::new(Stage {
        recorder,
        pond,
        gate,
        exit,
        plan: scene.pool.clone(),
        pace,
        lanes: Mutex::new(HashMap::new()),
    });
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = onlooker.map(|tell| {
            let (stage, over) = (&stage, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) {
                    tell(glance(stage));
                    thread::park_timeout(GLANCES);
                }
            })
        });
        let chance = Chance::new(scene.seed, 0);
        let player = Player { scene, stage: &stage, chance, numbers: HashMap::new(), steps: Vec::new() };
        let record = player.play();
        over.store(true, Ordering::Release);
        if let Some(looking) = looking {
            looking.thread().unpark();
        }
        record
    })
}

fn glance(stage: &Stage) -> Glance {
    let (tasks, over) = stage.recorder.look(|seen| (seen.tasks.len(), seen.settled));
    Glance {
        at: stage.pace.told(stage.recorder.now()),
        tasks,
        over,
        threads: stage.pond.size(),
        queued: stage.pond.queued(),
    }
}

struct Player<'a> {
    scene: &'a Scene,
    stage: &'a Arc<Stage>,
    chance: Chance,
    /// For names that several tasks share: how many tasks have got each name so far.
    numbers: HashMap<String, usize>,
    steps: Vec<StepRecord>,
}

impl Player<'_> {
    fn play(mut self) -> Result<Record, Error> {
        let mut ending = None;
        for step in &self.scene.steps {
            match &step.does {
                Does::Shutdown { grace, force } => ending = Some(self.end(*grace, *force, true)),
                // Recorded while the gate is closed: no task has ended yet, however busy the
                // machine is.
                Does::Submit(submit) => {
                    self.submit(submit);
                    self.look(&step.says);
                    self.let_go(submit);
                    continue;
                }
                // The step ends with the last task. Waiting for the worker to park is not part of
                // it.
                Does::UntilIdle => {
                    let done = self.await_tasks();
                    self.look_as_of(done, &step.says);
                    continue;
                }
                does => self.step(does)?,
            }
            self.look(&step.says);
        }
        let threads_at_end = self.stage.pond.size();
        let end = self.steps.last().map_or_else(|| self.now(), |step| step.at);
        let for_ever = Duration::MAX;
        let ending = ending.unwrap_or_else(|| self.end(for_ever, for_ever, false));
        self.await_threads();
        let account = Account { scene: self.scene, pace: self.stage.pace, end };
        let mut record = self.stage.recorder.look(|seen| account.record(seen, ending));
        record.steps = std::mem::take(&mut self.steps);
        record.threads_at_end = threads_at_end;
        if let Some(largest) = self.stage.pond.largest() {
            record.peak_threads = largest;
        }
        super::expect::check(&mut record, &self.scene.expect);
        // Release the tasks that ignore interrupts.
        self.stage.exit.open();
        self.stage.pond.end(for_ever, for_ever);
        Ok(record)
    }

    fn step(&mut self, does: &Does) -> Result<(), Error> {
        let (stage, pace) = (self.stage, self.stage.pace);
        match does {
            Does::Series(series) => {
                let job = self.job(&series.task);
                stage.hand_in_series(series, job);
            }
            Does::Wait(time) => thread::sleep(pace.real(*time)),
            Does::UntilThreads(threads) => self.await_size(*threads),
            Does::Prestart(threads) => stage.pond.prestart(*threads),
            Does::Set(settings) => stage.pond.set(settings, pace)?,
            Does::Look | Does::Submit(_) | Does::UntilIdle | Does::Shutdown { .. } => {}
        }
        Ok(())
    }

    fn submit(&mut self, submit: &Submit) {
        let stage = self.stage;
        let times = times(submit, &mut self.chance);
        let burst = matches!(submit.arrivals, Arrivals::Burst { .. });
        if burst {
            stage.gate.close();
        }
        let several = times.len() > 1;
        let begin = Instant::now();
        for at in times {
            let due = begin + stage.pace.real(at);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let plan = choose(&submit.mix, &mut self.chance).clone();
            let mut job = self.job(&plan);
            if let (Some(name), true) = (&plan.name, several) {
                job.label = self.numbered(name);
            }
            stage.hand_in(job, submit.lane.as_deref());
        }
        if burst {
            stage.settle();
        }
    }

    /// Starts the submitted tasks, unless they are held for the next submission.
    fn let_go(&self, submit: &Submit) {
        if !submit.hold {
            self.stage.gate.open();
        }
    }

    /// Adds a number to a name that several tasks share.
    fn numbered(&mut self, name: &str) -> String {
        let number = self.numbers.entry(name.to_owned()).or_insert(0);
        *number += 1;
        format!("{name}-{number}")
    }

    /// Draws the random values of one task.
    fn job(&mut self, plan: &TaskPlan) -> Job {
        let pace = self.stage.pace;
        let number = self.stage.recorder.look(|seen| seen.tasks.len()) + 1;
        Job {
            label: plan.name.clone().unwrap_or_else(|| number.to_string()),
            takes: pace.real(length(plan.takes, &mut self.chance)),
            computes: pace.real(length(plan.computes, &mut self.chance)),
            priority: plan.priority,
            delay: pace.real(plan.delay),
            nested: plan.nested,
            ignores_interrupts: plan.ignores_interrupts,
            panics: plan.panics,
        }
    }

    /// Waits until there are at most `threads` threads: for several keep-alive times, and some
    /// seconds more for a busy machine.
    fn await_size(&self, threads: usize) {
        let stage = self.stage;
        let patience = stage.pace.real(stage.plan.keep_alive).saturating_mul(3) + Duration::from_secs(10);
        let begin = Instant::now();
        while stage.pond.size() > threads {
            if begin.elapsed() > patience {
                let size = stage.pond.size();
                stage.recorder.note(format!("gave up waiting for {threads} threads; there are {size}"));
                return;
            }
            stage.recorder.wait(Duration::from_millis(1), |_| false);
        }
    }

    fn end(&self, grace: Duration, force: Duration, asked_for: bool) -> Ending {
        let (stage, pace) = (self.stage, self.stage.pace);
        stage.gate.open();
        if !asked_for {
            stage.exit.open();
        }
        let ended = stage.pond.end(pace.real(grace), pace.real(force));
        let label = |task: &millpond::Task| {
            task.name()
                .map_or_else(|| task.id().to_string(), |name| name.trim_start_matches("no. ").to_owned())
        };
        Ending {
            outcome: ended.outcome,
            elapsed: pace.told(ended.elapsed),
            never_run: ended.never_run.iter().map(label).collect(),
            asked_for,
        }
    }

    /// Waits for a scheduler's threads, which report their end only after it has terminated.
    fn await_threads(&self) {
        if self.stage.pond.size() == 0 {
            let gone = |seen: &Seen| seen.threads.iter().all(|thread| thread.stopped.is_some());
            self.stage.recorder.wait(Duration::from_secs(1), gone);
        }
    }

    /// Waits until every task has ended and the workers are idle. Returns when the last task ended.
    fn await_tasks(&self) -> Duration {
        self.stage.recorder.wait(Duration::MAX, |seen| seen.settled == seen.tasks.len());
        let done = self.now();
        self.stage.rest();
        done
    }

    fn look(&mut self, says: &str) {
        self.look_as_of(self.now(), says);
    }

    fn look_as_of(&mut self, at: Duration, says: &str) {
        let pond = &self.stage.pond;
        self.steps.push(StepRecord {
            at,
            says: says.to_owned(),
            threads: pond.size(),
            active: pond.active().unwrap_or_else(|| self.running()),
            queued: pond.queued(),
            completed: pond.completed(),
            pool: pond.to_string(),
        });
    }

    /// How many tasks are running, according to their own reports.
    fn running(&self) -> usize {
        let under_way = |task: &TaskSeen| task.runs.iter().any(|run| run.end.is_none());
        self.stage.recorder.look(|seen| seen.tasks.iter().filter(|task| under_way(task)).count())
    }

    fn now(&self) -> Duration {
        self.stage.pace.told(self.stage.recorder.now())
    }
}
