#!/usr/bin/env python3
"""Counts lines of code by area, at some commits: count_lines.py COMMIT... Not counted: empty lines, comments, #include, #pragma.

An area is a folder of the tree, as it is called now: what was moved since counts where it is.
"""
import collections
import re
import subprocess
import sys

AREAS = r"(include|src/kernels/\w+(?=/)|src/\w+|sim|checks|forecast|cli/model|cli/bench|cli|python/\w+|tests|tools|examples|bench)/"
MOVED = {"src/transport": "src/bootstrap", "src/kernels/hand_off": "cli/bench", "src/kernels/probe": "cli/bench"}
NO_CODE = {".py": r"\s*(#|$)"}
LIBRARY = ("include", "src/")


def git(*arguments, text=""):
    return subprocess.run(["git", *arguments], input=text.encode(), capture_output=True, check=True).stdout


def count(commit):
    """{area: lines}"""
    names = [name for name in git("ls-tree", "-r", "--name-only", commit).decode().splitlines()
             if re.search(r"\.(hpp|cpp|cuh|cu|py)$", name) and re.match(AREAS, name)]
    texts, at, lines = git("cat-file", "--batch", text="\n".join(f"{commit}:{name}" for name in names)), 0, collections.Counter()
    for name in names:
        begin = texts.index(b"\n", at) + 1
        at = begin + int(texts[at:begin].split()[2]) + 1
        area = re.match(AREAS, name)[1]
        no_code = NO_CODE.get(name[name.rindex("."):], r"\s*(//|#include|#pragma|$)")
        lines[MOVED.get(area, area)] += sum(not re.match(no_code, line) for line in texts[begin:at - 1].decode().splitlines())
    return lines


def main(commits):
    if not commits:
        sys.exit(__doc__)
    counts = [count(commit) for commit in commits]
    library = [sum(lines for area, lines in one.items() if area.startswith(LIBRARY)) for one in counts]
    areas = sorted(set().union(*counts), key=lambda area: (not area.startswith(LIBRARY), area))
    rows = [("area", *commits), *((area, *(one[area] for one in counts)) for area in areas), ("library", *library),
            ("all", *(sum(one.values()) for one in counts))]
    for name, *values in rows:
        print(f"{name:<30}" + "".join(f"{value:>10}" for value in values))


if __name__ == "__main__":
    main(sys.argv[1:])
