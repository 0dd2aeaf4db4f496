//! Compares what happened with the expectations of the workload.

use super::record::Record;
use super::workload::{Expect, Figure};

impl Figure {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Figure::CoreThreads => "new core threads",
            Figure::ExtraThreads => "extra threads",
            Figure::NewThreads => "new threads",
            Figure::Queued => "queued",
            Figure::IdleThreads => "handed to idle threads",
            Figure::RanInCaller => "ran in the caller",
            Figure::Rejected => "rejected",
            Figure::Discarded => "discarded",
            Figure::Waited => "submissions that had to wait",
            Figure::Ran => "tasks that ran",
            Figure::Completed => "runs that came to their end",
            Figure::Interrupted => "interrupted",
            Figure::Panicked => "panicked",
            Figure::NeverRun => "handed back unrun",
            Figure::PeakThreads => "most threads",
            Figure::ThreadsAtEnd => "threads in the end",
        }
    }
}

/// Adds the unmet expectations to `record`.
pub(super) fn check(record: &mut Record, expect: &Expect) {
    let mut unmet = Vec::new();
    for (figure, bound) in &expect.figures {
        let value = record.figure(*figure);
        if !bound.allows(value) {
            unmet.push(format!("{}: {value}, expected {bound}", figure.name()));
        }
    }
    if let Some(outcome) = expect.outcome
        && outcome != record.ending.outcome
    {
        unmet.push(format!("the shutdown ended in {:?}, expected {outcome:?}", record.ending.outcome));
    }
    if let Some(order) = &expect.order {
        let began: Vec<&str> = record.runs().iter().map(|(at, _)| record.tasks[*at].label.as_str()).collect();
        if began != *order {
            unmet.push(format!("began in the order {}, expected {}", began.join(" "), order.join(" ")));
        }
    }
    if let Some(expected) = &expect.threads_after_steps {
        let threads: Vec<u64> = record.steps.iter().map(|step| step.threads as u64).collect();
        let as_expected = expected.iter().zip(&threads).all(|(bound, threads)| bound.allows(*threads));
        if threads.len() != expected.len() || !as_expected {
            let list = |items: Vec<String>| items.join(", ");
            unmet.push(format!(
                "threads after the steps: {}; expected {}",
                list(threads.iter().map(ToString::to_string).collect()),
                list(expected.iter().map(ToString::to_string).collect())
            ));
        }
    }
    record.expected = expect.figures.len()
        + usize::from(expect.outcome.is_some())
        + usize::from(expect.order.is_some())
        + usize::from(expect.threads_after_steps.is_some());
    record.unmet = unmet;
}
