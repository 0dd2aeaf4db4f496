//! The scenarios that were recorded on the reference, with their traces.

use std::fs;
use std::path::{Path, PathBuf};

use conformance::runner;
use conformance::scenario::Scenario;
use serde_json::Value;

/// Every committed scenario and the trace that the reference gave for it.
pub(crate) fn recorded() -> Vec<(Scenario, Value)> {
    files().iter().flat_map(|file| recorded_in(file)).collect()
}

/// The files of scenarios; beside each lies one of traces.
fn files() -> Vec<PathBuf> {
    // CONFORMANCE_SCENARIOS: another directory, for a campaign.
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let directory = std::env::var_os("CONFORMANCE_SCENARIOS").map_or(here, PathBuf::from);
    let entries = fs::read_dir(&directory).unwrap_or_else(|why| panic!("{}: {why}", directory.display()));
    let is_scenarios = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".jsonl") && !name.ends_with(".trace.jsonl")
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(is_scenarios).collect();
    files.sort();
    assert!(!files.is_empty(), "no scenarios in {}", directory.display());
    files
}

fn recorded_in(file: &Path) -> Vec<(Scenario, Value)> {
    let read =
        |path: &Path| fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let (scenarios, traces) = (read(file), read(&file.with_extension("trace.jsonl")));
    assert_eq!(scenarios.lines().count(), traces.lines().count(), "{}", file.display());
    let pairs = scenarios.lines().zip(traces.lines()).map(|(scenario, trace)| {
        let scenario = runner::parse(scenario).unwrap_or_else(|why| panic!("{}: {why:?}", file.display()));
        let trace: Value = serde_json::from_str(trace).unwrap();
        assert_eq!(scenario.id, trace["id"], "{}", file.display());
        (scenario, trace)
    });
    pairs.collect()
}
