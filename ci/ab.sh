#!/usr/bin/env bash
# Compares the speed of the library with that of another commit:
#
#   ci/ab.sh BASE [-- ARGUMENTS OF versus]
#   ci/ab.sh HEAD~3 -- --quick --only round-trip burst
#
# Builds `versus` with the library of BASE in target/ab and runs both builds in turn. Prints both
# medians and their ratio for every figure of millpond.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -ge 1 ] || { echo "usage: ci/ab.sh BASE [-- ARGUMENTS OF versus]" >&2; exit 2; }
commit=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "ab: no commit is called $1" >&2; exit 2; }
shift
[ "${1:-}" != -- ] || shift

ab=target/ab
rm -rf "$ab/source" "$ab/own-bench"
mkdir -p "$ab/source"
# New modification times (-m), so that cargo sees the differences to an earlier BASE.
git archive "$commit" | tar -xm -C "$ab/source"
# Both builds use the current benchmark, unless it does not compile with the library of BASE.
mv "$ab/source/crates/bench" "$ab/own-bench"
cp -r crates/bench "$ab/source/crates/bench"
cp Cargo.lock "$ab/source/Cargo.lock"
build() {
    cargo build --release --manifest-path "$ab/source/Cargo.toml" --target-dir "$ab/target" -p bench --bin versus
}
if ! build; then
    echo "ab: the benchmark does not build with that library; using the benchmark of BASE" >&2
    rm -rf "$ab/source/crates/bench"
    mv "$ab/own-bench" "$ab/source/crates/bench"
    build
fi
rm -rf "$ab/own-bench"
cargo build --release -p bench --bin versus
echo "base: $(git log -1 --format='%h %s' "$commit")"
exec target/release/versus --against "$ab/target/release/versus" "$@"
