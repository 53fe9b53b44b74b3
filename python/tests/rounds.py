"""Rounds to run and what they should give, in double."""
import ml_dtypes
import numpy

import baton

BF16 = ml_dtypes.bfloat16


class round_data:
    """Random tokens and choices of some ranks."""

    def __init__(self, num_ranks=4, num_experts=64, top_k=8, hidden=256, num_tokens=16, seed=1, ids=numpy.int64):
        random = numpy.random.default_rng(seed)
        self.num_experts, self.top_k, self.hidden = num_experts, top_k, hidden
        self.tokens = [random.standard_normal((num_tokens, hidden)).astype(BF16) for _ in range(num_ranks)]
        self.topk_idx = [numpy.array([random.permutation(num_experts)[:top_k] for _ in range(num_tokens)], ids) for _ in range(num_ranks)]
        self.topk_weights = [random.random((num_tokens, top_k), numpy.float32) for _ in range(num_ranks)]

    def sizes(self, **more):
        return {"num_experts": self.num_experts, "top_k": self.top_k, "hidden": self.hidden, "num_max_tokens_per_rank": 128, **more}

    def given(self, rank):
        return self.tokens[rank], self.topk_idx[rank], self.topk_weights[rank]


def scaled_experts(recv):
    """Expert e multiplies by e + 1: in bf16, as experts answer."""
    out = numpy.zeros((recv.max_rows, recv.hidden), BF16)
    for expert, first, count in zip(recv.expert_ids, recv.row_offsets, recv.row_counts):
        rows = slice(first, first + count)
        out[rows] = (recv.tokens[rows].astype(numpy.float32) * numpy.float32(expert + 1)).astype(BF16)
    return out


def expected_of_scaled(data, rank):
    """In double, of the experts' answers in bf16."""
    x = data.tokens[rank].astype(numpy.float32)
    total = numpy.zeros(x.shape)
    for k in range(data.top_k):
        ids = data.topk_idx[rank][:, k:k + 1]
        answers = (x * (ids + 1).astype(numpy.float32)).astype(BF16).astype(numpy.float64)
        total += numpy.where(ids >= 0, answers, 0) * data.topk_weights[rank][:, k:k + 1].astype(numpy.float64)
    return total


def tolerance(data, rank):
    """Each rank's part of a sum is rounded to bf16, by 2^-8 of it at most, once; sums in fp32 are off by far less."""
    x = numpy.abs(data.tokens[rank].astype(numpy.float64))
    size = sum(x * (data.topk_idx[rank][:, k:k + 1] + 1.0) * data.topk_weights[rank][:, k:k + 1] for k in range(data.top_k))
    return size * (2.0 ** -8 + data.top_k * 2.0 ** -20)


def assert_scaled(data, rank, out):
    difference = numpy.abs(numpy.asarray(out, numpy.float64) - expected_of_scaled(data, rank))
    assert (difference <= tolerance(data, rank)).all(), difference.max()


def local(data, num_ranks=4, **more):
    worlds = baton.World.local(num_ranks, device="cpu")
    return baton.ExpertParallel.create_all(worlds, **data.sizes(**more))
