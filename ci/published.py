#!/usr/bin/env python3
"""Prints the published crates of the workspace, one per line: name, version, features separated by commas.

A crate is published unless its manifest says `publish = false`. Dependencies come before the crates that use them.
"""

import json
import subprocess

metadata = json.loads(
    subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], stdout=subprocess.PIPE, check=True).stdout
)
published = {package["name"]: package for package in metadata["packages"] if package["publish"] != []}
done = []


def visit(package):
    if package["name"] in done:
        return
    for dependency in package["dependencies"]:
        if dependency["kind"] is None and dependency["name"] in published:
            visit(published[dependency["name"]])
    done.append(package["name"])


for package in published.values():
    visit(package)
for name in done:
    features = sorted(feature for feature in published[name]["features"] if feature != "default")
    print(name, published[name]["version"], ",".join(features))
