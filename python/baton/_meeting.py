"""How ranks meet by what torch.distributed or mpi4py has set up: with waits of ours, which end at the deadline and at Ctrl-C, as theirs do not."""
import sys
import time
from typing import Any, Callable, Optional, Sequence

from . import _core
from ._errors import TransportError

Gather = Callable[[bytes], Sequence[bytes]]


def as_the_library_reads(deadline: float) -> float:
    """With BATON_DEADLINE_MS."""
    return _core.from_all_gather(None, (0, 1), "cpu", -1, -1, deadline).deadline


def wait_for(is_done: Callable[[], bool], deadline: float, whom: Callable[[], str]) -> None:
    """Until is_done() says so. Raises TransportError, with what whom() says, at the deadline, or where somebody gives up where ranks meet."""
    began, given_up, pause = time.monotonic(), _core.num_meetings_given_up(), 0.0001
    while not is_done():
        waited = time.monotonic() - began
        if 0 < deadline <= waited or _core.num_meetings_given_up() != given_up:
            raise TransportError(f"{whom()} for {waited:.1f} s; raise BATON_DEADLINE_MS if they may be this late")
        try:
            time.sleep(pause)
        except BaseException:  # a handler's, of SIGINT
            sys.stderr.write(f"baton: interrupted: {whom()} for {waited:.1f} s\n")
            raise
        pause = min(2 * pause, 0.02)


def by_store(store: Any, rank: int, size: int, deadline: float) -> Gather:
    """An all_gather of ranks that share a store of torch.distributed, which leaves nothing to wait for in the process group's own calls. Who
    waited in vain is as if it had not come, and may come again."""
    limit, number_of = as_the_library_reads(deadline), f"baton/worlds_of/{rank}"
    number, count = store.add(number_of, 1), 0  # each of a group's worlds has keys of its own

    def keys(of: int) -> "list[str]":
        return [f"baton/{number}/{of}/{one}" for one in range(size)]

    def all_gather(mine: bytes) -> "list[bytes]":
        nonlocal count
        its = keys(count + 1)

        def whom() -> str:
            missing = [str(one) for one, key in enumerate(its) if not store.check([key])]
            return f"rank {rank} of {size} waited in the process group's store for rank {', '.join(missing)}"

        store.set(its[rank], mine)
        try:
            wait_for(lambda: store.check(its), limit, whom)
        except BaseException:
            store.delete_key(its[rank])
            if count == 0:
                store.add(number_of, -1)
            raise
        if count > 0:  # all have this one, so that nobody reads the last one any more
            store.delete_key(keys(count)[rank])
        count += 1
        return [store.get(key) for key in its]

    return all_gather


LEFT: list = []  # MPI writes there when the others come


def by_mpi(comm: Any, deadline: float) -> Gather:
    """An all_gather of a communicator of mpi4py that does not wait in MPI."""
    rank, size, limit = comm.Get_rank(), comm.Get_size(), as_the_library_reads(deadline)

    def all_gather(mine: bytes) -> "list[bytes]":
        everything, count = bytearray(size * len(mine)), len(mine)
        request = comm.Iallgather(mine, everything)
        try:
            wait_for(request.Test, limit, lambda: f"rank {rank} of {size} waited in MPI for another rank's call")
        except BaseException:
            LEFT.append((request, mine, everything))
            raise
        return [bytes(everything[one * count:(one + 1) * count]) for one in range(size)]

    return all_gather


def of_torch(distributed: Any, group: Optional[Any], deadline: float) -> Gather:
    """By the group's store; of a PyTorch that does not give it away by a collective call, which ends when it says."""
    rank, size = distributed.get_rank(group), distributed.get_world_size(group)
    if (store := getattr(distributed.group.WORLD if group is None else group, "get_group_store", None)) is not None:
        return by_store(store(), rank, size, deadline)

    def all_gather(mine: bytes) -> list:
        of_ranks = [None] * size
        distributed.all_gather_object(of_ranks, mine, group=group)
        return of_ranks

    return all_gather


def of_mpi(comm: Any, deadline: float) -> Gather:
    return by_mpi(comm, deadline) if hasattr(comm, "Iallgather") else comm.allgather
