"""Attention of CPU arrays against float64."""
import copy

import ml_dtypes
import numpy
import pytest

import baton
from baton import attention
from exact_attention import exact
from foreign import foreign_array

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
ONE = baton.World.from_all_gather(None, 0, 1, "cpu")


class batch:
    """Sequences of some lengths, one after the other."""

    def __init__(self, rows, keys, heads=4, kv_heads=2, head_dim=64, element=BF16, seed=1):
        random = numpy.random.default_rng(seed)
        self.rows, self.keys = rows, keys
        self.q = random.standard_normal((sum(rows), heads, head_dim)).astype(element)
        self.k, self.v = (random.standard_normal((sum(keys), kv_heads, head_dim)).astype(element) for _ in range(2))
        self.cu_q, self.cu_k = (numpy.cumsum([0, *lengths]).astype(numpy.int32) for lengths in (rows, keys))
        self.sinks = random.standard_normal(heads).astype(numpy.float32)

    def narrowed(self, k_descale, v_descale):
        """This with keys and values of e4m3; and with what they count as, which is exact where descales are powers of two."""
        narrow, counted = copy.copy(self), copy.copy(self)
        narrow.k, narrow.v = self.k.astype(E4M3), self.v.astype(E4M3)
        for name, values, descale in (("k", narrow.k, k_descale), ("v", narrow.v, v_descale)):
            by_head = numpy.float32(1) if descale is None else descale[:, None]
            setattr(counted, name, (values.astype(numpy.float32) * by_head).astype(self.q.dtype))
        return narrow, counted

    def given(self):
        return self.q, self.k, self.v, self.cu_q, self.cu_k

    def assert_close(self, out, lse=None, **options):
        for b in range(len(self.rows)):
            rows, keys = slice(self.cu_q[b], self.cu_q[b + 1]), slice(self.cu_k[b], self.cu_k[b + 1])
            expected = exact(self.q[rows], self.k[keys], self.v[keys], **options)
            expected.assert_close(out[rows], None if lse is None else lse[:, rows])

    def paged(self, page_size, layout, gap=0, seed=2):
        """k_cache, v_cache, page_table: pages in any order, with `gap` times a page between them."""
        random = numpy.random.default_rng(seed)
        _, kv_heads, head_dim = self.k.shape
        per_sequence = [-(-n // page_size) for n in self.keys]
        num_pages, most = sum(per_sequence) + 2, max(per_sequence) + 1
        places = random.permutation(num_pages)
        table = numpy.full((len(self.keys), most), -1, numpy.int32)
        caches = [numpy.full((num_pages, 1 + gap, page_size, kv_heads, head_dim), numpy.nan, self.k.dtype) for _ in range(2)]
        for b, count in enumerate(per_sequence):
            for page in range(count):
                place, places = places[0], places[1:]
                table[b, page] = place
                first = page * page_size
                filled = min(page_size, self.keys[b] - first)
                for cache, of in zip(caches, (self.k, self.v)):
                    cache[place, 0, :filled] = of[self.cu_k[b] + first:self.cu_k[b] + first + filled]
        if layout == "hnd":
            caches = [numpy.ascontiguousarray(cache.transpose(0, 1, 3, 2, 4)) for cache in caches]
        return *(cache[:, 0] for cache in caches), table


ROWS, KEYS = [5, 1, 0, 17, 3], [9, 40, 6, 17, 0]
OPTIONS = [{}, {"causal": True}, {"window": (4, 0)}, {"window": (3, 2)}, {"window": (-1, 5)}, {"softcap": 2.0}, {"scale": 0.3},
           {"causal": True, "window": (7, -1), "softcap": 5.0, "scale": 0.2}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("with_sinks", [False, True], ids=["", "sinks"])
def test_sequences_of_any_lengths(options, with_sinks):
    data = batch(ROWS, KEYS)
    options = {**options, **({"sinks": data.sinks} if with_sinks else {})}
    out, lse = attention.varlen(*data.given(), return_lse=True, **options)
    assert out.dtype == BF16 and out.shape == data.q.shape and lse.dtype == numpy.float32 and lse.shape == (4, sum(ROWS))
    data.assert_close(out, lse, **options)


@pytest.mark.parametrize("element", [BF16, numpy.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("heads, kv_heads, head_dim", [(1, 1, 8), (16, 1, 128), (6, 3, 72), (2, 2, 256), (4, 1, 512)])
def test_heads_of_many_sizes(element, heads, kv_heads, head_dim):
    data = batch([3, 8], [12, 8], heads, kv_heads, head_dim, element)
    out = attention.varlen(*data.given(), 8, 12, causal=True)
    assert out.dtype == element
    data.assert_close(out, causal=True)


@pytest.mark.parametrize("layout", ["nhd", "hnd"])
@pytest.mark.parametrize("page_size, gap", [(16, 0), (1, 0), (5, 1)])
@pytest.mark.parametrize("options", OPTIONS[:4] + OPTIONS[-1:], ids=str)
def test_keys_in_pages_are_the_same_keys(layout, page_size, gap, options):
    data = batch([2, 2, 2, 2], [9, 40, 2, 17])
    k_cache, v_cache, table = data.paged(page_size, layout, gap)
    q, seqlens = data.q.reshape(4, 2, 4, 64), numpy.array(data.keys, numpy.int32)
    out, lse = attention.with_kvcache(q, k_cache, v_cache, table, seqlens, layout=layout, return_lse=True, **options)
    in_rows, lse_in_rows = attention.varlen(*data.given(), return_lse=True, **options)
    assert out.shape == q.shape and (out.reshape(in_rows.shape) == in_rows).all()
    assert lse.shape == (4, 4, 2) and (lse.transpose(1, 0, 2).reshape(4, 8) == lse_in_rows).all()
    data.assert_close(out.reshape(data.q.shape), **options)


def test_prompts_of_any_length_over_pages():
    data = batch(ROWS, [9, 40, 6, 17, 4])
    k_cache, v_cache, table = data.paged(8, "nhd")
    out, lse = attention.with_kvcache(data.q, k_cache, v_cache, table, numpy.array(data.keys, numpy.int32), cu_seqlens_q=data.cu_q,
                                      max_seqlen_q=17, causal=True, sinks=data.sinks, return_lse=True)
    data.assert_close(out, lse, causal=True, sinks=data.sinks)


def descales(*values):
    return numpy.array(values, numpy.float32)


DESCALES = [{}, {"k_descale": descales(0.5), "v_descale": descales(4)}, {"k_descale": descales(0.5, 2), "v_descale": descales(8, 0.25)},
            {"k_descale": descales(2, 0.25)}, {"v_descale": descales(4)}]


@pytest.mark.parametrize("element", [BF16, numpy.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("layout, gap", [("nhd", 0), ("hnd", 1)])
@pytest.mark.parametrize("options", [{}, {"causal": True, "window": (7, -1), "softcap": 5.0, "scale": 0.2}], ids=str)
@pytest.mark.parametrize("by", DESCALES, ids=str)
def test_a_cache_of_e4m3_counts_as_its_values_times_descales(element, layout, gap, options, by):
    narrow, counted = batch([2, 2, 2, 2], [9, 40, 2, 17], element=element).narrowed(by.get("k_descale"), by.get("v_descale"))
    k_cache, v_cache, table = narrow.paged(5, layout, gap)
    assert k_cache.dtype == E4M3 and v_cache.dtype == E4M3
    out, lse = attention.with_kvcache(narrow.q.reshape(4, 2, 4, 64), k_cache, v_cache, table, numpy.array(narrow.keys, numpy.int32),
                                      layout=layout, sinks=narrow.sinks, return_lse=True, **by, **options)
    assert out.dtype == element
    counted.assert_close(out.reshape(narrow.q.shape), lse.transpose(1, 0, 2).reshape(4, 8), sinks=narrow.sinks, **options)


def test_prompts_over_a_cache_of_e4m3():
    by = DESCALES[2]
    narrow, counted = batch(ROWS, [9, 40, 6, 17, 4]).narrowed(**by)
    k_cache, v_cache, table = narrow.paged(8, "nhd")
    out, lse = attention.with_kvcache(narrow.q, k_cache, v_cache, table, numpy.array(narrow.keys, numpy.int32), cu_seqlens_q=narrow.cu_q,
                                      causal=True, return_lse=True, **by)
    counted.assert_close(out, lse, causal=True)


def test_one_head_of_k_has_one_descale():
    by = DESCALES[1]
    narrow, counted = batch([1, 1], [12, 5], heads=4, kv_heads=1).narrowed(**by)
    k_cache, v_cache, table = narrow.paged(8, "nhd")
    out = attention.with_kvcache(narrow.q[:, None], k_cache, v_cache, table, numpy.array(narrow.keys, numpy.int32), **by)
    counted.assert_close(out[:, 0])


def test_a_cache_of_e4m3_comes_by_dlpack():
    narrow, counted = batch([1, 1], [12, 5]).narrowed(None, None)
    *caches, table = narrow.paged(8, "nhd")
    code = 10  # DLPack's of float8_e4m3fn
    k_cache, v_cache = (foreign_array(numpy.ascontiguousarray(cache).view(numpy.uint8), code, 8) for cache in caches)
    out = attention.with_kvcache(narrow.q[:, None], k_cache, v_cache, table, numpy.array(narrow.keys, numpy.int32))
    counted.assert_close(out[:, 0])


def test_a_sequence_that_pads_a_batch_touches_no_page():
    data = batch([1, 1], [12, 12])
    k_cache, v_cache, table = data.paged(8, "nhd")
    table[1] = -1
    out, lse = attention.with_kvcache(data.q[:, None], k_cache, v_cache, table, numpy.array([12, 0], numpy.int32), return_lse=True)
    assert (out[1] == 0).all() and numpy.isneginf(lse[1]).all()
    exact(data.q[:1], data.k[:12], data.v[:12]).assert_close(out[0])


def test_rows_may_have_gaps_and_out_may_be_given():
    data = batch([5, 4], [5, 4], heads=2, kv_heads=2)
    together = numpy.stack([data.q, data.k, data.v], axis=1)  # as one product makes them
    q, k, v = (together[:, i] for i in range(3))
    wide = numpy.full((9, 3, 2, 64), 7, BF16)
    lse = numpy.zeros((2, 9), numpy.float32)
    out = attention.varlen(q, k, v, data.cu_q, data.cu_k, out=wide[:, 1], lse=lse)
    data.assert_close(out, lse)
    assert (wide[:, 0] == 7).all() and (wide[:, 2] == 7).all() and (wide[:, 1] == out).all()


def test_each_tensor_has_gaps_of_its_own():
    data = batch([5, 4], [5, 4], heads=2, kv_heads=2)
    q, k, v = (numpy.full((9, 2 + gap, 64), numpy.nan, BF16)[:, :2] for gap in (0, 1, 3))
    for with_gaps, rows in ((q, data.q), (k, data.k), (v, data.v)):
        with_gaps[:] = rows
    data.assert_close(attention.varlen(q, k, v, data.cu_q, data.cu_k))


@pytest.mark.parametrize("rows, keys, said", [([9], [3], {}), ([2], [40], {"max_seqlen_q": 2}), ([9], [3], {"max_seqlen_k": 3})])
def test_the_longest_sequence_need_not_be_said(rows, keys, said):
    data = batch(rows, keys)
    data.assert_close(attention.varlen(*data.given(), **said))


@pytest.fixture
def dirty_memory(monkeypatch):
    """New arrays that nobody asked to be zeros are not."""
    def dirty(shape, dtype):
        made = numpy.zeros(shape, dtype)
        made.view(numpy.uint8)[...] = 0xff
        return made
    monkeypatch.setattr(numpy, "empty", dirty)


def test_rows_of_no_sequence_are_zeros(dirty_memory):
    data = batch([2, 3], [4, 5])
    for first, last in ((0, 3), (2, 5)):
        ends = numpy.array([first, last], numpy.int32)
        out = attention.varlen(data.q, data.k, data.v, ends, numpy.array([0, 9], numpy.int32))
        assert (out[:first] == 0).all() and (out[last:] == 0).all() and (out[first:last] != 0).any()


def test_scratch_is_zeros(dirty_memory):
    assert (attention.new_scratch_of(None, numpy.ndarray, ONE, None)(512) == 0).all()


def test_q_of_a_cache_may_have_gaps():
    data = batch([2, 2], [9, 4])
    k_cache, v_cache, table = data.paged(4, "nhd")
    wide = numpy.zeros((2, 2, 2, 4, 64), BF16)
    wide[:, :, 1] = data.q.reshape(2, 2, 4, 64)
    out = attention.with_kvcache(wide[:, :, 1], k_cache, v_cache, table, numpy.array([9, 4], numpy.int32))
    data.assert_close(out.reshape(4, 4, 64))
    with pytest.raises(baton.InvalidArgument, match=r"q: expected .* contiguous but for gaps between rows; found .*, not contiguous"):
        attention.with_kvcache(wide[:, :1, 1][::-1].transpose(1, 0, 2, 3), k_cache, v_cache, table, numpy.array([9, 4], numpy.int32))


def test_it_says_what_it_supports_and_why_not():
    assert attention.supports(heads=8, kv_heads=2, head_dim=72, device="cpu") == (True, "")
    found = attention.supports(heads=8, kv_heads=2, head_dim=96, device="cuda")
    assert not found and ("head_dim is 96" in found.reason or "CUDA" not in baton.build_info())
    supported, reason = attention.supports(heads=8, kv_heads=3, head_dim=64, device="cpu", page_size=16)
    assert not supported and "heads" in reason
    assert "float64" in attention.supports(heads=8, kv_heads=2, head_dim=64, dtype="float64", device="cpu").reason
    assert not attention.supports(heads=8, kv_heads=2, head_dim=64, softcap=-1.0, device="cpu")
    for dtype in (BF16, numpy.float16, numpy.dtype("float16"), "bfloat16"):
        assert attention.supports(heads=8, kv_heads=2, head_dim=64, dtype=dtype, device="cpu")
    for changed, says in (({"page_size": -1}, "page_size: -1, expected 0 to"), ({"heads": "x"}, "heads: 'x', expected an integer")):
        with pytest.raises(baton.InvalidArgument, match=says):
            attention.supports(**{"heads": 8, "kv_heads": 2, "head_dim": 64, "device": "cpu", **changed})


def test_it_says_what_caches_it_supports():
    sizes = {"heads": 8, "kv_heads": 2, "head_dim": 64, "device": "cpu"}
    for dtype in (E4M3, numpy.dtype(E4M3), "float8_e4m3fn", "bfloat16", None):
        assert attention.supports(**sizes, page_size=16, cache_dtype=dtype) == (True, "")
    assert attention.supports(**sizes, cache_dtype="bfloat16") == (True, "")
    assert attention.supports(**{**sizes, "head_dim": 72}, page_size=16)
    for changed, says in (({"head_dim": 72, "page_size": 16}, "head_dim is 72; with a cache of e4m3 it must be a multiple of 16"),
                          ({}, "cache_dtype is float8_e4m3fn; expected bfloat16, as there are no pages without a page_size"),
                          ({"page_size": 16, "cache_dtype": numpy.float16}, "cache_dtype is float16; expected bfloat16 or float8_e4m3fn"),
                          ({"page_size": 16, "dtype": "float8_e4m3fn"}, "dtype is float8_e4m3fn; expected bfloat16 or float16")):
        supported, reason = attention.supports(**{**sizes, "cache_dtype": E4M3, **changed})
        assert not supported and says in reason


def given_with(**changed):
    data = batch([3], [3])
    return {**dict(zip(("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k"), data.given())), **changed}


@pytest.mark.parametrize("changed, says", [
    ({"q": numpy.zeros((3, 256), BF16)}, r"q: expected an array of 3 dimensions; found ndarray of \[3, 256\]"),
    ({"q": numpy.zeros((3, 4, 64), numpy.float32)}, r"q: expected bfloat16 or float16 .*; found float32"),
    ({"k": numpy.zeros((3, 2, 32), BF16)}, r"k: expected bfloat16 \[any, any, 64\] .*; found bfloat16 \[3, 2, 32\]"),
    ({"v": numpy.zeros((2, 2, 64), BF16)}, r"v: expected bfloat16 \[3, 2, 64\] .*; found bfloat16 \[2, 2, 64\]"),
    ({"k": numpy.zeros((3, 2, 64), numpy.float16)}, r"k: expected bfloat16 .*; found float16"),
    ({"k": numpy.zeros((3, 64, 2), BF16).transpose(0, 2, 1)}, r"k: .*; found bfloat16 \[3, 2, 64\] on cpu, not contiguous"),
    ({"cu_seqlens_q": numpy.zeros(2, numpy.int64)}, r"cu_seqlens_q: expected int32 \[any\] .*; found int64"),
    ({"cu_seqlens_k": numpy.zeros(3, numpy.int32)}, r"cu_seqlens_k: expected int32 \[2\] .*; found int32 \[3\]"),
    ({"sinks": numpy.zeros(3, numpy.float32)}, r"sinks: expected float32 \[4\] .*; found float32 \[3\]"),
    ({"window": 4}, r"window: 4, expected \(left, right\), -1 for no bound"),
    ({"window": (-2, 0)}, r"window_left"),
    ({"softcap": -1.0}, r"softcap"),
    ({"out": numpy.zeros((3, 4, 32), BF16)}, r"out: expected bfloat16 \[3, 4, 64\] .* writable; found bfloat16 \[3, 4, 32\]"),
    ({"lse": numpy.zeros((3, 4), numpy.float32)}, r"lse: expected float32 \[4, 3\] .*; found float32 \[3, 4\]"),
    ({"stream": 5}, r"stream: 5, expected None"),
    ({"stream": -1}, r"stream: -1, expected 0 to"),
    ({"cu_seqlens_q": numpy.zeros(0, numpy.int32)}, r"cu_seqlens_q: expected int32 \[batch \+ 1\]; found \[0\]"),
    ({"cu_seqlens_q": numpy.zeros(2, ">i4")}, r"cu_seqlens_q: expected int32 .*; found ndarray of >i4, which numpy gives to nobody"),
    ({"max_seqlen_q": -5}, r"max_seqlen_q: -5, expected 0 to"),
    ({"max_seqlen_k": 2**40}, r"max_seqlen_k: 1099511627776, expected 0 to"),
    ({"max_seqlen_q": "3"}, r"max_seqlen_q: '3', expected an integer"),
    ({"num_sms": 1.5}, r"num_sms: 1.5, expected an integer"),
    ({"window": (1.7, 0)}, r"window: \(1.7, 0\), expected \(left, right\)"),
    ({"window": (2**40, 0)}, r"window: 1099511627776, expected"),
    ({"scale": "small"}, r"scale: 'small', expected a number"),
    ({"softcap": None}, r"softcap: None, expected a number"),
    ({"world": 3}, r"world: int, expected a baton.World or None"),
])
def test_wrong_arguments_are_named(changed, says):
    with pytest.raises(baton.InvalidArgument, match=says):
        attention.varlen(**given_with(**changed))


def test_wrong_arguments_of_a_cache_are_named():
    data = batch([1, 1], [12, 12])
    k_cache, v_cache, table = data.paged(8, "nhd")
    given = {"q": data.q[:, None], "k_cache": k_cache, "v_cache": v_cache, "page_table": table, "seqlens": numpy.array([12, 12], numpy.int32)}
    wide = numpy.zeros((k_cache.shape[0], 2, *k_cache.shape[1:]), BF16)
    for changed, says in (({"seqlens": numpy.zeros(3, numpy.int32)}, r"seqlens: expected int32 \[2\]"),
                          ({"page_table": table[:1]}, r"page_table: expected int32 \[2, any\] .*; found int32 \[1, 3\]"),
                          ({"v_cache": wide[:, 0]}, r"v_cache: pages 2048 values apart, expected as in k_cache, where they are 1024"),
                          ({"layout": "dhn"}, r"layout: 'dhn', expected 'nhd' or 'hnd'"),
                          ({"layout": None}, r"layout: None, expected 'nhd' or 'hnd'"),
                          ({"max_seqlen_q": -1}, r"max_seqlen_q: -1, expected 0 to"),
                          ({"q": data.q, "cu_seqlens_q": numpy.zeros(0, numpy.int32)}, r"cu_seqlens_q: expected int32 \[batch \+ 1\]; found \[0\]"),
                          ({"q": data.q}, r"q: expected an array of 4 dimensions; found ndarray of \[2, 4, 64\]")):
        with pytest.raises(baton.InvalidArgument, match=says):
            attention.with_kvcache(**{**given, **changed})


def test_wrong_arguments_of_a_cache_of_e4m3_are_named():
    data, lse = batch([1, 1], [12, 12]), numpy.zeros((2, 4, 1), numpy.float32)
    wide, (*narrow, table) = data.paged(8, "nhd")[:2], data.narrowed(None, None)[0].paged(8, "nhd")
    given = {"q": data.q[:, None], "k_cache": narrow[0], "v_cache": narrow[1], "page_table": table,
             "seqlens": numpy.array([12, 12], numpy.int32)}
    of_q = {"k_cache": wide[0], "v_cache": wide[1]}
    only = "expected None, as only caches of float8_e4m3fn have one and k_cache is of q's type; found ndarray"
    for changed, says in (({"v_cache": wide[1]}, r"v_cache: expected float8_e4m3fn \[6, 8, 2, 64\] .*; found bfloat16 \[6, 8, 2, 64\]"),
                          ({"k_cache": wide[0]}, r"v_cache: expected bfloat16 .*; found float8_e4m3fn"),
                          ({"k_cache": narrow[0].view(numpy.uint8)}, r"k_cache: expected bfloat16 or float8_e4m3fn .*; found uint8"),
                          ({"k_cache": wide[0].astype(numpy.float16)}, r"k_cache: expected bfloat16 or float8_e4m3fn .*; found float16"),
                          ({**of_q, "k_descale": descales(1)}, "k_descale: " + only),
                          ({**of_q, "v_descale": descales(1)}, "v_descale: " + only),
                          ({"k_descale": descales(1, 1, 1)}, r"k_descale: expected float32 \[1\] or \[kv_heads\], here \[2\]; found \[3\]"),
                          ({"v_descale": descales()}, r"v_descale: expected float32 \[1\] or \[kv_heads\], here \[2\]; found \[0\]"),
                          ({"k_descale": descales(1), "v_descale": descales(1, 1)}, r"v_descale: expected float32 \[1\] .*; found .* \[2\]"),
                          ({"k_descale": numpy.ones(1)}, r"k_descale: expected float32 \[any\] .*; found float64"),
                          ({"k_descale": 0.5}, r"k_descale: expected float32 \[any\] .*; found float, which is no array"),
                          ({"k_descale": lse.reshape(-1)[:1], "lse": lse}, "lse: expected memory of its own, .* found some of k_descale's")):
        with pytest.raises(baton.InvalidArgument, match=says):
            attention.with_kvcache(**{**given, **changed})
    data = batch([1], [12], head_dim=72)
    k_cache, v_cache, table = data.narrowed(None, None)[0].paged(8, "nhd")
    with pytest.raises(baton.InvalidArgument, match="head_dim is 72; with a cache of e4m3 it must be a multiple of 16"):
        attention.with_kvcache(data.q[:, None], k_cache, v_cache, table, numpy.array([12], numpy.int32))


def test_an_lse_that_is_read_only_is_refused():
    data = batch([3], [3])
    lse = numpy.zeros((4, 3), numpy.float32)
    lse.flags.writeable = False
    with pytest.raises(baton.InvalidArgument, match=r"lse: expected float32 \[4, 3\] on cpu, contiguous and writable; found .*read-only"):
        attention.varlen(*data.given(), lse=lse)


def test_page_tables_have_no_gaps():
    data = batch([1, 1], [12, 12])
    k_cache, v_cache, table = data.paged(8, "nhd")
    wide = numpy.zeros((2, 2 * table.shape[1]), numpy.int32)
    with pytest.raises(baton.InvalidArgument, match=r"page_table: expected int32 \[2, any\] on cpu, contiguous; found .*, not contiguous"):
        attention.with_kvcache(data.q[:, None], k_cache, v_cache, wide[:, :table.shape[1]], numpy.array([12, 12], numpy.int32))


def test_shares_of_sms_are_asked_for():
    data = batch([3], [3])
    with pytest.raises(baton.InvalidArgument, match="options.num_sms is -7"):
        attention.varlen(*data.given(), num_sms=-7)


def test_no_kernel_is_unsupported_and_nothing_falls_back():
    data = batch([3], [3], heads=34, kv_heads=2)
    with pytest.raises((baton.Unsupported, baton.InvalidArgument), match="heads"):
        attention.varlen(*data.given())


def test_the_same_bits_on_every_run():
    data = batch([33, 5], [70, 5])
    first = attention.varlen(*data.given(), causal=True)
    for _ in range(3):
        assert (attention.varlen(*data.given(), causal=True, world=ONE).view(numpy.uint16) == first.view(numpy.uint16)).all()
