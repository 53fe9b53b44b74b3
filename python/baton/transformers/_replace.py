"""Experts of a model replaced by those of ranks."""
from typing import Any, Iterator, Tuple

import torch
from torch import nn

from .._arrays import torch_device
from .._errors import InvalidArgument, Unsupported
from .._world import World
from ..torch._layer import Experts, shared_communicator


def why_not(module: nn.Module) -> str:
    """Empty if `module` is experts that baton can serve."""
    gate_up, down = (getattr(module, name, None) for name in ("gate_up_proj", "down_proj"))
    if gate_up is None or down is None or gate_up.dim() != 3 or down.dim() != 3:
        return "no gate_up_proj [experts, 2 * intermediate, hidden] and down_proj [experts, hidden, intermediate]"
    if gate_up.shape[1] != 2 * down.shape[2] or gate_up.shape[2] != down.shape[1]:
        return f"gate_up_proj is {list(gate_up.shape)} and down_proj {list(down.shape)}, expected [experts, 2 * i, h] and [experts, h, i]"
    if gate_up.shape[0] != down.shape[0]:
        return f"gate_up_proj is of {gate_up.shape[0]} experts and down_proj of {down.shape[0]}, expected as many"
    names = (*(name for name, _ in module.named_parameters()), *(name for name, _ in module.named_children()))
    if extra := sorted(name for name in names if name not in ("gate_up_proj", "down_proj", "act_fn")):
        return f"it has {', '.join(extra)}, too"
    for name, expected in (("has_gate", True), ("is_concatenated", True), ("is_transposed", False), ("has_bias", False), ("has_post_expert_norm", False)):
        if getattr(module, name, expected) != expected:
            return f"its {name} is {not expected}, expected {expected}"
    return why_not_gate(module)


@torch.no_grad()
def why_not_gate(module: nn.Module) -> str:
    """Empty if what it does between its products is silu(gate) * up, of large values too, which some models clamp."""
    probe = torch.tensor([-1.5, 0.0, 2.0, -3e4, 3e4])
    act = getattr(module, "act_fn", None)
    try:
        is_silu = act is not None and torch.allclose(act(probe), nn.functional.silu(probe))
    except TypeError:  # as one that takes gate and up
        is_silu = False
    if not is_silu:
        return f"its activation is {act}, expected silu"
    gate, up = probe.repeat_interleave(len(probe)), probe.repeat(len(probe))
    apply = getattr(module, "_apply_gate", None)
    if apply is not None and not torch.allclose(apply(torch.cat([gate, up])[None])[0], nn.functional.silu(gate) * up):
        return f"its _apply_gate, of {type(module).__name__}, is not silu(gate) * up"
    return ""


def experts_of(model: nn.Module) -> Iterator[Tuple[str, nn.Module]]:
    for name, module in model.named_modules():
        if name.rpartition(".")[2] == "experts":
            yield name, module


def top_k_of(config: Any) -> int:
    for name in ("num_experts_per_tok", "moe_topk", "num_experts_per_token"):
        if (top_k := getattr(config, name, None)) is not None:
            return int(top_k)
    raise Unsupported("config: no num_experts_per_tok, by which models say how many experts a token has")


def replacement(module: nn.Module, top_k: int, world: World, made: dict, num_max_tokens_per_rank: int) -> Experts:
    num_experts, two_intermediates, hidden = module.gate_up_proj.shape
    ep = shared_communicator(world, made, num_experts=num_experts, top_k=top_k, hidden=hidden,
                             num_max_tokens_per_rank=num_max_tokens_per_rank)
    intermediate, device = two_intermediates // 2, torch_device(world)
    if module.gate_up_proj.is_meta:
        return Experts.like(ep, intermediate, device)
    own = slice(ep.local_experts.start, ep.local_experts.stop)
    gate_up, down = (weight[own].detach().to(device, torch.bfloat16) for weight in (module.gate_up_proj, module.down_proj))
    return Experts(ep, gate_up[:, :intermediate], gate_up[:, intermediate:], down.clone())


def parallelize(model: nn.Module, world: World, *, num_max_tokens_per_rank: int = 4096) -> nn.Module:
    """Replaces the experts of every layer of `model` by ones that are spread over the ranks of `world`, and returns it.

    Each rank keeps its own experts' weights alone, on its device; the rest of the model stays where it is, whole on every rank. Collective:
    every rank calls it with the same model, and then the model the same number of times, with up to num_max_tokens_per_rank tokens, which
    need not be the same. `from_pretrained` does not even load the other ranks' experts.

    The model is in bfloat16, forward only. Raises Unsupported for experts that it has no replacement for, and says why.
    """
    found = [(name, module) for name, module in experts_of(model) if not isinstance(module, Experts)]
    if not found:
        raise InvalidArgument(f"model: {type(model).__name__} has no module named 'experts'")
    for name, module in found:
        if reason := why_not(module):
            raise Unsupported(f"model: {name} of {type(model).__name__}: {reason}")
    top_k = top_k_of(model.config.get_text_config())
    made: dict = {}
    for name, module in found:
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, replacement(module, top_k, world, made, num_max_tokens_per_rank))
    return model.eval()
