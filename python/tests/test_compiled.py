"""Operators under compilers of PyTorch, which move what they believe to be independent."""
import shutil

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

from torch._subclasses.fake_tensor import FakeTensorMode

import baton
import baton.torch
from baton.torch import _operators
from test_torch import EXPERTS, HIDDEN, ONE, TOP_K, given, on_worlds, weights


def in_order():
    if not hasattr(_operators.dispatch, "register_effect"):
        pytest.skip(f"PyTorch {torch.__version__} cannot be told that calls have an order")


def operators(**more):
    """A round of a communicator of its own, which gives the sums and the rows of each expert, and that communicator."""
    ep = baton.ExpertParallel(ONE, num_experts=EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=32, **more)
    number, own = baton.torch.number_of(ep), weights()

    def block(tokens, idx, topk_weights):
        rows, _, counts, _ = torch.ops.baton.dispatch(tokens, idx, topk_weights, number)
        return torch.ops.baton.combine(torch.ops.baton.expert_mlp(rows, *own, number), tokens.shape[0], number), counts + 0
    return block, ep


def two_rounds(block):
    def both(tokens, idx, topk_weights):
        first, counts = block(tokens, idx, topk_weights)
        nobody = torch.zeros_like(idx) - 1
        second, _ = block(tokens * 2, idx, topk_weights)
        none, no_counts = block(tokens, nobody, topk_weights)
        return first + second, counts, none, no_counts
    return both


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_rounds_that_share_nothing_but_memory_stay_in_order(backend):
    in_order()
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("inductor compiles with g++, which is not here")
    (block, ep), (alone, _) = operators(), operators()
    seen = torch.compile(two_rounds(block), backend=backend, fullgraph=True)(*given())
    for found, expected in zip(seen, two_rounds(alone)(*given())):
        assert torch.equal(found, expected)
    assert not ep._open_rounds


def test_a_round_whose_sums_nobody_reads_takes_place():
    in_order()
    block, ep = operators()
    loads = []

    def unread(tokens, idx, topk_weights):
        block(tokens, idx, topk_weights)
        return tokens + 1

    dispatch = ep.dispatch
    ep.dispatch = lambda *tensors, **more: loads.append(1) or dispatch(*tensors, **more)
    torch.compile(unread, backend="aot_eager", fullgraph=True)(*given())
    assert loads == [1] and not ep._open_rounds


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("more", [{}, {"format": "fp8"}, {"row_alignment": 16}, {"rows_of_expert": 96}, {"format": "mxfp8", "tiled_scales": True},
                                  {"layout": "per_expert"}])
def test_tracers_are_told_of_as_many_rows_as_there_are(size, more):
    def work(world):
        ep = baton.ExpertParallel(world, num_experts=EXPERTS, top_k=TOP_K, hidden=128, num_max_tokens_per_rank=32, **more)
        recv = ep.dispatch(torch.zeros(0, 128).bfloat16(), torch.zeros(0, TOP_K).long(), None)
        assert _operators.extents_of(ep) == (recv.tokens.shape[0], recv.max_rows) == (recv.tokens.shape[0], recv.sources.shape[0])
        with FakeTensorMode() as mode:
            fakes = torch.ops.baton.dispatch(*map(mode.from_tensor, (torch.zeros(5, 128).bfloat16(), torch.zeros(5, TOP_K).long(), torch.zeros(5, TOP_K))),
                                             baton.torch.number_of(ep))
        for fake, real in zip(fakes, (recv.tokens, recv.row_offsets, recv.row_counts, recv.sources)):
            assert fake.shape[1:] == real.shape[1:] and fake.dtype == real.dtype and int(fake.shape[0]) == real.shape[0]
    on_worlds(size, work)
