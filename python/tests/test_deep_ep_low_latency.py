"""DeepEP's calls of low latency on CPU ranks, each a thread."""
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import baton
import baton.deep_ep
from ranks_of_deep_ep import EXPERTS, HIDDEN, LOCAL, RANKS, TOKENS, TOP_K, everyone, from_fp8, layout, of_rank, on_buffers


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
                              {"topk_idx": own.idx.clone(), "topk_weights": own.weights[:, :1]},
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


@pytest.mark.parametrize("hidden", [256, 384, 640])
def test_scales_that_do_not_fill_integers_are_refused_before_anything_is_sent(hidden):
    buffer = baton.deep_ep.Buffer(world=baton.World.local(1, device="cpu")[0])
    x, idx = torch.ones(4, hidden).bfloat16(), torch.tensor([[0, 1]] * 4)
    with pytest.raises(baton.InvalidArgument, match=f"x: hidden {hidden}, expected a multiple of 512 with use_ue8m0"):
        buffer.low_latency_dispatch(x, idx, 8, 8, round_scale=True, use_ue8m0=True)
    assert int(buffer.low_latency_dispatch(x, idx, 8, 8, round_scale=True)[1].sum()) == 8


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
