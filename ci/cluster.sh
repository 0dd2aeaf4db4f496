#!/usr/bin/env bash
# A short version of ci/cluster-kill.sh, and the simulation with more seeds than in `cargo test`.
# About three minutes after the build, one of them for a lease of 30 seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MILLPOND_SIM_SEEDS="${MILLPOND_SIM_SEEDS:-3000}" cargo test --release -p millpond-cluster --lib sim
ci/cluster-kill.sh 10000 15 4
