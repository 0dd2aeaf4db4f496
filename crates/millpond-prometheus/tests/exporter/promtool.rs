//! `promtool` checks the text, the alert rules and the queries of the Grafana board.
//! `ci/metrics.sh` installs it. Without it, these tests print that they were skipped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use millpond::{ThreadPoolExecutor, executors};
use millpond_prometheus::{Bounds, Exporter};

use crate::board;
use crate::fixture::Fixture;

/// Path of `promtool`: the variable `PROMTOOL`, or the search path. Prints a note if there is none.
fn promtool() -> Option<PathBuf> {
    let named = std::env::var_os("PROMTOOL").map(PathBuf::from);
    let found = named.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("promtool")).find(|file| file.is_file())
    });
    if found.is_none() {
        println!("SKIPPED: there is no promtool on the search path; `ci/metrics.sh --install` gets one");
    }
    found
}

/// Runs `promtool` with this input, asserts success, and returns its output.
fn run(tool: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(tool);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", tool.display()));
    child.stdin.take().expect("it is piped").write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    said
}

#[test]
fn metrics_pass_in_silence() {
    let Some(tool) = promtool() else { return };
    let fixture = Fixture::new("held");
    let ended = Fixture::new("ended").end();
    let hostile = ThreadPoolExecutor::builder().name("a\"b\\c{d}=\"e\" 貯水池,\\n").build().unwrap();
    let others =
        (executors::cached(), executors::scheduled(1), ThreadPoolExecutor::builder().name("ended").build());
    for bounds in [Bounds::default(), Bounds::none()] {
        let text = Exporter::new().bounds(bounds).render();
        assert_eq!(run(&tool, &["check", "metrics"], &text), "");
    }
    drop((ended, hostile, others, fixture.end()));
}

#[test]
fn queries_of_the_board_are_valid() {
    let Some(tool) = promtool() else { return };
    let mut rules = "groups:\n  - name: board\n    rules:\n".to_owned();
    for (number, query) in board::queries().iter().enumerate() {
        let query = query.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$pool", ".*");
        rules += &format!("      - record: query_{number}\n        expr: '{query}'\n");
    }
    let file = std::env::temp_dir().join(format!("millpond-board-{}.yml", std::process::id()));
    std::fs::write(&file, rules).unwrap();
    run(&tool, &["check", "rules", file.to_str().expect("text")], "");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn alert_rules_do_what_their_tests_say() {
    let Some(tool) = promtool() else { return };
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("alerts");
    let file = |name: &str| folder.join(name).to_str().expect("text").to_owned();
    run(&tool, &["check", "rules", &file("millpond.rules.yml")], "");
    run(&tool, &["test", "rules", &file("millpond.test.yml")], "");
}
