#!/usr/bin/env bash
# Runs the unit tests and the tests of the one room with `unsafe` under Miri, which finds undefined behaviour and data
# races. Needs a nightly toolchain with the component; without them it says so and does nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "miri: SKIPPED, because there is no Miri on this machine. To get it:"
    echo "    rustup toolchain install nightly --component miri,rust-src"
    exit 0
fi

# Worker threads may outlive `main`: dropping a pool does not wait for them.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-ignore-leaks -Zmiri-disable-isolation"

cargo +nightly miri test -p millpond --target-dir target/miri --lib "$@"
cargo +nightly miri test -p millpond --target-dir target/miri --test scope "$@"
