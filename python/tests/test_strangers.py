"""Objects that are not what a call expects in ways that nobody plans: what is refused says so, whatever they answer, and nothing ends the process."""
import os
import subprocess
import sys
import types
from unittest import mock

import numpy
import pytest

import baton
from baton import _arrays
from rounds import assert_scaled, local, round_data, scaled_experts


class of_dlpack:
    def __init__(self, answer):
        self.answer = answer

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class says_yes:
    """To whatever it is asked."""

    def __getattr__(self, name):
        return self

    def __call__(self, *_, **__):
        return self


class of_no_dtype:
    dtype = types.SimpleNamespace(name="bfloat16")

    def view(self, _):
        return numpy.zeros((16, 256), numpy.uint16)


@pytest.mark.parametrize("given, says", [(of_dlpack(BufferError("it is packed")), "of_dlpack, whose __dlpack__ raises BufferError: it is packed"),
                                         (of_dlpack(5), "of_dlpack, whose __dlpack__ gives no array"), (mock.MagicMock(), "MagicMock, which is no array of numpy"),
                                         (says_yes(), "says_yes, whose __dlpack__ gives no array"), (of_no_dtype(), "of_no_dtype, which is no array of numpy")])
def test_what_is_no_array_is_refused_and_says_why(given, says):
    data = round_data(num_ranks=1)
    ep = local(data, num_ranks=1)[0]
    for _ in range(2):  # by the method, and before it
        with pytest.raises(baton.InvalidArgument, match="tokens: expected bfloat16 .*; found .*" + says):
            ep.dispatch(given, *data.given(0)[1:])
        assert_scaled(data, 0, ep.combine(scaled_experts(ep.dispatch(*data.given(0)))))


@pytest.mark.parametrize("stream, says", [(mock.Mock(), "stream.cuda_stream: <Mock .*, expected an integer"), (types.SimpleNamespace(cuda_stream=2 ** 70), "cuda_stream: 118.*, expected 0 to"),
                                          (types.SimpleNamespace(ptr="p"), "stream.ptr: 'p', expected an integer")])
def test_streams_whose_handle_is_none_are_named(stream, says):
    with pytest.raises(baton.InvalidArgument, match=says):
        _arrays.stream_handle(stream, 0, numpy.ndarray)


def test_numbers_of_a_configuration_are_whatever_is_whole():
    data, world = round_data(num_ranks=1), baton.World.local(1, device="cpu")[0]
    ep = baton.ExpertParallel(world, **data.sizes(num_slots=numpy.int64(2), num_sms=numpy.uint8(1)))
    assert ep.config["num_slots"] == 2 and type(ep.config["num_slots"]) is int
    for wrong, says in ((2 ** 70, r"num_slots: 1180591620717411303424, expected -2147483648 to 2147483647"), (2.0, "num_slots: 2.0, expected a whole number"),
                        (True, "num_slots: True, expected a whole number"), ("2", "num_slots: '2', expected a whole number")):
        with pytest.raises(baton.InvalidArgument, match=says):
            baton.ExpertParallel(world, **data.sizes(num_slots=wrong))
    with pytest.raises(baton.InvalidArgument, match="device: 99999999999, expected -2147483648 to"):
        baton.World.from_all_gather(None, 0, 1, "cuda:99999999999")
    with pytest.raises(baton.InvalidArgument, match="worlds: int, expected a list of a baton.World for each rank"):
        baton.ExpertParallel.create_all(5, **data.sizes())


def test_each_of_all_ranks_adds_to_a_load_of_its_own():
    data = round_data(num_ranks=2)
    ep, loads = local(data, num_ranks=2), [numpy.zeros(32, numpy.int64) for _ in range(2)]
    with pytest.raises(baton.InvalidArgument, match="expert_load: the same array for rank 1 and one before it"):
        baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights, expert_load=[loads[0], loads[0]])
    with pytest.raises(baton.InvalidArgument, match="expert_load: 32 entries, expected 2, one for each rank"):
        baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights, expert_load=loads[0])
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights, expert_load=loads)
    for one, load in zip(recv, loads):
        assert (load == one.row_counts).all() and load.sum() > 0


MEMBERS = """
import numpy, sys
import baton
from baton import _core
from rounds import local, round_data
data = round_data(num_ranks=1)
ep = local(data, num_ranks=1)[0]
recv = ep.dispatch(*data.given(0))
for wrong in (int, 5, _core.World, object):
    try:
        _core.makes_received(wrong)
    except TypeError:
        print("refused")
out = ep.combine(recv.tokens, out=numpy.zeros((16, 256), numpy.float32))
ep._quick = _core.Quick.__new__(_core.Quick)
recv = ep.dispatch(*data.given(0))
assert (ep.combine(recv.tokens, out=numpy.zeros((16, 256), numpy.float32)) == out).all()
for empty in (_core.Communicator, _core.World, baton.Received):
    for name in dir(empty):
        if not name.startswith("__"):
            try:
                getattr(empty.__new__(empty), name)()
            except (AttributeError, TypeError):
                pass
print("the end")
"""


def test_members_that_were_tampered_with_end_no_process():
    said = subprocess.run([sys.executable, "-W", "ignore", "-c", MEMBERS], text=True, capture_output=True, timeout=60, cwd=os.path.dirname(__file__))
    assert said.returncode == 0 and said.stdout.splitlines() == ["refused"] * 4 + ["the end"], said
