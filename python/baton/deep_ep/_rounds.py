"""Rounds of communicators that are made when they are first needed, for calls that come in any order.

A round of baton is a dispatch and its combine. DeepEP lets a dispatch go without a combine, and combines one twice: the first is ended here
with a combine whose sums nobody looks at, the second begun again with a dispatch of zeros. All ranks make the same calls, so all do the same.
"""
import itertools
from typing import Callable, List, Optional

import torch

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
        slot, self.next_slot = self.next_slot, (self.next_slot + 1) % self.num_slots
        if slot in self.unfinished:
            self.unfinished[slot]()
        if slot in self.open:
            _, recv = self.open.pop(slot)
            rows = recv.tokens if self.has_places and recv.format == "bf16" else None  # any memory of that size does
            if rows is None:
                rows = torch.empty((recv.max_rows, self.hidden), dtype=torch.bfloat16, device=idx.device)
            self.ep.combine(rows, slot=slot)
        number = next(self.numbers)
        if is_whole:
            self.open[slot] = number, self.ep.dispatch(tokens, idx, slot=slot, num_sms=num_sms)
        else:
            self.ep.dispatch_async(tokens, idx, slot=slot, num_sms=num_sms)
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

    def reopened(self, number: int, slot: int, idx: torch.Tensor) -> tuple:
        """(number, slot) of a round with the routing of that one: itself if it is open."""
        if self.open.get(slot, (None,))[0] == number:
            return number, slot
        nothing = torch.zeros((idx.size(0), self.hidden), dtype=torch.bfloat16, device=idx.device)
        number, slot = self.begin(nothing, idx)
        self.arrive(number, slot)
        return number, slot

    def received(self, slot: int) -> Received:
        """Of the round that is open there."""
        return self.open[slot][1]

    def close_round(self, slot: int) -> None:
        self.open.pop(slot, None)


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
            rounds.ep.close()
        self.made = {}


class Handle(tuple):
    """What a dispatch leaves for combine: DeepEP's tuple, and the round that it is of."""

    rounds: Rounds
    number: int
    slot: int
    idx: torch.Tensor  # as the communicator takes them
    first_expert: int
    top_k: Optional[int]
    num_rows: Optional[int]
    has_arrived: bool = False  # of low latency: what it is a handle of
    answers: Optional[torch.Tensor] = None  # of low latency: memory for what experts make, if it was asked for

    def __repr__(self) -> str:
        return f"<baton.deep_ep handle: round {self.number} of {self.idx.size(0)} tokens, {self.rounds.ep!r}>"
