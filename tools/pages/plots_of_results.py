#!/usr/bin/env python3
"""Draws every result in docs/results whose schema it knows, as SVG: plots_of_results.py ROOT OUT. Prints what it drew. Needs matplotlib.

Exchanges are drawn by plot_ep.py, forecasts by plot_forecast.py and rings by plot_ring.py; here are products, attention and whole layers, against
their size, beside what ran with them.
"""
import collections
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import plot_ep
import plot_forecast

RATES = "TFLOP/s in a burst"


def label_of(p):
    names = {"gemm": ("m", "n", "k"), "grouped_gemm": ("model", "product", "rows"), "attention": ("length", "heads", "kv_heads", "head_dim", "mask"),
             "attention_decode": ("batch", "keys", "heads", "kv_heads", "head_dim")}[kind_of(p)]
    return " x ".join(str(p[name]) for name in names) if kind_of(p) == "gemm" else ", ".join(
        f"{p[name]}" if isinstance(p[name], str) else f"{name} {p[name]}" for name in names if p.get(name) is not None)


def kind_of(p):
    return p["schema"].removeprefix("baton.bench.").partition("/")[0]


def rate_of(p):
    return (p["gb_per_s"], "GB/s") if kind_of(p) == "attention_decode" else (p["burst_tflops"], RATES)


def bars_of(points):
    """{who: {label: rate}}, in the order of the file; of what was measured twice the last."""
    bars = collections.defaultdict(dict)
    for p in points:
        if p.get("burst_median_us") and p.get("checked") is not False:
            more = [str(p[name]) for name in ("b_layout", "out") if len({q.get(name) for q in points}) > 1 and p.get(name)]
            bars[", ".join([*filter(None, (p.get("who", "baton"), p.get("format"))), *more])][label_of(p)] = rate_of(p)[0]
    return bars


def draw_bars(points, out, title):
    import matplotlib.pyplot as plt
    bars = bars_of(points)
    labels = list(dict.fromkeys(label for line in bars.values() for label in line))
    figure, panel = plt.subplots(figsize=(8, 1 + 0.16 * len(labels) * (1 + len(bars))), layout="constrained")
    for place, (who, line) in enumerate(bars.items()):
        at = [i + (place - (len(bars) - 1) / 2) * 0.8 / len(bars) for i, label in enumerate(labels) if label in line]
        panel.barh(at, [line[label] for label in labels if label in line], height=0.8 / len(bars), label=who)
    panel.set_yticks(range(len(labels)), labels, fontsize=7)
    panel.invert_yaxis()
    panel.set(xlabel=rate_of(points[0])[1], xlim=(0, None))
    panel.grid(alpha=0.3, axis="x")
    panel.legend(fontsize=7)
    panel.set_title(f"{title}, {points[0]['gpu'] or 'CPU'}", fontsize=9)
    figure.savefig(out)
    plt.close(figure)


def draw_layers(points, out, title):
    import matplotlib.pyplot as plt
    figure, panel = plt.subplots(figsize=(8, 3.6), layout="constrained")
    for weights in dict.fromkeys(p["weights"] for p in points):
        line = sorted((p for p in points if p["weights"] == weights), key=lambda p: p["tokens"])
        for what, style in (("layer", "-"), ("experts_alone", "--"), ("exchange", ":")):
            panel.plot([p["tokens"] for p in line], [p[what]["median_us"] for p in line], style, marker="o", markersize=3,
                       label=f"{what.replace('_', ' ')}, weights {weights}")
        if halved := [p for p in line if p.get("overlapped")]:
            panel.plot([p["tokens"] for p in halved], [min(one["layer"]["median_us"] for one in p["overlapped"]) for p in halved], "-.", marker="s", markersize=3,
                       label=f"two micro-batches, weights {weights}")
    tokens = sorted({p["tokens"] for p in points})
    panel.set(xscale="log", yscale="log", xlabel="tokens of a rank", ylabel="us, median")
    panel.set_xticks(tokens, [f"{n:,}" for n in tokens], minor=False)
    panel.minorticks_off()
    panel.grid(alpha=0.3)
    panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
    panel.set_title(f"{title}, {points[0]['ranks']} ranks, {points[0]['gpu']}", fontsize=9)
    figure.savefig(out)
    plt.close(figure)


def draw_exchange(points, out, _):
    import matplotlib.pyplot as plt
    figure = plot_ep.figure_of(points)
    figure.savefig(out)
    plt.close(figure)


def draw_forecast(points, out, _):
    import matplotlib.pyplot as plt
    figure = plot_forecast.figure_of(points)
    figure.savefig(out)
    plt.close(figure)


HOW = {"baton.bench.ep/2": draw_exchange, plot_forecast.SCHEMA: draw_forecast, "baton.bench.moe/1": draw_layers, "baton.bench.gemm/1": draw_bars,
       "baton.bench.grouped_gemm/1": draw_bars, "baton.bench.attention/1": draw_bars, "baton.bench.attention_decode/1": draw_bars}
MOST_BARS = 60  # a drawing of more says nothing


def drawable(path):
    """The points of a file that can be drawn as one, or None."""
    points = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    schemas = {p.get("schema") for p in points}
    if len(schemas) != 1 or not schemas & HOW.keys():
        return None
    if schemas == {"baton.bench.ep/2"}:
        points = [p for p in points if "skipped" not in p and p["checked"]]
        return points if len({(p["axes"]["tokens"], p["axes"]["num_sms"]) for p in points}) > 1 else None
    if schemas == {plot_forecast.SCHEMA}:
        return points if plot_forecast.axes_drawn(points) else None
    if schemas == {"baton.bench.moe/1"}:
        return points if len({p["tokens"] for p in points}) > 1 else None
    return points if 0 < sum(map(len, bars_of(points).values())) <= MOST_BARS else None


def draw_all(root, out):
    """Draws into OUT/<run>/<file>.svg; yields each as (run, file's name without its end)."""
    import matplotlib
    matplotlib.use("Agg")
    for path in sorted((root / "docs" / "results").glob("*/*.jsonl")):
        if points := drawable(path):
            to = out / path.parent.name / f"{path.stem}.svg"
            to.parent.mkdir(parents=True, exist_ok=True)
            HOW[points[0]["schema"]](points, to, f"{path.parent.name}, {path.stem}")
            yield path.parent.name, path.stem


if __name__ == "__main__":
    for run, name in draw_all(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])):
        print(f"{run}/{name}.svg")
