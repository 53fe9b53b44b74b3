#!/usr/bin/env python3
"""Times rounds of low latency through DeepEP's interface beside baton's own, one process a rank: torchrun --nproc-per-node N low_latency_rounds.py, or
low_latency_rounds.py --processes N, which starts them itself.

Experts give back what they get, in FP8 zeros, so that values are known: they are compared first. Of each way: the time that a call takes of its thread, a round's
time with calls one after the other, and replayed from a CUDA graph. Rank 0 prints them, the median of `--repeats`; every rank has to be right.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch

import baton
import baton.deep_ep


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    for name, least in (("tokens", 128), ("hidden", 7168), ("experts", 256), ("top-k", 8), ("repeats", 9), ("rounds", 20)):
        parser.add_argument(f"--{name}", type=int, default=least)
    parser.add_argument("--most", type=int, default=0, help="the most tokens that a rank may give; 0: --tokens")
    parser.add_argument("--processes", type=int, default=0, help="that are started, a rank each; 0: this is one of them")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each way")
    options = parser.parse_args()
    options.most = options.most or options.tokens
    return options


def start(size):
    """A process for each rank, as torchrun does. The worst of what they return."""
    run = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": str(os.getpid())}
    ranks = [subprocess.Popen([sys.executable, *sys.argv, "--processes", "0"], env={**os.environ, **run, "RANK": str(rank), "LOCAL_RANK": str(rank)})
             for rank in range(size)]
    return max(abs(rank.wait()) for rank in ranks)


def ways(world, options, given):
    """Of each its name, a round, and whether it gives tokens back; with FP8 experts' answers are zeros."""
    x, idx, weights = given
    buffer = baton.deep_ep.Buffer(world=world)
    answers = torch.zeros(options.experts // world.size, world.size * options.most, options.hidden, dtype=torch.bfloat16, device=x.device)

    def of_deep_ep(use_fp8):
        out = torch.empty_like(x)

        def its_round():
            rows, _, handle, _, _ = buffer.low_latency_dispatch(x, idx, options.most, options.experts, use_fp8=use_fp8)
            buffer.low_latency_combine(answers if use_fp8 else rows, idx, weights, handle, out=out)  # experts work in bf16
            return out
        return its_round

    def of_baton(format):
        ep = baton.ExpertParallel(world, num_experts=options.experts, top_k=options.top_k, hidden=options.hidden,
                                  num_max_tokens_per_rank=options.most, format=format)
        out, rows = torch.empty_like(x), []

        def its_round():
            recv = ep.dispatch(x, idx, weights)
            if format == "fp8" and not rows:
                rows.append(torch.zeros(recv.max_rows, options.hidden, dtype=torch.bfloat16, device=x.device))
            return ep.combine(rows[0] if rows else recv.tokens, out=out)
        return its_round

    yield "deep_ep, bf16", of_deep_ep(False), True
    yield "deep_ep, fp8", of_deep_ep(True), False
    yield "baton, bf16", of_baton("bf16"), True
    yield "baton, fp8", of_baton("fp8"), False


def microseconds(world, options, work, of_thread=False):
    """Of a round; ranks meet in the two before."""
    samples = []
    for _ in range(options.repeats):
        work(), work()
        world.synchronize()
        began = time.perf_counter()
        for _ in range(options.rounds):
            work()
        if not of_thread:
            world.synchronize()
        samples.append((time.perf_counter() - began) * 1e6 / options.rounds)
        world.synchronize()
    return statistics.median(samples)


def captured(its_round):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        its_round()
    return graph.replay


def main(options):
    world = baton.World.from_env(options.device)
    if options.device == "cuda":
        torch.cuda.set_device(world.device_index)
    torch.manual_seed(world.rank)
    on = "cpu" if options.device == "cpu" else f"cuda:{world.device_index}"
    x = torch.randn(options.tokens, options.hidden, device=on).bfloat16()
    weights, idx = torch.rand(options.tokens, options.experts, device=on).topk(options.top_k)
    for name, its_round, is_identity in ways(world, options, (x, idx, weights)):
        out = its_round()
        world.synchronize()
        expected = x.float() * weights.sum(1, keepdim=True) if is_identity else torch.zeros_like(x)
        assert torch.allclose(out.float(), expected.float(), rtol=2 ** -6, atol=2 ** -6), name
        of_thread, one_by_one = (microseconds(world, options, its_round, of_thread) for of_thread in (True, False))
        in_graph = microseconds(world, options, captured(its_round)) if options.device == "cuda" else None
        if world.rank != 0:
            continue
        if options.json:
            print(json.dumps({"way": name, "ranks": world.size, "tokens": options.tokens, "most": options.most, "hidden": options.hidden,
                              "experts": options.experts, "top_k": options.top_k, "us_of_thread": of_thread, "us_a_round": one_by_one,
                              "us_in_a_graph": in_graph, "on": torch.cuda.get_device_name() if options.device == "cuda" else "cpu"}), flush=True)
            continue
        line = f"{name:14} {of_thread:8.1f} us of the thread, {one_by_one:8.1f} us a round"
        print(line if in_graph is None else line + f", {in_graph:8.1f} us in a graph", flush=True)


if __name__ == "__main__":
    asked = arguments()
    sys.exit(start(asked.processes) if asked.processes > 0 else main(asked))
