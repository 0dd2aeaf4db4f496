//! A plan as JSON. Times are in seconds, shares from 0 to 1.

use millpond_sim::{Figures, Histogram, Judged, Policy, Pool};
use serde_json::{Value, json};

use super::super::theory::{ClosedForm, PERCENTILES};
use super::super::words::Told;
use super::super::{Case, Plan, Target};
use super::figures::by_little;
use super::{arrivals, tasks};

pub(crate) fn write(plans: &[Plan], target: Option<Target>) -> String {
    let first = &plans[0].workload;
    let json = json!({
        "millpond": env!("CARGO_PKG_VERSION"),
        "seed": first.seed,
        "tasks": tasks(first),
        "cores": first.world.cores,
        "one_caller": first.world.one_caller,
        "target": target.map(|target| json!({
            "of": if target.of == Judged::Wait { "wait" } else { "total" },
            "p99": seconds(target.p99 as f64),
            "rejected": target.lost,
        })),
        "loads": plans.iter().map(|plan| load(plan, target)).collect::<Vec<Value>>(),
    });
    format!("{json:#}\n")
}

fn seconds(nanos: f64) -> f64 {
    nanos / 1e9
}

fn load(plan: &Plan, target: Option<Target>) -> Value {
    let offered = &plan.offered;
    json!({
        "factor": plan.factor,
        "arrivals": arrivals(&plan.workload),
        "per_second": offered.rate,
        "busy_threads": offered.busy_threads(),
        "busy_cores": offered.busy_cores(),
        "threads_by_littles_law": offered.threads(),
        "threads_by_waiting_and_computing": offered.threads_for_cores(),
        "pools": plan.cases.iter().map(case).collect::<Vec<Value>>(),
        "search": plan.answer.as_ref().zip(target).map(|(answer, target)| json!({
            "found": answer.found.as_ref().map(|(pool, found)| json!({
                "threads": pool.core,
                "queue": pool.queue,
                "p99": seconds(target.judged(found).percentile(0.99) as f64),
                "rejected": found.lost_share(),
            })),
            "p99_without_waiting": seconds(target.judged(&answer.unlimited).percentile(0.99) as f64),
            "tried": answer.tries.iter().map(|tried| json!({
                "threads": tried.threads,
                "queue": tried.queue,
                "p99": seconds(tried.p99 as f64),
                "rejected": tried.lost,
                "meets": tried.meets,
            })).collect::<Vec<Value>>(),
        })),
    })
}

fn case(case: &Case) -> Value {
    json!({
        "name": case.pool.name,
        "pool": pool(&case.pool.pool),
        "meets": case.meets,
        "figures": figures(&case.figures),
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
        "told": Told(pool).to_string(),
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
        "drain": seconds(figures.drain() as f64),
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
        "rejected": formula.rejected,
        "busy": formula.busy,
    })
}
