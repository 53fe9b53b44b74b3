#!/usr/bin/env python3
"""Fails on names and function sizes that clang-tidy refuses: check_tidy.py --build DIR [ROOT].

Runs the checks of ENFORCED with the settings of .clang-tidy on every host source of the library, the program and the examples.
Nearly all of the time goes into headers, so sources that are compiled alike are read together, as one. What these checks say of
a source does not depend on others that stand before it, unless it does not compile there: then it is read apart from them,
in the end alone.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import pinned

ENFORCED = "-*,readability-identifier-naming,readability-function-size"
PRELUDE = pathlib.Path(__file__).with_name("tidy_prelude.hpp").resolve()
FOLDERS = ("src", "sim", "checks", "forecast", "cli", "examples")
DOES_NOT_COMPILE = "[clang-diagnostic-error"
MOST_AT_ONCE = 100


def way_of(command):
    """(folder, arguments) with which a source is compiled, itself and its output apart."""
    arguments = command.get("arguments") or shlex.split(command["command"])
    if "-o" in arguments:
        at = arguments.index("-o")
        arguments = arguments[:at] + arguments[at + 2:]
    return command["directory"], tuple(a for a in arguments if a not in ("-c", command["file"]))


def sources_of(file):
    """The sources that a file of the build stands for: itself, or those that are compiled together in it."""
    if "Unity" not in file.parts:
        return [file]
    return [pathlib.Path(source) for source in re.findall(r'^#include "(.*)"', file.read_text(), flags=re.M)]


def compiled_sources(root, build):
    """{source: the way it is compiled}"""
    commands = json.loads((build / "compile_commands.json").read_text())
    files = {source: way_of(command) for command in commands for source in sources_of(pathlib.Path(command["file"]))}
    return {f: files[f] for f in sorted(files) if f.suffix == ".cpp" and f.is_relative_to(root) and
            f.relative_to(root).parts[0] in FOLDERS}


def way_of_all(ways):
    """One that has what each of them is given: an option and its value, if that stands behind it, are one."""
    options = dict.fromkeys(option for _, arguments in ways
                            for option in re.findall(r"(?:-I|-D|-isystem|-include)\n[^\n]+|[^\n]+", "\n".join(arguments)))
    return ways[0][0], [word for option in options for word in option.split("\n")]


def is_example(source):
    return "examples" in source.parts


def batches(sources):
    """Lists of sources that are compiled alike, folder after folder: names of a library's sources differ, or no build with a
    sanitizer would compile them together. Sources with CUDA are apart: no such build has them, and their check() is the
    checker's namespace to others. What is compiled like nothing else is read together, and so are examples."""
    alike = collections.defaultdict(list)
    for source, way in sources.items():
        alike["examples" if is_example(source) else "cuda" if source.stem.endswith("_cuda") else way].append(source)
    single = [source for same in alike.values() if len(same) == 1 for source in same] + alike.pop("examples", [])
    for same in [*(same for same in alike.values() if len(same) > 1), single]:
        size = -(-len(same) // -(-len(same) // MOST_AT_ONCE)) if same else 1
        yield from (same[i:i + size] for i in range(0, len(same), size))


def text_of(batch):
    """Sources one behind the other. Examples, each of which has a main(), are in namespaces of their own, behind their headers."""
    examples = [source for source in batch if is_example(source)]
    headers = dict.fromkeys(line for source in examples for line in re.findall("^#include .*\n", source.read_text(), flags=re.M))
    apart = (f'namespace example_{nth} {{\n#include "{source}"\n}}\n' for nth, source in enumerate(examples))
    return "".join([*(f'#include "{source}"\n' for source in batch if source not in examples), *headers, *apart])


def said_of(tool, root, batch, way):
    """What clang-tidy prints of sources that are read one behind the other."""
    with tempfile.TemporaryDirectory() as folder:
        all_of_them = pathlib.Path(folder, "batch.cpp")
        all_of_them.write_text(text_of(batch))
        pathlib.Path(folder, "compile_commands.json").write_text(json.dumps(
            [{"directory": way[0], "file": str(all_of_them), "arguments": [*way[1], "-c", str(all_of_them)]}]))
        result = subprocess.run(
            [tool, "--quiet", f"--config-file={root}/.clang-tidy", f"--checks={ENFORCED}",
             f"--header-filter={root}/(include|{'|'.join(FOLDERS)})/.*", "--extra-arg=-w", "--extra-arg=-ferror-limit=0",
             "--extra-arg=-fno-cxx-modules", f"--extra-arg=-include{PRELUDE}",
             "-p", folder, str(all_of_them)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return result.stdout if result.returncode else ""


def complaints(tool, root, batch, sources):
    said = said_of(tool, root, batch, way_of_all([sources[source] for source in batch]))
    errors = [line for line in said.splitlines() if DOES_NOT_COMPILE in line]
    if not errors or len(batch) == 1:
        return [said] if said else []
    apart = [source for source in batch if any(line.startswith(f"{source}:") for line in errors)]
    if len(apart) in (0, len(batch)):
        apart = batch[1::2]
    rest = [source for source in batch if source not in apart]
    return complaints(tool, root, rest, sources) + complaints(tool, root, apart, sources)


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
    longest_first = sorted(batches(sources), key=len, reverse=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = [text for some in pool.map(lambda b: complaints(tool, root, b, sources), longest_first) for text in some]
    print("\n".join(dict.fromkeys(found)) or f"tidy: {len(sources)} sources ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
