"""Arrays of torch, cupy and jax, on CPU ranks and on GPUs, where they are installed."""
import numpy
import pytest

import baton
from rounds import BF16, assert_scaled, round_data
from test_attention import batch


def gpus():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    if "CUDA" not in baton.build_info() or not torch.cuda.is_available():
        pytest.skip("no GPU, or a wheel without its kernels")
    return torch


class of_torch:
    def __init__(self, device):
        self.torch, self.device = pytest.importorskip("torch", exc_type=ImportError), device

    def array(self, values, gpu=0):
        device = "cpu" if self.device == "cpu" else f"cuda:{gpu}"
        if values.dtype == BF16:
            return self.torch.from_numpy(values.view(numpy.int16)).view(self.torch.bfloat16).to(device)
        return self.torch.from_numpy(values).to(device)

    def numpy(self, array):
        if array.dtype == self.torch.bfloat16:
            return array.view(self.torch.int16).cpu().numpy().view(BF16)
        return array.cpu().numpy()


class of_cupy:
    def __init__(self, _):
        self.cupy = pytest.importorskip("cupy")

    def array(self, values, gpu=0):
        with self.cupy.cuda.Device(gpu):
            bits = self.cupy.asarray(values.view(numpy.uint16) if values.dtype == BF16 else values)
            return bits.view(BF16) if values.dtype == BF16 else bits

    def numpy(self, array):
        bits = array.view(numpy.uint16) if array.dtype == BF16 else array
        return bits.get().view(BF16) if array.dtype == BF16 else bits.get()


class of_jax:
    def __init__(self, device):
        self.jax = pytest.importorskip("jax")
        self.devices = self.jax.devices(device)

    def array(self, values, gpu=0):
        return self.jax.device_put(values.astype(numpy.int32) if values.dtype == numpy.int64 else values, self.devices[gpu])

    def numpy(self, array):
        return numpy.asarray(array)


def multiplied(framework, recv, gpu=0):
    """Expert e multiplies by e + 1, on the host."""
    tokens, out = framework.numpy(recv.tokens), numpy.zeros((recv.max_rows, recv.hidden), BF16)
    ids, firsts, counts = (framework.numpy(a) for a in (recv.expert_ids, recv.row_offsets, recv.row_counts))
    for expert, first, count in zip(ids, firsts, counts):
        rows = slice(int(first), int(first + count))
        out[rows] = (tokens[rows].astype(numpy.float32) * numpy.float32(expert + 1)).astype(BF16)
    return framework.array(out, gpu)


def run_rounds(framework, device, num_ranks=2):
    data = round_data(num_ranks=num_ranks)
    ep = baton.ExpertParallel.create_all(baton.World.local(num_ranks, device=device), **data.sizes())
    gpus_of_ranks = [0 if device == "cpu" else its.world.device_index for its in ep]
    for _ in range(3):
        given = [list(map(framework.array, arrays, gpus_of_ranks)) for arrays in (data.tokens, data.topk_idx, data.topk_weights)]
        recv = baton.dispatch_all(ep, *given)
        answers = [multiplied(framework, rows, gpu) for rows, gpu in zip(recv, gpus_of_ranks)]
        outs = baton.combine_all(ep, answers)
        for rank, its in enumerate(outs):
            ep[rank].world.synchronize()
            assert_scaled(data, rank, framework.numpy(its))
    return recv, outs


def test_torch_on_cpu_ranks():
    framework = of_torch("cpu")
    recv, outs = run_rounds(framework, "cpu")
    assert recv[0].tokens.dtype == framework.torch.bfloat16 and outs[0].dtype == framework.torch.float32
    assert recv[0].tokens.data_ptr() == recv[0]._view_tokens(True).ctypes.data


def test_torch_s_parameters_and_views_are_taken_as_they_are():
    torch = of_torch("cpu").torch
    a = torch.nn.Parameter(torch.randn(6, 64).bfloat16())
    b = torch.randn(9, 64).bfloat16()[1:]  # begins elsewhere than its memory
    assert torch.allclose(baton.gemm(a, b).float(), (a.double() @ b.double().T).float(), atol=0.2)
    with pytest.raises(baton.InvalidArgument, match=r"a: expected .*; found bfloat16 \[64, 6\] on cpu, not contiguous"):
        baton.gemm(a.T, b)
    with pytest.raises(baton.InvalidArgument, match=r"a: expected .*; found bool \[6, 64\] on cpu"):
        baton.gemm(a > 0, b, out=torch.zeros(6, 8))


def test_views_of_rounds_in_the_same_place_are_the_same_tensors():
    framework = of_torch("cpu")
    data = round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **data.sizes())
    given, seen = [framework.array(array) for array in data.given(0)], []
    for _ in range(4):
        recv = ep.dispatch(*given)
        seen.append(recv.tokens)
        ep.combine(recv.tokens)
    assert len({id(view) for view in seen}) <= 2


def test_views_of_a_round_in_inference_mode_are_taken_outside_of_it():
    framework = of_torch("cpu")
    torch, data = framework.torch, round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **data.sizes())
    given = [framework.array(array) for array in data.given(0)]
    with torch.inference_mode():
        recv = ep.dispatch(*given)
        ep.combine(recv.tokens)
    recv = ep.dispatch(*given)
    assert not recv.tokens.is_inference()
    recv.tokens.mul_(2)
    assert (recv.tokens @ torch.ones(256, 8).bfloat16().requires_grad_()).requires_grad
    ep.combine(recv.tokens)


def test_autograd_does_not_follow_memory_from_round_to_round():
    framework = of_torch("cpu")
    torch, data = framework.torch, round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **data.sizes())
    given, scale = [framework.array(array) for array in data.given(0)], torch.ones(256).bfloat16().requires_grad_()
    for _ in range(3):
        recv = ep.dispatch(*given)
        assert recv.tokens.grad_fn is None and not recv.tokens.requires_grad
        recv.tokens.mul_(scale)
        ep.combine(recv.tokens)


def attend(framework, head_dim):
    """Of two sequences, as an array of the framework, against float64."""
    data = batch([40, 3], [300, 70], heads=4, kv_heads=2, head_dim=head_dim)
    given = [framework.array(array) for array in data.given()]
    for options in ({"causal": True}, {"window": (64, 0), "softcap": 30.0}, {"causal": True, "sinks": data.sinks}):
        on_device = {**options, "sinks": framework.array(data.sinks)} if "sinks" in options else options
        out, lse = baton.attention.varlen(*given, 40, 300, return_lse=True, **on_device)
        yield data, options, out, lse


def test_attention_of_torch_s_tensors_on_the_cpu():
    framework = of_torch("cpu")
    for data, options, out, lse in attend(framework, 64):
        data.assert_close(framework.numpy(out), lse.numpy(), **options)


@pytest.mark.parametrize("head_dim", [256, 512])
def test_attention_of_torch_s_tensors_on_gpus(head_dim):
    torch, framework = gpus(), of_torch("cuda")
    for data, options, out, lse in attend(framework, head_dim):
        torch.cuda.synchronize()
        assert out.is_cuda and lse.dtype == torch.float32
        data.assert_close(framework.numpy(out), lse.cpu().numpy(), weights_are_rounded=True, **options)


def test_attention_is_captured_and_replayed():
    torch, framework = gpus(), of_torch("cuda")
    data = batch([40, 3], [300, 70], heads=4, kv_heads=2, head_dim=256)
    given = [framework.array(array) for array in data.given()]
    first = baton.attention.varlen(*given, 40, 300, causal=True)
    again, graph = torch.zeros_like(first), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        baton.attention.varlen(*given, 40, 300, causal=True, out=again)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(again, first)


def test_what_is_exported_is_an_array_to_jax():
    from baton._arrays import Exported

    class on_cpu(Exported):  # memory of a GPU is not to be had everywhere
        def __dlpack_device__(self):
            return 1, 0

    jax, values = of_jax("cpu").jax, numpy.arange(64, dtype=numpy.float32).reshape(4, 16)
    assert Exported(values.__dlpack__, 3).__dlpack_device__() == (2, 3)
    for _ in range(2):  # a capsule is taken once
        assert (numpy.asarray(jax.dlpack.from_dlpack(on_cpu(values.__dlpack__, 0))) == values).all()


def test_jax_on_cpu_ranks():
    run_rounds(of_jax("cpu"), "cpu")


def test_torch_on_gpus():
    framework = of_torch("cuda")
    gpus()
    recv, outs = run_rounds(framework, "cuda")
    assert framework.torch.cuda.current_device() == 0  # whatever GPUs the ranks are on
    assert recv[0].tokens.is_cuda and outs[0].is_cuda and recv[0].tokens.dtype == framework.torch.bfloat16


def test_cupy_on_gpus():
    gpus()
    framework = of_cupy("cuda")
    recv, outs = run_rounds(framework, "cuda")
    assert recv[0].tokens.dtype == BF16 and outs[0].dtype == numpy.float32


def test_jax_on_gpus_is_given_memory_for_results():
    torch = gpus()
    framework = of_jax("cuda")
    with pytest.raises(baton.InvalidArgument, match="of arrays of jax baton makes none; give out="):
        run_rounds(framework, "cuda")
    data = round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.from_all_gather(None, 0, 1, "cuda"), **data.sizes())
    recv = ep.dispatch(*(framework.array(array) for array in data.given(0)))
    out = torch.zeros((16, 256), device="cuda:0")  # jax leaves another one current where it has given memory of several
    ep.combine(multiplied(framework, recv), out=out)
    ep.world.synchronize()
    assert_scaled(data, 0, out.cpu().numpy())


def test_memory_of_the_host_is_refused_by_ranks_on_gpus():
    gpus()
    data = round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.local(1, device="cuda")[0], **data.sizes())
    with pytest.raises(baton.InvalidArgument, match=r"tokens: expected bfloat16 \[any, 256\] on cuda:0, contiguous; found .* on cpu"):
        ep.dispatch_async(*data.given(0))


def test_the_quick_way_on_a_gpu_refuses_what_the_other_does():
    torch = gpus()
    ep = baton.ExpertParallel(baton.World.local(1, device="cuda")[0], num_experts=2, top_k=1, hidden=128, num_max_tokens_per_rank=4)
    tokens = torch.ones(4, 128, device="cuda", dtype=torch.bfloat16)
    ids, weights = torch.zeros(4, 1, device="cuda", dtype=torch.int32), torch.ones(4, 1, device="cuda")

    def by_the_method(name, *given, **more):
        return getattr(baton.ExpertParallel, name).__wrapped__(ep, *given, **more)

    first = by_the_method("dispatch", tokens, ids, weights)
    out = torch.zeros(4, 128, device="cuda")
    assert by_the_method("combine", first.tokens, out=out) is out
    for _ in range(3):
        recv = ep.dispatch(tokens, ids, weights)
        assert type(recv) is baton.Received and recv.tokens is first.tokens and repr(recv) == repr(first) and recv.load() == first.load()
        out.zero_()
        assert ep.combine(recv.tokens, out=out) is out and bool((out == 1).all())
        out.zero_()
        torch.cuda.synchronize()  # streams that torch knows nothing of do not wait for zeros
        for stream in (torch.cuda.Stream(), torch.cuda.current_stream(), torch.cuda.Stream().cuda_stream):
            recv = ep.dispatch(topk_weights=weights, tokens=tokens, topk_idx=ids, slot=0, num_sms=0, stream=stream)
            assert recv.tokens is first.tokens and ep.combine(recv.tokens, out=out, num_rows=-1, slot=0, stream=stream) is out
            torch.cuda.synchronize()
            assert bool((out == 1).all())
            out.zero_()
            torch.cuda.synchronize()
        ep.dispatch_async(tokens, ids, weights, stream=None)
        ep.combine_async(expert_output=ep.dispatch_wait(slot=0).tokens)
        assert bool((ep.combine_wait() == 1).all()) and bool((ep.combine(ep.dispatch(tokens, ids).tokens) == 1).all())
    for wrong in ((tokens.float(), ids, weights), (tokens, ids[:2], weights), (tokens.cpu(), ids, weights), (tokens, ids, weights.t()), (tokens, None)):
        with pytest.raises(baton.InvalidArgument) as quick:
            ep.dispatch(*wrong)
        with pytest.raises(baton.InvalidArgument) as other:
            by_the_method("dispatch", *wrong)
        assert str(quick.value) == str(other.value)
    with pytest.raises(baton.InvalidArgument, match="combine"):  # out of order
        ep.combine(first.tokens, out=out)
    ep.dispatch(tokens, ids)
    for wrong in (out.half(), out.cpu(), out[:2]):
        with pytest.raises(baton.InvalidArgument, match="out: expected"):
            ep.combine(first.tokens, out=wrong)
    first.tokens.unsqueeze_(0)  # in place: the next round's view has its own shape again
    assert first.tokens.dim() == 2
    ep.combine(first.tokens, out=out)
    ep.close()
    with pytest.raises(baton.InvalidArgument, match="closed"):
        ep.dispatch(tokens, ids, weights)
    with pytest.raises(baton.InvalidArgument, match="closed"):
        ep.combine(first.tokens, out=out)


def test_a_round_of_torch_tensors_is_captured_and_replayed():
    torch = gpus()
    data = round_data(num_ranks=1, num_experts=8)
    ep = baton.ExpertParallel(baton.World.local(1, device="cuda")[0], **data.sizes())
    given = [of_torch("cuda").array(array) for array in data.given(0)]
    out = torch.zeros((16, 256), device="cuda")

    def layer():
        recv = ep.dispatch(*given)
        ep.combine(recv.tokens, out=out)

    layer()
    torch.cuda.synchronize()
    first, graph = out.clone(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer()
    out.zero_()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, first)


def test_products_of_torch_tensors_on_gpus():
    torch = gpus()
    a, b = torch.randn(37, 64, device="cuda").bfloat16(), torch.randn(48, 64, device="cuda").bfloat16()
    c = baton.gemm(a, b, out=torch.empty(37, 48, device="cuda"))
    exact = a.double() @ b.double().T
    allowed = a.double().abs() @ b.double().abs().T * 72 * 2.0 ** -23
    assert ((c.double() - exact).abs() <= allowed).all()


def busy(torch, stream):
    """Keeps `stream` from what it is given next for some milliseconds."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)


def test_results_on_another_stream_become_zeros_there():
    torch = gpus()
    other, counts = torch.cuda.Stream(), torch.tensor([8], dtype=torch.int32, device="cuda")
    a, b = torch.randn(16, 64, device="cuda").bfloat16(), torch.randn(1, 64, 64, device="cuda").bfloat16()
    expected = baton.grouped_gemm(a, b, counts)
    torch.cuda.synchronize()
    busy(torch, torch.cuda.current_stream())
    made = baton.grouped_gemm(a, b, counts, stream=other)
    torch.cuda.synchronize()
    assert torch.equal(made, expected)
    busy(torch, other)
    made = baton.grouped_gemm(a, b, counts, stream=other.cuda_stream)
    torch.cuda.synchronize()
    assert torch.equal(made, expected) and expected[:8].abs().max() > 0 and (expected[8:] == 0).all()


def test_scratch_of_another_stream_is_not_used_again_before_its_time():
    torch, framework = gpus(), of_torch("cuda")
    data = round_data(num_ranks=1, num_experts=8, hidden=256)
    ep = baton.ExpertParallel(baton.World.local(1, device="cuda")[0], **data.sizes())
    weights = [torch.randn(8, 256, 256, device="cuda").bfloat16() / 16 for _ in range(3)]
    recv = ep.dispatch(*(framework.array(array) for array in data.given(0)))
    rows = int(recv.row_offsets[-1])
    expected = baton.expert_mlp(recv, *weights)[:rows]
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    other = torch.cuda.Stream()
    busy(torch, other)
    made = baton.expert_mlp(recv, *weights, stream=other)
    spoilt = [torch.full((size,), 0xff, dtype=torch.uint8, device="cuda") for size in (2 ** n for n in range(9, 25)) for _ in range(4)]
    torch.cuda.synchronize()
    assert torch.equal(made[:rows], expected) and len(spoilt) > 0
