"""What baton raises. The text names the argument, what was expected, what was found, and what to do about it."""


class Error(Exception):
    """Base of everything that baton raises."""


class InvalidArgument(Error, ValueError):
    """An argument is outside its documented limits, or a call comes out of order. Nothing was enqueued."""


class Unsupported(Error):
    """The arguments are legal, but this machine or this build cannot serve them."""


class BadFile(Error):
    """A file is missing, truncated or contradicts itself."""


class CudaError(Error):
    """The CUDA runtime or driver refused a call."""


class TransportError(Error):
    """Ranks could not find each other, or disagree about what they are doing."""


class OutOfMemory(Error, MemoryError):
    """Memory ran out: `needed` bytes were asked for, `free` were there."""

    needed: int
    free: int


class Stuck(Error, TimeoutError):
    """A wait outlived its deadline: some peer never did what it should have; or what a peer said cannot be (`waited_ns` is 0).

    The process is healthy. Communicators of the world refuse to go on, and say with what they can: `set_members`, or new ones that all
    ranks make, or new processes.
    """

    rank: int       # who waited
    peer: int       # for whom; -1: for another block of its own rank
    phase: str      # where in the protocol
    expected: int   # what would have ended the wait
    seen: int       # what was there instead
    block: int
    slot: int       # of the communicator; -1: it has one
    epoch: int
    waited_ns: int


class DeviceError(Error):
    """A kernel found something in its input that only the device knows, such as an expert id out of range."""
