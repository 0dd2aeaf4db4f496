#!/usr/bin/env python3
"""Checks that every relative link of the pages leads to a file, and every anchor to a heading. Needs no network.

Skips pages that are symbolic links: their links are for docs.rs, or are checked on the target page. `cargo doc` checks
the former.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Pages included by rustdoc, whose links are paths of items.
RUSTDOC = {ROOT / "crates/millpond/src/guide/front-page.md"}


def anchor(heading):
    """The anchor that code hosts give to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def prose(page):
    """The text of a page without code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)


def links(page):
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    yield from re.findall(r"\]\(([^)\s]+)\)", text)
    yield from re.findall(r"^\[[^\]]+\]:\s*(\S+)", text, flags=re.M)
    yield from re.findall(r'(?:src|srcset|href)="([^"]+)"', text)


def problem(page, link):
    path, _, name = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return "leads nowhere"
    if name and target.suffix == ".md" and name not in map(anchor, re.findall(r"^#+ (.*)$", prose(target), flags=re.M)):
        return "names no heading"
    return None


listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
pages = [ROOT / name for name in listed.splitlines()]
checked, failed = 0, 0
for page in pages:
    if page.is_symlink() or page in RUSTDOC:
        continue
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        checked += 1
        if what := problem(page, link):
            print(f"links: {page.relative_to(ROOT)}: {link} {what}", file=sys.stderr)
            failed += 1
print(f"links: {checked} checked, {failed} wrong")
sys.exit(failed > 0)
