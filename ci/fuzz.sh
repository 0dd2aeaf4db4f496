#!/usr/bin/env bash
# Runs each fuzz target of fuzz/ for a while: ci/fuzz.sh [SECONDS [TARGET...]], 60 seconds by default.
#
# Needs nightly and cargo-fuzz. If one of them is missing, it prints a message and succeeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds="${1:-60}"
shift || true
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: SKIPPED, no nightly toolchain; install it with 'rustup toolchain install nightly'"
    exit 0
fi
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz: SKIPPED, no cargo-fuzz; install it with 'cargo install cargo-fuzz'"
    exit 0
fi

# Start from valid input: the built-in workloads, and phrases from the guides.
seed() {
    local corpus="fuzz/corpus/$1"
    mkdir -p "$corpus"
    case "$1" in
    lab_workload) cp crates/millpond-cli/workloads/*.toml "$corpus" ;;
    plan_words) printf 'poisson 200/s\nexponential 20ms\nfixed 5\n0.1%%\n100ms\n1,10\n10s\n' >"$corpus/seed" ;;
    run_template)
        printf '\1echo "{}" $(cat {.}) # {/}' >"$corpus/shell"
        printf '\2convert\0{}\0{#}\0[0-9]{3}' >"$corpus/words"
        ;;
    job_log) printf '1\t1.0\t0.5\t1\tok\techo a\n' >"$corpus/seed" ;;
    esac
}

[ "$#" -gt 0 ] || set -- run_template job_log plan_words lab_workload queues
for target in "$@"; do
    seed "$target"
    printf '\n==> %s for %d s\n' "$target" "$seconds"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1
done
