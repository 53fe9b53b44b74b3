"""Rounds of the exchange, beside numpy in double."""
import threading

import ml_dtypes
import numpy
import pytest

import baton
from rounds import BF16, assert_scaled, local, round_data, scaled_experts


def test_the_example_runs_as_written():
    data = round_data()
    tokens, topk_idx, topk_weights = data.tokens, data.topk_idx, data.topk_weights
    worlds = baton.World.local(4, device="cpu")
    ep = baton.ExpertParallel.create_all(worlds, num_experts=64, top_k=8, hidden=256, num_max_tokens_per_rank=128, format="bf16")
    recv = baton.dispatch_all(ep, tokens, topk_idx, topk_weights)
    expert_out = [scaled_experts(r) for r in recv]
    out = baton.combine_all(ep, expert_out)
    for rank in range(4):
        assert out[rank].dtype == numpy.float32 and out[rank].shape == (16, 256)
        assert_scaled(data, rank, out[rank])


def test_what_was_received_are_the_tokens_of_their_sources():
    data = round_data()
    for recv in baton.dispatch_all(local(data), data.tokens, data.topk_idx, data.topk_weights):
        assert recv.tokens.dtype == BF16 and recv.tokens.shape == (recv.max_rows, 256)
        assert recv.row_offsets.shape == (17,) and recv.scales is None and recv.token_rows is None
        for expert, first, count in zip(recv.expert_ids, recv.row_offsets, recv.row_counts):
            for row in range(first, first + count):
                token, choice, rank, _ = recv.sources[row]
                assert data.topk_idx[rank][token, choice] == expert
                assert (recv.tokens[row] == data.tokens[rank][token]).all()
    assert recv.load() == [(e, n) for e, n in zip(recv.expert_ids.tolist(), recv.row_counts.tolist())]
    assert len(repr(recv.load()).splitlines()) == 17 and recv.load()._repr_html_().count("<tr>") == 17


def test_views_are_no_copies():
    data = round_data()
    recv = baton.dispatch_all(local(data), data.tokens, data.topk_idx, data.topk_weights)[0]
    assert recv.tokens is recv.tokens and not recv.tokens.flags.owndata
    assert recv._view_tokens(True).ctypes.data == recv.tokens.ctypes.data


@pytest.mark.parametrize("more", [{"layout": "per_expert"}, {"transfer": "chunks"}, {"transfer": "flags"}, {"layout": "per_expert",
                                                                                                            "arrival": "sentinel"}])
def test_every_way_gives_the_same_sums(more):
    data = round_data(ids=numpy.int32)
    ep = local(data, **more)
    for _ in range(2):
        recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
        for rank, out in enumerate(baton.combine_all(ep, [scaled_experts(r) for r in recv])):
            assert_scaled(data, rank, out)


@pytest.mark.parametrize("more", [{}, {"transfer": "chunks"}, {"transfer": "flags"}])
def test_halves_do_not_mind_what_the_round_before_was_of(more):
    data = round_data()
    ep = local(data, **more)
    first = None
    for ids, kind in ((numpy.int64, numpy.float32), (numpy.int32, BF16), (numpy.int32, numpy.float32), (numpy.int64, BF16), (numpy.int64, BF16)):
        recv = baton.dispatch_all(ep, data.tokens, [one.astype(ids) for one in data.topk_idx], data.topk_weights)
        outs = baton.combine_all(ep, [scaled_experts(r) for r in recv], out=[numpy.zeros((16, 256), kind) for _ in ep])
        first = outs if first is None else first
        for out, other in zip(outs, first):
            assert (out == other.astype(kind)).all()


def test_calls_of_each_rank_in_one_thread():
    data = round_data()
    ep = local(data)
    for rank, one in enumerate(ep):
        one.dispatch_async(*data.given(rank))
    recv = [one.dispatch_wait() for one in ep]
    for one, rows in zip(ep, recv):
        one.combine_async(scaled_experts(rows))
    for rank, one in enumerate(ep):
        given = numpy.full((16, 256), numpy.nan, numpy.float32)
        assert one.combine_wait(given) is given
        assert_scaled(data, rank, given)


def test_a_thread_for_each_rank_runs_dispatch_and_combine():
    data = round_data()
    ep = local(data)
    outs = [None] * 4

    def run(rank):
        for _ in range(5):
            outs[rank] = ep[rank].combine(scaled_experts(ep[rank].dispatch(*data.given(rank))))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in range(4):
        assert_scaled(data, rank, outs[rank])


def test_results_in_bf16_and_shared_experts():
    data = round_data()
    ep = local(data)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    shared = [numpy.full((16, 256), 2, BF16) for _ in ep]
    outs = baton.combine_all(ep, [scaled_experts(r) for r in recv], shared, out=[numpy.zeros((16, 256), BF16) for _ in ep])
    plain = baton.combine_all(ep, [scaled_experts(r) for r in baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)])
    for out, sums in zip(outs, plain):
        assert out.dtype == BF16 and (out == (sums + numpy.float32(2)).astype(BF16)).all()


def test_two_rounds_in_flight_have_a_slot_each():
    first, second = round_data(seed=1), round_data(seed=2, num_tokens=5)
    ep = local(first, num_slots=2)
    recv = [baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights, slot=slot) for slot, data in enumerate((first, second))]
    for slot, data in ((1, second), (0, first)):
        outs = baton.combine_all(ep, [scaled_experts(r) for r in recv[slot]], slot=slot)
        for rank, out in enumerate(outs):
            assert_scaled(data, rank, out)


def test_weights_are_given_to_combine_and_experts_have_rows_of_their_own():
    data = round_data()
    ep = local(data, weights_at_combine=True, rows_of_expert=4 * 128)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx)
    for rows in recv:
        assert rows.max_rows == 512 * rows.num_local_experts and list(rows.row_offsets) == [512 * e for e in range(rows.num_local_experts + 1)]
    for rank, out in enumerate(baton.combine_all(ep, [scaled_experts(r) for r in recv], topk_weights=data.topk_weights)):
        assert_scaled(data, rank, out)
    with pytest.raises(baton.InvalidArgument, match="topk_weights: given to dispatch, but weights_at_combine"):
        ep[0].dispatch_async(*data.given(0))
    assert "rows_of_expert: 511 are fewer" in baton.why_not(4, **{**data.sizes(), "rows_of_expert": 511})


def test_no_tokens_and_tokens_without_experts_are_legal():
    data = round_data()
    data.tokens[1], data.topk_idx[1], data.topk_weights[1] = (a[:0] for a in data.given(1))
    data.topk_idx[2][:] = -1
    ep = local(data)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    outs = baton.combine_all(ep, [scaled_experts(r) for r in recv])
    assert outs[1].shape == (0, 256) and (outs[2] == 0).all()
    assert_scaled(data, 0, outs[0])


def e4m3_rows(x):
    """DeepSeek-V3's blocks of 128, as token_format.hpp says."""
    blocks = x.astype(numpy.float32).reshape(len(x), -1, 128)
    scales = numpy.maximum(numpy.abs(blocks).max(axis=2), numpy.float32(1e-4)) / numpy.float32(448)
    values = (blocks * (numpy.float32(1) / scales)[:, :, None]).astype(ml_dtypes.float8_e4m3fn)
    return values.reshape(x.shape), scales


@pytest.mark.parametrize("more", [{}, {"rows": "by_token"}])
def test_tokens_in_fp8_come_with_their_scales(more):
    data = round_data()
    ep = local(data, format="fp8", **more)
    for recv in baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights):
        assert recv.tokens.dtype == ml_dtypes.float8_e4m3fn and recv.scales.dtype == numpy.float32
        assert (recv.token_rows is not None) == bool(more)
        for first, count in zip(recv.row_offsets, recv.row_counts):
            for row in range(first, first + count):
                token, _, rank, _ = recv.sources[row]
                values, scales = e4m3_rows(data.tokens[rank][token:token + 1])
                at = row if recv.token_rows is None else recv.token_rows[row]
                assert (recv.tokens[at].view(numpy.uint8) == values[0].view(numpy.uint8)).all()
                assert (recv.scales[at] == scales[0]).all()


def test_tokens_that_are_quantised_already_travel_as_they_are():
    data = round_data()
    quantised = [e4m3_rows(x) for x in data.tokens]
    ep = local(data, format="fp8")
    mine = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    before = [(r.tokens.view(numpy.uint8).copy(), r.row_offsets.copy(), r.row_counts.copy()) for r in mine]
    baton.combine_all(ep, [numpy.zeros((r.max_rows, 256), BF16) for r in mine])
    for (tokens, offsets, counts), recv in zip(before, baton.dispatch_all(ep, quantised, data.topk_idx, data.topk_weights)):
        assert (recv.row_counts == counts).all()
        for first, count in zip(offsets, counts):
            assert (recv.tokens[first:first + count].view(numpy.uint8) == tokens[first:first + count]).all()


@pytest.mark.parametrize("form,values,scales", [("mxfp8", "float8_e4m3fn", "float8_e8m0fnu"), ("mxfp4", "uint8", "float8_e8m0fnu"),
                                                ("nvfp4", "uint8", "float8_e4m3fn")])
def test_other_formats_have_their_types_and_shapes(form, values, scales):
    data = round_data()
    recv = baton.dispatch_all(local(data, format=form), data.tokens, data.topk_idx, data.topk_weights)[0]
    per_byte = 1 if form == "mxfp8" else 2
    assert str(recv.tokens.dtype) == values and recv.tokens.shape == (recv.max_rows, 256 // per_byte)
    assert str(recv.scales.dtype) == scales and recv.scales.shape == (recv.max_rows, 256 // (16 if form == "nvfp4" else 32))


def test_load_of_experts_is_added_up():
    data = round_data()
    ep = local(data)
    load = [numpy.ones(16, numpy.int64) for _ in ep]
    for rank, one in enumerate(ep):
        one.dispatch_async(*data.given(rank), expert_load=load[rank])
    for one, its in zip(ep, load):
        assert (one.dispatch_wait().row_counts + 1 == its).all()


def test_waits_and_states_can_be_read():
    data = round_data()
    ep = local(data)
    baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    state = ep[2].dump_state()
    assert state["rank"] == 2
    waits = ep[2].world.wait_times()
    assert waits["rank"] == 2 and len(waits["peers"]) == 4 and waits["span_ns"] > 0
    ep[2].world.reset_wait_times()


def test_a_rank_that_received_nothing_answers_with_nothing():
    data = round_data(num_experts=8, top_k=2, hidden=64, num_tokens=5)
    data.topk_idx = [idx % 2 for idx in data.topk_idx]  # both experts are rank 0's
    ep = local(data)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    counts = [int(r.row_offsets[-1]) for r in recv]
    assert counts[0] > 0 and counts[1:] == [0, 0, 0]
    for one, rows, count in zip(ep, recv, counts):
        one.combine_async(scaled_experts(rows)[:count], num_rows=count)
    for rank, one in enumerate(ep):
        assert_scaled(data, rank, one.combine_wait())
