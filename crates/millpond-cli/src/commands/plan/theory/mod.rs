//! Exact results of queueing theory, for the pools and loads that have one.
//!
//! All apply to endless Poisson arrivals at a constant rate. Times are in nanoseconds, rates per
//! nanosecond.

mod steady;
#[cfg(test)]
mod tests;

use millpond::growth::GrowthRule;
use millpond_sim::{Arrivals, Judged, Length, Mix, Policy, Pool, World};

pub(super) use self::steady::Steady;
use super::target::Target;
use super::workload::Workload;

/// The results of a formula. `None`: the formula does not give this value.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ClosedForm {
    /// The name of the formula and of the model.
    pub(super) name: &'static str,
    pub(super) model: String,
    /// The share of the accepted tasks that wait at all.
    pub(super) waited: Option<f64>,
    pub(super) wait_mean: Option<f64>,
    /// p50, p90, p99, p99.9.
    pub(super) wait: Option<[f64; 4]>,
    pub(super) total_mean: Option<f64>,
    /// p50, p90, p99, p99.9.
    pub(super) total: Option<[f64; 4]>,
    pub(super) rejected: Option<f64>,
    /// Mean number of busy threads.
    pub(super) busy: Option<f64>,
    /// Gives the share of late tasks.
    pub(super) steady: Option<Steady>,
}

impl ClosedForm {
    /// Whether the target is met according to the formula. `None`: it cannot decide.
    pub(super) fn meets(&self, target: &Target) -> Option<bool> {
        let steady = self.steady?;
        let in_time = target.times.iter().all(|time| steady.late(time.of, time.limit as f64) <= time.late());
        match steady.lost() {
            // Every bounded queue refuses some tasks. The simulation decides whether they are rare
            // enough.
            _ if target.lost == 0.0 && steady.places.is_some() => None,
            lost => Some(in_time && lost <= target.lost),
        }
    }
}

/// The percentiles to show.
pub(super) const PERCENTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Maximum queue capacity to sum up term by term.
const MOST_PLACES: usize = 10_000_000;

/// The formula for a pool and a load, if one applies.
pub(super) fn of(workload: &Workload, pool: &Pool) -> Option<Result<ClosedForm, Overload>> {
    closed_form(&workload.arrivals, &workload.mix, pool, workload.world)
}

/// The exact distribution for a pool with a bounded queue, if there is one.
pub(super) fn steady(workload: &Workload, threads: usize) -> Option<Steady> {
    let rate = poisson_rate(&workload.arrivals)?;
    let competes = workload.mix.mean_compute() > 0.0 && threads > workload.world.cores;
    let mean = workload.mix.mean();
    (is_exponential(&workload.mix) && !competes).then(|| Steady::new(rate * mean, threads, Some(1), mean))
}

fn is_exponential(mix: &Mix) -> bool {
    matches!(mix.kinds(), [kind] if matches!(kind.length, Length::Exponential(_)))
}

/// The formula for a pool and a load, if one applies. `Err`: one applies, but the load exceeds the
/// pool, so the queue grows without limit.
fn closed_form(
    arrivals: &[Arrivals],
    mix: &Mix,
    pool: &Pool,
    world: World,
) -> Option<Result<ClosedForm, Overload>> {
    let rate = poisson_rate(arrivals)?;
    let threads = steady_threads(pool)?;
    let mean = mix.mean();
    let compute = mix.mean_compute();
    if compute > 0.0 && threads > world.cores {
        // The threads compete for the cores.
        return shared_cores(rate, mix, pool, world);
    }
    let load = rate * mean;
    let exponential = is_exponential(mix);
    // Blocked callers form an unbounded queue outside of the pool.
    let queue = match pool.policy {
        Policy::Block(None) => None,
        Policy::Abort | Policy::Discard => pool.queue,
        _ if pool.queue.is_none() => None,
        _ => return None,
    };
    match queue {
        _ if threads == usize::MAX => Some(Ok(thread_per_task(load, mean))),
        Some(0) => Some(Ok(erlang_b_form(load, threads, mean))),
        Some(places) if exponential && places <= MOST_PLACES => {
            Some(Ok(bounded(load, threads, places, mean)))
        }
        None if load >= threads as f64 => Some(Err(Overload { load, threads })),
        None if exponential => Some(Ok(erlang_c_form(load, threads, mean))),
        None if threads == 1 => Some(Ok(pollaczek_khinchine(rate, mix))),
        _ => None,
    }
}

fn thread_per_task(load: f64, mean: f64) -> ClosedForm {
    ClosedForm {
        name: "M/G/inf",
        model: "M/G/inf".to_owned(),
        waited: Some(0.0),
        wait_mean: Some(0.0),
        wait: Some([0.0; 4]),
        total_mean: Some(mean),
        rejected: Some(0.0),
        busy: Some(load),
        ..ClosedForm::default()
    }
}

/// The load exceeds the capacity of the threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Overload {
    /// Number of threads that the load would keep busy.
    pub(super) load: f64,
    pub(super) threads: usize,
}

/// The total rate if all streams are Poisson, because merged they form one Poisson stream.
fn poisson_rate(arrivals: &[Arrivals]) -> Option<f64> {
    arrivals.iter().map(|one| if let Arrivals::Poisson(rate) = one { Some(rate / 1e9) } else { None }).sum()
}

/// Number of threads under load. `None` if it depends on history: then no formula applies.
fn steady_threads(pool: &Pool) -> Option<usize> {
    match (pool.rule, pool.queue) {
        (GrowthRule::Eager, _) | (_, Some(0)) => Some(pool.maximum),
        (GrowthRule::QueueFirst, None) => Some(pool.core.max(1)),
        (GrowthRule::QueueFirst, Some(_)) => (pool.core == pool.maximum).then_some(pool.core),
    }
}

/// Erlang B: the share of the tasks that find all `threads` busy, if no task can wait.
pub(super) fn erlang_b(load: f64, threads: usize) -> f64 {
    (1..=threads).fold(1.0, |blocked, n| load * blocked / (n as f64 + load * blocked))
}

/// Erlang C: the share of the tasks that wait, if all can. Requires `load` below `threads`.
pub(super) fn erlang_c(load: f64, threads: usize) -> f64 {
    let blocked = erlang_b(load, threads);
    blocked / (1.0 - load / threads as f64 * (1.0 - blocked))
}

fn erlang_b_form(load: f64, threads: usize, mean: f64) -> ClosedForm {
    let rejected = erlang_b(load, threads);
    ClosedForm {
        name: "Erlang B",
        model: format!("M/G/{threads}/{threads}"),
        waited: Some(0.0),
        wait_mean: Some(0.0),
        wait: Some([0.0; 4]),
        total_mean: Some(mean),
        rejected: Some(rejected),
        busy: Some(load * (1.0 - rejected)),
        ..ClosedForm::default()
    }
}

fn erlang_c_form(load: f64, threads: usize, mean: f64) -> ClosedForm {
    let waited = erlang_c(load, threads);
    // Among tasks that wait, the wait is exponential with this mean.
    let scale = mean / (threads as f64 - load);
    let steady = Steady::new(load, threads, None, mean);
    ClosedForm {
        name: "Erlang C",
        model: format!("M/M/{threads}"),
        waited: Some(waited),
        wait_mean: Some(waited * scale),
        wait: Some(PERCENTILES.map(|share| steady.percentile(Judged::Wait, share))),
        total_mean: Some(waited * scale + mean),
        total: Some(PERCENTILES.map(|share| steady.percentile(Judged::Total, share))),
        rejected: Some(0.0),
        busy: Some(load),
        steady: Some(steady),
    }
}

/// A bounded queue, M/M/c/K.
fn bounded(load: f64, threads: usize, places: usize, mean: f64) -> ClosedForm {
    let ratio = load / threads as f64;
    // The state in which all threads are busy and no task waits has weight 1. Erlang B gives the
    // sum of the states before it.
    let mut weight = 1.0;
    let mut all = 1.0 / erlang_b(load, threads);
    let mut waiting = 0.0; // states in which an arriving task waits
    let mut queued = 0.0;
    for place in 1..=places {
        waiting += weight;
        weight *= ratio;
        all += weight;
        queued += weight * place as f64;
        if all > 1e200 {
            // Only the ratios matter.
            for value in [&mut weight, &mut all, &mut waiting, &mut queued] {
                *value /= 1e200;
            }
        }
    }
    let rejected = weight / all;
    let rate = load / mean * (1.0 - rejected);
    let wait_mean = queued / all / rate;
    let steady = Steady::new(load, threads, Some(places), mean);
    ClosedForm {
        name: "M/M/c/K",
        model: format!("M/M/{threads}/{}", threads + places),
        waited: Some(waiting / all / (1.0 - rejected)),
        wait_mean: Some(wait_mean),
        wait: Some(PERCENTILES.map(|share| steady.percentile(Judged::Wait, share))),
        total_mean: Some(wait_mean + mean),
        total: Some(PERCENTILES.map(|share| steady.percentile(Judged::Total, share))),
        rejected: Some(rejected),
        busy: Some(load * (1.0 - rejected)),
        steady: Some(steady),
    }
}

/// One thread, any durations.
fn pollaczek_khinchine(rate: f64, mix: &Mix) -> ClosedForm {
    let load = rate * mix.mean();
    let wait_mean = rate * mix.mean_square() / (2.0 * (1.0 - load));
    ClosedForm {
        name: "M/G/1",
        model: "M/G/1, Pollaczek-Khinchine".to_owned(),
        waited: Some(load),
        wait_mean: Some(wait_mean),
        wait: None,
        total_mean: Some(wait_mean + mix.mean()),
        rejected: Some(0.0),
        busy: Some(load),
        ..ClosedForm::default()
    }
}

/// A thread for every task and one core, which tasks that only compute share.
fn shared_cores(rate: f64, mix: &Mix, pool: &Pool, world: World) -> Option<Result<ClosedForm, Overload>> {
    let unlimited = pool.queue == Some(0) && pool.maximum == usize::MAX;
    if !(unlimited && mix.only_computes() && world.cores == 1) {
        return None;
    }
    let load = rate * mix.mean();
    if load >= 1.0 {
        return Some(Err(Overload { load, threads: 1 }));
    }
    let total_mean = mix.mean() / (1.0 - load);
    Some(Ok(ClosedForm {
        name: "M/G/1-PS",
        model: "M/G/1, processor sharing".to_owned(),
        waited: Some(0.0),
        wait_mean: Some(0.0),
        wait: Some([0.0; 4]),
        total_mean: Some(total_mean),
        rejected: Some(0.0),
        busy: Some(load / (1.0 - load)),
        ..ClosedForm::default()
    }))
}
