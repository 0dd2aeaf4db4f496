#!/usr/bin/env bash
# Lints every combination of the features of every published crate. Warnings are errors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

while read -r crate _ features; do
    IFS=, read -ra names <<<"$features"
    for ((bits = 0; bits < 1 << ${#names[@]}; bits++)); do
        chosen=
        for ((i = 0; i < ${#names[@]}; i++)); do
            if ((bits >> i & 1)); then chosen+="${chosen:+,}${names[i]}"; fi
        done
        echo "features: $crate [$chosen]"
        cargo clippy --quiet -p "$crate" --no-default-features --features "$chosen" -- -D warnings
    done
done < <(python3 ci/published.py)
