#!/usr/bin/env python3
"""Measures torch._grouped_mm at the points of `baton bench gemm --grouped --json-file FILE`: grouped_peers.py FILE [--out PEERS].

The shapes and the rows of each group are those of FILE, operands are bf16 and normally distributed, and times are taken as baton takes
them: bursts of about 15 ms of runs (200 at most) after 150 ms of rest and two runs that are not counted; with a sustained time in
FILE, also runs without a pause. Every product is checked with integers before it is timed. PEERS gets a line for each point in the
schema of FILE, and a table sets both beside each other. Run both on the same machine, one after the other.

Exit code 1: a product was wrong. 2: FILE is not what baton writes, or has no point of a GPU. 4: there is no torch, no GPU, or no torch._grouped_mm here; the message says which.
"""
import datetime
import json
import pathlib
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import plots
from peer_script import BAD_FILE, NOT_HERE, WRONG, is_measured_elsewhere, parser_of, points_of

SCHEMA = "baton.bench.grouped_gemm/1"
WHO = "torch._grouped_mm"
REST_S = 0.150
BURST_US = 15_000
BATCH_US = 20_000
MOST_RUNS = 200
HELD_CYCLES = 2_000_000  # about a millisecond, in which the host gets ahead of the device


def read_points(path):
    """What baton measured on a GPU. @raises ValueError  a line of another schema, or nothing of the kind"""
    points = [p for p in plots.read_points(path, SCHEMA) if p["who"] == "baton" and p["device"] == "cuda" and p["checked"]
              and p.get("format", "bf16") == "bf16"]
    if not points:
        raise ValueError(f"{path}: no point of bf16 was right and measured on a GPU")
    return points


def load_torch():
    """torch, and empty; or None, and what is missing here."""
    try:
        import torch
    except ImportError as why:
        return None, f"no torch here ({why}); install it, or measure baton alone"
    if not hasattr(torch, "_grouped_mm"):
        return None, f"torch {torch.__version__} has no _grouped_mm; a later one has"
    if not torch.cuda.is_available():
        return None, f"torch {torch.__version__} sees no GPU"
    return torch, ""


def runs_within(wanted_us, once_us, least):
    """How many runs take about so long."""
    return max(least, min(MOST_RUNS, int(wanted_us / max(once_us, 1e-3))))


class gpu_timer:
    """As cli/bench/paced_timer.hpp says."""

    def __init__(self, torch):
        self.torch = torch

    def mean(self, run, times):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda._sleep(HELD_CYCLES)
        begin.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / times

    def burst(self, run):
        run()
        self.torch.cuda.synchronize()
        time.sleep(REST_S)
        return self.mean(run, runs_within(BURST_US, self.mean(run, 2), 3))

    def sustained(self, run, milliseconds):
        run()
        times = runs_within(BATCH_US, self.mean(run, 2), 1)
        for _ in range(2):  # the first stretch warms
            means = []
            while sum(means) * times < milliseconds * 1000:
                means.append(self.mean(run, times))
        return statistics.fmean(means)


class grouped_product:
    """One point's operands on the GPU."""

    def __init__(self, torch, point):
        self.torch, self.point = torch, point
        gpu = {"device": "cuda", "dtype": torch.bfloat16}
        self.a = torch.empty(point["rows"], point["k"], **gpu)
        self.b = torch.empty(point["groups"], point["n"], point["k"], **gpu)
        self.ends = torch.tensor(point["counts"], device="cuda").cumsum(0).to(torch.int32)

    def run(self):
        return self.torch._grouped_mm(self.a, self.b.transpose(-2, -1), offs=self.ends)

    def first_wrong(self):
        """The first and the last row of each group, with integers, against sums in double precision; empty: all right."""
        self.a.random_(-8, 9)
        self.b.random_(-8, 9)
        c = self.run()
        end = 0
        for group, count in enumerate(self.point["counts"]):
            begin, end = end, end + count
            for row in {begin, end - 1} if count else ():
                right = (self.b[group].double() @ self.a[row].double()).to(c.dtype)
                if not self.torch.equal(c[row], right):
                    column = int((c[row] != right).nonzero()[0])
                    return f"c[{row}, {column}] = {float(c[row, column])}, expected {float(right[column])}"
        return ""

    def random_values(self):
        self.a.normal_()
        self.b.normal_()


def with_times(point, wrong, burst_us, sustained_us, version):
    """The point as torch measured it, in baton's schema; the machine's limits are those of baton's run."""
    median = statistics.median(burst_us) if burst_us else None

    def rate(amount, us, unit):
        return amount / us / unit if us else None

    return {**point,
            "who": WHO, "checked": not wrong, "wrong": wrong or None,
            "burst_median_us": median,
            "burst_mad_us": statistics.median(abs(us - median) for us in burst_us) if burst_us else None,
            "burst_tflops": rate(point["flops"], median, 1e6),
            "burst_samples_us": burst_us,
            "weights_gb_per_s": rate(point["weight_bytes"], median, 1e3),
            "sustained_us": sustained_us,
            "sustained_tflops": rate(point["flops"], sustained_us, 1e6),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "version": version, "build": f"torch {version}"}


def measure(torch, timer, point):
    product = grouped_product(torch, point)
    wrong = product.first_wrong()
    burst_us, sustained_us = [], None
    if not wrong:
        product.random_values()
        burst_us = [timer.burst(product.run) for _ in point["burst_samples_us"]]
        if point["sustained_ms"]:
            sustained_us = timer.sustained(product.run, point["sustained_ms"])
    return with_times(point, wrong, burst_us, sustained_us, torch.__version__)


def heading():
    return (f"{'model, product':<22}{'groups, n, k':>18}{'rows':>6}{'routing':>9}{'baton us':>10}{'torch us':>10}"
            f"{'of torch':>10}{'sustained':>11}{'of torch':>10}")


def row(ours, peer):
    """One line of the table; shares are baton's time of torch's: below 100 % is quicker."""

    def share(key):
        return f"{100 * ours[key] / peer[key]:.1f} %" if ours[key] and peer[key] else "-"

    def us(value):
        return f"{value:.1f}" if value else "-"

    of = f"{ours['model']} {ours['product']}" if ours["model"] else ""
    line = (f"{of:<22}{'{groups}, {n}, {k}'.format(**ours):>18}{ours['rows_per_group']:>6}{ours['routing']:>9}"
            f"{us(ours['burst_median_us']):>10}{us(peer['burst_median_us']):>10}{share('burst_median_us'):>10}"
            f"{us(peer['sustained_us']):>11}{share('sustained_us'):>10}")
    return line + (f"  WRONG: {peer['wrong']}" if peer["wrong"] else "")


def main():
    options = parser_of(__doc__, "gets torch's points, in FILE's schema").parse_args()
    points = points_of(read_points, options.points)
    if points is None:
        return BAD_FILE
    torch, missing = load_torch()
    if torch is None:
        print(f"{WHO} cannot be measured: {missing}", file=sys.stderr)
        return NOT_HERE
    here = torch.cuda.get_device_name()
    if is_measured_elsewhere(options.points, (p["gpu"] for p in points), here):
        return NOT_HERE
    timer, peers = gpu_timer(torch), []
    print(f"{WHO} of torch {torch.__version__}, on {here}; shares are baton's time of torch's\n{heading()}")
    for point in points:
        peers.append(measure(torch, timer, point))
        print(row(point, peers[-1]), flush=True)
    if options.out:
        options.out.write_text("".join(json.dumps(p) + "\n" for p in peers))
    return WRONG if any(p["wrong"] for p in peers) else 0


if __name__ == "__main__":
    sys.exit(main())
