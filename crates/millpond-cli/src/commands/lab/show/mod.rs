//! Presents records: on the terminal, as SVG, as an HTML page, as a trace, as JSON. Makes no
//! decisions.

mod admissions;
pub(super) mod compare;
pub(super) mod figure;
pub(super) mod page;
mod palette;
pub(super) mod text;
mod timeline;
pub(super) mod trace;

use std::time::Duration;

use super::record::{Record, percentile};
use super::workload::Figure;
use crate::units;

/// A workload that was played.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Played {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) compare: bool,
    pub(crate) verdict: Option<String>,
    pub(crate) scenes: Vec<Record>,
}

/// Number, rate and waiting times of the tasks that ran, in one sentence.
fn summary(record: &Record) -> String {
    let ran = record.figure(Figure::Ran);
    let waits = record.waits();
    let mut text = count(ran as usize, "task") + " ran";
    let runs = record.tasks.iter().map(|task| task.runs.len() as u64).sum::<u64>();
    if runs > ran {
        text.push_str(&format!(" {}", count(runs as usize, "time")));
    }
    text.push_str(&format!(" in {}", units::show(record.makespan())));
    if ran > 1 && record.throughput() > 0.0 {
        text.push_str(&format!(" ({:.3}/s)", Significant(record.throughput())));
    }
    if !waits.is_empty() {
        let wait = |share| units::show(percentile(&waits, share));
        text.push_str(&format!("; wait p50 {}, p99 {}", wait(0.5), wait(0.99)));
    }
    text.push_str(&format!("; at most {}.", count(record.peak_threads, "thread")));
    text
}

/// `1 task`, `2 tasks`.
pub(super) fn count(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", units::show_count(n as u64))
}

/// A number with as many significant digits as the format's precision.
struct Significant(f64);

impl std::fmt::Display for Significant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(3) as i32;
        let before_point = self.0.abs().max(1e-9).log10().floor() as i32 + 1;
        let after_point = (digits - before_point).clamp(0, 6) as usize;
        write!(f, "{:.after_point$}", self.0)
    }
}

/// The end of the picture: of the last step or the last run.
fn picture_end(record: &Record) -> Duration {
    let runs = record.tasks.iter().flat_map(|task| &task.runs).map(|run| run.end);
    runs.chain([record.end]).max().unwrap_or_default()
}
