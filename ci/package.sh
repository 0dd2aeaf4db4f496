#!/usr/bin/env bash
# Packs every published crate as `cargo publish` would, and checks the result outside of the workspace: it builds, its tests
# pass, and the Cargo.lock of a user contains only millpond, and `futures-core` if the feature `futures` is on.
#
#   ci/package.sh          unit and documentation tests of the library, and unit tests of the other crates
#   ci/package.sh --all    all tests of all crates
#
# Packed crates that are not on crates.io yet refer to each other by [patch]. Needs only what `cargo test` needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tests=(--lib)
case "${1:-}" in
--all) tests=() ;;
"") ;;
*) echo "package: unknown option $1" >&2 && exit 2 ;;
esac

root=$PWD
outside=$(mktemp -d "${TMPDIR:-/tmp}/millpond-package.XXXXXX")
trap 'rm -rf "$outside"' EXIT
# A separate folder, so that the second run is fast. Inside `target`, so that `cargo clean` removes it.
export CARGO_TARGET_DIR=$root/target/packaged
names=() folders=() patches=()

while read -r name version _; do
    names+=("$name")
    folders+=("$outside/$name-$version")
    patches+=(--config "patch.crates-io.$name.path='$outside/$name-$version'")
done < <(python3 ci/published.py)

cargo package --quiet --no-verify --allow-dirty "${names[@]/#/-p}"
for folder in "${folders[@]}"; do
    tar -xzf "$CARGO_TARGET_DIR/package/${folder##*/}.crate" -C "$outside"
    for file in README.md LICENSE-MIT LICENSE-APACHE; do
        [ -s "$folder/$file" ] || { echo "package: ${folder##*/} has no $file" >&2 && exit 1; }
    done
    # The lock file of the package names versions that are not on crates.io yet.
    cp Cargo.lock "$folder/Cargo.lock"
done
if grep -q 'repository = "https://example.org' "${folders[0]}/Cargo.toml"; then
    echo "package: NOTE: 'repository' in the workspace's Cargo.toml is a placeholder; fill it before the first release"
fi

# The packed crates replace each other, except the one that is tested.
patches_without() {
    for ((k = 0; k < ${#names[@]}; k++)); do
        if [ "${names[k]}" != "$1" ]; then printf '%s\0%s\0' "${patches[2 * k]}" "${patches[2 * k + 1]}"; fi
    done
}

for ((i = 0; i < ${#names[@]}; i++)); do
    mapfile -d '' -t patch < <(patches_without "${names[i]}")
    echo "package: tests of ${folders[i]##*/}"
    (cd "${folders[i]}" && cargo "${patch[@]}" test --quiet --all-features "${tests[@]}")
done
echo "package: documentation tests of ${folders[0]##*/}"
mapfile -d '' -t patch < <(patches_without "${names[0]}")
(cd "${folders[0]}" && cargo "${patch[@]}" test --quiet --all-features --doc)

# lock_file_of_user FEATURES EXPECTED: the names in the lock file of a crate that depends on the library.
lock_file_of_user() {
    local user=$outside/user
    mkdir -p "$user/src" && : >"$user/src/lib.rs"
    printf '[package]\nname = "user"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies]\n' >"$user/Cargo.toml"
    printf 'millpond = { path = "%s", features = [%s] }\n' "${folders[0]}" "$1" >>"$user/Cargo.toml"
    rm -f "$user/Cargo.lock"
    (cd "$user" && cargo generate-lockfile --quiet)
    local found
    found=$(sed -n 's/^name = "\(.*\)"/\1/p' "$user/Cargo.lock" | sort | xargs)
    [ "$found" = "$2" ] || { echo "package: a user's Cargo.lock has '$found' instead of '$2'" >&2 && exit 1; }
    echo "package: a user's Cargo.lock with features [$1] has: $found"
}
lock_file_of_user '' 'millpond user'
lock_file_of_user '"futures"' 'futures-core millpond user'
