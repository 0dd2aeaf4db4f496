#!/usr/bin/env bash
# Runs the models of the protocols (crates/millpond/src/loom_tests), over the interleavings with few preemptions.
#
# LOOM_MAX_PREEMPTIONS limits the preemptions: 2 (the default) takes seconds per model, 3 is for a long run. Models of
# `model_first` also stop after a number of schedules. Arguments select models by a part of their name:
# `ci/loom.sh submit_against_shutdown`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}"
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"

# Other crates with models build the library under this flag, too, without loom.
cargo check -q -p millpond --all-features --lib --target-dir target/loom

# The models are in the module `loom_tests` and, for the pool and the schedulers, in modules whose names end in
# `models`.
[ "$#" -gt 0 ] || set -- loom_tests models
exec cargo test -p millpond --all-features --lib --release --target-dir target/loom -- "$@"
