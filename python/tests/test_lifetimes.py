"""What keeps what alive."""
import gc
import threading
import time
import weakref

import numpy
import pytest

import baton
from rounds import BF16, assert_scaled, local, round_data, scaled_experts


def resident_bytes():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * 4096


def test_views_outlive_the_communicator_and_its_world():
    data = round_data()
    ep = local(data)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    tokens, before = recv[0].tokens, recv[0].tokens.copy()
    for one in ep:
        one.close()
    del ep, recv, one
    gc.collect()
    local(round_data(seed=3))  # memory that was given back would be used again
    assert (tokens.view(numpy.uint16) == before.view(numpy.uint16)).all()


def test_a_closed_communicator_says_so():
    ep = local(round_data())[0]
    with ep as same:
        assert same is ep
    ep.close()
    assert repr(ep) == "<baton.ExpertParallel: closed>"
    with pytest.raises(baton.InvalidArgument, match="ExpertParallel: closed"):
        ep.dispatch_wait()


@pytest.mark.parametrize("call", [
    lambda ep, data: ep.dispatch_async(*data.given(0)), lambda ep, data: ep.dispatch_wait(), lambda ep, data: ep.dispatch(*data.given(0)),
    lambda ep, data: ep.combine_async(data.tokens[0]), lambda ep, data: ep.combine_wait(), lambda ep, data: ep.combine(data.tokens[0]),
    lambda ep, data: ep.check(), lambda ep, data: ep.dump_state(), lambda ep, data: ep.members, lambda ep, data: ep.set_members([0]),
    lambda ep, data: ep.release(), lambda ep, data: ep.reacquire(), lambda ep, data: ep.config, lambda ep, data: ep.local_experts])
def test_every_call_on_a_closed_communicator_is_refused(call):
    data = round_data(num_ranks=1)
    ep = local(data, num_ranks=1)[0]
    ep.close()
    with pytest.raises(baton.InvalidArgument, match="ExpertParallel: closed; make another one"):
        call(ep, data)


def test_memory_is_free_again_when_the_last_view_is_gone():
    data = round_data(num_tokens=128)
    sizes = data.sizes(num_max_tokens_per_rank=4096, transfer="chunks")

    def use():
        ep = baton.ExpertParallel.create_all(baton.World.local(4, device="cpu"), **sizes)
        recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
        assert len(recv) == 4
        return resident_bytes()

    before = resident_bytes()
    taken_by_one = use() - before
    for _ in range(8):
        use()
    assert resident_bytes() - before < taken_by_one


class counted(numpy.ndarray):
    """An array that can be watched."""


def test_arrays_are_kept_until_the_round_is_over_and_no_longer():
    data = round_data()
    ep = local(data)
    watched = []
    for rank, one in enumerate(ep):
        given = [array.view(counted) if array.dtype != BF16 else array for array in data.given(rank)]
        watched += [weakref.ref(array) for array in given[1:]]
        one.dispatch_async(*given)
        del given
    recv = [one.dispatch_wait() for one in ep]
    gc.collect()
    for one, rows in zip(ep, recv):
        answers = scaled_experts(rows)
        watched.append(weakref.ref(answers))
        one.combine_async(answers)
        del answers
    gc.collect()
    assert all(each() is not None for each in watched)
    for rank, one in enumerate(ep):
        assert_scaled(data, rank, one.combine_wait())
    gc.collect()
    assert all(each() is None for each in watched)


def test_what_a_wait_in_vain_was_given_is_kept_for_its_work():
    data = round_data(num_ranks=2)
    ep = local(data, num_ranks=2, layout="per_expert")
    for rank, one in enumerate(ep):
        one.dispatch_async(*data.given(rank)[:2])
    recv = [one.dispatch_wait() for one in ep]
    ep[0].combine_async(scaled_experts(recv[0]))
    given = [data.topk_weights[0].view(counted), numpy.zeros((16, 256), numpy.float32).view(counted)]
    watched = [weakref.ref(array) for array in given]
    threading.Timer(0.3, ep[0].world.give_up).start()
    try:
        ep[0].combine_wait(given[1], topk_weights=given[0])
    except baton.Stuck as stuck:
        assert stuck.peer == 1
        del stuck
    del given
    gc.collect()
    assert all(each() is not None for each in watched)


def test_temporaries_may_go_before_their_work_runs():
    data = round_data()
    ep = local(data)
    for rank, one in enumerate(ep):
        one.dispatch_async(*(array.copy() for array in data.given(rank)))
    numpy.zeros((64, 256), BF16)
    recv = [one.dispatch_wait() for one in ep]
    for rank, out in enumerate(baton.combine_all(ep, [scaled_experts(r) for r in recv])):
        assert_scaled(data, rank, out)


def test_a_communicator_that_goes_with_work_queued_takes_nothing_along():
    data = round_data()
    worlds = baton.World.local(4, device="cpu")
    ep = baton.ExpertParallel.create_all(worlds, **data.sizes())
    for rank, one in enumerate(ep):
        one.dispatch_async(*(array.copy() for array in data.given(rank)))
    del ep, one
    gc.collect()
    again = baton.ExpertParallel.create_all(worlds, **data.sizes())
    recv = baton.dispatch_all(again, data.tokens, data.topk_idx, data.topk_weights)
    assert_scaled(data, 0, baton.combine_all(again, [scaled_experts(r) for r in recv])[0])


def test_hundreds_of_rounds_leave_no_memory_behind():
    data = round_data(num_experts=8, top_k=2, hidden=64, num_tokens=4)
    ep = local(data, num_ranks=2, num_sms=1)
    data.tokens, data.topk_idx, data.topk_weights = data.tokens[:2], data.topk_idx[:2], data.topk_weights[:2]

    def rounds(count):
        for _ in range(count):
            recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
            baton.combine_all(ep, [r.tokens for r in recv])
            with pytest.raises(baton.InvalidArgument):
                ep[0].dispatch_async(data.tokens[0], data.topk_idx[0].astype(numpy.int8))

    rounds(100)
    before = resident_bytes()
    rounds(300)
    assert resident_bytes() - before < 2 ** 20  # 300 rounds of 4 KiB or more each would show


@pytest.mark.parametrize("call", [
    lambda ep, data: ep.dispatch_async(*data.given(0)), lambda ep, data: ep.dispatch_wait(), lambda ep, data: ep.dispatch(*data.given(0)),
    lambda ep, data: ep.combine_async(numpy.zeros((1, 1), BF16)), lambda ep, data: ep.combine_wait(), lambda ep, data: ep.combine(numpy.zeros((1, 1), BF16)),
    lambda ep, data: ep.check()], ids=["dispatch_async", "dispatch_wait", "dispatch", "combine_async", "combine_wait", "combine", "check"])
def test_a_second_thread_is_told_while_the_first_waits(call):
    data = round_data()
    worlds = baton.World.local(2, device="cpu")
    ep = baton.ExpertParallel.create_all(worlds, **data.sizes())
    ep[0].dispatch_async(*data.given(0))
    waits = threading.Thread(target=ep[0].dispatch_wait)
    waits.start()
    time.sleep(0.2)  # until it does: what comes before it may have its turn
    told = None
    while told is None and waits.is_alive():
        try:
            call(ep[0], data)
        except baton.InvalidArgument as error:
            told = str(error) if "two threads" in str(error) else None
    ep[1].dispatch_async(*data.given(1))  # lets the first end
    ep[1].dispatch_wait()
    waits.join()
    assert told is not None


def test_memory_is_free_when_a_communicator_is_closed_though_its_views_were_looked_at():
    data = round_data(num_ranks=1)
    ep = local(data, num_ranks=1)[0]
    recv = ep.dispatch(*data.given(0))
    view = weakref.ref(recv.tokens)
    ep.combine(scaled_experts(recv))
    del recv
    ep.close()
    gc.collect()
    assert view() is None


def test_what_meets_by_a_method_of_its_own_is_collected():
    data = round_data(num_ranks=1)

    class Engine:
        def __init__(self):
            self.world = baton.World.from_all_gather(self.gather, 0, 1, "cpu")
            self.ep = baton.ExpertParallel(self.world, **data.sizes())

        def gather(self, mine):
            return [mine]

    engine = Engine()
    engine.ep.combine(scaled_experts(engine.ep.dispatch(*data.given(0))))
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None


def test_types_of_arrays_are_not_kept_but_for_the_first():
    data = round_data(num_ranks=1)
    ep = local(data, num_ranks=1)[0]
    kinds = []
    for _ in range(70):  # the library remembers what it found out of 64
        kind = type("Mine", (numpy.ndarray,), {})
        kinds.append(weakref.ref(kind))
        ep.combine(scaled_experts(ep.dispatch(data.tokens[0].view(kind), *data.given(0)[1:])))
    ep.close()
    del kind, ep
    gc.collect()
    assert kinds[-1]() is None
