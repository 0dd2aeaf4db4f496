//! A progress line on stderr, if that is a terminal.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::term;

/// Shows what is being simulated, how many of its runs are done, and the elapsed time. The number
/// of candidates of a search is not known in advance, so there is no total.
#[derive(Debug)]
pub(super) struct Progress {
    line: Option<ProgressBar>,
    done: AtomicUsize,
    runs: AtomicUsize,
}

impl Progress {
    pub(super) fn begin() -> Progress {
        let line = term::stderr().is_terminal.then(|| {
            let line = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {wide_msg} {prefix} {elapsed}");
            line.set_style(style.expect("the template is sound"));
            line.enable_steady_tick(Duration::from_millis(100));
            line
        });
        Progress { line, done: AtomicUsize::new(0), runs: AtomicUsize::new(0) }
    }

    /// Announces what is simulated next.
    pub(super) fn tell(&self, what: String) {
        if let Some(line) = &self.line {
            line.set_message(what);
        }
    }

    pub(super) fn begin_runs(&self, runs: usize) {
        // Relaxed: only displayed.
        self.done.store(0, Ordering::Relaxed);
        self.runs.store(runs, Ordering::Relaxed);
        self.show(0);
    }

    pub(super) fn end_run(&self) {
        self.show(self.done.fetch_add(1, Ordering::Relaxed) + 1);
    }

    fn show(&self, done: usize) {
        if let Some(line) = &self.line {
            line.set_prefix(format!("run {done}/{}", self.runs.load(Ordering::Relaxed)));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
