//! Live progress on stderr, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::play::Glance;
use crate::term;
use crate::units;

/// One line that tells how far a scene is, and goes away with it.
#[derive(Debug)]
pub(super) struct Progress {
    line: Option<ProgressBar>,
}

impl Progress {
    /// Begins the line for a scene.
    pub(super) fn begin(workload: &str, scene: &str) -> Progress {
        if !term::stderr().is_terminal {
            return Progress { line: None };
        }
        let line = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {prefix}  {wide_msg}");
        line.set_style(style.expect("the template is sound"));
        line.set_prefix(prefix(workload, scene));
        line.enable_steady_tick(Duration::from_millis(100));
        Progress { line: Some(line) }
    }

    /// Whom the player should tell.
    pub(super) fn onlooker(&self) -> Option<impl Fn(Glance) + Sync> {
        self.line.as_ref().map(|line| {
            |glance: Glance| {
                line.set_message(format!(
                    "{}  {} of {} done, {} threads, {} queued",
                    units::show(glance.at),
                    glance.over,
                    glance.tasks,
                    glance.threads,
                    glance.queued
                ));
            }
        })
    }
}

/// Cut short: a line that is broken by the terminal cannot be taken away again.
fn prefix(workload: &str, scene: &str) -> String {
    const MOST: usize = 32;
    let whole = if scene.is_empty() { workload.to_owned() } else { format!("{workload}: {scene}") };
    match whole.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}...", whole[..cut].trim_end()),
        None => whole,
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
