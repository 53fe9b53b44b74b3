#!/usr/bin/env python3
"""Adds up ctest's and pytest's results files: summary.py [note=TEXT ...] STAGE=results.xml ...

Prints the slowest tests, the tests that failed and what they said, the reasons for skips, and a closing line. Exits 1 if a test failed or none ran.
"""
import re
import sys
import xml.etree.ElementTree as xml

LINES_OF_A_FAILURE = 12


def cases(path):
    for case in xml.parse(path).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        outcome = {"run": "passed", "fail": "failed", None: "passed"}.get(case.get("status"), "skipped")  # pytest has no status
        for kind, means in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
            if (said := case.find(kind)) is not None:
                outcome, output = means, output or said.text or said.get("message") or ""
        yield case.get("name"), outcome, float(case.get("time") or 0), output


def skip_reason(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if re.search(r": Skipped$", line) and index + 1 < len(lines):
            return lines[index + 1]
    return lines[-1] if lines else "no reason given"


def why_failed(output):
    """The lines of a GoogleTest failure, as many as tell one: nobody who reads this report may have the files."""
    lines = output.splitlines()
    first = next((i for i, line in enumerate(lines) if re.search(r": Failure$", line)), max(0, len(lines) - LINES_OF_A_FAILURE))
    return lines[first:first + LINES_OF_A_FAILURE]


def main(arguments):
    notes = [a.removeprefix("note=") for a in arguments if a.startswith("note=") and a != "note="]
    results = []
    for stage, path in (a.split("=", 1) for a in arguments if not a.startswith("note=")):
        try:
            results += [(stage, *case) for case in cases(path)]
        except (OSError, xml.ParseError) as problem:
            results.append((stage, f"(no results: {problem})", "failed", 0.0, ""))
    print("\nslowest: " + ", ".join(f"{name} {time:.1f} s [{stage}]" for stage, name, _, time, _ in
                                    sorted(results, key=lambda r: -r[3])[:5]))
    for note in notes:
        print(f"note: {note}")
    for stage, name, outcome, _, output in results:
        if outcome == "skipped":
            print(f"skipped: {name} [{stage}]: {skip_reason(output)}")
    for stage, name, outcome, _, output in results:
        if outcome == "failed":
            print(f"FAILED: {name} [{stage}]", *why_failed(output), sep="\n    ")
    for stage in dict.fromkeys(r[0] for r in results):
        mine = [r for r in results if r[0] == stage]
        print(f"{stage}: {len(mine)} tests, {sum(r[2] == 'failed' for r in mine)} failed, "
              f"{sum(r[3] for r in mine):.0f} s of work")
    count = {kind: sum(r[2] == kind for r in results) for kind in ("passed", "failed", "skipped")}
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**count))
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
