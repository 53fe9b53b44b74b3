"""Attention of one sequence in float64, and how far float32 may be off."""
import numpy


def visible(rows, keys, causal, window):
    """[rows, keys]: who sees whom; the last row is level with the last key."""
    left, right = window
    level = numpy.arange(rows)[:, None] + keys - rows
    j = numpy.arange(keys)[None, :]
    seen = numpy.ones((rows, keys), bool)
    if left >= 0:
        seen &= j >= level - left
    if causal or right >= 0:
        seen &= j <= level + (0 if causal else right)
    return seen


class exact:
    """out [rows, heads, head_dim], lse [heads, rows], and what may be off by how much."""

    def __init__(self, q, k, v, *, causal=False, window=(-1, -1), softcap=0.0, sinks=None, scale=None, weights_are_rounded=False):
        element, q, k, v = q.dtype, *(array.astype(numpy.float64) for array in (q, k, v))
        rows, heads, head_dim = q.shape
        keys, kv_heads, _ = k.shape
        scale = head_dim ** -0.5 if scale is None else scale
        share = heads // kv_heads
        k, v = numpy.repeat(k, share, axis=1), numpy.repeat(v, share, axis=1)
        x = numpy.einsum("ihd,jhd->hij", q, k) * scale
        off = numpy.einsum("ihd,jhd->hij", abs(q), abs(k)) * abs(scale) * (head_dim + 4) * 2.0 ** -24
        x = softcap * numpy.tanh(x / softcap) if softcap else x
        off = off + abs(x) * 2.0 ** -21  # of the cap, and of exp
        seen = visible(rows, keys, causal, window)[None]
        x = numpy.where(seen, x, -numpy.inf)
        most = numpy.max(x, axis=2, initial=-numpy.inf) if sinks is None else numpy.maximum(numpy.max(x, axis=2, initial=-numpy.inf), sinks[:, None])
        most = numpy.where(seen.any(axis=2), most, 0)
        total = numpy.exp(x - most[..., None]).sum(axis=2)
        if sinks is not None:
            total = total + numpy.where(seen.any(axis=2), numpy.exp(sinks[:, None].astype(numpy.float64) - most), 0)
        with numpy.errstate(divide="ignore"):
            self.lse = numpy.log(total) + most
        w = numpy.exp(x - numpy.where(total > 0, self.lse, 0)[..., None])
        self.out = numpy.einsum("hij,jhd->ihd", w, v)
        worst = numpy.max(numpy.where(seen, off, 0), axis=2, initial=0.0) + (keys + 8) * 2.0 ** -24
        rounding = 2.0 ** -11 if element == numpy.float16 else 2.0 ** -8
        of_logits = worst
        if weights_are_rounded:  # to v's element, as tensor cores take them
            worst = worst + rounding
        size = numpy.einsum("hij,jhd->ihd", w, abs(v))
        self.allowed = rounding * abs(self.out) + 2.5 * worst.T[..., None] * size + 2.0 ** -25  # the last: of subnormal fp16
        self.lse_allowed = of_logits + abs(numpy.where(numpy.isfinite(self.lse), self.lse, 0)) * 2.0 ** -22

    def assert_close(self, out, lse=None):
        difference = abs(out.astype(numpy.float64) - self.out)
        assert (difference <= self.allowed).all(), (difference / self.allowed).max()
        if lse is None:
            return
        assert (numpy.isneginf(lse) == numpy.isneginf(self.lse)).all()
        known = numpy.isfinite(self.lse)
        assert (abs(lse[known].astype(numpy.float64) - self.lse[known]) <= self.lse_allowed[known]).all()
