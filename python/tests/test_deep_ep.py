"""DeepEP's interface, with the shapes of its calls, on CPU ranks: each a thread, or a process that meets by torch.distributed."""
import os
import socket

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import baton
import baton.deep_ep as deep_ep
from baton.deep_ep._layout import layout_of
from ranks_of_deep_ep import EXPERTS, HIDDEN, LOCAL, RANKS, TOKENS, everyone, from_fp8, in_fp8, layout, of_rank, on_buffers


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


@pytest.mark.parametrize("short", ["x", "topk_weights"])
def test_combine_refuses_fewer_rows_than_dispatch_returned(short):
    def work(buffer, rank):
        own = of_rank(rank)
        recv_x, _, weights, _, handle, _ = buffer.dispatch(own.x, **layout(buffer, own), topk_idx=own.idx, topk_weights=own.weights)
        given = {"x": recv_x, "topk_weights": weights}
        with pytest.raises(baton.InvalidArgument, match=rf"{short}: 1 rows, expected {recv_x.size(0)}, as dispatch returned"):
            buffer.combine(handle=handle, **{**given, short: given[short][:1]})
        buffer.combine(handle=handle, **given)
    on_buffers(work)


def test_combine_names_a_handle_that_is_none_of_its():
    def work(buffer, rank):
        own = of_rank(rank)
        *_, handle, _, _ = buffer.low_latency_dispatch(own.x, own.idx, TOKENS, EXPERTS, use_fp8=False)
        for wrong in (handle, (1, 2), None):
            with pytest.raises(baton.InvalidArgument, match="handle: .*, expected what dispatch returned"):
                buffer.combine(own.x, wrong)
    on_buffers(work)


def test_handles_of_low_latency_are_not_those_of_normal_calls():
    def work(buffer, rank):
        own = of_rank(rank)
        *_, of_normal, _ = buffer.dispatch(own.x, **layout(buffer, own), topk_idx=own.idx, topk_weights=own.weights)
        *_, of_low_latency, _, _ = buffer.low_latency_dispatch(own.x, own.idx, TOKENS, EXPERTS, use_fp8=False)
        with pytest.raises(baton.InvalidArgument, match="handle: .*, expected what dispatch returned"):
            buffer.dispatch(own.x, handle=of_low_latency)
        for wrong in (of_normal, None):
            for call in (lambda: buffer.low_latency_combine(own.x, own.idx, own.weights, wrong), lambda: buffer.get_next_low_latency_combine_buffer(wrong)):
                with pytest.raises(baton.InvalidArgument, match="handle: .*, expected what low_latency_dispatch returned"):
                    call()
    on_buffers(work)


def test_what_normal_calls_refuse_can_be_given_again():
    """Nothing has been sent by then that another rank would take part in."""
    def work(buffer, rank):
        own = of_rank(rank)
        right = {**layout(buffer, own), "topk_idx": own.idx, "topk_weights": own.weights}
        for wrong in ({"topk_weights": own.weights[1:]}, {"topk_weights": own.weights.double()}, {"topk_idx": own.idx[1:]}, {"expert_alignment": 0}):
            with pytest.raises(baton.InvalidArgument, match=f"{next(iter(wrong))}: .*, expected"):
                buffer.dispatch(own.x, **{**right, **wrong})
        with pytest.raises(baton.InvalidArgument, match="x: ndarray, expected a torch.Tensor"):
            buffer.dispatch(own.x.float().numpy(), **right)
        recv_x, _, weights, _, handle, _ = buffer.dispatch(own.x, **right)
        for wrong in ({"bias": own.x[1:]}, {"bias": own.x.float()}, {"topk_weights": weights[:, 0]}, {"x": [1]}):
            with pytest.raises(baton.InvalidArgument, match=f"{next(iter(wrong))}: .*, expected"):
                buffer.combine(**{"x": recv_x, "handle": handle, **wrong})
        out, sums, _ = buffer.combine(recv_x, handle, topk_weights=weights)
        assert torch.allclose(sums, torch.where(own.idx >= 0, own.weights, 0.0), rtol=2 ** -22) and out.shape == own.x.shape
    on_buffers(work)


def test_arrays_of_other_dimensions_and_ids_that_are_fractions_are_named():
    buffer = deep_ep.Buffer(world=baton.World.local(1, device="cpu")[0])
    x, idx = torch.zeros(4, 256).bfloat16(), torch.zeros(4, 2, dtype=torch.int64)
    for wrong, says in ((None, "NoneType, expected a torch.Tensor"), (idx[0], r"\[2\], expected two dimensions"),
                        (idx.double(), "torch.float64, expected torch.int64 or torch.int32")):
        for call in (lambda: buffer.get_dispatch_layout(wrong, 8), lambda: buffer.low_latency_dispatch(x, wrong, 8, 8)):
            with pytest.raises(baton.InvalidArgument, match=f"topk_idx: {says}"):
                call()
    with pytest.raises(baton.InvalidArgument, match=r"x: \[256\], expected two dimensions"):
        buffer.low_latency_dispatch(x[0], idx, 8, 8)
    per_rank, _, per_expert, is_there, _ = buffer.get_dispatch_layout(idx, 8)
    with pytest.raises(baton.InvalidArgument, match=r"x: \[256\], expected two dimensions"):
        buffer.dispatch(x[0], num_tokens_per_rank=per_rank, is_token_in_rank=is_there, num_tokens_per_expert=per_expert)


def test_what_no_call_can_mean_is_named_before_anything_is_sent():
    buffer = deep_ep.Buffer(world=baton.World.local(1, device="cpu")[0])
    x, idx = torch.ones(4, 256).bfloat16(), torch.zeros(4, 2, dtype=torch.int64)
    per_rank, _, per_expert, is_there, _ = buffer.get_dispatch_layout(idx, 8)
    given = {"x": x, "num_tokens_per_rank": per_rank, "is_token_in_rank": is_there, "num_tokens_per_expert": per_expert}
    for changed, says in (({"num_worst_tokens": -3}, "num_worst_tokens: -3, expected 0 to"), ({"num_worst_tokens": 0.5}, "num_worst_tokens: 0.5, expected an integer"),
                          ({"expert_alignment": 0}, "expert_alignment: 0, expected 1 to"), ({"x": (x,)}, r"x: a tuple of 1, expected \(values, scales\)"),
                          ({"x": (x, 5)}, r"x\[1\]: int, expected a torch.Tensor"), ({"is_token_in_rank": is_there[:, 0]}, r"is_token_in_rank: \[4\], expected two"),
                          ({"is_token_in_rank": is_there.int()}, r"is_token_in_rank: \[4, 1\] of torch.int32, expected \[4, 1\] of torch.bool")):
        with pytest.raises(baton.InvalidArgument, match=says):
            buffer.dispatch(**{**given, **changed})
    for experts in (0, -8, "8"):
        with pytest.raises(baton.InvalidArgument, match=f"num_experts: {experts!r}, expected"):
            buffer.get_dispatch_layout(idx, experts)
    for sms in ("a", -2, 3):
        with pytest.raises(baton.InvalidArgument, match=f"new_num_sms: {sms!r}, expected"):
            deep_ep.Buffer.set_num_sms(sms)
    _, _, _, _, handle, _ = buffer.dispatch(**given)
    with pytest.raises(baton.InvalidArgument, match="x: NoneType, expected a torch.Tensor"):
        buffer.combine(None, handle)
    assert (buffer.combine(x, handle)[0] == x).all()
    with pytest.raises(baton.InvalidArgument):
        deep_ep.Config(20).get_nvl_buffer_size_hint(-14336, 8)


def test_ids_that_are_no_experts_count_nothing():
    idx = torch.tensor([[3, EXPERTS, 10 ** 9], [-1, -7, 0]])
    found = layout_of(idx, EXPERTS, 2)
    assert found.num_tokens_per_expert.sum() == 2 and found.is_token_in_rank.sum() == 2
