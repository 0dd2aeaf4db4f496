#!/usr/bin/env bash
# A short run of what ci/cluster-kill.sh does at length, and of the simulation with more seeds than `cargo test` takes.
# About three minutes after the build, one of them for a lease of 30 seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MILLPOND_SIM_SEEDS="${MILLPOND_SIM_SEEDS:-3000}" cargo test --release -p millpond-cluster --lib sim
ci/cluster-kill.sh 10000 15 4
