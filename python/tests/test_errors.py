"""Errors as exceptions with fields."""
import os
import threading
import time

import numpy
import pytest

import baton
from rounds import local, round_data
from threads import on_threads


def test_who_waits_in_vain_says_for_whom_and_what_it_saw():
    data = round_data(num_experts=8, top_k=2, hidden=64)

    def work(rank, all_gather):
        world = baton.World.from_all_gather(all_gather, rank, 2, "cpu", deadline=0.2)
        assert world.deadline == 0.2
        ep = baton.ExpertParallel(world, **data.sizes())
        if rank == 1:
            return ep  # never dispatches
        ep.dispatch_async(*data.given(rank))
        with pytest.raises(baton.Stuck) as caught:
            ep.dispatch_wait()
        with pytest.raises(baton.InvalidArgument):
            ep.dispatch_async(*data.given(rank))  # lost, and says so
        return caught.value

    stuck = on_threads(2, work)[0]
    assert isinstance(stuck, baton.Stuck) and isinstance(stuck, TimeoutError), stuck
    assert stuck.rank == 0 and stuck.peer == 1 and isinstance(stuck.phase, str) and stuck.phase
    assert stuck.expected != stuck.seen and stuck.waited_ns >= 200_000_000
    assert stuck.phase in str(stuck) and {"block", "slot", "epoch"} <= stuck.__dict__.keys()


def test_ranks_that_disagree_are_told_about_what():
    def work(rank, all_gather):
        world = baton.World.from_all_gather(all_gather, rank, 2, "cpu")
        return baton.ExpertParallel(world, **round_data().sizes(num_slots=1 + rank))

    for error in on_threads(2, work):
        assert isinstance(error, baton.InvalidArgument) and "num_slots" in str(error), error


@pytest.mark.parametrize("answer,says", [(lambda mine: [mine], "returned 1 entries, expected the bytes of each of 2 ranks"),
                                         (lambda mine: [mine, mine[:-1]], r"returned an entry of \d+ bytes, expected \d+")])
def test_an_all_gather_that_returns_something_else(answer, says):
    with pytest.raises(baton.TransportError, match=says):
        baton.World.from_all_gather(answer, 0, 2, "cpu")


def test_an_error_of_the_callback_comes_through():
    def broken(_):
        raise KeyError("no such group")

    with pytest.raises(KeyError, match="no such group"):
        baton.World.from_all_gather(broken, 0, 2, "cpu")


def test_what_only_kernels_see_is_told_by_check():
    data = round_data()
    data.topk_idx[2][3, 4] = 999
    ep = local(data)
    recv = baton.dispatch_all(ep, data.tokens, data.topk_idx, data.topk_weights)
    with pytest.raises(baton.DeviceError, match="999"):
        ep[2].check()
    ep[0].check()
    assert len(recv) == 4


def test_too_much_memory_is_told_with_numbers():
    sizes = {"num_experts": 1024, "top_k": 32, "hidden": 65536, "num_max_tokens_per_rank": 65536, "layout": "per_expert"}
    with pytest.raises(baton.OutOfMemory) as caught:
        baton.ExpertParallel(baton.World.local(1, device="cpu")[0], **sizes)
    assert isinstance(caught.value, MemoryError) and caught.value.needed > caught.value.free > 0


@pytest.mark.skipif("cuda" in baton.build_info().lower() and os.path.exists("/dev/nvidia0"), reason="a GPU is here")
def test_a_gpu_that_is_not_there_is_unsupported():
    with pytest.raises(baton.Unsupported):
        baton.World.local(1, device="cuda")
    assert baton.World.local(1)[0].device == "cpu"


def test_a_fork_is_told_that_the_world_is_its_parents():
    world = baton.World.local(1, device="cpu")[0]
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            world.synchronize()
            os.write(writes, b"nothing was said")
        except baton.InvalidArgument as error:
            os.write(writes, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reads, 1000).decode()
    assert f"made by process {os.getpid()}" in said and "spawn" in said
    world.synchronize()


def test_objects_of_the_parent_say_so_in_a_fork():
    data = round_data(num_ranks=1)
    ep = local(data, num_ranks=1)[0]
    recv = ep.dispatch(*data.given(0))
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writes, "\n".join(map(repr, (ep.world, ep, recv))).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writes)
    lines = os.read(reads, 4000).decode().splitlines()
    assert len(lines) == 3 and all("of the process that this one is a fork of" in line for line in lines), lines


def test_a_fork_that_names_no_world_has_one_of_its_own():
    ones = numpy.ones((8, 8), numpy.float16)
    assert (baton.gemm(ones, ones) == 8).all()
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if (baton.gemm(ones, ones) == 8).all() else 2)
        finally:
            os._exit(3)
    assert os.waitpid(child, 0)[1] == 0


def test_errors_are_of_one_family_and_of_pythons():
    for error in (baton.BadFile, baton.CudaError, baton.DeviceError, baton.InvalidArgument, baton.OutOfMemory, baton.Stuck,
                  baton.TransportError, baton.Unsupported):
        assert issubclass(error, baton.Error)
    assert issubclass(baton.InvalidArgument, ValueError)


def test_another_thread_may_give_up_for_who_waits():
    data = round_data(num_ranks=2)
    ep = local(data, num_ranks=2)
    assert not ep[0].world.give_up()
    ep[0].dispatch_async(*data.given(0))

    def watch():
        while not ep[0].world.give_up():
            time.sleep(0.01)

    watchdog = threading.Thread(target=watch)
    watchdog.start()
    with pytest.raises(baton.Stuck) as told:
        ep[0].dispatch_wait()
    watchdog.join()
    assert told.value.rank == 0 and told.value.peer == 1 and 0 < told.value.waited_ns < 10e9
