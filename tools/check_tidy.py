#!/usr/bin/env python3
"""Fails on names and function sizes that clang-tidy refuses: check_tidy.py --build DIR [ROOT].

Runs the checks of ENFORCED with the settings of .clang-tidy on every host source of the library, the program and the examples.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import pinned

ENFORCED = "-*,readability-identifier-naming,readability-function-size"
PRELUDE = pathlib.Path(__file__).with_name("tidy_prelude.hpp").resolve()
FOLDERS = ("src", "sim", "checks", "cli", "examples")


def compiled_sources(root, build):
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {pathlib.Path(command["file"]) for command in commands}
    return sorted(f for f in files if f.suffix == ".cpp" and f.is_relative_to(root) and
                  f.relative_to(root).parts[0] in FOLDERS)


def complaint(tool, root, build, source):
    result = subprocess.run([tool, "--quiet", f"--checks={ENFORCED}", f"--header-filter={root}/(include|src|sim|checks|cli)/.*",
                             "--extra-arg=-w", f"--extra-arg=-include{PRELUDE}", "-p", str(build), str(source)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return result.stdout if result.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=".")
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    tool = pinned.find_or_skip("clang-tidy")
    root = pathlib.Path(options.root).resolve()
    sources = compiled_sources(root, options.build.resolve())
    if not sources:
        print("tidy: compile_commands.json names no source of this tree")
        return 1
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = [text for text in pool.map(lambda s: complaint(tool, root, options.build, s), sources) if text]
    print("\n".join(dict.fromkeys(found)) or f"tidy: {len(sources)} sources ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
