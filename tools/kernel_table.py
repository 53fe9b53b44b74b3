#!/usr/bin/env python3
"""Every kernel of the library, as nvcc makes it: kernel_table.py LISTINGS [--check PAGE | --write PAGE].

LISTINGS is the listings/ folder of a build with BATON_CUDA. Without an option the page is printed. --check fails where a kernel's registers,
spills or shared memory are not what the page says, or a kernel is in one of them alone; a page of another compiler is not looked at.
"""
import collections
import pathlib
import re
import sys

import same_code
from check_ptx import SPILLED, enumerators, names_in_the_source

SKIPPED = 77  # of house tests
ROOT = pathlib.Path(__file__).resolve().parents[1]
HEAD = """# Kernels

Every kernel of the library and of its benchmarks as {compiler} makes it for sm_90a, by `python3 tools/kernel_table.py build/release/listings --write docs/kernels.md`; a test compares registers
and shared memory with the build. No kernel spills, which a test sees to (`tools/check_ptx.py`). Shared memory is that of a block where a kernel's configuration says it; elsewhere it
follows from the sizes of a communicator or a call, up to 227 KiB. Time is what `ptxas` took for the kernel, on one core; `cicc` before it takes one to two times as long for the whole file.
"""


def fields_of(path):
    """The members of `struct config` of a header, in order; they come before its functions."""
    body = re.search(r"struct config \{(.*?)\n\};", path.read_text(), flags=re.S)
    if not body:
        return []
    told = re.sub(r"//.*", "", body[1])
    members = re.split(r"\b(?:constexpr|friend)\b", told)[0].split(";")
    return [name for member in members for name in re.findall(r"(\w+)\s*(?:=|\{)", member)]


def split_arguments(text):
    """What commas outside of brackets part."""
    parts, depth = [""], 0
    for letter in text:
        depth += letter in "<{("
        depth -= letter in ">})"
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def with_fields(values, fields):
    """A configuration's values with their names; of what is true or false, the names of what is true."""
    parts = split_arguments(values)
    if len(parts) != len(fields):
        return values
    shown = [name if value == "true" else f"{name} {value.split('::')[-1]}"
             for name, value in zip(fields, parts) if value != "false"]
    return ", ".join(shown)


def closing(text, begin):
    """Where the brace is that closes the one before `begin`."""
    depth = 1
    for at in range(begin, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return len(text)


def short_name(name, root=ROOT):
    """entry<a::kernel<constant<a::config{...}>>, params>: as one would say it."""
    inside = split_arguments(name[name.index("entry<") + len("entry<"):name.rindex(">(")])[0]
    while found := re.search(r"constant<(\w+)::config\{", inside):
        header = root / "src/kernels" / found[1].removesuffix("_kernels") / "config.hpp"
        end = closing(inside, found.end())
        shown = with_fields(inside[found.end():end], fields_of(header) if header.is_file() else [])
        inside = inside[:found.start()] + shown + inside[inside.index(">", end) + 1:]
    return re.sub(r"\b\w+::(?=\w)", "", inside).replace("> >", ">>").replace(" >", ">")


def said_of(ptxas_text):
    """{mangled name: registers, spilled bytes and milliseconds} of what `ptxas -v` said."""
    found = {}
    for piece in ptxas_text.split("Compiling entry function '")[1:]:
        spilled = re.search(SPILLED, piece)
        took = re.search(r"Compile time = ([\d.]+) ms", piece)
        found[piece[:piece.index("'")]] = {
            "registers": int(re.search(r"Used (\d+) registers", piece)[1]),
            "spills": int(spilled[1]) + int(spilled[2]),
            "ms": float(took[1]) if took else 0.0,
        }
    return found


def shared_memory_of(ptx_text):
    """{mangled name: bytes, or None} of what kernels say of themselves in their listing."""
    pieces = re.split(r"\.entry ([\w$]+)", ptx_text)
    told = [re.search(r"// shared memory: (\d+)", body) for body in pieces[2::2]]
    return {name: int(shared[1]) if shared else None for name, shared in zip(pieces[1::2], told)}


def rows(listings):
    """{file: [kernel's row]} in the order of names."""
    files = {}
    for path in sorted(listings.rglob("*.ptx")):
        shared, code = shared_memory_of(path.read_text()), same_code.sections(path.with_suffix(".cubin"))
        said = said_of(path.with_suffix(".ptxas").read_text())
        files[path.relative_to(listings).with_suffix("").as_posix()] = {
            name: {**said[name], "shared": shared[name], "code": len(code[name])} for name in shared}
    shown = names_in_the_source(sorted({name for kernels in files.values() for name in kernels}), dict(enumerators(ROOT)))
    return {file: sorted(({"kernel": short_name(shown[name]), **row} for name, row in kernels.items()), key=lambda row: row["kernel"])
            for file, kernels in files.items() if kernels}


def compiler(listings):
    for path in sorted(listings.rglob("*.ptx")):
        with path.open() as listing:
            found = re.search(r"V([\d.]+)", listing.read(2000))
        if found:
            return "nvcc " + found[1]
    sys.exit(f"{listings}: no listing of nvcc here: build with BATON_CUDA")


def page(listings):
    files = rows(listings)
    lines = [HEAD.format(compiler=compiler(listings))]
    lines += ["| file | kernels | code, KB | ptxas, s |", "|---|---|---|---|"]
    for file, kernels in files.items():
        lines.append(f"| [{file}](../{file}.cu) | {len(kernels)} | {sum(k['code'] for k in kernels) / 1000:.0f} | "
                     f"{sum(k['ms'] for k in kernels) / 1000:.1f} |")
    every = [kernel for kernels in files.values() for kernel in kernels]
    lines.append(f"| all | {len(every)} | {sum(k['code'] for k in every) / 1000:.0f} | {sum(k['ms'] for k in every) / 1000:.1f} |")
    for file, kernels in files.items():
        lines += ["", f"## {file}", "| kernel | registers | spilled bytes | shared memory | code, KB | ptxas, s |", "|---|---|---|---|---|---|"]
        lines += [row_text(kernel) for kernel in kernels]
    return "\n".join(lines) + "\n"


def row_text(kernel):
    shared = "-" if kernel["shared"] is None else f"{kernel['shared']:,}"
    return (f"| `{kernel['kernel']}` | {kernel['registers']} | {kernel['spills']} | {shared} | {kernel['code'] / 1000:.1f} | "
            f"{kernel['ms'] / 1000:.2f} |")


def compared(text):
    """What --check looks at, and how often: each file's kernels with their registers, spills and shared memory. Some have one name."""
    found, file = collections.Counter(), ""
    for line in text.splitlines():
        file = line[3:] if line.startswith("## ") else file
        if row := re.match(r"\| (`[^`]*` \| \d+ \| \d+ \| [-\d,]+) \|", line):
            found[f"{file}: {row[1]}"] += 1
    return found


def complaints(listings, text):
    found, told = compared(page(listings)), compared(text)
    for row in sorted((found - told).elements()):
        yield f"the build has, and the page has not: {row}"
    for row in sorted((told - found).elements()):
        yield f"the page has, and the build has not: {row}"


def main(arguments):
    if len(arguments) not in (1, 3) or (len(arguments) == 3 and arguments[1] not in ("--check", "--write")):
        print(__doc__)
        return 2
    listings = pathlib.Path(arguments[0])
    if len(arguments) == 1:
        print(page(listings), end="")
        return 0
    path = pathlib.Path(arguments[2])
    if arguments[1] == "--write":
        path.write_text(page(listings))
        return 0
    text = path.read_text()
    if f" as {compiler(listings)} makes it" not in text:
        print(f"{path}: not compared: it is of another compiler than {compiler(listings)}")
        return SKIPPED
    wrong = list(complaints(listings, text))
    print("\n".join(wrong) or f"{path}: {compared(text).total()} kernels as built")
    if wrong:
        print(f"write it anew: python3 tools/kernel_table.py {listings} --write {path}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
