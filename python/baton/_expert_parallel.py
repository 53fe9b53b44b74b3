"""The exchange: tokens to the ranks of their experts, and the weighted results back."""
import contextlib
import json
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

from . import _core
from ._arrays import Array, empty, framework_of, integer, kind_of, new_out_of, stream_handle, told
from ._core import quick
from ._errors import InvalidArgument
from ._received import Place, Received
from ._world import World, core_of, refuse_pickling


class ExpertParallel:
    """Expert-parallel token exchange between the ranks of a world.

    A round is dispatch_async, dispatch_wait, combine_async, combine_wait, in this order, on every rank; or dispatch and combine, which are
    two of them each. Ranks that share a thread all make their *_async call before any makes the matching *_wait; dispatch_all and combine_all do
    that for all ranks of World.local.

    On GPUs every call only enqueues on `stream`, allocates nothing but results that were not given as `out`, and can be captured in a CUDA
    graph. On CPU ranks the calls that wait return when the work is done, without Python's lock meanwhile, so that threads may drive a rank each.

    Arrays are contiguous, on the rank's device, and used where they lie: numpy's (bfloat16 as ml_dtypes has it), torch's, cupy's, jax's, or
    whatever else speaks DLPack. Those that are given to a round stay unchanged until its combine_wait; on CPU ranks they are kept alive until
    then, on GPUs until what reads them has been enqueued: allocators that reuse memory in stream order, as torch's and cupy's do,
    need no more on one stream. New results belong to `stream`, as if it had been torch's current one.

    Results are the same bits on every run. `stream`: None for the current stream of the framework that the arrays are of, an integer, or an
    object with cuda_stream (torch's) or __cuda_stream__. CPU ranks take None.
    """

    __reduce_ex__ = refuse_pickling

    def __init__(self, world: World, *, num_experts: int, top_k: int, hidden: int, num_max_tokens_per_rank: int, format: str = "bf16",
                 **more: Any) -> None:
        """Collective over the world's ranks, all of which pass the same values; allocates and maps all memory.

        `format`: how tokens travel: bf16, fp8, mxfp8, mxfp4, nvfp4. `more`, by the names of C++'s ep_config: combine_format, layout
        ("per_rank", "per_expert"), transfer ("automatic", "lines", "chunks", "flags"), rows ("by_expert", "by_token"), arrival,
        p2p_group_size (0: the ranks of a host), levels ("one", "two"), num_sms, num_threads, tiled_scales, row_alignment, rows_of_expert, weights_at_combine, num_slots.
        """
        config = config_of(num_experts, top_k, hidden, num_max_tokens_per_rank, format, more)
        self._set_up(world, _core.create(core_of("world", world), config))

    def _set_up(self, world: World, core: Any) -> None:
        self._world, self._held, self._device = world, core, world.device
        config = core.config
        self._hidden = config["hidden"]
        self._gpu, self._size = world._gpu, world.size
        self._views: dict = {}  # of the communicator's memory, by framework and slot, whose rounds come back to the same places
        self._quick: Optional[_core.Quick] = _core.Quick(core)
        self._places = [self._place(type(None), slot) for slot in range(config["num_slots"])]  # of each slot's last tokens
        self._number = 0  # by which operators of baton.torch know it
        self._open_rounds: "dict[int, Received]" = {}  # what they received in its slots

    @classmethod
    def create_all(cls, worlds: Sequence[World], *, num_experts: int, top_k: int, hidden: int, num_max_tokens_per_rank: int,
                   format: str = "bf16", **more: Any) -> "list[ExpertParallel]":
        """Those of all ranks of one World.local, from one thread. Arguments as of ExpertParallel."""
        config = config_of(num_experts, top_k, hidden, num_max_tokens_per_rank, format, more)
        all_of_them, worlds = [], listed("worlds", worlds, "of a baton.World for each rank")
        for world, core in zip(worlds, _core.create_all([core_of("worlds", world) for world in worlds], config)):
            one = cls.__new__(cls)
            one._set_up(world, core)
            all_of_them.append(one)
        return all_of_them

    @property
    def _core(self) -> Any:
        if self._held is None:
            raise InvalidArgument("ExpertParallel: closed; make another one")
        return self._held

    @property
    def world(self) -> World:
        return self._world

    @property
    def config(self) -> dict:
        """What it was made with, by the names of its arguments."""
        return self._core.config

    @property
    def local_experts(self) -> range:
        """Global ids of this rank's experts."""
        first, count = self._core.local_experts
        return range(first, first + count)

    @quick
    def dispatch_async(self, tokens: Array, topk_idx: Array, topk_weights: Optional[Array] = None, *,
                       input_scales: Optional[Array] = None, expert_load: Optional[Array] = None, slot: int = 0, num_sms: int = 0,
                       stream: Any = None) -> None:
        """Sends each token to the ranks of its experts; waits for nobody.

        tokens        [num_tokens, hidden] bfloat16, or (values, scales) that are quantised to the communicator's format
        topk_idx      [num_tokens, top_k] int32 or int64; -1: no expert
        topk_weights  [num_tokens, top_k] float32; None: weights of 1, or with layout "per_expert" those of combine_wait
        input_scales  float32: [hidden / 128] with fp8 from bfloat16, [1] with nvfp4
        expert_load   [local experts] int64, written: the round's rows of each expert are added
        """
        try:
            self._core.dispatch_async((tokens, topk_idx, topk_weights, input_scales, expert_load), slot, num_sms,
                                      stream_handle(stream, self._gpu, kind_of(tokens)))
        except TypeError as error:
            raise told(error, slot=slot, num_sms=num_sms) from None
        self._place_of(tokens, slot)

    @quick
    def dispatch_wait(self, *, slot: int = 0, stream: Any = None) -> Received:
        """Waits for all ranks' dispatch_async, and lays the received tokens out by expert."""
        core, kind = self._core, self._kind(slot)
        return self._received(_core.dispatch_wait(core, slot, stream_handle(stream, self._gpu, kind)), self._places[slot], slot)

    @quick
    def dispatch(self, tokens: Array, topk_idx: Array, topk_weights: Optional[Array] = None, *, input_scales: Optional[Array] = None,
                 expert_load: Optional[Array] = None, slot: int = 0, num_sms: int = 0, stream: Any = None) -> Received:
        """dispatch_async and dispatch_wait, with layout "per_rank" in one kernel. CPU ranks that share a thread use dispatch_all."""
        try:
            core = _core.dispatch(self._core, (tokens, topk_idx, topk_weights, input_scales, expert_load), slot, num_sms,
                                  stream_handle(stream, self._gpu, kind_of(tokens)))
        except TypeError as error:
            raise told(error, slot=slot, num_sms=num_sms) from None
        return self._received(core, self._place_of(tokens, slot), slot)

    def _received(self, core: Any, place: Place, slot: int) -> Received:
        return Received(core, self._place(place.kind, slot) if place.is_new_to_rounds else place)

    def _place_of(self, tokens: Any, slot: int) -> Place:
        """That of a slot which was given `tokens`."""
        if (place := self._places[slot]).kind is not (kind := kind_of(tokens)):
            place = self._places[slot] = self._place(kind, slot)
            if self._quick is not None:
                self._quick.remember(slot, place)
        return place

    def _place(self, kind: type, slot: int) -> Place:
        framework = framework_of(kind)
        views: dict = {} if framework == "jax" else self._views.setdefault((framework, slot), {})  # jax remembers values, as it takes none to change
        return Place(kind, framework, self._gpu, views, framework == "jax", new_out_of(framework, self._world))

    @quick
    def combine_async(self, expert_output: Array, shared_output: Optional[Array] = None, *, topk_weights: Optional[Array] = None,
                      num_rows: int = -1, slot: int = 0, num_sms: int = 0, stream: Any = None) -> None:
        """Sends expert outputs back to the ranks of their tokens; waits for nobody, unless with weights_at_combine, for all ranks' combine_async.

        expert_output  [max_rows, hidden] bfloat16: of row r of the slot's Received at r
        shared_output  [num_tokens, hidden] bfloat16: what shared experts made of this rank's tokens; added last
        topk_weights   [num_tokens, top_k] float32, with weights_at_combine; None: 1
        num_rows       rows that were received, where the host has read row_offsets: then expert_output has as many, not max_rows. Fewer than
                       came are refused on CPU ranks alone: on GPUs the device knows how many came, and would read past the end
        """
        try:
            self._core.combine_async((expert_output, shared_output, topk_weights), slot, num_sms, integer("num_rows", num_rows),
                                     stream_handle(stream, self._gpu, kind_of(expert_output)))
        except TypeError as error:
            raise told(error, slot=slot, num_sms=num_sms) from None

    @quick
    def combine_wait(self, out: Optional[Array] = None, *, topk_weights: Optional[Array] = None, slot: int = 0,
                     stream: Any = None) -> Array:
        """Waits for all ranks' combine_async, then out[t, :] = sum over k of topk_weights[t, k] * y[t, k, :], where y is the output of the
        token's k-th expert. Returns `out`: [num_tokens, hidden] float32 or bfloat16, which overlaps nothing that the round was given; None: a new
        array in float32. `topk_weights` is for layout "per_expert" where dispatch was given none."""
        kind = self._kind(slot)
        out = self._out(out, slot, kind, stream)
        self._core.combine_wait((topk_weights, out), slot, stream_handle(stream, self._gpu, kind))
        return out

    @quick
    def combine(self, expert_output: Array, shared_output: Optional[Array] = None, *, out: Optional[Array] = None,
                topk_weights: Optional[Array] = None, num_rows: int = -1, slot: int = 0, num_sms: int = 0, stream: Any = None) -> Array:
        """combine_async and combine_wait, with layout "per_rank" in one kernel. CPU ranks that share a thread use combine_all."""
        if out is None:
            out = self._out(out, slot, self._kind(slot), stream)
        try:
            self._core.combine((expert_output, shared_output, topk_weights, out), slot, num_sms, integer("num_rows", num_rows),
                               stream_handle(stream, self._gpu, kind_of(expert_output)))
        except TypeError as error:
            raise told(error, slot=slot, num_sms=num_sms) from None
        return out

    def _kind(self, slot: int) -> type:
        try:
            self._core.num_tokens(slot)  # refuses what is no slot
        except TypeError as error:
            raise told(error, slot=slot) from None
        return self._places[slot].kind

    def _out(self, out: Optional[Array], slot: int, kind: type, stream: Any) -> Array:
        if out is not None:
            return out
        return empty((self._core.num_tokens(slot), self._hidden), "float32", framework_of(kind), self._world, stream=stream)

    def check(self) -> None:
        """Raises DeviceError for what kernels found since the last check, such as an expert id out of range. Waits for them."""
        self._core.check()

    def dump_state(self) -> dict:
        """What this rank's kernels are doing and what they lack, for when a round hangs, or seems to. From any thread."""
        return json.loads(self._core.dump_state())

    @property
    def members(self) -> "Members":
        """Who takes part in rounds."""
        return members_of(*self._core.members)

    def set_members(self, ranks: Iterable[int], epoch: Optional[int] = None) -> None:
        """Goes on without some ranks, or with them again: rounds after this are those of `ranks`, and what experts of the others would
        add to a token's sum is left out. For when Stuck has named a rank that died or is too late, or to leave one out for a while.

        Collective over `ranks`, this one among them, which all pass the same; `epoch` is more than that of any of them until now; None: one
        more than this rank's. Rounds under way are dropped, and rounds begin anew. A process that ended does not come back: that needs
        communicators that all ranks make. Layout "per_rank" only. set_members_all does it for ranks that share a thread.
        """
        set_members_of([self], ranks, epoch)

    def release(self) -> None:
        """Gives the physical memory back and keeps its addresses, as an engine does that sleeps. Until reacquire() every other call raises,
        and CUDA graphs with calls on this communicator must not be replayed. Collective over all ranks; release_all does it for those that
        share a thread. Raises InvalidArgument while a round is not over, or something is left of what was received: drop it first."""
        release_all([self])

    def reacquire(self) -> None:
        """Memory at the same addresses again, so that graphs captured before release() are right again. Collective, as release()."""
        reacquire_all([self])

    def close(self) -> None:
        """Lets go of the communicator; views of what it received keep its memory until they are gone. May be called twice."""
        self._held, self._quick = None, None
        self._views, self._open_rounds = {}, {}
        self._places = [self._place(type(None), slot) for slot in range(len(self._places))]  # which have views, too

    def __enter__(self) -> "ExpertParallel":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._held is None:
            return "<baton.ExpertParallel: closed>"
        c = self.config
        bytes_of_rank = sum(_core.workspace_bytes(c, self._size))
        return (f"<baton.ExpertParallel: {self._world._ranks()} on {self._device}, {c['num_experts']} experts, top-"
                f"{c['top_k']}, hidden {c['hidden']} as {c['format']}, up to {c['num_max_tokens_per_rank']} tokens a rank, {bytes_of_rank:,} bytes>")


def config_of(num_experts: int, top_k: int, hidden: int, num_max_tokens_per_rank: int, format: str, more: dict) -> dict:
    known = {"combine_format", "layout", "transfer", "rows", "arrival", "p2p_group_size", "levels", "num_sms", "num_threads", "tiled_scales",
             "row_alignment", "rows_of_expert", "weights_at_combine", "num_slots"}
    if unknown := sorted(more.keys() - known):
        raise TypeError(f"ExpertParallel: there is no argument {unknown[0]!r}; there are {', '.join(sorted(known))}")
    return {"num_experts": num_experts, "top_k": top_k, "hidden": hidden, "num_max_tokens_per_rank": num_max_tokens_per_rank,
            "format": format, **more}


def why_not(num_ranks: int, *, num_experts: int, top_k: int, hidden: int, num_max_tokens_per_rank: int, format: str = "bf16",
            **more: Any) -> str:
    """Empty if such a communicator can be had with so many ranks; otherwise the first reason, with names and values. Raises InvalidArgument for
    what no communicator's argument is: a format that there is not, or no 32-bit integer."""
    return _core.why_not(config_of(num_experts, top_k, hidden, num_max_tokens_per_rank, format, more), integer("num_ranks", num_ranks))


def workspace_bytes(num_ranks: int, *, num_experts: int, top_k: int, hidden: int, num_max_tokens_per_rank: int, format: str = "bf16",
                    **more: Any) -> int:
    """Bytes of device memory that such a communicator takes on each rank, exactly."""
    return sum(_core.workspace_bytes(config_of(num_experts, top_k, hidden, num_max_tokens_per_rank, format, more), integer("num_ranks", num_ranks)))


def ranks_of(ep: Sequence[ExpertParallel]) -> "list[ExpertParallel]":
    """As a list, all of which are communicators."""
    entries = listed("ep", ep)
    for at, one in enumerate(entries):
        if not isinstance(one, ExpertParallel):
            raise InvalidArgument(f"ep: a list with {type(one).__name__}, expected those of ExpertParallel.create_all")
        if any(one is other for other in entries[:at]):
            raise InvalidArgument(f"ep: that of rank {one.world.rank} twice, expected those of ExpertParallel.create_all")
    return entries


def listed(name: str, given: Iterable, of: str = "with one entry for each rank") -> list:
    try:
        return list(given)
    except TypeError:
        raise InvalidArgument(f"{name}: {type(given).__name__}, expected a list {of}") from None


def of_each(name: str, given: Optional[Iterable], ep: Sequence[ExpertParallel]) -> list:
    """One entry a rank; of None, None for each."""
    entries = [None] * len(ep) if given is None else listed(name, given)
    if len(entries) != len(ep):
        raise InvalidArgument(f"{name}: {len(entries)} entries, expected {len(ep)}, one for each rank")
    return entries


def written_by_each(name: str, given: Optional[Iterable], ep: Sequence[ExpertParallel]) -> list:
    """The same of arrays that each rank writes to."""
    entries = of_each(name, given, ep)
    for at, into in enumerate(entries):
        if any(into is other for other in entries[:at] if other is not None):
            raise InvalidArgument(f"{name}: the same array for rank {ep[at].world.rank} and one before it, expected one of its own for each")
    return entries


def check_all(ep: "list[ExpertParallel]", check: "Callable[[ExpertParallel, tuple], None]", given: "Iterable[tuple]") -> None:
    """What a call of each would refuse of its arrays, before any has sent: then all of it can be given again."""
    for one, arguments in zip(ep, given):
        try:
            check(one, arguments)
        except InvalidArgument as refused:
            refused.args = (f"{refused}. That is rank {one.world.rank}'s; no rank has sent anything",)
            raise
        except TypeError:  # an integer that is none: the call itself says which
            return


@contextlib.contextmanager
def together(ep: "list[ExpertParallel]", call: str) -> "Iterator[list[ExpertParallel]]":
    """A call of one rank after the other: what is refused on one says how those go on that have made it, which cannot be taken back."""
    sent: "list[ExpertParallel]" = []
    try:
        yield sent
    except InvalidArgument as refused:
        if sent:
            refused.args = (f"{refused}. That was rank {ep[len(sent)].world.rank}; those before it have sent: go on with its {call} and those of the "
                            f"ranks behind it, then {call.replace('async', 'wait')} of all",)
        raise


def dispatch_all(ep: Sequence[ExpertParallel], tokens: Iterable, topk_idx: Iterable, topk_weights: Optional[Iterable] = None, *,
                 expert_load: Optional[Iterable] = None, **more: Any) -> "list[Received]":
    """dispatch_async, then dispatch_wait, on all ranks of World.local: lists with one entry a rank. `more` as of dispatch_async."""
    ep = ranks_of(ep)
    loads = written_by_each("expert_load", expert_load, ep)
    given = list(zip(of_each("tokens", tokens, ep), of_each("topk_idx", topk_idx, ep), of_each("topk_weights", topk_weights, ep)))
    waiting = {name: more[name] for name in ("slot", "stream") if name in more}
    scales, slot, num_sms = more.get("input_scales"), more.get("slot", 0), more.get("num_sms", 0)
    check_all(ep, lambda one, arguments: one._core.check_dispatch(arguments, slot, num_sms),
              ((*arguments, scales, load) for arguments, load in zip(given, loads)))
    with together(ep, "dispatch_async") as sent:
        for one, arguments, load in zip(ep, given, loads):
            one.dispatch_async(*arguments, expert_load=load, **more)
            sent.append(one)
    return [one.dispatch_wait(**waiting) for one in ep]


def combine_all(ep: Sequence[ExpertParallel], expert_output: Iterable, shared_output: Optional[Iterable] = None, *,
                out: Optional[Iterable] = None, topk_weights: Optional[Iterable] = None, **more: Any) -> list:
    """combine_async, then combine_wait, on all ranks of World.local: [num_tokens, hidden] of each. `more` as of combine_async."""
    ep = ranks_of(ep)
    given = list(zip(of_each("expert_output", expert_output, ep), of_each("shared_output", shared_output, ep)))
    weights = of_each("topk_weights", topk_weights, ep)
    outs = written_by_each("out", out, ep)
    waiting = {name: more[name] for name in ("slot", "stream") if name in more}
    slot, num_sms, num_rows = more.get("slot", 0), more.get("num_sms", 0), more.get("num_rows", -1)
    check_all(ep, lambda one, arguments: one._core.check_combine(arguments, slot, num_sms, num_rows),
              ((*arguments, its, into) for arguments, its, into in zip(given, weights, outs)))
    with together(ep, "combine_async") as sent:
        for one, arguments, its in zip(ep, given, weights):
            one.combine_async(*arguments, topk_weights=its, **more)
            sent.append(one)
    return [one.combine_wait(its, **waiting) for one, its in zip(ep, outs)]


class Members(NamedTuple):
    """Who takes part in a communicator's rounds."""

    epoch: int    # grows with every change; 0: as created, with all ranks
    ranks: tuple


def members_of(epoch: int, active_ranks: int) -> Members:
    return Members(epoch, tuple(rank for rank in range(active_ranks.bit_length()) if active_ranks >> rank & 1))


def set_members_of(ep: "list[ExpertParallel]", ranks: Iterable[int], epoch: Optional[int]) -> None:
    if not ep:
        raise InvalidArgument("ep: an empty list, expected those of ExpertParallel.create_all")
    ranks = sorted({integer("ranks", rank) for rank in listed("ranks", ranks, "of ranks")})
    size = ep[0].world.size
    if not ranks or ranks[0] < 0 or ranks[-1] >= size:
        raise InvalidArgument(f"ranks: {ranks}, expected some of 0 to {size - 1}")
    if epoch is not None:
        epoch = integer("epoch", epoch, 0, 2**64 - 1)
    else:
        epoch = 1 + max(one.members.epoch for one in ep)
    _core.set_members([one._core for one in ep], epoch, sum(1 << rank for rank in ranks))


def set_members_all(ep: Sequence[ExpertParallel], ranks: Iterable[int], epoch: Optional[int] = None) -> None:
    """set_members on those of `ranks`, for all ranks of World.local at once."""
    set_members_of(ranks_of(ep), ranks, epoch)


def release_all(ep: Sequence[ExpertParallel]) -> None:
    """release on all ranks of World.local at once."""
    ep = ranks_of(ep)
    for one in ep:
        for views in one._views.values():
            views.clear()
    _core.release([one._core for one in ep])


def reacquire_all(ep: Sequence[ExpertParallel]) -> None:
    """reacquire on all ranks of World.local at once."""
    _core.reacquire([one._core for one in ranks_of(ep)])
