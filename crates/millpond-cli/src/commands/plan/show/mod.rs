//! How a plan looks: on the terminal, as SVG, as an HTML page, as JSON. Nothing here decides anything.

pub(super) mod chart;
pub(super) mod figures;
pub(super) mod json;
pub(super) mod page;
pub(super) mod text;

use millpond_sim::{Judged, Limit};

use super::words::{self, PerSecond, Told, plain};
use super::{Offered, Plan, Target, Workload};
use crate::units;

/// `today's load`, `10 times the load`.
fn load_name(factor: f64) -> String {
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
        sentences.push(format!(
            "Little's law: {} × {} keep {} busy; fewer than {threads} cannot carry it.",
            PerSecond(rate),
            plain((offered.wait + offered.compute).round()),
            threads_of(busy),
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

fn threads_of(busy: f64) -> String {
    if (busy - 1.0).abs() < 1e-9 { "1 thread".to_owned() } else { format!("{} threads", three(busy)) }
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
            let threads = if overload.threads == 1 {
                "1 thread".to_owned()
            } else {
                format!("{} threads", overload.threads)
            };
            format!(
                "{}: {threads} for work that keeps {} busy: the queue grows for as long as the load lasts, and so do \
                 these figures.",
                case.pool.name,
                three(overload.load),
            )
        })
        .collect()
}
