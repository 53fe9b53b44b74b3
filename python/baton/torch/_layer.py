"""Mixture-of-experts layers as modules."""
from typing import Optional

import torch
from torch import Tensor, nn

from .._arrays import integer, torch_device
from .._errors import InvalidArgument
from .._expert_parallel import ExpertParallel
from .._world import World, core_of
from ._operators import number_of, run_experts


def shared_communicator(world: World, made: dict, **sizes: int) -> ExpertParallel:
    """Layers of the same sizes share one: their rounds come one after the other anyway."""
    key = tuple(sorted(sizes.items()))
    if key not in made:
        made[key] = ExpertParallel(world, **sizes)
    return made[key]


def require_sizes(ep: ExpertParallel, world: World, **sizes: int) -> None:
    """Of a communicator that a layer is given: one of fewer experts would take the ids of the others for none."""
    if not isinstance(ep, ExpertParallel):
        raise InvalidArgument(f"communicator: {type(ep).__name__}, expected a baton.ExpertParallel")
    for name, size in sizes.items():
        if ep.config[name] != size:
            raise InvalidArgument(f"communicator: its {name} is {ep.config[name]}, expected {size}, as of the layer")
    if (found := (ep.world.rank, ep.world.size)) != (expected := (world.rank, world.size)):
        raise InvalidArgument(f"communicator: that of rank {found[0]} of {found[1]}, expected of rank {expected[0]} of {expected[1]}")


class Experts(nn.Module):
    """The experts of one layer, spread over the ranks of a communicator; this rank's weights are its parameters `gate`, `up`, `down`.

    forward(hidden_states [tokens, hidden] bfloat16, top_k_index [tokens, top_k], top_k_weights [tokens, top_k]) is the weighted sum of what
    the experts make of each token, [tokens, hidden] bfloat16; collective over the ranks. Forward only: there are no gradients.
    """

    def __init__(self, ep: ExpertParallel, gate: Tensor, up: Tensor, down: Tensor) -> None:
        """Weights of this rank's experts: gate and up [local experts, intermediate, hidden], down [local experts, hidden, intermediate]."""
        super().__init__()
        self.ep, self.number = ep, number_of(ep)
        self.gate, self.up, self.down = (nn.Parameter(weight.contiguous(), requires_grad=False) for weight in (gate, up, down))

    @classmethod
    def like(cls, ep: ExpertParallel, intermediate: int, device: Optional[str] = None) -> "Experts":
        """With weights that are not filled yet."""
        local, hidden = len(ep.local_experts), ep.config["hidden"]
        shapes = (intermediate, hidden), (intermediate, hidden), (hidden, intermediate)
        return cls(ep, *(torch.empty((local, *shape), dtype=torch.bfloat16, device=device) for shape in shapes))

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            if hidden_states.requires_grad or top_k_weights.requires_grad:
                raise InvalidArgument("Experts: forward only, and an input requires a gradient; call the model under torch.no_grad()")
            if self.gate.requires_grad or self.up.requires_grad or self.down.requires_grad:  # who sums losses would see no gradient missing
                raise InvalidArgument("Experts: forward only, and a weight requires a gradient; requires_grad_(False), or torch.no_grad()")
        weights = top_k_weights.float().contiguous()
        tokens, idx = hidden_states.contiguous(), top_k_index.contiguous()
        if torch.compiler.is_compiling():
            return torch.ops.baton.experts(tokens, idx, weights, self.gate, self.up, self.down, self.number)
        return run_experts(self.ep, tokens, idx, weights, [self.gate, self.up, self.down], 0)

    def __deepcopy__(self, _: dict) -> "Experts":
        return Experts(self.ep, self.gate.clone(), self.up.clone(), self.down.clone()).train(self.training)

    def extra_repr(self) -> str:
        own = sum(weight.numel() * weight.element_size() for weight in (self.gate, self.up, self.down))
        return f"{self.ep!r}, intermediate {self.gate.shape[1]}, {own:,} bytes of weights"


class MoELayer(nn.Module):
    """A router and its experts, spread over the ranks of a world: softmax of all logits, the top_k largest, renormalised if `norm_topk_prob`.

    forward(hidden_states [..., hidden] bfloat16) gives the same shape and type; collective over the ranks, of which each brings its own
    tokens, up to num_max_tokens_per_rank. Forward only: there are no gradients, and training raises.
    Parameters: `router.weight` [num_experts, hidden], the same on all ranks, and experts.gate, .up, .down of this rank's experts.
    """

    def __init__(self, world: World, num_experts: int, top_k: int, hidden: int, intermediate: int, *, num_max_tokens_per_rank: int = 1024,
                 norm_topk_prob: bool = True, communicator: Optional[ExpertParallel] = None) -> None:
        super().__init__()
        core_of("world", world)
        device = torch_device(world)
        if not 1 <= integer("top_k", top_k) <= integer("num_experts", num_experts):
            raise InvalidArgument(f"top_k: {top_k}, expected 1 to {num_experts}, the experts that there are")
        if integer("intermediate", intermediate) < 8 or intermediate % 8 != 0:
            raise InvalidArgument(f"intermediate: {intermediate}, expected a positive multiple of 8")
        integer("hidden", hidden, 1)
        if communicator is not None:
            require_sizes(communicator, world, num_experts=num_experts, top_k=top_k, hidden=hidden)
        self.top_k, self.norm_topk_prob = top_k, norm_topk_prob
        self.router = nn.Linear(hidden, num_experts, bias=False, dtype=torch.bfloat16, device=device).requires_grad_(False)
        ep = communicator if communicator is not None else ExpertParallel(
            world, num_experts=num_experts, top_k=top_k, hidden=hidden, num_max_tokens_per_rank=num_max_tokens_per_rank)
        self.experts = Experts.like(ep, intermediate, device)
        for weight in self.experts.parameters():
            nn.init.normal_(weight, std=hidden ** -0.5)

    def forward(self, hidden_states: Tensor) -> Tensor:
        if hidden_states.dtype != torch.bfloat16 or hidden_states.shape[-1:] != self.router.weight.shape[1:]:
            raise InvalidArgument(f"hidden_states: expected bfloat16 [..., {self.router.weight.shape[1]}]; found {hidden_states.dtype} {list(hidden_states.shape)}")
        tokens = hidden_states.reshape(-1, hidden_states.shape[-1])
        probabilities = torch.softmax(self.router(tokens).float(), dim=-1)
        weights, idx = torch.topk(probabilities, self.top_k, dim=-1)
        if self.norm_topk_prob:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return self.experts(tokens, idx, weights).view(hidden_states.shape)
