"""Rounds of communicators that are made when they are first needed, for calls that come in any order.

A round of baton is a dispatch and its combine. DeepEP lets a dispatch go without a combine, and combines one twice: the first is ended here
with a combine whose sums nobody looks at, the second begun again with a dispatch of zeros. All ranks make the same calls, so all do the same.
"""
import itertools
from typing import Callable, List, Optional

import torch

from .._errors import InvalidArgument
from .._expert_parallel import ExpertParallel
from .._received import Received
from .._world import World


class Rounds:
    """Those of one communicator."""

    def __init__(self, world: World, sizes: dict, num_slots: int = 1) -> None:
        self.ep = ExpertParallel(world, num_slots=num_slots, **sizes)
        self.hidden, self.top_k, self.num_slots = sizes["hidden"], sizes["top_k"], num_slots
        self.has_places = sizes.get("rows_of_expert", 0) > 0  # experts have rows of their own, and combine is given the weights
        self._places: List[Received] = []
        self.next_slot, self.numbers = 0, itertools.count()
        self.last: dict = {}  # slot: number of the last round that began there, whose rows its memory has
        self.open: dict = {}  # slot: (number of the round that may be combined, its Received)
        self.unfinished: dict = {}  # slot: what ends the call that began there

    def places(self, device: torch.device) -> Received:
        """Where the next round leaves what it receives, before it has: where a slot's round of nothing did, the first time."""
        if not self._places:
            nothing = torch.empty((0, self.hidden), dtype=torch.bfloat16, device=device)
            ids = torch.empty((0, self.top_k), dtype=torch.int32, device=device)
            for slot in range(self.num_slots):
                self._places.append(self.ep.dispatch(nothing, ids, slot=slot))
                self.ep.combine(nothing, num_rows=0, slot=slot)
        return self._places[self.next_slot]

    def begin(self, tokens: object, idx: torch.Tensor, num_sms: int = 0, is_whole: bool = False) -> tuple:
        """Sends; `arrive` of the same is due next, unless it is a whole dispatch. Returns (number, slot)."""
        slot = self.next_slot
        if slot in self.unfinished:
            self.unfinished[slot]()
        if slot in self.open:
            _, recv = self.open.pop(slot)
            rows = recv.tokens if self.has_places and recv.format == "bf16" else None  # any memory of that size does
            if rows is None:
                rows = torch.empty((recv.max_rows, self.hidden), dtype=torch.bfloat16, device=idx.device)
            self.ep.combine(rows, slot=slot)
        recv = None
        if is_whole:
            recv = self.ep.dispatch(tokens, idx, slot=slot, num_sms=num_sms)
        else:
            self.ep.dispatch_async(tokens, idx, slot=slot, num_sms=num_sms)
        # Only now: what a dispatch refuses on one rank, that rank gives again, and other ranks are at this slot
        number, self.next_slot = next(self.numbers), (slot + 1) % self.num_slots
        self.last[slot] = number
        if recv is not None:
            self.open[slot] = number, recv
        return number, slot

    def arrive(self, number: int, slot: int) -> Received:
        recv = self.ep.dispatch_wait(slot=slot)
        self.open[slot] = number, recv
        return recv

    def later(self, slot: int, end: Callable) -> Callable:
        """A hook that does `end` once; the slot's next round does it if nobody did."""
        def hook() -> None:
            if self.unfinished.get(slot) is hook:
                del self.unfinished[slot]
                end()
        self.unfinished[slot] = hook
        return hook

    def is_open(self, number: int, slot: int) -> bool:
        return self.open.get(slot, (None,))[0] == number

    def reopened(self, handle: "Optional[Handle]", idx: torch.Tensor) -> int:
        """The slot of an open round with that routing: the handle's own if it is open. Otherwise it is the handle's from now on, so that
        what is refused before its combine can be given again."""
        if handle is not None and self.is_open(handle.number, handle.slot):
            return handle.slot
        nothing = torch.zeros((idx.size(0), self.hidden), dtype=torch.bfloat16, device=idx.device)
        number, slot = self.begin(nothing, idx)
        self.arrive(number, slot)
        if handle is not None:
            handle.number, handle.slot = number, slot
        return slot

    def require_rows_stay(self, x: torch.Tensor, handle: "Handle") -> None:
        """Refuses an x in the memory of a slot whose rows are no longer the handle's, or are not by the time that combine reads them."""
        memory = (slot for slot, recv in enumerate(self._places) if 0 <= x.data_ptr() - recv.tokens.data_ptr() < recv.tokens.nbytes)
        slot, (number, its_slot), why = next(memory, None), handle.received_as, ""
        if slot is not None and slot == its_slot and self.last.get(slot) != number:
            why = "a later round has overwritten"
        elif slot is not None and slot == self.next_slot and not self.is_open(handle.number, handle.slot):
            why = "this combine, which sends the handle's routing again, overwrites"
        if why:
            raise InvalidArgument(f"x: memory that low_latency_dispatch returned, which {why}; expected a copy made before that")

    def received(self, slot: int) -> Received:
        """Of the round that is open there."""
        return self.open[slot][1]

    def close_round(self, slot: int) -> None:
        self.open.pop(slot, None)

    def close(self) -> None:
        """What was received keeps a communicator's memory, so that goes as well."""
        self.ep.close()
        self._places.clear()
        self.open.clear()


class Communicators:
    """A buffer's, by their sizes. The first call with some sizes is collective, and not to be captured."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.made: dict = {}

    def of(self, sizes: dict, num_slots: int = 1) -> Rounds:
        key = tuple(sizes.items())
        if key not in self.made:
            self.made[key] = Rounds(self.world, sizes, num_slots)
        return self.made[key]

    def close(self) -> None:
        for rounds in self.made.values():
            rounds.close()
        self.made = {}


def version_of(tensor: torch.Tensor) -> Optional[int]:
    """How often torch has written to it; None in inference mode, where it does not count."""
    return None if tensor.is_inference() else tensor._version


class Handle(tuple):
    """What a dispatch leaves for combine: DeepEP's tuple, and the round that it is of."""

    rounds: Rounds
    number: int
    slot: int
    idx: torch.Tensor  # as the communicator takes them
    idx_version: Optional[int] = None  # of low latency, where they are the caller's
    received_as: tuple  # of low latency: number and slot of the round that brought its rows
    first_expert: int
    top_k: Optional[int]
    num_rows: Optional[int]
    has_arrived: bool = False  # of low latency: what it is a handle of
    answers: Optional[torch.Tensor] = None  # of low latency: memory for what experts make, if it was asked for

    def has_its_idx(self) -> bool:
        """Whether torch knows that nobody wrote to the caller's ids since dispatch read them."""
        return self.idx_version is not None and version_of(self.idx) == self.idx_version

    def __repr__(self) -> str:
        return f"<baton.deep_ep handle: round {self.number} of {self.idx.size(0)} tokens, {self.rounds.ep!r}>"
