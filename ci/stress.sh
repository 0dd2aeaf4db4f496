#!/usr/bin/env bash
# Runs all tests N times (default 20) while busy loops load every core. Stops at the first failure.
#
#     ci/stress.sh 50
#
# BUSY is the number of busy loops, by default two per core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs="${1:-20}"
case "$runs" in
'' | *[!0-9]* | 0)
    echo "stress: '$runs' is not a number of runs above 0" >&2
    exit 2
    ;;
esac
busy="${BUSY:-$((2 * $(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)))}"

cargo test --workspace --all-features --no-run

log="$(mktemp)"
loops=()
clean_up() {
    for loop in "${loops[@]:-}"; do
        [ -z "$loop" ] || kill "$loop" 2>/dev/null || true
    done
    rm -f "$log"
}
trap clean_up EXIT

for ((i = 0; i < busy; i++)); do
    (while :; do :; done) &
    loops+=("$!")
done

for ((run = 1; run <= runs; run++)); do
    begin=$SECONDS
    if ! cargo test --workspace --all-features --no-fail-fast >"$log" 2>&1; then
        cat "$log"
        echo "stress: run $run of $runs FAILED after $((SECONDS - begin)) s, with $busy busy loops" >&2
        exit 1
    fi
    echo "stress: run $run of $runs passed in $((SECONDS - begin)) s"
done
