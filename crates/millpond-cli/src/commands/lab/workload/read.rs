//! Converts TOML to a [`Workload`]. Errors have file, line and column.

use std::ops::Range;
use std::time::Duration;

use millpond::{MissedTicks, ShutdownOutcome};
use millpond_sim::Nanos;
use toml::Spanned;

use super::raw::{
    RawAll, RawExpect, RawKind, RawMissed, RawOutcome, RawPool, RawPrestart, RawScene, RawStep, RawTask,
    RawWorkload,
};
use super::words::{Length, Queue, Rate, Time};
use super::{
    Arrivals, Does, Expect, Figure, Limit, PoolKind, PoolPlan, Rhythm, Scene, Series, Settings, Step, Submit,
    TaskPlan, Workload,
};
use crate::error::Error;

/// Timeout of a shutdown for which the file has none.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A task that joins another of its own pool may run it on its own stack. A depth of a thousand
/// would overflow the stack.
const DEEPEST: usize = 100;

/// All tasks are kept in memory, with their records.
const MOST_TASKS: f64 = 1e6;

/// These are real threads. A system without resources for another thread may kill the process
/// instead of returning an error.
const MOST_THREADS: usize = 10_000;

/// Where a workload comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin<'a> {
    /// Built in: its pools are known to be valid.
    BuiltIn,
    /// A file of this name.
    File(&'a str),
}

/// Reads a workload that is called `name`.
///
/// # Errors
/// One line: `FILE:LINE:COLUMN: what is wrong`.
pub(crate) fn read(name: &str, origin: Origin<'_>, source: &str) -> Result<Workload, Error> {
    check(name, origin, source).map_err(|wrong| {
        let file = match origin {
            Origin::BuiltIn => name,
            Origin::File(file) => file,
        };
        let (line, column) = wrong.at.map_or((1, 1), |at| position(source, at.start));
        Error::new(format_args!("{file}:{line}:{column}: {}", wrong.what))
    })
}

/// Line and column of a byte offset, from 1.
fn position(source: &str, at: usize) -> (usize, usize) {
    let before = source.get(..at).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// An error and its position.
struct Wrong {
    at: Option<Range<usize>>,
    what: String,
}

type Checked<T> = Result<T, Wrong>;

fn wrong<T>(at: Range<usize>, what: impl Into<String>) -> Checked<T> {
    Err(Wrong { at: Some(at), what: what.into() })
}

impl From<toml::de::Error> for Wrong {
    fn from(error: toml::de::Error) -> Wrong {
        Wrong { at: error.span(), what: in_plain_words(error.message()) }
    }
}

/// The message in one line, without the names of Rust types.
fn in_plain_words(message: &str) -> String {
    let line = message.lines().collect::<Vec<_>>().join(" ");
    let words = [
        ("expected usize", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected i32", "expected a whole number"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("expected a boolean", "expected true or false"),
    ];
    words.into_iter().fold(line, |line, (rust, plain)| line.replace(rust, plain))
}

fn check(name: &str, origin: Origin<'_>, source: &str) -> Checked<Workload> {
    let file: RawWorkload = toml::from_str(source)?;
    if file.scene.is_empty() {
        let what = "a workload needs at least one [[scene]]; millpond lab --show growth prints an example";
        return Err(Wrong { at: None, what: what.to_owned() });
    }
    let scenes = file.scene.into_iter().map(|raw| scene(raw, origin)).collect::<Checked<Vec<Scene>>>()?;
    Ok(Workload {
        name: name.to_owned(),
        about: file.about.unwrap_or_default(),
        compare: file.compare,
        verdict: file.verdict,
        scenes,
    })
}

fn scene(raw: RawScene, origin: Origin<'_>) -> Checked<Scene> {
    let pool = pool(&raw.pool)?;
    // Report a pool that cannot be built here, where the line is known.
    if origin != Origin::BuiltIn
        && let Err(error) = super::super::play::trial(&pool)
    {
        return wrong(raw.pool.span(), error.to_string());
    }
    let mix = raw.tasks.iter().map(task_plan).collect::<Checked<Vec<TaskPlan>>>()?;
    if raw.steps.get_ref().is_empty() {
        return wrong(
            raw.steps.span(),
            "a scene without steps shows nothing; add { submit = 1, takes = \"1s\" }",
        );
    }
    let places: Vec<Range<usize>> = raw.steps.get_ref().iter().map(Spanned::span).collect();
    let steps = raw.steps.into_inner().into_iter();
    let steps = steps.map(|raw| step(raw, &pool, &mix)).collect::<Checked<Vec<Step>>>()?;
    let_go_in_time(&steps, &places)?;
    let title = raw.title.unwrap_or_else(|| pool.to_string());
    Ok(Scene {
        title,
        says: raw.says,
        group: raw.group,
        seed: raw.seed,
        pool,
        steps,
        expect: expect(raw.expect),
    })
}

fn pool(raw: &Spanned<RawPool>) -> Checked<PoolPlan> {
    let (at, raw) = (raw.span(), raw.get_ref());
    let refuse = |given: bool, key: &str, kind: &str| match given {
        true => wrong(at.clone(), format!("{key} does not belong to a {kind} pool")),
        false => Ok(()),
    };
    let need = |value: Option<usize>, what: &str| match value {
        Some(value) if value > MOST_THREADS => {
            wrong(at.clone(), format!("{value} threads are too many; the maximum is {MOST_THREADS}"))
        }
        Some(value) => Ok(value),
        None => wrong(at.clone(), what),
    };
    let seconds = |default: u64| raw.keep_alive.map_or(Duration::from_secs(default), |Time(time)| time);
    let only_threads = |kind: &str| {
        refuse(raw.core.is_some() || raw.max.is_some(), "core or max", kind)?;
        refuse(raw.queue.is_some(), "queue", kind)?;
        refuse(raw.queue_per_thread.is_some(), "queue-per-thread", kind)?;
        refuse(raw.eager, "eager", kind)
    };
    let policy = raw.policy.clone().unwrap_or_default();
    let (kind, keep_alive) = match raw.kind {
        RawKind::Pool => {
            refuse(raw.threads.is_some(), "threads", "plain (write core and max)")?;
            refuse(raw.queue_per_thread.is_some(), "queue-per-thread", "plain (write queue)")?;
            let core = need(raw.core, "a pool needs a core size: core = 2")?;
            let max = raw.max.unwrap_or(core.max(1));
            let queue = raw.queue.clone().unwrap_or(Queue::Linked);
            (PoolKind::Threads { core, max, queue, policy, eager: raw.eager }, seconds(60))
        }
        RawKind::Fixed => {
            only_threads("fixed")?;
            let core = need(raw.threads, "a fixed pool needs its number of threads: threads = 2")?;
            (PoolKind::Threads { core, max: core, queue: Queue::Linked, policy, eager: false }, seconds(0))
        }
        RawKind::Cached => {
            only_threads("cached")?;
            refuse(raw.threads.is_some(), "threads", "cached")?;
            let queue = Queue::Synchronous;
            (PoolKind::Threads { core: 0, max: usize::MAX, queue, policy, eager: false }, seconds(60))
        }
        RawKind::Scheduled => {
            only_threads("scheduled")?;
            refuse(raw.policy.is_some(), "policy", "scheduled")?;
            let core = need(raw.threads, "a scheduled pool needs its number of threads: threads = 2")?;
            (PoolKind::Scheduled { core }, seconds(10))
        }
        RawKind::BoundedElastic => {
            refuse(raw.core.is_some() || raw.threads.is_some(), "core or threads", "bounded-elastic")?;
            refuse(raw.queue.is_some(), "queue", "bounded-elastic")?;
            refuse(raw.policy.is_some(), "policy", "bounded-elastic")?;
            refuse(raw.eager || raw.core_time_out, "eager or core-time-out", "bounded-elastic")?;
            let max = need(raw.max, "a bounded-elastic pool needs a most of threads: max = 4")?;
            let queue_per_thread = raw.queue_per_thread.unwrap_or(100_000);
            (PoolKind::Elastic { max, queue_per_thread }, seconds(60))
        }
    };
    Ok(PoolPlan { kind, keep_alive, core_time_out: raw.core_time_out })
}

fn task_plan(raw: &Spanned<RawTask>) -> Checked<TaskPlan> {
    let (at, raw) = (raw.span(), raw.get_ref());
    let plain = TaskPlan::default();
    let weight = raw.weight.unwrap_or(1.0);
    if !weight.is_finite() || weight <= 0.0 {
        return wrong(at, format!("weight is {weight}, but it must be above zero"));
    }
    Ok(TaskPlan {
        name: raw.name.clone(),
        weight,
        takes: raw.takes.unwrap_or(plain.takes),
        computes: raw.computes.unwrap_or(plain.computes),
        priority: raw.priority.unwrap_or(0),
        delay: raw.delay.map_or(Duration::ZERO, |Time(time)| time),
        nested: raw.nested.unwrap_or(0),
        ignores_interrupts: raw.ignores_interrupts.unwrap_or(false),
        panics: raw.panics.unwrap_or(false),
    })
}

fn step(raw: Spanned<RawStep>, pool: &PoolPlan, mix: &[TaskPlan]) -> Checked<Step> {
    let at = raw.span();
    let mut raw = raw.into_inner();
    let says = raw.says.take();
    let does = verb(&at, &mut raw, pool, mix)?;
    if let Some(stray) = stray(&raw) {
        return wrong(at, format!("{stray} does not belong to this step"));
    }
    Ok(Step { says: says.unwrap_or_else(|| does.to_string()), does })
}

/// Refuses a step that waits for held tasks before the submission that releases them: it would wait
/// for ever.
fn let_go_in_time(steps: &[Step], places: &[Range<usize>]) -> Checked<()> {
    let mut held: Option<&Range<usize>> = None;
    for (step, place) in steps.iter().zip(places) {
        match (&step.does, held) {
            (Does::Submit(submit), _) => held = submit.hold.then_some(place),
            (Does::UntilIdle, Some(since)) => {
                let what =
                    "hold = true keeps these tasks until the next submission, but until-idle comes before it";
                return wrong(since.clone(), what);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Takes the keys that it handles out of `raw`. Remaining keys are errors.
fn verb(at: &Range<usize>, raw: &mut RawStep, pool: &PoolPlan, mix: &[TaskPlan]) -> Checked<Does> {
    one_verb(at, raw)?;
    if raw.submit.is_some() || raw.during.is_some() {
        return submit(at, raw, pool, mix).map(Does::Submit);
    }
    if let Some(runs) = raw.series.take() {
        return series(at, raw, pool, runs).map(Does::Series);
    }
    if let Some(settings) = raw.set.take() {
        if !matches!(pool.kind, PoolKind::Threads { .. }) {
            return wrong(at.clone(), "set is for a ThreadPoolExecutor only");
        }
        return Ok(Does::Set(Settings {
            core: settings.core,
            max: settings.max,
            keep_alive: settings.keep_alive.map(|Time(time)| time),
            core_time_out: settings.core_time_out,
        }));
    }
    let told = |given: Option<bool>| given.is_some_and(|yes| yes);
    Ok(if let Some(Time(time)) = raw.wait.take() {
        Does::Wait(time)
    } else if let Some(threads) = raw.until_threads.take() {
        Does::UntilThreads(threads)
    } else if let Some(how_many) = raw.prestart.take() {
        if matches!(pool.kind, PoolKind::Elastic { .. }) {
            return wrong(at.clone(), "a bounded-elastic pool has no core threads to start");
        }
        Does::Prestart(match how_many {
            RawPrestart::Some(threads) => Some(threads),
            RawPrestart::Word(RawAll::All) => None,
        })
    } else if let Some(shutdown) = raw.shutdown.take() {
        let or = |given: Option<Time>| given.map_or(PATIENCE, |Time(time)| time);
        Does::Shutdown { grace: or(shutdown.grace), force: or(shutdown.force) }
    } else if told(raw.until_idle.take()) {
        Does::UntilIdle
    } else if told(raw.look.take()) {
        Does::Look
    } else {
        return wrong(at.clone(), "write true, or leave the step out");
    })
}

/// Checks that a step has exactly one action.
fn one_verb(at: &Range<usize>, raw: &RawStep) -> Checked<()> {
    let verbs = [
        raw.submit.is_some() || raw.during.is_some(),
        raw.series.is_some(),
        raw.wait.is_some(),
        raw.until_idle.is_some(),
        raw.until_threads.is_some(),
        raw.prestart.is_some(),
        raw.set.is_some(),
        raw.shutdown.is_some(),
        raw.look.is_some(),
    ];
    let known = "submit, during, series, wait, until-idle, until-threads, prestart, set, shutdown or look";
    match verbs.iter().filter(|given| **given).count() {
        1 => Ok(()),
        0 => wrong(at.clone(), format!("a step needs one of {known}")),
        _ => wrong(at.clone(), format!("a step has only one action: one of {known}")),
    }
}

fn submit(at: &Range<usize>, raw: &mut RawStep, pool: &PoolPlan, mix: &[TaskPlan]) -> Checked<Submit> {
    let (arrivals, limit) = arrivals(at, raw)?;
    let own = own_task(raw);
    let mix = match (own, mix) {
        (Some(own), _) => vec![own],
        (None, []) => {
            return wrong(at.clone(), "what do the tasks do? add takes = \"1s\", or [[scene.tasks]]");
        }
        (None, mix) => mix.to_vec(),
    };
    let waits_for_time = mix.iter().any(|task| task.delay > Duration::ZERO);
    let delays = match &pool.kind {
        PoolKind::Threads { queue, .. } => *queue == Queue::Delay,
        _ => true,
    };
    if waits_for_time && !delays {
        return wrong(at.clone(), "only a delay queue, a scheduled or a bounded-elastic pool heeds delay");
    }
    let lane = raw.lane.take();
    let is_scheduler = matches!(pool.kind, PoolKind::Elastic { .. });
    if lane.is_some() && !is_scheduler {
        return wrong(at.clone(), "only a bounded-elastic pool has lanes");
    }
    if let Some(task) = mix.iter().find(|task| task.nested > DEEPEST) {
        let what = format!("nested = {} may overflow the stack; the maximum is {DEEPEST}", task.nested);
        return wrong(at.clone(), what);
    }
    if is_scheduler && mix.iter().any(|task| task.nested > 0) {
        return wrong(at.clone(), "nested tasks are joined, and a scheduler gives no handle to join");
    }
    let hold = raw.hold.take().unwrap_or(false);
    if hold && !matches!(arrivals, Arrivals::Burst { .. }) {
        return wrong(at.clone(), "hold is for tasks that are submitted at once, without a rate");
    }
    Ok(Submit { arrivals, limit, mix, hold, lane })
}

fn arrivals(at: &Range<usize>, raw: &mut RawStep) -> Checked<(Arrivals, Limit)> {
    let limit = match (raw.submit.take(), raw.during.take()) {
        (Some(count), None) if *count.get_ref() == 0 => {
            return wrong(count.span(), "submit at least one task");
        }
        (Some(count), None) => Limit::Count(count.into_inner() as u64),
        (None, Some(Time(time))) => Limit::Until(nanos(time)),
        _ => return wrong(at.clone(), "give either submit or during, not both"),
    };
    let arrivals = match (raw.rate.take(), raw.poisson.take(), raw.ramp.take(), limit) {
        (None, None, None, Limit::Count(count)) => Arrivals::Burst { count, every: None },
        (None, None, None, _) => return wrong(at.clone(), "during needs a rate: rate, poisson or ramp"),
        (Some(Rate(rate)), None, None, _) => Arrivals::Constant(rate),
        (None, Some(Rate(rate)), None, _) => Arrivals::Poisson(rate),
        (None, None, Some((Rate(from), Rate(to))), limit) => {
            Arrivals::Ramp { from, to, over: ramp_length(from, to, limit) }
        }
        _ => return wrong(at.clone(), "give one of rate, poisson and ramp"),
    };
    let tasks = expected(&arrivals, limit);
    if tasks > MOST_TASKS {
        return wrong(at.clone(), format!("{tasks:.0} tasks are too many; the maximum is {MOST_TASKS}"));
    }
    Ok((arrivals, limit))
}

/// The approximate number of tasks.
fn expected(arrivals: &Arrivals, limit: Limit) -> f64 {
    let rate = match arrivals {
        Arrivals::Constant(rate) | Arrivals::Poisson(rate) => *rate,
        Arrivals::Ramp { from, to, .. } => f64::midpoint(*from, *to),
        Arrivals::Burst { .. } | Arrivals::Times(_) => 0.0,
    };
    match limit {
        Limit::Count(count) => count as f64,
        Limit::Until(end) => rate * end as f64 / 1e9,
        Limit::None => 0.0,
    }
}

/// The duration of a ramp: the rate reaches its end with the last task.
fn ramp_length(from: f64, to: f64, limit: Limit) -> Nanos {
    match limit {
        Limit::Until(end) => end,
        Limit::Count(count) => (2.0 * count as f64 / (from + to) * 1e9) as Nanos,
        Limit::None => 0,
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

/// The task that the step itself describes, if there is one.
fn own_task(raw: &mut RawStep) -> Option<TaskPlan> {
    let name = raw.name.take();
    let (takes, computes) = (raw.takes.take(), raw.computes.take());
    let described = name.is_some()
        || takes.is_some()
        || computes.is_some()
        || [raw.nested.is_some(), raw.panics.is_some(), raw.delay.is_some()].contains(&true);
    described.then(|| TaskPlan {
        name,
        weight: 1.0,
        takes: takes.unwrap_or(Length::ZERO),
        computes: computes.unwrap_or(Length::ZERO),
        priority: raw.priority.take().unwrap_or(0),
        delay: raw.delay.take().map_or(Duration::ZERO, |Time(time)| time),
        nested: raw.nested.take().unwrap_or(0),
        ignores_interrupts: raw.ignores_interrupts.take().unwrap_or(false),
        panics: raw.panics.take().unwrap_or(false),
    })
}

fn series(at: &Range<usize>, raw: &mut RawStep, pool: &PoolPlan, runs: usize) -> Checked<Series> {
    if !matches!(pool.kind, PoolKind::Scheduled { .. }) {
        return wrong(at.clone(), "a series needs a pool of kind = \"scheduled\"");
    }
    if runs == 0 {
        return wrong(at.clone(), "a series needs at least one run");
    }
    let missed = match raw.missed.take() {
        None | Some(RawMissed::CatchUp) => MissedTicks::CatchUp,
        Some(RawMissed::Coalesce) => MissedTicks::Coalesce,
        Some(RawMissed::Skip) => MissedTicks::Skip,
    };
    let rhythm = match (raw.fixed_rate.take(), raw.fixed_delay.take()) {
        (Some(Time(period)), None) if !period.is_zero() => Rhythm::FixedRate { period, missed },
        (None, Some(Time(delay))) if !delay.is_zero() => Rhythm::FixedDelay(delay),
        _ => return wrong(at.clone(), "a series needs one of fixed-rate and fixed-delay, above zero"),
    };
    let task = own_task(raw).unwrap_or_default();
    if task.nested > 0 || task.delay > Duration::ZERO {
        return wrong(at.clone(), "a series has neither nested nor delay; write initial for the first run");
    }
    Ok(Series { task, initial: raw.initial.take().map_or(Duration::ZERO, |Time(time)| time), rhythm, runs })
}

/// A key that no action has taken.
fn stray(raw: &RawStep) -> Option<&'static str> {
    [
        ("rate", raw.rate.is_some()),
        ("poisson", raw.poisson.is_some()),
        ("ramp", raw.ramp.is_some()),
        ("hold", raw.hold.is_some()),
        ("lane", raw.lane.is_some()),
        ("fixed-rate", raw.fixed_rate.is_some()),
        ("fixed-delay", raw.fixed_delay.is_some()),
        ("missed", raw.missed.is_some()),
        ("initial", raw.initial.is_some()),
        ("name", raw.name.is_some()),
        ("takes", raw.takes.is_some()),
        ("computes", raw.computes.is_some()),
        ("priority", raw.priority.is_some()),
        ("delay", raw.delay.is_some()),
        ("nested", raw.nested.is_some()),
        ("ignores-interrupts", raw.ignores_interrupts.is_some()),
        ("panics", raw.panics.is_some()),
    ]
    .into_iter()
    .find_map(|(key, given)| given.then_some(key))
}

fn expect(raw: RawExpect) -> Expect {
    let figures = [
        (Figure::CoreThreads, raw.core_threads),
        (Figure::ExtraThreads, raw.extra_threads),
        (Figure::NewThreads, raw.new_threads),
        (Figure::Queued, raw.queued),
        (Figure::IdleThreads, raw.idle_threads),
        (Figure::RanInCaller, raw.ran_in_caller),
        (Figure::Rejected, raw.rejected),
        (Figure::Discarded, raw.discarded),
        (Figure::Waited, raw.waited),
        (Figure::Ran, raw.ran),
        (Figure::Completed, raw.completed),
        (Figure::Interrupted, raw.interrupted),
        (Figure::Panicked, raw.panicked),
        (Figure::NeverRun, raw.never_run),
        (Figure::PeakThreads, raw.peak_threads),
        (Figure::ThreadsAtEnd, raw.threads_at_end),
    ];
    Expect {
        figures: figures.into_iter().filter_map(|(figure, bound)| Some((figure, bound?))).collect(),
        outcome: raw.outcome.map(|outcome| match outcome {
            RawOutcome::Drained => ShutdownOutcome::Drained,
            RawOutcome::Interrupted => ShutdownOutcome::Interrupted,
            RawOutcome::StillRunning => ShutdownOutcome::StillRunning,
        }),
        order: raw.order,
        threads_after_steps: raw.threads_after_steps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[scene]]\npool = { core = 1 }\nsteps = [{ submit = 1, takes = \"1s\" }]\n";

    fn complaint(source: &str) -> String {
        match read("w", Origin::File("w.toml"), source) {
            Err(Error::Message(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_smallest_workload_is_a_pool_and_a_step() {
        let workload = read("w", Origin::File("w.toml"), GOOD).unwrap();
        assert_eq!(workload.scenes.len(), 1);
        assert_eq!(workload.scenes[0].pool.core(), 1);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_column() {
        for (source, expected) in [
            ("about = 'x'\n\n[[scene]\n", "w.toml:3:"),
            ("[[scene]]\npool = { cor = 1 }\n", "w.toml:2:10: unknown field `cor`, expected one of"),
            ("[[scene]]\npool = { core = 1, queue = 'heap' }\n", "w.toml:2:28: unknown queue 'heap'; use"),
            (
                "[[scene]]\npool = { core = 3, max = 2 }\nsteps = [{ look = true }]\n",
                "w.toml:2:8: maximum_pool_size is 2 but core_pool_size is 3",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [\n  { submit = 1, takes = '1s' },\n  { submit = 2, takes = '5' },\n]\n",
                "w.toml:5:25: '5' has no unit; write 5ms or 5s",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [\n  { submit = 1, nested = 1000 },\n]\n",
                "w.toml:4:3: nested = 1000 may overflow the stack; the maximum is 100",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [\n  { submit = 99999999999, takes = '1s' },\n]\n",
                "w.toml:4:3: 99999999999 tasks are too many; the maximum is 1000000",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [\n  { during = '2s', rate = '1G/s', takes = '1s' },\n]\n",
                "w.toml:4:3: 2000000000 tasks are too many; the maximum is 1000000",
            ),
            (
                "[[scene]]\npool = { core = 1000000 }\nsteps = [{ prestart = 'all' }]\n",
                "w.toml:2:8: 1000000 threads are too many; the maximum is 10000",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [\n  { submit = 1 },\n]\n",
                "w.toml:4:3: what do the tasks do? add takes",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [{ wait = '1s', takes = '1s' }]\n",
                "w.toml:3:10: takes does not belong to this step",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [{ wait = '1s', look = true }]\n",
                "w.toml:3:10: a step has only one action",
            ),
            (
                "[[scene]]\npool = { kind = 'fixed' }\nsteps = []\n",
                "w.toml:2:8: a fixed pool needs its number",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = []\n",
                "w.toml:3:9: a scene without steps shows nothing",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [{ submit = 1, takes = '1s', delay = '1s' }]\n",
                "w.toml:3:10: only a delay queue",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [\n  { submit = 1, takes = '1s', hold = true },\n  { until-idle = true },\n]\n",
                "w.toml:4:3: hold = true keeps these tasks until the next submission",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [{ submit = 1, rate = '1/s', takes = '1s', hold = true }]\n",
                "w.toml:3:10: hold is for tasks that are submitted at once",
            ),
            ("about = 'nothing'\n", "w.toml:1:1: a workload needs at least one [[scene]]"),
            (
                "[[scene]]\npool = { core = -1 }\n",
                "w.toml:2:17: invalid value: integer `-1`, expected a whole number",
            ),
            (
                "[[scene]]\npool = { core = 1 }\nsteps = [{ wait = 5 }]\n",
                "w.toml:3:19: invalid type: integer `5`, expected a time in quotes, such as \"50ms\"",
            ),
        ] {
            let complaint = complaint(source);
            assert!(complaint.starts_with(expected), "{source}\n{complaint}");
            assert!(!complaint.contains('\n'), "{complaint}");
        }
    }

    #[test]
    fn positions_count_characters_and_not_bytes() {
        assert_eq!(position("é = 1\nö = x", "é = 1\nö = ".len()), (2, 5));
        assert_eq!(position("", 0), (1, 1));
    }
}
