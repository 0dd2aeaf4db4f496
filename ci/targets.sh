#!/usr/bin/env bash
# Checks that library, simulator, exporters and command compile without warnings for other systems and processors, and that
# compiling the library for WebAssembly fails with a clear message. Links nothing, so no other toolchain is needed.
#
#   ci/targets.sh            the installed targets; prints which others are skipped
#   ci/targets.sh --install  installs missing targets with rustup first
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets=(
    x86_64-unknown-linux-musl
    aarch64-unknown-linux-gnu
    i686-unknown-linux-gnu
    x86_64-pc-windows-gnu
    aarch64-apple-darwin
    x86_64-unknown-freebsd
)
refused=wasm32-unknown-unknown

case "${1:-}" in
--install) rustup target add "${targets[@]}" $refused || echo "targets: rustup could not get all targets" >&2 ;;
"") ;;
*) echo "targets: unknown option $1" >&2 && exit 2 ;;
esac

# Checks whether the standard library of a target is installed.
installed() { [ -d "$(rustc --print target-libdir --target "$1")" ]; }

present=()
for target in "${targets[@]}"; do
    if installed "$target"; then present+=(--target "$target"); else echo "targets: SKIPPED $target, which is not installed"; fi
done

# Without SQLite, which is C code and needs a C compiler for the target.
crates=(-p millpond -p millpond-sim -p millpond-cli -p millpond-cluster -p millpond-prometheus -p millpond-metrics
    -p millpond-tracing --no-default-features --features millpond/futures)

if ((${#present[@]})); then
    echo "targets: ${present[*]//--target/}"
    # One call for all, so that all processors are used and build scripts run once.
    RUSTFLAGS="${RUSTFLAGS:-} -D warnings" cargo check --quiet "${crates[@]}" "${present[@]}"
fi

if installed $refused; then
    if errors=$(cargo check --quiet -p millpond --target $refused 2>&1); then
        echo "targets: $refused must be refused, but compiles" >&2 && exit 1
    fi
    if [[ $errors != *"millpond does not support WebAssembly"* || $(grep -c '^error' <<<"$errors") -gt 2 ]]; then
        printf 'targets: %s must be refused with one sentence:\n%s\n' $refused "$errors" >&2 && exit 1
    fi
    echo "targets: $refused is refused"
else
    echo "targets: SKIPPED $refused, which is not installed"
fi
