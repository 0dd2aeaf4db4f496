//! The versions of the peers, read from the lock file at compile time.

const LOCK: &str = include_str!("../../../../Cargo.lock");

/// Names and versions.
pub(crate) fn peers() -> Vec<(&'static str, &'static str)> {
    PEERS.iter().filter_map(|name| Some((*name, version(name)?))).collect()
}

const PEERS: [&str; 15] = [
    "crossbeam-channel",
    "crossfire",
    "executors",
    "flume",
    "jtp",
    "kanal",
    "qubit-thread-pool",
    "rayon",
    "rusty_pool",
    "scheduled-thread-pool",
    "threadfin",
    "threadpool",
    "threadpool-executor",
    "tokio",
    "tokio-util",
];

fn version(name: &str) -> Option<&'static str> {
    let package = LOCK.split("[[package]]").find(|package| field(package, "name") == Some(name))?;
    field(package, "version")
}

fn field(package: &'static str, name: &str) -> Option<&'static str> {
    let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))?;
    Some(line.trim_matches('"'))
}
