"""Products and experts on arrays of the CPU, beside numpy in double."""
import ml_dtypes
import numpy
import pytest

import baton
from rounds import BF16, local, round_data

RANDOM = numpy.random.default_rng(7)


def normal(*shape, dtype=BF16):
    return RANDOM.standard_normal(shape).astype(dtype)


def double(a):
    return a.astype(numpy.float64)


def assert_near(found, exact, size, k, bits):
    """Off by the last rounding, of `bits` bits, and one rounding of fp32 for each of the k sums and a few more for what comes behind."""
    allowed = numpy.abs(exact) * 2.0 ** -bits + size * (k + 8) * 2.0 ** -23 + 2.0 ** -24
    difference = numpy.abs(double(found) - exact)
    assert (difference <= allowed).all(), (difference - allowed).max()


@pytest.mark.parametrize("dtype,bits", [(BF16, 8), (numpy.float16, 11)])
@pytest.mark.parametrize("b_layout", ["n_by_k", "k_by_n"])
def test_a_product_is_that_of_numpy(dtype, bits, b_layout):
    a, b = normal(37, 64, dtype=dtype), normal(48, 64, dtype=dtype)
    exact, size = double(a) @ double(b).T, numpy.abs(double(a)) @ numpy.abs(double(b)).T
    given = b if b_layout == "n_by_k" else numpy.ascontiguousarray(b.T)
    found = baton.gemm(a, given, b_layout=b_layout)
    assert found.dtype == dtype
    assert_near(found, exact, size, 64, bits)
    assert_near(baton.gemm(a, given, b_layout=b_layout, out=numpy.empty((37, 48), numpy.float32)), exact, size, 64, 24)


def test_alpha_beta_bias_and_activation():
    a, b, bias = normal(8, 32), normal(16, 32), normal(16, dtype=numpy.float32)
    out = normal(8, 16, dtype=numpy.float32)
    exact = numpy.maximum(0.5 * (double(a) @ double(b).T) + 2 * double(out) + double(bias), 0)
    size = numpy.abs(double(a)) @ numpy.abs(double(b)).T + 2 * numpy.abs(double(out)) + numpy.abs(double(bias))
    assert baton.gemm(a, b, out=out, alpha=0.5, beta=2, bias=bias, activation="relu") is out
    assert_near(out, exact, size, 32, 24)


def test_each_group_has_a_matrix_of_its_own():
    a, b = normal(20, 32), normal(3, 24, 32)
    counts, firsts = numpy.array([4, 0, 9], numpy.int32), numpy.array([0, 4, 8], numpy.int32)
    found = baton.grouped_gemm(a, b, counts, firsts=firsts)
    for group in (0, 2):
        rows = slice(firsts[group], firsts[group] + counts[group])
        exact, size = double(a[rows]) @ double(b[group]).T, numpy.abs(double(a[rows])) @ numpy.abs(double(b[group])).T
        assert_near(found[rows], exact, size, 32, 8)
    assert (found[4:8] == 0).all() and (found[17:] == 0).all()


def test_experts_on_received_rows_are_those_of_numpy():
    data = round_data(num_experts=8, top_k=2, hidden=64)
    ep = local(data)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    for rank, (one, rows) in enumerate(zip(ep, recv)):
        gate, up, down = normal(2, 32, 64), normal(2, 32, 64), normal(2, 64, 32)
        found = baton.expert_mlp(rows, gate, up, down)
        assert found.shape == (rows.max_rows, 64) and found.dtype == BF16
        for e, (first, count) in enumerate(zip(rows.row_offsets, rows.row_counts)):
            x = double(rows.tokens[first:first + count])
            g, u = x @ double(gate[e]).T, x @ double(up[e]).T
            h = g / (1 + numpy.exp(-g)) * u
            exact, size = h @ double(down[e]).T, numpy.abs(h) @ numpy.abs(double(down[e])).T
            difference = numpy.abs(double(found[first:first + count]) - exact)
            # h is rounded to bf16, 2^-8 of each addend, and the result once more; sums of 64 in fp32 before that are off by 2^-18 of
            # what they add up, which is 2^-12 of the addends behind them
            assert (difference <= numpy.abs(exact) * 2.0 ** -8 + size * (2.0 ** -8 + 2.0 ** -12)).all()
        assert list(one.local_experts) == list(rows.expert_ids)


def test_experts_in_fp8_take_scales():
    data = round_data(num_experts=4, top_k=1, hidden=128)
    ep = local(data, format="fp8")
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)[0]
    weights = {name: numpy.ones((1, 128, 128), ml_dtypes.float8_e4m3fn) for name in ("gate", "up", "down")}
    scales = {f"{name}_scales": numpy.full((1, 1, 1), 2.0 ** -7, numpy.float32) for name in weights}
    out = numpy.zeros((recv.max_rows, 128), BF16)
    assert baton.expert_mlp(recv, **weights, **scales, out=out) is out
    count = int(recv.row_counts[0])
    assert numpy.isfinite(double(out)).all() and (out[:count] != 0).any() and (out[count:] == 0).all()  # other rows stay
    assert (baton.expert_mlp(recv, **weights, **scales)[:count] == out[:count]).all()
    with pytest.raises(baton.InvalidArgument, match=r"up_scales: expected float32 \[1, 1, 1\] on cpu.*found float32 \[1, 2, 1\]"):
        baton.expert_mlp(recv, **weights, **{**scales, "up_scales": numpy.ones((1, 2, 1), numpy.float32)})


@pytest.mark.parametrize("call,says", [
    (lambda: baton.gemm(normal(4, 32), normal(16, 24)), r"b: expected bfloat16 \[any, 32\] on cpu, contiguous; found bfloat16 \[16, 24\]"),
    (lambda: baton.gemm(normal(4, 32), normal(16, 32, dtype=numpy.float16)), r"b: expected bfloat16 .*; found float16"),
    (lambda: baton.gemm(normal(4, 32, dtype=numpy.float32), normal(16, 32)), r"a: expected bfloat16 or float16 .*; found float32"),
    (lambda: baton.gemm(normal(4, 32), normal(16, 32), activation="swish"), r"activation: 'swish', expected one of"),
    (lambda: baton.gemm(normal(4, 32), normal(16, 32), b_layout="t"), r"b_layout: 't', expected"),
    (lambda: baton.gemm(normal(4, 30), normal(16, 30)), r"k: 30 is not a multiple of 8"),
    (lambda: baton.gemm(normal(32), normal(16, 32)), r"a: expected an array of 2 dimensions; found ndarray of \[32\]"),
    (lambda: baton.grouped_gemm(normal(4, 32), normal(2, 8, 32), numpy.ones(2, numpy.int64)), r"counts: expected int32 \[2\] .*; found int64"),
])
def test_wrong_arguments_are_named_with_what_was_expected_and_found(call, says):
    with pytest.raises(baton.InvalidArgument, match=says):
        call()
