//! Loom models of the protocols, checked by `ci/loom.sh` or by
//! `RUSTFLAGS="--cfg loom" cargo test -p millpond --lib --release` over the interleavings with at
//! most two preemptions.
//!
//! The models run the shipping code, not a copy. Only `pool::take_one` repeats steps of the worker
//! loop, because whole pools with two workers have too many interleavings. Time does not pass in a
//! model: a timeout is the explicit step `ThreadContext::fire_timer`. The models of the pool and of
//! the schedulers use private items, so `pool/mod.rs` and `schedulers/engine/mod.rs` declare them.

mod completion;
mod handle;
mod interrupt;
mod queue;
#[cfg(feature = "futures")]
mod reactive;
mod rendezvous;

/// Explores the schedules of `f` with at most two preemptions, or `LOOM_MAX_PREEMPTIONS`.
pub(crate) fn model(f: impl Fn() + Send + Sync + 'static) {
    model_bound(2, f);
}

/// As `model`, for a model with too many schedules: explores only the first `schedules` of them.
pub(crate) fn model_first(schedules: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2));
    builder.max_permutations = Some(schedules);
    builder.check(f);
}

/// As `model`, with at least `preemptions` allowed preemptions.
pub(crate) fn model_bound(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2).max(preemptions));
    builder.check(f);
}
