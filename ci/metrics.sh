#!/usr/bin/env bash
# Checks the exporters, the alert rules and the Grafana board with `promtool`, the tool of Prometheus.
#
#   ci/metrics.sh            with the promtool of the search path, or one installed by --install
#   ci/metrics.sh --install  gets promtool first: unpacks Debian's package `prometheus` into target/tools
#
# Without promtool it prints a message and does nothing: `cargo test` has its own checks of the same text.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$PWD/target/tools
PATH=$PATH:$tools/usr/bin

# Unpacked, not installed in the system, so no root rights are needed.
install() {
    mkdir -p "$tools"
    (cd "$tools" && apt-get download -qq prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb)
}

case "${1:-}" in
--install) command -v promtool >/dev/null || install || echo "metrics: promtool could not be installed" >&2 ;;
"") ;;
*) echo "metrics: unknown option $1" >&2 && exit 2 ;;
esac

if ! PROMTOOL=$(command -v promtool); then
    echo "metrics: SKIPPED, because there is no promtool. It is part of https://prometheus.io/download/ and of Debian's package prometheus"
    exit 0
fi
export PROMTOOL
promtool --version | head -1
cargo test --quiet -p millpond-prometheus --test exporter promtool
cargo test --quiet -p millpond-cluster --test metrics promtool
