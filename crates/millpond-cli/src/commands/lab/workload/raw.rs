//! A workload file as serde parses it, before any check.

use serde::Deserialize;
use toml::Spanned;

use super::words::{Bound, Length, Policy, Queue, Rate, Time};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawWorkload {
    pub(super) about: Option<String>,
    #[serde(default)]
    pub(super) compare: bool,
    pub(super) verdict: Option<String>,
    #[serde(default)]
    pub(super) scene: Vec<RawScene>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawScene {
    pub(super) title: Option<String>,
    pub(super) says: Option<String>,
    pub(super) group: Option<String>,
    #[serde(default)]
    pub(super) seed: u64,
    pub(super) pool: Spanned<RawPool>,
    #[serde(default)]
    pub(super) tasks: Vec<Spanned<RawTask>>,
    pub(super) steps: Spanned<Vec<Spanned<RawStep>>>,
    #[serde(default)]
    pub(super) expect: RawExpect,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawKind {
    #[default]
    Pool,
    Fixed,
    Cached,
    Scheduled,
    BoundedElastic,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawPool {
    #[serde(default)]
    pub(super) kind: RawKind,
    pub(super) threads: Option<usize>,
    pub(super) core: Option<usize>,
    pub(super) max: Option<usize>,
    pub(super) keep_alive: Option<Time>,
    #[serde(default)]
    pub(super) core_time_out: bool,
    pub(super) queue: Option<Queue>,
    pub(super) queue_per_thread: Option<usize>,
    pub(super) policy: Option<Policy>,
    #[serde(default)]
    pub(super) eager: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct RawTask {
    pub(super) name: Option<String>,
    pub(super) weight: Option<f64>,
    pub(super) takes: Option<Length>,
    pub(super) computes: Option<Length>,
    pub(super) priority: Option<i32>,
    pub(super) delay: Option<Time>,
    pub(super) nested: Option<usize>,
    pub(super) ignores_interrupts: Option<bool>,
    pub(super) panics: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct RawStep {
    pub(super) says: Option<String>,
    // Exactly one of these, which decides what the step does.
    pub(super) submit: Option<Spanned<usize>>,
    pub(super) during: Option<Time>,
    pub(super) series: Option<usize>,
    pub(super) wait: Option<Time>,
    pub(super) until_idle: Option<bool>,
    pub(super) until_threads: Option<usize>,
    pub(super) prestart: Option<RawPrestart>,
    pub(super) set: Option<RawSettings>,
    pub(super) shutdown: Option<RawShutdown>,
    pub(super) look: Option<bool>,
    // Further keys of `submit`, `during` and `series`.
    pub(super) rate: Option<Rate>,
    pub(super) poisson: Option<Rate>,
    pub(super) ramp: Option<(Rate, Rate)>,
    pub(super) hold: Option<bool>,
    pub(super) lane: Option<String>,
    pub(super) fixed_rate: Option<Time>,
    pub(super) fixed_delay: Option<Time>,
    pub(super) missed: Option<RawMissed>,
    pub(super) initial: Option<Time>,
    // A task that replaces the scene's mix.
    pub(super) name: Option<String>,
    pub(super) takes: Option<Length>,
    pub(super) computes: Option<Length>,
    pub(super) priority: Option<i32>,
    pub(super) delay: Option<Time>,
    pub(super) nested: Option<usize>,
    pub(super) ignores_interrupts: Option<bool>,
    pub(super) panics: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number of threads, or \"all\"")]
pub(super) enum RawPrestart {
    Some(usize),
    Word(RawAll),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawAll {
    All,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawSettings {
    pub(super) core: Option<usize>,
    pub(super) max: Option<usize>,
    pub(super) keep_alive: Option<Time>,
    pub(super) core_time_out: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawShutdown {
    pub(super) grace: Option<Time>,
    pub(super) force: Option<Time>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawMissed {
    CatchUp,
    Coalesce,
    Skip,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RawOutcome {
    Drained,
    Interrupted,
    StillRunning,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct RawExpect {
    pub(super) core_threads: Option<Bound>,
    pub(super) extra_threads: Option<Bound>,
    pub(super) new_threads: Option<Bound>,
    pub(super) queued: Option<Bound>,
    pub(super) idle_threads: Option<Bound>,
    pub(super) ran_in_caller: Option<Bound>,
    pub(super) rejected: Option<Bound>,
    pub(super) discarded: Option<Bound>,
    pub(super) waited: Option<Bound>,
    pub(super) ran: Option<Bound>,
    pub(super) completed: Option<Bound>,
    pub(super) interrupted: Option<Bound>,
    pub(super) panicked: Option<Bound>,
    pub(super) never_run: Option<Bound>,
    pub(super) peak_threads: Option<Bound>,
    pub(super) threads_at_end: Option<Bound>,
    pub(super) outcome: Option<RawOutcome>,
    pub(super) order: Option<Vec<String>>,
    pub(super) threads_after_steps: Option<Vec<Bound>>,
}
