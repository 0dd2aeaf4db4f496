//! All details of one task, as text.

use millpond_cluster::state::{Attempt, AttemptEnd, Millis};
use millpond_cluster::{Priority, TaskDetails, TaskInfo};
use serde_json::Value;

use super::show;
use crate::term::{Colour, Screen};

pub(super) fn text(details: &TaskDetails, screen: &Screen) -> String {
    let now = show::now();
    let task = &details.task;
    let mut text = format!(
        "{}  {}  {}\n",
        screen.paint(Colour::Bold, task.id),
        show::one_line(&task.name),
        show::state(task.state, screen)
    );
    let mut rows = vec![("queue", place(task))];
    rows.push(("attempts", attempts(details)));
    rows.extend(times(task, now));
    if let Some(owner) = &task.owner {
        rows.push(("worker", show::one_line(owner.as_str())));
    }
    if let Some(reason) = task.reason {
        rows.push(("reason", reason.to_string()));
    }
    if let Some(error) = &task.error {
        rows.push(("error", show::one_line(error)));
    }
    if let Some(first) = task.retry_of {
        rows.push(("retry of", first.to_string()));
    }
    for (label, value) in
        [("arguments", &details.args), ("progress", &details.progress), ("result", &details.result)]
    {
        rows.extend(value.as_ref().map(|value: &Value| (label, value.to_string())));
    }
    rows.iter().for_each(|(label, value)| text.push_str(&show::labelled(label, value, screen)));
    if !details.history.is_empty() {
        text.push_str("\nEarlier attempts\n");
        details.history.iter().for_each(|attempt| text.push_str(&history(attempt, now, screen)));
    }
    text
}

fn place(task: &TaskInfo) -> String {
    let priority = match task.priority {
        Priority::High => ", high priority",
        Priority::Normal => "",
        Priority::Low => ", low priority",
    };
    format!("{}{priority}", show::one_line(&task.queue))
}

fn attempts(details: &TaskDetails) -> String {
    let task = &details.task;
    let cancel = if task.cancel_requested { "; a cancel was asked for" } else { "" };
    format!(
        "{} started; {} of {} failures, {} of {} lost workers{cancel}",
        task.attempt, task.failures, details.max_attempts, task.crashes, details.max_crashes
    )
}

fn times(task: &TaskInfo, now: Millis) -> Vec<(&'static str, String)> {
    let moments = [
        ("accepted", Some(task.created)),
        ("due", task.due),
        ("started", task.started),
        ("lease ends", task.lease),
        ("deadline", task.deadline.filter(|_| !task.state.is_end())),
        ("ended", task.finished),
        ("kept until", task.expires),
    ];
    let known = moments.into_iter().filter_map(|(label, at)| Some((label, at?)));
    known.map(|(label, at)| (label, format!("{} ({})", show::date(at), show::relative(at, now)))).collect()
}

fn history(attempt: &Attempt, now: Millis, screen: &Screen) -> String {
    let end = match attempt.end {
        AttemptEnd::Failed => "failed",
        AttemptEnd::LeaseExpired => "lease ran out",
        AttemptEnd::GivenBack => "given back",
        AttemptEnd::NoHandler => "no handler",
        _ => "ended",
    };
    let error =
        attempt.error.as_ref().map_or_else(String::new, |error| format!(": {}", show::one_line(error)));
    let what = format!(
        "{end} {}, after {}, on {}{error}",
        show::relative(attempt.ended, now),
        show::span(show::between(attempt.started, attempt.ended)),
        show::one_line(attempt.owner.as_str()),
    );
    show::labelled(&attempt.attempt.to_string(), &what, screen)
}
