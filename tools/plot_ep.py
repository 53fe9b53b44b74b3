#!/usr/bin/env python3
"""Draws the points of `baton bench ep --json-file FILE`: plot_ep.py FILE [--out ep.svg]; the name's end says the format: .svg, .png, or
.html, a page of its own with the drawing and a table of all points. Needs matplotlib.

Against tokens: microseconds a round, median and 99th percentile, one line for what else differs between points, with the floor; and how
much of this the limit is. Where several numbers of SMs were measured: GB/s of the busiest rank against these, with the push bandwidth.
"""
import collections
import html
import io
import re
import sys

import plots

SCHEMA = "baton.bench.ep/2"
DIFFERENT = ("hidden", "top_k", "experts", "routing", "replicas", "rows", "ids")  # named where points differ in them
DEFAULTS = {"routing": "uniform", "replicas": 0, "rows": "by_expert", "ids": "int32"}


def read_points(path):
    return [p for p in plots.read_points(path, SCHEMA) if "skipped" not in p and p["checked"]]


def form_of(point):
    """Fused where it was measured."""
    return point["fused"] or point["split"]


def round_of(point):
    """The round's time as users see it: fused where it was measured, in a graph where there is one."""
    form = form_of(point)
    return form["round_trip_graph"] or form["round_trip"]


def axis(point, name):
    return point["axes"].get(name, DEFAULTS.get(name))


def different_axes(points):
    return [name for name in DIFFERENT if len({axis(p, name) for p in points}) > 1]


def line_name(point, different, of_sms=False):
    """What a line stands for: "per_rank fp8, zipf, 32 replicas"."""
    axes = point["axes"]
    words = {"hidden": "hidden {}", "top_k": "top-{}", "experts": "{} experts", "replicas": "{} replicas"}
    parts = [f"{axes['layout']}{' by ' + axes['transfer'] if 'transfer' in axes else ''} {axes['format']}"]
    parts += ["given"] if axes.get("input") == "quantised" else []
    parts += ["shared"] if axes.get("shared_output") else []
    parts += [f"back in {axes['combine_format']}"] if "combine_format" in axes else []
    parts += [words.get(name, "{}").format(axis(point, name)) for name in different]
    if of_sms:
        parts.append(f"{axes['tokens']} tokens")
    elif axes["num_sms"]:
        parts.append(f"{axes['num_sms']} SMs")
    return ", ".join(parts)


def lines_of(points, of_sms, value):
    """{name of a line: [value of a point]}, sorted by the points' first values."""
    lines, different = collections.defaultdict(list), different_axes(points)
    for p in points:
        lines[line_name(p, different, of_sms)].append(value(p))
    in_order = sorted(lines.items(), key=lambda item: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", item[0])])
    return {name: sorted(line, key=lambda point: point[0]) for name, line in in_order}


def round_lines(points):
    """{name: [(tokens, median, 99th percentile, percent of the limit or None)]}"""
    def value(p):
        time, limit = round_of(p), p["limits"]["limit_us"]
        return p["axes"]["tokens"], time["median_us"], time["p99_us"], 100 * limit / time["median_us"] if limit else None
    return lines_of(points, False, value)


def sm_lines(points):
    """{name: [(SMs, GB/s of dispatch, GB/s of combine)]}, of what was measured with several numbers of SMs."""
    counted = [p for p in points if p["axes"]["num_sms"]]
    lines = lines_of(counted, True, lambda p: (p["axes"]["num_sms"], p["dispatch_rate"].get("wire_gb_per_s"),
                                               p["combine_rate"].get("wire_gb_per_s")))
    return {name: line for name, line in lines.items()
            if len({sms for sms, _, _ in line}) > 1 and not any(None in point for point in line)}


def draw_rounds(points, panel):
    from matplotlib import ticker
    for name, line in round_lines(points).items():
        tokens, medians, highest, _ = zip(*line)
        panel.plot(tokens, medians, marker="o", markersize=3, label=name)
        panel.fill_between(tokens, medians, highest, alpha=0.15)
    if floor := points[0]["limits"]["floor"]:
        panel.axhline(floor["median_us"], color="gray", linestyle="--", label="floor")
    panel.set(ylabel="us a round", yscale="log")
    panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_formatter("{x:g}")
    panel.yaxis.set_minor_formatter(ticker.NullFormatter())


def draw_shares(points, panel):
    for name, line in round_lines(points).items():
        tokens, _, _, of_limit = zip(*line)
        panel.plot(tokens, of_limit, marker="o", markersize=3, label=name)
    panel.set(ylabel="limit, % of the round", ylim=(0, 100))


def draw_sms(points, panel):
    for name, line in sm_lines(points).items():
        sms, dispatch, combine = zip(*line)
        drawn, = panel.plot(sms, dispatch, marker="o", markersize=3, label=f"{name}: dispatch")
        panel.plot(sms, combine, marker="s", markersize=3, linestyle=":", color=drawn.get_color(), label=f"{name}: combine")
    if push := points[0]["push_gb_per_s"]:
        panel.axhline(push, color="gray", linestyle="--", label="push bandwidth")
    all_sms = sorted({sms for line in sm_lines(points).values() for sms, _, _ in line})
    panel.set(xlabel="SMs", ylabel="GB/s of the busiest rank", ylim=(0, None))
    panel.set_xticks(all_sms, all_sms)


def draw_tokens_axis(points, panel):
    all_tokens = sorted({p["axes"]["tokens"] for p in points})
    panel.set_xscale("log", base=2)
    panel.set_xticks(all_tokens, all_tokens)
    panel.set_xlabel("tokens of a rank")


def heading(points):
    axes, different = points[0]["axes"], different_axes(points)
    sizes = [f"hidden {axes['hidden']}" if "hidden" not in different else "",
             f"top-{axes['top_k']}" if "top_k" not in different else "",
             f"{axes['experts']} experts" if "experts" not in different else ""]
    return ", ".join([f"{axes['ranks']} ranks", points[0]["gpu"] or "CPU", *filter(None, sizes)])


def panels_of(points):
    """What can be drawn: (how, whether against tokens)."""
    has_limits = all(p["limits"]["limit_us"] for p in points)
    return [(draw_rounds, True)] + [(draw_shares, True)] * has_limits + [(draw_sms, False)] * bool(sm_lines(points))


def figure_of(points):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    wanted = panels_of(points)
    figure, panels = plt.subplots(len(wanted), 1, figsize=(8, 3.6 * len(wanted)), squeeze=False, layout="constrained")
    for (how, is_against_tokens), (panel,) in zip(wanted, panels):
        how(points, panel)
        if is_against_tokens:
            draw_tokens_axis(points, panel)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))  # beside the lines, however many there are
    figure.suptitle(heading(points), fontsize=10)
    return figure


def bytes_text(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def rounded(figure):
    return f"{figure:.4g}" if figure else ""


def table_rows(points):
    """The head and a row for each point, as texts."""
    def us(time, key="median_us"):
        return f"{time[key]:.1f}" if time else "-"

    different = different_axes(points)
    yield ("point", "tokens", "SMs", "eager", "p99", "graph", "p99", "% limit", "dispatch sent", "per expert", "combine sent",
           "GB/s out, back", "busiest rank")
    for p in points:
        form, limit, axes = form_of(p), p["limits"]["limit_us"], p["axes"]
        out, back, rows = p["dispatch_rate"], p["combine_rate"], p.get("rows_of_ranks")
        yield (line_name(p | {"axes": axes | {"num_sms": 0}}, different), str(axes["tokens"]), str(axes["num_sms"] or "all"),
               us(form["round_trip"]), us(form["round_trip"], "p99_us"), us(form["round_trip_graph"]),
               us(form["round_trip_graph"], "p99_us"), f"{100 * limit / round_of(p)['median_us']:.0f}" if limit else "-",
               bytes_text(out["wire_bytes"]), bytes_text(out["wire_bytes_without_deduplication"]), bytes_text(back["wire_bytes"]),
               f"{out.get('wire_gb_per_s', 0):.1f}, {back.get('wire_gb_per_s', 0):.1f}",
               f"{max(rows) * len(rows) / sum(rows):.2f}" if rows and sum(rows) else "-")


STYLE = """body{font:14px system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em}svg{width:100%;height:auto;background:#fff}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.2em .6em;text-align:right;border-bottom:1px solid #ccc}
td:first-child,th:first-child{text-align:left}.table{overflow-x:auto}"""


def page_of(points, drawing):
    """HTML that needs nothing else; `drawing` is SVG."""
    head, *rows = [[html.escape(cell) for cell in row] for row in table_rows(points)]
    first = points[0]
    facts = [f"{name} {value}" for name, value in
             (("baton", first["version"]), ("measured", first["date"]), ("push GB/s", rounded(first["push_gb_per_s"])),
              ("floor us", rounded((first["limits"]["floor"] or {}).get("median_us")))) if value]
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return (f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>baton bench ep</title><style>{STYLE}</style>\n"
            f"<h1>Expert-parallel exchange</h1>\n<p>{html.escape(heading(points))}. {html.escape(', '.join(facts))}.</p>\n{drawing}\n"
            "<p>Microseconds of the slowest rank, median and 99th percentile of its samples. Bytes leave the busiest rank; per expert: with "
            "a message for each expert of a token. GB/s: what the busiest rank sends or gets. Busiest rank: its rows, times the mean.</p>\n"
            "<div class=table><table><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + f"</tr>\n{body}</table></div></html>\n")


def draw(points, out):
    figure = figure_of(points)
    if out.suffix != ".html":
        figure.savefig(out, dpi=150)
        return
    drawing = io.StringIO()
    figure.savefig(drawing, format="svg")
    text = drawing.getvalue()
    out.write_text(page_of(points, text[text.index("<svg"):]))


if __name__ == "__main__":
    sys.exit(plots.run(__doc__, "ep.svg", read_points, draw))
