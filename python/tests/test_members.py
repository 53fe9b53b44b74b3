"""Ranks that leave and come back, and memory that sleeps."""
import gc

import numpy
import pytest

import baton
from rounds import assert_scaled, local, round_data, scaled_experts
from test_lifetimes import resident_bytes


def one_round(ep, data, ranks):
    """Of some ranks; tokens' choices of experts elsewhere count for nothing."""
    for rank in ranks:
        ep[rank].dispatch_async(*data.given(rank))
    recv = {rank: ep[rank].dispatch_wait() for rank in ranks}
    for rank in ranks:
        ep[rank].combine_async(scaled_experts(recv[rank]))
    return {rank: ep[rank].combine_wait() for rank in ranks}


def without(data, ep, ranks):
    """The same data, without choices of experts of other ranks."""
    left = round_data(num_ranks=len(ep))
    there = [expert for rank in ranks for expert in ep[rank].local_experts]
    left.topk_idx = [numpy.where(numpy.isin(ids, there), ids, -1) for ids in data.topk_idx]
    left.topk_weights = data.topk_weights
    left.tokens = data.tokens
    return left


def test_ranks_leave_and_come_back():
    data = round_data(num_ranks=3)
    ep = local(data, num_ranks=3)
    assert ep[0].members == (0, (0, 1, 2))
    for rank, out in one_round(ep, data, range(3)).items():
        assert_scaled(data, rank, out)
    baton.set_members_all(ep, [0, 2])
    assert ep[0].members == ep[2].members == (1, (0, 2)) and ep[1].members.epoch == 0
    left = without(data, ep, [0, 2])
    for _ in range(2):
        for rank, out in one_round(ep, data, [0, 2]).items():
            assert_scaled(left, rank, out)
    baton.set_members_all(ep, range(3), epoch=5)
    assert ep[1].members == baton.Members(5, (0, 1, 2))
    for rank, out in one_round(ep, data, range(3)).items():
        assert_scaled(data, rank, out)


def test_who_is_stuck_goes_on_without_whom_it_waited_for(monkeypatch):
    monkeypatch.setenv("BATON_DEADLINE_MS", "150")
    data = round_data(num_ranks=2)
    ep = local(data, num_ranks=2)
    ep[0].dispatch_async(*data.given(0))
    with pytest.raises(baton.Stuck) as told:
        ep[0].dispatch_wait()
    assert told.value.peer == 1
    ep[0].set_members([0])
    left = without(data, ep, [0])
    assert_scaled(left, 0, one_round(ep, data, [0])[0])


def test_members_that_cannot_be_are_named():
    ep = local(round_data(num_ranks=2), num_ranks=2)
    for ranks in ([], [-1], [0, 2]):
        with pytest.raises(baton.InvalidArgument, match=r"ranks: \[.*\], expected some of 0 to 1"):
            ep[0].set_members(ranks)
    with pytest.raises(baton.InvalidArgument, match="active_ranks"):
        ep[0].set_members([1])
    with pytest.raises(baton.InvalidArgument, match="epoch"):
        ep[0].set_members([0], epoch=0)


def test_memory_sleeps_and_is_there_again():
    data = round_data(num_ranks=2)
    sizes = data.sizes(num_max_tokens_per_rank=4096, transfer="chunks")
    ep = baton.ExpertParallel.create_all(baton.World.local(2, device="cpu"), **sizes)
    for rank, out in one_round(ep, data, range(2)).items():
        assert_scaled(data, rank, out)
    gc.collect()
    before = resident_bytes()
    baton.release_all(ep)
    assert resident_bytes() < before
    with pytest.raises(baton.InvalidArgument, match="release"):
        ep[0].dispatch_async(*data.given(0))
    baton.reacquire_all(ep)
    for rank, out in one_round(ep, data, range(2)).items():
        assert_scaled(data, rank, out)


def test_memory_does_not_go_under_views():
    data = round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **data.sizes())
    recv = ep.dispatch(*data.given(0))
    tokens = recv.tokens
    ep.combine(scaled_experts(recv))
    del recv
    with pytest.raises(baton.InvalidArgument, match=r"release: \d+ baton.Received of this communicator, or arrays that are views of one"):
        ep.release()
    assert tokens.shape[1] == 256
    del tokens
    ep.release()
    ep.reacquire()


def test_a_round_under_way_is_not_released():
    data = round_data(num_ranks=1)
    ep = baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **data.sizes())
    ep.dispatch(*data.given(0))
    with pytest.raises(baton.InvalidArgument, match="round"):
        ep.release()
