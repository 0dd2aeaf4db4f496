//! Live progress on stderr, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::play::Glance;
use super::show::count;
use crate::term;
use crate::units;

/// A progress line for a scene, removed on drop.
#[derive(Debug)]
pub(super) struct Progress {
    line: Option<ProgressBar>,
}

impl Progress {
    /// Starts the line: name of the workload, number of the scene and of all scenes, title.
    pub(super) fn begin(workload: &str, (number, of): (usize, usize), title: &str) -> Progress {
        if !term::stderr().is_terminal {
            return Progress { line: None };
        }
        let line = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {prefix}  {wide_msg}");
        line.set_style(style.expect("the template is sound"));
        let which = if of > 1 { format!(" {number}/{of}") } else { String::new() };
        line.set_prefix(cut(&format!("{workload}{which}: {title}")));
        line.enable_steady_tick(Duration::from_millis(100));
        Progress { line: Some(line) }
    }

    /// Returns the callback for the player's progress reports.
    pub(super) fn onlooker(&self) -> Option<impl Fn(Glance) + Sync> {
        self.line.as_ref().map(|line| {
            |glance: Glance| {
                line.set_message(format!(
                    "{}, {} of {} done, {}, {} queued",
                    units::show(glance.at),
                    glance.over,
                    glance.tasks,
                    count(glance.threads, "thread"),
                    glance.queued
                ));
            }
        })
    }
}

/// Shortens the text, so that 80 columns have room for the numbers. A line that the terminal wraps
/// cannot be removed.
fn cut(text: &str) -> String {
    const MOST: usize = 22;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
