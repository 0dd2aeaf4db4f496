#!/usr/bin/env bash
# Records traces with a reference player, or compares ours with the reference's.
#
#   REFERENCE='java -cp build Player' ./record.sh record FILE...   writes FILE's traces beside it
#   REFERENCE='java -cp build Player' ./record.sh campaign SEEDS COUNT   random scenarios, both players
#
# REFERENCE is a command that reads scenarios from standard input and writes their traces, as `conform` does.
# A campaign leaves scenarios and traces in target/conformance, where `cargo test` can be pointed to them.
set -euo pipefail
: "${REFERENCE:?set it to the command of a reference player}"
crate=$(cd "$(dirname "$0")" && pwd)
out=$crate/../../target/conformance

record() {
    for file in "$@"; do
        $REFERENCE < "$file" > "${file%.jsonl}.trace.jsonl"
        if grep -m1 '"error"' "${file%.jsonl}.trace.jsonl"; then
            echo "record.sh: the reference could not play that one of $file" >&2
            exit 1
        fi
    done
}

# A scenario on which the reference disagrees with itself is outside the domain: the generator is to blame.
campaign() {
    cd "$crate"
    rm -rf "$out" && mkdir -p "$out"
    for seed in $(seq 1 "$1"); do
        local file="$out/campaign-$seed.jsonl"
        cargo run --quiet --release --bin scenarios -- --seed "$seed" --count "$2" > "$file"
        cargo run --quiet --release --bin scenarios -- --seed "$seed" --count $(($2 / 4)) --kind scheduled >> "$file"
        record "$file"
        $REFERENCE < "$file" | cmp - "${file%.jsonl}.trace.jsonl"
    done
    CONFORMANCE_SCENARIOS="$out" cargo test --release --test recorded --test model
}

case "${1:-}" in
    record) shift && record "$@" ;;
    campaign) campaign "${2:-3}" "${3:-2000}" ;;
    *) sed -n '2,8p' "$0" >&2 && exit 2 ;;
esac
