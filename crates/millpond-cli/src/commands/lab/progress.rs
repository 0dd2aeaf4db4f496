//! Live progress on stderr, if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::play::Glance;
use super::show::count;
use crate::term;
use crate::units;

/// One line that tells how far a scene is, and goes away with it.
#[derive(Debug)]
pub(super) struct Progress {
    line: Option<ProgressBar>,
}

impl Progress {
    /// Begins the line for a scene: the name of its workload, which scene of how many it is, its
    /// title.
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

    /// Receives the progress of the player.
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

/// Cut short, so that 80 columns have room for what changes; and a line that is broken by the
/// terminal cannot be taken away again.
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
