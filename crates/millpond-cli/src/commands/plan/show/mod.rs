//! Presents a plan: on the terminal, as SVG, as an HTML page, as JSON. Makes no decisions.

pub(super) mod answer;
pub(super) mod chart;
pub(super) mod figures;
pub(super) mod json;
pub(super) mod page;
pub(super) mod text;

use std::time::Duration;

use millpond_sim::{Judged, Limit, Nanos};

use super::target::{Target, TimeLimit};
use super::words::{self, PerSecond, Phrase, plain};
use super::workload::{Offered, Workload};
use super::{Case, Plan};
use crate::units;

/// `today's load`, `10 times the load`.
pub(super) fn load_name(factor: f64) -> String {
    if factor == 1.0 { "today's load".to_owned() } else { format!("{factor} times the load") }
}

/// The arrivals, in one line.
fn arrivals(workload: &Workload) -> String {
    let streams: Vec<String> = workload.arrivals.iter().map(|one| Phrase(one).to_string()).collect();
    let length = match workload.limit {
        Limit::Count(count) => format!(", {} tasks", units::show_count(count)),
        Limit::Until(end) => match workload.asked {
            Some(_) => format!(", for {}", plain(end as f64)),
            None => format!(", about {} tasks a run", units::show_count(about(workload.expected_tasks()))),
        },
        Limit::None => match workload.replays() {
            1 => String::new(),
            replays => format!(", replayed {} times a run", units::show_count(replays)),
        },
    };
    format!("{}{length}", streams.join(" and "))
}

/// Rounds to two significant digits.
fn about(tasks: f64) -> u64 {
    let unit = 10_f64.powi((tasks.max(1.0).log10().floor() as i32 - 1).max(0));
    ((tasks / unit).round() * unit) as u64
}

/// The durations of the tasks, in one line.
fn tasks(workload: &Workload) -> String {
    let kinds: Vec<String> = workload.mix.kinds().iter().map(|kind| Phrase(kind).to_string()).collect();
    let durations = match workload.mix.recorded_count() {
        Some(1) => "1 recorded duration".to_owned(),
        Some(count) => format!("{} recorded durations", units::show_count(count as u64)),
        None => kinds.join("; "),
    };
    let cores = match workload.world.cores {
        _ if workload.mix.mean_compute() == 0.0 => String::new(),
        1 => ", on 1 core".to_owned(),
        cores => format!(", on {cores} cores"),
    };
    let mean = match kinds.len() {
        1 => String::new(),
        _ => format!(" ({} on average)", plain(workload.mix.mean().round())),
    };
    format!("{durations}{mean}{cores}")
}

/// The results of formulas for the load, one sentence each.
fn formulas(offered: &Offered) -> Vec<String> {
    let mut sentences = Vec::new();
    if let (Some(rate), Some(busy)) = (offered.rate, offered.busy_threads()) {
        let bound = match offered.least_threads() {
            None => " on average".to_owned(),
            Some(1) => "; one can carry it".to_owned(),
            Some(threads) => format!("; fewer than {threads} cannot carry it"),
        };
        sentences.push(format!(
            "Little's law: {} × {} keep {} busy{bound}.",
            PerSecond(rate),
            plain((offered.wait + offered.compute).round()),
            if busy == 1.0 { threads_of(1) } else { format!("{} threads", three(busy)) },
        ));
    }
    if let Some(threads) = offered.threads_for_cores() {
        let cores = if offered.cores == 1 { "1 core".to_owned() } else { format!("{} cores", offered.cores) };
        let needed = match offered.busy_cores() {
            Some(busy) if busy >= offered.cores as f64 => {
                format!("; the load needs {}, more than there are", three(busy))
            }
            Some(busy) => format!("; the load needs {} of them", three(busy)),
            None => String::new(),
        };
        sentences.push(format!(
            "Waiting/computing: {cores} × (1 + {} / {}) = {threads} threads keep the cores busy{needed}.",
            plain(offered.wait.round()),
            plain(offered.compute.round()),
        ));
    }
    sentences
}

/// `1 thread`, `4 threads`.
fn threads_of(count: usize) -> String {
    if count == 1 { "1 thread".to_owned() } else { format!("{count} threads") }
}

fn time(nanos: Nanos) -> String {
    units::show(Duration::from_nanos(nanos))
}

/// A number with three significant digits.
fn three(value: f64) -> String {
    match value {
        v if v >= 99.95 => units::show_count(v.round() as u64),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A share with three significant digits, for columns.
fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0%".to_owned(),
        p if p >= 99.95 => format!("{p:.0}%"),
        p if p >= 9.995 => format!("{p:.1}%"),
        p if p >= 0.995 => format!("{p:.2}%"),
        p if p >= 0.0005 => format!("{p:.3}%"),
        _ => "<0.001%".to_owned(),
    }
}

/// The target as a phrase: `p99 of the total time at most 50 ms, at most 0.1% refused`.
fn target_words(target: &Target) -> String {
    let mut words: Vec<String> = target
        .times
        .iter()
        .map(|time| format!("{} at most {}", judged(time), plain(time.limit as f64)))
        .collect();
    words.push(match target.lost {
        0.0 => "none refused".to_owned(),
        lost => format!("at most {} refused", words::percent(lost)),
    });
    words.join(", ")
}

/// `p99`, `p99.9`.
fn percentile_name(time: &TimeLimit) -> String {
    format!("p{}", format!("{:.1}", time.share * 100.0).trim_end_matches(".0"))
}

/// `p99 of the total time`.
fn judged(time: &TimeLimit) -> String {
    let of = match time.of {
        Judged::Wait => "wait",
        Judged::Total => "total time",
    };
    format!("{} of the {of}", percentile_name(time))
}

/// Warnings about single pools: overload, or a formula that contradicts the runs.
fn warnings(plan: &Plan, target: Option<&Target>) -> Vec<String> {
    plan.cases.iter().filter_map(|case| overload(case).or_else(|| disagreement(case, target?))).collect()
}

fn overload(case: &Case) -> Option<String> {
    let Some(Err(overload)) = &case.formula else { return None };
    Some(format!(
        "{}: {} for a load that keeps {} busy: the queue grows for as long as the load lasts, and so do these \
         figures.",
        case.pool.name,
        threads_of(overload.threads),
        three(overload.load),
    ))
}

fn disagreement(case: &Case, target: &Target) -> Option<String> {
    let Some(Ok(formula)) = &case.formula else { return None };
    let says = formula.meets(target)?;
    let meets = case.meets?;
    (says != meets).then(|| {
        format!(
            "{}: {} says that the target is {}, but {} of {} runs {} it. The pool is close to the limit: do not rely on \
             it.",
            case.pool.name,
            formula.name,
            if says { "met" } else { "missed" },
            if says { case.trials.runs.len() - case.trials.held() } else { case.trials.held() },
            case.trials.runs.len(),
            if says { "miss" } else { "meet" },
        )
    })
}
