#!/usr/bin/env python3
"""Plants the bugs of checks/source_bugs.json into the source, one at a time, and says whether each is noticed.

    source_bugs.py --check                       every bug's text is in the source, exactly once
    source_bugs.py --build BUILD [--only TEXT]   plants, compiles what depends on the file, runs what has to notice

A bug is one edit: in `file`, `from` becomes `to`. `noticed_by` says who has to see it: protocols of `baton check`, or
test programs; or `equivalent` says why nobody can; or `missed` says why nobody does. The tree is not touched: the edited
file is found before it.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

BUGS = pathlib.Path("checks/source_bugs.json")
SECONDS = 300  # of one run; a bug that makes it hang is noticed too
ENDLESS = f"it did not end in {SECONDS} s, as a bug may make it, or a machine with too much to do"


def is_known(witness, root):
    """Whether a test program has this name, or a protocol: what checks says of itself, or one of its pages."""
    if witness.endswith("_test"):
        return any((root / "tests").glob(f"*/{witness}.cpp"))
    return (root / f"docs/protocols/{witness}.md").is_file() or any(f'"{witness}"' in path.read_text() for path in (root / "checks").glob("*.cpp"))


def problems_of(bugs, root):
    names = [bug["name"] for bug in bugs]
    known = {witness: is_known(witness, root) for witness in {w for bug in bugs for w in bug.get("noticed_by", [])}}
    for bug in bugs:
        where = f"{BUGS}: '{bug['name']}'"
        if names.count(bug["name"]) > 1:
            yield f"{where}: two have this name"
        if len({"noticed_by", "equivalent", "missed"} & bug.keys()) != 1:
            yield f"{where}: needs one of noticed_by, equivalent and missed"
        for witness in bug.get("noticed_by", []):
            if not known[witness]:
                yield f"{where}: {witness} has to notice it, and is neither a test program nor a protocol"
        path = root / bug["file"]
        times = path.read_text().count(bug["from"]) if path.is_file() else 0
        if times != 1:
            yield f"{where}: its text occurs {times} times in {bug['file']}, not once: plant the bug into what is there now"


def check(root):
    bugs = json.loads((root / BUGS).read_text())
    found = list(problems_of(bugs, root))
    print("\n".join(found) if found else f"source bugs: {len(bugs)} can be planted")
    return 1 if found else 0


class Build:
    """A build tree of the unmodified source."""

    def __init__(self, folder, root):
        self.folder, self.root = folder, root
        self.commands = {}
        for entry in json.loads((folder / "compile_commands.json").read_text()):
            source = pathlib.Path(entry["file"]).resolve().relative_to(root).as_posix()
            self.commands[source] = (entry["command"], entry["directory"])
        self.needs = self.dependencies()

    def dependencies(self):
        """object -> the files of the tree that it was made of, from ninja's log"""
        text = subprocess.run(["ninja", "-t", "deps"], cwd=self.folder, capture_output=True, text=True, check=True).stdout
        needs, current = {}, None
        for line in text.splitlines():
            if line.startswith("    "):
                path = pathlib.Path(os.path.normpath(self.folder / line.strip()))
                if path.is_relative_to(self.root):
                    needs[current].add(path.relative_to(self.root).as_posix())
            elif line:
                current = line.split(":")[0]
                needs[current] = set()
        return needs

    def object_of(self, source):
        words = shlex.split(self.commands[source][0])
        return words[words.index("-o") + 1]

    def units(self, changed, folders):
        """Sources below `folders` that are made of the changed file, or are it; but none with a main()."""
        return [source for source in self.commands if source.startswith(folders) and source != "cli/main.cpp"
                and changed in self.needs.get(self.object_of(source), set()) | {source}]

    def compile(self, source, overlay, out):
        command, directory = self.commands[source]
        words = [w for w in shlex.split(command) if not w.startswith(("-O", "-Werror")) and w not in ("-DNDEBUG", "ccache")]
        compiler = next(i for i, w in enumerate(words) if w.endswith(("c++", "g++", "clang++")))
        words[compiler + 1:compiler + 1] = ["-O0", f"-I{overlay}/include", f"-I{overlay}/src", f"-I{overlay}"]
        words[words.index("-o") + 1] = str(out)
        planted = overlay / source
        if planted.is_file():
            words[words.index("-c") + 1] = str(planted)
        return subprocess.run(words, cwd=directory, capture_output=True, text=True)

    def libraries(self):
        names = ("baton_cli", "baton_forecast", "baton_model", "baton_checks", "baton", "baton_fmt")
        return [str(self.folder / f"lib{name}.a") for name in names
                if (self.folder / f"lib{name}.a").is_file()]


def kinds_of(noticed_by):
    """Of one name: the sources to compile anew, the object with main(), libraries after it, arguments."""
    if noticed_by.endswith("_test"):
        return ("src/", "tests/"), "tests/CMakeFiles/{0}.dir/{1}/{0}.cpp.o", ["-lgtest_main", "-lgtest"], []
    return ("checks/",), "CMakeFiles/baton_program.dir/cli/main.cpp.o", [], ["check", "--protocol", noticed_by, "--bound", "300"]


def is_noticed(bug, noticed_by, build, work):
    folders, main, more, arguments = kinds_of(noticed_by)
    is_test = noticed_by.endswith("_test")
    mains = [build.folder / main.format(noticed_by, d) for d in ("cpu", "kernels", "check")]
    main = next((path for path in mains if path.is_file()), None)
    if main is None:
        return f"is not built: ninja -C {build.folder} {'tests/' + noticed_by if is_test else 'baton'}"
    folders += tuple(folder for folder in ("cli/", "sim/", "forecast/") if bug["file"].startswith(folder))
    objects = []
    for i, source in enumerate(build.units(bug["file"], folders)):
        if is_test and source.startswith("tests/") and pathlib.Path(source).stem != noticed_by:
            continue
        out = work / f"{i}.o"
        made = build.compile(source, work / "overlay", out)
        if made.returncode != 0:
            return "does not compile: " + made.stderr.splitlines()[0]
        objects.append(str(out))
        if str(main).endswith(source + ".o"):
            main = None
    program = work / "program"
    linked = subprocess.run(["c++", *objects, *([str(main)] if main else []), *more, *build.libraries(), "-lboost_context",
                             "-lpthread", "-ldl", "-lrt", "-o", str(program)], capture_output=True, text=True)
    if linked.returncode != 0:
        return "does not link: " + linked.stderr.splitlines()[0]
    try:
        ended = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=SECONDS, cwd=build.root)
    except subprocess.TimeoutExpired:
        return ENDLESS
    if ended.returncode > 1:  # its arguments are wrong: it has not run
        return f"exit status {ended.returncode}: {ended.stderr.strip()}"
    return ended.returncode != 0


def plant(bug, build):
    """Whether each that has to notice it does, or what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        planted = work / "overlay" / bug["file"]
        planted.parent.mkdir(parents=True)
        planted.write_text((build.root / bug["file"]).read_text().replace(bug["from"], bug["to"]))
        return {name: is_noticed(bug, name, build, work) for name in bug["noticed_by"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only whether every bug can be planted")
    parser.add_argument("--build", type=pathlib.Path, help="a build of this tree: the program and the tests")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="bugs at a time [one a core]")
    parser.add_argument("--only", default="", metavar="TEXT", help="bugs with this in their name")
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    cannot_be_planted = check(root)
    if arguments.check or cannot_be_planted:
        return cannot_be_planted
    if "BATON_TOGETHER:BOOL=ON" in (arguments.build / "CMakeCache.txt").read_text():
        print(f"{arguments.build}: needs sources that are compiled apart: cmake {arguments.build} -DBATON_TOGETHER=OFF", file=sys.stderr)
        return 2
    build, missed = Build(arguments.build.resolve(), root), 0
    wanted = [bug for bug in json.loads((root / BUGS).read_text()) if arguments.only in bug["name"]]
    for bug in wanted:
        for why in ("equivalent", "missed"):
            if why in bug:
                print(f"{why:<11} {bug['name']}: {bug[why]}")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = {pool.submit(plant, bug, build): bug["name"] for bug in wanted if "noticed_by" in bug}
        for run in concurrent.futures.as_completed(runs):
            for who, seen in run.result().items():
                is_seen = seen in (True, ENDLESS)
                missed += not is_seen
                print(f"{'noticed    ' if is_seen else 'NOT NOTICED'} {runs[run]}, by {who}" +
                      (f": {seen}" if isinstance(seen, str) else ""), flush=True)
    print(f"source bugs: {missed} not noticed" if missed else "source bugs: all noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
