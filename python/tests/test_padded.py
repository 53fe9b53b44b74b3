"""Rows of a dispatch in memory for as many of each expert as may come, on CPU ranks."""
import numpy
import pytest

import baton
from rounds import BF16, round_data


def received(format="bf16", num_ranks=3, layout="per_rank"):
    data = round_data(num_ranks=num_ranks)
    ep = baton.ExpertParallel.create_all(baton.World.local(num_ranks, device="cpu"), **data.sizes(format=format, layout=layout))
    return ep, baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)


def test_scales_that_do_not_fill_integers_are_refused():
    _, recv = received("fp8")  # hidden 256: two scales
    with pytest.raises(baton.InvalidArgument, match="scales: int32, each of which holds four, expected hidden to be a multiple of 512; found 256"):
        baton.pad_rows(recv[0], 32, scales=numpy.zeros((recv[0].num_local_experts, 0, 32), numpy.int32))


def check(recv, padded, capacity, num_ranks):
    tokens = recv.tokens.view(numpy.uint8)
    for expert, (first, count) in enumerate(zip(recv.row_offsets, recv.row_counts)):
        there = min(int(count), capacity)
        rows = slice(int(first), int(first) + there)
        assert padded.row_counts[expert] == there
        assert (padded.tokens.view(numpy.uint8)[expert, :there] == tokens[rows]).all()
        assert (padded.source_tokens[expert, :there] == recv.sources[rows, 0]).all()
        if padded.scales is not None:
            assert (padded.scales[expert, :, :there].T == recv.scales[rows]).all()
        ranks = recv.sources[rows, 2]
        for rank in range(num_ranks):
            packed = int(padded.source_ranges[expert, rank])
            first_of_rank, its = packed >> 32, packed & 0xffffffff
            assert its == (ranks == rank).sum() and (ranks[first_of_rank:first_of_rank + its] == rank).all()


@pytest.mark.parametrize("layout", ["per_rank", "per_expert"])
@pytest.mark.parametrize("format", ["bf16", "fp8"])
@pytest.mark.parametrize("capacity", [2, 48])
def test_rows_have_places_of_their_own_and_go_back(format, layout, capacity):
    ep, all_received = received(format, layout=layout)
    for recv in all_received:
        experts = recv.num_local_experts
        more = {"source_tokens": numpy.full((experts, capacity), -1, numpy.int32), "source_ranges": numpy.zeros((experts, 3), numpy.int64)}
        padded = baton.pad_rows(recv, capacity, **more)
        assert padded.source_tokens is more["source_tokens"] and padded.tokens.shape == (experts, capacity, recv.hidden)
        check(recv, padded, capacity, 3)
        values = numpy.arange(experts * capacity * recv.hidden, dtype=numpy.uint16).reshape(experts, capacity, recv.hidden).view(BF16)
        out = baton.unpad_rows(recv, values)
        for expert, first in enumerate(recv.row_offsets[:-1]):
            there = int(padded.row_counts[expert])
            assert (out[int(first):int(first) + there].view(numpy.uint16) == values[expert, :there].view(numpy.uint16)).all()


def test_scales_that_are_powers_of_two_become_exponents():
    data = round_data(num_ranks=1, hidden=512)
    data.tokens[0][:] = numpy.where(data.tokens[0] >= 0, 448.0, -448.0).astype(BF16) * numpy.exp2(numpy.arange(512) // 128).astype(BF16)
    ep = baton.ExpertParallel.create_all(baton.World.local(1, device="cpu"), **data.sizes(format="fp8"))
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)[0]
    exponents = numpy.zeros((recv.num_local_experts, 1, 16), numpy.int32)
    padded = baton.pad_rows(recv, 16, scales=exponents)
    for expert, count in enumerate(padded.row_counts):
        assert (exponents[expert, 0, :count].view(numpy.uint8).reshape(-1, 4) == [127, 128, 129, 130]).all() and (exponents[expert, 0, count:] == 0).all()


@pytest.mark.parametrize("given, says", [
    ({"capacity": 0}, "capacity: 0, expected at least 1"),
    ({"capacity": 1.5}, "capacity: 1.5, expected an integer"),
    ({"tokens": numpy.zeros((2, 2), BF16)}, r"tokens: expected bfloat16 \[\d+, 4, 256\] on cpu, contiguous and writable; found bfloat16 \[2, 2\]"),
    ({"scales": numpy.zeros((2, 2, 4), numpy.float32)}, "scales: expected "),
    ({"row_counts": numpy.zeros(1, numpy.int64)}, "row_counts: expected int32"),
    ({"num_sms": -1}, "num_sms is -1"),
])
def test_wrong_arguments_are_named(given, says):
    _, (recv, *_) = received()
    with pytest.raises(baton.InvalidArgument, match=says):
        baton.pad_rows(recv, **{"capacity": 4, **given})


def test_the_way_back_and_other_formats_are_refused_by_name():
    _, (recv, *_) = received()
    with pytest.raises(baton.InvalidArgument, match=r"padded: expected bfloat16 \[\d+, any, 256\]"):
        baton.unpad_rows(recv, numpy.zeros((1, 4, 256), BF16))
    with pytest.raises(baton.InvalidArgument, match="recv: ndarray, expected what dispatch"):
        baton.unpad_rows(recv.tokens, recv.tokens)
    _, (narrow, *_) = received("mxfp4")
    with pytest.raises(baton.InvalidArgument, match="recv: rows in mxfp4, expected bf16 or fp8"):
        baton.pad_rows(narrow, 4)
