#!/usr/bin/env python3
"""Fails if README.md shows what is not so: check_readme.py [ROOT] [--build DIR].

Its C++ stands in EXAMPLE word for word; links of all pages lead somewhere, and docs/decisions is complete. With --build, which takes
longer, another thing alone: its shell commands are run, or are known to be run by COVERED.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pages"))
import links
import tree

EXAMPLE = "examples/01_first_round.cpp"
COVERED = {  # command: what runs it
    "git clone": "every fresh clone that runs ./dev test",
    "cd baton": "the same",
    "./dev test": "this check is a part of it",
    "cmake -B build/install": "tests/install installs a build like it and uses what is installed",
    "cmake --build build/install": "the same",
}
DEMO_SECONDS = 300


def blocks(markdown, language):
    return re.findall(rf"^```{language}\n(.*?)^```", markdown, flags=re.M | re.S)


def commands(markdown):
    for block in blocks(markdown, "sh"):
        for line in block.splitlines():
            if command := line.split("#")[0].strip():
                yield command


def run(command, root, build):
    environment = dict(os.environ, CI="true", BATON_CUDA="OFF" if build.name == "cpu" else "ON")
    result = subprocess.run(command, shell=True, cwd=root, env=environment, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEMO_SECONDS)
    if result.returncode:
        yield f"README.md: `{command}` failed with {result.returncode}:\n{result.stdout[-2000:]}"


def command_complaints(root, markdown, build):
    is_own_build = build.parent == root / "build" and build.name in ("cpu", "release")
    for command in commands(markdown):
        if any(command.startswith(known) for known in COVERED):
            continue
        if not command.startswith("./dev "):
            yield f"README.md: nobody tests `{command}`: make it a ./dev command or add it to COVERED"
        elif is_own_build:
            yield from run(command, root, build)
        else:
            print(f"not run, as this build is not one of ./dev's: {command}")


def example_complaints(root, markdown):
    source = (root / EXAMPLE).read_text()
    quoted = blocks(markdown, "cpp")
    if not quoted:
        yield "README.md: no C++ example"
    for block in quoted:
        if textwrap.indent(block, "  ") not in source and block not in source:
            yield f"README.md: its C++ is not in {EXAMPLE} word for word:\n{block}"


def index_complaints(root):
    """Every decision stands in the index, under a number of its own."""
    folder = root / "docs" / "decisions"
    pages = sorted(path.name for path in folder.glob("[0-9]*.md"))
    index = (folder / "README.md").read_text() if pages else ""
    for name in pages:
        if f"({name})" not in index:
            yield f"docs/decisions/{name}: not in docs/decisions/README.md"
        if sum(other[:4] == name[:4] for other in pages) > 1:
            yield f"docs/decisions/{name}: another decision has this number"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=".")
    parser.add_argument("--build", type=pathlib.Path)
    options = parser.parse_args()
    root = pathlib.Path(options.root).resolve()
    markdown = (root / "README.md").read_text()
    if options.build:
        found = list(command_complaints(root, markdown, options.build.resolve()))
    else:
        found = [*example_complaints(root, markdown), *links.complaints(root), *index_complaints(root)]
    return tree.report(found, "readme")


if __name__ == "__main__":
    sys.exit(main())
