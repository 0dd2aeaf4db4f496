#!/usr/bin/env bash
# Checks that the benchmark works: one short workload with all contestants. An unoptimised build, so
# the figures are meaningless; `cargo run --release -p bench --bin versus` measures. Passes its
# arguments on to `versus`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo run -p bench --bin versus -- --quick --only rejection "$@"
