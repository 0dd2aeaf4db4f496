#!/usr/bin/env bash
# Compiles the published crates, with all features, with the Rust version that their manifests declare. Uses a separate
# project, where that version also chooses the versions of dependencies. Warnings are errors.
#
#   ci/msrv.sh            if that toolchain is installed; otherwise it prints a message and does nothing
#   ci/msrv.sh --install  installs the toolchain with rustup first
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
[ -n "$version" ] || { echo "msrv: Cargo.toml declares no rust-version" >&2 && exit 1; }

# The user documentation must name the same version.
for page in README.md docs/platforms.md; do
    grep -q "needs\? Rust $version" "$page" || { echo "msrv: $page does not say that Rust $version is needed" >&2 && exit 1; }
done

case "${1:-}" in
--install) rustup toolchain install "$version" --profile minimal || echo "msrv: rustup could not get Rust $version" >&2 ;;
"") ;;
*) echo "msrv: unknown option $1" >&2 && exit 2 ;;
esac

if ! cargo "+$version" --version >/dev/null 2>&1; then
    echo "msrv: SKIPPED, because Rust $version is not installed. To get it:"
    echo "    rustup toolchain install $version --profile minimal"
    exit 0
fi

project=target/msrv
mkdir -p "$project/src"
: >"$project/src/lib.rs"
names=()
{
    printf '[package]\nname = "user"\nedition = "2024"\nrust-version = "%s"\n\n[workspace]\n\n[dependencies]\n' "$version"
    while read -r crate _ features; do
        names+=("$crate")
        printf '%s = { path = "../../crates/%s", features = [%s] }\n' "$crate" "$crate" \
            "$(sed 's/[^,]\+/"&"/g' <<<"$features")"
    done < <(python3 ci/published.py)
} >"$project/Cargo.toml"

# The newest versions of dependencies that the toolchain can compile; without a network, the cached ones.
cargo "+$version" update --quiet --manifest-path "$project/Cargo.toml" 2>/dev/null ||
    cargo "+$version" update --quiet --offline --manifest-path "$project/Cargo.toml" ||
    { echo "msrv: SKIPPED, because there is no network, and no dependency for Rust $version was loaded before" && exit 0; }
echo "msrv: ${names[*]} with Rust $version"
RUSTFLAGS="${RUSTFLAGS:-} -D warnings" cargo "+$version" check --quiet --manifest-path "$project/Cargo.toml" \
    --target-dir "$project/target"
