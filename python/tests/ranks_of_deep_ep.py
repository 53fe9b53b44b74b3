"""What tests of DeepEP's interface share: CPU ranks on threads, what each of them has, and tokens in FP8."""
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import baton
import baton.deep_ep as deep_ep
from threads import on_threads

RANKS, EXPERTS, TOP_K, HIDDEN, TOKENS = 3, 12, 4, 1024, 11
LOCAL = EXPERTS // RANKS


def finished(results):
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def on_buffers(work, size=RANKS, **more):
    """work(buffer, rank) on a thread a rank."""
    def run(rank, gather):
        world = baton.World.from_all_gather(gather, rank, size, "cpu")
        buffer = deep_ep.Buffer(world=world, num_max_tokens_per_rank=32, **more)
        try:
            return work(buffer, rank)
        finally:
            buffer.destroy()
    torch.set_num_threads(1)
    return finished(on_threads(size, run))


class of_rank:
    """What a rank has: the same on every thread that asks."""

    def __init__(self, rank, num_tokens=TOKENS):
        random = torch.Generator().manual_seed(rank)
        self.x = torch.randn(num_tokens, HIDDEN, generator=random).bfloat16()
        self.idx = torch.rand(num_tokens, EXPERTS, generator=random).topk(TOP_K)[1]
        self.idx[0, 1] = self.idx[-1, 0] = -1
        self.weights = torch.randn(num_tokens, TOP_K, generator=random)
        self.ranks = torch.where(self.idx >= 0, self.idx // LOCAL, -1)

    def goes_to(self, rank):
        return (self.ranks == rank).any(1)


def everyone():
    return [of_rank(rank) for rank in range(RANKS)]


def layout(buffer, own):
    per_rank, per_rdma, per_expert, there, event = buffer.get_dispatch_layout(own.idx, EXPERTS)
    assert per_rdma is None and event.event is None
    return {"num_tokens_per_rank": per_rank, "num_tokens_per_expert": per_expert, "is_token_in_rank": there}


def in_fp8(x):
    blocks = x.float().view(x.size(0), -1, 128)
    scales = blocks.abs().amax(2).clamp(min=1e-4) / 448
    return (blocks / scales.unsqueeze(2)).to(torch.float8_e4m3fn).view(x.shape), scales.T.contiguous().T  # as DeepEP's users have them


def from_fp8(values, scales):
    return (values.float().view(values.size(0), -1, 128) * scales.unsqueeze(2)).view(values.shape).bfloat16()
