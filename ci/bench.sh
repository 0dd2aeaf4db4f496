#!/usr/bin/env bash
# Shows that the benchmark works: one short workload, with all that take part in it. Not built for speed, so its
# figures mean nothing; `cargo run --release -p bench --bin versus` measures. Arguments are further ones for `versus`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo run -p bench --bin versus -- --quick --only rejection "$@"
