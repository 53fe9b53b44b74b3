"""What a round costs the thread that asks for it, on a GPU with torch's tensors where there is one: there calls only enqueue. On the CPU, with
numpy's arrays, they do the work. examples/03_host_time.cpp is the same in C++.
"""
import sys
import time

import baton

NUM_EXPERTS, TOP_K, HIDDEN, NUM_TOKENS = 8, 2, 256, 16
ROUNDS_OF_BATCH = 100  # less than what a stream takes without waiting

device = sys.argv[1] if len(sys.argv) > 1 else "auto"
world = baton.World.local(1, device=device)[0]
ep = baton.ExpertParallel(world, num_experts=NUM_EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=NUM_TOKENS)
if world.device == "cuda":
    import torch
    tokens = torch.ones(NUM_TOKENS, HIDDEN, device="cuda", dtype=torch.bfloat16)
    topk_idx = torch.arange(NUM_TOKENS * TOP_K, device="cuda", dtype=torch.int32).view(NUM_TOKENS, TOP_K) % NUM_EXPERTS
    topk_weights = torch.full((NUM_TOKENS, TOP_K), 0.5, device="cuda")
    out = torch.zeros(NUM_TOKENS, HIDDEN, device="cuda")
else:
    import ml_dtypes
    import numpy
    tokens = numpy.ones((NUM_TOKENS, HIDDEN), ml_dtypes.bfloat16)
    topk_idx = numpy.arange(NUM_TOKENS * TOP_K, dtype=numpy.int32).reshape(NUM_TOKENS, TOP_K) % NUM_EXPERTS
    topk_weights = numpy.full((NUM_TOKENS, TOP_K), 0.5, numpy.float32)
    out = numpy.zeros((NUM_TOKENS, HIDDEN), numpy.float32)


def rounds(count):
    for _ in range(count):
        received = ep.dispatch(tokens, topk_idx, topk_weights)
        ep.combine(received.tokens, out=out)  # experts that give back what they get


def microseconds(work):
    """Of a round; of the quickest batch, as what other processes of the machine do only adds to it."""
    least = float("inf")
    for _ in range(500 if world.device == "cuda" else 10):  # half a second at most
        world.synchronize()
        began = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - began)
    world.synchronize()
    return least / ROUNDS_OF_BATCH * 1e6


print(f"{world.device}, in Python: a dispatch and a combine take {microseconds(lambda: rounds(ROUNDS_OF_BATCH)):.1f} us of this thread")
if world.device == "cuda":
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        rounds(ROUNDS_OF_BATCH)
    print(f"cuda, in a graph: {microseconds(graph.replay):.1f} us")
assert (out == 1).all()
