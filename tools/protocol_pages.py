#!/usr/bin/env python3
"""Writes the generated parts of docs/protocols from what `baton check` says, or checks them.

    protocol_pages.py --program BATON            writes them
    protocol_pages.py --program BATON --check    fails if one is not up to date, or if the protocols took too long

A page's generated parts stand between markers that name a protocol and what is wanted of it; the rest is written by hand:

    <!-- generated: gate: source, run, checked -->
    ...
    <!-- end -->

A protocol without a marker anywhere gets a page of its own.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

import sequence_drawing
import tree

PAGES = pathlib.Path("docs/protocols")
INDEX = "README.md"
PART = re.compile(r"<!-- generated: ([\w ]+?)(?:: ([\w, ]+))? -->\n(.*?)<!-- end -->", flags=re.S)
MOST_SECONDS = 90  # of all protocols together, on two cores of a usual day
USUAL_PACE = 0.2  # CPU seconds that `pace` takes then; machines for hire take up to twice as long on others


def source_part(headers):
    return ["What lies where, who waits for whom and why that is right, stands in " +
            ", ".join(f"[{header}](../../{header})" for header in headers) + ".", ""]


def run_part(protocol, of):
    first = protocol["explorations"][0]
    if "trace" not in first:
        return []
    return [f"## One execution{of}: {first['name']}", "", "```text", sequence_drawing.draw(first["trace"]), "```", ""]


def cell(value):
    return str(value).replace("|", "\\|")


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
            *("| " + " | ".join(map(cell, row)) + " |" for row in rows), ""]


def row_of(exploration):
    counts = (f"{exploration[key]:,}" for key in ("executions", "steps"))
    return (exploration["name"], *counts, exploration["longest"], exploration["verdict"])


def total_of(explorations):
    return f"{sum(e['executions'] for e in explorations):,}"


def checked_part(protocol, of):
    explorations, mutants = protocol["explorations"], protocol["mutants"]
    rows = [row_of(e) for e in explorations]
    bugs = [(m["name"], m["breaks"], m["verdict"] if m["killed"] else f"**not noticed** ({m['verdict']})") for m in mutants]
    killed = sum(m["killed"] for m in mutants)
    return ["## Explored" + of.replace(" of ", ": "), "", "Every schedule, and every value that a load may return; schedules that differ in the order of independent steps only "
            "count once:", "",
            *table(("bound", "executions", "steps", "longest", "verdict"), rows),
            f"## Planted bugs{of}: {killed} of {len(mutants)} noticed", "",
            *table(("bug", "breaks", "noticed as"), bugs),
            "Again, with the schedule that shows each:", "",
            "```sh", f"baton check --protocol {protocol['name']} --mutants --trace", "```", ""]


def part(protocol, wanted, is_alone):
    of = "" if is_alone else f" of {protocol['name']}"  # headings of one page differ
    made = {"source": lambda: source_part(protocol["headers"]), "run": lambda: run_part(protocol, of),
            "checked": lambda: checked_part(protocol, of)}
    return "\n".join(line for what in wanted for line in made[what]())


def index_part(protocols, page_of):
    rows = [(f"[{p['name']}]({page_of[p['name']]})", p["title"], len(p["explorations"]),
             total_of(p["explorations"]),
             f"{sum(m['killed'] for m in p['mutants'])} of {len(p['mutants'])}") for p in protocols]
    return "\n".join(table(("protocol", "what it is", "explorations", "executions", "bugs noticed"), rows))


def new_page(protocol):
    return f"# {protocol['title']}\n\n<!-- generated: {protocol['name']}: source, run, checked -->\n<!-- end -->\n"


def existing_pages(folder):
    return {path.name: path.read_text() for path in sorted(folder.glob("*.md"))}


def pages_as_they_should_be(root, protocols):
    """(what every page should contain, complaints about markers)"""
    pages, complaints = existing_pages(root / PAGES), []
    by_name = {p["name"]: p for p in protocols}
    page_of = {found[1]: name for name, text in pages.items() for found in PART.finditer(text)}
    for name, p in by_name.items():
        if name not in page_of:
            page_of[name] = f"{name}.md"
            pages[page_of[name]] = new_page(p)

    def fill(found, page):
        name, wanted = found[1], re.findall(r"\w+", found[2] or "")
        if name == "index":
            body = index_part(protocols, page_of)
        elif name in by_name:
            body = part(by_name[name], wanted, sum(at == page for at in page_of.values()) == 1)
        else:
            complaints.append(f"{PAGES / page}: there is no protocol {name} any more")
            return found[0]
        return found[0].split("\n", 1)[0] + "\n" + body + "<!-- end -->"
    for page, text in pages.items():
        pages[page] = PART.sub(lambda found: fill(found, page), text)
    return pages, complaints


def update(root, protocols):
    pages, complaints = pages_as_they_should_be(root, protocols)
    for name, text in pages.items():
        (root / PAGES / name).write_text(text)
    return complaints


def computation(_):
    """CPU seconds of one that has nothing of baton in it."""
    start, number = time.process_time(), 0
    for i in range(3_000_000):
        number = (number * 31 + i) & 0xffff
    return time.process_time() - start


def pace():
    """Of the computation on two cores at once: half of ten take less."""
    with concurrent.futures.ProcessPoolExecutor(2) as cores:
        return statistics.median(cores.map(computation, range(10)))


def complaints_of(root, report, most_seconds=MOST_SECONDS):
    pages, complaints = pages_as_they_should_be(root, report["protocols"])
    now = existing_pages(root / PAGES)
    for name, text in pages.items():
        if now.get(name) != text:
            complaints.append(f"{PAGES / name}: not up to date; run tools/protocol_pages.py --program build/cpu/baton")
    if not report["all_well"]:
        complaints.append("baton check: something was found, or a planted bug was not noticed")
    if report["seconds"] > most_seconds:
        complaints.append(f"baton check: {report['seconds']:.0f} s; the most is {most_seconds:.0f}")
    return complaints


def run_program(program):
    result = subprocess.run([program, "check", "--json", "--mutants", "--trace"], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        sys.exit(f"{program} check failed with {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=".")
    parser.add_argument("--program", required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    root = pathlib.Path(options.root).resolve()
    before = pace() if options.check else USUAL_PACE
    report = run_program(options.program)
    print(f"baton check: {report['executions']:,} executions in {report['seconds']:.1f} s")
    if not options.check:
        return tree.report(update(root, report["protocols"]), "protocol pages")
    slowness = max(1, before / USUAL_PACE, pace() / USUAL_PACE)
    print(f"on a day {slowness:.1f} times as slow as usual")
    return tree.report(complaints_of(root, report, slowness * MOST_SECONDS), "protocol pages")


if __name__ == "__main__":
    sys.exit(main())
