#!/usr/bin/env bash
# Runs the models of the protocols (crates/millpond/src/loom_tests) over all interleavings.
#
# LOOM_MAX_PREEMPTIONS bounds the search: 2 takes seconds per model, 3 is for a long run. Arguments are added to the
# test filter's command line: `ci/loom.sh --exact loom_tests::pool::submit_against_shutdown`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}"
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"
if [ "$#" -gt 0 ]; then
    exec cargo test -p millpond --lib --release --target-dir target/loom -- "$@"
fi
exec cargo test -p millpond --lib --release --target-dir target/loom loom_tests
