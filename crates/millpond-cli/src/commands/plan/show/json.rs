//! A plan as JSON. Times are in seconds, shares from 0 to 1.

use millpond_sim::{Figures, Histogram, Judged, Policy, Pool};
use serde_json::{Value, json};

use super::super::search::{Answer, Headroom};
use super::super::target::{Target, TimeLimit};
use super::super::theory::{ClosedForm, PERCENTILES};
use super::super::trials::Trials;
use super::super::words::Phrase;
use super::super::{Case, Plan};
use super::figures::by_little;
use super::{arrivals, percentile_name, tasks};

pub(crate) fn write(plans: &[Plan], target: Option<&Target>) -> String {
    let first = &plans[0].workload;
    let json = json!({
        "millpond": env!("CARGO_PKG_VERSION"),
        "seed": first.seed,
        "tasks": tasks(first),
        "cores": first.world.cores,
        "one_caller": first.world.one_caller,
        "target": target.map(|target| json!({
            "times": target.times.iter().map(time_limit).collect::<Vec<Value>>(),
            "rejected": target.lost,
        })),
        "loads": plans.iter().map(|plan| load(plan, target)).collect::<Vec<Value>>(),
    });
    format!("{json:#}\n")
}

fn time_limit(time: &TimeLimit) -> Value {
    json!({
        "of": if time.of == Judged::Wait { "wait" } else { "total" },
        "percentile": percentile_name(time),
        "at_most": seconds(time.limit as f64),
    })
}

fn seconds(nanos: f64) -> f64 {
    nanos / 1e9
}

fn load(plan: &Plan, target: Option<&Target>) -> Value {
    let offered = &plan.offered;
    json!({
        "factor": plan.factor,
        "arrivals": arrivals(&plan.workload),
        "per_second": offered.rate,
        "busy_threads": offered.busy_threads(),
        "busy_cores": offered.busy_cores(),
        "least_threads": offered.least_threads(),
        "threads_by_waiting_and_computing": offered.threads_for_cores(),
        "warm_up": seconds(plan.workload.warm_up as f64),
        "pools": plan.cases.iter().map(case).collect::<Vec<Value>>(),
        "search": plan.answer.as_ref().zip(target).map(|(answer, target)| search(answer, target)),
    })
}

fn search(answer: &Answer, target: &Target) -> Value {
    let first = target.first();
    json!({
        "found": answer.found.as_ref().map(|found| json!({
            "threads": found.pool.core,
            "queue": found.pool.queue,
            "time": seconds(first.seen(&found.trials.figures) as f64),
            "rejected": found.trials.figures.lost_share(),
            "runs": found.trials.runs.len(),
            "held": found.trials.held(),
            "breaks_at": breaks_at(found.breaks),
        })),
        "time_without_waiting": seconds(first.seen(&answer.unlimited.figures) as f64),
        "tried": answer.tries.iter().map(|tried| json!({
            "threads": tried.threads,
            "queue": tried.queue,
            "time": seconds(tried.time as f64),
            "rejected": tried.lost,
            "meets": tried.meets,
        })).collect::<Vec<Value>>(),
    })
}

/// The factor of the load at which the target is missed.
fn breaks_at(headroom: Headroom) -> Option<f64> {
    match headroom {
        Headroom::BreaksAt(percent) => Some(1.0 + f64::from(percent) / 100.0),
        Headroom::Doubles => None,
    }
}

fn runs(trials: &Trials) -> Vec<Value> {
    let run = |run: &super::super::trials::Run| {
        json!({
            "seed": run.seed,
            "held": run.held,
            "rejected": run.lost,
            "late": run.late,
            "peak_queue": run.peak_queue,
        })
    };
    trials.runs.iter().map(run).collect()
}

fn case(case: &Case) -> Value {
    json!({
        "name": case.pool.name,
        "pool": pool(&case.pool.pool),
        "meets": case.meets,
        "held": case.meets.map(|_| case.trials.held()),
        "breaks_at": case.breaks.and_then(breaks_at),
        "runs": runs(&case.trials),
        "figures": figures(&case.trials.figures),
        "formula": match &case.formula {
            None => Value::Null,
            Some(Ok(formula)) => closed_form(formula),
            Some(Err(overload)) => json!({ "overload": { "load": overload.load, "threads": overload.threads } }),
        },
    })
}

fn pool(pool: &Pool) -> Value {
    let (policy, at_most) = match pool.policy {
        Policy::Abort => ("abort", None),
        Policy::Discard => ("discard", None),
        Policy::DiscardOldest => ("discard-oldest", None),
        Policy::CallerRuns => ("caller-runs", None),
        Policy::Block(most) => ("block", most.map(|most| seconds(most as f64))),
    };
    json!({
        "description": Phrase(pool).to_string(),
        "core": pool.core,
        "max": Some(pool.maximum).filter(|maximum| *maximum < usize::MAX),
        "queue": pool.queue,
        "keep_alive": seconds(pool.keep_alive as f64),
        "core_time_out": pool.core_time_out,
        "eager": pool.rule == millpond::growth::GrowthRule::Eager,
        "policy": policy,
        "block_at_most": at_most,
    })
}

fn figures(figures: &Figures) -> Value {
    let levels = &figures.levels;
    json!({
        "arrived": figures.arrived,
        "completed": figures.completed,
        "rejected": figures.rejected,
        "discarded": figures.discarded,
        "in_caller": figures.in_caller,
        "waited": figures.waited,
        "throughput": figures.throughput(),
        "wait": times(&figures.waits),
        "total": times(&figures.totals),
        "threads": { "mean": levels.mean_threads(), "busy": levels.mean_busy(), "peak": levels.peak_threads },
        "utilisation": levels.utilisation(),
        "cores_busy": levels.mean_cores(),
        "queue": { "mean": levels.mean_queue(), "peak": levels.peak_queue },
        "inside": { "mean": levels.mean_inside(), "by_little": by_little(figures) },
        "end": seconds(figures.end as f64),
        "drain": seconds(figures.drain as f64),
    })
}

fn times(of: &Histogram) -> Value {
    let [p50, p90, p99, p999] = PERCENTILES.map(|share| seconds(of.percentile(share) as f64));
    json!({
        "mean": seconds(of.mean()),
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "p999": p999,
        "most": seconds(of.most() as f64),
    })
}

fn closed_form(formula: &ClosedForm) -> Value {
    json!({
        "name": formula.name,
        "model": formula.model,
        "waited": formula.waited,
        "wait_mean": formula.wait_mean.map(seconds),
        "wait_p50_p90_p99_p999": formula.wait.map(|wait| wait.map(seconds)),
        "total_mean": formula.total_mean.map(seconds),
        "total_p50_p90_p99_p999": formula.total.map(|total| total.map(seconds)),
        "rejected": formula.rejected,
        "busy": formula.busy,
    })
}
