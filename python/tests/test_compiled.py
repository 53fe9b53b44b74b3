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


def operators(world=ONE, **more):
    """A round of a communicator of its own, which gives the sums and the rows of each expert, and that communicator."""
    ep = baton.ExpertParallel(world, num_experts=EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=32, **more)
    number, own = baton.torch.number_of(ep), [weight.to(world.device) for weight in weights()]

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


@pytest.mark.parametrize("more", [{}, {"rows": "by_token"}], ids=["by_expert", "by_token"])
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_rounds_on_a_gpu_are_those_of_operators(mode, more):
    """With reduce-overhead from CUDA graphs, which are recorded in a second call and replayed from the third on."""
    in_order()
    if "CUDA" not in baton.build_info() or not torch.cuda.is_available():
        pytest.skip("no GPU, or no kernels for one")
    world = baton.World.local(1, device="cuda")[0]
    (block, ep), (alone, _) = operators(world, **more), operators(world, **more)
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(two_rounds(block), mode=mode, fullgraph=True)
    for seed in range(5):
        arguments = [one.cuda() for one in given(seed=seed)]
        seen = [one.clone() for one in compiled(*arguments)]
        expected = two_rounds(alone)(*arguments)
        world.synchronize()
        for found, wanted in zip(seen, expected):
            assert torch.equal(found, wanted)
    ep.check()
    assert torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] == 0 and not ep._open_rounds


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
                                  {"layout": "per_expert"}, {"rows": "by_token"}, {"rows": "by_token", "transfer": "chunks"},
                                  {"rows": "by_token", "format": "mxfp4"}])
def test_tracers_are_told_of_as_many_rows_as_there_are(size, more):
    def work(world):
        ep = baton.ExpertParallel(world, num_experts=EXPERTS, top_k=TOP_K, hidden=128, num_max_tokens_per_rank=32, **more)
        recv = ep.dispatch(torch.zeros(0, 128).bfloat16(), torch.zeros(0, TOP_K).long(), None)
        assert ep._core.room[:2] == (recv.max_rows, recv.tokens.shape[0]) == (recv.sources.shape[0], recv.tokens.shape[0])
        with FakeTensorMode() as mode:
            fakes = torch.ops.baton.dispatch(*map(mode.from_tensor, (torch.zeros(5, 128).bfloat16(), torch.zeros(5, TOP_K).long(), torch.zeros(5, TOP_K))),
                                             baton.torch.number_of(ep))
        for fake, real in zip(fakes, (recv.tokens, recv.row_offsets, recv.row_counts, recv.sources)):
            assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)
    with FakeTensorMode():  # first in a thread that stays: without a GPU PyTorch 2.11 keeps what that thread made, also when it has ended
        pass
    on_worlds(size, work)


def test_rows_by_token_have_gaps_which_compilers_know_of():
    in_order()
    if shutil.which("g++") is None:
        pytest.skip("inductor compiles with g++, which is not here")
    block, _ = operators(rows="by_token")
    arguments = given()
    right = block(*arguments)
    for one, other in zip(torch.compile(block, fullgraph=True)(*arguments), right):
        assert torch.equal(one, other)
