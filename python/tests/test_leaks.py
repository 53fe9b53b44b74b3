"""Calls leave nothing behind: neither memory nor objects nor references to what they were given. BATON_LEAK_CALLS says how many are made."""
import gc
import os
import sys

import ml_dtypes
import numpy
import pytest

import baton
from rounds import round_data
from test_lifetimes import resident_bytes

BF16 = ml_dtypes.bfloat16
CALLS = int(os.environ.get("BATON_LEAK_CALLS", 20_000))


class of_numpy:
    @staticmethod
    def array(values):
        return values


class of_torch:
    def __init__(self):
        self.torch = pytest.importorskip("torch", exc_type=ImportError)

    def array(self, values):
        narrow = values.dtype == BF16
        tensor = self.torch.from_numpy(values.view(numpy.int16) if narrow else values)
        return tensor.view(self.torch.bfloat16) if narrow else tensor


def calls_of(framework):
    """A list of calls that go together, and what they are given."""
    data = round_data(num_ranks=1, num_experts=4, top_k=2, hidden=64, num_tokens=4)
    ep = baton.ExpertParallel(baton.World.from_all_gather(None, 0, 1, "cpu"), **data.sizes(num_sms=1))
    tokens, idx, weights = given = [framework.array(array) for array in data.given(0)]
    wrong = framework.array(numpy.zeros((4, 2), numpy.int8))
    a, b = (framework.array(numpy.ones(shape, BF16)) for shape in ((3, 16), (8, 16)))
    q, cu = framework.array(numpy.ones((3, 1, 8), BF16)), framework.array(numpy.array([0, 3], numpy.int32))

    def refused():
        with pytest.raises(baton.InvalidArgument):
            ep.dispatch_async(tokens, wrong)

    recv = []
    calls = [lambda: recv.append(ep.dispatch(*given)), lambda: (recv[-1].row_counts, recv[-1].scales), lambda: ep.combine(recv.pop().tokens),
             lambda: baton.gemm(a, b), lambda: baton.attention.varlen(q, q, q, cu, cu, return_lse=True), lambda: ep.world.wait_times(), refused]
    return calls, [*given, wrong, a, b, q, cu]


@pytest.mark.parametrize("framework", [of_numpy, of_torch])
def test_thousands_of_calls_leave_nothing_behind(framework):
    calls, arrays = calls_of(framework())

    def make(count):
        for _ in range(count // len(calls)):
            for call in calls:
                call()

    make(2000)
    gc.collect()
    references, objects, before = [sys.getrefcount(array) for array in arrays], len(gc.get_objects()), resident_bytes()
    make(CALLS)
    grown = resident_bytes() - before
    gc.collect()
    assert [sys.getrefcount(array) for array in arrays] == references
    assert len(gc.get_objects()) - objects < 50
    assert grown < 2 ** 20, f"{grown} bytes in {CALLS} calls"  # 64 bytes a call would show
