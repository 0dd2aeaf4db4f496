#!/usr/bin/env bash
# Runs all tests of all crates with all features: unit, integration and documentation tests. Builds
# the examples. Needs only a stable Rust toolchain. Passes its arguments on to `cargo test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo test --workspace --all-features "$@"
