"""What a round costs its thread in Python beside C++, in one process on one GPU and in turn: two processes differ by more than is asked for.

    python bench/host_time.py libhost_time.so    # of bench/host_time.cpp
"""
import ctypes
import statistics
import sys
import time

import torch

import baton

NUM_EXPERTS, TOP_K, HIDDEN, NUM_TOKENS = 8, 2, 256, 16
NUM_BATCHES, ROUNDS_OF_BATCH = 1000, 100  # a batch is less than what a stream takes without waiting


def batches(*works):
    """Microseconds of a round in each batch, of each of `works`."""
    seen = [[] for _ in works]
    for _ in range(NUM_BATCHES):
        for work, its in zip(works, seen):
            torch.cuda.synchronize()
            began = time.perf_counter()
            work(ROUNDS_OF_BATCH)
            its.append((time.perf_counter() - began) / ROUNDS_OF_BATCH * 1e6)
    torch.cuda.synchronize()
    return seen


def forms(ep, out):
    """By name: rounds as Python's users write them, of which the library does the same."""
    tokens = torch.ones(NUM_TOKENS, HIDDEN, device="cuda", dtype=torch.bfloat16)
    topk_idx = torch.arange(NUM_TOKENS * TOP_K, device="cuda", dtype=torch.int32).view(NUM_TOKENS, TOP_K) % NUM_EXPERTS
    topk_weights = torch.full((NUM_TOKENS, TOP_K), 0.5, device="cuda")
    stream = torch.cuda.current_stream()
    dispatch, combine = type(ep).dispatch.__wrapped__, type(ep).combine.__wrapped__  # with nothing before them

    def alone():
        ep.combine(ep.dispatch(tokens, topk_idx, topk_weights).tokens, out=out)

    def of_slot():
        ep.combine(ep.dispatch(tokens, topk_idx, topk_weights, slot=0).tokens, out=out, slot=0)

    def on_stream():
        ep.combine(ep.dispatch(tokens, topk_idx, topk_weights, stream=stream).tokens, out=out, stream=stream)

    def by_name():
        rows = ep.dispatch(tokens=tokens, topk_idx=topk_idx, topk_weights=topk_weights, slot=0, num_sms=0, stream=stream).tokens
        ep.combine(expert_output=rows, out=out, num_rows=-1, slot=0, num_sms=0, stream=stream)

    def by_the_methods():
        combine(ep, dispatch(ep, tokens, topk_idx, topk_weights).tokens, out=out)

    def in_halves():
        ep.dispatch_async(tokens, topk_idx, topk_weights, slot=0)
        ep.combine_async(ep.dispatch_wait(slot=0).tokens, slot=0)
        ep.combine_wait(out, slot=0)

    return {"arrays alone": alone, "slot=": of_slot, "stream=": on_stream, "all by name": by_name, "methods in Python": by_the_methods}, in_halves


def repeated(form):
    def rounds(count):
        for _ in range(count):
            form()
    return rounds


def say(name, cpp, python):
    low, middle, high = statistics.quantiles([late - early for early, late in zip(cpp, python)], n=4)
    print(f"{name}: C++ {statistics.median(cpp):.1f} us a round at the median and {min(cpp):.1f} at least, Python {statistics.median(python):.1f} and "
          f"{min(python):.1f}; Python adds {middle:.1f}, half of {NUM_BATCHES} pairs from {low:.1f} to {high:.1f}")


def main(library):
    of_cpp = ctypes.CDLL(library)
    world = baton.World.local(1, device="cuda")[0]
    ep = baton.ExpertParallel(world, num_experts=NUM_EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=NUM_TOKENS)
    out = torch.zeros(NUM_TOKENS, HIDDEN, device="cuda")
    known, in_halves = forms(ep, out)
    for name, form in known.items():
        say(name, *batches(of_cpp.host_time_rounds, repeated(form)))
    say("in halves", *batches(of_cpp.host_time_halves, repeated(in_halves)))
    assert (out == 1).all()


if __name__ == "__main__":
    main(sys.argv[1])
