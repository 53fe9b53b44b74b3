#!/usr/bin/env python3
"""Draws the points of `baton bench ep --json-file FILE`: plot_ep.py FILE [--out ep.svg]; the name's end says the format, .png too.

Left: microseconds a round against tokens, median and 99th percentile, one line a layout and format, with the floor; right: how
much of this the limit is. Needs matplotlib.
"""
import collections
import sys

import plots

SCHEMA = "baton.bench.ep/2"


def read_points(path):
    return [p for p in plots.read_points(path, SCHEMA) if "skipped" not in p and p["checked"]]


def round_of(point):
    """The round's time as users see it: fused where it was measured, in a graph where there is one."""
    form = point["fused"] or point["split"]
    return form["round_trip_graph"] or form["round_trip"]


def round_lines(points):
    """{"layout format": [(tokens, median, 99th percentile, percent of the limit or None)]}"""
    lines = collections.defaultdict(list)
    for p in points:
        axes, time, limit = p["axes"], round_of(p), p["limits"]["limit_us"]
        sms = f", {axes['num_sms']} SMs" if axes["num_sms"] else ""
        share = 100 * limit / time["median_us"] if limit else None
        given = ", given" if axes.get("input") == "quantised" else ""
        lines[f"{axes['layout']} {axes['format']}{given}{sms}"].append((axes["tokens"], time["median_us"], time["p99_us"], share))
    return {name: sorted(line, key=lambda point: point[0]) for name, line in sorted(lines.items())}


def draw(points, out):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (times, shares) = plt.subplots(1, 2, figsize=(9, 3.8))
    for name, line in round_lines(points).items():
        tokens, medians, highest, of_limit = zip(*line)
        times.plot(tokens, medians, marker="o", markersize=3, label=name)
        times.fill_between(tokens, medians, highest, alpha=0.15)
        if None not in of_limit:
            shares.plot(tokens, of_limit, marker="o", markersize=3, label=name)
    if floor := points[0]["limits"]["floor"]:
        times.axhline(floor["median_us"], color="gray", linestyle="--", label="floor")
    all_tokens = sorted({p["axes"]["tokens"] for p in points})
    for axis in (times, shares):
        axis.set_xscale("log", base=2)
        axis.set_xticks(all_tokens, all_tokens)
        axis.set_xlabel("tokens of a rank")
    times.set(ylabel="us a round", yscale="log")
    times.legend(fontsize=7)
    shares.set(ylabel="limit, % of the round", ylim=(0, 100))
    axes = points[0]["axes"]
    figure.suptitle(f"{axes['ranks']} ranks, {points[0]['gpu'] or 'CPU'}, hidden {axes['hidden']}, top-{axes['top_k']} of "
                    f"{axes['experts']}", fontsize=10)
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    sys.exit(plots.run(__doc__, "ep.svg", read_points, draw))
