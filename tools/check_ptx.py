#!/usr/bin/env python3
"""Fails on spills and on memory operations spelled otherwise than promised: check_ptx.py LISTINGS [EXPECTATIONS].

LISTINGS is the listings/ folder of a build with BATON_CUDA: the PTX of each kernel file and what `ptxas -v` said of it.
EXPECTATIONS (ptx_expectations.json) is a list of
  {"what": why it matters, "file": glob, "kernel": regular expression of a kernel's name as the source spells it,
   "must_have": [regular expressions of instructions], "must_not_have": [the same]}
With "machine_code": true they are instructions of the machine, as nvdisasm shows them (uniform branches, divergence).
Each line has to match at least one kernel, and then holds for every kernel that it matches. A kernel's name is that of the
entry with its template arguments, without baton:: and with enumerators by name: entry<ring_kernel<ring_strategy::mbarrier>>.
"""
import fnmatch
import json
import pathlib
import re
import shutil
import subprocess
import sys

import tree

SPILLED = r"(\d+) bytes spill stores, (\d+) bytes spill loads"  # as ptxas -v says it
EXPECTATIONS = pathlib.Path(__file__).with_name("ptx_expectations.json")


def spills(ptxas_text):
    """(kernel or function, the line) of every spill that ptxas reports."""
    name = "?"
    for line in ptxas_text.splitlines():
        if found := re.search(r"(?:Compiling entry function '|Function properties for )'?([\w$]+)", line):
            name = found[1]
        if found := re.search(SPILLED, line):
            if int(found[1]) or int(found[2]):
                yield name, line.strip()


def body_of(text):
    """What stands between the first brace and the one that closes it, comments apart."""
    text = re.sub(r"//[^\n]*", "", text)
    depth, first = 0, text.index("{")
    for found in re.finditer(r"[{}]", text):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return text[first + 1:found.start()]
    return text[first + 1:]


def entries(ptx_text):
    """{mangled name: body} of every kernel."""
    pieces = re.split(r"^(?:\.visible |\.weak )?\.entry ([\w$]+)", ptx_text, flags=re.M)
    return {name: body_of(body) for name, body in zip(pieces[1::2], pieces[2::2])}


def enumerators(root):
    """{enum: its enumerators in order} of the sources."""
    for path in tree.sources(root):
        for name, body in re.findall(r"enum class (\w+)[^{;]*{([^}]*)}", path.read_text()):
            body = re.sub(r"//[^\n]*", "", body)
            if "=" not in body:
                yield name, [word.strip() for word in body.split(",") if word.strip()]


def names_in_the_source(mangled, enums):
    """{mangled: the name as a person writes it}."""
    shown = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout
    shown = shown.replace("(anonymous namespace)::", "").replace("baton::", "")
    shown = re.sub(r"\((?:\w+::)*(\w+)\)(\d+)",
                   lambda e: f"{e[1]}::{enums[e[1]][int(e[2])]}" if e[1] in enums else e[0], shown)
    return dict(zip(mangled, shown.splitlines()))


def line_of(text, match):
    return text[text.rfind("\n", 0, match.start()) + 1:].split("\n", 1)[0]


def complaints_of_expectation(expectation, kernels):
    """`kernels`: {(file, name): body}."""
    matching = {key: body for key, body in kernels.items()
                if fnmatch.fnmatch(key[0], expectation["file"]) and re.search(expectation["kernel"], key[1])}
    if not matching:
        yield f"{expectation['file']}: no kernel matches {expectation['kernel']!r} ({expectation['what']})"
    for (file, name), body in matching.items():
        for pattern in expectation.get("must_have", []):
            if not re.search(pattern, body):
                yield f"{file}: {name} lacks {pattern!r}: {expectation['what']}"
        for pattern in expectation.get("must_not_have", []):
            if found := re.search(pattern, body, flags=re.M):
                yield f"{file}: {name} has `{line_of(body, found).strip()}`: {expectation['what']}"


def disassembler(root=EXPECTATIONS.parents[1]):
    """The toolkit's nvdisasm, which a toolkit may be installed without, or the one that ./dev test has from PyPI; None without both."""
    toolkit = pathlib.Path("/usr/local/cuda/bin/nvdisasm")
    ours = sorted(root.glob("build/python/lib/python3*/site-packages/nvidia/cu13/bin/nvdisasm"))
    return shutil.which("nvdisasm") or next((str(path) for path in [toolkit, *ours] if path.is_file()), None)


def machine_code(cubin):
    """{mangled name: what it becomes} of every kernel of a .cubin."""
    shown = subprocess.run([disassembler(), "-c", cubin], capture_output=True, text=True, check=True).stdout
    pieces = re.split(r"^\.text\.([\w$]+):", shown, flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2]))


def machine_code_of(listings, expectations, disassemble):
    """{(file, mangled name): machine code} of the files that one of the expectations is about."""
    globs = [expectation["file"] for expectation in expectations if expectation.get("machine_code")]
    kernels = {}
    for path in sorted(listings.rglob("*.cubin")):
        file = path.relative_to(listings).with_suffix("").as_posix()
        if any(fnmatch.fnmatch(file, glob) for glob in globs):
            kernels |= {(file, name): body for name, body in disassemble(path).items()}
    return kernels


def kernels_of(listings):
    """{(file, mangled name): body}, and what ptxas said of each file."""
    kernels, ptxas = {}, {}
    for path in sorted(listings.rglob("*.ptx")):
        file = path.relative_to(listings).with_suffix("").as_posix()
        kernels |= {(file, name): body for name, body in entries(path.read_text()).items()}
        ptxas[file] = path.with_suffix(".ptxas").read_text()
    return kernels, ptxas


def complaints(listings, expectations, root=EXPECTATIONS.parents[1], disassemble=machine_code, found=None):
    """`found`: what kernels_of says, if somebody has asked it."""
    kernels, ptxas = found or kernels_of(listings)
    of_machine = machine_code_of(listings, expectations, disassemble)
    names = names_in_the_source(sorted({name for _, name in kernels | of_machine}), dict(enumerators(root)))
    for file, text in ptxas.items():
        if "bytes spill stores" not in text and any(key[0] == file for key in kernels):
            yield f"{file}: ptxas -v did not say whether it spills"
        for kernel, line in spills(text):
            yield f"{file}: {names.get(kernel, kernel)} spills: {line}"
    if not kernels:
        yield f"{listings}: no kernels here"
    for expectation in expectations:
        found = of_machine if expectation.get("machine_code") else kernels
        named = {(file, names[name]): body for (file, name), body in found.items()}
        yield from complaints_of_expectation(expectation, named)


def main(arguments):
    listings = pathlib.Path(arguments[0])
    expectations = json.loads(pathlib.Path(arguments[1] if len(arguments) > 1 else EXPECTATIONS).read_text())
    looked_at = [one for one in expectations if disassembler() or not one.get("machine_code")]
    kernels = kernels_of(listings)
    found = list(complaints(listings, looked_at, found=kernels))
    print("\n".join(found) or f"ptx: {len(kernels[0])} kernels without spills, {len(looked_at)} expectations hold")
    if len(looked_at) < len(expectations):
        print(f"ptx: {len(expectations) - len(looked_at)} of machine code not looked at: no nvdisasm (./dev test installs PyPI's)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
