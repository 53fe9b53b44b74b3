#!/usr/bin/env python3
"""Draws the points of `baton forecast --json-file FILE`: plot_forecast.py FILE [--out forecast.svg]. Needs matplotlib.

Against ranks, ranks of a group, tokens and hidden, where these have several values and what else differs makes few lines: microseconds a
round; and where there are one level and two, how much longer one takes.
"""
import collections
import sys

import plots

SCHEMA = "baton.forecast/1"
AGAINST = {"ranks": "ranks", "p2p_group_size": "ranks of a group", "tokens": "tokens of a rank", "hidden": "values in a token"}
WORDS = {"ranks": "{} ranks", "p2p_group_size": "groups of {}", "tokens": "{} tokens", "hidden": "hidden {}", "levels": "{} level",
         "layout": "{}", "routing": "{}", "format": "{}", "combine_format": "back in {}", "experts": "{} experts", "top_k": "top-{}"}
FOLLOWS = {"ranks": ("experts",)}  # what is another because the axis is
MOST_LINES = 8  # more say nothing


def read_points(path):
    return plots.read_points(path, SCHEMA)


def values(points, axis):
    return sorted({p["axes"][axis] for p in points})


def axes_drawn(points):
    return [axis for axis in AGAINST if len(values(points, axis)) > 1 and len(lines_against(points, axis)) <= MOST_LINES]


def name_of(point, points, without):
    """By what differs between points: "two levels, zipf"."""
    words = [WORDS[axis].format(point["axes"][axis]) + ("s" if axis == "levels" and point["axes"][axis] == "two" else "")
             for axis in WORDS if axis not in without and len({p["axes"][axis] for p in points}) > 1]
    return ", ".join(words) or "a round"


def lines_against(points, axis):
    """{name: [(where, us a round)]}, in the order of the file."""
    lines = collections.defaultdict(list)
    for p in points:
        lines[name_of(p, points, (axis, *FOLLOWS.get(axis, ())))].append((p["axes"][axis], p["round_us"]))
    return {name: sorted(line) for name, line in lines.items()}


def gains_against(points, axis):
    """{name: [(where, time with one level, of that with two)]}, where both are."""
    def key(p):
        return tuple((name, p["axes"][name]) for name in WORDS if name != "levels")
    two = {key(p): p["round_us"] for p in points if p["axes"]["levels"] == "two"}
    lines = collections.defaultdict(list)
    for p in points:
        if p["axes"]["levels"] == "one" and key(p) in two:
            lines[name_of(p, points, (axis, "levels", *FOLLOWS.get(axis, ())))].append((p["axes"][axis], p["round_us"] / two[key(p)]))
    return {name: sorted(line) for name, line in lines.items()}


def draw_lines(panel, lines, places, label):
    colours = {}
    for name, line in lines.items():
        pair = name.replace("one level", "").replace("two levels", "")  # both have one colour
        colour = colours.setdefault(pair, f"C{len(colours)}")
        panel.plot(*zip(*line), marker="o", markersize=3, label=name, color=colour, linestyle=":" if "one level" in name else "-")
    panel.set_xscale("log", base=2)
    panel.set_xlim(places[0] / 1.2, places[-1] * 1.2)  # of all panels alike, whatever they have points of
    panel.set_xticks(places, places, fontsize=8)
    panel.set_xlabel(label)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))


def scale_of_gains(panel, lines):
    """From which side of 1 a line is, one reads who is faster."""
    every = [gain for line in lines.values() for _, gain in line]
    low, high = min([0.9, *every]), max([1.1, *every])
    margin = 0.08 * (high - low)
    panel.axhline(1, color="gray", linestyle="--")
    panel.set(ylabel="one level's time / two levels'\n(above 1 two are faster)", ylim=(low - margin, high + margin))


def scale_of_times(panel, lines):
    from matplotlib import ticker
    every = [us for line in lines.values() for _, us in line]
    panel.set_ylabel("us a round")
    if max(every) < 5 * min(every):
        panel.set_ylim(0, None)
        return
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(ticker.NullFormatter())


def heading(points):
    parts = [WORDS[axis].format(points[0]["axes"][axis]) for axis in WORDS
             if axis != "levels" and not (axis == "experts" and len(values(points, "ranks")) > 1) and len(values(points, axis)) == 1]
    links = points[0]["links"]
    shared = "one a rank" if links["ranks_per_nic"] == 1 else f"one for {links['ranks_per_nic']} ranks"
    return f"Forecast: {', '.join(parts)}\nnetwork cards of {links['nic_gb_per_s']:g} GB/s, {shared}"


def figure_of(points):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    wanted = [(axis, gains) for axis in axes_drawn(points) for gains in (False, True) if not gains or gains_against(points, axis)]
    figure, panels = plt.subplots(len(wanted), 1, figsize=(8, 0.6 + 3.2 * len(wanted)), squeeze=False, layout="constrained")
    for (axis, is_of_gains), (panel,) in zip(wanted, panels):
        lines = gains_against(points, axis) if is_of_gains else lines_against(points, axis)
        draw_lines(panel, lines, values(points, axis), AGAINST[axis])
        (scale_of_gains if is_of_gains else scale_of_times)(panel, lines)
    figure.suptitle(heading(points), fontsize=10)
    return figure


def draw(points, out):
    if not axes_drawn(points):
        raise ValueError(f"nothing to draw: neither ranks, groups, tokens nor hidden have several values and at most {MOST_LINES} lines")
    figure_of(points).savefig(out, dpi=150)


if __name__ == "__main__":
    sys.exit(plots.run(__doc__, "forecast.svg", read_points, draw))
