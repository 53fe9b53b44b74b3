"""Where ranks meet by a process group of torch's or by a communicator of MPI's: waits are baton's, which end. Stand-ins first, then theirs."""
import os
import shutil
import subprocess
import sys
import threading
import time
import types

import pytest

import baton
from baton import _meeting
from test_interrupts import MEETINGS, interrupted_script
from test_worlds import finished, round_on
from threads import on_threads


class a_store:
    """What is used of torch.distributed's."""

    def __init__(self):
        self.lock, self.kept = threading.Lock(), {}

    def add(self, key, amount):
        with self.lock:
            self.kept[key] = self.kept.get(key, 0) + amount
            return self.kept[key]

    def set(self, key, value):
        self.kept[key] = value

    def get(self, key):
        return self.kept[key]

    def check(self, keys):
        return all(key in self.kept for key in keys)

    def delete_key(self, key):
        return self.kept.pop(key, None) is not None


def group_of(store):
    return types.SimpleNamespace(get_group_store=lambda: store)


@pytest.fixture
def torch_distributed(monkeypatch):
    """With ranks that are threads."""
    own = threading.local()
    distributed = types.SimpleNamespace(get_rank=lambda group: own.rank, get_world_size=lambda group: 2, group=types.SimpleNamespace(WORLD=group_of(a_store())))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(distributed=distributed))
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return own


@pytest.mark.parametrize("is_default", [False, True])
def test_ranks_meet_in_a_process_group_s_store_as_often_as_they_like(torch_distributed, is_default):
    store = a_store()

    def work(rank, _):
        torch_distributed.rank = rank
        return [round_on(baton.World.from_torch(None if is_default else group_of(store), "cpu")) for _ in range(3)]

    assert finished(on_threads(2, work)) == [[(0, 2)] * 3, [(1, 2)] * 3]
    if not is_default:  # of each world a count and the last bytes of each rank
        assert len(store.kept) == 2 + 3 * 2


class request:
    def __init__(self, meeting, rank, number, into):
        self.meeting, self.rank, self.number, self.into = meeting, rank, number, into

    def Test(self):
        given = self.meeting.given[self.number]
        if len(given) < self.meeting.size:
            return False
        self.into[:] = b"".join(given[rank] for rank in range(self.meeting.size))
        return True


class communicator_of_mpi:
    """What is used of mpi4py's."""

    def __init__(self, rank, meeting):
        self.rank, self.meeting, self.calls = rank, meeting, 0

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.meeting.size

    def Iallgather(self, mine, into):
        assert isinstance(mine, bytes) and len(into) == self.meeting.size * len(mine)
        self.calls += 1
        self.meeting.given.setdefault(self.calls, {})[self.rank] = mine
        return request(self.meeting, self.rank, self.calls, into)


def meeting_of(size):
    return types.SimpleNamespace(size=size, given={})


def test_ranks_meet_in_mpi():
    meeting = meeting_of(3)
    results = on_threads(3, lambda rank, _: round_on(baton.World.from_mpi(communicator_of_mpi(rank, meeting), "cpu")))
    assert finished(results) == [(0, 3), (1, 3), (2, 3)]


def test_worlds_have_the_deadline_that_their_meetings_had(torch_distributed, monkeypatch):
    monkeypatch.delenv("BATON_DEADLINE_MS", raising=False)
    store, meeting = a_store(), meeting_of(2)

    def work(rank, _):
        torch_distributed.rank = rank
        return (baton.World.from_torch(group_of(store), "cpu", deadline=7).deadline, baton.World.from_mpi(communicator_of_mpi(rank, meeting), "cpu", deadline=8).deadline)

    assert finished(on_threads(2, work)) == [(7.0, 8.0)] * 2


def alone_in_a_store(deadline):
    _meeting.by_store(a_store(), 0, 3, deadline)(b"here")


def alone_in_mpi(deadline):
    _meeting.by_mpi(communicator_of_mpi(0, meeting_of(3)), deadline)(b"here")


@pytest.mark.parametrize("alone, says", [(alone_in_a_store, "rank 0 of 3 waited in the process group's store for rank 1, 2 for"),
                                         (alone_in_mpi, "rank 0 of 3 waited in MPI for another rank's call for")])
def test_who_waits_for_ranks_in_vain_is_told_at_the_deadline_or_when_somebody_gives_up(alone, says, monkeypatch):
    began = time.monotonic()
    with pytest.raises(baton.TransportError, match=says + r" 0\.[2-9] s; raise BATON_DEADLINE_MS"):
        alone(0.2)
    monkeypatch.setenv("BATON_DEADLINE_MS", "300")
    with pytest.raises(baton.TransportError, match=says + r" 0\.[3-9] s"):
        alone(100.0)
    monkeypatch.setenv("BATON_DEADLINE_MS", "30000")
    threading.Timer(0.2, baton.World.give_up_meetings).start()
    with pytest.raises(baton.TransportError, match=says):
        alone(0.1)
    assert time.monotonic() - began < 20


STANDS_IN = "from test_meetings import *; sys.modules['torch'] = types.SimpleNamespace(distributed=types.SimpleNamespace(get_rank=lambda _: 0, get_world_size=lambda _: 2))"


@pytest.mark.parametrize("meeting, says", [("baton.World.from_torch(group_of(a_store()), 'cpu')", "rank 0 of 2 waited in the process group's store for rank 1 for"),
                                           ("baton.World.from_mpi(communicator_of_mpi(0, meeting_of(2)), 'cpu')", "rank 0 of 2 waited in MPI for another")])
@pytest.mark.parametrize("is_raised", [True, False])
def test_ctrl_c_ends_it_and_says_who_was_waited_for(meeting, says, is_raised):
    script = MEETINGS.format(before=STANDS_IN + ("" if is_raised else "; signal.signal(signal.SIGINT, lambda *_: None)"), meeting=meeting)
    out, problems = interrupted_script(script if is_raised else script.replace("KeyboardInterrupt", "baton.TransportError"))
    assert out == "ended\n" and (f"baton: interrupted: {says}" in problems) == is_raised


def test_who_waited_in_vain_may_come_again():
    store = a_store()
    for _ in range(2):
        with pytest.raises(baton.TransportError, match="for rank 1 for"):
            _meeting.by_store(store, 0, 2, 0.05)(b"too early")
    gathers = [_meeting.by_store(store, rank, 2, 0.05) for rank in range(2)]
    with pytest.raises(baton.TransportError, match="for rank 1 for"):
        gathers[0](b"too early")
    gathers[0] = _meeting.by_store(store, 0, 2, 20.0)
    for of in (b"first", b"second"):
        assert finished(on_threads(2, lambda rank, _: gathers[rank](of + b"%d" % rank))) == [[of + b"0", of + b"1"]] * 2
    assert list(store.kept.values()) == [1, 1, b"second0", b"second1"]


IN_TORCH = """
import datetime, sys
import torch.distributed as distributed
rank, path, which, how = int(sys.argv[1]), *sys.argv[2:]
distributed.init_process_group("gloo", rank=rank, world_size=2, store=distributed.FileStore(path, 2), timeout=datetime.timedelta(seconds=300))
import baton
group = None if which == "all" else distributed.new_group([0, 1])
if how == "late":
    if rank == 0:
        try:
            baton.World.from_torch(group, "cpu", deadline=0.5)
        except baton.TransportError as error:
            print(error, flush=True)
    distributed.barrier(group)  # which the wait left as it was
for _ in range(2):
    world = baton.World.from_torch(group, "cpu")
    baton.ExpertParallel(world, num_experts=4, top_k=2, hidden=128, num_max_tokens_per_rank=8)
print(world, flush=True)
"""


@pytest.mark.parametrize("which, how", [("all", "late"), ("new", "together")])
def test_processes_of_torch_meet_by_its_store(tmp_path, which, how):
    pytest.importorskip("torch", exc_type=ImportError)
    ranks = [subprocess.Popen([sys.executable, "-c", IN_TORCH, str(rank), str(tmp_path / "store"), which, how], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for rank in range(2)]
    for rank, process in enumerate(ranks):
        out, problems = process.communicate(timeout=120)
        assert process.returncode == 0, problems
        *said, last = out.splitlines()
        assert last == f"<baton.World: rank {rank} of 2 on cpu>"
        assert len(said) == (how == "late" and rank == 0) and all("waited in the process group's store for rank 1 for 0." in one for one in said)


IN_MPI = """
from mpi4py import MPI
import baton
comm = MPI.COMM_WORLD
for _ in range(2):
    world = baton.World.from_mpi(device="cpu")
    baton.ExpertParallel(world, num_experts=4, top_k=2, hidden=128, num_max_tokens_per_rank=8)
print(world, flush=True)
"""


def test_processes_of_mpi_meet(tmp_path):
    pytest.importorskip("mpi4py")
    mpiexec = shutil.which("mpiexec", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if mpiexec is None:
        pytest.skip("needs mpiexec")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    said = subprocess.run([mpiexec, "-n", "2", sys.executable, "-c", IN_MPI], text=True, capture_output=True, timeout=120, env={**os.environ, **root})
    assert said.returncode == 0, said
    assert sorted(said.stdout.splitlines()) == [f"<baton.World: rank {rank} of 2 on cpu>" for rank in range(2)]
