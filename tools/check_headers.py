#!/usr/bin/env python3
"""Fails if a host header does not compile alone, twice, with g++ and no CUDA: check_headers.py [ROOT] [--jobs N]."""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import tree

FLAGS = ["-std=c++20", "-fsyntax-only", "-x", "c++", "-Wall", "-Wextra", "-Wconversion", "-Werror"]


def complaint(root, header, compiler):
    name = header.relative_to(root).as_posix()
    text = f'#include "{header}"\n#include "{header}"\n'
    places = [f"-I{root / folder}" for folder in ("include", "src", ".")]
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
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = pool.map(lambda header: complaint(root, header, options.compiler), headers)
        return tree.report([text for text in found if text], f"{len(headers)} headers alone")


if __name__ == "__main__":
    sys.exit(main())
