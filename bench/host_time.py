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


def main(library):
    of_cpp = ctypes.CDLL(library).host_time_rounds
    world = baton.World.local(1, device="cuda")[0]
    ep = baton.ExpertParallel(world, num_experts=NUM_EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=NUM_TOKENS)
    tokens = torch.ones(NUM_TOKENS, HIDDEN, device="cuda", dtype=torch.bfloat16)
    topk_idx = torch.arange(NUM_TOKENS * TOP_K, device="cuda", dtype=torch.int32).view(NUM_TOKENS, TOP_K) % NUM_EXPERTS
    topk_weights = torch.full((NUM_TOKENS, TOP_K), 0.5, device="cuda")
    out = torch.zeros(NUM_TOKENS, HIDDEN, device="cuda")

    def rounds(count):
        for _ in range(count):
            received = ep.dispatch(tokens, topk_idx, topk_weights)
            ep.combine(received.tokens, out=out)

    cpp, python = batches(of_cpp, rounds)
    added = [late - early for early, late in zip(cpp, python)]
    low, middle, high = statistics.quantiles(added, n=4)
    print(f"a dispatch and a combine: C++ {statistics.median(cpp):.1f} us at the median and {min(cpp):.1f} at least, Python {statistics.median(python):.1f} and "
          f"{min(python):.1f}; Python adds {middle:.1f}, half of {NUM_BATCHES} pairs from {low:.1f} to {high:.1f}")
    assert (out == 1).all()


if __name__ == "__main__":
    main(sys.argv[1])
