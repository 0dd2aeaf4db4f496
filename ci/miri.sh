#!/usr/bin/env bash
# Runs what Miri can do in some minutes: the documentation examples, which use most of the library, the tests of `scope`, and
# the unit tests, which are where the other rooms with `unsafe` are. Miri finds undefined behaviour and data races.
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
"${miri[@]}" --test scope --test scope_hostile "$@"
# The ring's own test fills it with more items than Miri has patience for, and has no threads.
"${miri[@]}" --lib "$@" -- --skip ring::tests

# A race is found only if it happens: where threads meet in memory that no lock guards alone, other schedules too.
threads=(synchronous::tests fifo::tests::put_take_remove fifo::tests::the_bound fifo::tests::exactly brief::tests slot::tests
    shared::tests)
MIRIFLAGS="$MIRIFLAGS -Zmiri-many-seeds=0..4" "${miri[@]}" --lib "$@" -- "${threads[@]}"

# Where words have 32 bits a packed task has another shape.
"${miri[@]}" --target i686-unknown-linux-gnu --lib "$@" -- small::tests packed::tests segments::tests shared::tests \
    slab::tests
