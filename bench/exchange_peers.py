#!/usr/bin/env python3
"""Measures FlashInfer's one-sided all-to-all at the points of `baton bench ep --json-file FILE`: exchange_peers.py FILE [--out PEERS].

Points of layout per_rank and uniform routing, in FP8 or bf16, are measured with as many ranks, tokens, experts and values: a round is its
dispatch of tokens, scales, ids and weights and its combine of bf16 rows, in a CUDA graph of 40 rounds on each GPU, over 4 sets of inputs in
turn, as baton's are; a sample is the slowest GPU's time. It is given tokens in their format, finds no rows in the order of experts and
applies no weights; `staged` copies the experts' output into the memory that others read, where the other figure has it written there. Run it
right behind baton, on the same GPUs. Rounds are checked with integers first: what each token got back is itself, once for every rank it went to.

All ranks are of one process, whose GPUs' memory lies in one range of addresses, as FlashInfer's kernels want it. PEERS gets a line for each point.

Exit code 1: a round was wrong, or failed. 2: FILE is not what baton writes, or has no such point. 4: no torch, FlashInfer or as many GPUs here; the message says which.
"""
import json
import os
import pathlib
import statistics
import sys
import traceback

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import plots
from peer_script import BAD_FILE, NOT_HERE, WRONG, is_measured_elsewhere, parser_of, points_of

READ, WRITTEN = "baton.bench.ep/2", "baton.bench.ep_peers/1"
WHO = "FlashInfer's one-sided all-to-all"
ROUNDS, SETS = 40, 4


def read_points(path):
    """What there is to measure: axes, and baton's median of fused rounds in a graph. @raises ValueError  nothing of the kind"""
    found = [(p["axes"], p["fused"]["round_trip_graph"]["median_us"], p["gpu"]) for p in plots.read_points(path, READ)
             if p["checked"] and p.get("fused") and p["axes"]["device"] == "cuda" and p["axes"]["layout"] == "per_rank"
             and p["axes"]["routing"] == "uniform" and p["axes"]["format"] in ("fp8", "bf16") and p["axes"]["ranks"] > 1]
    if not found:
        raise ValueError(f"{path}: no point of per_rank, uniform routing and FP8 or bf16 was right and measured on GPUs")
    return found


def load_peer(module):
    """torch, CUDA's driver and the peer's functions, and empty; or None, and what is missing here."""
    try:
        import torch
        import tvm_ffi
        from cuda.bindings import driver
        if module:
            return (torch, driver, tvm_ffi.load_module(str(module.resolve()))), ""
        from flashinfer.jit.comm import gen_moe_alltoall_module
        return (torch, driver, gen_moe_alltoall_module().build_and_load()), ""
    except Exception as why:  # building it may fail in any way
        return None, f"{type(why).__name__}: {why}"


def asked(driver, answer):
    """What a call of CUDA's driver returns. @raises RuntimeError  it failed"""
    if answer[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"CUDA's driver: {answer[0].name}")
    return answer[1] if len(answer) > 1 else None


class joined_memory:
    """As many bytes of each GPU, one GPU behind the other in one range of addresses, which all of them read and write."""

    def __init__(self, driver, ranks, least_bytes):
        def prop_of(rank):
            prop = driver.CUmemAllocationProp()
            prop.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            prop.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            prop.location.id = rank
            return prop

        unit = asked(driver, driver.cuMemGetAllocationGranularity(
            prop_of(0), driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        self.bytes_per_rank = -(-least_bytes // unit) * unit
        whole = self.bytes_per_rank * ranks
        self.address = asked(driver, driver.cuMemAddressReserve(whole, 0, 0, 0))
        access = []
        for rank in range(ranks):
            piece = asked(driver, driver.cuMemCreate(self.bytes_per_rank, prop_of(rank), 0))
            asked(driver, driver.cuMemMap(int(self.address) + rank * self.bytes_per_rank, self.bytes_per_rank, 0, piece, 0))
            asked(driver, driver.cuMemRelease(piece))
            one = driver.CUmemAccessDesc()
            one.location = prop_of(rank).location
            one.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            access.append(one)
        asked(driver, driver.cuMemSetAccess(self.address, whole, access, ranks))
        self.driver, self.whole, self.ranks = driver, whole, ranks

    def view(self, torch, rank):
        """All of it, [ranks, bytes_per_rank], as a tensor of GPU `rank`."""
        storage = torch._C._construct_storage_from_data_pointer(int(self.address), torch.device("cuda", rank), self.whole)
        return torch.empty(0, dtype=torch.uint8, device=f"cuda:{rank}").set_(storage, 0, (self.ranks, self.bytes_per_rank),
                                                                             (self.bytes_per_rank, 1))

    def free(self):
        asked(self.driver, self.driver.cuMemUnmap(self.address, self.whole))
        asked(self.driver, self.driver.cuMemAddressFree(self.address, self.whole))


class rank_of_peer:
    """One GPU's part of the rounds of a point."""

    def __init__(self, torch, peer, axes, memory, rank):
        self.torch, self.peer, self.axes, self.rank = torch, peer, axes, rank
        self.ranks, self.tokens = axes["ranks"], axes["tokens"]
        self.workspace = memory.view(torch, rank)
        self.info = peer.moe_a2a_initialize(self.workspace, rank, self.ranks, self.tokens, 0)
        self.sets = [self.inputs(number) for number in range(SETS)]
        on = {"device": f"cuda:{rank}", "dtype": torch.bfloat16}
        self.out = torch.empty(self.tokens, axes["hidden"], **on)
        self.own_rows = torch.zeros(self.ranks, self.tokens, axes["hidden"], **on)

    def inputs(self, number):
        """ids, and what travels: rows, their scales in FP8, ids, weights; rows have small integers, of which any format is exact."""
        torch, axes = self.torch, self.axes
        random = torch.Generator(device=f"cuda:{self.rank}").manual_seed(1 + self.rank + number * self.ranks)
        on = {"device": f"cuda:{self.rank}", "generator": random}
        ids = torch.rand(self.tokens, axes["experts"], **on).topk(axes["top_k"]).indices.to(torch.int32)
        rows = torch.randint(-8, 9, (self.tokens, axes["hidden"]), **on)
        weights = torch.rand(self.tokens, axes["top_k"], **on)
        if axes["format"] == "bf16":
            return ids, [rows.to(torch.bfloat16), ids, weights]
        return ids, [rows.to(torch.float8_e4m3fn), torch.ones(self.tokens, axes["hidden"] // 128, device=f"cuda:{self.rank}"), ids, weights]

    def dispatch(self, number):
        ids, payloads = self.sets[number]
        offsets, sizes, self.place, _, _ = self.peer.moe_a2a_dispatch(ids, payloads, self.workspace, self.info, self.tokens, self.rank, self.ranks,
                                                                       self.axes["top_k"], self.axes["experts"], True, None, False, None)
        self.received = self.rows_at(offsets[0], sizes[0], payloads[0].dtype)

    def rows_at(self, offset, size, dtype):
        return self.workspace.view(-1)[offset:offset + size].view(dtype).view(self.ranks, self.tokens, self.axes["hidden"])

    def rows_of_experts(self):
        """Where combine reads from, in the memory that others read; dispatch tells of it from this rank's memory on, of what was received from the first rank's."""
        return self.rows_at(self.rank * self.workspace.stride(0) + self.place, 2 * self.own_rows.numel(), self.torch.bfloat16)

    def combine(self, staged):
        rows = self.own_rows if staged else self.rows_of_experts()
        self.peer.moe_a2a_combine_into(rows, self.tokens, self.workspace, self.info, self.tokens, self.rank, self.ranks, self.axes["top_k"],
                                       self.place, not staged, None, None, 1.0, 2, False, True, False, None, self.out)

    def wrong(self, number):
        """What token came back wrong; empty: none."""
        ids, payloads = self.sets[number]
        owner = ids.long() * self.ranks // self.axes["experts"]
        visits = self.torch.zeros(self.tokens, self.ranks, device=ids.device).scatter_(1, owner, 1.0).sum(1, keepdim=True)
        right = (payloads[0].float() * visits).to(self.torch.bfloat16)
        bad = (self.out != right).any(1).nonzero()
        return f"rank {self.rank}: token {int(bad[0])} is not itself times {int(visits[bad[0]])}" if len(bad) else ""

    def rounds_in_a_graph(self, staged):
        from tvm_ffi import use_torch_stream  # the peer's functions do not see torch's stream by themselves

        graph = self.torch.cuda.CUDAGraph()
        with use_torch_stream(self.torch.cuda.graph(graph, stream=self.torch.cuda.Stream(), capture_error_mode="thread_local")):
            for number in range(ROUNDS):
                self.dispatch(number % SETS)
                self.combine(staged)
        return graph


class world_of_peer:
    """All GPUs of a point."""

    def __init__(self, torch, driver, peer, axes):
        self.torch = torch
        for rank in range(axes["ranks"]):
            torch.zeros(1, device=f"cuda:{rank}")  # CUDA's context
        a_row = axes["hidden"] * (2 if axes["format"] == "bf16" else 1) + 4 * (axes["hidden"] // 128 + 2 * axes["top_k"]) + 2 * axes["hidden"]
        least = peer.moe_a2a_get_aux_data_size(axes["ranks"], axes["tokens"], 0) + axes["ranks"] * axes["tokens"] * a_row + 65536
        self.memory = joined_memory(driver, axes["ranks"], least)
        self.members = []
        for rank in range(axes["ranks"]):
            with torch.cuda.device(rank):
                self.members.append(rank_of_peer(torch, peer, axes, self.memory, rank))

    def each(self, call):
        results = []
        for member in self.members:
            with self.torch.cuda.device(member.rank):
                results.append(call(member))
        return results

    def synchronize(self):
        self.each(lambda member: self.torch.cuda.synchronize())

    def first_wrong(self, staged):
        for number in range(SETS):
            self.each(lambda member: member.dispatch(number))
            self.synchronize()
            self.each(lambda member: (member.own_rows if staged else member.rows_of_experts()).copy_(member.received))
            self.synchronize()
            self.each(lambda member: member.combine(staged))
            self.synchronize()
            if found := [text for text in self.each(lambda member: member.wrong(number)) if text]:
                return found[0]
        return ""

    def sample(self, graphs):
        """us a round of the slowest GPU; the rounds before those that count bring all GPUs to the same point."""
        events = [[self.torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in self.members]

        def timed(member):
            begin, end = events[member.rank]
            begin.record()
            graphs[member.rank].replay()
            end.record()

        self.each(lambda member: graphs[member.rank].replay())
        self.each(timed)
        self.synchronize()
        return max(begin.elapsed_time(end) for begin, end in events) * 1000 / ROUNDS

    def times(self, staged, samples):
        graphs = self.each(lambda member: member.rounds_in_a_graph(staged))
        self.sample(graphs)
        return [self.sample(graphs) for _ in range(samples)]


def spread_of(samples):
    median = statistics.median(samples)
    return {"median_us": median, "mad_us": statistics.median(abs(us - median) for us in samples), "samples_us": samples}


def measure(torch, driver, peer, axes, samples):
    """A line of PEERS."""
    world = world_of_peer(torch, driver, peer, axes)
    line = {"schema": WRITTEN, "who": WHO, "axes": {name: axes[name] for name in ("ranks", "tokens", "hidden", "experts", "top_k", "format")},
            "gpu": torch.cuda.get_device_name(), "rounds_timed_together": ROUNDS, "sets_of_inputs": SETS, "wrong": None}
    for name, staged in (("in_place", False), ("staged", True)):
        line["wrong"] = world.first_wrong(staged) or line["wrong"]
        line[name] = spread_of(world.times(staged, samples)) if not line["wrong"] else None
    world.members.clear()
    world.memory.free()
    return line


def heading():
    return f"{'ranks':>5}{'tokens':>8}{'format':>8}{'SMs':>5}{'baton us':>10}{'in place us':>13}{'staged us':>11}{'of in place':>13}"


def row(axes, ours_us, line):
    """One line of the table; the share is baton's time of the peer's: below 100 % is quicker."""
    start = f"{axes['ranks']:>5}{axes['tokens']:>8}{axes['format']:>8}{axes['num_sms'] or 'all':>5}{ours_us:>10.2f}"
    if line["wrong"]:
        return f"{start}  WRONG: {line['wrong']}"
    in_place, staged = (line[name]["median_us"] for name in ("in_place", "staged"))
    return f"{start}{in_place:>13.2f}{staged:>11.2f}{100 * ours_us / in_place:>11.1f} %"


def main():
    parser = parser_of(__doc__, "gets a line of JSON for each point")
    parser.add_argument("--module", metavar="SO", type=pathlib.Path, help="FlashInfer's module mnnvl_moe_alltoall, if it is built already")
    parser.add_argument("--repeats", type=int, default=20, help="samples of each time [20]")
    options = parser.parse_args()
    points = points_of(read_points, options.points)
    if points is None:
        return BAD_FILE
    found, missing = load_peer(options.module)
    ranks = max(axes["ranks"] for axes, _, _ in points)
    if found and found[0].cuda.device_count() < ranks:
        found, missing = None, f"{found[0].cuda.device_count()} GPUs here, {ranks} ranks in {options.points}"
    if found is None:
        print(f"{WHO} cannot be measured: {missing}", file=sys.stderr)
        return NOT_HERE
    here = found[0].cuda.get_device_name()
    if is_measured_elsewhere(options.points, (gpu for _, _, gpu in points), here):
        return NOT_HERE
    lines = {}
    print(f"{WHO}, on {here}; shares are baton's time of it in place\n{heading()}")
    for axes, ours_us, _ in points:
        key = tuple(axes[name] for name in ("ranks", "tokens", "hidden", "experts", "top_k", "format"))
        if key not in lines:
            lines[key] = measure(*found, axes, options.repeats)
        print(row(axes, ours_us, lines[key]), flush=True)
    if options.out:
        options.out.write_text("".join(json.dumps(line) + "\n" for line in lines.values()))
    return WRONG if any(line["wrong"] for line in lines.values()) else 0


def ended_at_once():
    """main(), after which a GPU that waits for another one's kernel does not keep the process."""
    try:
        code = main()
    except Exception:
        traceback.print_exc()
        code = WRONG
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    ended_at_once()
