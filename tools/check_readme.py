#!/usr/bin/env python3
"""Fails if README.md shows what is not so: check_readme.py [ROOT].

Its C++ stands in EXAMPLE word for word; links of all pages lead somewhere, and docs/decisions is complete.
"""
import argparse
import pathlib
import re
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).parent / "pages"))
import links
import tree

EXAMPLE = "examples/01_first_round.cpp"


def blocks(markdown, language):
    return re.findall(rf"^```{language}\n(.*?)^```", markdown, flags=re.M | re.S)


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
    root = pathlib.Path(parser.parse_args().root).resolve()
    found = [*example_complaints(root, (root / "README.md").read_text()), *links.complaints(root), *index_complaints(root)]
    return tree.report(found, "readme")


if __name__ == "__main__":
    sys.exit(main())
