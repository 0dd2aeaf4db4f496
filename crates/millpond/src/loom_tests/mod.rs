//! Models of the protocols, checked over all interleavings: `RUSTFLAGS="--cfg loom" cargo test --lib --release`.
//!
//! `LOOM_MAX_PREEMPTIONS=2` keeps each model within seconds. Time does not pass in a model: a time-out is the explicit
//! step `Sleeper::fire_timer`.

mod queue;
