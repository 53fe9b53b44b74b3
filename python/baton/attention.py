"""Attention, with the arguments of flash_attn: sequences one after the other, or keys in the pages of a cache.

On CPU arrays of any head_dim that is a multiple of 8 up to 512, of 16 with a cache of float8_e4m3fn; on GPUs `supports` says what there are
kernels for, and why not.
"""
import operator
from typing import Any, NamedTuple, Optional, Tuple

from . import _core
from ._arrays import Array, flag, framework_of, integer, kind_of, number, shown, stream_handle, zeros
from ._errors import InvalidArgument
from ._products import element_of, extents, large_enough, world_of
from ._world import World, split_device

__all__ = ["Support", "supports", "varlen", "with_kvcache"]


class Support(NamedTuple):
    """Whether there is a kernel, as which it counts in `if`, and if not, why."""

    supported: bool
    reason: str

    def __bool__(self) -> bool:
        return self.supported


def options_of(causal: bool, window: Tuple[int, int], softcap: float, scale: Optional[float], num_sms: int) -> tuple:
    try:
        left, right = (operator.index(bound) for bound in window)
    except (TypeError, ValueError, NotImplementedError):  # a memoryview of two dimensions goes through none
        raise InvalidArgument(f"window: {shown(window)}, expected (left, right), -1 for no bound") from None
    return (None if scale is None else number("scale", scale), flag("causal", causal), (integer("window", left), integer("window", right)),
            number("softcap", softcap), integer("num_sms", num_sms))


def name_of(dtype: Any) -> str:
    return getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]  # numpy's types, and torch.bfloat16


def supports(*, heads: int, kv_heads: int, head_dim: int, dtype: str = "bfloat16", device: str = "auto", page_size: int = 0,
             causal: bool = False, window: Tuple[int, int] = (-1, -1), softcap: float = 0.0, sinks: bool = False,
             scale: Optional[float] = None, cache_dtype: Optional[str] = None) -> Support:
    """Whether `varlen`, or with a page_size above 0 `with_kvcache`, can be called so: (supported, reason). Asks nothing of a device.

    `device` "auto" is "cuda" where the package has GPU kernels and a GPU here can run them. `cache_dtype` of None is `dtype`.
    """
    kind = split_device(device)[0]
    if kind == "auto":
        kind = World.from_all_gather(None, 0, 1, "auto").device
    named, of_cache = name_of(dtype), name_of(dtype if cache_dtype is None else cache_dtype)
    sizes = integer("heads", heads), integer("kv_heads", kv_heads), integer("head_dim", head_dim)
    reason = _core.why_no_attention(kind, (named, of_cache), sizes, integer("page_size", page_size, 0),
                                    options_of(causal, window, softcap, scale, 0), flag("sinks", sinks))
    return Support(not reason, reason)


def longest_of(name: str, length: Optional[int]) -> int:
    return -1 if length is None else integer(name, length, 0)


def new_scratch_of(scratch: Optional[Array], kind: type, world: World, stream: Any) -> Any:
    def new_scratch(size: int) -> Array:
        return zeros((size,), "uint8", framework_of(kind), world, "scratch", stream) if scratch is None else large_enough(scratch, size)
    return new_scratch


def varlen(q: Array, k: Array, v: Array, cu_seqlens_q: Array, cu_seqlens_k: Array, max_seqlen_q: Optional[int] = None,
           max_seqlen_k: Optional[int] = None, *, causal: bool = False, window: Tuple[int, int] = (-1, -1), softcap: float = 0.0,
           sinks: Optional[Array] = None, scale: Optional[float] = None, out: Optional[Array] = None, lse: Optional[Array] = None,
           return_lse: bool = False, scratch: Optional[Array] = None, num_sms: int = 0, world: Optional[World] = None,
           stream: Any = None) -> Any:
    """Attention of each sequence's rows to its own keys, as flash_attn_varlen_func. Returns out, or (out, lse) with return_lse.

    q             [total_q, heads, head_dim] bfloat16 or float16; rows may have gaps between them, as in a product of q, k and v
    k, v          [total_k, kv_heads, head_dim] of q's type; head h of q meets head h // (heads // kv_heads), heads up to 16 times kv_heads
    cu_seqlens_q  [batch + 1] int32, read on the device: sequence b has the rows from cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1
    cu_seqlens_k  [batch + 1] int32: the same of k and v
    max_seqlen_*  of the longest sequence; None: as many as there are rows, which is right and may start work for nothing
    causal        row i of n sees keys up to i + m - n of m: the last row is level with the last key
    window        (left, right) keys around that one; -1: no bound
    softcap       logits x become softcap * tanh(x / softcap); 0: they stay
    sinks         [heads] float32: a logit of each head that joins the denominator alone
    scale         of q . k; None: 1 / sqrt(head_dim)
    out           as q; rows of no sequence stay. None: a new array of zeros
    lse           [heads, total_q] float32, natural logarithms, sinks in it; None: a new one if return_lse asks for it
    scratch       uint8, if the call needs any: zeros before its first call, which each call leaves so; None: a new one

    A row that sees no key gives 0 and an lse of -inf. Sums, logits and weights are float32; out is rounded once. The same bits on every
    run. On GPUs it only enqueues on `stream`, and can be captured after a first call; on the CPU the result is there when it returns.
    Raises Unsupported where there is no kernel, with what `supports` says: nothing falls back to something slower.
    """
    total_q, heads, _ = extents("q", q, 3)
    return_lse = flag("return_lse", return_lse)
    on, kind = world_of(world, q), kind_of(q)
    if out is None:
        out = zeros(q.shape, element_of("q", q), framework_of(kind), on, stream=stream)
    if lse is None and return_lse:
        lse = zeros((heads, total_q), "float32", framework_of(kind), on, "lse", stream)
    _core.varlen_attention(on._core, (q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, sinks),
                           options_of(causal, window, softcap, scale, num_sms),
                           (longest_of("max_seqlen_q", max_seqlen_q), longest_of("max_seqlen_k", max_seqlen_k)),
                           new_scratch_of(scratch, kind, on, stream), stream_handle(stream, on._gpu, kind))
    return (out, lse) if return_lse else out


def with_kvcache(q: Array, k_cache: Array, v_cache: Array, page_table: Array, seqlens: Array, *, cu_seqlens_q: Optional[Array] = None,
                 max_seqlen_q: Optional[int] = None, layout: str = "nhd", causal: bool = False, window: Tuple[int, int] = (-1, -1),
                 softcap: float = 0.0, sinks: Optional[Array] = None, scale: Optional[float] = None, k_descale: Optional[Array] = None,
                 v_descale: Optional[Array] = None, out: Optional[Array] = None, lse: Optional[Array] = None, return_lse: bool = False,
                 scratch: Optional[Array] = None, num_sms: int = 0, world: Optional[World] = None, stream: Any = None) -> Any:
    """The same of keys in pages, as flash_attn_with_kvcache: key j of sequence b is in slot j % page_size of page
    page_table[b, j // page_size]. Returns out, or (out, lse) with return_lse.

    q                 [batch, q_len, heads, head_dim] bfloat16 or float16; [total_q, heads, head_dim] with cu_seqlens_q
    k_cache, v_cache  [num_pages, page_size, kv_heads, head_dim] of q's type or float8_e4m3fn; [num_pages, kv_heads, page_size, head_dim]
                      with layout "hnd". Pages may have gaps between them, the same in both
    page_table        [batch, max_pages] int32, read on the device; entries that no visible key needs may be anything
    seqlens           [batch] int32, read on the device: keys of each sequence, those of the rows of q among them; 0: the sequence gives
                      0 and -inf
    cu_seqlens_q      [batch + 1] int32: rows of q of each sequence, as in varlen; then lse is [heads, total_q]
    *_descale         [1] or [kv_heads] float32, both of one shape, read on the device: what values of caches of float8_e4m3fn are
                      multiplied by; None: 1. Other caches have none
    lse               [batch, heads, q_len] float32

    All else as in varlen. The cache is read only: what this step adds to it is written before the call.
    """
    if not isinstance(layout, str):
        raise InvalidArgument(f"layout: {shown(layout)}, expected 'nhd' or 'hnd'")
    shape = extents("q", q, 4 if cu_seqlens_q is None else 3)
    return_lse = flag("return_lse", return_lse)
    on, kind = world_of(world, q), kind_of(q)
    if out is None:
        out = zeros(q.shape, element_of("q", q), framework_of(kind), on, stream=stream)
    if lse is None and return_lse:
        of_lse = (shape[0], shape[2], shape[1]) if cu_seqlens_q is None else (shape[1], shape[0])
        lse = zeros(of_lse, "float32", framework_of(kind), on, "lse", stream)
    _core.attention_with_kvcache(on._core, (q, k_cache, v_cache, out, lse, page_table, seqlens, cu_seqlens_q, sinks, k_descale,
                                            v_descale),
                                 options_of(causal, window, softcap, scale, num_sms),
                                 (layout, longest_of("max_seqlen_q", max_seqlen_q)), new_scratch_of(scratch, kind, on, stream),
                                 stream_handle(stream, on._gpu, kind))
    return (out, lse) if return_lse else out
