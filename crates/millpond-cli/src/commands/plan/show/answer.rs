//! The result of a search in words: the pool, its confidence, its headroom, and why no smaller pool
//! suffices.

use super::super::search::{Found, Headroom};
use super::super::target::Target;
use super::super::theory::ClosedForm;
use super::super::trials::Trials;
use super::super::{Case, Plan};
use super::{judged, load_name, percent, percentile_name, threads_of, three, time};
use crate::units;

/// The smallest pool at one load.
#[derive(Debug)]
pub(super) struct Said {
    /// `At today's load: 5 threads, queue 31`.
    pub(super) pool: String,
    /// `executors::bounded(5, 5, 31)?`, if there is a pool.
    pub(super) paste: Option<String>,
    /// How certain it is, and why no smaller pool suffices; or why there is no pool.
    pub(super) reasons: Vec<String>,
}

/// The answer for one load.
pub(super) fn say(plan: &Plan, target: &Target) -> Option<Said> {
    let answer = plan.answer.as_ref()?;
    let load = load_name(plan.factor);
    let Some(found) = &answer.found else {
        return Some(Said {
            pool: format!("At {load}: no pool meets the target"),
            paste: None,
            reasons: vec![obstacle(plan, target)?],
        });
    };
    let (threads, queue) = (found.pool.core, found.pool.queue.unwrap_or(0));
    let case = plan.cases.last()?;
    let mut reasons = vec![certainty(found, case, target)];
    reasons.extend(rare_refusals(&found.trials, target));
    reasons.extend(fewer(plan, threads, target));
    Some(Said {
        pool: format!("At {load}: {}, queue {queue}", threads_of(threads)),
        paste: Some(format!("executors::bounded({threads}, {threads}, {queue})?")),
        reasons,
    })
}

/// `Holds in 20 of 20 runs; p99 of the total time 114 ms; ...`
fn certainty(found: &Found, case: &Case, target: &Target) -> String {
    let mut parts = vec![runs(&found.trials)];
    let seen = target
        .times
        .iter()
        .map(|limit| format!("{} {}", judged(limit), time(limit.seen(&found.trials.figures))));
    parts.extend(seen);
    parts.push(refused(&found.trials));
    if let Some(Ok(formula)) = &case.formula {
        parts.extend(formula_says(formula, target));
    }
    parts.push(breaks(found.breaks));
    format!("{}.", parts.join("; "))
}

/// `Holds in 20 of 20 runs`.
fn runs(trials: &Trials) -> String {
    match trials.runs.len() {
        1 => "Holds; nothing in this load is random, so one run decides".to_owned(),
        runs => format!("Holds in {} of {runs} runs", trials.held()),
    }
}

/// `refused 0.012 to 0.031%`.
fn refused(trials: &Trials) -> String {
    let (least, most) = trials.lost_range();
    match (percent(least), percent(most)) {
        (_, most) if most == "0%" => "none refused".to_owned(),
        (least, most) if least == most => format!("refused {most}"),
        (least, most) => format!("refused {} to {most}", least.trim_end_matches('%')),
    }
}

/// `M/M/c/K says 0.021% refused and p99 113 ms`.
fn formula_says(formula: &ClosedForm, target: &Target) -> Option<String> {
    let (steady, first) = (formula.steady?, target.first());
    let seen = steady.percentile(first.of, first.share).round() as u64;
    let rejected = percent(steady.lost());
    Some(format!("{} says {rejected} and {} {}", formula.name, percentile_name(first), time(seen)))
}

fn breaks(headroom: Headroom) -> String {
    match headroom {
        Headroom::BreaksAt(percent) => format!("breaks at {percent}% more load"),
        Headroom::Doubles => "holds at twice the load, too".to_owned(),
    }
}

/// A bounded queue cannot guarantee that it never refuses a task. The rule of three: if none of n
/// tasks was refused, the share is below 3/n with 95 % confidence.
fn rare_refusals(trials: &Trials, target: &Target) -> Option<String> {
    let figures = &trials.figures;
    (target.lost == 0.0 && trials.runs.len() > 1).then(|| {
        format!(
            "None of {} tasks was refused: the share is below {} with 95% confidence. No bounded queue can promise 0%.",
            units::show_count(figures.arrived),
            small_percent(3.0 / figures.arrived.max(1) as f64)
        )
    })
}

/// A percentage with one significant digit, rounded up.
fn small_percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = (-percent.log10()).ceil().clamp(0.0, 9.0) as usize;
    let unit = 10_f64.powi(digits as i32);
    format!("{:.digits$}%", (percent * unit).ceil() / unit)
}

/// Why not one thread fewer.
fn fewer(plan: &Plan, threads: usize, target: &Target) -> Option<String> {
    let answer = plan.answer.as_ref()?;
    let fewer = threads.checked_sub(1).filter(|fewer| *fewer > 0)?;
    if answer.least.is_some_and(|least| fewer < least) {
        return Some(format!(
            "Fewer threads cannot carry the load with its headroom: it keeps {} busy without.",
            three(plan.offered.busy_threads().unwrap_or(0.0))
        ));
    }
    let tried = answer.tries.iter().find(|tried| tried.threads == fewer && !tried.meets)?;
    Some(format!(
        "With {} and the headroom, {} would be {}, with a queue of {} that refuses {}.",
        threads_of(fewer),
        judged(target.first()),
        time(tried.time),
        tried.queue,
        percent(tried.lost),
    ))
}

/// Why no pool meets the target, and a remedy.
fn obstacle(plan: &Plan, target: &Target) -> Option<String> {
    let answer = plan.answer.as_ref()?;
    let cores = plan.offered.cores;
    if plan.offered.exceeds_cores() {
        return Some(format!(
            "The tasks need {:.1} cores and there {} {cores}. Give more with --cores, or compute less.",
            plan.offered.busy_cores().unwrap_or(0.0),
            if cores == 1 { "is" } else { "are" },
        ));
    }
    let unlimited = &answer.unlimited.figures;
    let too_slow = target.times.iter().find(|limit| limit.seen(unlimited) > limit.limit);
    if let Some(limit) = too_slow {
        return Some(format!(
            "With a thread for every task, {} is {} already. Allow more time, or limit the wait alone with \
             --target-wait-{}.",
            judged(limit),
            time(limit.seen(unlimited)),
            percentile_name(limit),
        ));
    }
    let best = answer.tries.iter().min_by_key(|tried| tried.time)?;
    Some(format!(
        "At best, with {}, {} is {}: too close to the limit to hold in every run. Allow more time, or judge longer runs \
         with --count.",
        threads_of(best.threads),
        judged(target.first()),
        time(best.time)
    ))
}

/// The verdict on a pool, for a table.
pub(super) fn verdict(case: &Case) -> String {
    match (case.meets, case.trials.runs.len()) {
        (None, _) => String::new(),
        (Some(true), 1) => "met".to_owned(),
        (Some(false), 1) => "MISSED".to_owned(),
        (Some(true), runs) => format!("met {runs}/{runs}"),
        (Some(false), runs) => format!("MISSED {}/{runs}", runs - case.trials.held()),
    }
}

/// The headroom of a pool, for a table.
pub(super) fn headroom(case: &Case) -> String {
    match case.breaks {
        None => String::new(),
        Some(Headroom::BreaksAt(percent)) => format!("+{percent}%"),
        Some(Headroom::Doubles) => ">+100%".to_owned(),
    }
}
