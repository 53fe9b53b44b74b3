"""What is refused, and that it is told with the argument's name, what was expected and what was found."""
import copy
import ctypes
import mmap
import pickle
import types

import numpy
import pytest

import baton
from baton import _arrays, _products
from foreign import BFLOAT, BOOL, CUDA, FLOAT, foreign_array
from rounds import BF16, assert_scaled, local, round_data, scaled_experts


@pytest.fixture
def data():
    return round_data()


def refused(ep, data, says, **changed):
    given = dict(zip(("tokens", "topk_idx", "topk_weights"), data.given(0)), **changed)
    with pytest.raises(baton.InvalidArgument, match=says):
        ep.dispatch_async(**given)


@pytest.mark.parametrize("changed,says", [
    ({"tokens": numpy.zeros((16, 256), numpy.float32)}, r"tokens: expected bfloat16 \[any, 256\] on cpu, contiguous; found float32 \[16, 256\] on cpu"),
    ({"tokens": numpy.zeros((16, 128), BF16)}, r"tokens: expected bfloat16 \[any, 256\].*; found bfloat16 \[16, 128\] on cpu"),
    ({"tokens": numpy.zeros((16, 512), BF16)[:, ::2]}, r"tokens: .*; found bfloat16 \[16, 256\] on cpu, not contiguous"),
    ({"tokens": numpy.zeros((16, 512), BF16)[:, :256]}, r"tokens: .*; found bfloat16 \[16, 256\] on cpu, not contiguous"),  # gaps between rows
    ({"tokens": numpy.zeros((129, 256), BF16)}, r"tokens: 129 rows, expected at most num_max_tokens_per_rank = 128"),
    ({"tokens": numpy.zeros((16, 256), numpy.dtype(BF16).newbyteorder())}, r"tokens: .*; found ndarray of >V2, which numpy gives to nobody"),
    ({"tokens": [[1.0] * 256] * 16}, r"tokens: .*; found list, which is no array of numpy and speaks no DLPack"),
    ({"tokens": None}, r"tokens: .*; found NoneType"),
    ({"topk_idx": numpy.zeros((16, 8), numpy.int16)}, r"topk_idx: expected int32 or int64 \[16, 8\] on cpu, contiguous; found int16 \[16, 8\]"),
    ({"topk_idx": numpy.zeros((15, 8), numpy.int64)}, r"topk_idx: expected int32 or int64 \[16, 8\].*; found int64 \[15, 8\]"),
    ({"topk_idx": numpy.zeros((16, 8), bool)}, r"found bool \[16, 8\]"),
    ({"topk_weights": numpy.zeros((16, 8))}, r"topk_weights: expected float32 \[16, 8\].*; found float64 \[16, 8\]"),
    ({"input_scales": numpy.ones(2, numpy.float32)}, r"input_scales: given, but token_format bf16 takes none"),
    ({"slot": 1}, r"slot: 1 is outside \[0, 1\)"),
    ({"num_sms": -1}, r"num_sms: -1 is outside"),
    ({"stream": 17}, r"stream: 17, expected None: a CPU rank has no streams"),
    ({"stream": "mine"}, r"stream: str, expected None, an integer, or an object with cuda_stream"),
])
def test_what_dispatch_refuses(data, changed, says):
    ep = local(data)
    refused(ep[0], data, says, **changed)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)  # and nothing was enqueued
    assert_scaled(data, 0, baton.combine_all(ep, [scaled_experts(r) for r in recv])[0])


def test_memory_of_another_device_is_refused(data):
    ep = local(data)
    refused(ep[0], data, r"tokens: expected bfloat16 \[any, 256\] on cpu, contiguous; found bfloat16 \[16, 256\] on cuda:1",
            tokens=foreign_array(data.tokens[0].view(numpy.uint16), BFLOAT, 16, CUDA, 1))


def test_arrays_of_any_framework_that_speaks_dlpack_are_taken(data):
    ep = local(data)
    foreign = [foreign_array(x.view(numpy.uint16), BFLOAT, 16) for x in data.tokens]
    weights = [foreign_array(w, FLOAT, 32) for w in data.topk_weights]
    recv = baton.dispatch_all(ep, foreign, data.topk_idx, weights)
    assert_scaled(data, 3, baton.combine_all(ep, [scaled_experts(r) for r in recv])[3])
    refused(ep[0], data, r"topk_weights: .*; found bool \[16, 8\]", topk_weights=foreign_array(numpy.zeros((16, 8), bool), BOOL, 8))


def test_read_only_arrays_are_read_and_never_written(data):
    ep = local(data)
    for arrays in (data.tokens, data.topk_idx, data.topk_weights):
        for array in arrays:
            array.flags.writeable = False
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    for one, rows in zip(ep, recv):
        one.combine_async(scaled_experts(rows))
    out = numpy.zeros((16, 256), numpy.float32)
    out.flags.writeable = False
    with pytest.raises(baton.InvalidArgument, match=r"out: expected float32 or bfloat16 \[16, 256\].*writable; found .*read-only"):
        ep[0].combine_wait(out)


class read_only_view:
    """Speaks DLPack, which says that its memory is read-only."""

    def __init__(self, array):
        self.array, self.shape = array, array.shape

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)


@pytest.mark.parametrize("seen_as", [memoryview, read_only_view])
def test_memory_that_its_owner_calls_read_only_is_never_written_however_it_is_given(seen_as):
    ones, out = numpy.ones((8, 8), numpy.float16), numpy.zeros((8, 8), numpy.float16)
    baton.gemm(ones, ones, out=seen_as(out))
    assert (out == 8).all()
    out[:] = 0
    out.flags.writeable = False
    with pytest.raises(baton.InvalidArgument, match=r"out: expected .* and writable; found float16 \[8, 8\] on cpu, read-only"):
        baton.gemm(ones, ones, out=seen_as(out))
    assert (out == 0).all()


def test_arrays_that_are_not_what_they_say_are_refused():
    class shorter(numpy.ndarray):
        def view(self, *_):
            return numpy.zeros(self.shape, numpy.uint8)

    class of_no_class(numpy.ndarray):
        @property
        def __class__(self):
            raise RuntimeError("of none")

    ones = numpy.ones((8, 8), BF16)
    with pytest.raises(baton.InvalidArgument, match="b: expected bfloat16"):
        baton.gemm(ones, ones.view(shorter))
    assert (baton.gemm(ones, ones.view(of_no_class)) == 8).all()
    nowhere = foreign_array(numpy.zeros((8, 8), numpy.float16), FLOAT, 16)
    nowhere.managed.tensor.data = None
    with pytest.raises(baton.InvalidArgument, match=r"b: expected float16 .*; found float16 \[8, 8\] without memory"):
        baton.gemm(ones.astype(numpy.float16), nowhere)


@pytest.mark.parametrize("changed, says", [({"slot": "first"}, "slot: 'first', expected an integer"), ({"slot": None}, "slot: None, expected an integer"),
                                           ({"num_sms": 1.5}, "num_sms: 1.5, expected an integer"), ({"slot": 2 ** 40}, "slot: 1099511627776, expected")])
def test_what_is_no_whole_number_is_named_by_every_call_of_a_round(data, changed, says):
    ep, tokens = local(data)[0], numpy.zeros((0, 256), BF16)
    slot_alone = {name: value for name, value in changed.items() if name == "slot"}
    for call, given, options in ((ep.dispatch_async, data.given(0), changed), (ep.dispatch, data.given(0), changed), (ep.combine_async, (tokens,), changed),
                                 (ep.combine, (tokens,), changed), (ep.dispatch_wait, (), slot_alone), (ep.combine_wait, (), slot_alone)):
        if options:
            with pytest.raises(baton.InvalidArgument, match=says):
                call(*given, **options)
    with pytest.raises(baton.InvalidArgument, match="num_rows: 'all', expected an integer"):
        ep.combine_async(tokens, num_rows="all")


def test_other_objects_than_those_that_are_meant_are_named(data):
    ep, ones = local(data), numpy.ones((8, 8), BF16)
    cu = numpy.array([0, 8], numpy.int32)
    q = numpy.ones((8, 1, 8), BF16)
    for call, says in (
            (lambda: baton.expert_mlp(ones, ones, ones, ones), "recv: ndarray, expected what dispatch"),
            (lambda: baton.ExpertParallel("here", **data.sizes()), "world: str, expected a baton.World"),
            (lambda: baton.ExpertParallel.create_all([1], **data.sizes()), "worlds: int, expected a baton.World"),
            (lambda: baton.ExpertParallel(ep[0].world, **data.sizes(layout="\ud800")), "layout: .*ud800.*, expected one of 'per_expert'"),
            (lambda: baton.dispatch_all(5, [ones], [ones]), "ep: int, expected a list with one entry for each rank"),
            (lambda: baton.dispatch_all(["a"], [ones], [ones]), "ep: a list with str, expected those of ExpertParallel.create_all"),
            (lambda: baton.combine_all(ep, 7), "expert_output: int, expected a list with one entry for each rank"),
            (lambda: ep[0].set_members(3), "ranks: int, expected a list of ranks"),
            (lambda: ep[0].set_members(["one"]), "ranks: 'one', expected an integer"),
            (lambda: ep[0].set_members([0], epoch=-1), "epoch: -1, expected 0 to"),
            (lambda: baton.World.local("two", device="cpu"), "num_ranks: 'two', expected an integer"),
            (lambda: baton.World.from_all_gather("me", 0, 1, "cpu"), "all_gather: str, expected a function"),
            (lambda: baton.World.from_all_gather(None, 0, 1, "cpu", deadline=float("nan")), "deadline: nan, expected seconds"),
            (lambda: baton.gemm(ones, ones, alpha=ones), r"alpha: ndarray .*\.\.\., expected a number"),
            (lambda: baton.gemm(ones, ones, activation=None), "activation: NoneType, expected a str"),
            (lambda: baton.gemm(numpy.zeros((8, 8), [("x", "i4")]), ones), r"a: found elements of .*, expected bfloat16"),
            (lambda: baton.attention.varlen(q, q, q, cu, cu, causal=ones), "causal: .*, expected True or False"),
            (lambda: baton.attention.varlen(q, q, q, cu, cu, window=memoryview(ones.astype(numpy.float32))), "window: .*, expected .left, right."),
            (lambda: baton.workspace_bytes("two", **data.sizes()), "num_ranks: 'two', expected an integer")):
        with pytest.raises(baton.InvalidArgument, match=says) as caught:
            call()
        assert len(str(caught.value)) < 300


def test_memory_of_less_than_no_rows_is_refused(data):
    less = foreign_array(numpy.zeros((16, 256), numpy.float16), FLOAT, 16)
    less.managed.tensor.shape[0] = -1
    with pytest.raises(baton.InvalidArgument, match=r"a: expected .*; found float16 \[any, 256\]"):
        baton.gemm(less, numpy.zeros((8, 256), numpy.float16), out=numpy.zeros((16, 8), numpy.float16))


def test_what_combine_refuses(data):
    ep = local(data)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    rows = recv[0].max_rows
    with pytest.raises(baton.InvalidArgument, match=rf"expert_output: expected bfloat16 \[{rows}, 256\].*; found float32 \[{rows}, 256\]"):
        ep[0].combine_async(numpy.zeros((rows, 256), numpy.float32))
    with pytest.raises(baton.InvalidArgument, match=rf"expert_output: .*; found bfloat16 \[{rows - 1}, 256\]"):
        ep[0].combine_async(numpy.zeros((rows - 1, 256), BF16))
    with pytest.raises(baton.InvalidArgument, match=r"shared_output: expected bfloat16 \[16, 256\].*; found bfloat16 \[15, 256\]"):
        ep[0].combine_async(numpy.zeros((rows, 256), BF16), numpy.zeros((15, 256), BF16))


def test_calls_out_of_order_are_refused(data):
    ep = local(data)
    with pytest.raises(baton.InvalidArgument, match="dispatch_wait"):
        ep[0].dispatch_wait()
    with pytest.raises(baton.InvalidArgument, match=r"expert_out: 3 entries|expert_output: 3 entries, expected 4, one for each rank"):
        baton.combine_all(ep, [None] * 3)


@pytest.mark.parametrize("changed,error,says", [
    ({"format": "int8"}, baton.InvalidArgument, r"format: 'int8', expected one of 'bf16', 'fp8', 'mxfp8', 'mxfp4', 'nvfp4'"),
    ({"layout": "flat"}, baton.InvalidArgument, r"layout: 'flat', expected one of"),
    ({"top_k": 33}, baton.InvalidArgument, r"top_k.*33"),
    ({"top_k": "8"}, baton.InvalidArgument, r"top_k: '8', expected a whole number"),
    ({"tiled_scales": 1}, baton.InvalidArgument, r"tiled_scales: 1, expected True or False"),
    ({"hidden": 12}, baton.InvalidArgument, r"hidden.*12"),
    ({"num_sm": 4}, TypeError, r"there is no argument 'num_sm'; there are arrival"),
])
def test_configurations_that_there_are_not(data, changed, error, says):
    with pytest.raises(error, match=says):
        local(data, **changed) if not changed.keys() & data.sizes().keys() else baton.ExpertParallel.create_all(
            baton.World.local(4, device="cpu"), **{**data.sizes(), **changed})


def test_sizes_can_be_asked_for_before_memory_is_taken():
    sizes = {"num_experts": 64, "top_k": 8, "hidden": 256, "num_max_tokens_per_rank": 128}
    assert baton.why_not(4, **sizes) == "" and "hidden" in baton.why_not(4, **{**sizes, "hidden": 7})
    assert baton.workspace_bytes(4, **sizes) > baton.workspace_bytes(4, **{**sizes, "hidden": 128}) > 0


@pytest.mark.parametrize("device", ["gpu", "cpu:1", "cuda:x", ""])
def test_devices_that_there_are_not(device):
    with pytest.raises(baton.InvalidArgument, match=rf"device: '{device}', expected 'cpu', 'cuda', 'cuda:N' or 'auto'"):
        baton.World.local(2, device=device)


def test_worlds_of_sizes_that_there_are_not():
    with pytest.raises(baton.InvalidArgument, match="0"):
        baton.World.local(0, device="cpu")
    with pytest.raises(baton.InvalidArgument, match="all_gather"):
        baton.World.from_all_gather(None, 0, 2, "cpu")


def test_nothing_is_pickled_or_copied(data):
    ep = local(data)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    for each in (ep[0].world, ep[0], recv[0]):
        for way in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=f"{type(each).__name__}: cannot be pickled or copied"):
                way(each)


def test_everything_says_what_it_is(data):
    ep = local(data)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    assert repr(ep[1].world) == "<baton.World: rank 1 of 4 on cpu>"
    assert "rank 1 of 4 on cpu, 64 experts, top-8, hidden 256 as bf16, up to 128 tokens a rank" in repr(ep[1])
    assert repr(ep[1]).endswith(f" {baton.workspace_bytes(4, **data.sizes()):,} bytes>")
    for rank, each in enumerate(recv):
        held = each.tokens.nbytes + each.sources.nbytes
        assert repr(each) == (f"<baton.Received: up to {each.max_rows} rows of 256 values as bf16, 16 experts, on cpu, rank {rank} of 4, {held:,} "
                              "bytes of rows and sources>")
    assert repr(ep[0].members) == "Members(epoch=0, ranks=(0, 1, 2, 3))"
    load = recv[0].load()
    lines = repr(load).splitlines()
    assert lines[0].split() == ["expert", "rows"] and len(lines) == 17
    for line, (expert, rows) in zip(lines[1:], load):
        assert line.split()[:2] == [str(expert), str(rows)]
    assert max(line.count("#") for line in lines) == 24
    assert load._repr_html_().count("<tr>") == 17 and "<progress" in load._repr_html_()
    given = foreign_array(data.tokens[0].view(numpy.uint16), BFLOAT, 16, CUDA, 1)
    assert repr(_arrays.Exported(given.__dlpack__, 1)) == "<baton array on cuda:1: memory of a communicator, for from_dlpack>"


@pytest.mark.parametrize("format", ["fp8", "mxfp8", "mxfp4", "nvfp4"])
def test_rows_of_any_format_say_how_many_bytes_they_are(data, format):
    ep = local(data, format=format)
    scales = {"input_scales": numpy.ones(1, numpy.float32)} if format == "nvfp4" else {}
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights, **scales)[0]
    assert f", {recv.tokens.nbytes + recv.sources.nbytes:,} bytes of rows" in repr(recv)


def test_every_public_class_says_what_it_is():
    for name in baton.__all__:
        thing = getattr(baton, name)
        if isinstance(thing, type) and not issubclass(thing, (Exception, tuple)):
            assert "__repr__" in vars(thing), name


def test_a_number_and_objects_name_streams():
    from baton._arrays import stream_handle

    class torch_s:
        cuda_stream = 5

    class other_s:
        def __cuda_stream__(self):
            return 0, 7

    assert [stream_handle(s, 0, numpy.ndarray) for s in (None, 3, torch_s(), other_s())] == [0, 3, 5, 7]


def guarded_rows(hidden):
    """One row in bf16, behind which nothing may be read."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    both = numpy.frombuffer(memory, numpy.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(both.ctypes.data + page), ctypes.c_size_t(page), 0) == 0
    return both[page - 2 * hidden:page].view(BF16).reshape(1, hidden)


def test_fewer_rows_than_came_are_refused_before_anybody_reads_them(data):
    ep = local(data, num_ranks=1)[0]
    recv = ep.dispatch(*data.given(0))
    for call in (ep.combine, ep.combine_async):
        with pytest.raises(baton.InvalidArgument, match="num_rows: 1, expected at least 128, as many as came"):
            call(guarded_rows(256), num_rows=1)
    assert_scaled(data, 0, ep.combine(scaled_experts(recv)[:128], num_rows=128))


def test_rows_are_looked_at_after_a_release_that_was_refused(data):
    ep = local(data, num_ranks=1)[0]
    recv = ep.dispatch(*data.given(0))
    with pytest.raises(baton.InvalidArgument, match="release: "):
        ep.release()
    with pytest.raises(baton.InvalidArgument, match="num_rows: 1, expected at least 128"):
        ep.combine(guarded_rows(256), num_rows=1)
    ep.combine(scaled_experts(recv))
    del recv
    ep.release()
    ep.reacquire()
    fewer = [array[:2].copy() for array in data.given(0)]
    ep.combine(scaled_experts(ep.dispatch(*fewer))[:16], num_rows=16)  # and of the rounds after it, not of that before


def test_rows_are_those_of_the_last_round_after_a_release(data):
    ep = local(data, num_ranks=1)[0]
    ep.combine(scaled_experts(ep.dispatch(*[array[:2].copy() for array in data.given(0)])))
    ep.release()
    ep.reacquire()
    ep.dispatch(*data.given(0))
    with pytest.raises(baton.InvalidArgument, match="num_rows: 16, expected at least 128"):
        ep.combine(guarded_rows(256), num_rows=16)


def test_scratch_that_is_too_small_is_refused():
    from baton.attention import new_scratch_of
    world = baton.World.local(1, device="cpu")[0]
    kept = numpy.zeros(300, numpy.uint8)
    assert new_scratch_of(kept, numpy.ndarray, world, None)(300) is kept
    with pytest.raises(baton.InvalidArgument, match="scratch: 300 bytes, expected at least 301"):
        new_scratch_of(kept, numpy.ndarray, world, None)(301)


def test_scratch_of_experts_that_is_too_small_is_refused(data, monkeypatch):
    recv = local(data, num_ranks=1)[0].dispatch(*data.given(0))
    weights = [numpy.zeros((64, *shape), BF16) for shape in ((8, 256), (8, 256), (256, 8))]
    least = _products._core.expert_mlp_scratch_bytes(recv, 8, False)
    if least == 0:
        monkeypatch.setattr(_products, "_core", types.SimpleNamespace(**{**vars(_products._core), "expert_mlp_scratch_bytes": lambda *_: 1000}))
    with pytest.raises(baton.InvalidArgument, match="scratch: 10 bytes, expected at least"):
        baton.expert_mlp(recv, *weights, scratch=numpy.zeros(10, numpy.uint8))


def misplaced(array):
    """The same where nothing of its kind begins."""
    memory = numpy.zeros(array.nbytes + 32, numpy.uint8)
    first = -memory.ctypes.data % 16 + 4
    memory[first:first + array.nbytes] = array.view(numpy.uint8).ravel()
    return memory[first:first + array.nbytes].view(array.dtype).reshape(array.shape)


def test_what_one_of_all_ranks_is_refused_keeps_all_from_sending(data):
    for more, changed, says in (({}, {"tokens": misplaced}, r"tokens: .*, not aligned to 16 bytes\. That is rank 3's"),
                                ({}, {"topk_idx": misplaced}, r"topk_idx: .*, not aligned to 8 bytes\. That is rank 3's"),
                                ({"weights_at_combine": True}, {}, r"topk_weights: given to dispatch, .*\. That is rank 3's")):
        ep, given = local(data, **more), {"tokens": data.tokens, "topk_idx": data.topk_idx}
        given.update({name: [*given[name][:3], change(given[name][3])] for name, change in changed.items()})
        with pytest.raises(baton.InvalidArgument, match=says):
            baton.dispatch_all(ep, **given, topk_weights=[None] * 3 + [data.topk_weights[3] if more else None])
        assert len(baton.dispatch_all(ep, data.tokens, data.topk_idx)) == 4
    ep, wrong = local(data), [*data.topk_idx[:2], data.topk_idx[2].astype(numpy.int16), data.topk_idx[3]]
    with pytest.raises(baton.InvalidArgument, match=r"topk_idx: .*found int16.*\. That is rank 2's; no rank has sent anything"):
        baton.dispatch_all(ep, data.tokens, wrong, data.topk_weights)
    received = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    answers = [scaled_experts(recv) for recv in received]
    outs = [numpy.zeros((data.tokens[rank].shape[0], 256), numpy.float32) for rank in range(4)]
    for more, says in (({"expert_output": [answers[0], answers[1][:3], *answers[2:]]}, r"expert_output: .*\. That is rank 1's"),
                       ({"out": [*outs[:3], outs[3][1:]]}, r"out: .*\. That is rank 3's"),
                       ({"out": [*outs[:3], outs[0]]}, "out: the same array for rank 3 and one before it"),
                       ({"out": [*outs[:3], misplaced(outs[3])]}, r"out: .*, not aligned to 16 bytes\. That is rank 3's"),
                       ({"expert_output": [*answers[:3], misplaced(answers[3])]}, r"expert_output: .*, not aligned to 16 bytes\. That is rank 3's"),
                       ({"topk_weights": [None, *data.topk_weights[1:]]}, r"topk_weights: given to combine, .*\. That is rank 1's"), ({"num_rows": -2}, "num_rows: -2, expected at least 0, or -1")):
        with pytest.raises(baton.InvalidArgument, match=says):
            baton.combine_all(ep, **{"expert_output": answers, **more})
    came = [int(one.row_counts.sum()) for one in received]
    most = came.index(max(came))
    with pytest.raises(baton.InvalidArgument, match=rf"num_rows: {max(came) - 1}, expected at least {max(came)}, .* That is rank {most}'s; no rank has sent"):
        baton.combine_all(ep, [rows[:max(came) - 1] for rows in answers], num_rows=max(came) - 1)
    for rank, out in enumerate(baton.combine_all(ep, answers, out=outs)):
        assert out is outs[rank]
        assert_scaled(data, rank, out)


def test_a_rank_that_is_not_where_the_others_are_says_how_they_go_on(data):
    ep = local(data)
    ep[2].dispatch_async(*data.given(2))
    with pytest.raises(baton.InvalidArgument, match=r"dispatch_async called where .*\. That was rank 2; .* go on with its dispatch_async .* then dispatch_wait of all"):
        baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    ep[3].dispatch_async(*data.given(3))
    answers = [scaled_experts(one.dispatch_wait()) for one in ep]
    for rank, out in enumerate(baton.combine_all(ep, answers)):
        assert_scaled(data, rank, out)


def test_a_rank_is_in_a_list_once(data):
    ep = local(data)
    with pytest.raises(baton.InvalidArgument, match="ep: that of rank 1 twice"):
        baton.dispatch_all([ep[0], ep[1], ep[1], ep[3]], data.tokens, data.topk_idx, data.topk_weights)


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")  # which NumPy may still do
def test_what_becomes_of_a_view_is_not_the_next_rounds(data):
    ep = local(data, num_ranks=1)[0]
    recv = ep.dispatch(*data.given(0))
    for view in (recv.row_counts, recv.tokens):
        view.resize((view.size, 1), refcheck=False)
    assert recv.row_counts.ndim == 1 and recv.tokens.shape == (recv.max_rows, 256)
    recv.tokens.dtype = numpy.float16
    assert recv.tokens.dtype == BF16
    ep.combine(scaled_experts(recv))
    assert ep.dispatch(*data.given(0)).row_counts.ndim == 1



def test_a_deadline_shorter_than_a_millisecond_is_one(monkeypatch):
    monkeypatch.delenv("BATON_DEADLINE_MS", raising=False)  # which would be taken in its place
    assert baton.World.from_all_gather(None, 0, 1, "cpu", deadline=0.0002).deadline == 0.001
    assert baton.World.from_all_gather(None, 0, 1, "cpu", deadline=0).deadline == 0


class Interrupted:
    """An array, and a number, that Ctrl-C comes in."""

    def __dlpack__(self, **_):
        raise KeyboardInterrupt

    def __dlpack_device__(self):
        return 1, 0

    def __index__(self):
        raise KeyboardInterrupt


def test_an_interrupt_while_arguments_are_looked_at_stays_one(data):
    ep = local(data)
    with pytest.raises(KeyboardInterrupt):
        ep[0].dispatch_async(Interrupted(), *data.given(0)[1:])
    with pytest.raises(KeyboardInterrupt):
        local(data, num_max_tokens_per_rank=Interrupted())
    ep[0].dispatch_async(*data.given(0))


def test_members_of_nobody_are_refused():
    with pytest.raises(baton.InvalidArgument, match="ep: an empty list"):
        baton.set_members_all([], [0])


@pytest.mark.parametrize("rows", ["by_expert", "by_token"])
def test_a_repr_says_how_many_bytes_there_are(data, rows):
    ep = local(data, num_ranks=1, rows=rows)[0]
    recv = ep.dispatch(*data.given(0))
    tokens = recv.tokens
    first, size = (tokens.strides[0] if len(tokens) > 1 else tokens.nbytes), len(tokens)
    assert f"{first * size + recv.sources.nbytes:,} bytes of rows" in repr(recv)
