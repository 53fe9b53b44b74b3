"""What a dispatch left on a rank."""
from typing import Any, Callable, NamedTuple, Optional

from . import _core
from ._arrays import FORMATS, Array, memory_of, seen_as, takes_bits
from ._core import quick
from ._errors import InvalidArgument
from ._world import World, refuse_pickling


class Place(NamedTuple):
    """Where a slot's rounds come to, and as whose arrays."""

    kind: type  # of the tokens it was given last
    framework: str
    gpu: int
    views: dict  # with their shapes; rounds share them
    is_new_to_rounds: bool  # each has views of its own
    new_out: Optional[Callable[[tuple], Array]]  # an array of a shape for results, on the framework's current stream


class Received(_core.Received):
    """Every token that a dispatch left on this rank, grouped by local expert, then source rank, then the order there.

    All arrays are views of the communicator's memory, without copies: torch's, cupy's or jax's where the tokens were, on CPU ranks else numpy's.
    They keep that memory alive, also when the communicator is closed; what they say is overwritten by its slot's next dispatch_wait. Rows past the received
    ones, and between experts where row_alignment is more than 1, hold anything.
    """

    __reduce_ex__ = refuse_pickling
    __slots__ = "_place", "__weakref__"  # every round makes one

    def __init__(self, core: Any, place: Place) -> None:
        super().__init__(core)
        self._place = place

    def _seen(self, name: str, dtype: str, *as_bits: bool) -> Optional[Array]:
        place = self._place
        if name not in (views := place.views) or is_changed(*views[name]):
            view = getattr(self, f"_view_{name}")
            seen = seen_as(lambda: view(*as_bits), place.framework, place.gpu, dtype)
            views[name] = seen, getattr(seen, "shape", None), memory_of(seen)
        return views[name][0]

    @property
    def _framework(self) -> str:
        return self._place.framework

    @property
    def format(self) -> str:
        return self._its_format

    @property
    def hidden(self) -> int:
        return self._its_hidden

    @property
    def max_rows(self) -> int:
        """Rows that there is memory for."""
        return self._its_max_rows

    @property
    def num_local_experts(self) -> int:
        return self._its_num_local_experts

    @property
    @quick
    def tokens(self) -> Array:
        """[max_rows, hidden] in the communicator's format; of 4-bit formats bytes [max_rows, hidden / 2]. With rows="by_token" each token
        once, at token_rows."""
        return self._seen("tokens", FORMATS[self.format].tokens, takes_bits(self._framework))

    @property
    def scales(self) -> Optional[Array]:
        """[max_rows, blocks]; flat with tiled_scales; None with bf16."""
        return self._seen("scales", FORMATS[self.format].scales, takes_bits(self._framework))

    @property
    def row_offsets(self) -> Array:
        """[num_local_experts + 1] int32: the first row of each expert."""
        return self._seen("row_offsets", "int32")

    @property
    def row_counts(self) -> Array:
        """[num_local_experts] int32: rows of each expert."""
        return self._seen("row_counts", "int32")

    @property
    def expert_ids(self) -> Array:
        """[num_local_experts] int32: global ids."""
        return self._seen("expert_ids", "int32")

    @property
    def sources(self) -> Array:
        """[max_rows, 4] int32: of each row its token's index on the source rank, which of its choices it serves, the source rank, a seal."""
        return self._seen("sources", "int32")

    @property
    def token_rows(self) -> Optional[Array]:
        """[max_rows] int32: which row of `tokens` is row r's, with rows="by_token"; else None."""
        return self._seen("token_rows", "int32")

    def load(self) -> "Load":
        """Rows of each expert: a list of (expert, rows) that prints itself as a small table. Reads the device, and waits for it."""
        return Load(zip((int(e) for e in self.expert_ids), (int(n) for n in self.row_counts)))

    def __repr__(self) -> str:
        world = World(_core.world_of(self))
        bytes_of_rows = self._its_bytes
        return (f"<baton.Received: up to {self.max_rows} rows of {self.hidden} values as {self.format}, {self.num_local_experts} experts, "
                f"on {'cpu' if self._place.gpu < 0 else f'cuda:{self._place.gpu}'}, {world._ranks()}, {bytes_of_rows:,} bytes of rows and sources>")


_core.makes_received(Received)


def is_changed(view: Optional[Array], shape: Optional[tuple], memory: Optional[tuple]) -> bool:
    """Whether somebody gave it another shape, type or memory in place, which are not to be the next round's, or made a tensor of torch part of
    autograd, whose graph would grow with every round that shares it."""
    return getattr(view, "shape", None) != shape or getattr(view, "requires_grad", False) or memory_of(view) != memory


class Load(list):
    """(expert, rows) of each local expert; as text, and in notebooks, a table with the share of the busiest."""

    def _lines(self) -> list:
        most = max((rows for _, rows in self), default=0)
        return [(expert, rows, 0.0 if most == 0 else rows / most) for expert, rows in self]

    def __repr__(self) -> str:
        lines = [f"{expert:>8}  {rows:>8}  {'#' * round(24 * share)}".rstrip() for expert, rows, share in self._lines()]
        return "\n".join(["  expert      rows", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{expert}</td><td>{rows}</td><td><progress value={share:.3f}></progress></td></tr>"
                       for expert, rows, share in self._lines())
        return f"<table><tr><th>expert</th><th>rows</th><th></th></tr>{rows}</table>"


def received(recv: Received) -> Received:
    if not isinstance(recv, Received):
        raise InvalidArgument(f"recv: {type(recv).__name__}, expected what dispatch or dispatch_wait returned")
    return recv
