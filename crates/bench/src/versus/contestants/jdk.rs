//! The JDK's executors, in processes that run the same workloads: jdk/Versus.java.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Promise;

const SOURCE: &str = include_str!("../jdk/Versus.java");

/// One row of the tables. Each has its own virtual machine: after the use of several queue classes,
/// the JIT compiler no longer inlines calls to them.
pub(super) struct Kind {
    /// The name in the table.
    pub(super) name: &'static str,
    /// The name in jdk/Versus.java.
    pub(super) kind: &'static str,
    pub(super) promise: Promise,
    /// The keys of the supported cases. Asking would require a virtual machine.
    pub(super) keys: &'static [&'static str],
}

const FIXED: &[&str] = &[
    "one-producer",
    "four-producers",
    "round-trip",
    "burst",
    "wake-up",
    "nested",
    "memory",
    "idle",
    "growth-queued",
];

const LINKED: &[&str] = &[
    "one-producer",
    "four-producers",
    "bounded",
    "round-trip",
    "burst",
    "wake-up",
    "nested",
    "memory",
    "rejection",
    "idle",
    "growth-queued",
];

const fn kind(
    name: &'static str,
    kind: &'static str,
    promise: Promise,
    keys: &'static [&'static str],
) -> Kind {
    Kind { name, kind, promise, keys }
}

pub(super) static KINDS: [Kind; 9] = [
    kind("JDK linked", "linked", Promise::Same, LINKED),
    kind("JDK transfer", "transfer", Promise::Same, FIXED),
    kind("JDK array", "array", Promise::Same, &["bounded", "rejection"]),
    kind("JDK cached", "synchronous", Promise::Same, &["elastic", "bounded-elastic"]),
    kind("JDK ForkJoin", "forkjoin", Promise::Other, FIXED),
    kind("JDK queues", "queue", Promise::Same, &["queues"]),
    kind("JDK transfer queue", "transfer-queue", Promise::Same, &["queues"]),
    kind("JDK scheduled", "scheduled", Promise::Same, &["timers", "lateness"]),
    kind("JDK pinned lanes", "pinned", Promise::Same, &["bounded-elastic"]),
];

/// The compiled source, beside this program.
pub(super) struct Classes {
    directory: PathBuf,
    /// The warm-up time of the first case of a process, in milliseconds.
    warm_up: u32,
}

impl Classes {
    /// An error says why there is no JDK.
    pub(super) fn compile(quick: bool) -> Result<Classes, String> {
        let program =
            std::env::current_exe().map_err(|error| format!("no directory for the classes: {error}"))?;
        let directory = program.with_file_name("versus-jdk");
        compile(&directory)?;
        Ok(Classes { directory, warm_up: if quick { 1000 } else { 3000 } })
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xms1g", "-Xmx2g", "-cp"]).arg(&self.directory);
        command.args(["Versus", &self.warm_up.to_string()]);
        command
    }
}

fn compile(directory: &Path) -> Result<(), String> {
    let problem = |what: &str, error: std::io::Error| format!("{what}: {error}");
    fs::create_dir_all(directory).map_err(|error| problem("no directory for the classes", error))?;
    let source = directory.join("Versus.java");
    fs::write(&source, SOURCE).map_err(|error| problem("the Java source", error))?;
    let compiled = Command::new("javac").arg("-d").arg(directory).arg(&source).output();
    let compiled = compiled.map_err(|error| problem("no JDK is present (javac)", error))?;
    if !compiled.status.success() {
        return Err(format!("javac failed: {}", String::from_utf8_lossy(&compiled.stderr)));
    }
    Ok(())
}

/// The version of the JDK, or that there is none.
pub(super) fn version() -> Result<String, String> {
    let output = Command::new("java").arg("-version").output();
    let output = output.map_err(|error| format!("no JDK is present (java: {error})"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    Ok(text.lines().nth(1).or(text.lines().next()).unwrap_or("unknown").trim().to_owned())
}
