#!/usr/bin/env python3
"""Fails on files over 500 lines, source lines over 130 columns, and device functions over 80 lines: check_sizes.py [ROOT].

clang-tidy measures the functions of host code; it cannot read CUDA, so .cu and .cuh files are measured here, by braces.
"""
import pathlib
import re
import sys

import tree

MOST_FILE_LINES = 500
MOST_FUNCTION_LINES = 80
MOST_COLUMNS = 130  # of comments and assembly, that is: clang-format keeps code within 110
NOT_A_FUNCTION = re.compile(r"\b(namespace|struct|class|enum|union|extern)\b|=\s*$")


def without_comments_and_strings(text):
    """Blanks them out, keeping every line break."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    return re.sub(pattern, lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.S)


def functions(text):
    """(first line, number of lines) of every outermost body that belongs to a function."""
    containers = 0  # open braces that are namespaces or types
    depth = 0       # open braces inside a function
    first = 0
    head = ""
    for number, line in enumerate(without_comments_and_strings(text).splitlines(), 1):
        if line.lstrip().startswith("#"):
            continue
        for character in line:
            if character == "{":
                if depth == 0 and NOT_A_FUNCTION.search(re.sub(r"<[^<>]*>", "", head)) and ")" not in head.split("=")[0]:
                    containers += 1
                else:
                    first = number if depth == 0 else first
                    depth += 1
                head = ""
            elif character == "}":
                if depth == 1:
                    yield first, number - first + 1
                if depth:
                    depth -= 1
                else:
                    containers -= 1
                head = ""
            elif character == ";" and depth == 0:
                head = ""
            elif depth == 0:
                head += character
        head += " "


def complaints(root):
    for path in tree.texts(root):
        name = path.relative_to(root).as_posix()
        if name == "LICENSE" or path.suffix in {".json", ".svg"}:
            continue
        text = path.read_text()
        lines = text.count("\n")
        if lines > MOST_FILE_LINES:
            yield f"{name}:1: {lines} lines; the most is {MOST_FILE_LINES}: split it by concept"
        if path.suffix in tree.SOURCE_SUFFIXES:
            for number, line in enumerate(text.splitlines(), 1):
                if len(line) > MOST_COLUMNS:
                    yield f"{name}:{number}: {len(line)} columns; the most is {MOST_COLUMNS}"
        if path.suffix in {".cu", ".cuh"}:
            for first, length in functions(text):
                if length > MOST_FUNCTION_LINES:
                    yield f"{name}:{first}: a function of {length} lines; the most is {MOST_FUNCTION_LINES}: split it by verb"


if __name__ == "__main__":
    sys.exit(tree.report(complaints(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")), "sizes"))
