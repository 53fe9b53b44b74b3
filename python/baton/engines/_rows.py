"""Rounds of a communicator as engines see them: rows with their expert, one after the other, or in [experts, capacity]."""
from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .._errors import InvalidArgument, Unsupported
from .._expert_parallel import ExpertParallel
from .._padded import Padded, pad_rows, unpad_rows
from .._received import Received

SCALED = {"fp8": 128}  # formats that engines take with their scales: values of a block


def check(ep: ExpertParallel) -> None:
    """Raises Unsupported where an engine could not read what `ep` receives."""
    config = ep.config
    for name, expected in (("format", ("bf16", *SCALED)), ("rows", ("by_expert",)), ("layout", ("per_rank",))):
        if config[name] not in expected:
            raise Unsupported(f"{name}: {config[name]!r}, expected {' or '.join(map(repr, expected))} of a communicator for an engine")


class Rows(NamedTuple):
    """What a rank received, each row for one expert."""

    tokens: Tensor              # [rows, hidden]: a view of the communicator's memory
    scales: Optional[Tensor]    # [rows, hidden / 128] float32 with fp8
    experts: Tensor             # [rows] int64: of this rank's experts, -1 for a row that is none
    counts: Tensor              # [local experts] int32
    counts_on_host: Optional[List[int]]  # None: nobody waited for the device


def rows_of(recv: Received, waits: bool) -> Rows:
    """`waits`: for the device, to learn how many rows came; else there are as many as there may ever be."""
    offsets, counts = recv.row_offsets.long(), recv.row_counts
    num_rows, on_host = recv.max_rows, None
    if waits:
        num_rows, *on_host = torch.cat([recv.row_offsets[-1:], counts]).tolist()
    rows = torch.arange(num_rows, device=counts.device)
    experts = torch.searchsorted(offsets[1:].contiguous(), rows, right=True).clamp(max=counts.numel() - 1)
    experts = torch.where(rows - offsets[experts] < counts[experts], experts, -1)
    scales = recv.scales
    return Rows(recv.tokens[:num_rows], None if scales is None else scales[:num_rows], experts, counts.clone(), on_host)


def packed_rows(recv: Received, ep: ExpertParallel) -> Padded:
    """Copies: rows lie one after the other in the communicator. Waits for no device. `scales` as [local experts, capacity, hidden / 128]."""
    rows = pad_rows(recv, ep.config["num_max_tokens_per_rank"] * ep.world.size)
    return rows if rows.scales is None else rows._replace(scales=rows.scales.transpose(1, 2))


def unpacked(answers: Tensor, recv: Received) -> Tensor:
    """[max_rows, hidden] of [local experts, capacity, hidden]; rows that are none hold anything."""
    return unpad_rows(recv, answers.contiguous())


def answers_of(output: Tensor, num_rows: int) -> Tensor:
    """[rows, hidden] of [rows, hidden], or of [rows, 1, hidden] as experts leave it that do not add up."""
    if output.dim() not in (2, 3) or output.size(0) != num_rows or (output.dim() == 3 and output.size(1) != 1):
        raise InvalidArgument(f"experts' output: found {list(output.shape)}, expected [{num_rows}, hidden] or [{num_rows}, 1, hidden]: a row "
                              "for each that prepare gave, which has one expert")
    return output.reshape(num_rows, output.size(-1)).contiguous()


def weighted_input(tokens: Tensor, topk_weights: Tensor) -> Tuple[Tensor, Any]:
    """Tokens times their weights, and no weights for the way back: for models with one expert a token."""
    if topk_weights.size(1) != 1:
        raise Unsupported(f"apply_router_weight_on_input: True with {topk_weights.size(1)} experts a token, expected 1")
    return tokens * topk_weights.to(tokens.dtype), None
