#!/usr/bin/env python3
"""Fails if a page shows a block of code that nothing runs: check_blocks.py [ROOT] [--build DIR].

Of every fenced block of README.md, ARCHITECTURE.md, CONTRIBUTING.md, python/README.md and docs (but decisions and results, which say
what was), and of every command in those that are of sh, tools/page_blocks.json says one thing:

    run_by, where  a file that runs it, or runs what it has to be equal to, and what stands there: PAGE is the page's path
    run            this check does, with --build, a folder that `./dev` has built: exit code 0
    not_here       why no machine of this project can, or why it must not

An entry that no block needs any more is an error, as is a block that has none, or two.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import tree

LIST = pathlib.Path("tools/page_blocks.json")
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", flags=re.M | re.S)
SECONDS = 300


def pages(root):
    named = (root / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "python/README.md"))
    of_docs = (path for path in sorted((root / "docs").rglob("*.md")) if path.relative_to(root / "docs").parts[0] not in ("decisions", "results"))
    return [path for path in (*named, *of_docs) if path.exists()]


def commands_of(block):
    """A command a line, but what goes on after a backslash; && makes two."""
    for line in block.replace("\\\n", " ").splitlines():
        for command in re.sub(r"(^|\s)#.*", "", line).split(" && "):
            if command.strip():
                yield " ".join(command.split())


class shown:
    """A block, or a command of one."""

    def __init__(self, page, line, language, text):
        self.page, self.line, self.language, self.text = page, line, language, text

    def __str__(self):
        first = self.text.splitlines()[0] if self.text else ""
        return f"{self.page}:{self.line}: {self.language or 'a block'}: {first}"


def all_shown(root):
    for path in pages(root):
        page, text = path.relative_to(root).as_posix(), path.read_text()
        if text.count("\n```") + text.startswith("```") != 2 * len(FENCE.findall(text)):
            yield shown(page, 1, "a fence that does not end", "")
        for found in FENCE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            if found[1] == "sh":
                yield from (shown(page, line, "sh", command) for command in commands_of(found[2]))
            else:
                yield shown(page, line, found[1], found[2])


def is_of(entry, one):
    if not any(fnmatch.fnmatchcase(one.page, pattern) for pattern in entry["pages"].split()):
        return False
    if "command" not in entry:
        return entry["language"] == one.language
    if one.language != "sh":
        return False
    return one.text == entry["command"] if entry.get("is_whole") else one.text.startswith(entry["command"])


def entry_complaints(root, entry, found):
    name = entry.get("command") or entry.get("language")
    kinds = [kind for kind in ("run_by", "run", "not_here") if entry.get(kind)]
    if len(kinds) != 1:
        yield f"{LIST}: {name} of {entry['pages']}: expected one of run_by, run and not_here, found {kinds}"
    if not found:
        yield f"{LIST}: no page shows {name} of {entry['pages']} any more"
    if "run_by" not in entry:
        return
    if not (root / entry["run_by"]).exists():
        yield f"{LIST}: {name} of {entry['pages']}: there is no {entry['run_by']}"
        return
    text = (root / entry["run_by"]).read_text()
    for page in sorted({one.page for one in found}):
        where = entry["where"].replace("PAGE", page)
        if where not in text:
            yield f"{page}: its {name} is run by {entry['run_by']}, says {LIST}, but there is no {where!r} there"


def missing_of_commands(root, one):
    """Programs of this repository that a command names, and options of theirs, which are not there."""
    script, words = None, re.split(r"[\s']+", one.text)
    for word in words:
        if re.fullmatch(r"\w+(/\w+)+\.(py|sh)", word):
            script = root / word
            if not script.exists():
                yield f"{one}: there is no {word}"
                return
        elif script is not None and re.fullmatch(r"--[\w-]+", word) and word not in script.read_text():
            yield f"{one}: {script.name} has no {word}"


def list_complaints(root, entries, blocks):
    found = {id(entry): [] for entry in entries}
    for one in blocks:
        its = [entry for entry in entries if is_of(entry, one)]
        if len(its) != 1:
            yield f"{one}: expected one entry in {LIST}, which says who runs it, found {len(its)}"
        for entry in its:
            found[id(entry)].append(one)
        if one.language == "sh":
            yield from missing_of_commands(root, one)
    for entry in entries:
        yield from entry_complaints(root, entry, found[id(entry)])


def run(one, root, build):
    command = re.sub(r"^baton ", shlex.quote(str(build / "baton")) + " ", one.text)
    environment = dict(os.environ, CI="true", BATON_CUDA="OFF" if build.name == "cpu" else "ON")
    result = subprocess.run(command, shell=True, cwd=root, env=environment, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    if result.returncode:
        yield f"{one}: failed with {result.returncode}:\n{result.stdout[-2000:]}"


def run_complaints(root, entries, blocks, build):
    is_own_build = build.parent == root / "build" and build.name in ("cpu", "release")
    for one in blocks:
        if not any(entry.get("run") and is_of(entry, one) for entry in entries):
            continue
        if one.text.startswith("./dev ") and not is_own_build:
            print(f"not run, as this build is not one of ./dev's: {one.text}")
        else:
            yield from run(one, root, build)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=".")
    parser.add_argument("--build", type=pathlib.Path)
    options = parser.parse_args()
    root = pathlib.Path(options.root).resolve()
    listed, blocks = json.loads((root / LIST).read_text()), list(all_shown(root))
    entries = listed["blocks"] + listed["commands"]
    found = run_complaints(root, entries, blocks, options.build.resolve()) if options.build else list_complaints(root, entries, blocks)
    return tree.report(found, f"{len(blocks)} blocks and commands of pages")


if __name__ == "__main__":
    sys.exit(main())
