#!/usr/bin/env python3
"""Runs the tests that ctest would run, those of a GoogleTest program many to a process: run_tests.py [OPTIONS] [-- CTEST_ARGUMENTS ...]

ctest says which tests there are; it starts a process for each, which with a sanitizer is most of what a small test takes. Every
test is reported by its own name, in the form of ctest's results. Not shared: the process of a test that runs alone (RUN_SERIAL,
PROCESSORS) and of one that does something to its process (see ALONE). The tests after one that ends its process
get a new one. If all tests of a process passed and it failed, as it does when memory leaks, each is run in one of its own.
"""
import argparse
import collections
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as xml

ALONE = r"\b(fork|setenv|unsetenv|setrlimit)\(|_(DEATH|EXIT)\("
HEADERS = ("support/forked_ranks.hpp", "support/exchange_processes.hpp")  # of tests, whose functions do so
AT_MOST = 32  # tests in a process
BESIDE = "(beside the tests)"
# So that all that a test started can be ended. Not a session of its own: jobs are told apart by those, too.
OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
KNOWN = {"LABELS", "TIMEOUT", "WORKING_DIRECTORY", "ENVIRONMENT", "SKIP_REGULAR_EXPRESSION", "SKIP_RETURN_CODE", "PROCESSORS", "COST",
         "RUN_SERIAL"}


@dataclasses.dataclass
class test:
    name: str
    command: list
    timeout: float = 600.0
    folder: str = "."
    environment: tuple = ()
    skip_code: int = None
    processors: int = 1
    cost: float = 0.0
    alone: bool = False

    @property
    def filter(self):
        """What GoogleTest calls it, if it is one of its tests."""
        found = [word for word in self.command if word.startswith("--gtest_filter=")]
        return found[0].split("=", 1)[1] if found else None


@dataclasses.dataclass
class result:
    name: str
    outcome: str  # run, fail, notrun
    seconds: float
    output: str


def pieces_of(text):
    """What ends with a brace in the first column: its text, names of functions and classes in it, and its tests."""
    for piece in re.split(r"^\}.*$", text, flags=re.MULTILINE):
        tests = re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", piece, re.MULTILINE)
        names = re.findall(r"^(?:class|struct)\s+(\w+)|^(?!//)[\w:<].*?\b([a-z]\w*)\(", piece, re.MULTILINE)
        yield piece, {a or b for a, b in names}, set(tests)


def tests_alone(tests_folder):
    """(suite, test) of those that do something to their process, or name what does. (Tests of GPUs are alone in any case.)"""
    found = set()
    headers = "".join(path.read_text() for path in map(tests_folder.joinpath, HEADERS) if path.exists())
    for path in (path for folder in ("cpu", "both", "kernels", "check", "threads") for path in tests_folder.glob(f"{folder}/*_test.cpp")):
        text = path.read_text()
        left = list(pieces_of(headers + text if any(header in text for header in HEADERS) else text))
        does = ALONE
        while guilty := [piece for piece in left if re.search(does, piece[0])]:
            left = [piece for piece in left if piece not in guilty]
            found.update(test for piece in guilty for test in piece[2])
            does = "|".join(rf"\b{name}\b" for piece in guilty for name in piece[1]) or r"(?!)"
    return found


def suite_of(name):
    """exchange of cpu/exchange.rows_are_right/3, and of exchange/0.rows_are_right."""
    return next(part for part in reversed(name.split(".")[0].split("/")) if not part.isdigit())


def test_of(name):
    """rows_are_right of cpu/exchange.rows_are_right/3."""
    return name.split(".")[1].split("/")[0]


def tests_of(listing, jobs, alone):
    for entry in json.loads(listing)["tests"]:
        properties = {p["name"]: p["value"] for p in entry["properties"]}
        if properties.keys() - KNOWN or "command" not in entry:
            raise ValueError(f"{entry['name']}: not built, or a property that is not known here: {sorted(properties.keys() - KNOWN)}")
        serial = properties.get("RUN_SERIAL", False)
        made = test(entry["name"], entry["command"], properties.get("TIMEOUT", 600.0), properties.get("WORKING_DIRECTORY", "."),
                    tuple(properties.get("ENVIRONMENT", ())), properties.get("SKIP_RETURN_CODE"),
                    jobs if serial else min(jobs, properties.get("PROCESSORS", 1)), properties.get("COST", 0.0))
        made.alone = made.filter is None or serial or made.processors > 1 or (suite_of(made.filter), test_of(made.filter)) in alone
        yield made


class process:
    """A program that is ended, with what it started, when it says nothing new in time."""

    def __init__(self, command, of):
        self.timed_out = False
        self.started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=of.folder,
                                        env={**os.environ, **dict(e.split("=", 1) for e in of.environment)}, encoding="utf-8", errors="replace",
                                        **OWN_GROUP)
        self.timer = None
        self.allow(of.timeout)

    def allow(self, seconds):
        self.cancel()
        self.timer = threading.Timer(seconds, self.end)
        self.timer.start()

    def cancel(self):
        if self.timer:
            self.timer.cancel()

    def end(self):
        self.timed_out = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.started.pid, signal.SIGKILL)

    def lines(self):
        yield from self.started.stdout
        self.code = self.started.wait()
        self.cancel()

    def how_it_ended(self):
        return "ran out of time" if self.timed_out else f"the process ended with {self.code}"


def run_command(one):
    began = time.monotonic()
    running = process(one.command, one)
    output = "".join(running.lines())
    if running.code == one.skip_code and not running.timed_out:
        outcome = "notrun"
    else:
        outcome = "fail" if running.code else "run"
    if outcome == "fail":
        output += f"\n{running.how_it_ended()}\n"
    return [result(one.name, outcome, time.monotonic() - began, output)]


class told:
    """What a GoogleTest program says of its tests, line by line."""

    def __init__(self, tests):
        self.names = {one.filter: one for one in tests}
        self.results = []
        self.current = None
        self.between = ""

    def hear(self, line):
        """True if a test begins."""
        if self.current is None:
            found = re.match(r"\[ RUN      \] (\S+)$", line)
            self.between += line
            if not found or found[1] not in self.names:
                return False
            self.current, self.began, self.output = found[1], time.monotonic(), line
            return True
        self.output += line
        found = re.search(r"\[ *(OK|FAILED|SKIPPED) *\] (\S+?)(?:,? .*)?$", line)
        if found and found[2] == self.current and re.search(r"\(\d+ ms\)$", line):
            self.end({"OK": "run", "FAILED": "fail", "SKIPPED": "notrun"}[found[1]])
        return False

    def end(self, outcome, remark=""):
        one = self.names.pop(self.current)
        self.results.append(result(one.name, outcome, time.monotonic() - self.began, self.output + remark))
        self.current = None


def run_together(tests):
    """Results of tests of one program, and the tests that it did not come to."""
    command = [word for word in tests[0].command if not word.startswith("--gtest_filter=")]
    running = process([*command, "--gtest_filter=" + ":".join(one.filter for one in tests)], tests[0])
    heard = told(tests)
    for line in running.lines():
        if heard.hear(line):
            running.allow(heard.names[heard.current].timeout)
    remark = f"\n{running.how_it_ended()}\n"
    if heard.current is not None:
        heard.end("fail", remark)
    elif not heard.results:  # it never began
        heard.current, heard.began, heard.output = tests[0].filter, time.monotonic(), heard.between
        heard.end("fail", remark)
    elif running.code and all(r.outcome != "fail" for r in heard.results):
        return which_fails(tests, heard, remark)
    elif running.code == 0 and heard.names:
        missing = next(iter(heard.names))
        heard.current, heard.began, heard.output = missing, time.monotonic(), heard.between
        heard.end("fail", "\nthe program did not run this test\n")
    return heard.results, list(heard.names.values())


def which_fails(tests, heard, remark):
    """The process failed behind its tests, all of which passed: if none does so alone, the last is said to have failed."""
    if len(tests) > 1:
        again = [one for each in tests for one in run_together([each])[0]]
        if any(one.outcome == "fail" for one in again):
            return again, []
        remark = f"{remark}\nof a process of {len(tests)} tests, from {tests[0].name} on, each of which passes alone\n"
    last = heard.results[-1]
    last.outcome, last.output = "fail", last.output + heard.between + remark
    return heard.results, list(heard.names.values())


class schedule:
    """What runs next: what needs most cores and time, then large programs' tests, fewer at once towards the end. Beside them runs one
    that has a process of its own, after the other: most of these wait for each other's processes, and cores would idle."""

    def __init__(self, tests, jobs):
        self.jobs = jobs
        self.alone = sorted((one for one in tests if one.alone), key=lambda one: (-one.processors, -one.cost))
        pools = collections.defaultdict(list)
        for one in tests:
            if not one.alone:
                pools[one.command[0], one.environment, one.folder].append(one)
        self.pools = sorted(pools.values(), key=len, reverse=True)

    def size(self):
        return max(1, min(AT_MOST, sum(map(len, self.pools)) // (8 * self.jobs)))

    def beside(self):
        """One that no core is kept for."""
        return [self.alone.pop(0)] if self.alone and not self.wants_cores_alone() else None

    def next(self, free):
        for index, one in enumerate(self.alone):
            if one.processors <= free and (one.processors > 1 or not self.pools):
                return [self.alone.pop(index)]
        if not free or not self.pools:
            return None
        size = self.size()
        chosen, self.pools[0][:size] = self.pools[0][:size], []
        self.pools = [pool for pool in self.pools if pool]
        return chosen

    def wants_cores_alone(self):
        return any(one.processors > 1 for one in self.alone)

    def give_back(self, tests):
        if tests:
            self.pools.append(tests)


def run_batch(batch, done):
    try:
        outcome = run_together(batch) if batch[0].filter else (run_command(batch[0]), [])
    except OSError as problem:
        outcome = [result(one.name, "fail", 0.0, f"{problem}\n") for one in batch], []
    done.put((batch, *outcome))


def run(tests, jobs, report, shares=lambda: None):
    """Calls shares() once, from when on no test wants more than one core, or all of them, for itself."""
    waiting, done, free, running, beside, is_shared = schedule(tests, jobs), queue.Queue(), jobs, [], None, False

    def start(batch):
        running.append(batch)
        threading.Thread(target=run_batch, args=(batch, done), daemon=True).start()
        return batch

    while True:
        while batch := waiting.next(free):
            free -= start(batch)[0].processors
        if not waiting.wants_cores_alone() and all(one[0].processors == 1 for one in running):
            if not beside and (batch := waiting.beside()):
                beside = start(batch)
            if not is_shared:
                is_shared = True
                shares()
        if not running:
            return
        batch, results, left = done.get()
        if batch is beside:
            beside = None
        else:
            free += batch[0].processors
        running.remove(batch)
        waiting.give_back(left)
        for one in results:
            report(one)


def write_results(path, results):
    suite = xml.Element("testsuite")
    for one in results:
        case = xml.SubElement(suite, "testcase", name=one.name, status=one.outcome, time=f"{one.seconds:.3f}")
        xml.SubElement(case, "system-out").text = re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]", "?", one.output)
    xml.ElementTree(suite).write(path, encoding="utf-8")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=".")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--results", default="results.xml")
    parser.add_argument("--shares", type=pathlib.Path, action="append", default=[],
                        help="a folder in which a file `go` is made when no test needs cores of its own any more")
    parser.add_argument("--beside", default="", help="a script that takes one core from the beginning; it is none of the tests")
    parser.add_argument("ctest", nargs="*")
    options = parser.parse_args(arguments)
    listing = subprocess.run(["ctest", "--test-dir", options.build, "--show-only=json-v1", *options.ctest], stdout=subprocess.PIPE,
                             text=True, check=True).stdout
    alone = tests_alone(pathlib.Path(__file__).resolve().parents[2] / "tests")
    tests = list(tests_of(listing[listing.index("{"):], options.jobs, alone))
    results, besides = [], []

    def report(one):
        if one.name == BESIDE:
            besides.append(one)
            print(one.output, flush=True)
            return
        results.append(one)
        word = {"run": "passed", "fail": "FAILED", "notrun": "skipped"}[one.outcome]
        print(f"{len(results)}/{len(tests)} {word} {one.seconds:.2f} s {one.name}", flush=True)
        if one.outcome == "fail":
            print(one.output, flush=True)

    beside = [test(BESIDE, ["bash", "-euc", options.beside], cost=math.inf, alone=True)] if options.beside else []
    run(beside + tests, options.jobs, report, lambda: [(folder / "go").touch() for folder in options.shares])
    write_results(options.results, results)
    return 0 if len(results) == len(tests) > 0 and all(one.outcome != "fail" for one in results + besides) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
