//! Every committed scenario, played on millpond, gives the trace of the reference.

mod support;

use std::collections::HashMap;
use std::io::Cursor;

use conformance::difference::first_difference;
use conformance::runner;
use conformance::scenario::{Program, Scenario};
use conformance::time::TimeKind;
use serde_json::Value;

#[test]
fn recorded_scenarios_give_the_traces_of_the_reference() {
    compare(&support::recorded(), TimeKind::Real);
}

/// Scheduled pools with a manual clock: nothing is ever late, and the traces are the same.
#[test]
fn by_a_manual_clock_scheduled_pools_give_the_traces_of_the_reference() {
    let mut recorded = support::recorded();
    recorded.retain(|(scenario, _)| matches!(scenario.program, Program::Scheduled { .. }));
    assert!(!recorded.is_empty());
    compare(&recorded, TimeKind::Manual);
}

fn compare(recorded: &[(Scenario, Value)], time: TimeKind) {
    let lines: Vec<String> =
        recorded.iter().map(|(scenario, _)| serde_json::to_string(scenario).unwrap()).collect();
    let mut output = Vec::new();
    runner::run(Cursor::new(lines.join("\n")), &mut output, time).unwrap();

    let traces = String::from_utf8(output).unwrap();
    assert_eq!(traces.lines().count(), recorded.len());
    let differences: Vec<String> = recorded
        .iter()
        .zip(traces.lines())
        .filter_map(|((scenario, expected), actual)| {
            let actual: Value = serde_json::from_str(actual).unwrap();
            let difference = first_difference(expected, &actual)?;
            Some(format!("{}: {difference}\n  {}", scenario.id, serde_json::to_string(scenario).unwrap()))
        })
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {} scenarios differ from the reference; the first ones:\n{}",
        differences.len(),
        recorded.len(),
        differences[..differences.len().min(5)].join("\n")
    );
}

#[test]
fn the_recorded_scenarios_reach_every_operation() {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (scenario, _) in support::recorded() {
        let scenario = serde_json::to_value(&scenario).unwrap();
        for step in scenario["steps"].as_array().unwrap() {
            let name = format!("{} {}", scenario["kind"].as_str().unwrap(), step["op"].as_str().unwrap());
            *seen.entry(name).or_default() += 1;
        }
    }
    let pool = "execute submit release fail cancel remove purge set_core set_max set_keep_alive \
                allow_core_timeout set_policy prestart_core prestart_all shutdown shutdown_now \
                await_termination sleep future_get snapshot";
    let queue = "add offer offer_timeout put poll poll_timeout take peek element remove_head remove_item \
                 contains size is_empty remaining_capacity drain_to clear to_vec sleep";
    let scheduled = "schedule at_fixed_rate with_fixed_delay cancel remove purge future_get \
                     set_remove_on_cancel set_continue_periodic set_execute_delayed shutdown shutdown_now \
                     advance";
    for (kind, ops) in [("pool", pool), ("queue", queue), ("scheduled", scheduled)] {
        for op in ops.split_whitespace() {
            assert!(seen.contains_key(&format!("{kind} {op}")), "no {kind} scenario has a step {op}");
        }
    }
}
