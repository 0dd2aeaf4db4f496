#!/usr/bin/env bash
# Runs every test of every crate, with all features: unit tests, integration tests, examples (built), documentation examples.
# Needs a stable Rust toolchain and nothing else. Arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo test --workspace --all-features "$@"
