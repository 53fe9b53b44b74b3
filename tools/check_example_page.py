#!/usr/bin/env python3
"""Fails if a page about an example shows what is not so: check_example_page.py PAGE SOURCE PROGRAM.

Its C++ stands in SOURCE word for word and in that order; its first ```text block is what PROGRAM prints.
"""
import pathlib
import subprocess
import sys

import tree
from check_readme import blocks


def source_complaints(page, markdown, source):
    at = 0
    for block in blocks(markdown, "cpp"):
        found = source.find(block, at)
        if found < 0:
            yield f"{page}: this is not in the source, or not in this order:\n{block}"
        else:
            at = found + len(block)


def output_complaints(page, markdown, output):
    shown = blocks(markdown, "text")
    if not shown:
        yield f"{page}: shows no output"
    elif shown[0] != output:
        yield f"{page}: shows another output than the program's:\n{output}"


def main(page, source, program):
    markdown = pathlib.Path(page).read_text()
    result = subprocess.run([program], capture_output=True, text=True)
    failed = [f"{program}: failed with {result.returncode}"] if result.returncode else []
    return tree.report([*failed, *source_complaints(page, markdown, pathlib.Path(source).read_text()),
                        *output_complaints(page, markdown, result.stdout)], page)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
