#!/usr/bin/env bash
# Runs Miri, which detects undefined behaviour and data races, on every module with `unsafe`.
#
#   ci/miri.sh            everything, many schedules per test: fails after more than fifteen minutes
#   ci/miri.sh --short    the same modules, few schedules: two to three minutes
#   ci/miri.sh --install  installs Miri for the nightly toolchain first; goes with --short
#
# Without Miri it prints a message and does nothing. Slabs and spare segments are disabled under
# Miri, so that it detects a use after free.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

most_seconds=900 # of the full run
short=false install=false
for option in "$@"; do
    case $option in
    --short) short=true ;;
    --install) install=true ;;
    *) echo "miri: unknown option $option" >&2 && exit 2 ;;
    esac
done

has_miri() { cargo +nightly miri --version >/dev/null 2>&1; }
if ! has_miri && $install; then
    rustup toolchain install nightly --profile minimal --component miri,rust-src || true
fi
if ! has_miri; then
    echo "miri: SKIPPED, because there is no nightly toolchain with Miri. To get it:"
    echo "    rustup toolchain install nightly --component miri,rust-src"
    exit 0
fi

# Each file with unsafe code, and the tests that run it: unit tests, or an integration test. `-`
# marks code that Miri cannot run, `threads` multi-threaded tests, which run with many seeds.
modules="
    sync/spin_lock.rs                sync::spin_lock::tests            threads
    task/raw.rs             task::raw::tests        threads
    task/raw.rs             schedulers::job::tests  threads
    task/slab.rs            task::slab::tests
    pool/scope.rs           --test=task
    pool/queue/segments.rs        pool::queue::segments::tests
    pool/queue/segments.rs        pool::queue::fifo::tests       threads
    pool/queue/delayed.rs   scheduled::tests        threads
    sys.rs                  -
    task/packed.rs          task::packed::tests
    task/closure.rs           task::closure::tests
"

missing=false
for file in $(cd crates/millpond/src && grep -rlE '\bunsafe (\{|fn|impl|extern|trait)' . | grep -v tests.rs | sort); do
    grep -qE "^ +${file#./} " <<<"$modules" || { echo "miri: no test is named for ${file#./}" && missing=true; }
done
$missing && exit 1

# Leaks are ignored: dropping a pool does not wait for its threads, which may outlive `main`.
flags="-Zmiri-strict-provenance -Zmiri-ignore-leaks -Zmiri-disable-isolation ${MIRIFLAGS:-}"

# miri NAME SEEDS ARGUMENT...: runs Miri once and prints the time. A test that does not end is killed.
miri() {
    local name="$1" seeds="$2" begin=$SECONDS
    shift 2
    echo "--> $name, seeds $seeds"
    MIRIFLAGS="$flags -Zmiri-many-seeds=$seeds" timeout --foreground "$((2 * most_seconds))" \
        cargo +nightly miri test -q -p millpond --all-features --target-dir target/miri "$@" || {
        echo "miri: FAILED in $name after $((SECONDS - begin)) s" >&2
        exit 1
    }
    echo "--> $name: $((SECONDS - begin)) s"
}

mapfile -t units < <(awk '$2 ~ /::/ { print $2 }' <<<"$modules" | sort -u)
mapfile -t threads < <(awk '$3 == "threads" { print $2 }' <<<"$modules" | sort -u)

if $short; then
    miri "unit tests" 0..1 --lib -- "${units[@]}"
    miri "tests with threads" 1..3 --lib -- "${threads[@]}"
    miri "scope" 0..1 --test task -- scope::
    echo "miri: all passed in $SECONDS s"
    exit 0
fi

miri "unit tests" 0..4 --lib -- "${units[@]}"
miri "tests with threads" 4..32 --lib -- "${threads[@]}"
miri "scope" 0..8 --test task -- scope:: scope_hostile::
miri "documentation examples" 0..1 --doc
# On 32-bit targets a packed task has another layout.
miri "32 bits" 0..1 --target i686-unknown-linux-gnu --lib -- "${units[@]}"
echo "miri: all passed in $SECONDS s"
if [ "$SECONDS" -gt "$most_seconds" ]; then
    echo "miri: FAILED: more than $most_seconds s; take fewer seeds or smaller tests" >&2
    exit 1
fi
