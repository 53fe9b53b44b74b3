"""PyTorch's operators, modules, and models of transformers, on CPU ranks."""
import copy
import gc
import json
import os
import pathlib
import weakref

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

from torch import library as torch_library

import baton
import baton.torch
from threads import on_threads

SOURCE = pathlib.Path(os.environ.get("BATON_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
ONE = baton.World.from_all_gather(None, 0, 1, "cpu")
EXPERTS, TOP_K, HIDDEN, INTERMEDIATE = 8, 2, 64, 96


def finished(results):
    for result in sorted((r for r in results if isinstance(r, Exception)), key=lambda r: isinstance(r, baton.Stuck)):
        raise result  # rather than that another rank waited for it
    return results


def on_worlds(size, work):
    """work(world) on a thread a rank."""
    torch.set_num_threads(1)

    def run(rank, gather):
        with torch.no_grad():
            return work(baton.World.from_all_gather(gather, rank, size, "cpu"))
    return finished(on_threads(size, run))


def weights(seed=3):
    random = torch.Generator().manual_seed(seed)
    shapes = (EXPERTS, INTERMEDIATE, HIDDEN), (EXPERTS, INTERMEDIATE, HIDDEN), (EXPERTS, HIDDEN, INTERMEDIATE)
    return [(torch.randn(shape, generator=random) * shape[2] ** -0.5).bfloat16() for shape in shapes]


def exact(tokens, idx, topk_weights, gate, up, down):
    """The layer in double."""
    out = torch.zeros(tokens.shape, dtype=torch.float64)
    for t in range(tokens.shape[0]):
        for k in range(idx.shape[1]):
            e, x = int(idx[t, k]), tokens[t].double()
            inner = torch.nn.functional.silu(gate[e].double() @ x) * (up[e].double() @ x)
            out[t] += topk_weights[t, k].double() * (down[e].double() @ inner)
    return out


def given(num_tokens=10, seed=5):
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randn(num_tokens, HIDDEN, generator=random).bfloat16()
    topk_weights, idx = torch.softmax(torch.randn(num_tokens, EXPERTS, generator=random), -1).topk(TOP_K)
    return tokens, idx, topk_weights


@pytest.fixture
def ep():
    return baton.ExpertParallel(ONE, num_experts=EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=32)


def close(out, expected):
    return torch.allclose(out.double(), expected, rtol=2 ** -5, atol=2 ** -6 * expected.abs().max().item())


def test_operators_are_the_functions(ep):
    number = baton.torch.number_of(ep)
    assert baton.torch.number_of(ep) == number
    tokens, idx, topk_weights = given()
    rows, offsets, counts, sources = torch.ops.baton.dispatch(tokens, idx, topk_weights, number)
    assert counts.sum() == idx.numel() and offsets[-1] == idx.numel() and sources.shape[1] == 4
    answers = torch.ops.baton.expert_mlp(rows, *weights(), number)
    out = torch.ops.baton.combine(answers, tokens.shape[0], number)
    assert out.dtype == torch.float32 and close(out, exact(tokens, idx, topk_weights, *weights()))
    in_one = torch.ops.baton.experts(tokens, idx, topk_weights, *weights(), number)
    assert in_one.dtype == torch.bfloat16 and torch.equal(in_one, out.bfloat16())


def test_operators_without_a_round_say_so(ep):
    number = baton.torch.number_of(ep)
    tokens, idx, topk_weights = given()
    with pytest.raises(baton.InvalidArgument, match="communicator: 12345, expected what baton.torch.number_of returned"):
        torch.ops.baton.dispatch(tokens, idx, topk_weights, 12345)
    with pytest.raises(baton.InvalidArgument, match="slot: 0, in which communicator .* has received nothing"):
        torch.ops.baton.combine(tokens, 10, number)


def test_a_round_of_operators_that_is_left_open_keeps_no_memory():
    def opened():
        ep = baton.ExpertParallel(ONE, num_experts=EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=32)
        torch.ops.baton.dispatch(*given(), baton.torch.number_of(ep))
        return ep, weakref.ref(ep._open_rounds[0])

    ep, received = opened()
    ep.close()
    assert received() is None
    ep, received = opened()
    del ep
    gc.collect()
    assert received() is None


def test_operators_number_communicators_of_many_threads():
    seen = []

    def make(rank, _):
        for _ in range(50):
            made = [baton.ExpertParallel(ONE, num_experts=1, top_k=1, hidden=64, num_max_tokens_per_rank=1) for _ in range(3)]
            seen.extend(map(baton.torch.number_of, made))

    finished(on_threads(4, make))
    assert len(set(seen)) == 600


def test_fakes_are_as_the_operators(ep):
    number = baton.torch.number_of(ep)
    a, b, counts = torch.randn(6, 64).bfloat16(), torch.randn(2, 24, 64).bfloat16(), torch.tensor([2, 4], dtype=torch.int32)
    q, kv, cu = torch.randn(5, 4, 16).bfloat16(), torch.randn(5, 2, 16).bfloat16(), torch.tensor([0, 5], dtype=torch.int32)
    cache, table, seqlens = torch.randn(3, 8, 2, 16).bfloat16(), torch.tensor([[2]], dtype=torch.int32), torch.tensor([5], dtype=torch.int32)
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch_library.opcheck(torch.ops.baton.gemm.default, (a, b[0]), test_utils=tests)
    torch_library.opcheck(torch.ops.baton.grouped_gemm.default, (a, b, counts, torch.tensor([0, 2], dtype=torch.int32)), test_utils=tests)
    torch_library.opcheck(torch.ops.baton.varlen_attention.default, (q, kv, kv, cu, cu, 5, 5, True), test_utils=tests)
    torch_library.opcheck(torch.ops.baton.attention_with_kvcache.default, (q[None], cache, cache, table, seqlens), test_utils=tests)
    torch_library.opcheck(torch.ops.baton.experts.default, (*given(), *weights(), number), test_utils=tests)


def test_a_whole_graph_is_compiled(ep):
    number, given_weights = baton.torch.number_of(ep), weights()

    def layer(tokens, idx, topk_weights):
        rows, _, _, _ = torch.ops.baton.dispatch(tokens * 2, idx, topk_weights, number)
        answers = torch.ops.baton.expert_mlp(rows, *given_weights, number)
        return torch.ops.baton.combine(answers, tokens.shape[0], number) + 1

    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for num_tokens in (10, 7):
        assert torch.equal(compiled(*given(num_tokens)), layer(*given(num_tokens)))


def test_a_layer_is_exported():
    layer = baton.torch.MoELayer(ONE, EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, num_max_tokens_per_rank=32)
    x = torch.randn(2, 5, HIDDEN).bfloat16()
    exported = torch.export.export(layer, (x,))
    assert any("baton.experts" in str(node.target) for node in exported.graph.nodes)
    assert torch.equal(exported.module()(x), layer(x))


def test_a_layer_is_the_same_on_any_number_of_ranks():
    x = torch.randn(3, 4, HIDDEN).bfloat16()

    def work(world):
        layer = baton.torch.MoELayer(world, EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, num_max_tokens_per_rank=32)
        own = slice(layer.experts.ep.local_experts.start, layer.experts.ep.local_experts.stop)
        router = torch.randn(EXPERTS, HIDDEN, generator=torch.Generator().manual_seed(1)).bfloat16()
        values = {"router.weight": router, **{f"experts.{name}": w[own] for name, w in zip(("gate", "up", "down"), weights())}}
        layer.load_state_dict(values)
        return layer(x), layer

    (alone, layer), = on_worlds(1, work)
    probabilities = torch.softmax(layer.router(x.view(-1, HIDDEN)).float(), -1)
    topk_weights, idx = probabilities.topk(TOP_K)
    expected = exact(x.view(-1, HIDDEN), idx, topk_weights / topk_weights.sum(-1, keepdim=True), *weights())
    assert alone.shape == x.shape and close(alone.view(-1, HIDDEN), expected)
    for out, _ in on_worlds(3, work):
        assert close(out.view(-1, HIDDEN), expected)


def test_a_layer_is_for_forward_only():
    layer = baton.torch.MoELayer(ONE, EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, num_max_tokens_per_rank=32)
    assert not any(parameter.requires_grad for parameter in layer.parameters())
    x = torch.randn(4, HIDDEN).bfloat16().requires_grad_()
    with pytest.raises(baton.InvalidArgument, match="forward only, and an input requires a gradient"):
        layer(x)
    with torch.no_grad():
        layer(x)
    layer.experts.up.requires_grad_()
    with pytest.raises(baton.InvalidArgument, match="forward only, and a weight requires a gradient"):
        layer(x.detach())
    layer.requires_grad_(False)
    with pytest.raises(baton.InvalidArgument, match="tokens: 40 rows, expected at most num_max_tokens_per_rank = 32"):
        layer(torch.zeros(40, HIDDEN).bfloat16())
    assert "64" in repr(layer) and "up to 32 tokens a rank" in repr(layer)


@pytest.mark.parametrize("has,says", [
    ({"num_experts": 4}, "its num_experts is 4, expected 8"), ({"top_k": 1}, "its top_k is 1, expected 2"), ({"hidden": 128}, "its hidden is 128, expected 64")])
def test_a_communicator_of_other_sizes_is_no_layers(has, says):
    sizes = {"num_experts": EXPERTS, "top_k": TOP_K, "hidden": HIDDEN, "num_max_tokens_per_rank": 32}
    other = baton.ExpertParallel(ONE, **{**sizes, **has})
    with pytest.raises(baton.InvalidArgument, match=f"communicator: {says}"):
        baton.torch.MoELayer(ONE, EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, communicator=other)
    with pytest.raises(baton.InvalidArgument, match="communicator: that of rank 0 of 1, expected of rank 1 of 2"):
        baton.torch.MoELayer(baton.World.local(2, device="cpu")[1], EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, communicator=baton.ExpertParallel(ONE, **sizes))
    with pytest.raises(baton.InvalidArgument, match="communicator: int, expected a baton.ExpertParallel"):
        baton.torch.MoELayer(ONE, EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, communicator=3)
    with pytest.raises(baton.InvalidArgument, match="world: list, expected a baton.World"):
        baton.torch.MoELayer([ONE], EXPERTS, TOP_K, HIDDEN, INTERMEDIATE)


def test_a_layer_names_what_it_cannot_take_and_is_copied_as_it_is():
    layer = baton.torch.MoELayer(ONE, EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, num_max_tokens_per_rank=32).eval()
    for wrong in (torch.randn(4, HIDDEN), torch.randn(4, 32).bfloat16()):
        with pytest.raises(baton.InvalidArgument, match=r"hidden_states: expected bfloat16 \[\.\.\., 64\]; found torch\.\w+ \[4, \d+\]"):
            layer(wrong)
    assert not copy.deepcopy(layer).experts.training
    for sizes, says in (((EXPERTS, EXPERTS + 1, HIDDEN, INTERMEDIATE), "top_k: 9, expected 1 to 8"), ((EXPERTS, 0, HIDDEN, INTERMEDIATE), "top_k: 0"),
                        ((EXPERTS, TOP_K, HIDDEN, 12), "intermediate: 12, expected a positive multiple of 8"), ((EXPERTS, TOP_K, HIDDEN, 0), "intermediate: 0")):
        with pytest.raises(baton.InvalidArgument, match=says):
            baton.torch.MoELayer(ONE, *sizes)


def transformers_of(minimum=5):
    library = pytest.importorskip("transformers", exc_type=ImportError)
    if int(library.__version__.split(".")[0]) < minimum:
        pytest.skip(f"transformers {library.__version__}, of which experts are single modules")
    return library


def small_models():
    library = transformers_of()
    common = {"vocab_size": 64, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "max_position_embeddings": 64, "num_experts_per_tok": 2}
    yield library.Qwen3MoeForCausalLM, library.Qwen3MoeConfig(**common, num_experts=6, moe_intermediate_size=32, head_dim=16)
    yield library.MixtralForCausalLM, library.MixtralConfig(**common, num_local_experts=6, intermediate_size=32)
    yield library.DeepseekV3ForCausalLM, library.DeepseekV3Config(
        **{**common, "num_key_value_heads": 4}, n_routed_experts=8, moe_intermediate_size=32, n_shared_experts=1, n_group=2, topk_group=1,
        first_k_dense_replace=1, intermediate_size=48, kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16)


@pytest.mark.parametrize("which", range(3), ids=["qwen3_moe", "mixtral", "deepseek_v3"])
def test_models_of_transformers_are_spread(which, tmp_path):
    from baton.transformers import from_pretrained, parallelize
    model_class, config = list(small_models())[which]
    torch.manual_seed(0)
    model = model_class(config).bfloat16().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.05)
    ids = torch.randint(0, 64, (2, 9))
    with torch.no_grad():
        expected = model(ids).logits.float()
    model.save_pretrained(tmp_path)

    whole = [model_class.from_pretrained(tmp_path, dtype=torch.bfloat16) for _ in range(2)]

    def work(world):
        spread = parallelize(whole[world.rank], world, num_max_tokens_per_rank=32)
        loaded = from_pretrained(tmp_path, world, num_max_tokens_per_rank=32)
        return spread(ids).logits.float(), loaded(ids).logits.float(), sum(p.numel() for p in loaded.parameters())

    for spread, loaded, num_weights in on_worlds(2, work):
        assert torch.allclose(spread, expected, atol=0.02 * expected.abs().max().item())
        assert torch.equal(spread, loaded)
        assert num_weights < sum(p.numel() for p in model.parameters())


def test_what_has_no_replacement_is_named():
    from baton.transformers import parallelize
    library = transformers_of()
    config = library.Qwen3MoeConfig(vocab_size=64, hidden_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                                    num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, hidden_act="gelu")
    with pytest.raises(baton.Unsupported, match=r"model.layers.0.mlp.experts of Qwen3MoeForCausalLM: its activation is .*, expected silu"):
        parallelize(library.Qwen3MoeForCausalLM(config), ONE)
    with pytest.raises(baton.InvalidArgument, match="Linear has no module named 'experts'"):
        parallelize(torch.nn.Linear(2, 2), ONE)


class experts_of_some_model(torch.nn.Module):
    """As transformers has them: up to `limit`, with what else is given."""

    def __init__(self, down_experts=4, limit=float("inf"), **more):
        super().__init__()
        self.gate_up_proj, self.down_proj = (torch.nn.Parameter(torch.zeros(shape)) for shape in ((4, 16, 32), (down_experts, 32, 8)))
        self.act_fn, self.limit = torch.nn.SiLU(), limit
        for name, value in more.items():
            setattr(self, name, value)

    def _apply_gate(self, gate_up):
        gate, up = gate_up.chunk(2, dim=-1)
        return self.act_fn(gate.clamp(max=self.limit)) * up.clamp(-self.limit, self.limit)


@pytest.mark.parametrize("more,says", [
    ({}, ""), ({"limit": 7.0}, "its _apply_gate, of experts_of_some_model, is not silu"), ({"limit": 2e4}, "its _apply_gate"),
    ({"down_experts": 3}, "gate_up_proj is of 4 experts and down_proj of 3, expected as many"), ({"act_fn": torch.nn.GELU()}, "its activation is GELU"),
    ({"act_fn": torch.nn.Bilinear(1, 1, 1)}, "it has act_fn."), ({"act_fn": torch.nn.CosineSimilarity()}, "its activation is CosineSimilarity"),
    ({"post_expert_norm": torch.nn.Identity()}, "it has post_expert_norm, too"), ({"is_concatenated": False}, "its is_concatenated is False, expected True"),
    ({"has_post_expert_norm": True}, "its has_post_expert_norm is True, expected False")])
def test_experts_that_do_something_else_have_no_replacement(more, says):
    from baton.transformers._replace import why_not
    reason = why_not(experts_of_some_model(**more))
    assert reason.startswith(says) and bool(reason) == bool(says)


@pytest.mark.parametrize("size", [1, 2])
def test_the_small_model_writes_what_it_should(size):
    from baton.transformers import from_pretrained
    transformers_of()
    folder = SOURCE / "data" / "tiny-moe"
    answers = json.loads((folder / "greedy.json").read_text())[:2]

    def work(world):
        model = from_pretrained(folder, world, num_max_tokens_per_rank=64)
        texts = []
        for answer in answers:
            ids = torch.tensor([list(answer["prompt"].encode())])
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=32, do_sample=False, pad_token_id=0)
            texts.append(bytes(out[0, ids.shape[1]:].tolist()).decode())
        return texts

    for texts in on_worlds(size, work):
        assert texts == [answer["greedy_continuation"][:32] for answer in answers]


def test_a_world_of_a_process_group_is_on_the_gpu_that_torch_uses(monkeypatch):
    from baton._world import gpu_of_torch
    for initialised, current, expected in ((False, 3, -1), (True, 0, -1), (True, 3, 3)):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: initialised)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
        assert gpu_of_torch() == expected


def gpu_world():
    if "CUDA" not in baton.build_info() or not torch.cuda.is_available():
        pytest.skip("no GPU, or a wheel without its kernels")
    return baton.World.local(1, device="cuda")[0]


def test_a_layer_on_a_gpu_is_captured_and_compiled():
    layer = baton.torch.MoELayer(gpu_world(), EXPERTS, TOP_K, 256, 128, num_max_tokens_per_rank=32)
    x = torch.randn(8, 256, device="cuda").bfloat16()
    with torch.no_grad():
        first = layer(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            again = layer(x)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(again, first)
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        assert torch.equal(compiled(x), first)


def test_the_small_model_writes_what_it_should_on_a_gpu():
    from baton.transformers import from_pretrained
    world = gpu_world()
    transformers_of()
    folder = SOURCE / "data" / "tiny-moe"
    answers = json.loads((folder / "greedy.json").read_text())
    model = from_pretrained(folder, world, num_max_tokens_per_rank=128)
    for answer in answers:
        ids = torch.tensor([list(answer["prompt"].encode())], device="cuda")
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=96, do_sample=False, pad_token_id=0)
        assert bytes(out[0, ids.shape[1]:].tolist()).decode() == answer["greedy_continuation"]


def test_another_number_of_tokens_is_refused_before_the_round_is_over():
    def work(world):
        ep = baton.ExpertParallel(world, num_experts=EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=32)
        number = baton.torch.number_of(ep)
        rows, *_ = torch.ops.baton.dispatch(*given(), number)
        with pytest.raises(baton.InvalidArgument, match="num_tokens: 7, expected 10, as dispatch was given"):
            torch.ops.baton.combine(rows, 7, number)
        assert torch.ops.baton.combine(rows, 10, number).shape == (10, HIDDEN)
    on_worlds(2, work)


@pytest.mark.parametrize("exchanged", ["data", "set_"])
def test_memory_that_somebody_exchanged_is_not_the_next_rounds(exchanged):
    ep = baton.ExpertParallel(ONE, num_experts=EXPERTS, top_k=TOP_K, hidden=HIDDEN, num_max_tokens_per_rank=16)
    for _ in range(3):
        recv = ep.dispatch(*given())
        seen, count = recv.tokens, int(recv.row_counts.sum())
        assert seen[:count].float().abs().sum() > 0
        ep.combine(seen.clone())
        if exchanged == "data":
            seen.data = torch.zeros_like(seen)
        else:
            seen.set_(torch.zeros_like(seen))
    ep.close()


def test_what_is_no_communicator_has_no_number():
    with pytest.raises(baton.InvalidArgument, match="ep: int, expected a baton.ExpertParallel"):
        baton.torch.number_of(5)
    with pytest.raises(baton.InvalidArgument, match="hidden: '256', expected an integer"):
        baton.torch.MoELayer(ONE, 8, 2, "256", 64)
