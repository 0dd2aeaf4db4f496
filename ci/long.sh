#!/usr/bin/env bash
# Checks that take too long for CI. Runs every part, even after a failure, and prints a summary.
#
# Arguments select parts by name: `ci/long.sh miri layout`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

miri() { ci/miri.sh; }
models() { LOOM_MAX_PREEMPTIONS=3 ci/loom.sh; }
# Randomises the field order of structs: no code may depend on it. The compiler chooses the seed. The cfg skips tests of
# sizes, which include padding that depends on the order.
layout() {
    RUSTFLAGS="-Zrandomize-layout --cfg millpond_random_layout" cargo +nightly test -p millpond --all-features \
        --lib --tests --target-dir target/layout
}
# AddressSanitizer. The library returns all memory at once, because memory kept for reuse would hide a use after free.
# Leaks are ignored, as under Miri: values of bad environment variables are leaked, and threads may outlive `main`.
asan() {
    ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS="--cfg millpond_plain_alloc -Zsanitizer=address" cargo +nightly test \
        -p millpond --all-features --target x86_64-unknown-linux-gnu --lib --tests --target-dir target/asan
}
stress() { BUSY=2 ci/stress.sh 20; }
fuzz() { ci/fuzz.sh; }
# A hundred million tasks: resident memory stays flat, and every task is in the figures.
soak() { cargo test --release -p millpond --test stress -- --ignored --nocapture soak; }
# 4000 pairs of a pool that `plan` recommends and a fresh seed: at least 98 % of each 1000 hold.
plans() { cargo test --release -p millpond-cli --lib -- --ignored --nocapture usual_length; }
# Durable tasks: the simulation with 100,000 seeds, 100 kills over 100,000 tasks, and a soak of ten minutes.
durable() {
    MILLPOND_SIM_SEEDS=100000 cargo test --release -p millpond-cluster --lib sim &&
        ci/cluster-kill.sh && ci/cluster-soak.sh
}

[ "$#" -gt 0 ] || set -- miri models layout asan stress fuzz soak plans durable
summary="" failed=0
for part in "$@"; do
    begin=$SECONDS
    printf '\n==> %s: %s\n' "$part" "$(declare -f "$part" | sed '1,2d;$d' | tr -s ' \n' ' ')"
    if "$part"; then result=passed; else
        result=FAILED
        failed=1
    fi
    summary+="$(printf '%-8s %s in %d s' "$part" "$result" $((SECONDS - begin)))"$'\n'
done
printf '\n%s' "$summary"
exit "$failed"
