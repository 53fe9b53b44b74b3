"""Rows of a dispatch in memory for as many of each expert as may come, and back."""
from typing import Any, NamedTuple, Optional

from . import _core
from ._arrays import Array, empty, integer, kind_of, stream_handle
from ._errors import InvalidArgument
from ._products import extents
from ._received import Received, received
from ._world import World


class Padded(NamedTuple):
    """What `pad_rows` gives: row w of the rank's expert e at [e, w], of which there are row_counts[e]; the rest holds anything."""

    tokens: Array                  # [local experts, capacity, hidden] in the communicator's format
    scales: Optional[Array]        # [local experts, hidden / 128, capacity] float32 with fp8, an expert's rows next to each other
    row_counts: Array              # [local experts] int32
    source_tokens: Optional[Array] = None
    source_ranges: Optional[Array] = None


def pad_rows(recv: Received, capacity: int, *, tokens: Optional[Array] = None, scales: Optional[Array] = None, row_counts: Optional[Array] = None,
             source_tokens: Optional[Array] = None, source_ranges: Optional[Array] = None, num_sms: int = 0, stream: Any = None) -> Padded:
    """Each expert's rows at a place of its own: tokens[e, w] is row recv.row_offsets[e] + w, for w < min(recv.row_counts[e], capacity).

    What kernels of experts take that know an expert's rows by its number alone, as DeepGEMM's masked ones. One kernel, which asks nothing of
    the host and can be captured; of communicators with format bf16 or fp8 and rows="by_expert". Arrays that are given are written, others are made:

    tokens         [local experts, capacity, hidden] of the communicator's format
    scales         with fp8 [local experts, hidden / 128, capacity] float32; or, of scales that are powers of two, [local experts, hidden / 512,
                   capacity] int32 of four exponents each
    row_counts     [local experts] int32

    and these are written if they are given:

    source_tokens  [local experts, capacity] int32: the row's token's index on the rank that it is from
    source_ranges  [local experts, ranks] int64: w of a rank's first row << 32 | how many it has; an expert's rows lie by rank
    """
    world, framework, experts = World(_core.world_of(received(recv))), recv._framework, recv.num_local_experts
    if integer("capacity", capacity) < 1:
        raise InvalidArgument(f"capacity: {capacity}, expected at least 1")
    if recv.format not in ("bf16", "fp8"):
        raise InvalidArgument(f"recv: rows in {recv.format}, expected bf16 or fp8")
    is_fp8 = recv.format == "fp8"
    if tokens is None:
        tokens = empty((experts, capacity, recv.hidden), "float8_e4m3fn" if is_fp8 else "bfloat16", framework, world, "tokens", stream)
    if scales is None and is_fp8:
        scales = empty((experts, recv.hidden // 128, capacity), "float32", framework, world, "scales", stream)
    if row_counts is None:
        row_counts = empty((experts,), "int32", framework, world, "row_counts", stream)
    out = Padded(tokens, scales, row_counts, source_tokens, source_ranges)
    _core.pad_rows(recv, tuple(out), capacity, integer("num_sms", num_sms), stream_handle(stream, world._gpu, kind_of(tokens)))
    return out


def tell_rows(recv: Received, capacity: int, *, scales: Optional[Array], row_counts: Array, source_tokens: Array, source_ranges: Array,
              stream: Any = None) -> None:
    """What pad_rows says of rows, of a communicator with rows_of_expert, whose rows lie where pad_rows would put them."""
    gpu = World(_core.world_of(recv))._gpu
    enough_sms = 32  # for what is told of some thousand rows: the kernel's own choice is for all that there is memory for
    told = None, scales, row_counts, source_tokens, source_ranges
    _core.pad_rows(recv, told, capacity, enough_sms, stream_handle(stream, gpu, kind_of(row_counts)))


def unpad_rows(recv: Received, padded: Array, *, out: Optional[Array] = None, num_sms: int = 0, stream: Any = None) -> Array:
    """The way back, for what experts made of them: out[recv.row_offsets[e] + w] = padded[e, w], what combine takes.

    padded  [local experts, capacity, hidden] bfloat16
    out     [max_rows, hidden] bfloat16; rows of no expert stay. None: a new array, in which they hold anything
    """
    world = World(_core.world_of(received(recv)))
    extents("padded", padded, 3)
    if out is None:
        out = empty((recv.max_rows, recv.hidden), "bfloat16", recv._framework, world, stream=stream)
    _core.unpad_rows(recv, (padded, out), integer("num_sms", num_sms), stream_handle(stream, world._gpu, kind_of(padded)))
    return out
