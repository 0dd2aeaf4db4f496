//! Models of the protocols, checked over all interleavings: `ci/loom.sh`, or
//! `RUSTFLAGS="--cfg loom" cargo test -p millpond --lib --release`.
//!
//! They run the shipping code, not a copy of it. Time does not pass in a model: a time-out is the explicit step
//! `Sleeper::fire_timer`. The models of the pool are in `pool.rs`, which is a module of the pool, for they
//! look inside it.

mod handle;
mod queue;

/// Walks through the schedules of `f` with at most two preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
pub(crate) fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    if builder.preemption_bound.is_none() {
        builder.preemption_bound = Some(2);
    }
    builder.check(f);
}
