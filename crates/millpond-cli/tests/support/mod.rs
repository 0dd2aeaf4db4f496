//! Runs the command as a user would, in a pipe with 80 columns and without colours.

#![allow(dead_code, reason = "not every test file needs every helper")]

#[cfg(target_os = "linux")]
pub(crate) mod terminal;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command, in an environment that does not affect its output.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    command.env_remove("COLUMNS").env_remove("NO_COLOR");
    command
}

/// Makes interrupts and quits effective in children. A shell that starts these tests in the
/// background makes them ignored; a handled signal is reset to the default in a child.
#[cfg(unix)]
pub(crate) fn handle_interrupts() {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Once};

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
            let always = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_default(signal, always).expect("it can be handled");
        }
    });
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `millpond` with `arguments` to its end.
pub(crate) fn millpond(arguments: &[&str]) -> Ran {
    ran(command().args(arguments).output().expect("the binary runs"))
}

/// The output as text.
pub(crate) fn ran(output: Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Ran {
        status: output.status.code().expect("it ended by itself"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs `millpond`, which must succeed, and returns its stdout.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let ran = millpond(arguments);
    assert_eq!(ran.status, 0, "{arguments:?}: {}", ran.stderr);
    ran.stdout
}

/// Asserts that no line exceeds 80 columns or has control codes or trailing spaces.
pub(crate) fn assert_fits_80_columns(printed: &str) {
    for line in printed.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        assert!(!line.contains(char::is_control), "{line:?}");
        assert_eq!(line, line.trim_end(), "trailing spaces");
    }
}

/// Compares `actual` with the file `tests/NAME`. Writes the file if `MILLPOND_BLESS` is set.
pub(crate) fn assert_is_file(actual: &str, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    if std::env::var_os("MILLPOND_BLESS").is_some() {
        std::fs::write(&path, actual).expect("the file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == expected,
        "not what is in {}; look at it, then run the test with MILLPOND_BLESS=1:\n{actual}",
        path.display()
    );
}

/// An empty directory for one test's files.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the directory can be made");
    path
}

/// Asserts that the tags of `xml` are properly nested.
pub(crate) fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in xml.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("a tag without an end: <{piece}"));
        assert!(!text.contains('>') || open.last() == Some(&"style"), "a stray > in {text}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}
