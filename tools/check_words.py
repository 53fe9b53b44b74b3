#!/usr/bin/env python3
"""Fails on names that say nothing, notes left for later, and paths that lead nowhere: check_words.py [ROOT]."""
import pathlib
import re
import sys

import tree

# As a whole word of a snake_case name: in file names and in what C++ and Python files call things.
VAGUE = {"util", "utils", "helper", "helpers", "manager", "impl", "optimized", "fast", "misc", "stuff", "common", "v2", "v3"}
NOTES = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
PLACES = re.compile(r"(?<![\w.$}])/(home|work|Users|root)/\w")
MENTION = re.compile(r"(?<![\w./-])((?:docs|tests|tools|src|sim|checks|cli|include|examples|cmake|reference|seeds)/[\w/.-]+"
                     r"\.(?:md|cpp|hpp|cuh|cu|py|json|svg|cmake))\b(?!\.\w)")


def vague_words(name):
    return sorted(VAGUE & set(re.split(r"[_\W]+", name.lower())))


def without_prose(line, suffix):
    """The part of a source line that is code: strings and comments speak English, where these words are fine."""
    line = re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
    return line.split("#" if suffix == ".py" else "//")[0] if not line.lstrip().startswith("#include") else ""


def complaints(root):
    for path in tree.texts(root):
        name = path.relative_to(root).as_posix()
        if words := vague_words(name):
            yield f"{name}:1: a file name that says nothing ({', '.join(words)})"
        if name in ("LICENSE", "tools/check_words.py", "tests/house/check_words_test.py", "cmake/fmt_once.cpp"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := NOTES.search(line):
                yield f"{name}:{number}: {found[0]}: do it, or write an issue"
            if found := PLACES.search(line):
                yield f"{name}:{number}: {found[0]}...: a path of one machine"
            for mention in MENTION.findall("" if "tests/house/" in name else line):
                if not (root / mention).exists() and not (root / "src" / mention).exists():
                    yield f"{name}:{number}: {mention}: no such file"
            if path.suffix in tree.SOURCE_SUFFIXES:
                for identifier in re.findall(r"[A-Za-z_]\w*", without_prose(line, path.suffix)):
                    if words := vague_words(identifier):
                        yield f"{name}:{number}: {identifier}: a name that says nothing ({', '.join(words)})"


if __name__ == "__main__":
    sys.exit(tree.report(complaints(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")), "words"))
