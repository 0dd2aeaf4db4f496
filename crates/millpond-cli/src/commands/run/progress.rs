//! Live progress on stderr, if it is a terminal: jobs done, rate, time left.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::term;

/// Without a bar: the number of jobs is unknown until the input has ended.
const OPEN: &str = "{spinner} {pos} done{rate}{since}{msg}";
const KNOWN: &str = "{wide_bar} {pos}/{len}{rate}{left}{msg}";

/// A line that disappears at the end, or nothing.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Shows progress if it is `wanted` and stderr is a terminal.
    pub(super) fn begin(wanted: bool) -> Progress {
        let screen = term::stderr();
        if !wanted || !screen.is_terminal {
            return Progress { bar: None };
        }
        let bar = ProgressBar::no_length();
        bar.set_style(style(OPEN));
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar: Some(bar) }
    }

    /// The input has ended: there are `total` jobs.
    pub(super) fn set_total(&self, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_style(style(KNOWN));
        }
    }

    /// Counts a finished job; `failed` jobs have failed so far.
    pub(super) fn job_ended(&self, failed: u64) {
        if let Some(bar) = &self.bar {
            if failed > 0 {
                bar.set_message(format!(", {failed} failed"));
            }
            bar.inc(1);
        }
    }

    /// Calls `write` while the line is hidden.
    pub(super) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Prints a text line to stderr.
    pub(super) fn note(&self, line: &str) {
        self.line(format!("millpond: {line}").as_bytes());
    }

    /// Prints bytes as one line to stderr.
    pub(super) fn line(&self, line: &[u8]) {
        // A closed stderr is ignored.
        let _ = self.aside(|| io::stderr().write_all(&[line, b"\n"].concat()));
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Below this many columns only the counts are shown, so that the line does not wrap.
const NARROW: usize = 60;

fn is_narrow() -> bool {
    term::stderr().width < NARROW
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    style.with_key("rate", show_rate).with_key("left", show_time_left).with_key("since", show_time_since)
}

// Errors are ignored: they cannot happen, since the text goes into a String.

fn show_rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    let rate = state.per_sec();
    let _ = match rate {
        _ if is_narrow() => Ok(()),
        rate if rate < 10.0 => write!(out, ", {rate:.1}/s"),
        rate => write!(out, ", {rate:.0}/s"),
    };
}

/// Empty until the first job has finished.
fn show_time_left(state: &ProgressState, out: &mut dyn fmt::Write) {
    if state.pos() > 0 && state.per_sec() > 0.0 && !is_narrow() {
        let _ = write!(out, ", {:#} left", HumanDuration(state.eta()));
    }
}

fn show_time_since(state: &ProgressState, out: &mut dyn fmt::Write) {
    if !is_narrow() {
        let _ = write!(out, ", {:#}", HumanDuration(state.elapsed()));
    }
}
