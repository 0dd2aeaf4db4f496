#!/usr/bin/env bash
# What takes longer than CI may. Runs every part, also after one that failed, and ends with a summary.
#
# Arguments, if any, choose parts by name: `ci/long.sh miri layout`.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

miri() { ci/miri.sh; }
models() { LOOM_MAX_PREEMPTIONS=3 ci/loom.sh; }
# Fields of Rust's own structs in another order: nothing may depend on it. The seed is the compiler's.
layout() {
    RUSTFLAGS="-Zrandomize-layout" cargo +nightly test -p millpond --all-features --lib --tests \
        --target-dir target/layout
}
stress() { BUSY=2 ci/stress.sh 20; }

[ "$#" -gt 0 ] || set -- miri models layout stress
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
