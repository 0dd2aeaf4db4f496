#!/usr/bin/env bash
# Runs a durable queue for a long time, and on a full disk: memory and files do not grow, no accepted task is lost.
#
#     ci/cluster-soak.sh            ten minutes
#     ci/cluster-soak.sh SECONDS    shorter or longer
#
# The full disk is a file system of 3 MiB in memory, in its own mount namespace. Where the system forbids that, the script
# prints a message; tests/processes.rs has the same test with a limit of SQLite.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo build --release -p millpond-cluster --example soak
soak="$(realpath "${CARGO_TARGET_DIR:-target}")/release/examples/soak"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

if unshare --map-root-user --mount true 2>/dev/null; then
    unshare --map-root-user --mount sh -c 'mount -t tmpfs -o size=3m none "$1" && "$2" fill "$1"' sh "$folder" "$soak"
else
    echo "SKIPPED (no mount namespaces): the full disk" >&2
fi
"$soak" run "$folder/jobs.db" "${1:-600}"
echo "cluster-soak: passed"
