#!/usr/bin/env python3
"""Fails if clang-format would change a file, or changes them: check_format.py [--fix] [ROOT]."""
import pathlib
import subprocess
import sys

import pinned
import tree


def main(arguments):
    fix = "--fix" in arguments
    roots = [a for a in arguments if not a.startswith("--")]
    tool = pinned.find_or_skip("clang-format")
    root = pathlib.Path(roots[0] if roots else ".").resolve()
    files = [str(path) for path in tree.sources(root)]
    how = ["-i"] if fix else ["--dry-run", "--Werror"]
    result = subprocess.run([tool, "--style=file", *how, *files], cwd=root)
    if result.returncode:
        print("to format them: ./dev format")
    else:
        print(f"format: {len(files)} files {'formatted' if fix else 'ok'}")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
