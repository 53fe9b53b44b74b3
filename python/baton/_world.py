"""Worlds: the ranks that work together."""
import os
import sys
import weakref
from typing import Any, Callable, Optional, Sequence

from . import _core, _meeting
from ._arrays import integer, number, shown, stream_handle
from ._errors import InvalidArgument


def refuse_pickling(self: Any, _protocol: Any = None) -> Any:
    raise TypeError(f"{type(self).__name__}: cannot be pickled or copied: it is memory and streams of this process; make one in each "
                    "process")


def split_device(device: str) -> tuple:
    """("cuda", 1) of "cuda:1"; -1 where it does not say."""
    kind, colon, index = str(device).partition(":")
    if kind not in ("cpu", "cuda", "auto") or (colon and not (kind == "cuda" and index.isdecimal())):
        raise InvalidArgument(f"device: {str(device)!r}, expected 'cpu', 'cuda', 'cuda:N' or 'auto'")
    return kind, integer("device", int(index)) if colon else -1


def seconds(name: str, value: Any) -> float:
    if not 0 <= (found := number(name, value)) < 1e9:  # nan is not, either
        raise InvalidArgument(f"{name}: {value!r}, expected seconds, 0 for none")
    return found


def core_of(name: str, world: Any) -> Any:
    if not isinstance(world, World):
        raise InvalidArgument(f"{name}: {type(world).__name__}, expected a baton.World")
    return world._core


class Meeting:
    """How ranks meet: an all_gather, whatever holds the bytes that it returns. A world keeps it, and the library, where no collector of garbage
    looks, has a weak reference: the all_gather may be a method of what keeps the world."""

    __slots__ = ("_all_gather", "__weakref__")

    def __init__(self, all_gather: Callable[[bytes], Sequence[bytes]]) -> None:
        self._all_gather = all_gather

    def gather(self, mine: bytes) -> "list[bytes]":
        given = self._all_gather(mine)
        try:
            return [bytes(memoryview(one)) for one in given]
        except TypeError:
            raise InvalidArgument(f"all_gather: returned {shown(given)}, expected a list with the bytes of each rank") from None

    def by_weak_reference(self) -> Callable[[bytes], "list[bytes]"]:
        reached = weakref.ref(self)

        def gather(mine: bytes) -> "list[bytes]":
            if (meeting := reached()) is None:
                raise InvalidArgument("world: gone, and with it its all_gather; keep it while objects of it are made or changed")
            return meeting.gather(mine)
        return gather


def local_rank_of_launcher() -> int:
    """LOCAL_RANK; -1: it is not set."""
    try:
        return int(os.environ.get("LOCAL_RANK", -1))
    except ValueError:
        raise InvalidArgument(f"environment variable LOCAL_RANK={os.environ['LOCAL_RANK']!r}, expected a number") from None


def gpu_of_torch() -> int:
    """Torch's current one if set_device chose it, as ranks of a group need not be those that GPUs are numbered by. -1: it is the first, as where
    nobody chose."""
    cuda = sys.modules["torch"].cuda
    return (cuda.current_device() if cuda.is_initialized() else 0) or -1


def loaded_kind() -> type:
    """Of arrays of torch, or else cupy, where one of them is loaded."""
    for name, array in (("torch", "Tensor"), ("cupy", "ndarray")):
        if (kind := getattr(sys.modules.get(name), array, None)) is not None:
            return kind
    return type(None)


class World:
    """The ranks that work together, and this rank's device.

    Ranks are objects of one process (`local`), or processes of one machine (`from_env`), or those that an all_gather reaches (the others): of one
    machine, too, and with GPUs of several, where p2p_group_size says which reach each other's memory. Making one is collective: every rank does it.
    `device`: "cpu", "cuda", or "auto", which is "cuda" where the wheel has GPU kernels and a GPU here can run them.
    """

    __slots__ = ("_core", "_meeting", "__weakref__")
    __reduce_ex__ = refuse_pickling

    def __init__(self, core: Any, meeting: Optional[Meeting] = None) -> None:
        if not isinstance(core, _core.World):
            raise TypeError("World: made by World.local, from_env, from_all_gather, from_torch or from_mpi")
        self._core, self._meeting = core, meeting

    @classmethod
    def local(cls, num_ranks: int, device: str = "auto") -> "list[World]":
        """All ranks in this process, driven from one thread or one thread each. On "cuda" rank r uses GPU r modulo their number."""
        kind, index = split_device(device)
        if index >= 0:
            raise InvalidArgument(f"device: {device!r}, expected 'cuda': rank r of World.local uses GPU r modulo their number")
        return [cls(core) for core in _core.local(integer("num_ranks", num_ranks), kind)]

    @classmethod
    def from_env(cls, device: str = "auto") -> "World":
        """One process a rank, as torchrun or a similar launcher started it: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_PORT.

        Raises TransportError if ranks do not come in time, InvalidArgument if a variable is missing.
        """
        kind, index = split_device(device)
        if index >= 0:
            raise InvalidArgument(f"device: {device!r}, expected 'cuda': from_env takes the GPU from LOCAL_RANK")
        return cls(_core.from_environment(kind))

    @classmethod
    def from_all_gather(cls, all_gather: Optional[Callable[[bytes], Sequence[bytes]]], rank: int, size: int, device: str = "auto", *,
                        local_rank: int = -1, deadline: float = 30.0) -> "World":
        """Ranks that `all_gather` reaches: it takes this rank's bytes and returns those of all ranks, in order of ranks. Every rank calls it
        the same number of times, only while objects are made. None is enough for one rank. `deadline`: of every wait, in seconds, the same on all."""
        if all_gather is not None and not callable(all_gather):
            raise InvalidArgument(f"all_gather: {type(all_gather).__name__}, expected a function that takes bytes and returns those of all ranks, or None")
        kind, index = split_device(device)
        place = integer("rank", rank), integer("size", size)
        return cls._that_meets(None if all_gather is None else Meeting(all_gather), place, (kind, index), integer("local_rank", local_rank),
                               seconds("deadline", deadline))

    @classmethod
    def _that_meets(cls, meeting: Optional[Meeting], place: tuple, device: tuple, local_rank: int, deadline: float) -> "World":
        gather = None if meeting is None else meeting.by_weak_reference()
        return cls(_core.from_all_gather(gather, place, *device, local_rank, deadline), meeting)

    @classmethod
    def from_torch(cls, group: Any = None, device: str = "auto", *, deadline: float = 30.0) -> "World":
        """The ranks of a process group of torch.distributed; None: the default one. On "cpu" all of them on this machine. They meet in the group's
        store, not by its collective calls: waits end at the deadline, with TransportError, and at Ctrl-C.

        On "cuda" this rank's GPU is torch's current one where torch.cuda.set_device chose it, else LOCAL_RANK's."""
        from torch import distributed

        kind, index = split_device(device)
        if index < 0 and kind != "cpu" and (chosen := gpu_of_torch()) >= 0:
            index = chosen
        place, local_rank = (distributed.get_rank(group), distributed.get_world_size(group)), local_rank_of_launcher()
        meeting = Meeting(_meeting.of_torch(distributed, group, seconds("deadline", deadline)))
        return cls._that_meets(meeting, place, (kind, index), local_rank, deadline)

    @classmethod
    def from_mpi(cls, comm: Any = None, device: str = "auto", *, deadline: float = 30.0) -> "World":
        """The ranks of a communicator of mpi4py; None: MPI.COMM_WORLD. On "cpu" all of them on this machine. Waits end at the deadline, with
        TransportError, and at Ctrl-C; MPI's own call, which cannot be taken back, is then still under way in `comm`."""
        if comm is None:
            from mpi4py import MPI
            comm = MPI.COMM_WORLD
        all_gather = _meeting.of_mpi(comm, seconds("deadline", deadline))
        return cls.from_all_gather(all_gather, comm.Get_rank(), comm.Get_size(), device, deadline=deadline)

    @property
    def rank(self) -> int:
        return self._core.rank

    @property
    def size(self) -> int:
        return self._core.size

    @property
    def device(self) -> str:
        """"cpu" or "cuda"."""
        return self._core.device

    @property
    def device_index(self) -> int:
        return self._core.device_index

    @property
    def _gpu(self) -> int:
        """-1: none."""
        return self.device_index if self.device == "cuda" else -1

    @property
    def deadline(self) -> float:
        """Of every wait, in seconds; 0: none. BATON_DEADLINE_MS overrides what was asked for."""
        return self._core.deadline

    @property
    def hosts(self) -> "tuple[int, ...]":
        """Of each rank, the number of its host, counted in order of ranks: (0, 0, 1, 1). A host is a machine, or what BATON_HOST calls so."""
        return self._core.hosts

    def synchronize(self, stream: Any = None) -> None:
        """Waits, without Python's lock, until everything that this rank enqueued on `stream` is done. On CPU ranks this is where work runs.
        None: the current stream of torch, or else cupy, where one of them is loaded.

        Raises Stuck if a wait of this rank outlived its deadline.
        """
        self._core.synchronize(stream_handle(stream, self._gpu, loaded_kind()))

    def wait_times(self) -> dict:
        """How long this rank has waited for each peer, in all its rounds: {"rank", "peers": [{"ns", "waits"}], "span_ns"}. From any
        thread at any time, also while kernels hang."""
        return self._core.wait_times()

    def give_up(self) -> bool:
        """Ends what this rank waits for, as its deadline would: whoever waits raises Stuck. From any thread, as a watchdog. False: nothing of
        this rank waits for a peer, and nothing was done. Beyond the p2p group Stuck comes after the others have been asked whom they
        waited for, which ends by itself, up to three deadlines after the wait began."""
        return self._core.give_up()

    @staticmethod
    def give_up_meetings() -> None:
        """Ends what threads of this process wait for where ranks meet, as when worlds and communicators are made: whoever waits raises
        TransportError. From any thread, as a watchdog. A call that waits in several places is at the next one until this is called again."""
        _core.World.give_up_meetings()

    def reset_wait_times(self) -> None:
        self._core.reset_wait_times()

    def __repr__(self) -> str:
        try:
            where = f"cuda:{self.device_index}" if self.device == "cuda" else "cpu"
        except InvalidArgument:
            where = self.device
        return f"<baton.World: {self._ranks()} on {where}>"

    def _ranks(self) -> str:
        try:
            return f"rank {self.rank} of {self.size}"
        except InvalidArgument:  # a repr says what it can, in debuggers and logs of a fork, too
            return "of the process that this one is a fork of"
