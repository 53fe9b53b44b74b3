"""SGLang's token dispatcher over baton.

    ep = baton.ExpertParallel(world, num_experts=..., top_k=..., hidden=..., num_max_tokens_per_rank=..., format="fp8")
    layer.dispatcher = baton.engines.sglang.dispatcher(ep, expert_alignment=128)  # a FusedMoE of SGLang
"""
import importlib
import types
from typing import Any, Callable

import torch
from torch import Tensor

from .._errors import InvalidArgument
from .._expert_parallel import ExpertParallel
from ._rows import answers_of, check, packed_rows, rows_of, unpacked

DISPATCHERS = "sglang.srt.layers.moe.token_dispatcher"

__all__ = ["dispatcher"]


def dispatcher(ep: ExpertParallel, *, mode: str = "normal", expert_alignment: int = 1) -> Any:
    """A BaseDispatcher of SGLang whose rounds are those of `ep`, in the format of one of DeepEP's modes, which SGLang's runners read.

    mode              "normal": a row for each token and expert of this rank, with that expert as its only one and a weight of 1; no row is
                      copied; waits for the device once a round, to learn how many came. "low_latency": [local experts, ranks *
                      num_max_tokens_per_rank, hidden], which copies each; waits for no device
    expert_alignment  with "normal": what counts of rows are rounded up to, 128 for DeepGEMM

    Weights are multiplied by combine, by those that dispatch was given, and sums are in float32. With format "fp8" of `ep` activations are
    quantised before they travel, in blocks of 128. dispatch_a, dispatch_b, combine_a and combine_b are its halves.
    """
    check(ep)
    logic = {"normal": Normal, "low_latency": LowLatency}.get(mode)
    if logic is None:
        raise InvalidArgument(f"mode: {mode!r}, expected 'normal' or 'low_latency'")
    formats = importlib.import_module(f"{DISPATCHERS}.deepep")
    base = importlib.import_module(f"{DISPATCHERS}.base").BaseDispatcher
    return types.new_class(f"Baton{logic.__name__}Dispatcher", (logic, base))(formats, ep, expert_alignment)


class Dispatcher:
    """What both modes have in common."""

    def __init__(self, formats: Any, ep: ExpertParallel, expert_alignment: int) -> None:
        super().__init__()
        self.formats, self.ep, self.expert_alignment = formats, ep, expert_alignment

    def dispatch(self, hidden_states: Tensor, topk_output: Any) -> Any:
        """hidden_states [tokens, hidden] bfloat16 to the ranks of their experts."""
        self.routing = self.routing_of(topk_output)
        return self.output(self.ep.dispatch(hidden_states.contiguous(), *self.routing))

    def dispatch_a(self, hidden_states: Tensor, topk_output: Any) -> None:
        """Sends."""
        self.routing = self.routing_of(topk_output)
        self.ep.dispatch_async(hidden_states.contiguous(), *self.routing)

    def dispatch_b(self) -> Any:
        """Receives."""
        return self.output(self.ep.dispatch_wait())

    def combine(self, combine_input: Any) -> Tensor:
        """[tokens, hidden] bfloat16: what experts made of them, added up with their weights."""
        answers, num_rows = self.answers(combine_input.hidden_states)
        return self.ep.combine(answers, out=self.sums(answers), num_rows=num_rows)

    def combine_a(self, combine_input: Any) -> None:
        """Sends."""
        answers, num_rows = self.answers(combine_input.hidden_states)
        self.ep.combine_async(answers, num_rows=num_rows)

    def combine_b(self) -> Tensor:
        """Receives."""
        return self.ep.combine_wait(self.sums(self.routing[0]))

    def routing_of(self, topk_output: Any) -> tuple:
        standard = topk_output.to_standard() if hasattr(topk_output, "to_standard") else topk_output
        return standard.topk_ids.contiguous(), standard.topk_weights.float().contiguous()

    def sums(self, beside: Tensor) -> Tensor:
        return torch.empty((self.routing[0].size(0), self.ep.config["hidden"]), dtype=torch.bfloat16, device=beside.device)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.ep!r}>"

    output: Callable
    answers: Callable


class Normal(Dispatcher):
    def output(self, recv: Any) -> Any:
        rows = rows_of(recv, True)
        self.num_rows = rows.tokens.size(0)
        counts = [-(-count // self.expert_alignment) * self.expert_alignment for count in rows.counts_on_host]
        return self.formats.DeepEPNormalDispatchOutput(rows.tokens, rows.scales, rows.experts.unsqueeze(1),
                                                       torch.ones_like(rows.experts, dtype=torch.float32).unsqueeze(1), counts)

    def answers(self, output: Tensor) -> tuple:
        return answers_of(output, self.num_rows), self.num_rows


class LowLatency(Dispatcher):
    def output(self, recv: Any) -> Any:
        rows = packed_rows(recv, self.ep)
        self.received = recv
        ids, weights = self.routing
        num_experts = self.ep.config["num_experts"]
        expected = (ids.numel() * self.ep.world.size + num_experts) // num_experts  # rows of an expert, on average
        return self.formats.DeepEPLLDispatchOutput(rows.tokens, rows.scales, ids, weights, rows.row_counts, expected)

    def answers(self, output: Tensor) -> tuple:
        return unpacked(output, self.received), -1
