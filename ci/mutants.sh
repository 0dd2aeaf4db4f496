#!/usr/bin/env bash
# Tests the models: applies the faults of ci/mutants.txt to a copy of the code, each behind a
# switch, builds it once, and runs the model of each fault with that fault enabled. Each model must
# fail. A model that exceeds the time limit has missed its fault: loom itself detects deadlocks.
#
# Arguments select faults by a part of their name: `ci/mutants.sh cancel`. The last line is
# `N passed, M failed`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit=180 # seconds per model: the slowest takes a few seconds on an idle machine
tree=target/mutants
rm -rf "$tree"
mkdir -p "$tree/log"
cp -rp Cargo.toml Cargo.lock crates "$tree/"

# Applies the table and lists `NAME MODEL` per fault. Reports all faults that do not apply.
awk -v source="$tree/crates/millpond/src/" -v list="$tree/faults" '
    function fail(what) { printf "mutants.txt:%d: %s: %s\n", NR, name, what > "/dev/stderr"; failed = 1 }
    # The text of a file, without indentation.
    function load(path,    line, all) {
        if (path in text) return
        all = ""
        while ((getline line < path) > 0) { sub(/^[ \t]+/, "", line); all = all line "\n" }
        close(path)
        if (all == "") fail("there is no " path)
        text[path] = all
    }
    # Applies the replacement collected since the last one.
    function apply(    at, rest) {
        if (find == "") return
        at = index(text[path], find)
        rest = at ? substr(text[path], at + length(find)) : ""
        if (!at) fail("not found in " path ":\n" find)
        else if (index(rest, find)) fail("found more than once in " path ":\n" find)
        else text[path] = substr(text[path], 1, at - 1) replace rest
        find = replace = ""
    }
    function trimmed(line) { sub(/^[-+][ \t]*/, "", line); return line }
    /^#/ || /^[ \t]*$/ { next }
    /^-/ { if (replace != "") apply(); find = (find == "" ? "" : find "\n") trimmed($0); next }
    /^\+/ {
        line = trimmed($0)
        gsub(/FAULT/, "crate::sync::seeded(\"" name "\")", line)
        replace = (replace == "" ? "" : replace "\n") line
        next
    }
    $1 == "fault" { apply(); name = $2; if (name in known) fail("named twice"); known[name] = 1; next }
    $1 == "model" { print name, $2 > list; next }
    $1 == "file" { apply(); path = source $2; load(path); next }
    { fail("not understood: " $0) }
    END {
        apply()
        if (failed) exit 1
        for (path in text) { printf "%s", text[path] > path; close(path) }
    }' ci/mutants.txt

cat >>"$tree/crates/millpond/src/sync/mod.rs" <<'RUST'

/// True if the environment names this fault.
pub(crate) fn seeded(name: &str) -> bool {
    static SEEDED: OnceLock<Option<String>> = OnceLock::new();
    SEEDED.get_or_init(|| std::env::var("MILLPOND_FAULT").ok()).as_deref() == Some(name)
}
RUST

export RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 RUST_BACKTRACE=0
cargo test -p millpond --all-features --lib --release --no-run --manifest-path "$tree/Cargo.toml" \
    --target-dir target/loom >"$tree/log/build" 2>&1 || true
program=$(sed -n 's/.*Executable unittests .*(\(.*\))$/\1/p' "$tree/log/build")
[ -x "$program" ] || { echo "mutants: the changed code does not compile:"; cat "$tree/log/build"; exit 1; }

# try NAME MODEL: runs one model with one fault.
try() {
    local status=0
    # The braces hide the shell's message about an abort: a model may fail while unwinding.
    { MILLPOND_FAULT="$1" timeout "$limit" "$program" "$2" >"$tree/log/$1" 2>&1 || status=$?; } 2>/dev/null
    case $status in
    0) echo "MISSED $1" ;;
    124) echo "MISSED $1 (no end within $limit s)" ;;
    *) echo "caught $1" ;;
    esac
}
export -f try
export limit tree program

for word in "${@:-}"; do awk -v word="$word" 'index($1, word)' "$tree/faults"; done | sort -u |
    xargs -r -P "$(nproc)" -L 1 bash -c 'try "$@"' try | tee "$tree/result"
caught=$(grep -c '^caught' "$tree/result" || true)
missed=$(grep -c '^MISSED' "$tree/result" || true)
echo "$caught passed, $missed failed"
[ "$caught" -gt 0 ] && [ "$missed" -eq 0 ]
