"""DeepEP's Buffer."""
import functools
from typing import Any, Callable, List, Optional, Tuple, Union

import torch

from .._arrays import integer, shown
from .._errors import InvalidArgument, Unsupported
from .._expert_parallel import why_not, workspace_bytes
from .._padded import pad_rows, tell_rows, unpad_rows
from .._world import World, refuse_pickling
from ._events import EventHandle, EventOverlap
from ._layout import (Config, as_three_parts, cast_to_fp8, choices_of, layout_of, of_ranks, of_three_parts, padded, routing_as_tokens,
                      routing_of_tokens)
from ._rounds import Communicators, Handle, version_of

Tokens = Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]


@functools.lru_cache(maxsize=None)
def low_latency_sizes(num_ranks: int, num_max_tokens: int, hidden: int, num_experts: int, top_k: int, use_fp8: bool) -> dict:
    """Experts with rows of their own, and weights that come with combine: layout per_rank has both, unless sizes are odd ones; then
    per_expert has weights at combine, and pad_rows makes the places."""
    sizes = {"num_experts": num_experts, "top_k": top_k, "hidden": hidden, "num_max_tokens_per_rank": num_max_tokens,
             "format": "fp8" if use_fp8 else "bf16"}
    places = {**sizes, "layout": "per_rank", "rows_of_expert": num_ranks * num_max_tokens, "weights_at_combine": True}
    return {**sizes, "layout": "per_expert"} if why_not(num_ranks, **places) else places


def require_tensors(**given: Any) -> None:
    for name, one in given.items():
        if not isinstance(one, torch.Tensor):
            raise InvalidArgument(f"{name}: {type(one).__name__}, expected a torch.Tensor")


def require_rows(**given: Any) -> None:
    require_tensors(**given)
    for name, one in given.items():
        if one.dim() != 2:
            raise InvalidArgument(f"{name}: {list(one.shape)}, expected two dimensions")


def require_choices(topk_idx: Any) -> None:
    """Ids of experts: fractions would be cut off, and count."""
    require_rows(topk_idx=topk_idx)
    if topk_idx.dtype not in (torch.int64, torch.int32):
        raise InvalidArgument(f"topk_idx: {topk_idx.dtype}, expected torch.int64 or torch.int32")


def require_handle(handle: Any, of_that: str, call: str) -> None:
    """Handles of low latency and of normal calls are not each other's."""
    if not hasattr(handle, of_that):
        raise InvalidArgument(f"handle: {shown(handle)}, expected what {call} returned")


class Buffer:
    """DeepEP's buffer of a group of ranks on one machine: dispatch and combine, normal and of low latency.

    `group` is a process group of torch.distributed, or `comm` a communicator of mpi4py, or `world` a baton.World. Sizes of buffers are not
    asked for: memory is taken when a call first needs it, which is collective. `num_max_tokens_per_rank` is the most that a rank gives to a
    normal dispatch, the same on all ranks. Arguments that say how DeepEP should reach other ranks are taken and mean nothing.
    """

    num_sms: int = 20
    __reduce_ex__ = refuse_pickling

    def __init__(self, group: Any = None, num_nvl_bytes: int = 0, num_rdma_bytes: int = 0, low_latency_mode: bool = False,
                 num_qps_per_rank: int = 24, allow_nvlink_for_low_latency_mode: bool = True, allow_mnnvl: bool = False,
                 explicitly_destroy: bool = False, enable_shrink: bool = False, comm: Any = None, *, world: Optional[World] = None,
                 device: str = "auto", num_max_tokens_per_rank: int = 4096) -> None:
        if enable_shrink:
            raise Unsupported("enable_shrink: True; ranks leave baton's communicators together: ExpertParallel.set_members")
        if world is None:
            if group is None and comm is None:
                raise InvalidArgument("Buffer: neither group nor comm, expected one of them")
            size = group.size() if group is not None else comm.Get_size()
            self._require_one_machine(size)
            world = World.from_torch(group, device) if group is not None else World.from_mpi(comm, device)
        self.group, self.world = group if group is not None else comm, world
        self.rank, self.group_size = world.rank, world.size
        self.num_nvl_bytes, self.num_rdma_bytes, self.low_latency_mode = num_nvl_bytes, num_rdma_bytes, low_latency_mode
        self.explicitly_destroy = explicitly_destroy
        self.num_max_tokens_per_rank = num_max_tokens_per_rank
        self._made: Optional[Communicators] = Communicators(world)

    @staticmethod
    def _require_one_machine(num_ranks: int) -> None:
        if reason := why_not(num_ranks, **of_ranks(num_ranks, 128, 1)):
            raise Unsupported(f"group: {reason}; internode: ranks are the GPUs of one machine, which reach each other's memory")

    @property
    def _communicators(self) -> Communicators:
        if self._made is None:
            raise InvalidArgument("Buffer: destroyed; make another one")
        return self._made

    def destroy(self) -> None:
        """Lets go of all memory."""
        if self._made is not None:
            self._made.close()
            self._made = None

    @staticmethod
    def is_sm90_compiled() -> bool:
        """Whether FP8 can be dispatched: always."""
        return True

    @staticmethod
    def set_num_sms(new_num_sms: int) -> None:
        """Of normal calls."""
        if integer("new_num_sms", new_num_sms, 0) % 2 != 0:
            raise InvalidArgument(f"new_num_sms: {new_num_sms}, expected an even number")
        Buffer.num_sms = new_num_sms

    @staticmethod
    def capture() -> EventOverlap:
        """An event behind what the current stream has been given."""
        return EventOverlap(EventHandle())

    @staticmethod
    def get_dispatch_config(num_ranks: int) -> Config:
        """Of so many ranks."""
        Buffer._require_one_machine(num_ranks)
        return Config(Buffer.num_sms)

    get_combine_config = get_dispatch_config

    @staticmethod
    def get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank: int, hidden: int, num_ranks: int, num_experts: int) -> int:
        """Bytes that calls of low latency take on each rank in bfloat16 with top-8, or fewer where there are fewer experts."""
        Buffer._require_one_machine(num_ranks)
        sizes = low_latency_sizes(num_ranks, num_max_dispatch_tokens_per_rank, hidden, num_experts, min(8, num_experts), False)
        return workspace_bytes(num_ranks, num_slots=2, **sizes)

    def get_comm_stream(self) -> Any:
        """The current stream: calls have none of their own."""
        return torch.cuda.current_stream()

    def _behind(self, previous_event: Optional[EventOverlap]) -> None:
        if previous_event is not None and previous_event.event is not None:
            previous_event.current_stream_wait()

    def _event(self, async_finish: bool) -> EventOverlap:
        return EventOverlap(EventHandle(self.world.device == "cuda") if async_finish else None)

    def _sms(self, config: Optional[Config]) -> int:
        return 0 if self.world.device == "cpu" else (Buffer.num_sms if config is None else config.num_sms)

    def _experts(self, num_experts: int) -> int:
        """Of a rank."""
        if integer("num_experts", num_experts, 1) % self.group_size != 0:
            raise InvalidArgument(f"num_experts: {num_experts}, expected a multiple of {self.group_size} ranks")
        return num_experts // self.group_size

    def get_dispatch_layout(self, topk_idx: torch.Tensor, num_experts: int, previous_event: Optional[EventOverlap] = None,
                            async_finish: bool = False, allocate_on_comm_stream: bool = False) -> tuple:
        """(num_tokens_per_rank [ranks] int32, None, num_tokens_per_expert [experts] int32, is_token_in_rank [tokens, ranks] bool, event)
        of topk_idx [tokens, top_k], -1 for no expert."""
        self._experts(num_experts)
        require_choices(topk_idx)
        self._behind(previous_event)
        layout = layout_of(topk_idx, num_experts, self.group_size)
        return layout.num_tokens_per_rank, None, layout.num_tokens_per_expert, layout.is_token_in_rank, self._event(async_finish)

    def dispatch(self, x: Tokens, handle: Optional[Handle] = None, num_tokens_per_rank: Optional[torch.Tensor] = None,
                 num_tokens_per_rdma_rank: Optional[torch.Tensor] = None, is_token_in_rank: Optional[torch.Tensor] = None,
                 num_tokens_per_expert: Optional[torch.Tensor] = None, topk_idx: Optional[torch.Tensor] = None,
                 topk_weights: Optional[torch.Tensor] = None, expert_alignment: int = 1, num_worst_tokens: int = 0,
                 config: Optional[Config] = None, previous_event: Optional[EventOverlap] = None, async_finish: bool = False,
                 allocate_on_comm_stream: bool = False) -> Tuple[Tokens, Optional[torch.Tensor], Optional[torch.Tensor], List[int], Any,
                                                                 EventOverlap]:
        """Each token once to each rank that has one of its experts: rows by source rank, and in its order.

        x is [tokens, hidden] bfloat16, or (float8_e4m3fn [tokens, hidden], float32 [tokens, hidden // 128]). Returns (recv_x,
        recv_topk_idx, recv_topk_weights, num_recv_tokens_per_expert_list, handle, event). Waits for the device to learn how many tokens
        came, unless num_worst_tokens says how many rows to return. With a `handle`, the routing is that of its dispatch, and all but recv_x
        and the event is None.
        """
        self._behind(previous_event)
        if isinstance(x, tuple) and len(x) != 2:
            raise InvalidArgument(f"x: a tuple of {len(x)}, expected (values, scales)")
        values, scales = x if isinstance(x, tuple) else (x, None)
        require_rows(x=values)
        if isinstance(x, tuple):
            require_rows(**{"x[1]": scales})
        integer("expert_alignment", expert_alignment, 1)
        integer("num_worst_tokens", num_worst_tokens, 0)
        if handle is None:
            if is_token_in_rank is None or num_tokens_per_expert is None:
                raise InvalidArgument("is_token_in_rank and num_tokens_per_expert: expected what get_dispatch_layout returns, or a handle")
            require_tensors(num_tokens_per_expert=num_tokens_per_expert)
            require_rows(is_token_in_rank=is_token_in_rank)
            self._require("is_token_in_rank", is_token_in_rank, (values.size(0), self.group_size), torch.bool)
            idx = choices_of(is_token_in_rank)
            self._require_routing(topk_idx, topk_weights, values.size(0))
        else:
            require_handle(handle, "num_rows", "dispatch")
            idx = handle.idx
        num_ranks, format = self.group_size, "bf16" if scales is None else "fp8"
        rounds = self._communicators.of(of_ranks(num_ranks, values.size(1), self.num_max_tokens_per_rank, format))
        number, slot = rounds.begin(values if scales is None else (values, scales.contiguous()), idx, self._sms(config))
        recv = rounds.arrive(number, slot)
        if handle is not None:
            return self._rows_of(recv, handle.num_rows, scales is not None), None, None, None, None, self._event(async_finish)
        routing, per_expert = self._routing(idx, topk_idx, topk_weights, num_tokens_per_expert, num_worst_tokens, expert_alignment)
        num_rows = num_worst_tokens or int(recv.row_counts[0])
        new = Handle((self._prefixes(recv), None, None, recv.sources[:num_rows, 0].clone(), is_token_in_rank, None))
        new.rounds, new.number, new.slot, new.idx, new.num_rows = rounds, number, slot, idx, num_rows
        new.top_k = None if topk_idx is None else topk_idx.size(1)
        ids, weights = routing(recv, num_rows)
        return self._rows_of(recv, num_rows, scales is not None), ids, weights, per_expert, new, self._event(async_finish)

    @classmethod
    def _require_routing(cls, topk_idx: Optional[torch.Tensor], topk_weights: Optional[torch.Tensor], num_tokens: int) -> None:
        """Before tokens are sent: what goes beside them comes in an exchange of its own."""
        if topk_idx is None:
            return
        require_choices(topk_idx)
        if topk_idx.size(0) != num_tokens:
            raise InvalidArgument(f"topk_idx: {list(topk_idx.shape)}, expected {num_tokens} rows, as x has")
        if topk_weights is not None:
            require_tensors(topk_weights=topk_weights)
            cls._require("topk_weights", topk_weights, topk_idx.shape, torch.float32)

    def _rows_of(self, recv: Any, num_rows: int, is_fp8: bool) -> Tokens:
        """Copies: the communicator's memory is the next round's. Rows past those that came, which num_worst_tokens asks for, hold anything."""
        def rows(of: torch.Tensor) -> torch.Tensor:
            copied = of[:num_rows].contiguous() if num_rows <= of.size(0) else None
            if copied is None:
                copied = torch.zeros((num_rows, *of.shape[1:]), dtype=of.dtype, device=of.device)
                copied[:of.size(0)] = of
            return copied.clone() if copied.data_ptr() == of.data_ptr() else copied
        return (rows(recv.tokens), rows(recv.scales)) if is_fp8 else rows(recv.tokens)

    def _prefixes(self, recv: Any) -> torch.Tensor:
        """[ranks, ranks] int32: [i, rank] are the rows of sources 0 to i; other ranks' columns are -1."""
        device, size = recv.row_counts.device, self.group_size
        rows = torch.arange(recv.max_rows, device=device)
        source = torch.where(rows < recv.row_counts[0], recv.sources[:, 2].clamp(0, size - 1), size).long()
        counts = torch.zeros(size + 1, dtype=torch.int32, device=device).index_add_(0, source, torch.ones_like(source, dtype=torch.int32))
        matrix = torch.full((size, size), -1, dtype=torch.int32, device=device)
        matrix[:, self.rank] = counts[:size].cumsum(0)
        return matrix

    def _routing(self, idx: torch.Tensor, topk_idx: Optional[torch.Tensor], topk_weights: Optional[torch.Tensor],
                 num_tokens_per_expert: torch.Tensor, num_worst_tokens: int, alignment: int) -> tuple:
        """What makes received ids and weights of a Received, and rows of each local expert as a list: what travels beside tokens."""
        num_local = self._experts(num_tokens_per_expert.numel())
        first = self.rank * num_local
        if topk_idx is None:
            counts = [] if num_worst_tokens else self._gathered(num_tokens_per_expert)[:, first:first + num_local].sum(0).tolist()
            return (lambda recv, num_rows: (None, None)), [-(-n // alignment) * alignment for n in counts]
        if topk_weights is None:
            topk_weights = torch.ones(topk_idx.shape, dtype=torch.float32, device=topk_idx.device)
        tokens, top_k = routing_as_tokens(topk_idx, topk_weights), topk_idx.size(1)
        rounds = self._communicators.of(of_ranks(self.group_size, tokens.size(1), self.num_max_tokens_per_rank))
        beside = rounds.arrive(*rounds.begin(tokens, idx))
        ids, weights = routing_of_tokens(beside.tokens, top_k, first, num_local)
        is_row = (torch.arange(ids.size(0), device=ids.device) < beside.row_counts[0]).unsqueeze(1)
        ids = torch.where(is_row, ids, -1)
        counts = [] if num_worst_tokens else [int((ids == e).sum()) for e in range(num_local)]

        def rows(_: Any, num_rows: int) -> tuple:
            short = num_rows - ids.size(0)
            if short <= 0:
                return ids[:num_rows], weights[:num_rows]
            pad = torch.nn.functional.pad
            return pad(ids, (0, 0, 0, short), value=-1), pad(weights, (0, 0, 0, short))
        return rows, [-(-n // alignment) * alignment for n in counts]

    def _gathered(self, counts: torch.Tensor) -> torch.Tensor:
        """[ranks, experts] of every rank's [experts] int32."""
        own = padded(counts.to(torch.int32).view(1, -1).view(torch.bfloat16))
        rounds = self._communicators.of(of_ranks(self.group_size, own.size(1), 1))
        everyone = torch.arange(self.group_size, device=counts.device).view(1, -1)
        recv = rounds.arrive(*rounds.begin(own, everyone))
        return recv.tokens[:self.group_size, :2 * counts.numel()].contiguous().view(torch.int32)

    def combine(self, x: torch.Tensor, handle: Handle, topk_weights: Optional[torch.Tensor] = None,
                bias: Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor], None] = None, config: Optional[Config] = None,
                previous_event: Optional[EventOverlap] = None, async_finish: bool = False,
                allocate_on_comm_stream: bool = False) -> Tuple[torch.Tensor, Optional[torch.Tensor], EventOverlap]:
        """Sums over the ranks that a token went to, without weights: (combined_x [tokens, hidden] bfloat16, combined_topk_weights [tokens,
        top_k] float32 if topk_weights [rows, top_k] were given, event). `bias`: one or two [tokens, hidden] bfloat16, added to it."""
        self._behind(previous_event)
        biases = () if bias is None else bias if isinstance(bias, tuple) else (bias,)
        require_handle(handle, "num_rows", "dispatch")
        num_tokens = handle.idx.size(0)
        # All that may be refused, before anything is sent that other ranks would take part in
        for name, rows in (("x", x), ("topk_weights", topk_weights)):
            if rows is None and name != "x":
                continue
            require_rows(**{name: rows})
            if rows.size(0) < handle.num_rows:  # the device knows of those rows, and would read them
                raise InvalidArgument(f"{name}: {rows.size(0)} rows, expected {handle.num_rows}, as dispatch returned")
        for one in biases:
            require_tensors(bias=one)
            self._require("bias", one, (num_tokens, x.size(1)), torch.bfloat16)
        out = torch.empty((num_tokens, x.size(1)), dtype=torch.float32 if biases else torch.bfloat16, device=x.device)
        self._sum(handle.rounds, handle, x, out, self._sms(config))
        for one in biases:
            out += one
        sums = None
        if topk_weights is not None:
            parts = as_three_parts(topk_weights)
            rounds = self._communicators.of(of_ranks(self.group_size, parts.size(1), self.num_max_tokens_per_rank))
            total = torch.empty((num_tokens, parts.size(1)), dtype=torch.float32, device=x.device)
            self._sum(rounds, None, parts, total, 0, handle.idx)
            sums = of_three_parts(total, topk_weights.size(1))
        return out.to(torch.bfloat16), sums, self._event(async_finish)

    def _sum(self, rounds: Any, handle: Optional[Handle], rows: torch.Tensor, out: torch.Tensor, num_sms: int,
             idx: Optional[torch.Tensor] = None) -> None:
        slot = rounds.reopened(handle, handle.idx if idx is None else idx)
        rounds.ep.combine(rows.contiguous(), out=out, num_rows=rows.size(0), slot=slot, num_sms=num_sms)
        rounds.close_round(slot)

    def internode_dispatch(self, *_: Any, **__: Any) -> None:
        """Refused: ranks are the GPUs of one machine."""
        raise Unsupported("internode_dispatch: ranks are the GPUs of one machine, which reach each other's memory")

    def internode_combine(self, *_: Any, **__: Any) -> None:
        """Refused: ranks are the GPUs of one machine."""
        raise Unsupported("internode_combine: ranks are the GPUs of one machine, which reach each other's memory")

    def clean_low_latency_buffer(self, num_max_dispatch_tokens_per_rank: int, hidden: int, num_experts: int) -> None:
        """Nothing has to be cleaned."""

    def low_latency_dispatch(self, x: torch.Tensor, topk_idx: torch.Tensor, num_max_dispatch_tokens_per_rank: int, num_experts: int,
                             cumulative_local_expert_recv_stats: Optional[torch.Tensor] = None,
                             dispatch_wait_recv_cost_stats: Optional[torch.Tensor] = None, use_fp8: bool = True, round_scale: bool = False,
                             use_ue8m0: bool = False, async_finish: bool = False,
                             return_recv_hook: bool = False) -> Tuple[Tokens, torch.Tensor, Any, EventOverlap, Optional[Callable]]:
        """Each token to each of its experts: (recv_x [local experts, ranks * num_max, hidden] bfloat16, or with use_fp8 float8_e4m3fn and
        its scales [..., hidden // 128] float32, with use_ue8m0 [..., hidden // 512] int32; recv_count [local experts] int32; handle; event;
        hook). With return_recv_hook nothing is there before the hook was called. Waits for no device, and can be captured after a first call.

        recv_x in bfloat16, or its values, are the communicator's memory: the next call but one writes there, a second combine of a handle
        counting as one. DeepEP's docstring allows the same, but its memory is new for each call: give combine a copy where it would be
        overwritten before its turn, which is refused by name. (With sizes that layout per_rank refuses memory is new here too.)
        """
        if dispatch_wait_recv_cost_stats is not None:
            raise Unsupported("dispatch_wait_recv_cost_stats: World.wait_times() of baton says who was waited for, without being asked before")
        if use_ue8m0 and not round_scale:
            raise InvalidArgument("use_ue8m0: True with round_scale False, expected both")
        require_rows(x=x)
        if use_fp8 and use_ue8m0 and x.size(1) % 512 != 0:
            raise InvalidArgument(f"x: hidden {x.size(1)}, expected a multiple of 512 with use_ue8m0, which puts four scales of 128 values into an int32")
        require_choices(topk_idx)
        num_local, capacity, hidden = self._experts(num_experts), num_max_dispatch_tokens_per_rank * self.group_size, x.size(1)
        sizes = low_latency_sizes(self.group_size, num_max_dispatch_tokens_per_rank, hidden, num_experts, topk_idx.size(1), use_fp8)
        rounds = self._communicators.of(sizes, 2)
        recv_x, scales, counts, sources, ranges = self._places(rounds, num_local, capacity, hidden, use_fp8, use_ue8m0, x.device)
        number, slot = rounds.begin(cast_to_fp8(x) if use_fp8 and round_scale else x, topk_idx, is_whole=not return_recv_hook)
        handle = Handle((sources, ranges, num_max_dispatch_tokens_per_rank, hidden, num_experts))
        handle.rounds, handle.number, handle.slot, handle.idx = rounds, number, slot, topk_idx
        handle.idx_version, handle.received_as = version_of(topk_idx), (number, slot)

        def receive() -> None:
            recv = rounds.arrive(number, slot) if return_recv_hook else rounds.received(slot)
            told = {"scales": scales, "row_counts": counts, "source_tokens": sources, "source_ranges": ranges}
            if rounds.has_places:
                tell_rows(recv, capacity, **told)
            else:
                pad_rows(recv, capacity, tokens=recv_x, **told)
            handle.has_arrived = True
            if cumulative_local_expert_recv_stats is not None:
                cumulative_local_expert_recv_stats.add_(counts)

        hook = rounds.later(slot, receive)
        if not return_recv_hook:
            hook()
        received = recv_x if scales is None else (recv_x, scales.transpose(1, 2))
        return received, counts, handle, self._event(async_finish), hook if return_recv_hook else None

    def _places(self, rounds: Any, experts: int, capacity: int, hidden: int, is_fp8: bool, as_exponents: bool,
                device: torch.device) -> tuple:
        """Tokens, scales, counts, source tokens and ranges of sources of the next round; what it does not fill itself, pad_rows does."""
        def made(dtype: torch.dtype, *shape: int) -> torch.Tensor:
            return torch.empty((experts, *shape), dtype=dtype, device=device)
        scales = None
        if is_fp8:
            scales = made(torch.int32, hidden // 512, capacity) if as_exponents else made(torch.float32, hidden // 128, capacity)
        if rounds.has_places:
            tokens = rounds.places(device).tokens.view(experts, capacity, hidden)
        else:
            tokens = made(torch.float8_e4m3fn if is_fp8 else torch.bfloat16, capacity, hidden)
        return tokens, scales, made(torch.int32), made(torch.int32, capacity), made(torch.int64, self.group_size)

    def low_latency_combine(self, x: torch.Tensor, topk_idx: torch.Tensor, topk_weights: torch.Tensor, handle: Handle,
                            use_logfmt: bool = False, zero_copy: bool = False, async_finish: bool = False, return_recv_hook: bool = False,
                            out: Optional[torch.Tensor] = None, combine_wait_recv_cost_stats: Optional[torch.Tensor] = None
                            ) -> Tuple[torch.Tensor, EventOverlap, Optional[Callable]]:
        """Sums what experts made of each token with its weights: (combined_x [tokens, hidden] bfloat16, event, hook). x is as recv_x in
        bfloat16; with zero_copy what get_next_low_latency_combine_buffer gave. Answers travel in bfloat16, also with use_logfmt.

        topk_idx is that of dispatch; choices that have become -1 since count nothing. A combine whose round is over, as a handle's second,
        sends the routing again: as dispatch read it if torch knows that nobody has written there since, otherwise topk_idx, whose -1
        have to be those of dispatch then. (Torch does not know in inference mode, nor of kernels that it was not told about.)

        With return_recv_hook, what is sent waits for the weights of all ranks on the current stream, before the hook.
        """
        if combine_wait_recv_cost_stats is not None:
            raise Unsupported("combine_wait_recv_cost_stats: World.wait_times() of baton says who was waited for, without being asked before")
        require_handle(handle, "received_as", "low_latency_dispatch")
        rounds = handle.rounds
        if not handle.has_arrived:
            raise InvalidArgument("handle: the hook of its low_latency_dispatch was not called yet")
        if zero_copy:
            if handle.answers is None:
                raise InvalidArgument("zero_copy: True, expected a handle that get_next_low_latency_combine_buffer was called with")
            x = handle.answers
        num_tokens, hidden = handle.idx.size(0), handle[3]
        # All that may be refused, before anything is sent that other ranks would take part in
        require_tensors(x=x, topk_idx=topk_idx, topk_weights=topk_weights)
        self._require("x", x, (*handle[0].shape, hidden), torch.bfloat16)
        self._require("topk_idx", topk_idx, handle.idx.shape, topk_idx.dtype)
        self._require("topk_weights", topk_weights, handle.idx.shape, torch.float32)
        if out is None:
            out = torch.empty((num_tokens, hidden), dtype=torch.bfloat16, device=x.device)
        self._require("out", out, (num_tokens, hidden), torch.bfloat16)
        if not out.is_contiguous():
            raise InvalidArgument(f"out: strides {out.stride()}, expected contiguous memory")
        rounds.require_rows_stay(x, handle)
        slot = rounds.reopened(handle, handle.idx if handle.has_its_idx() else topk_idx)
        hook = self._combine(rounds, slot, x.contiguous(), self._weights(topk_idx, topk_weights, handle), out, return_recv_hook)
        return out, self._event(async_finish), hook

    @staticmethod
    def _require(name: str, given: torch.Tensor, shape: tuple, dtype: torch.dtype) -> None:
        if given.shape != shape or given.dtype != dtype:
            raise InvalidArgument(f"{name}: {list(given.shape)} of {given.dtype}, expected {list(shape)} of {dtype}")

    @staticmethod
    def _weights(topk_idx: torch.Tensor, topk_weights: torch.Tensor, handle: Handle) -> torch.Tensor:
        """With 0 for choices that are none now. Those that were none at dispatch count nothing anyway, and a kernel less is to be run."""
        weights = topk_weights.contiguous()
        return weights if topk_idx is handle.idx and handle.has_its_idx() else weights.masked_fill(topk_idx < 0, 0.0)

    @staticmethod
    def _combine(rounds: Any, slot: int, x: torch.Tensor, weights: torch.Tensor, out: torch.Tensor, is_hooked: bool) -> Optional[Callable]:
        """Of x [local experts, capacity, hidden]: the rows that combine takes, or what they are made of. Returns the hook, if it is to be."""
        early, late = ({"topk_weights": weights}, {}) if rounds.has_places else ({}, {"topk_weights": weights})
        rows = x.view(-1, x.size(-1)) if rounds.has_places else unpad_rows(rounds.received(slot), x)
        if rounds.has_places and not is_hooked:
            rounds.ep.combine(rows, out=out, slot=slot, **early)
            rounds.close_round(slot)
            return None
        rounds.ep.combine_async(rows, slot=slot, **early)
        rounds.close_round(slot)
        hook = rounds.later(slot, lambda: rounds.ep.combine_wait(out, slot=slot, **late))
        if not is_hooked:
            hook()
        return hook if is_hooked else None

    def get_next_low_latency_combine_buffer(self, handle: Handle) -> torch.Tensor:
        """[local experts, ranks * num_max, hidden] bfloat16 to fill, for a low_latency_combine of this handle with zero_copy."""
        require_handle(handle, "received_as", "low_latency_dispatch")
        sources, _, _, hidden, _ = handle
        if handle.answers is None:
            handle.answers = torch.empty((*sources.shape, hidden), dtype=torch.bfloat16, device=sources.device)
        return handle.answers

    def low_latency_update_mask_buffer(self, rank_to_mask: int, mask: bool = False) -> None:
        """Refused: ranks leave together."""
        raise Unsupported("low_latency_update_mask_buffer: ranks leave baton's communicators together: ExpertParallel.set_members")

    def __repr__(self) -> str:
        state = "destroyed" if self._made is None else f"{len(self._made.made)} communicators"
        return f"<baton.deep_ep.Buffer: rank {self.rank} of {self.group_size} on {self.world.device}, {state}>"
