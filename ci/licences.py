#!/usr/bin/env python3
"""Checks the licence and the source of every dependency of the workspace. Needs the network only for missing crates.

Fails if a crate has no licence or none on the list below, or if it does not come from crates.io. The published crates
have a shorter list, because users may link them into any program.
"""

import json
import re
import subprocess
import sys

PERMISSIVE = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "0BSD",
              "CC0-1.0", "Unlicense", "Unicode-3.0", "BSL-1.0"}
# Also allowed for benchmarks, examples and tests, which are not published.
ALSO_IN_THE_WORKSPACE = {"MPL-2.0"}


def is_crates_io(source):
    """Returns whether a package comes from crates.io. Cargo names the registry by its index."""
    return source is not None and source.startswith("registry+") and source.endswith("/crates.io-index")


def allowed(expression, licences):
    """Evaluates an SPDX expression. The old form `MIT/Apache-2.0` means `OR`."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    position = 0

    def alternatives():
        nonlocal position
        result = conjunction()
        while position < len(tokens) and tokens[position] == "OR":
            position += 1
            result = conjunction() or result
        return result

    def conjunction():
        nonlocal position
        result = licence()
        while position < len(tokens) and tokens[position] == "AND":
            position += 1
            result = licence() and result
        return result

    def licence():
        nonlocal position
        name = tokens[position]
        position += 1
        if name == "(":
            result = alternatives()
            position += 1
            return result
        if tokens[position : position + 1] == ["WITH"]:
            name += " WITH " + tokens[position + 1]
            position += 2
        return name in licences

    return alternatives()


def reachable(resolve, roots):
    """All packages that the roots need: normal and build dependencies, for all targets and features."""
    nodes = {node["id"]: node for node in resolve["nodes"]}
    seen, pending = set(), list(roots)
    while pending:
        package = pending.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                pending.append(dependency["pkg"])
    return seen


def self_test():
    """Tests the evaluation, in particular that it rejects."""
    for expression, expected in {"MIT/Apache-2.0": True, "GPL-3.0-only OR MIT": True, "GPL-3.0-only AND MIT": False,
                                 "(MIT OR GPL-3.0-only) AND Unicode-3.0": True, "GPL-3.0-only": False,
                                 "Apache-2.0 WITH LLVM-exception": True, "GPL-2.0-only WITH LLVM-exception": False}.items():
        assert allowed(expression, PERMISSIVE) == expected, expression


def main():
    self_test()
    command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked", "--offline"]
    # The list includes crates for other systems, which no build has downloaded.
    subprocess.run(["cargo", "fetch", "--locked", "--quiet"], check=True)
    metadata = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    published = [id for id in metadata["workspace_members"] if packages[id]["publish"] != []]
    linked = reachable(metadata["resolve"], published)

    problems = []
    for id, package in packages.items():
        name = f"{package['name']} {package['version']}"
        licences = PERMISSIVE if id in linked else PERMISSIVE | ALSO_IN_THE_WORKSPACE
        if not package["license"]:
            problems.append(f"{name} names no licence")
        elif not allowed(package["license"], licences):
            problems.append(f"{name} has the licence {package['license']}, which is not on the list")
        if id not in metadata["workspace_members"] and not is_crates_io(package["source"]):
            problems.append(f"{name} comes from {package['source']}")
    for problem in problems:
        print(f"licences: {problem}", file=sys.stderr)
    print(f"licences: {len(packages)} crates, {len(linked)} of them in published crates, {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
