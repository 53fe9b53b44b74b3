"""A layer of vLLM's own: its FusedMoEKernel between the adapter and experts of its own, on CPU ranks that are threads, where vLLM is installed."""
import dataclasses
import importlib

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import baton.engines.vllm
from test_engines import EXPERTS, HIDDEN, LOCAL, MOST, RANKS, TOP_K, data_of, given, on_ranks

INNER = 128
LAYERS = "vllm.model_executor.layers.fused_moe"


@pytest.fixture(scope="module")
def layers():
    """vLLM's modules, by name."""
    names = ("modular_kernel", "config", "activation", "topk_weight_and_reduce", "experts.fused_batched_moe")
    try:
        found = {name: importlib.import_module(f"{LAYERS}.{name}") for name in names}
        found["modular_kernel"].current_platform = importlib.import_module("vllm.platforms.cpu").CpuPlatform()  # its wheel is for GPUs
        found["experts.fused_batched_moe"]._is_capturing_or_compiling = lambda: False  # which asks a GPU
        return found
    except Exception as error:  # vLLM without a GPU raises what it likes
        pytest.skip(f"vLLM is not here: {type(error).__name__}: {error}")


def weights_of(rank):
    """gate_up and down of a rank's experts, as vLLM has them."""
    random = torch.Generator().manual_seed(100 + rank)
    return (torch.randn((LOCAL, 2 * INNER, HIDDEN), generator=random).bfloat16() * HIDDEN ** -0.5,
            torch.randn((LOCAL, HIDDEN, INNER), generator=random).bfloat16() * INNER ** -0.5)


def silu_and_mul(activation, output, values):
    """vLLM's operator of this name is for GPUs."""
    gate, up = values.float().chunk(2, dim=-1)
    output.copy_(torch.nn.functional.silu(gate) * up)


def configs_of(layers, rank):
    config = layers["config"]
    alone = config.FusedMoEParallelConfig.make_no_parallel()
    spread = dataclasses.replace(alone, dp_size=RANKS, dp_rank=rank, ep_size=RANKS, ep_rank=rank, use_ep=True)
    return config.FusedMoEConfig(num_experts=EXPERTS, experts_per_token=TOP_K, hidden_dim=HIDDEN, intermediate_size=INNER, num_local_experts=LOCAL,
                                 num_logical_experts=EXPERTS, activation=layers["activation"].MoEActivation.SILU, device="cpu",
                                 routing_method=config.RoutingMethodType.Renormalize, moe_parallel_config=spread, in_dtype=torch.bfloat16,
                                 max_num_tokens=MOST), config.FUSED_MOE_UNQUANTIZED_CONFIG


def batched_experts(layers, rank):
    """vLLM's reference of experts for [experts, capacity, hidden]."""
    class Experts(layers["experts.fused_batched_moe"].NaiveBatchedExperts):
        def activation(self, activation, output, values, **_):
            silu_and_mul(activation, output, values)

    moe, quant = configs_of(layers, rank)
    return Experts(moe, quant, max_num_tokens=MOST, num_dispatchers=RANKS)


def standard_experts(layers, rank):
    """Experts of rows, as vLLM's kernel asks for them: those for CPUs are operators of its build for CPUs."""
    kernel = layers["modular_kernel"]

    class Experts(kernel.FusedMoEExpertsModular):
        @staticmethod
        def activation_format():
            return kernel.FusedMoEActivationFormat.Standard

        def finalize_weight_and_reduce_impl(self):
            return layers["topk_weight_and_reduce"].TopKWeightAndReduceNoOP()

        def workspace_shapes(self, rows, inner, hidden, *_):
            return (rows, hidden), (rows, inner), (rows, hidden)

        def apply(self, output, hidden_states, w1, w2, topk_weights, topk_ids, activation, expert_map, **_):
            here = topk_ids[:, 0] if expert_map is None else expert_map[topk_ids[:, 0]]
            for row, expert in enumerate(here.tolist()):
                if expert >= 0:
                    inner = torch.empty((1, INNER), dtype=torch.bfloat16)
                    silu_and_mul(activation, inner, hidden_states[row:row + 1] @ w1[expert].T)
                    output[row] = (inner @ w2[expert].T)[0] * topk_weights[row, 0]

    for name in Experts.__abstractmethods__:  # what else its kernel may ask
        setattr(Experts, name, staticmethod(lambda *_: True))
    Experts.__abstractmethods__ = frozenset()
    return Experts(*configs_of(layers, rank))


def expected(data, rank):
    """The layer in double, and how far bf16 on the way may take the result from it."""
    x, idx, topk_weights = given(data, rank)
    gate_up, down = (torch.cat(both) for both in zip(*(weights_of(its) for its in range(RANKS))))
    out, size = torch.zeros((len(x), HIDDEN), dtype=torch.float64), torch.zeros((len(x), HIDDEN), dtype=torch.float64)
    for token in range(len(x)):
        for k in range(TOP_K):
            if (expert := int(idx[token, k])) >= 0:
                gate, up = (gate_up[expert].double() @ x[token].double()).chunk(2)
                inner = torch.nn.functional.silu(gate) * up
                share = topk_weights[token, k].double()
                out[token] += share * (down[expert].double() @ inner)
                size[token] += share.abs() * (down[expert].double().abs() @ inner.abs())
    return out, size


@pytest.mark.parametrize("activation_format", ["batched_experts", "standard"])
def test_a_layer_of_vllm_runs_through_the_adapter(layers, activation_format):
    data = data_of()

    def work(ep, rank):
        experts = {"batched_experts": batched_experts, "standard": standard_experts}[activation_format](layers, rank)
        layer = layers["modular_kernel"].FusedMoEKernel(baton.engines.vllm.prepare_and_finalize(ep, activation_format=activation_format), experts)
        x, idx, topk_weights = given(data, rank)
        expert_map = torch.full((EXPERTS,), -1, dtype=torch.int64)
        expert_map[list(ep.local_experts)] = torch.arange(LOCAL)
        gate_up, down = weights_of(rank)
        for _ in range(2):
            out = layer.apply(x, gate_up, down, topk_weights=topk_weights, topk_ids=idx, activation=layers["activation"].MoEActivation.SILU, global_num_experts=EXPERTS,
                              expert_map=expert_map, apply_router_weight_on_input=False)
        return out

    for rank, out in enumerate(on_ranks(work, data)):
        right, size = expected(data, rank)
        # Rounded to bf16 are gate, up and what they make, at most 2^-8 of what is summed each, then answers, and their sum.
        assert ((out.double() - right).abs() <= 2.0 ** -5 * size + 2.0 ** -7 * right.abs()).all(), (out.double() - right).abs().max()
        assert right.abs().max() > 0.1
