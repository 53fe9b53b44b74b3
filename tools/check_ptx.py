#!/usr/bin/env python3
"""Fails on spills and on memory operations spelled otherwise than promised: check_ptx.py LISTINGS [EXPECTATIONS].

LISTINGS is the listings/ folder of a build with BATON_CUDA: the PTX of each kernel file and what `ptxas -v` said of it.
EXPECTATIONS (ptx_expectations.json) is a list of
  {"what": why it matters, "file": glob, "entry": regular expression of a mangled kernel name,
   "must_have": [regular expressions of instructions], "must_not_have": [the same]}
Each line has to match at least one kernel, and then holds for every kernel that it matches.
"""
import fnmatch
import json
import pathlib
import re
import sys

EXPECTATIONS = pathlib.Path(__file__).with_name("ptx_expectations.json")


def spills(ptxas_text):
    """(kernel or function, the line) of every spill that ptxas reports."""
    name = "?"
    for line in ptxas_text.splitlines():
        if found := re.search(r"(?:Compiling entry function '|Function properties for )'?([\w$]+)", line):
            name = found[1]
        if found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            if int(found[1]) or int(found[2]):
                yield name, line.strip()


def entries(ptx_text):
    """{name: body} of every kernel."""
    pieces = re.split(r"^(?:\.visible |\.weak )?\.entry ([\w$]+)", ptx_text, flags=re.M)
    return {name: re.split(r"^}", body, flags=re.M)[0] for name, body in zip(pieces[1::2], pieces[2::2])}


def complaints_of_expectation(expectation, kernels):
    """`kernels`: {(file, entry): body}."""
    matching = {key: body for key, body in kernels.items()
                if fnmatch.fnmatch(key[0], expectation["file"]) and re.search(expectation["entry"], key[1])}
    if not matching:
        yield f"{expectation['file']}: no kernel matches {expectation['entry']!r} ({expectation['what']})"
    for (name, entry), body in matching.items():
        for pattern in expectation.get("must_have", []):
            if not re.search(pattern, body):
                yield f"{name}: {entry} lacks {pattern!r}: {expectation['what']}"
        for pattern in expectation.get("must_not_have", []):
            if found := re.search(rf"^.*{pattern}.*$", body, flags=re.M):
                yield f"{name}: {entry} has `{found[0].strip()}`: {expectation['what']}"


def complaints(listings, expectations):
    kernels = {}
    for path in sorted(listings.rglob("*.ptx")):
        name = path.relative_to(listings).with_suffix("").as_posix()
        kernels |= {(name, entry): body for entry, body in entries(path.read_text()).items()}
        ptxas = path.with_suffix(".ptxas").read_text()
        if "bytes spill stores" not in ptxas and entries(path.read_text()):
            yield f"{name}: ptxas -v did not say whether it spills"
        for kernel, line in spills(ptxas):
            yield f"{name}: {kernel} spills: {line}"
    if not kernels:
        yield f"{listings}: no kernels here"
    for expectation in expectations:
        yield from complaints_of_expectation(expectation, kernels)


def main(arguments):
    listings = pathlib.Path(arguments[0])
    expectations = json.loads(pathlib.Path(arguments[1] if len(arguments) > 1 else EXPECTATIONS).read_text())
    found = list(complaints(listings, expectations))
    number = sum(len(entries(path.read_text())) for path in listings.rglob("*.ptx"))
    print("\n".join(found) or f"ptx: {number} kernels without spills, {len(expectations)} expectations hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
