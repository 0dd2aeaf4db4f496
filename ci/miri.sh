#!/usr/bin/env bash
# Runs what Miri can do in a few minutes: the documentation examples, which use most of the library, and the tests of
# `scope`, the one room with `unsafe`. Miri finds undefined behaviour and data races.
#
# Needs a nightly toolchain with the component; without them it says so and does nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "miri: SKIPPED, because there is no Miri on this machine. To get it:"
    echo "    rustup toolchain install nightly --component miri,rust-src"
    exit 0
fi

# Leaks: a pool that is dropped ends without being waited for, so its threads may outlive `main`.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-ignore-leaks -Zmiri-disable-isolation"
miri=(cargo +nightly miri test -p millpond --all-features --target-dir target/miri)

"${miri[@]}" --doc "$@"
if [ -e crates/millpond/tests/scope.rs ]; then
    "${miri[@]}" --test scope "$@"
fi
# The ring's own test fills it with more items than Miri has patience for, and has no threads.
"${miri[@]}" --lib "$@" -- --skip ring::tests
