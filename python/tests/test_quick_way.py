"""Calls of a round that functions of C do without a step of Python, and what those leave to the methods, which say the same."""
import itertools
import sys

import numpy
import pytest

import baton
from rounds import BF16, assert_scaled, round_data, scaled_experts

NAMES = ("tokens", "topk_idx", "topk_weights")


class on_stream:
    """As torch's streams are; CPU ranks have the one that is none."""

    def __init__(self, handle=0):
        self.cuda_stream = handle


class never:
    @property
    def cuda_stream(self):
        raise RuntimeError("asked for its stream")


def as_torch(array):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16) if array.dtype == BF16 else torch.from_numpy(array)


@pytest.fixture(params=[lambda array: array, as_torch], ids=["numpy", "torch"])
def rank(request):
    """A rank alone whose slots have had a round, and arrays for the next."""
    data = round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **data.sizes(num_slots=2))
    given = [request.param(array) for array in data.given(0)]
    for slot in (0, 1):
        ep.combine(ep.dispatch(*given, slot=slot).tokens, slot=slot)
    return ep, given, data


def steps_of(call):
    """Functions of baton that the interpreter enters in a call, and its result."""
    seen = []

    def note(frame, event, _):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("baton."):
            seen.append(frame.f_code.co_name)
    sys.setprofile(note)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return seen, result


def quickly(call, *given, **more):
    steps, result = steps_of(lambda: call(*given, **more))
    assert steps == []
    return result


def by_the_method(ep, name):
    """The call as Python does it, with nothing before it."""
    return getattr(baton.ExpertParallel, name).__wrapped__.__get__(ep)


def refusal(call, *given, **more):
    with pytest.raises(Exception) as caught:
        call(*given, **more)
    return caught.type, str(caught.value)


def test_rounds_take_no_step_of_python_however_they_are_given_their_arguments(rank):
    ep, given, _ = rank
    named, into = dict(zip(NAMES, given)), numpy.zeros((16, 256), numpy.float32)
    for slot, stream in itertools.product((0, 1), (None, 0, on_stream())):
        more = {"slot": slot, "stream": stream}
        for arrays, names in ((given, {}), (given[:2], {"topk_weights": given[2]}), ((), named), (given[:2], {})):
            recv = quickly(ep.dispatch, *arrays, **names, num_sms=1, **more)
            assert type(recv) is baton.Received and recv._place is ep._places[slot]
            answers = recv.tokens
            assert quickly(ep.combine, answers, out=into, num_rows=len(answers), **more) is into
            quickly(ep.dispatch_async, *arrays, **names, **more)
            recv = quickly(ep.dispatch_wait, **more)
            quickly(ep.combine_async, expert_output=recv.tokens, shared_output=None, topk_weights=None, **more)
            assert quickly(ep.combine_wait, into, **more) is into


def test_results_that_nobody_gave_memory_for_take_none_either(rank):
    ep, given, _ = rank
    first = quickly(ep.combine, quickly(ep.dispatch, *given).tokens)
    quickly(ep.combine_async, quickly(ep.dispatch, *given, slot=1).tokens, slot=1)
    second = quickly(ep.combine_wait, slot=1)
    assert type(first) is type(second) is type(given[0]) and first is not second
    assert tuple(first.shape) == (16, 256) and "float32" in str(first.dtype) and bool((first == second).all())


def test_rounds_by_name_are_those_by_place(rank):
    ep, given, data = rank
    for slot in (0, 1, 1, 0):
        recv = ep.dispatch(topk_weights=given[2], slot=slot, tokens=given[0], topk_idx=given[1])
        rows = scaled_experts(ep.dispatch(*data.given(0), slot=1 - slot))
        ep.combine(rows, slot=1 - slot)
        assert_scaled(data, 0, numpy.asarray(ep.combine(num_rows=len(rows), expert_output=rows, slot=slot)))
        assert recv.max_rows == len(rows)


def test_names_that_were_put_together_are_names(rank):
    ep, given, _ = rank
    more = {"".join(["sl", "ot"]): 1, "".join(["str", "eam"]): None}
    recv = quickly(ep.dispatch, *given, **more)
    quickly(ep.combine, recv.tokens, **more)


def test_quantised_tokens_have_a_quick_way():
    data = round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **data.sizes(format="mxfp4"))
    values = numpy.zeros((16, 128), numpy.uint8), numpy.zeros((16, 8), numpy.uint8).view("float8_e8m0fnu")
    for call in (lambda *given: steps_of(lambda: ep.dispatch(*given))[1], lambda *given: quickly(ep.dispatch, *given)):
        recv = call(values, *data.given(0)[1:])
        ep.combine(numpy.zeros((recv.max_rows, 256), BF16))


@pytest.mark.parametrize("name", ["dispatch", "dispatch_async"])
def test_what_dispatch_refuses_it_refuses_in_the_same_words(rank, name):
    ep, (tokens, ids, weights), _ = rank
    way, method = getattr(ep, name), by_the_method(ep, name)
    good = {"tokens": tokens, "topk_idx": ids, "topk_weights": weights}
    for wrong in ({"tokens": ids}, {"tokens": None}, {"tokens": ()}, {"tokens": (tokens, ids)}, {"topk_idx": ids[:3]}, {"topk_idx": None},
                  {"topk_weights": ids}, {"input_scales": ids}, {"input_scales": weights}, {"expert_load": weights}, {"slot": 2}, {"slot": -1},
                  {"slot": None}, {"slot": "one"}, {"slot": 2 ** 40}, {"slot": -2 ** 99}, {"slot": 1.5}, {"num_sms": None}, {"num_sms": 2 ** 31},
                  {"num_sms": -1}, {"num_sms": 10 ** 6}, {"stream": 5}, {"stream": -1}, {"stream": 2 ** 64}, {"stream": 2 ** 64 - 1},
                  {"stream": True}, {"stream": "s"}, {"stream": on_stream(7)}, {"stream": on_stream(2 ** 70)}, {"stream": on_stream("x")},
                  {"stream": on_stream(None)}, {"stream": never()}, {"strem": 1}, {"out": tokens}):
        expected = refusal(method, **good | wrong)
        assert refusal(way, **good | wrong) == expected, wrong
    for arrays in ((), (tokens,), (tokens, ids, weights, None)):
        assert refusal(way, *arrays) == refusal(method, *arrays)
    assert refusal(way, tokens, ids, tokens=tokens) == refusal(method, tokens, ids, tokens=tokens)
    assert refusal(way, topk_idx=ids) == refusal(method, topk_idx=ids)


def test_what_combine_refuses_it_refuses_in_the_same_words(rank):
    ep, given, data = rank
    for halves in ("combine", "combine_async", "combine_wait"):
        ep.close()
        ep = baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **data.sizes(num_slots=2))
        way, method = getattr(ep, halves), by_the_method(ep, halves)
        assert refusal(way, *[given[0]] * (halves != "combine_wait")) == refusal(method, *[given[0]] * (halves != "combine_wait"))  # nothing came
        recv = ep.dispatch(*given)
        rows, out = recv.tokens, numpy.zeros((16, 256), numpy.float32)
        if halves == "combine_wait":
            ep.combine_async(rows)
            good = {"out": out}
        else:
            good = {"expert_output": rows, **({"out": out} if halves == "combine" else {})}
        for wrong in ({"expert_output": given[1]}, {"expert_output": None}, {"expert_output": rows[:3]}, {"shared_output": rows},
                      {"out": out[:3]}, {"out": given[1]}, {"out": 5}, {"topk_weights": given[2]}, {"topk_weights": rows}, {"num_rows": 1},
                      {"num_rows": "all"}, {"num_rows": "9"}, {"num_rows": -2}, {"num_rows": 2 ** 33}, {"num_rows": None}, {"slot": 1}, {"slot": 2},
                      {"slot": "one"}, {"num_sms": -1}, {"num_sms": 0.5}, {"stream": 5}, {"stream": "s"}, {"stream": on_stream(3)},
                      {"stream": never()}, {"streams": 1}):
            if halves != "combine_wait" or wrong.keys() & {"out", "slot", "stream", "streams"} or "topk_weights" in wrong and wrong["topk_weights"] is rows:
                expected = refusal(method, **good | wrong)
                assert refusal(way, **good | wrong) == expected, wrong
        assert refusal(way) == refusal(method) if halves != "combine_wait" else way(**good) is out


def test_dispatch_wait_refuses_in_the_same_words(rank):
    ep, given, _ = rank
    way, method = ep.dispatch_wait, by_the_method(ep, "dispatch_wait")
    assert refusal(way) == refusal(method)  # out of order
    ep.dispatch_async(*given)
    for wrong in ({"slot": 1}, {"slot": 2}, {"slot": None}, {"stream": 5}, {"stream": on_stream(5)}, {"stream": []}, {"num_sms": 1}):
        assert refusal(way, **wrong) == refusal(method, **wrong), wrong
    assert refusal(way, 0) == refusal(method, 0)
    ep.combine(way().tokens)


def test_a_closed_communicator_is_closed_to_all_of_them(rank):
    ep, given, _ = rank
    recv = ep.dispatch(*given)
    calls = {"dispatch": given, "dispatch_async": given, "dispatch_wait": (), "combine": (recv.tokens,), "combine_async": (recv.tokens,), "combine_wait": ()}
    ep.close()
    for name, arrays in calls.items():
        assert refusal(getattr(ep, name), *arrays, slot=0) == (baton.InvalidArgument, "ExpertParallel: closed; make another one")


def test_arrays_of_another_kind_go_to_the_method_and_their_kind_is_the_next_calls():
    torch, data = pytest.importorskip("torch", exc_type=ImportError), round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **data.sizes(num_slots=2))
    for kind, its in ((as_torch, torch.Tensor), (numpy.asarray, numpy.ndarray), (as_torch, torch.Tensor)):
        given = [kind(array) for array in data.given(0)]
        steps, recv = steps_of(lambda: ep.dispatch(*given, slot=1))
        assert steps and type(recv.tokens) is its
        ep.combine(recv.tokens, slot=1)
        recv = quickly(ep.dispatch, *given, slot=1)
        assert type(recv.tokens) is its
        assert type(quickly(ep.combine, recv.tokens, slot=1)) is its


def test_members_of_c_are_hidden_behind_those_of_python(rank):
    ep, given, _ = rank
    recv = ep.dispatch(*given)
    public = {name for name in dir(recv) if not name.startswith("_")}
    assert public == {"expert_ids", "format", "hidden", "load", "max_rows", "num_local_experts", "row_counts", "row_offsets", "scales", "sources",
                      "token_rows", "tokens"}


def test_a_place_that_somebody_changed_is_left_to_python(rank):
    ep, given, _ = rank
    recv = ep.dispatch(*given)
    place = recv._place
    for wrong in (5, (), place[:3], place._replace(views=5), place._replace(views={"tokens": 5}), place._replace(views={"tokens": ()})):
        recv._place = wrong
        with pytest.raises((AttributeError, TypeError, ValueError, IndexError)):
            recv.tokens
    recv._place = place
    ep.combine(recv.tokens)
