"""How DeepEP's layouts are made of baton's, in torch's operations alone: nothing here waits for a device but where it says so."""
from typing import NamedTuple, Optional

import torch

from .. import _expert_parallel
from .._errors import InvalidArgument


class Config(NamedTuple):
    """Of kernels; num_sms alone means something here."""

    num_sms: int = 20
    num_max_nvl_chunked_send_tokens: int = 6
    num_max_nvl_chunked_recv_tokens: int = 256
    num_max_rdma_chunked_send_tokens: int = 6
    num_max_rdma_chunked_recv_tokens: int = 256

    def get_nvl_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """Bytes that normal calls take on each rank with 4096 tokens a rank. Buffers are as large as they need to be, whatever Buffer is told."""
        if why := _expert_parallel.why_not(num_ranks, **of_ranks(num_ranks, hidden_bytes // 2, 4096)):
            raise InvalidArgument(why)
        return _expert_parallel.workspace_bytes(num_ranks, **of_ranks(num_ranks, hidden_bytes // 2, 4096))

    def get_rdma_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """0: nothing here travels between machines."""
        return 0


def of_ranks(num_ranks: int, hidden: int, num_max_tokens: int, format: str = "bf16") -> dict:
    """A communicator whose experts are the ranks: a token comes once to each rank that has one of its experts, rows lie by source rank
    and in its order, and what comes back is a sum without weights. These are DeepEP's normal dispatch and combine."""
    return {"num_experts": num_ranks, "top_k": num_ranks, "hidden": hidden, "num_max_tokens_per_rank": num_max_tokens, "format": format}


def choices_of(is_token_in_rank: torch.Tensor) -> torch.Tensor:
    """[num_tokens, num_ranks]: the ranks that a token goes to, -1 for the others."""
    ranks = torch.arange(is_token_in_rank.size(1), device=is_token_in_rank.device)
    return torch.where(is_token_in_rank, ranks, -1)


class DispatchLayout(NamedTuple):
    num_tokens_per_rank: torch.Tensor
    num_tokens_per_expert: torch.Tensor
    is_token_in_rank: torch.Tensor


def layout_of(topk_idx: torch.Tensor, num_experts: int, num_ranks: int) -> DispatchLayout:
    idx = topk_idx.long()
    is_one = (idx >= 0) & (idx < num_experts)  # others count nothing, as in DeepEP: torch's kernels would end the whole context
    ranks = torch.where(is_one, idx // (num_experts // num_ranks), num_ranks)
    there = torch.zeros((idx.size(0), num_ranks + 1), dtype=torch.bool, device=idx.device).scatter_(1, ranks, True)[:, :num_ranks]
    experts = torch.where(is_one, idx, num_experts).flatten()
    per_expert = torch.zeros(num_experts + 1, dtype=torch.int32, device=idx.device)
    per_expert.index_add_(0, experts, torch.ones_like(experts, dtype=torch.int32))
    return DispatchLayout(there.sum(0, dtype=torch.int32), per_expert[:num_experts], there.contiguous())


def routing_as_tokens(topk_idx: torch.Tensor, topk_weights: torch.Tensor) -> torch.Tensor:
    """[num_tokens, columns] bfloat16 whose bits are ids and weights, for them to travel as tokens do."""
    bits = torch.cat([topk_idx.to(torch.int32), topk_weights.view(torch.int32)], dim=1)
    return padded(bits.view(torch.bfloat16))


def padded(columns: torch.Tensor) -> torch.Tensor:
    """To a multiple of 8 columns, contiguous."""
    return torch.nn.functional.pad(columns, (0, -columns.size(1) % 8)).contiguous()


def routing_of_tokens(tokens: torch.Tensor, top_k: int, first_expert: int, num_local_experts: int) -> tuple:
    """The ids, counted from this rank's first expert, -1 those of others, and weights, 0 those of others."""
    bits = tokens[:, :4 * top_k].contiguous().view(torch.int32)
    ids, weights = bits[:, :top_k].long() - first_expert, bits[:, top_k:].contiguous().view(torch.float32)
    is_here = (ids >= 0) & (ids < num_local_experts)
    return torch.where(is_here, ids, -1), torch.where(is_here, weights, 0.0)


def as_three_parts(values: torch.Tensor) -> torch.Tensor:
    """[rows, 3 * columns] bfloat16 whose sums are those of fp32 `values`: 24 bits are three times 8."""
    high = values.bfloat16()
    rest = values - high.float()
    middle = rest.bfloat16()
    return padded(torch.cat([high, middle, (rest - middle.float()).bfloat16()], dim=1))


def of_three_parts(sums: torch.Tensor, columns: int) -> torch.Tensor:
    high, middle, low = (sums[:, i * columns:(i + 1) * columns] for i in range(3))
    return high + (middle + low)


def cast_to_fp8(x: torch.Tensor) -> tuple:
    """Blocks of 128 values with a power of two as their scale, as (values, scales)."""
    blocks = x.float().view(x.size(0), x.size(1) // 128, 128)
    exponents = torch.ceil(torch.log2(blocks.abs().amax(dim=2).clamp(min=1e-4) / 448.0))
    scales = torch.exp2(exponents)
    return (blocks / scales.unsqueeze(2)).to(torch.float8_e4m3fn).view(x.shape), scales
