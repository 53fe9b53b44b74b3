"""Calls leave nothing behind: neither memory nor objects nor references to what they were given. BATON_LEAK_CALLS says how many are made."""
import gc
import os
import sys
import types

import ml_dtypes
import numpy
import pytest

import baton
from rounds import round_data
from test_lifetimes import resident_bytes

BF16 = ml_dtypes.bfloat16
CALLS = int(os.environ.get("BATON_LEAK_CALLS", 20_000))


class of_numpy:
    device, synchronize, used_bytes = "cpu", staticmethod(lambda: None), staticmethod(lambda: 0)

    @staticmethod
    def array(values):
        return values


class of_torch(of_numpy):
    def __init__(self):
        self.torch = pytest.importorskip("torch", exc_type=ImportError)

    def array(self, values):
        narrow = values.dtype == BF16
        tensor = self.torch.from_numpy(values.view(numpy.int16) if narrow else values)
        return (tensor.view(self.torch.bfloat16) if narrow else tensor).to(self.device)


class of_torch_on_a_gpu(of_torch):
    device = "cuda"

    def __init__(self):
        super().__init__()
        if "CUDA" not in baton.build_info() or not self.torch.cuda.is_available():
            pytest.skip("no GPU, or a wheel without its kernels")
        self.synchronize = self.torch.cuda.synchronize

    def used_bytes(self):
        free, total = self.torch.cuda.mem_get_info()
        return total - free


def calls_of(framework):
    """A list of calls that go together, and what they are given."""
    data = round_data(num_ranks=1, num_experts=4, top_k=2, hidden=64, num_tokens=4)
    ep = baton.ExpertParallel(baton.World.from_all_gather(None, 0, 1, framework.device), **data.sizes(num_sms=1))
    tokens, idx, weights = given = [framework.array(array) for array in data.given(0)]
    wrong = framework.array(numpy.zeros((4, 2), numpy.int8))
    a, b = (framework.array(numpy.ones(shape, BF16)) for shape in ((3, 64), (8, 64)))
    q, cu = framework.array(numpy.ones((3, 1, 256 if framework.device == "cuda" else 8), BF16)), framework.array(numpy.array([0, 3], numpy.int32))

    def refused():
        with pytest.raises(baton.InvalidArgument):
            ep.dispatch_async(tokens, wrong)

    recv = []
    calls = [lambda: recv.append(ep.dispatch(*given)), lambda: (recv[-1].row_counts, recv[-1].scales),
             lambda: baton.unpad_rows(recv[-1], baton.pad_rows(recv[-1], 4).tokens), lambda: ep.combine(recv.pop().tokens),
             lambda: baton.gemm(a, b), lambda: baton.attention.varlen(q, q, q, cu, cu, 3, 3, return_lse=True), lambda: ep.world.wait_times(), refused]
    return calls, [*given, wrong, a, b, q, cu]


def calls_by_name(framework):
    """The same of a round's calls with names before all that they take, by the quick way and by what it leaves to methods."""
    data = round_data(num_ranks=1, num_experts=4, top_k=2, hidden=64, num_tokens=4)
    ep = baton.ExpertParallel(baton.World.from_all_gather(None, 0, 1, framework.device), **data.sizes(num_sms=1, num_slots=2))
    tokens, idx, weights = given = [framework.array(array) for array in data.given(0)]
    out, load = framework.array(numpy.zeros((4, 64), numpy.float32)), framework.array(numpy.zeros(4, numpy.int64))
    shared, stream = framework.array(numpy.ones((4, 64), BF16)), types.SimpleNamespace(cuda_stream=0)
    named, recv = {"tokens": tokens, "topk_idx": idx, "topk_weights": weights}, []

    def refused(call, **more):
        with pytest.raises((baton.InvalidArgument, TypeError)):
            call(**more)

    for slot in (0, 1):
        ep.combine(ep.dispatch(*given, slot=slot).tokens, slot=slot)
    calls = [lambda: recv.append(ep.dispatch(**named, expert_load=load, slot=1, num_sms=1, stream=stream)),
             lambda: ep.combine(expert_output=recv.pop().tokens, shared_output=shared, out=out, num_rows=-1, slot=1, stream=None),
             lambda: recv.append(ep.dispatch(*given, slot=numpy.int64(1))), lambda: ep.combine(recv.pop().tokens, slot=1),
             lambda: ep.dispatch_async(**named, slot=0, stream=0), lambda: recv.append(ep.dispatch_wait(slot=0, stream=stream)),
             lambda: ep.combine_async(expert_output=recv.pop().tokens, slot=0), lambda: ep.combine_wait(slot=0, stream=None),
             lambda: refused(ep.dispatch, **named, slot=2), lambda: refused(ep.dispatch_async, **{**named, "topk_idx": tokens}, slot=1),
             lambda: refused(ep.combine, expert_output=tokens, out=tokens), lambda: refused(ep.dispatch_wait, slots=1), lambda: refused(ep.combine_wait, out=tokens)]
    return calls, [*given, out, load, shared, stream]


@pytest.mark.parametrize("calls_of", [calls_of, calls_by_name])
@pytest.mark.parametrize("framework", [of_numpy, of_torch, of_torch_on_a_gpu])
def test_thousands_of_calls_leave_nothing_behind(framework, calls_of):
    framework = framework()
    calls, arrays = calls_of(framework)

    def make(count):
        for _ in range(count // len(calls)):
            for call in calls:
                call()
        framework.synchronize()

    make(2000)
    gc.collect()
    references, objects, before = [sys.getrefcount(array) for array in arrays], len(gc.get_objects()), resident_bytes()
    on_device = framework.used_bytes()
    make(CALLS)
    grown = resident_bytes() - before
    assert framework.used_bytes() <= on_device
    gc.collect()
    assert [sys.getrefcount(array) for array in arrays] == references
    assert len(gc.get_objects()) - objects < 50
    assert grown < 2 ** 20, f"{grown} bytes in {CALLS} calls"  # 64 bytes a call would show
