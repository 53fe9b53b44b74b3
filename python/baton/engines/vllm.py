"""vLLM's modular fused-MoE over baton: what goes between its router and its experts.

    ep = baton.ExpertParallel(world, num_experts=..., top_k=..., hidden=..., num_max_tokens_per_rank=..., num_slots=2)
    kernel = FusedMoEKernel(baton.engines.vllm.prepare_and_finalize(ep), fused_experts)  # both of vLLM's modular_kernel
"""
import importlib
import types
from typing import Any, Callable, Optional

import torch
from torch import Tensor

from .._errors import InvalidArgument, Unsupported
from .._expert_parallel import ExpertParallel
from ._rows import SCALED, Rows, answers_of, check, packed_rows, rows_of, unpacked, weighted_input

LAYERS = "vllm.model_executor.layers.fused_moe"

__all__ = ["prepare_and_finalize"]


def prepare_and_finalize(ep: ExpertParallel, *, activation_format: str = "standard", waits: bool = True) -> Any:
    """A FusedMoEPrepareAndFinalizeModular of vLLM whose rounds are those of `ep`.

    activation_format  "standard": `prepare` gives a row for each token and expert of this rank, with that expert as its only one and a weight
                       of 1; no row is copied. "batched_experts": [local experts, ranks * num_max_tokens_per_rank, hidden], which copies each
    waits              with "standard": for the device, once a round, to learn how many rows came. False: as many rows as there may ever be,
                       those that are none with an expert of another rank, so that it can be captured; needs more ranks than one

    Weights are multiplied in `finalize`, by those that `prepare` was given, and sums are in float32. Activations travel as `ep` sends them: with
    format "bf16" they are quantised where they arrive, as `quant_config` asks; with "fp8" before, in blocks of 128, which `quant_config` has to
    be about. With num_slots=2 two micro-batches of vLLM may be under way; layers of the same sizes may share `ep`.
    """
    check(ep)
    logic = {"standard": Standard, "batched_experts": BatchedExperts}.get(activation_format)
    if logic is None:
        raise InvalidArgument(f"activation_format: {activation_format!r}, expected 'standard' or 'batched_experts'")
    kernel = importlib.import_module(f"{LAYERS}.modular_kernel")
    made = types.new_class(f"Baton{logic.__name__}PrepareAndFinalize", (logic, kernel.FusedMoEPrepareAndFinalizeModular))
    return made(kernel, ep, waits)


class PrepareAndFinalize:
    """What both formats have in common."""

    def __init__(self, kernel: Any, ep: ExpertParallel, waits: bool) -> None:
        # Of vLLM's base nothing is called: its constructor takes other things in other versions, and nothing of it is read.
        self.kernel, self.ep, self.waits = kernel, ep, waits
        self.rounds: list = [None] * ep.config["num_slots"]  # what finalize needs of each slot's prepare
        self.block = SCALED.get(ep.config["format"])

    def topk_indices_dtype(self) -> Optional[torch.dtype]:
        return torch.int32

    def num_dispatchers(self) -> int:
        return self.ep.world.size

    def max_num_tokens_per_rank(self) -> Optional[int]:
        return self.ep.config["num_max_tokens_per_rank"]

    def output_is_reduced(self) -> bool:
        return True

    def supports_async(self) -> bool:
        return True

    def slot(self) -> int:
        """Of the micro-batch that this thread works on."""
        return importlib.import_module("vllm.v1.worker.ubatching").dbo_current_ubatch_id() if len(self.rounds) > 1 else 0

    def prepare_async(self, a1: Tensor, topk_weights: Tensor, topk_ids: Tensor, num_experts: int, expert_map: Optional[Tensor],
                      apply_router_weight_on_input: bool, quant_config: Any, defer_input_quant: bool = False) -> tuple:
        """Sends; (hook, receiver), of which the hook receives and the receiver returns what prepare does."""
        slot, recv = self.slot(), []
        self.ep.dispatch_async(*self.given(a1, topk_weights, topk_ids, num_experts, apply_router_weight_on_input, quant_config,
                                           defer_input_quant), slot=slot)
        return (lambda: recv.append(self.ep.dispatch_wait(slot=slot)),
                lambda: self.received(recv[0], slot, quant_config, defer_input_quant))

    def prepare(self, a1: Tensor, topk_weights: Tensor, topk_ids: Tensor, num_experts: int, expert_map: Optional[Tensor],
                apply_router_weight_on_input: bool, quant_config: Any, defer_input_quant: bool = False) -> tuple:
        """(activations, scales, ExpertTokensMetadata, ids, weights) of the rows that came."""
        slot = self.slot()
        recv = self.ep.dispatch(*self.given(a1, topk_weights, topk_ids, num_experts, apply_router_weight_on_input, quant_config,
                                            defer_input_quant), slot=slot)
        return self.received(recv, slot, quant_config, defer_input_quant)

    def given(self, a1: Tensor, topk_weights: Tensor, topk_ids: Tensor, num_experts: int, is_input_weighted: bool, quant_config: Any,
              defer_input_quant: bool) -> tuple:
        """What dispatch takes."""
        if num_experts != self.ep.config["num_experts"]:
            raise InvalidArgument(f"num_experts: {num_experts}, expected {self.ep.config['num_experts']}, as the communicator has")
        if self.block is not None:
            shape = quant_config.block_shape
            if defer_input_quant or shape is None or shape[1] != self.block:
                raise Unsupported(f"format: 'fp8' travels in blocks of {self.block}, and these experts want "
                                  f"{'unquantised input' if defer_input_quant else f'block_shape {shape}'}; take a communicator with 'bf16'")
        a1, weights = weighted_input(a1, topk_weights) if is_input_weighted else (a1, topk_weights.float().contiguous())
        return a1.contiguous(), topk_ids.contiguous(), weights

    def quantised(self, rows: Tensor, quant_config: Any, defer_input_quant: bool) -> tuple:
        """Rows that travelled in bf16 as the experts want them."""
        if defer_input_quant or quant_config.quant_dtype is None or rows.numel() == 0:
            return rows, None
        scale = quant_config.a1_gscale if quant_config.quant_dtype == "nvfp4" else quant_config.a1_scale
        quantise = importlib.import_module(f"{LAYERS}.utils").moe_kernel_quantize_input
        return quantise(rows, scale, quant_config.quant_dtype, quant_config.per_act_token_quant, quant_config.block_shape)

    def finalize_async(self, output: Tensor, fused_expert_output: Tensor, topk_weights: Tensor, topk_ids: Tensor,
                       apply_router_weight_on_input: bool, weight_and_reduce_impl: Any) -> tuple:
        """Sends; (hook, receiver), after both of which `output` is there."""
        slot = self.slot()
        answers, num_rows = self.answers(fused_expert_output, slot, weight_and_reduce_impl)
        self.ep.combine_async(answers, num_rows=num_rows, slot=slot)
        return (lambda: self.ep.combine_wait(output, slot=slot)), (lambda: None)

    def finalize(self, output: Tensor, fused_expert_output: Tensor, topk_weights: Tensor, topk_ids: Tensor,
                 apply_router_weight_on_input: bool, weight_and_reduce_impl: Any) -> None:
        """`output` [tokens, hidden] becomes the weighted sums."""
        slot = self.slot()
        answers, num_rows = self.answers(fused_expert_output, slot, weight_and_reduce_impl)
        self.ep.combine(answers, out=output, num_rows=num_rows, slot=slot)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.ep!r}>"

    received: Callable
    answers: Callable


class Standard(PrepareAndFinalize):
    @property
    def activation_format(self) -> Any:
        return self.kernel.FusedMoEActivationFormat.Standard

    def nobody(self) -> int:
        """A global id that vLLM's expert_map says is of another rank."""
        experts = self.ep.local_experts
        if len(experts) == self.ep.config["num_experts"]:
            return -1
        return 0 if experts.start > 0 else self.ep.config["num_experts"] - 1

    def received(self, recv: Any, slot: int, quant_config: Any, defer_input_quant: bool) -> tuple:
        rows: Rows = rows_of(recv, self.waits)
        self.rounds[slot] = rows.tokens.size(0)
        activations = (rows.tokens, rows.scales) if self.block is not None else self.quantised(rows.tokens, quant_config, defer_input_quant)
        ids = torch.where(rows.experts >= 0, rows.experts + self.ep.local_experts.start, self.nobody())
        on_host = None if rows.counts_on_host is None else torch.tensor(rows.counts_on_host, dtype=torch.int32)
        meta = self.kernel.ExpertTokensMetadata(expert_num_tokens=rows.counts, expert_num_tokens_cpu=on_host)
        return *activations, meta, ids.to(torch.int32).unsqueeze(1), torch.ones_like(ids, dtype=torch.float32).unsqueeze(1)

    def answers(self, output: Tensor, slot: int, _: Any) -> tuple:
        """Whatever experts do with their weights and sums: a row has one expert, and a weight of 1."""
        num_rows = self.rounds[slot]
        return answers_of(output, num_rows), num_rows if self.waits else -1


class BatchedExperts(PrepareAndFinalize):
    @property
    def activation_format(self) -> Any:
        return self.kernel.FusedMoEActivationFormat.BatchedExperts

    def received(self, recv: Any, slot: int, quant_config: Any, defer_input_quant: bool) -> tuple:
        rows = packed_rows(recv, self.ep)
        self.rounds[slot] = recv
        tokens, scales = rows.tokens, rows.scales
        if self.block is None:
            flat, scales = self.quantised(tokens.flatten(0, 1), quant_config, defer_input_quant)
            tokens = flat.view(tokens.size(0), -1, flat.size(-1))
            if scales is not None and scales.numel() > 1:
                scales = scales.view(tokens.size(0), -1, scales.size(-1))
        return tokens, scales, self.kernel.ExpertTokensMetadata(expert_num_tokens=rows.row_counts, expert_num_tokens_cpu=None), None, None

    def answers(self, output: Tensor, slot: int, weight_and_reduce: Any) -> tuple:
        if type(weight_and_reduce).__name__ != "TopKWeightAndReduceDelegate" or output.dim() != 3:
            raise Unsupported(f"experts that leave {list(output.shape)} for {type(weight_and_reduce).__name__}, expected three dimensions for "
                              "TopKWeightAndReduceDelegate: combine multiplies by weights, and adds up")
        return unpacked(output, self.rounds[slot]), -1
