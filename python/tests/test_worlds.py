"""How ranks meet: by what torch.distributed or mpi4py has set up, of which there are stand-ins here."""
import sys
import threading
import types

import numpy
import pytest

import baton
from rounds import assert_scaled, round_data, scaled_experts
from threads import on_threads


class communicator_of_mpi:
    def __init__(self, rank, size, all_gather):
        self.Get_rank, self.Get_size, self.allgather = (lambda: rank), (lambda: size), all_gather


def round_on(world):
    data = round_data(num_ranks=world.size)
    ep = baton.ExpertParallel(world, **data.sizes())
    out = ep.combine(scaled_experts(ep.dispatch(*data.given(world.rank))))
    assert_scaled(data, world.rank, out)
    return world.rank, world.size


def finished(results):
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def test_a_communicator_of_mpi4py_brings_ranks_together():
    results = on_threads(3, lambda rank, gather: round_on(baton.World.from_mpi(communicator_of_mpi(rank, 3, gather), "cpu")))
    assert finished(results) == [(0, 3), (1, 3), (2, 3)]


@pytest.fixture
def torch_distributed(monkeypatch):
    """What World.from_torch uses of it, with ranks that are threads."""
    own = threading.local()

    def all_gather_object(of_ranks, mine, group):
        assert group is own.group
        of_ranks[:] = own.gather(mine)

    distributed = types.SimpleNamespace(get_rank=lambda group: own.rank, get_world_size=lambda group: 2, all_gather_object=all_gather_object)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(distributed=distributed))
    return own


def test_a_process_group_of_torch_brings_ranks_together(torch_distributed, monkeypatch):
    monkeypatch.delenv("LOCAL_RANK", raising=False)

    def work(rank, gather):
        torch_distributed.rank, torch_distributed.gather, torch_distributed.group = rank, gather, object()
        return round_on(baton.World.from_torch(torch_distributed.group, "cpu"))

    assert finished(on_threads(2, work)) == [(0, 2), (1, 2)]


def test_what_is_missing_is_said_by_python():
    for name, make in (("torch", baton.World.from_torch), ("mpi4py", baton.World.from_mpi)):
        try:
            __import__(name)
        except ImportError:
            with pytest.raises(ModuleNotFoundError, match=name):
                make()


def test_a_world_of_one_rank_needs_nobody():
    world = baton.World.from_all_gather(None, 0, 1, "cpu", deadline=1.5)
    assert (world.rank, world.size, world.device, world.deadline, world.hosts) == (0, 1, "cpu", 1.5, (0,))
    with pytest.raises(TypeError, match="World.local"):
        baton.World(None)


@pytest.mark.parametrize("num_ranks", [0, -1, 33, 1000])
def test_a_world_has_no_more_ranks_than_an_exchange_can(num_ranks):
    with pytest.raises(baton.InvalidArgument, match=rf"num_ranks: {num_ranks}, expected 1 to 32"):
        baton.World.local(num_ranks, device="cpu")
    assert len(baton.World.local(32, device="cpu")) == 32


@pytest.mark.parametrize("wrap", [bytearray, memoryview, lambda mine: numpy.frombuffer(mine, numpy.uint8)])
def test_whatever_holds_bytes_brings_ranks_together(wrap):
    def work(rank, gather):
        return round_on(baton.World.from_all_gather(lambda mine: [wrap(one) for one in gather(mine)], rank, 2, "cpu"))
    assert finished(on_threads(2, work)) == [(0, 2), (1, 2)]


@pytest.mark.parametrize("given", [None, ["a", "b"], [1.5, None], 7])
def test_what_holds_no_bytes_is_named(given):
    with pytest.raises(baton.InvalidArgument, match=r"all_gather: returned .*, expected a list with the bytes of each rank"):
        baton.World.from_all_gather(lambda mine: given, 0, 2, "cpu")


def test_a_launcher_that_numbers_nothing_is_told(torch_distributed, monkeypatch):
    torch_distributed.rank = 0
    monkeypatch.setenv("LOCAL_RANK", "first")
    with pytest.raises(baton.InvalidArgument, match="LOCAL_RANK='first', expected a number"):
        baton.World.from_torch(None, "cpu")
