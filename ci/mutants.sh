#!/usr/bin/env bash
# Runs the loom models with one seeded fault at a time and checks that they notice each.
set -euo pipefail
cd "$(dirname "$0")/.."

mutants=(
    sleep_without_fence
    sleep_without_looking
    sleep_through_shutdown
    time_out_regardless
    keep_the_call
    leave_without_looking
    publish_and_hope
    guess_room
    interrupt_whatever_runs
    stay_listed_as_idle
    start_a_running_lane
    park_without_looking
    forget_the_line
    call_nobody
    clear_the_bell_late
    leave_the_timer
    trust_the_leader
    lead_for_ever
    keep_the_lead
    oversleep
    end_alone
    keep_what_waits
    run_again_regardless
    forget_the_place
    forget_the_notice
)

export RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2
models=(cargo test -q -p millpond --all-features --lib --release --target-dir target/loom)
"${models[@]}" --no-run

missed=0
for mutant in "${mutants[@]}"; do
    # A model that fails may do so while it unwinds, and abort: any failure counts.
    if MILLPOND_MUTANT="$mutant" RUST_BACKTRACE=0 "${models[@]}" >/dev/null 2>&1; then
        echo "MISSED  $mutant"
        missed=$((missed + 1))
    else
        echo "caught  $mutant"
    fi
done
echo "$((${#mutants[@]} - missed)) passed, $missed failed"
[ "$missed" -eq 0 ]
