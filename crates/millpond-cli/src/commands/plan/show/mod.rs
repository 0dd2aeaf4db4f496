//! How a plan looks: on the terminal, as SVG, as an HTML page, as JSON. Nothing here decides anything.

pub(super) mod chart;
pub(super) mod figures;
pub(super) mod json;
pub(super) mod page;
pub(super) mod text;

use std::time::Duration;

use millpond_sim::{Judged, Limit, Nanos};

use super::words::{self, PerSecond, Told, plain};
use super::{Offered, Plan, Target, Workload};
use crate::units;

/// `today's load`, `10 times the load`.
pub(super) fn load_name(factor: f64) -> String {
    if factor == 1.0 { "today's load".to_owned() } else { format!("{factor} times the load") }
}

/// What arrives, in one line.
fn arrivals(workload: &Workload) -> String {
    let streams: Vec<String> = workload.arrivals.iter().map(|one| Told(one).to_string()).collect();
    let end = match workload.limit {
        Limit::Count(count) => format!(", {} tasks", units::show_count(count)),
        Limit::Until(end) => format!(", for {}", plain(end as f64)),
        Limit::None => String::new(),
    };
    format!("{}{end}", streams.join(" and "))
}

/// How long tasks take, in one line.
fn tasks(workload: &Workload) -> String {
    let kinds: Vec<String> = workload.mix.kinds().iter().map(|kind| Told(kind).to_string()).collect();
    let cores = match workload.world.cores {
        _ if workload.mix.mean_compute() == 0.0 => String::new(),
        1 => ", on 1 core".to_owned(),
        cores => format!(", on {cores} cores"),
    };
    let mean = if workload.mix.kinds().len() > 1 {
        format!(" ({} on average)", plain(workload.mix.mean().round()))
    } else {
        String::new()
    };
    format!("{}{mean}{cores}", kinds.join("; "))
}

/// What three formulas say about the load, a sentence each.
fn formulas(offered: &Offered) -> Vec<String> {
    let mut sentences = Vec::new();
    if let (Some(rate), Some(busy), Some(threads)) = (offered.rate, offered.busy_threads(), offered.threads())
    {
        let enough = match threads {
            0 | 1 => "one can carry it".to_owned(),
            _ => format!("fewer than {threads} cannot carry it"),
        };
        sentences.push(format!(
            "Little's law: {} × {} keep {} busy; {enough}.",
            PerSecond(rate),
            plain((offered.wait + offered.compute).round()),
            if busy == 1.0 { threads_of(1) } else { format!("{} threads", three(busy)) },
        ));
    }
    if let Some(threads) = offered.threads_for_cores() {
        let cores = if offered.cores == 1 { "1 core".to_owned() } else { format!("{} cores", offered.cores) };
        let mut sentence = format!(
            "Waiting/computing: {cores} × (1 + {} / {}) = {threads} threads keep the cores busy",
            plain(offered.wait.round()),
            plain(offered.compute.round()),
        );
        match offered.busy_cores() {
            Some(busy) if busy >= offered.cores as f64 => {
                sentence.push_str(&format!("; the load needs {}: more than there are.", three(busy)));
            }
            Some(busy) => sentence.push_str(&format!("; the load needs {} of them.", three(busy))),
            None => sentence.push('.'),
        }
        sentences.push(sentence);
    }
    sentences
}

/// `1 thread`, `4 threads`.
fn threads_of(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

/// The smallest pool at each load: what stands above the columns, and a row for each.
fn answers(plans: &[Plan], target: Target) -> ([&'static str; 6], Vec<Vec<String>>) {
    let p99 = match target.of {
        Judged::Wait => "wait p99",
        Judged::Total => "total p99",
    };
    let row = |plan: &Plan| {
        let mut row = vec![load_name(plan.factor)];
        match plan.answer.as_ref().and_then(|answer| answer.found.as_ref()) {
            Some((pool, figures)) => row.extend([
                pool.core.to_string(),
                pool.queue.map_or_else(String::new, |queue| queue.to_string()),
                time(target.judged(figures).percentile(0.99)),
                percent(figures.lost_share()),
                percent(figures.levels.utilisation()),
            ]),
            None => row.extend(["none", "", "", "", ""].map(str::to_owned)),
        }
        row
    };
    (["smallest pool at", "threads", "queue", p99, "refused", "utilisation"], plans.iter().map(row).collect())
}

/// Why not one thread fewer; or why no pool at all.
fn note(plan: &Plan, target: Target) -> Option<String> {
    let answer = plan.answer.as_ref()?;
    let load = load_name(plan.factor);
    let judged = judged(target);
    if let Some((pool, _)) = &answer.found {
        let fewer = answer.tries.iter().find(|tried| tried.threads + 1 == pool.core)?;
        return Some(format!(
            "At {load} {} {} not enough: p99 of the {judged} would be {}, with a queue of {} that refuses {}.",
            threads_of(fewer.threads),
            if fewer.threads == 1 { "is" } else { "are" },
            time(fewer.p99),
            fewer.queue,
            percent(fewer.lost),
        ));
    }
    Some(format!("At {load} no pool can do it: {}", obstacle(plan, target)?))
}

/// Why no pool meets the target, and what would help.
fn obstacle(plan: &Plan, target: Target) -> Option<String> {
    let answer = plan.answer.as_ref()?;
    let alone = target.judged(&answer.unlimited).percentile(0.99);
    let best = answer.tries.iter().min_by_key(|tried| tried.p99)?;
    let cores = plan.offered.cores;
    Some(match plan.offered.busy_cores() {
        Some(busy) if busy > cores as f64 => format!(
            "the tasks need {busy:.1} cores and there {} {cores}; give more with --cores, or compute less.",
            if cores == 1 { "is" } else { "are" },
        ),
        _ if alone > target.p99 => format!(
            "with a thread for every task p99 of the {} is {} already. Ask for more time, or for the wait alone: \
             --target-wait-p99.",
            judged(target),
            time(alone)
        ),
        _ => format!(
            "at best, with {}, p99 of the {} is {}.",
            threads_of(best.threads),
            judged(target),
            time(best.p99)
        ),
    })
}

fn time(nanos: Nanos) -> String {
    units::show(Duration::from_nanos(nanos))
}

/// A number with three digits.
fn three(value: f64) -> String {
    match value {
        v if v >= 99.95 => units::show_count(v.round() as u64),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A share with three digits, for columns.
fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0%".to_owned(),
        p if p >= 99.95 => format!("{p:.0}%"),
        p if p >= 9.995 => format!("{p:.1}%"),
        p if p >= 0.995 => format!("{p:.2}%"),
        p => format!("{p:.3}%"),
    }
}

/// The target as a phrase: `p99 of the total time at most 50 ms, at most 0.1% refused`.
fn target_words(target: Target) -> String {
    let lost = if target.lost == 0.0 {
        "none refused".to_owned()
    } else {
        format!("at most {} refused", words::percent(target.lost))
    };
    format!("p99 of the {} at most {}, {lost}", judged(target), plain(target.p99 as f64))
}

fn judged(target: Target) -> &'static str {
    match target.of {
        Judged::Wait => "wait",
        Judged::Total => "total time",
    }
}

/// What there is to say about pools that cannot carry the load.
fn warnings(plan: &Plan) -> Vec<String> {
    let overloaded = plan.cases.iter().filter_map(|case| match &case.formula {
        Some(Err(overload)) => Some((case, overload)),
        _ => None,
    });
    overloaded
        .map(|(case, overload)| {
            format!(
                "{}: {} for work that keeps {} busy: the queue grows for as long as the load lasts, and so do \
                 these figures.",
                case.pool.name,
                threads_of(overload.threads),
                three(overload.load),
            )
        })
        .collect()
}
