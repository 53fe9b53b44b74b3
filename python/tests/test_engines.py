"""Adapters for vLLM and SGLang on CPU ranks that are threads, between a router and experts of torch: with the engines themselves where they are
installed, and always with stand-ins that have their signatures."""
import importlib
import threading

import ml_dtypes
import numpy
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import baton
import baton.engines.sglang
import baton.engines.vllm
import engine_contracts as contracts
from ranks_of_deep_ep import from_fp8
from rounds import expected_of_scaled, round_data, tolerance
from threads import on_threads

RANKS, EXPERTS, TOP_K, HIDDEN, MOST = 2, 8, 3, 256, 16
LOCAL = EXPERTS // RANKS


@pytest.fixture(params=["stand_in", "installed"])
def vllm(request, monkeypatch):
    if request.param == "stand_in":
        contracts.stand_in_for_vllm(monkeypatch)
        return contracts
    try:
        kernel = importlib.import_module(contracts.VLLM)
        reduce = importlib.import_module("vllm.model_executor.layers.fused_moe.topk_weight_and_reduce")
    except Exception as error:  # vLLM without a GPU raises what it likes
        pytest.skip(f"vLLM is not here: {type(error).__name__}: {error}")
    for name in ("TopKWeightAndReduceDelegate", "TopKWeightAndReduceNoOP"):
        monkeypatch.setattr(kernel, name, getattr(reduce, name), raising=False)
    return kernel


@pytest.fixture(params=["stand_in", "installed"])
def sglang(request, monkeypatch):
    if request.param == "stand_in":
        contracts.stand_in_for_sglang(monkeypatch)
        return contracts
    try:
        formats = importlib.import_module(f"{contracts.SGLANG}.deepep")
        monkeypatch.setattr(formats, "StandardTopKOutput", importlib.import_module("sglang.srt.layers.moe.topk").StandardTopKOutput, raising=False)
        return formats
    except Exception as error:
        pytest.skip(f"SGLang is not here: {type(error).__name__}: {error}")


def as_torch(array):
    return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16) if array.dtype == ml_dtypes.bfloat16 else torch.from_numpy(array)


def data_of(num_tokens=11, seed=1, top_k=TOP_K):
    data = round_data(RANKS, EXPERTS, top_k, HIDDEN, num_tokens, seed)
    for idx in data.topk_idx:
        idx[0, 0] = -1
    return data


def given(data, rank):
    return [as_torch(array) for array in data.given(rank)]


def on_ranks(work, data, size=RANKS, **more):
    """work(ep, rank) on a thread a rank; raises what one raised."""
    def run(rank, gather):
        sizes = data.sizes(num_max_tokens_per_rank=MOST, **more)
        with baton.ExpertParallel(baton.World.from_all_gather(gather, rank, size, "cpu"), **sizes) as ep:
            return work(ep, rank)
    torch.set_num_threads(1)
    results = on_threads(size, run)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def scaled(rows, experts):
    """Expert e multiplies by e + 1."""
    return (rows.float() * (experts + 1).unsqueeze(-1)).bfloat16()


def lost_in_fp8(data, rank):
    """e4m3 has 4 bits, and nothing below 2^-9 of a scale, which is that of 128 values; bf16, as which tests read it back, 8."""
    x = numpy.abs(data.tokens[rank].astype(numpy.float64))
    scales = numpy.repeat(x.reshape(len(x), -1, 128).max(axis=2) / 448, 128, axis=1)
    factor = sum((data.topk_idx[rank][:, k:k + 1] + 1.0) * data.topk_weights[rank][:, k:k + 1] for k in range(data.top_k))
    return factor * (x * (2.0 ** -4 + 2.0 ** -7) + scales * 2.0 ** -9)


def assert_right(data, rank, out, format="bf16"):
    """To within what bf16 loses on the way, and once more as the result."""
    wanted, bound = expected_of_scaled(data, rank), tolerance(data, rank) + (lost_in_fp8(data, rank) if format == "fp8" else 0)
    bound = bound + 2.0 ** -8 * (numpy.abs(wanted) + bound)
    difference = numpy.abs(out.double().numpy() - wanted)
    assert (difference <= bound).all(), (difference - bound).max()


def experts_of_rows(rows, ids, weights, ep):
    """As vLLM's standard experts are: expert_map says which ids are this rank's."""
    expert_map = torch.full((EXPERTS,), -1)
    expert_map[list(ep.local_experts)] = torch.arange(len(ep.local_experts))
    is_here = (ids[:, 0] >= 0) & (expert_map[ids[:, 0].long()] >= 0)
    return torch.where(is_here.unsqueeze(1), scaled(rows, ids[:, 0]), torch.nan), is_here


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "captured"])
@pytest.mark.parametrize("adds_up", [True, False], ids=["adds_up", "delegates"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "at_once"])
def test_rows_go_through_the_standard_format_of_vllm(vllm, waits, adds_up, is_async):
    data = data_of()

    def work(ep, rank):
        adapter = baton.engines.vllm.prepare_and_finalize(ep, waits=waits)
        assert isinstance(adapter, vllm.FusedMoEPrepareAndFinalizeModular)
        assert adapter.activation_format == vllm.FusedMoEActivationFormat.Standard
        assert (adapter.num_dispatchers(), adapter.max_num_tokens_per_rank(), adapter.output_is_reduced()) == (RANKS, MOST, True)
        tokens, ids, weights = given(data, rank)
        arguments = tokens, weights, ids.to(adapter.topk_indices_dtype()), EXPERTS, None, False, contracts.quantised()
        if is_async:
            hook, receiver = adapter.prepare_async(*arguments, defer_input_quant=False)
            hook()
            rows, scales, meta, row_ids, row_weights = receiver()
        else:
            rows, scales, meta, row_ids, row_weights = adapter.prepare(*arguments, defer_input_quant=False)
        assert scales is None and row_ids.shape == row_weights.shape == (rows.shape[0], 1) and (row_weights == 1).all()
        answers, is_here = experts_of_rows(rows, row_ids, row_weights, ep)
        assert meta.expert_num_tokens.tolist() == [int((row_ids[is_here] == e).sum()) for e in ep.local_experts]
        assert not waits or (is_here.all() and meta.expert_num_tokens_cpu.tolist() == meta.expert_num_tokens.tolist())
        out = torch.empty_like(tokens)
        impl = vllm.TopKWeightAndReduceNoOP() if adds_up else vllm.TopKWeightAndReduceDelegate()
        arguments = out, answers if adds_up else answers.unsqueeze(1), row_weights, row_ids, False, impl
        if is_async:
            for each in adapter.finalize_async(*arguments):
                each()
        else:
            adapter.finalize(*arguments)
        assert_right(data, rank, out)
    on_ranks(work, data)


@pytest.mark.parametrize("num_tokens", [0, 11])
def test_rows_go_through_the_batched_format_of_vllm(vllm, num_tokens):
    data = data_of(11)
    for each in (data.tokens, data.topk_idx, data.topk_weights):
        each[1] = each[1][:num_tokens]  # a rank with nothing to say takes part

    def work(ep, rank):
        adapter = baton.engines.vllm.prepare_and_finalize(ep, activation_format="batched_experts")
        assert adapter.activation_format == vllm.FusedMoEActivationFormat.BatchedExperts
        tokens, ids, weights = given(data, rank)
        rows, scales, meta, row_ids, row_weights = adapter.prepare(tokens, weights, ids, EXPERTS, None, False, contracts.quantised(), False)
        assert rows.shape == (LOCAL, RANKS * MOST, HIDDEN) and scales is row_ids is row_weights is None
        answers = torch.full_like(rows, torch.nan)
        for local, count in enumerate(meta.expert_num_tokens.tolist()):
            answers[local, :count] = scaled(rows[local, :count], torch.full((count,), ep.local_experts[local]))
        out = torch.empty_like(tokens)
        with pytest.raises(baton.Unsupported, match="TopKWeightAndReduceNoOP"):
            adapter.finalize(out, answers, weights, ids, False, vllm.TopKWeightAndReduceNoOP())
        adapter.finalize(out, answers, weights, ids, False, vllm.TopKWeightAndReduceDelegate())
        assert_right(data, rank, out)
    on_ranks(work, data)


@pytest.mark.parametrize("activation_format", ["standard", "batched_experts"])
def test_blocks_of_fp8_travel_with_their_scales(vllm, activation_format):
    data = data_of()

    def work(ep, rank):
        adapter = baton.engines.vllm.prepare_and_finalize(ep, activation_format=activation_format)
        tokens, ids, weights = given(data, rank)
        arguments = tokens, weights, ids, EXPERTS, None, False
        with pytest.raises(baton.Unsupported, match="block_shape None"):
            adapter.prepare(*arguments, contracts.quantised(torch.float8_e4m3fn), False)
        blocks = contracts.quantised(torch.float8_e4m3fn, [128, 128])
        with pytest.raises(baton.Unsupported, match="unquantised input"):
            adapter.prepare(*arguments, blocks, True)
        rows, scales, meta, row_ids, row_weights = adapter.prepare(*arguments, blocks, False)
        assert rows.dtype == torch.float8_e4m3fn and scales.shape == (*rows.shape[:-1], HIDDEN // 128)
        values = from_fp8(rows.reshape(-1, HIDDEN), scales.reshape(-1, HIDDEN // 128)).view(rows.shape)
        if activation_format == "standard":
            answers = scaled(values, row_ids[:, 0])
        else:
            answers = torch.stack([scaled(values[i], torch.full((RANKS * MOST,), e)) for i, e in enumerate(ep.local_experts)])
        out = torch.empty_like(tokens)
        adapter.finalize(out, answers, weights, ids, False, vllm.TopKWeightAndReduceDelegate())
        assert_right(data, rank, out, "fp8")
    on_ranks(work, data, format="fp8")


def test_what_travelled_in_bf16_is_quantised_where_it_arrives(monkeypatch):
    contracts.stand_in_for_vllm(monkeypatch)
    asked = []

    def moe_kernel_quantize_input(rows, scale, quant_dtype, per_act_token_quant, block_shape):
        asked.append((scale, quant_dtype, per_act_token_quant, block_shape))
        return rows * 2, torch.full((rows.shape[0], 1), 0.5)

    name = "vllm.model_executor.layers.fused_moe.utils"
    monkeypatch.setitem(__import__("sys").modules, name, contracts.module(name, moe_kernel_quantize_input=moe_kernel_quantize_input))
    data = data_of()

    def work(ep, rank):
        tokens, ids, weights = given(data, rank)
        config = contracts.quantised("int8", None, True, "its scale", "not this")
        for activation_format in ("standard", "batched_experts"):
            adapter = baton.engines.vllm.prepare_and_finalize(ep, activation_format=activation_format)
            rows, scales, *_ = adapter.prepare(tokens, weights, ids, EXPERTS, None, False, config, False)
            assert scales.shape[:-1] == rows.shape[:-1] and (scales == 0.5).all()
            ep.combine(torch.zeros((ep._core.room[0], HIDDEN), dtype=torch.bfloat16))
            left, none, *_ = adapter.prepare(tokens, weights, ids, EXPERTS, None, False, config, True)
            assert none is None
            ep.combine(torch.zeros((ep._core.room[0], HIDDEN), dtype=torch.bfloat16))
    on_ranks(work, data)
    assert len(asked) == 4 and set(asked) == {("its scale", "int8", True, None)}


def test_weights_may_be_multiplied_into_what_experts_get(vllm):
    data = data_of(top_k=1)
    for idx in data.topk_idx:
        idx[0, 0] = 3

    def work(ep, rank):
        adapter = baton.engines.vllm.prepare_and_finalize(ep)
        tokens, ids, weights = given(data, rank)
        rows, _, _, row_ids, row_weights = adapter.prepare(tokens, weights, ids, EXPERTS, None, True, contracts.quantised(), False)
        out = torch.empty(tokens.shape)
        adapter.finalize(out, scaled(rows, row_ids[:, 0]), row_weights, row_ids, True, vllm.TopKWeightAndReduceNoOP())
        wanted = scaled(tokens * weights.bfloat16(), ids[:, 0]).float()
        assert torch.equal(out, wanted)
        with pytest.raises(baton.Unsupported, match="3 experts a token, expected 1"):
            adapter.prepare(tokens, weights.expand(-1, 3), ids.expand(-1, 3), EXPERTS, None, True, contracts.quantised(), False)
    on_ranks(work, data)


def test_micro_batches_have_a_slot_each(monkeypatch):
    own = threading.local()
    contracts.stand_in_for_vllm(monkeypatch, lambda: own.micro_batch)
    batches = data_of(seed=1), data_of(seed=2)

    def work(ep, rank):
        adapter, under_way = baton.engines.vllm.prepare_and_finalize(ep), []
        for own.micro_batch, data in enumerate(batches):
            tokens, ids, weights = given(data, rank)
            under_way.append((adapter.prepare_async(tokens, weights, ids, EXPERTS, None, False, contracts.quantised()), torch.empty_like(tokens)))
        for own.micro_batch, ((hook, receiver), out) in enumerate(under_way):
            hook()
            rows, _, _, row_ids, row_weights = receiver()
            under_way[own.micro_batch] = adapter.finalize_async(out, scaled(rows, row_ids[:, 0]), row_weights, row_ids, False, None), out
        for data, ((hook, receiver), out) in zip(batches, under_way):
            hook(), receiver()
            assert_right(data, rank, out)
    on_ranks(work, batches[0], num_slots=2)


@pytest.mark.parametrize("mode", ["normal", "low_latency"])
@pytest.mark.parametrize("halves", [True, False], ids=["halves", "whole"])
@pytest.mark.parametrize("format", ["bf16", "fp8"])
def test_rows_go_through_dispatchers_of_sglang(sglang, mode, halves, format):
    data = data_of()

    def work(ep, rank):
        alignment = 16 if halves else 1
        dispatcher = baton.engines.sglang.dispatcher(ep, mode=mode, expert_alignment=alignment)
        tokens, ids, weights = given(data, rank)
        routing = sglang.StandardTopKOutput(weights, ids.int(), None)
        if halves:
            assert dispatcher.dispatch_a(tokens, routing) is None
            got = dispatcher.dispatch_b()
        else:
            got = dispatcher.dispatch(hidden_states=tokens, topk_output=routing)
        assert got.format.value == {"normal": "deepep_normal", "low_latency": "deepep_ll"}[mode]
        rows, scales = got.hidden_states, got.hidden_states_scale
        assert (scales is None) == (format == "bf16")
        values = rows if scales is None else from_fp8(rows.reshape(-1, HIDDEN), scales.reshape(-1, HIDDEN // 128)).view(rows.shape)
        if mode == "normal":
            assert got.topk_ids.shape == got.topk_weights.shape == (rows.shape[0], 1) and (got.topk_weights == 1).all()
            counts = [int((got.topk_ids == e).sum()) for e in range(LOCAL)]
            assert got.num_recv_tokens_per_expert == [-(-n // alignment) * alignment for n in counts] and sum(counts) <= len(rows)
            back = sglang.DeepEPNormalCombineInput(scaled(values, got.topk_ids[:, 0] + LOCAL * rank), got.topk_ids, got.topk_weights)
        else:
            assert rows.shape == (LOCAL, RANKS * MOST, HIDDEN) and torch.equal(got.topk_ids, ids.int()) and got.expected_m >= 1
            assert int(got.masked_m.sum()) > 0
            answers = torch.stack([scaled(values[i], torch.full((RANKS * MOST,), e)) for i, e in enumerate(ep.local_experts)])
            back = sglang.DeepEPLLCombineInput(answers, got.topk_ids, got.topk_weights)
        if halves:
            dispatcher.combine_a(back)
            return dispatcher.combine_b()
        return dispatcher.combine(combine_input=back)
    for rank, out in enumerate(on_ranks(work, data, format=format)):
        assert out.dtype == torch.bfloat16
        assert_right(data, rank, out, format)


def test_the_interface_is_the_one_that_was_read(vllm):
    base = vllm.FusedMoEPrepareAndFinalizeModular
    for name, expected in contracts.SIGNATURES.items():
        assert contracts.parameters(getattr(baton.engines.vllm.PrepareAndFinalize, name)) == expected
        if vllm is not contracts:
            assert contracts.parameters(getattr(base, name)) == expected, name


def test_what_an_engine_cannot_read_is_refused():
    data = data_of()
    world = baton.World.from_all_gather(None, 0, 1, "cpu")
    for more, says in (({"layout": "per_expert"}, "layout: 'per_expert'"), ({"rows": "by_token"}, "rows: 'by_token'"),
                       ({"format": "mxfp8"}, "format: 'mxfp8', expected 'bf16' or 'fp8'")):
        with baton.ExpertParallel(world, **data.sizes(**more)) as ep:
            for adapter in (baton.engines.vllm.prepare_and_finalize, baton.engines.sglang.dispatcher):
                with pytest.raises(baton.Unsupported, match=says):
                    adapter(ep)


@pytest.mark.parametrize("engine,make", [("vllm", lambda ep: baton.engines.vllm.prepare_and_finalize(ep)),
                                         ("sglang", lambda ep: baton.engines.sglang.dispatcher(ep))])
def test_an_engine_that_is_not_there_is_named(engine, make):
    try:
        importlib.import_module(engine)
        pytest.skip(f"{engine} is here")
    except ImportError:
        pass
    with baton.ExpertParallel(baton.World.from_all_gather(None, 0, 1, "cpu"), **data_of().sizes()) as ep:
        with pytest.raises(ModuleNotFoundError, match=engine):
            make(ep)


def test_wrong_names_and_shapes_are_told(monkeypatch):
    contracts.stand_in_for_vllm(monkeypatch)
    contracts.stand_in_for_sglang(monkeypatch)
    data = data_of()
    data.topk_idx = [numpy.maximum(idx, 0) for idx in data.topk_idx]
    with baton.ExpertParallel(baton.World.from_all_gather(None, 0, 1, "cpu"), **data.sizes()) as ep:
        with pytest.raises(baton.InvalidArgument, match="activation_format: 'flat', expected 'standard' or 'batched_experts'"):
            baton.engines.vllm.prepare_and_finalize(ep, activation_format="flat")
        with pytest.raises(baton.InvalidArgument, match="mode: 'auto', expected 'normal' or 'low_latency'"):
            baton.engines.sglang.dispatcher(ep, mode="auto")
        adapter = baton.engines.vllm.prepare_and_finalize(ep)
        assert "Standard" in repr(adapter) and "8 experts" in repr(adapter)
        tokens, ids, weights = given(data, 0)
        with pytest.raises(baton.InvalidArgument, match="num_experts: 9, expected 8"):
            adapter.prepare(tokens, weights, ids, 9, None, False, contracts.quantised(), False)
        rows, *_ = adapter.prepare(tokens, weights, ids, EXPERTS, None, False, contracts.quantised(), False)
        with pytest.raises(baton.InvalidArgument, match=rf"experts' output: found \[{len(rows)}, 3, 256\], expected \[{len(rows)}, hidden\]"):
            adapter.finalize(tokens, torch.zeros(len(rows), 3, HIDDEN), weights, ids, False, None)
