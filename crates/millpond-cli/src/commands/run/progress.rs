//! Live progress on stderr, if that is a terminal: how many are done, how fast, how long it will take.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::term;

/// How many there are is only known once the input has ended: until then there is no bar and no end in sight.
const OPEN: &str = "{spinner} {pos} done, {rate}, {elapsed}{msg}";
const KNOWN: &str = "{wide_bar} {pos}/{len}, {rate}{left}{msg}";

/// A line that goes away at the end; or nothing.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// `wanted`, and on a terminal.
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

    /// All of the input is known: `total` jobs.
    pub(super) fn set_total(&self, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_style(style(KNOWN));
        }
    }

    /// One more job has ended; `failed` of all have failed.
    pub(super) fn job_ended(&self, failed: u64) {
        if let Some(bar) = &self.bar {
            if failed > 0 {
                bar.set_message(format!(", {failed} failed"));
            }
            bar.inc(1);
        }
    }

    /// Calls `write`, with the line out of the way.
    pub(super) fn aside<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// One line for people, on stderr.
    pub(super) fn note(&self, line: &str) {
        // Without a stderr there is nobody to tell.
        let _ = self.aside(|| writeln!(io::stderr(), "millpond: {line}"));
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is sound");
    style.with_key("rate", show_rate).with_key("left", show_time_left)
}

// What cannot be written is not seen.

fn show_rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    let rate = state.per_sec();
    let _ = if rate < 10.0 { write!(out, "{rate:.1}/s") } else { write!(out, "{rate:.0}/s") };
}

/// Nothing, as long as no job has shown how long it takes.
fn show_time_left(state: &ProgressState, out: &mut dyn fmt::Write) {
    if state.pos() > 0 && state.per_sec() > 0.0 {
        let _ = write!(out, ", {:#} left", HumanDuration(state.eta()));
    }
}
