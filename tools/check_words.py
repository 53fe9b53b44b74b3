#!/usr/bin/env python3
"""Fails on mentions of files that are gone, paths of one machine, and notes left for later: check_words.py [ROOT]."""
import pathlib
import re
import sys

import tree

NOTES = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
PLACES = re.compile(r"(?<![\w.$}])/(home|work|Users|root)/\w")
MENTION = re.compile(r"(?<![\w./-])((?:bench|docs|tests|tools|src|sim|checks|cli|include|examples|cmake|reference|seeds)/[\w/.-]+"
                     r"\.(?:md|cpp|hpp|cuh|cu|py|json|svg|cmake))\b(?!\.\w)")


def complaints(root):
    for path in tree.texts(root):
        name = path.relative_to(root).as_posix()
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


if __name__ == "__main__":
    sys.exit(tree.report(complaints(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")), "words"))
