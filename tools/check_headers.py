#!/usr/bin/env python3
"""Fails if a header for users does not compile alone, with g++ and no CUDA, or if a header lacks #pragma once: check_headers.py
[ROOT] [--jobs N].

The headers of the insides are read by check_includes.py, and the first #include of a source compiles alone in every build in
which sources are apart.
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import tree

FLAGS = ["-std=c++20", "-fsyntax-only", "-x", "c++", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
PLACES = ("include", "src", ".")


def is_for_users(name):
    return name.startswith("include/") or name == "sim/check.hpp"


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
    headers = [h for h in tree.sources(root, {".hpp"}) if not h.relative_to(root).as_posix().startswith("tests/")]
    unguarded = [f"{h.relative_to(root)}:1: no #pragma once" for h in headers if "#pragma once" not in h.read_text()]
    alone = [header for header in headers if is_for_users(header.relative_to(root).as_posix())]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda header: complaint(root, header, options.compiler), alone))
    what = f"{len(headers)} headers, {len(alone)} of them compiled here"
    return tree.report([*unguarded, *(text for text in found if text)], what)


if __name__ == "__main__":
    sys.exit(main())
