"""Operators and what the tracer is told of their results."""
import itertools
import weakref
from typing import List, Optional, Tuple

import torch
from torch import Tensor, library

try:
    from torch._library.effects import EffectType
except ImportError:  # as old as versions without register_effect
    EffectType = None
from .. import _products, attention
from .._errors import InvalidArgument
from .._expert_parallel import ExpertParallel
from .._received import Received

numbers = itertools.count(1)
communicators: "weakref.WeakValueDictionary[int, ExpertParallel]" = weakref.WeakValueDictionary()


def number_of(ep: ExpertParallel) -> int:
    """By which operators know a communicator, as long as it lives."""
    if not isinstance(ep, ExpertParallel):
        raise InvalidArgument(f"ep: {type(ep).__name__}, expected a baton.ExpertParallel")
    if ep._number == 0:
        ep._number = next(numbers)
        communicators[ep._number] = ep
    return ep._number


def communicator_of(number: int) -> ExpertParallel:
    if (ep := communicators.get(int(number))) is None:  # a tracer's symbol, where another number was traced before, becomes a number
        raise InvalidArgument(f"communicator: {number}, expected what baton.torch.number_of returned for an ExpertParallel that still lives")
    return ep


def received_by(communicator: int, slot: int) -> Received:
    if (recv := communicator_of(communicator)._open_rounds.get(slot)) is None:
        raise InvalidArgument(f"slot: {slot}, in which communicator {communicator} has received nothing since its last combine")
    return recv


@library.custom_op("baton::dispatch", mutates_args=())
def dispatch(tokens: Tensor, topk_idx: Tensor, topk_weights: Optional[Tensor], communicator: int,
             slot: int = 0) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """(rows, row_offsets, row_counts, sources) of ExpertParallel.dispatch. `rows` are the communicator's memory, the next round's too, of which
    compilers know nothing: what reads them is to be among what combine is given. The others are copies, which may be read at any time."""
    ep = communicator_of(communicator)
    recv = ep._open_rounds[slot] = ep.dispatch(tokens, topk_idx, topk_weights, slot=slot)
    return recv.tokens.detach(), recv.row_offsets.clone(), recv.row_counts.clone(), recv.sources.clone()


@dispatch.register_fake
def _(tokens, topk_idx, topk_weights, communicator, slot=0):
    ep = communicator_of(communicator)
    (rows, token_rows, row_bytes), local = ep._core.room, len(ep.local_experts)
    format, hidden = ep.config["format"], ep.config["hidden"]
    dtype = torch.bfloat16 if format == "bf16" else torch.float8_e4m3fn if "fp8" in format else torch.uint8
    columns = hidden if dtype != torch.uint8 else hidden // 2
    seen = tokens.new_empty_strided((token_rows, columns), (row_bytes // dtype.itemsize, 1), dtype=dtype)  # by_token with gaps between rows
    return seen, *(tokens.new_empty(shape, dtype=torch.int32) for shape in (local + 1, local, (rows, 4)))


@library.custom_op("baton::expert_mlp", mutates_args=())
def expert_mlp(rows: Tensor, gate: Tensor, up: Tensor, down: Tensor, communicator: int, slot: int = 0) -> Tensor:
    """baton.expert_mlp of what the slot's last dispatch left; `rows` are its first result, by which calls stay in order."""
    return _products.expert_mlp(received_by(communicator, slot), gate, up, down)


@expert_mlp.register_fake
def _(rows, gate, up, down, communicator, slot=0):
    return rows.new_empty((communicator_of(communicator)._core.room[0], down.shape[1]), dtype=torch.bfloat16)


@library.custom_op("baton::combine", mutates_args=())
def combine(expert_output: Tensor, num_tokens: int, communicator: int, shared_output: Optional[Tensor] = None, slot: int = 0) -> Tensor:
    """[num_tokens, hidden] float32 of ExpertParallel.combine; as many tokens as the slot's dispatch was given."""
    received_by(communicator, slot)
    ep = communicator_of(communicator)
    if num_tokens != (given := ep._core.num_tokens(slot)):
        raise InvalidArgument(f"num_tokens: {num_tokens}, expected {given}, as dispatch was given")
    out = ep.combine(expert_output, shared_output, slot=slot)
    ep._open_rounds.pop(slot)
    return out


@combine.register_fake
def _(expert_output, num_tokens, communicator, shared_output=None, slot=0):
    return expert_output.new_empty((num_tokens, expert_output.shape[1]), dtype=torch.float32)


def run_experts(ep: ExpertParallel, tokens: Tensor, topk_idx: Tensor, topk_weights: Tensor, weights: List[Tensor], slot: int) -> Tensor:
    recv = ep.dispatch(tokens, topk_idx, topk_weights, slot=slot)
    out = torch.empty(tokens.shape, dtype=torch.bfloat16, device=tokens.device)
    return ep.combine(_products.expert_mlp(recv, *weights), out=out, slot=slot)


@library.custom_op("baton::experts", mutates_args=())
def experts(tokens: Tensor, topk_idx: Tensor, topk_weights: Tensor, gate: Tensor, up: Tensor, down: Tensor, communicator: int,
            slot: int = 0) -> Tensor:
    """dispatch, expert_mlp and combine: [num_tokens, hidden] bfloat16."""
    return run_experts(communicator_of(communicator), tokens, topk_idx, topk_weights, [gate, up, down], slot)


@experts.register_fake
def _(tokens, topk_idx, topk_weights, gate, up, down, communicator, slot=0):
    return torch.empty_like(tokens, dtype=torch.bfloat16)


for one in (dispatch, expert_mlp, combine, experts):
    if hasattr(one, "register_effect"):  # PyTorch 2.11 has it: compilers keep such calls, and their order
        one.register_effect(EffectType.ORDERED)


@library.custom_op("baton::gemm", mutates_args=())
def gemm(a: Tensor, b: Tensor, bias: Optional[Tensor] = None, activation: str = "none") -> Tensor:
    """activation(a @ b.T + bias), as baton.gemm."""
    return _products.gemm(a, b, bias=bias, activation=activation)


@gemm.register_fake
def _(a, b, bias=None, activation="none"):
    return a.new_empty((a.shape[0], b.shape[0]))


@library.custom_op("baton::grouped_gemm", mutates_args=())
def grouped_gemm(a: Tensor, b: Tensor, counts: Tensor, firsts: Optional[Tensor] = None, stride: int = 0,
                 activation: str = "none") -> Tensor:
    """Each group of rows by a matrix of its own, as baton.grouped_gemm; rows of no group are zeros."""
    return _products.grouped_gemm(a, b, counts, firsts=firsts, stride=stride, activation=activation)


@grouped_gemm.register_fake
def _(a, b, counts, firsts=None, stride=0, activation="none"):
    return a.new_empty((a.shape[0], b.shape[1]))


@library.custom_op("baton::varlen_attention", mutates_args=())
def varlen_attention(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, max_seqlen_q: int, max_seqlen_k: int,
                     causal: bool = False, window_left: int = -1, window_right: int = -1, softcap: float = 0.0,
                     sinks: Optional[Tensor] = None, scale: Optional[float] = None) -> Tuple[Tensor, Tensor]:
    """(out, lse) of baton.attention.varlen."""
    return attention.varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=causal, window=(window_left, window_right),
                            softcap=softcap, sinks=sinks, scale=scale, return_lse=True)


@varlen_attention.register_fake
def _(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False, window_left=-1, window_right=-1, softcap=0.0, sinks=None,
      scale=None):
    return q.new_empty(q.shape), q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)


@library.custom_op("baton::attention_with_kvcache", mutates_args=())
def attention_with_kvcache(q: Tensor, k_cache: Tensor, v_cache: Tensor, page_table: Tensor, seqlens: Tensor, layout: str = "nhd",
                           causal: bool = False, window_left: int = -1, window_right: int = -1, softcap: float = 0.0,
                           sinks: Optional[Tensor] = None, scale: Optional[float] = None) -> Tuple[Tensor, Tensor]:
    """(out, lse) of baton.attention.with_kvcache, q being [batch, q_len, heads, head_dim]."""
    return attention.with_kvcache(q, k_cache, v_cache, page_table, seqlens, layout=layout, causal=causal, window=(window_left, window_right),
                                  softcap=softcap, sinks=sinks, scale=scale, return_lse=True)


@attention_with_kvcache.register_fake
def _(q, k_cache, v_cache, page_table, seqlens, layout="nhd", causal=False, window_left=-1, window_right=-1, softcap=0.0, sinks=None, scale=None):
    batch, q_len, heads, _ = q.shape
    return q.new_empty(q.shape), q.new_empty((batch, heads, q_len), dtype=torch.float32)
