"""Products of matrices and whole experts, on arrays of CPU ranks and of GPUs."""
import os
from typing import Any, Optional

from . import _core
from ._arrays import Array, empty, framework_of, integer, kind_of, number, shown, stream_handle, zeros
from ._errors import InvalidArgument
from ._received import Received, received
from ._world import World

alone: "dict[tuple, World]" = {}  # (process, device): a world of one rank


def device_of_array(array: Array) -> str:
    if framework_of(type(array)) != "numpy" and hasattr(array, "__dlpack_device__"):
        kind, index = array.__dlpack_device__()
        if int(kind) in (2, 13):  # DLPack's cuda and managed cuda
            return f"cuda:{index}"
    return "cpu"


def world_of(world: Optional[World], array: Array) -> World:
    """`world`, or one of a single rank on the array's device."""
    if isinstance(world, World):
        return world
    if world is not None:
        raise InvalidArgument(f"world: {type(world).__name__}, expected a baton.World or None")
    key = os.getpid(), device_of_array(array)
    if key not in alone:
        alone[key] = World.from_all_gather(None, 0, 1, key[1])
    return alone[key]


def extents(name: str, array: Array, count: int) -> tuple:
    shape = tuple(getattr(array, "shape", ()))
    if len(shape) != count:
        raise InvalidArgument(f"{name}: expected an array of {count} dimensions; found {type(array).__name__} of {list(shape)}")
    return shape


def element_of(name: str, array: Array) -> str:
    if (dtype := getattr(array, "dtype", None)) is None:
        raise InvalidArgument(f"{name}: {type(array).__name__}, expected an array that says its dtype")
    found = str(dtype).rpartition(".")[2]  # torch.bfloat16
    if not found.isidentifier():  # as of records, or of bytes in another order
        raise InvalidArgument(f"{name}: found elements of {shown(dtype)}, expected bfloat16 or float16")
    return found


def large_enough(scratch: Array, size: int) -> Array:
    """What a caller keeps for a call: the library is told where it lies, not how much of it there is."""
    if (found := extents("scratch", scratch, 1)[0]) < size:
        raise InvalidArgument(f"scratch: {found} bytes, expected at least {size}")
    return scratch


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{name}: {type(value).__name__}, expected a str")
    return value


def gemm(a: Array, b: Array, *, out: Optional[Array] = None, alpha: float = 1.0, beta: float = 0.0, bias: Optional[Array] = None,
         activation: str = "none", b_layout: str = "n_by_k", splits: int = 0, num_sms: int = 0, world: Optional[World] = None,
         stream: Any = None) -> Array:
    """out = activation(alpha * a @ b.T + beta * out + bias); with b_layout="k_by_n" a @ b.

    a     [m, k] bfloat16 or float16
    b     [n, k] of a's type, as weights lie; [k, n] with b_layout="k_by_n"
    out   [m, n] of a's type or float32; None: a new array of a's type
    bias  [n] of out's type or float32

    n and k are multiples of 8. Summed in fp32 and rounded once at the end; the same bits on every run. activation: none, relu, silu, gelu.
    On GPUs it only enqueues on `stream` and can be captured; on the CPU the result is there when it returns.
    """
    if text("b_layout", b_layout) not in ("n_by_k", "k_by_n"):
        raise InvalidArgument(f"b_layout: {b_layout!r}, expected 'n_by_k' or 'k_by_n'")
    m, _ = extents("a", a, 2)
    n = extents("b", b, 2)[0 if b_layout == "n_by_k" else 1]
    on, alpha, beta = world_of(world, a), number("alpha", alpha), number("beta", beta)
    if out is None:
        out = (zeros if beta else empty)((m, n), element_of("a", a), framework_of(kind_of(a)), on, stream=stream)
    _core.gemm(on._core, (a, b, out, bias), (alpha, beta), text("activation", activation), (b_layout == "k_by_n", integer("splits", splits), integer("num_sms", num_sms)),
               stream_handle(stream, on._gpu, kind_of(a)))
    return out


def grouped_gemm(a: Array, b: Array, counts: Array, *, firsts: Optional[Array] = None, stride: int = 0, a_rows: Optional[Array] = None,
                 out: Optional[Array] = None, bias: Optional[Array] = None, activation: str = "none", row_weights: Optional[Array] = None,
                 num_sms: int = 0, world: Optional[World] = None, stream: Any = None) -> Array:
    """Each group of rows by a matrix of its own: out[r] = row_weights[r] * activation(b[g] @ a[r] + bias[g]) for the rows r of group g.

    a            [rows, k] bfloat16 or float16
    b            [groups, n, k] of a's type
    counts       [groups] int32: rows of each group, read on the device
    firsts       [groups] int32: the first row of each group; None: group g begins at g * stride
    a_rows       [rows of out] int32: row r of out is made of this row of a; None: of row r
    out          [rows, n] of a's type; rows of no group stay. None: a new array of zeros
    bias         [groups, n] of a's type or float32
    row_weights  [rows of out] float32
    """
    rows = extents("a" if a_rows is None else "a_rows", a if a_rows is None else a_rows, 2 if a_rows is None else 1)[0]
    on = world_of(world, a)
    if out is None:
        out = zeros((rows, extents("b", b, 3)[1]), element_of("a", a), framework_of(kind_of(a)), on, stream=stream)
    _core.grouped_gemm(on._core, (a, b, out, counts, firsts, a_rows, bias, row_weights), integer("stride", stride),
                       text("activation", activation), integer("num_sms", num_sms),
                       stream_handle(stream, on._gpu, kind_of(a)))
    return out


def expert_mlp(recv: Received, gate: Array, up: Array, down: Array, *, gate_scales: Optional[Array] = None,
               up_scales: Optional[Array] = None, down_scales: Optional[Array] = None, gate_bias: Optional[Array] = None,
               up_bias: Optional[Array] = None, down_bias: Optional[Array] = None, gating: str = "silu",
               row_weights: Optional[Array] = None, out: Optional[Array] = None, scratch: Optional[Array] = None,
               num_sms: int = 0, stream: Any = None) -> Array:
    """Each received row through its expert: out[r] = down @ (silu(gate @ x_r) * (up @ x_r)), what combine takes.

    gate, up     [local experts, intermediate, hidden] bfloat16, or float8_e4m3fn with scales of 128x128 blocks
    down         [local experts, hidden, intermediate]
    *_scales     [local experts, ceil(n / 128), ceil(k / 128)] float32
    *_bias       [local experts, n] bfloat16
    row_weights  [max_rows] float32: weights that experts multiply by; combine multiplies by those that dispatch was given
    out          [max_rows, hidden] bfloat16; rows outside every expert stay. None: a new array, in which they hold anything
    gating       silu, or gpt-oss's clamped
    num_sms      that work on it on a GPU, where others do something else; 0: all
    """
    world = World(_core.world_of(received(recv)))
    framework = recv._framework
    if out is None:
        out = empty((recv.max_rows, recv.hidden), "bfloat16", framework, world, stream=stream)
    intermediate, is_fp8 = extents("gate", gate, 3)[1], element_of("gate", gate).startswith("float8")
    if bytes_of_scratch := _core.expert_mlp_scratch_bytes(recv, intermediate, is_fp8):
        scratch = empty((bytes_of_scratch,), "uint8", framework, world, "scratch", stream) if scratch is None else large_enough(scratch, bytes_of_scratch)
    _core.expert_mlp(recv, (gate, up, down, gate_scales, up_scales, down_scales, gate_bias, up_bias, down_bias, row_weights, out,
                                  scratch), text("gating", gating), integer("num_sms", num_sms), stream_handle(stream, world._gpu, kind_of(gate)))
    return out
