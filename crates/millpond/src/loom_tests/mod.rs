//! Models of the protocols, checked over all interleavings: `ci/loom.sh`, or
//! `RUSTFLAGS="--cfg loom" cargo test -p millpond --lib --release`.
//!
//! They run the shipping code, not a copy of it. Time does not pass in a model: a time-out is the explicit step
//! `ThreadContext::fire_timer`. The models of the pool are in `pool.rs`, which is a module of the pool, for they
//! look inside it.

mod handle;
mod interrupt;
mod queue;
#[cfg(feature = "futures")]
mod reactive;
mod rendezvous;

/// Walks through the schedules of `f` with at most two preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
pub(crate) fn model(f: impl Fn() + Send + Sync + 'static) {
    model_bound(2, f);
}

/// As `model`, for one with more schedules than anybody can wait for: walks through the first so many of them.
pub(crate) fn model_first(schedules: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2));
    builder.max_permutations = Some(schedules);
    builder.check(f);
}

/// As `model`, with at least `preemptions`.
pub(crate) fn model_bound(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2).max(preemptions));
    builder.check(f);
}
