"""DeepEP's interface, with the shapes of its calls, on CPU ranks: each a thread, or a process that meets by torch.distributed."""
import os
import socket

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


def test_the_layout_is_what_ids_say():
    def work(buffer, rank):
        own = of_rank(rank)
        given = layout(buffer, own)
        for other in range(RANKS):
            assert (given["is_token_in_rank"][:, other] == own.goes_to(other)).all()
        assert given["num_tokens_per_rank"].tolist() == [int(own.goes_to(other).sum()) for other in range(RANKS)]
        assert given["num_tokens_per_expert"].tolist() == [int((own.idx == e).sum()) for e in range(EXPERTS)]
        assert given["num_tokens_per_rank"].dtype == given["num_tokens_per_expert"].dtype == torch.int32
    on_buffers(work)


def received_by(rank):
    """Rows of x, ids and weights that this rank gets."""
    rows = [(own, own.goes_to(rank)) for own in everyone()]
    ids = torch.cat([own.idx[there] for own, there in rows]) - rank * LOCAL
    is_here = (ids >= 0) & (ids < LOCAL)
    weights = torch.cat([own.weights[there] for own, there in rows])
    return torch.cat([own.x[there] for own, there in rows]), torch.where(is_here, ids, -1), torch.where(is_here, weights, 0.0)


def in_fp8(x):
    blocks = x.float().view(x.size(0), -1, 128)
    scales = blocks.abs().amax(2).clamp(min=1e-4) / 448
    return (blocks / scales.unsqueeze(2)).to(torch.float8_e4m3fn).view(x.shape), scales.T.contiguous().T  # as DeepEP's users have them


def from_fp8(values, scales):
    return (values.float().view(values.size(0), -1, 128) * scales.unsqueeze(2)).view(values.shape).bfloat16()


@pytest.mark.parametrize("is_fp8", [False, True], ids=["bf16", "fp8"])
@pytest.mark.parametrize("with_ids", [False, True], ids=["", "ids"])
@pytest.mark.parametrize("is_async", [False, True], ids=["", "async"])
def test_tokens_come_once_to_each_rank_and_back(is_fp8, with_ids, is_async):
    def work(buffer, rank):
        own, (rows, ids, weights) = of_rank(rank), received_by(rank)
        given = {**layout(buffer, own), "x": in_fp8(own.x) if is_fp8 else own.x, "async_finish": is_async}
        if with_ids:
            given.update(topk_idx=own.idx, topk_weights=own.weights, previous_event=buffer.capture())
        recv_x, recv_ids, recv_weights, per_expert, handle, event = buffer.dispatch(**given)
        event.current_stream_wait() if is_async else None
        if is_fp8:
            values, scales = in_fp8(rows)
            assert (recv_x[0].view(torch.uint8) == values.view(torch.uint8)).all() and (recv_x[1] == scales).all()
        else:
            assert torch.equal(recv_x, rows)
        assert per_expert == [int((ids == e).sum()) for e in range(LOCAL)]
        assert handle[0][:, rank].tolist() == torch.tensor([int(other.goes_to(rank).sum()) for other in everyone()]).cumsum(0).tolist()
        if with_ids:
            assert torch.equal(recv_ids, ids) and torch.equal(recv_weights, weights)
            worst = RANKS * 32 + 5
            padded_x, padded_ids, padded_weights, none, _, _ = buffer.dispatch(**given, num_worst_tokens=worst)
            first = padded_x[0] if is_fp8 else padded_x
            assert none == [] and first.size(0) == padded_ids.size(0) == padded_weights.size(0) == worst
            assert torch.equal(padded_ids[:len(ids)], ids) and (padded_ids[len(ids):] == -1).all()
            assert torch.equal(padded_weights[:len(ids)], weights)
        else:
            assert recv_ids is None and recv_weights is None
            again = buffer.dispatch(given["x"], handle=handle)
            assert again[1:5] == (None,) * 4
            for one, other in zip(again[0] if is_fp8 else [again[0]], recv_x if is_fp8 else [recv_x]):
                assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))
        answers = from_fp8(*recv_x) if is_fp8 else recv_x
        for _ in range(2):  # also of a round that is over
            out, sums, _ = buffer.combine(answers, handle, topk_weights=recv_weights)
            share = given["is_token_in_rank"].sum(1).unsqueeze(1)
            expected = (from_fp8(*in_fp8(own.x)) if is_fp8 else own.x).float() * share
            assert out.dtype == torch.bfloat16 and torch.allclose(out.float(), expected, rtol=2 ** -8)
            if with_ids:
                assert torch.allclose(sums, torch.where(own.idx >= 0, own.weights, 0.0), rtol=2 ** -22, atol=0)
    on_buffers(work)


def test_experts_rows_are_counted_in_whole_alignments():
    def work(buffer, rank):
        own = of_rank(rank)
        exact = [int((received_by(rank)[1] == e).sum()) for e in range(LOCAL)]
        for more in ({}, {"topk_idx": own.idx}):
            _, _, weights, per_expert, _, _ = buffer.dispatch(own.x, **layout(buffer, own), expert_alignment=8, **more)
            assert per_expert == [-(-n // 8) * 8 for n in exact]
        assert set(weights.flatten().tolist()) <= {0.0, 1.0}  # none were given
    on_buffers(work)


def test_biases_are_added_last():
    def work(buffer, rank):
        own = of_rank(rank)
        recv_x, _, _, _, handle, _ = buffer.dispatch(own.x, **layout(buffer, own))
        bare = buffer.combine(recv_x, handle)[0]
        bias = torch.randn(TOKENS, HIDDEN).bfloat16()
        for given, added in ((bias, bias.float()), ((bias, own.x), bias.float() + own.x.float())):
            out = buffer.combine(recv_x, handle, bias=given)[0]
            assert torch.allclose(out.float(), bare.float() + added, rtol=2 ** -6, atol=2 ** -5)
    on_buffers(work)


def test_a_rank_without_tokens_takes_part():
    def work(buffer, rank):
        own = of_rank(rank, num_tokens=TOKENS if rank == 0 else 2)
        if rank == 1:
            own.x, own.idx, own.weights = own.x[:0], own.idx[:0], own.weights[:0]
        recv_x, ids, _, _, handle, _ = buffer.dispatch(own.x, topk_idx=own.idx, topk_weights=own.weights, **layout(buffer, own))
        out, _, _ = buffer.combine(recv_x, handle)
        assert out.shape == own.x.shape and ids.size(0) == recv_x.size(0)
    on_buffers(work)


def low_latency_rows(rank, expert):
    """Of one local expert: (source rank, token) in order."""
    return [(source, token) for source, own in enumerate(everyone()) for token in range(TOKENS)
            if (own.idx[token] == rank * LOCAL + expert).any()]


def factors(ids):
    """By which experts multiply what they get, each by another: weights that come to the wrong one of a token's choices are noticed."""
    return torch.where(ids >= 0, 1 + ids / 2, 0.0)


def answers_of(rank, rows):
    """What this rank's experts make of [local experts, capacity, hidden]."""
    return (rows.float() * factors(torch.arange(LOCAL) + rank * LOCAL).view(LOCAL, 1, 1)).bfloat16()


def assert_sums(out, own, scale=1, idx=None, weights=None, tolerance=2 ** -7):
    """Of each token, as long as its summands are."""
    idx, weights = own.idx if idx is None else idx, own.weights if weights is None else weights
    shares = torch.where(idx >= 0, weights, 0.0) * factors(idx)
    errors = (out.float() - own.x.float() * scale * shares.sum(1, keepdim=True)).norm(dim=1)
    assert (errors <= tolerance * scale * shares.abs().sum(1) * own.x.float().norm(dim=1)).all(), errors


@pytest.mark.parametrize("hooked", [False, True], ids=["", "hook"])
@pytest.mark.parametrize("cast", [{"use_fp8": False}, {}, {"round_scale": True}, {"round_scale": True, "use_ue8m0": True}], ids=str)
def test_low_latency(cast, hooked):
    def work(buffer, rank):
        own, others = of_rank(rank), everyone()
        for _ in range(3):
            stats = torch.zeros(LOCAL, dtype=torch.int32)
            recv_x, counts, handle, event, hook = buffer.low_latency_dispatch(
                own.x, own.idx, 16, EXPERTS, cumulative_local_expert_recv_stats=stats, async_finish=not hooked, return_recv_hook=hooked, **cast)
            if hooked:
                with pytest.raises(baton.InvalidArgument, match="the hook of its low_latency_dispatch was not called"):
                    buffer.low_latency_combine(own.x, own.idx, own.weights, handle)
                hook()
            else:
                event.current_stream_wait()
            if cast.get("use_fp8", True):
                values, scales = recv_x
                assert values.shape == (LOCAL, 16 * RANKS, HIDDEN) and values.dtype == torch.float8_e4m3fn
                if cast.get("use_ue8m0"):
                    assert scales.shape == (LOCAL, 16 * RANKS, HIDDEN // 512) and scales.dtype == torch.int32
                    scales = (scales.contiguous().view(torch.uint8).int() << 23).view(torch.float32)
                assert scales.shape == (LOCAL, 16 * RANKS, HIDDEN // 128) and scales.dtype == torch.float32
                answers = torch.stack([from_fp8(values[e], scales[e]) for e in range(LOCAL)])
            else:
                answers = recv_x.clone()
            assert torch.equal(stats, counts) and counts.dtype == torch.int32
            for e in range(LOCAL):
                rows = low_latency_rows(rank, e)
                assert counts[e] == len(rows) and handle[0][e][:len(rows)].tolist() == [token for _, token in rows]
                for source in range(RANKS):
                    first, count = int(handle[1][e][source]) >> 32, int(handle[1][e][source]) & 0xffffffff
                    assert count == sum(row[0] == source for row in rows) and first == sum(row[0] < source for row in rows)
                exact = torch.stack([others[source].x[token] for source, token in rows]).float()
                assert torch.allclose(answers[e][:len(rows)].float(), exact, rtol=2 ** -3, atol=2 ** -6 if cast.get("use_fp8", True) else 0)
            answers = answers_of(rank, answers)
            for zero_copy in (False, True):
                if zero_copy:
                    buffer.get_next_low_latency_combine_buffer(handle)[:] = answers
                out = torch.empty(TOKENS, HIDDEN, dtype=torch.bfloat16)
                got, event, hook = buffer.low_latency_combine(answers, own.idx, own.weights, handle, zero_copy=zero_copy, out=out,
                                                              async_finish=not hooked, return_recv_hook=hooked)
                hook() if hooked else event.current_stream_wait()
                assert got is out
                assert_sums(out, own, tolerance=2 ** -4 if cast.get("use_fp8", True) else 2 ** -7)
    on_buffers(work)


def test_two_dispatches_of_low_latency_may_be_under_way():
    def work(buffer, rank):
        own = of_rank(rank)
        calls = [buffer.low_latency_dispatch(own.x * scale, own.idx, 16, EXPERTS, use_fp8=False, return_recv_hook=True) for scale in (1, 2)]
        for _, _, _, _, hook in calls:
            hook()
        for scale, (recv_x, _, handle, _, _) in zip((1, 2), calls):
            out, _, hook = buffer.low_latency_combine(answers_of(rank, recv_x), own.idx, own.weights, handle, return_recv_hook=True)
            hook()
            assert_sums(out, own, scale)
    on_buffers(work)


def test_rows_of_low_latency_are_the_buffers_and_stay_for_one_call_more():
    def work(buffer, rank):
        own, seen = of_rank(rank), []
        for scale in (1, 2, 4, 8):  # of which the second is not combined
            recv_x, counts, handle, _, _ = buffer.low_latency_dispatch(own.x * scale, own.idx, 16, EXPERTS, use_fp8=False)
            seen.append(recv_x)
            if len(seen) > 1:
                assert counts.sum() > 0
                for before, now, count in zip(seen[-2], recv_x, counts):
                    assert torch.equal(before[:count] * 2, now[:count])
            if scale == 2:
                continue
            out, _, _ = buffer.low_latency_combine(answers_of(rank, recv_x), own.idx, own.weights, handle)
            assert_sums(out, own, scale)
        assert seen[0].data_ptr() == seen[2].data_ptr() != seen[1].data_ptr() == seen[3].data_ptr()
    on_buffers(work)


@pytest.mark.parametrize("use_fp8", [False, True])
def test_low_latency_of_sizes_that_are_odd(use_fp8):
    """3 ranks of 11 tokens are no multiple of 4 rows, which scales want."""
    from baton.deep_ep._buffer import low_latency_sizes
    assert low_latency_sizes(RANKS, 11, HIDDEN, EXPERTS, TOP_K, use_fp8)["layout"] == ("per_expert" if use_fp8 else "per_rank")

    def work(buffer, rank):
        own = of_rank(rank)
        for scale in (1, 2):
            recv_x, counts, handle, _, hook = buffer.low_latency_dispatch(own.x * scale, own.idx, 11, EXPERTS, use_fp8=use_fp8, return_recv_hook=True)
            hook()
            answers = answers_of(rank, torch.stack([from_fp8(*both) for both in zip(*recv_x)]) if use_fp8 else recv_x)
            assert counts.tolist() == [len(low_latency_rows(rank, e)) for e in range(LOCAL)]
            out, _, hook = buffer.low_latency_combine(answers, own.idx, own.weights, handle, return_recv_hook=True)
            hook()
            assert_sums(out, own, scale, tolerance=2 ** -4 if use_fp8 else 2 ** -7)
    on_buffers(work)


def dispatched(buffer, rank, own, idx=None, num_max=16):
    """(answers, handle), and recv_x that answers are not in."""
    recv_x, _, handle, _, _ = buffer.low_latency_dispatch(own.x, own.idx if idx is None else idx, num_max, EXPERTS, use_fp8=False)
    return answers_of(rank, recv_x), handle, recv_x


@pytest.mark.parametrize("in_inference", [False, True], ids=["", "inference"])
@pytest.mark.parametrize("in_place", [False, True], ids=["another", "in_place"])
def test_choices_that_become_none_before_combine_count_nothing(in_place, in_inference):
    def work(buffer, rank):
        with torch.inference_mode(in_inference):
            own = of_rank(rank)
            given = own.idx.clone()
            answers, handle, _ = dispatched(buffer, rank, own, given)
            later = given if in_place else given.clone()
            later[:, 2] = -1
            weights = own.weights.clone()
            weights[:, 2] = float("nan")
            out, _, _ = buffer.low_latency_combine(answers, later, weights, handle)
            assert_sums(out, own, idx=later)
            if not in_place and not in_inference:  # where rows lie is known still
                assert_sums(buffer.low_latency_combine(answers, later, weights, handle)[0], own, idx=later)
    on_buffers(work)


def test_a_second_combine_takes_ids_as_it_is_given_them():
    """Not as they are in memory that the next layer has written its own to."""
    def work(buffer, rank):
        own = of_rank(rank)
        static = own.idx.clone()
        answers, handle, _ = dispatched(buffer, rank, own, static)
        assert_sums(buffer.low_latency_combine(answers, own.idx, own.weights, handle)[0], own)
        static.copy_((own.idx + 5) % EXPERTS)
        dispatched(buffer, rank, own, static)
        assert_sums(buffer.low_latency_combine(answers, own.idx, own.weights, handle)[0], own)
    on_buffers(work)


@pytest.mark.parametrize("num_max, layout", [(16, "per_rank"), (TOKENS, "per_expert")], ids=str)
def test_answers_of_another_shape_are_refused(num_max, layout):
    from baton.deep_ep._buffer import low_latency_sizes
    assert low_latency_sizes(RANKS, num_max, HIDDEN, EXPERTS, TOP_K, layout == "per_expert")["layout"] == layout

    def work(buffer, rank):
        own = of_rank(rank)
        answers, handle, _ = dispatched(buffer, rank, own, num_max=num_max)
        rows = num_max * RANKS
        for wrong in (answers.view(rows, LOCAL, HIDDEN), answers.view(-1, HIDDEN), answers[:-1], answers.float(), answers[..., :-128]):
            with pytest.raises(baton.InvalidArgument, match=r"x: \[.*\] of torch\..*, expected \[%d, %d, %d\] of torch.bfloat16" % (LOCAL, rows, HIDDEN)):
                buffer.low_latency_combine(wrong, own.idx, own.weights, handle)
        assert_sums(buffer.low_latency_combine(answers, own.idx, own.weights, handle)[0], own)
    on_buffers(work)


def test_a_rank_that_was_refused_a_call_may_give_it_again():
    """Without the other ranks, whose calls were taken, being at another round."""
    def work(buffer, rank):
        own = of_rank(rank)

        def refused_on_one_rank(call):
            if rank == 0:
                with pytest.raises(baton.InvalidArgument):
                    call()
        for _ in range(2):
            refused_on_one_rank(lambda: buffer.low_latency_dispatch(own.x.float(), own.idx, 16, EXPERTS, use_fp8=False))
            answers, handle, _ = dispatched(buffer, rank, own)
            for _ in range(3):
                for wrong in ({"topk_weights": own.weights.double()}, {"topk_weights": own.weights[:, 1:]}, {"topk_idx": own.idx[1:]},
                              {"x": answers.float()}, {"out": torch.empty(TOKENS, HIDDEN)}, {"out": torch.empty(HIDDEN, TOKENS).bfloat16().T}):
                    refused_on_one_rank(lambda: buffer.low_latency_combine(**{
                        "x": answers, "topk_idx": own.idx, "topk_weights": own.weights, "handle": handle, **wrong}))
                assert_sums(buffer.low_latency_combine(answers, own.idx, own.weights, handle)[0], own)
        given = layout(buffer, own)
        refused_on_one_rank(lambda: buffer.dispatch(own.x.float(), **given))
        recv_x, _, _, _, handle, _ = buffer.dispatch(own.x, **given)
        for _ in range(3):
            refused_on_one_rank(lambda: buffer.combine(recv_x.float(), handle))
            out, _, _ = buffer.combine(recv_x, handle)
            assert torch.allclose(out.float(), own.x.float() * given["is_token_in_rank"].sum(1).unsqueeze(1), rtol=2 ** -8)
    on_buffers(work)


def test_received_rows_that_are_overwritten_before_they_are_combined_are_refused():
    def work(buffer, rank):
        own, plain = of_rank(rank), torch.ones(TOKENS, TOP_K)
        expected = own.x.float() * (own.idx >= 0).sum(1, keepdim=True)
        _, handle, recv_x = dispatched(buffer, rank, own)
        kept = recv_x.clone()
        for _ in range(2):  # the second takes the other slot
            out, _, _ = buffer.low_latency_combine(recv_x, own.idx, plain, handle)
            assert torch.allclose(out.float(), expected, rtol=2 ** -6)
        with pytest.raises(baton.InvalidArgument, match="x: memory .* this combine, .* overwrites; expected a copy made before"):
            buffer.low_latency_combine(recv_x, own.idx, plain, handle)
        out, _, _ = buffer.low_latency_combine(kept, own.idx, plain, handle)
        assert torch.allclose(out.float(), expected, rtol=2 ** -6)
        with pytest.raises(baton.InvalidArgument, match="x: memory .* a later round has overwritten"):
            buffer.low_latency_combine(recv_x, own.idx, plain, handle)
    on_buffers(work)


@pytest.mark.parametrize("use_ue8m0", [False, True])
def test_a_rank_without_tokens_rounds_its_scales(use_ue8m0):
    def work(buffer, rank):
        own = of_rank(rank)
        if rank == 1:
            own.x, own.idx, own.weights = own.x[:0], own.idx[:0], own.weights[:0]
        (values, _), _, handle, _, _ = buffer.low_latency_dispatch(own.x, own.idx, 16, EXPERTS, round_scale=True, use_ue8m0=use_ue8m0)
        out, _, _ = buffer.low_latency_combine(torch.ones(values.shape, dtype=torch.bfloat16), own.idx, own.weights, handle)
        sums = torch.where(own.idx >= 0, own.weights, 0.0).sum(1, keepdim=True)
        assert out.shape == own.x.shape and torch.allclose(out.float(), sums.expand(out.shape), rtol=2 ** -5, atol=2 ** -5)
    on_buffers(work)


def test_zero_copy_wants_the_buffer_that_was_asked_for():
    def work(buffer, rank):
        own = of_rank(rank)
        answers, handle, _ = dispatched(buffer, rank, own)
        with pytest.raises(baton.InvalidArgument, match="zero_copy: True, .*get_next_low_latency_combine_buffer"):
            buffer.low_latency_combine(answers, own.idx, own.weights, handle, zero_copy=True)
    on_buffers(work)


def test_a_destroyed_buffer_keeps_nothing_that_was_received():
    def work(buffer, rank):
        own = of_rank(rank)
        answers, handle, _ = dispatched(buffer, rank, own)
        rounds = handle.rounds
        buffer.destroy()
        assert not rounds._places and not rounds.open
        with pytest.raises(baton.InvalidArgument, match="closed"):
            buffer.low_latency_combine(answers, own.idx, own.weights, handle)
    on_buffers(work)


def test_what_is_not_there_is_refused_with_a_reason():
    def work(buffer, rank):
        own = of_rank(rank)
        for call, says in ((buffer.internode_dispatch, "GPUs of one machine"), (buffer.internode_combine, "GPUs of one machine"),
                           (lambda: buffer.low_latency_update_mask_buffer(0, True), "set_members"),
                           (lambda: buffer.low_latency_dispatch(own.x, own.idx, 16, EXPERTS, dispatch_wait_recv_cost_stats=own.idx), "wait_times")):
            with pytest.raises(baton.Unsupported, match=says):
                call()
        with pytest.raises(baton.InvalidArgument, match="num_experts: 13, expected a multiple of 3 ranks"):
            buffer.get_dispatch_layout(own.idx, 13)
        with pytest.raises(baton.InvalidArgument, match="expected what get_dispatch_layout returns"):
            buffer.dispatch(own.x)
        buffer.destroy()
        assert repr(buffer) == f"<baton.deep_ep.Buffer: rank {rank} of 3 on cpu, destroyed>"
        with pytest.raises(baton.InvalidArgument, match="destroyed"):
            buffer.dispatch(own.x, **{**layout(buffer, own)})
    on_buffers(work)

    class group_of_16:
        size = staticmethod(lambda: 16)

    with pytest.raises(baton.Unsupported, match="ranks: 16 .*internode"):
        deep_ep.Buffer(group_of_16)
    with pytest.raises(baton.Unsupported, match="set_members"):
        deep_ep.Buffer(group_of_16, enable_shrink=True)
    with pytest.raises(ValueError, match="neither group nor comm"):
        deep_ep.Buffer()


def test_sizes_can_be_asked_for():
    assert deep_ep.Config(24, 8, 256).get_nvl_buffer_size_hint(7168 * 2, 8) > 0
    assert deep_ep.Buffer.get_dispatch_config(8).num_sms == deep_ep.Buffer.num_sms
    assert deep_ep.Buffer.get_low_latency_rdma_size_hint(128, 7168, 8, 256) > 128 * 7168 * 2
    assert deep_ep.topk_idx_t == torch.int64 and deep_ep.Buffer.is_sm90_compiled()


def process_of_group(rank, port):
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2, init_method=f"tcp://127.0.0.1:{port}")
    buffer = deep_ep.Buffer(torch.distributed.group.WORLD, int(1e6), device="cpu", num_max_tokens_per_rank=32)
    x, idx = torch.full((5, 128), rank + 1.0).bfloat16(), torch.arange(10).view(5, 2) % 4
    per_rank, _, per_expert, there, _ = buffer.get_dispatch_layout(idx, 4)
    recv_x, _, _, _, handle, _ = buffer.dispatch(x, num_tokens_per_rank=per_rank, num_tokens_per_expert=per_expert, is_token_in_rank=there)
    out, _, _ = buffer.combine(recv_x, handle)
    assert torch.equal(out, x * there.sum(1).unsqueeze(1))
    buffer.destroy()
    torch.distributed.destroy_process_group()


def test_processes_that_meet_by_torch_distributed():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.multiprocessing.start_processes(process_of_group, args=(port,), nprocs=2, start_method="spawn")


def test_one_rank_on_a_gpu():
    if "CUDA" not in baton.build_info() or not torch.cuda.is_available():
        pytest.skip("no GPU, or a wheel without its kernels")
    buffer = deep_ep.Buffer(world=baton.World.local(1, device="cuda")[0], num_max_tokens_per_rank=32)
    x, idx = torch.randn(9, HIDDEN, device="cuda").bfloat16(), torch.rand(9, 8, device="cuda").topk(3)[1]
    weights = torch.rand(9, 3, device="cuda")
    per_rank, _, per_expert, there, _ = buffer.get_dispatch_layout(idx, 8)
    given = {"num_tokens_per_rank": per_rank, "num_tokens_per_expert": per_expert, "is_token_in_rank": there, "topk_idx": idx,
             "topk_weights": weights}
    for is_async in (False, True):
        recv_x, ids, recv_weights, counts, handle, event = buffer.dispatch(x, **given, async_finish=is_async, previous_event=buffer.capture())
        event.current_stream_wait() if is_async else None
        assert torch.equal(recv_x, x) and torch.equal(ids, idx) and torch.equal(recv_weights, weights)
        assert counts == [int((idx == e).sum()) for e in range(8)]
        out, sums, _ = buffer.combine(recv_x, handle, topk_weights=recv_weights)
        assert torch.equal(out, x) and torch.allclose(sums, weights, rtol=2 ** -22)

    def layer(into):
        rows, _, its, _, _ = buffer.low_latency_dispatch(x, idx, 32, 8, use_fp8=False)
        buffer.low_latency_combine(rows, idx, weights, its, out=into)

    first, again, graph = torch.zeros_like(x), torch.zeros_like(x), torch.cuda.CUDAGraph()
    layer(first)
    torch.cuda.synchronize()
    assert torch.allclose(first.float(), x.float() * weights.sum(1, keepdim=True), rtol=2 ** -6, atol=2 ** -6)
    with torch.cuda.graph(graph):
        layer(again)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(again, first)


def test_events_say_what_they_are():
    handle = deep_ep.EventHandle(False)
    assert repr(handle) == "<baton.deep_ep.EventHandle: work is done when a call returns>"
    assert repr(deep_ep.EventOverlap()) == "<baton.deep_ep.EventOverlap: no event>"
    assert repr(deep_ep.EventOverlap(handle)) == f"<baton.deep_ep.EventOverlap: {handle!r}>"
