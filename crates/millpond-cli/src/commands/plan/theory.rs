//! What queueing theory knows beforehand, for the pools and loads for which it knows anything exactly.
//!
//! All of it is for Poisson arrivals that go on for ever at one rate. Times are in nanoseconds, rates per nanosecond.

use millpond::growth::GrowthRule;
use millpond_sim::{Arrivals, Length, Mix, Policy, Pool, World};
use serde::Serialize;

/// What a formula says. `None`: it says nothing about this.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct ClosedForm {
    /// The name of the formula, and of the model.
    pub(super) name: &'static str,
    pub(super) model: String,
    /// The share of the tasks that wait at all, of those that are accepted.
    pub(super) waited: Option<f64>,
    pub(super) wait_mean: Option<f64>,
    /// p50, p90, p99, p99.9.
    pub(super) wait: Option<[f64; 4]>,
    pub(super) total_mean: Option<f64>,
    pub(super) rejected: Option<f64>,
    /// Threads that have a task, on average.
    pub(super) busy: Option<f64>,
}

/// The percentiles that are shown.
pub(super) const PERCENTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The most places in a queue that we add up one by one.
const MOST_PLACES: usize = 10_000_000;

/// The formula for this pool under this load, if there is one. `Err`: there is, but the load is more than the pool can carry,
/// so that its queue grows for as long as the load lasts.
pub(super) fn closed_form(
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
        // The threads get into each other's way on the cores.
        return shared_cores(rate, mix, pool, world);
    }
    let load = rate * mean;
    let exponential = match mix.kinds() {
        [kind] => matches!(kind.length, Length::Exponential(_)),
        _ => false,
    };
    // Blocked callers are a queue without an end, in another place.
    let queue = match pool.policy {
        Policy::Block(None) => None,
        Policy::Abort | Policy::Discard => pool.queue,
        _ if pool.queue.is_none() => None,
        _ => return None,
    };
    match queue {
        _ if threads == usize::MAX => Some(Ok(a_thread_for_every_task(load, mean))),
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

fn a_thread_for_every_task(load: f64, mean: f64) -> ClosedForm {
    ClosedForm {
        name: "M/G/inf",
        model: "M/G/inf".to_owned(),
        waited: Some(0.0),
        wait_mean: Some(0.0),
        wait: Some([0.0; 4]),
        total_mean: Some(mean),
        rejected: Some(0.0),
        busy: Some(load),
    }
}

/// More work than threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Overload {
    /// Threads that would be busy.
    pub(super) load: f64,
    pub(super) threads: usize,
}

/// Several Poisson streams are one.
fn poisson_rate(arrivals: &[Arrivals]) -> Option<f64> {
    arrivals.iter().map(|one| if let Arrivals::Poisson(rate) = one { Some(rate / 1e9) } else { None }).sum()
}

/// How many threads work when there is work for all: if that depends on how it came to it, none of the formulas holds.
fn steady_threads(pool: &Pool) -> Option<usize> {
    match (pool.rule, pool.queue) {
        (GrowthRule::Eager, _) | (_, Some(0)) => Some(pool.maximum),
        (GrowthRule::QueueFirst, None) => Some(pool.core.max(1)),
        (GrowthRule::QueueFirst, Some(_)) => (pool.core == pool.maximum).then_some(pool.core),
    }
}

/// The share of the tasks that find all of `threads` busy, where none may wait: Erlang's B.
pub(super) fn erlang_b(load: f64, threads: usize) -> f64 {
    (1..=threads).fold(1.0, |blocked, n| load * blocked / (n as f64 + load * blocked))
}

/// The share of the tasks that have to wait, where all may: Erlang's C. `load` is below `threads`.
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
    }
}

fn erlang_c_form(load: f64, threads: usize, mean: f64) -> ClosedForm {
    let waited = erlang_c(load, threads);
    // Of those that wait, the wait is exponential with this mean.
    let scale = mean / (threads as f64 - load);
    let percentile =
        |share: f64| if waited <= 1.0 - share { 0.0 } else { scale * libm::log(waited / (1.0 - share)) };
    ClosedForm {
        name: "Erlang C",
        model: format!("M/M/{threads}"),
        waited: Some(waited),
        wait_mean: Some(waited * scale),
        wait: Some(PERCENTILES.map(percentile)),
        total_mean: Some(waited * scale + mean),
        rejected: Some(0.0),
        busy: Some(load),
    }
}

/// A bounded queue: states from no task to a full queue, each with the next in balance.
fn bounded(load: f64, threads: usize, places: usize, mean: f64) -> ClosedForm {
    let ratio = load / threads as f64;
    // The state in which all threads are busy and nobody waits has weight 1; those before it come from Erlang's B.
    let mut weight = 1.0;
    let mut all = 1.0 / erlang_b(load, threads);
    let mut waiting = 0.0; // states in which an arriving task would wait
    let mut queued = 0.0;
    for place in 1..=places {
        waiting += weight;
        weight *= ratio;
        all += weight;
        queued += weight * place as f64;
        if all > 1e200 {
            // Only their proportions matter.
            for value in [&mut weight, &mut all, &mut waiting, &mut queued] {
                *value /= 1e200;
            }
        }
    }
    let rejected = weight / all;
    let rate = load / mean * (1.0 - rejected);
    let wait_mean = queued / all / rate;
    ClosedForm {
        name: "M/M/c/K",
        model: format!("M/M/{threads}/{}", threads + places),
        waited: Some(waiting / all / (1.0 - rejected)),
        wait_mean: Some(wait_mean),
        wait: None,
        total_mean: Some(wait_mean + mean),
        rejected: Some(rejected),
        busy: Some(load * (1.0 - rejected)),
    }
}

/// One thread, any lengths.
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
    }
}

/// Threads without end and one core: tasks that only compute share it.
fn shared_cores(rate: f64, mix: &Mix, pool: &Pool, world: World) -> Option<Result<ClosedForm, Overload>> {
    let without_end = pool.queue == Some(0) && pool.maximum == usize::MAX;
    let only_compute = mix.kinds().iter().all(|kind| kind.cpu == 1.0);
    if !(without_end && only_compute && world.cores == 1) {
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
    }))
}

#[cfg(test)]
mod tests;
