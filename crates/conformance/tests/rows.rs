//! Every behaviour of the reference has a test that contains its id, or a line in
//! `docs/deviations.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The ids that `text` mentions, as `TPE-001` or, in a test's name, as `tpe_001`.
fn ids_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.collect();
    words.windows(2).map(|pair| format!("{}-{}", pair[0].to_ascii_uppercase(), pair[1])).collect()
}

/// All Rust files in `folder` and below it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    paths
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn every_behaviour_has_a_test_or_a_reason() {
    let mut known = ids_in(&fs::read_to_string(root().join("docs/deviations.md")).expect("the list exists"));
    for path in sources(&root().join("crates/millpond/tests")) {
        known.extend(ids_in(&fs::read_to_string(path).expect("a text")));
    }
    let rows = include_str!("../rows.txt").lines().filter(|line| !line.starts_with('#'));
    let missing: Vec<&str> = rows.filter(|row| !known.contains(*row)).collect();
    assert!(missing.is_empty(), "neither tested nor explained: {missing:?}");
}
