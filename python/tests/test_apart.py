"""What a call writes lies in nothing that it reads: refused by name, and what lies beside it is not."""
import ml_dtypes
import numpy
import pytest

import baton
from baton import attention
from rounds import BF16, assert_scaled, local, round_data, scaled_experts


@pytest.fixture
def data():
    return round_data()


def aligned(num_bytes):
    memory = numpy.zeros(num_bytes + 16, numpy.uint8)
    first = -memory.ctypes.data % 16
    return memory[first:first + num_bytes]


def placed(memory, first, like, dtype=None):
    """`like`, copied to where byte `first` is."""
    like = like if dtype is None else like.astype(dtype)
    there = memory[first:first + like.nbytes].view(like.dtype).reshape(like.shape)
    there[...] = like
    return there


def bytes_of(memory, first, shape, dtype):
    count = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
    return memory[first:first + count].view(dtype).reshape(shape)


def apart_from(name, by="out"):
    return pytest.raises(baton.InvalidArgument, match=rf"{by}: expected memory of its own, which this call writes; found some of {name}'s in it")


@pytest.mark.parametrize("name", ["tokens", "topk_idx", "topk_weights"])
@pytest.mark.parametrize("split", [False, True])
def test_a_result_lies_in_nothing_that_dispatch_was_given(name, split):
    data = round_data(num_ranks=1)
    ep = local(data, num_ranks=1)[0]
    given = dict(zip(("tokens", "topk_idx", "topk_weights"), data.given(0)))
    size = given[name].nbytes
    memory = aligned(size + 2 * 16 * 256 * 4)
    given[name] = placed(memory, 16 * 256 * 4, given[name])
    answers = scaled_experts(ep.dispatch(**given))
    if split:
        ep.combine_async(answers)
    end = (lambda out: ep.combine_wait(out)) if split else (lambda out: ep.combine(answers, out=out))
    for first in (16, 16 * 256 * 4 + size - 16):  # its last bytes, its first bytes
        with apart_from(name):
            end(bytes_of(memory, first, (16, 256), numpy.float32))
    before = numpy.array(given[name])
    assert_scaled(data, 0, end(bytes_of(memory, 0 if name == "tokens" else 16 * 256 * 4 + size, (16, 256), numpy.float32)))
    assert (given[name] == before).all()


def test_a_result_lies_in_nothing_that_combine_was_given(data):
    ep = local(data)
    answers = [scaled_experts(recv) for recv in baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)]
    shared = numpy.zeros((16, 256), BF16)
    outs = [numpy.zeros((16, 256), numpy.float32) for _ in range(4)]
    for more, name in (({"out": [*outs[:3], answers[3][:16]]}, "expert_output"), ({"out": [*outs[:3], shared], "shared_output": [None, None, None, shared]}, "shared_output")):
        with apart_from(name):
            baton.combine_all(ep, answers, **more)
    for one, rows in zip(ep, answers):
        one.combine_async(rows)
    with apart_from("expert_output"):
        ep[0].combine_wait(answers[0][:16])
    for rank, one in enumerate(ep):
        assert_scaled(data, rank, one.combine_wait(outs[rank]))
    baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    baton.combine_all(ep, [rows.copy() for rows in answers], out=[rows[:16] for rows in answers])  # which were given to the round before


def test_loads_lie_in_no_other_argument(data):
    ep = local(data, num_ranks=1)[0]
    tokens, ids, weights = data.given(0)
    with apart_from("topk_idx", by="expert_load"):
        ep.dispatch(tokens, ids, weights, expert_load=ids.reshape(-1)[:64])


def test_products_lie_in_none_of_their_operands():
    a, b = numpy.ones((32, 32), BF16), numpy.ones((32, 32), BF16)
    for name, out in (("a", a), ("b", b)):
        with apart_from(name):
            baton.gemm(a, b, out=out)
    both = aligned(32 * 64 * 2).view(BF16).reshape(64, 32)
    both[...] = 1
    assert (baton.gemm(both[:32], b, out=both[32:]) == 32).all()
    with apart_from("a"):
        baton.grouped_gemm(a, b[None], numpy.array([32], numpy.int32), out=a)


def test_experts_answers_lie_neither_in_what_was_received_nor_in_weights():
    data = round_data(num_experts=8, top_k=2, hidden=64)
    recv = local(data, num_ranks=1)[0].dispatch(*data.given(0))
    gate, up, down = (numpy.zeros((8, *shape), BF16) for shape in ((64, 64), (64, 64), (64, 64)))
    with apart_from("received.tokens"):
        baton.expert_mlp(recv, gate, up, down, out=recv.tokens)
    with apart_from("up"):
        baton.expert_mlp(recv, gate, up, down, out=up.reshape(-1, 64)[:recv.max_rows])


def test_attention_may_lie_between_rows_of_what_it_reads_and_not_in_them():
    world = baton.World.from_all_gather(None, 0, 1, "cpu")
    random = numpy.random.default_rng(3)
    together = random.standard_normal((7, 4, 2, 64)).astype(ml_dtypes.bfloat16)  # q, k, v and room for out, one token after the other
    q, k, v, out = (together[:, i] for i in range(4))
    cu = numpy.array([0, 7], numpy.int32)
    expected = attention.varlen(q, k, v, cu, cu, world=world)
    assert attention.varlen(q, k, v, cu, cu, out=out, world=world) is out
    assert (out == expected).all()
    for name, there in (("q", q), ("k", k), ("v", v)):
        with apart_from(name):
            attention.varlen(q, k, v, cu, cu, out=there, world=world)
    wide = together.reshape(7, 512)[:, 64:192].reshape(7, 2, 64)  # half of q's rows, half of k's
    with apart_from("q"):
        attention.varlen(q, k, v, cu, cu, out=wide, world=world)
    with apart_from("v"):
        attention.varlen(q, k, v, cu, cu, out=v[::-1][::-1], world=world)
