"""A mixture-of-experts layer with a process for each rank: torchrun --nproc-per-node 4 process_for_each_rank.py

Anything else that sets RANK, WORLD_SIZE, LOCAL_RANK and MASTER_PORT will do, too.
"""
import ml_dtypes
import numpy

import baton

NUM_EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, NUM_TOKENS = 16, 4, 128, 64, 32
BF16 = ml_dtypes.bfloat16

world = baton.World.from_env("cpu")
ep = baton.ExpertParallel(world, num_experts=NUM_EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=NUM_TOKENS)


def weights_of(expert):
    """The same on whichever rank has the expert: the answer does not depend on how many ranks there are, but for roundings."""
    random = numpy.random.default_rng(expert)
    return [(random.standard_normal(shape) / 16).astype(BF16) for shape in ((INTERMEDIATE, HIDDEN), (INTERMEDIATE, HIDDEN), (HIDDEN, INTERMEDIATE))]


gate, up, down = (numpy.stack(matrices) for matrices in zip(*map(weights_of, ep.local_experts)))
random = numpy.random.default_rng(1000 + world.rank)
for step in range(3):
    tokens = random.standard_normal((NUM_TOKENS, HIDDEN)).astype(BF16)
    logits = random.standard_normal((NUM_TOKENS, NUM_EXPERTS))
    topk_idx = numpy.argsort(-logits, axis=1)[:, :TOP_K].copy()
    topk_weights = numpy.take_along_axis(numpy.exp(logits), topk_idx, axis=1)
    topk_weights = (topk_weights / topk_weights.sum(axis=1, keepdims=True)).astype(numpy.float32)
    out = ep.combine(baton.expert_mlp(ep.dispatch(tokens, topk_idx, topk_weights), gate, up, down))
    print(f"rank {world.rank} of {world.size}, step {step}: the largest result is {abs(out).max():.3f}")
