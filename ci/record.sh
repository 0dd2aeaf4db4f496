#!/usr/bin/env bash
# Records traces with a reference player, or compares millpond with the reference on random scenarios.
#
#   ci/record.sh record FILE...          plays each FILE of scenarios and writes its traces beside it
#   ci/record.sh campaign SEEDS COUNT    compares both players on COUNT scenarios for each seed from 1 to SEEDS
#
# Paths are relative to the root of the repository. The variable REFERENCE must contain a command that reads scenarios
# from standard input and writes their traces, as `conform` does: `export REFERENCE='java -cp build Player'`. A campaign
# writes its scenarios and traces to target/conformance. To test them again, set CONFORMANCE_SCENARIOS to the absolute
# path of that directory and run `cargo test -p conformance`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    sed -n '2,10s/^#\( \|$\)//p' ci/record.sh >&2
    exit 2
}

# record FILE...: writes FILE.trace.jsonl for each FILE.jsonl.
record() {
    local file
    for file in "$@"; do
        $REFERENCE <"$file" >"${file%.jsonl}.trace.jsonl"
        if grep -m1 '"error"' "${file%.jsonl}.trace.jsonl"; then
            echo "record.sh: the reference could not play this scenario of $file" >&2
            exit 1
        fi
    done
}

# campaign SEEDS COUNT
campaign() {
    local seed file out=$PWD/target/conformance
    rm -rf "$out"
    mkdir -p "$out"
    for seed in $(seq 1 "$1"); do
        file="$out/campaign-$seed.jsonl"
        scenarios --seed "$seed" --count "$2" >"$file"
        scenarios --seed "$seed" --count $(($2 / 4)) --kind scheduled >>"$file"
        record "$file"
        # If the reference disagrees with itself, the generator has produced a scenario that is not deterministic.
        $REFERENCE <"$file" | cmp - "${file%.jsonl}.trace.jsonl"
    done
    # The skipped test is about the committed scenarios.
    CONFORMANCE_SCENARIOS="$out" cargo test --release -p conformance --test recorded --test model -- \
        --skip the_recorded_scenarios_reach_every_operation
}

scenarios() { cargo run --quiet --release -p conformance --bin scenarios -- "$@"; }

case "${1:-}" in
record) [ "$#" -ge 2 ] || usage ;;
campaign) [ "$#" -le 3 ] || usage ;;
*) usage ;;
esac
: "${REFERENCE:?must contain the command of a reference player}"
case "$1" in
record) shift && record "$@" ;;
campaign) campaign "${2:-3}" "${3:-2000}" ;;
esac
