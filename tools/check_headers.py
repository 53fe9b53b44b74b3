#!/usr/bin/env python3
"""Fails if a host header does not compile alone, with g++ and no CUDA: check_headers.py [ROOT] [--jobs N].

A header that is the first #include of some source is compiled alone by every build without a sanitizer, and a header that is
the first #include of one that is compiled alone is compiled alone with it; the others are compiled here.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import tree

FLAGS = ["-std=c++20", "-fsyntax-only", "-x", "c++", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
PLACES = ("include", "src", ".")


def first_include(root, file):
    """What the file names before all else, as a file of the tree; None: nothing of the tree."""
    text = file.read_text()
    found = re.search(r'^#include "([^"]+)"', text, flags=re.M)
    if found is None or re.search(r"^#(include <|if)", text[:found.start()], flags=re.M):
        return None
    return next(((root / place / found[1]).resolve() for place in PLACES if (root / place / found[1]).exists()), None)


def needs_cuda(header):
    return header.name.endswith("_cuda.hpp") and header.name != "on_cuda.hpp"


def complaint(root, header, compiler):
    name = header.relative_to(root).as_posix()
    text = f'#include "{header}"\n'
    places = [f"-I{root / folder}" for folder in PLACES]
    result = subprocess.run([compiler, *FLAGS, *places, "-"], input=text, capture_output=True, text=True)
    return f"{name}:1: does not compile alone:\n{result.stderr}" if result.returncode else None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=".")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--compiler", default="g++")
    options = parser.parse_args()
    root = pathlib.Path(options.root).resolve()
    headers = [h for h in tree.sources(root, {".hpp"}) if not h.relative_to(root).as_posix().startswith("tests/")
               and not needs_cuda(h)]
    unguarded = [f"{h.relative_to(root)}:1: no #pragma once" for h in headers if "#pragma once" not in h.read_text()]
    sources = list(tree.sources(root, {".cpp"}))
    compiled = {first_include(root, file) for file in [*sources, *headers]}
    alone = [header for header in headers if header.resolve() not in compiled]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda header: complaint(root, header, options.compiler), alone))
    what = f"{len(headers)} headers, {len(alone)} of them compiled here"
    return tree.report([*unguarded, *(text for text in found if text)], what)


if __name__ == "__main__":
    sys.exit(main())
