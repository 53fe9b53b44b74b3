#!/usr/bin/env python3
"""Draws the points of `baton bench ring --json-file FILE`: plot_ring.py FILE [--out ring.svg].

Left: cycles per hand-off against readers, one panel a number of stages; right: TFLOP/s of the product against size.
Needs matplotlib.
"""
import collections
import sys

import plots

SCHEMA = "baton.bench.ring/1"
PANEL_STAGES = 4  # panels at most, spread over the stages that were measured


def read_points(path):
    return plots.read_points(path, SCHEMA)


def hand_off_lines(points):
    """{stages: {strategy: [(readers, median, deviation)]}}"""
    lines = collections.defaultdict(lambda: collections.defaultdict(list))
    for p in points:
        if p["case"] == "hand_off":
            lines[p["stages"]][p["strategy"]].append((p["readers"], p["median_cycles"], p["mad_cycles"]))
    return {stages: {name: sorted(line) for name, line in of.items()} for stages, of in sorted(lines.items())}


def gemm_lines(points):
    """{strategy: [(size, TFLOP/s, of the slowest and the fastest sample)]}"""
    lines = collections.defaultdict(list)
    for p in points:
        if p["case"] == "ring_gemm" and p["tflops"] is not None:
            extremes = [p["flops"] / us / 1e6 for us in (max(p["samples_us"]), min(p["samples_us"]))]
            lines[p["strategy"]].append((p["m"], p["tflops"], *extremes))
    return {name: sorted(line) for name, line in lines.items()}


def some_of(stages):
    if len(stages) <= PANEL_STAGES:
        return stages
    return sorted({stages[round(i * (len(stages) - 1) / (PANEL_STAGES - 1))] for i in range(PANEL_STAGES)})


def draw(points, out):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    hand_offs, products = hand_off_lines(points), gemm_lines(points)
    panels = some_of(list(hand_offs))
    columns = len(panels) + bool(products)
    figure, axes = plt.subplots(1, columns, figsize=(3.4 * columns, 3.6), squeeze=False)
    top = max((median for of in hand_offs.values() for line in of.values() for _, median, _ in line), default=1)
    for axis, stages in zip(axes[0], panels):
        for name, line in hand_offs[stages].items():
            readers, medians, deviations = zip(*line)
            axis.errorbar(readers, medians, deviations, marker="o", markersize=3, label=name)
        axis.set(title=f"{stages} stage{'s' if stages > 1 else ''}", xlabel="readers", ylim=(0, 1.05 * top))
    if panels:
        axes[0][0].set_ylabel("cycles per hand-off")
        axes[0][0].legend(fontsize=7)
    if products:
        axis = axes[0][-1]
        for name, line in products.items():
            sizes, medians, lowest, highest = zip(*line)
            style = {"color": "gray", "linestyle": "--"} if name == "cublas" else {}
            axis.plot(sizes, medians, marker="o", markersize=3, label=name, **style)
            axis.fill_between(sizes, lowest, highest, alpha=0.15)
        axis.set(title="C = A * B^T", xlabel="m = n = k", ylabel="TFLOP/s", ylim=(0, None))
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, sizes)
        axis.legend(fontsize=7)
    figure.suptitle(f"ring buffers, {points[0]['gpu'] or 'CPU'}", fontsize=10)
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    sys.exit(plots.run(__doc__, "ring.svg", read_points, draw))
