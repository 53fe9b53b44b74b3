"""One round of expert parallelism with numpy: four ranks in this process, 64 experts, every token to eight of them and back.

Expert e multiplies by e + 1 here, so the right answer is easy to write down; baton.expert_mlp computes a model's experts.
"""
import ml_dtypes
import numpy

import baton

NUM_RANKS, NUM_EXPERTS, TOP_K, HIDDEN, NUM_TOKENS = 4, 64, 8, 256, 16


def run_experts(recv):
    out = numpy.zeros((recv.max_rows, HIDDEN), ml_dtypes.bfloat16)
    for expert, first, count in zip(recv.expert_ids, recv.row_offsets, recv.row_counts):
        out[first:first + count] = recv.tokens[first:first + count] * ml_dtypes.bfloat16(expert + 1)
    return out


worlds = baton.World.local(NUM_RANKS, device="cpu")
ep = baton.ExpertParallel.create_all(worlds, num_experts=NUM_EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=128)

random = numpy.random.default_rng(1)
tokens = [numpy.ones((NUM_TOKENS, HIDDEN), ml_dtypes.bfloat16) for _ in worlds]
topk_idx = [numpy.array([random.permutation(NUM_EXPERTS)[:TOP_K] for _ in range(NUM_TOKENS)]) for _ in worlds]
topk_weights = [numpy.full((NUM_TOKENS, TOP_K), 1 / TOP_K, numpy.float32) for _ in worlds]

recv = baton.dispatch_all(ep, tokens, topk_idx, topk_weights)
print(recv[0].load())
out = baton.combine_all(ep, [run_experts(rows) for rows in recv])

# A rank's sum is rounded to bf16, by a 256th at most, before it travels.
exact = [(ids + 1).mean(axis=1, keepdims=True) for ids in topk_idx]
right = all((abs(found - wanted) <= wanted / 256).all() for found, wanted in zip(out, exact))
print("it worked: every token is the weighted sum of its experts" if right else "a result is wrong")
raise SystemExit(0 if right else 1)
