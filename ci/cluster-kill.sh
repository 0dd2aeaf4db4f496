#!/usr/bin/env bash
# Kills and stops workers of a cluster on one SQLite file, and accounts for every task: no task is lost or has two outcomes.
# Then measures how soon another worker starts the tasks of a killed one, with the shortest and with the default lease. The
# limit is 1.2 leases after the last renewal, by the engine's clock.
#
#     ci/cluster-kill.sh                        100 kills, 20 stops beyond the lease, 100,000 tasks, three workers
#     ci/cluster-kill.sh TASKS KILLS STOPS      fewer or more
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tasks="${1:-100000}"
kills="${2:-100}"
stops="${3:-20}"
for number in "$tasks" "$kills" "$stops"; do
    case "$number" in
    '' | *[!0-9]*)
        echo "cluster-kill: '$number' is not a number" >&2
        exit 2
        ;;
    esac
done

cargo build --release -p millpond-cluster --example chaos
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
target="${CARGO_TARGET_DIR:-target}"
chaos="$target/release/examples/chaos"
"$chaos" run "$folder/jobs.db" "$tasks" "$kills" "$stops"
"$chaos" takeover "$folder/short.db" 1 10
"$chaos" takeover "$folder/default.db" 30 1
echo "cluster-kill: passed"
