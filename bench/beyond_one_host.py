#!/usr/bin/env python3
"""Proves and times ranks on several hosts: one process a GPU, started on each host by torchrun, mpirun or srun (docs/two_hosts.md).

Rounds whose experts return their rows, with tokens and weights whose sums are exact, so that every value is compared for equality; then times by the host's clock. With --silent RANK that rank stops after the rounds, and every other one has to name it.
Each rank prints a line for each thing it found; rank 0 also the times.

Exit code 0: all is right. 1: a value is wrong, or somebody else was named. What cannot be had at all ends in baton's message.
"""
import argparse
import os
import statistics
import sys
import time

import numpy

import baton


def world_of(options):
    """By who started the ranks."""
    if options.meet == "env":
        os.environ["BATON_DEADLINE_MS"] = str(round(1000 * options.deadline))
        return baton.World.from_env(options.device)
    if options.meet == "mpi":
        return baton.World.from_mpi(device=options.device, deadline=options.deadline)
    import torch
    if options.device != "cpu":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("gloo")  # only while objects are made
    return baton.World.from_torch(device=options.device, deadline=options.deadline)


def arrays_of(world, seed, options):
    """Random tokens, distinct experts, and weights of 1/2, 1/4, ...: on the rank's device."""
    random = numpy.random.default_rng([seed, world.rank])
    shape = (options.tokens, options.hidden)
    if options.layout == "per_rank":  # bf16 has what a rank adds up, too: some of eight weights, of eight bits in a row
        tokens = random.choice([-1, 1], shape) * numpy.float32(2) ** random.integers(0, 8, shape)
    else:
        tokens = random.integers(-128, 128, shape)  # bf16 has them all
    tokens = tokens.astype(numpy.float32)
    topk_idx = numpy.stack([random.permutation(options.experts)[:options.top_k] for _ in range(options.tokens)])
    topk_weights = numpy.tile(numpy.float32(0.5) ** numpy.arange(1, options.top_k + 1, dtype=numpy.float32), (options.tokens, 1))
    expected = tokens * (1 - numpy.float32(0.5) ** options.top_k)
    if world.device == "cpu":
        import ml_dtypes
        return (tokens.astype(ml_dtypes.bfloat16), topk_idx, topk_weights), expected
    import torch
    device = torch.device("cuda", world.device_index)
    return (torch.tensor(tokens, dtype=torch.bfloat16, device=device), torch.tensor(topk_idx, device=device),
            torch.tensor(topk_weights, device=device)), expected


def round_of(ep, given):
    return ep.combine(ep.dispatch(*given).tokens)


def on_host(array):
    return array if isinstance(array, numpy.ndarray) else array.cpu().numpy()


def wrong_values(ep, options):
    wrong = 0
    for seed in range(options.rounds):
        given, expected = arrays_of(ep.world, seed, options)
        out = round_of(ep, given)
        ep.world.synchronize()
        wrong += int((on_host(out) != expected).sum())
    return wrong


def microseconds(ep, options):
    """A round's, of this rank; ranks meet in the rounds before."""
    given, _ = arrays_of(ep.world, 0, options)
    samples = []
    for _ in range(options.repeats):
        for _ in range(2):
            round_of(ep, given)
        ep.world.synchronize()
        began = time.perf_counter()
        for _ in range(20):
            round_of(ep, given)
        ep.world.synchronize()
        samples.append((time.perf_counter() - began) * 1e6 / 20)
    return statistics.median(samples)


def who_was_named(ep, options):
    """By this rank, whose peer takes no part any more; None: nobody."""
    given, _ = arrays_of(ep.world, 0, options)
    try:
        round_of(ep, given)
        ep.world.synchronize()
    except baton.Stuck as error:
        print(f"rank {ep.world.rank}: {error}", flush=True)
        return error.peer
    return None


def run(options):
    world = world_of(options)
    if options.silent is not None and not 0 <= options.silent < world.size:
        print(f"--silent: {options.silent}, expected one of {world.size} ranks", file=sys.stderr)
        return 2
    ep = baton.ExpertParallel(world, num_experts=options.experts, top_k=options.top_k, hidden=options.hidden,
                              num_max_tokens_per_rank=options.tokens, layout=options.layout, p2p_group_size=options.group_size,
                              levels=options.levels)
    group = ep.config["p2p_group_size"] or world.size
    wrong = wrong_values(ep, options)
    print(f"rank {world.rank} of {world.size}, groups of {group}: {options.rounds} rounds, {wrong} values wrong", flush=True)
    if wrong:
        return 1
    if options.repeats:
        took = microseconds(ep, options)
        if world.rank == 0:
            print(f"{options.layout}, levels {options.levels}, {options.tokens} tokens a rank, top {options.top_k} of {options.experts} experts, hidden {options.hidden}, bf16: "
                  f"{took:.1f} us a round of rank 0, by the host's clock", flush=True)
    if options.silent is None:
        return 0
    if world.rank == options.silent:
        time.sleep(2 * options.deadline + 5)  # longer than the others wait
        leave(0, options)
    leave(0 if who_was_named(ep, options) == options.silent else 1, options)


def leave(code, options):
    """Without NVSHMEM's ending, in which a rank that gave up could be waited for; with MPI's, as mpirun and srun end all ranks when one leaves without it."""
    sys.stdout.flush()
    if options.meet == "mpi":
        from mpi4py import MPI
        MPI.Finalize()  # once the silent rank is back
    os._exit(code)


def arguments(given):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--meet", choices=("torch", "mpi", "env"), default="torch",
                        help="how ranks meet: torch.distributed (torchrun), mpi4py (mpirun, srun --mpi), or the variables of one host")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--group-size", type=int, default=0, help="ranks that stores reach; 0: those of a host")
    parser.add_argument("--layout", choices=("per_rank", "per_expert"), default="per_rank")
    parser.add_argument("--levels", choices=("one", "two"), default="one",
                        help="a token is put to each rank beyond the group, or, with layout per_rank, once to each group and forwarded there")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=7168)
    parser.add_argument("--top-k", type=int, default=8)
    parser.add_argument("--experts", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=20, help="rounds that are compared")
    parser.add_argument("--repeats", type=int, default=10, help="samples of a round's time; 0: none")
    parser.add_argument("--silent", type=int, metavar="RANK", help="takes no part after the rounds; the others have to name it")
    parser.add_argument("--deadline", type=float, default=10.0, help="seconds, of every wait")
    options = parser.parse_args(given)
    if options.layout == "per_rank" and options.top_k > 8:
        parser.error("--top-k: with layout per_rank at most 8, whose sums are exact")
    if options.rounds < 1:
        parser.error(f"--rounds: {options.rounds}, expected 1 or more")
    if options.repeats < 0:
        parser.error(f"--repeats: {options.repeats}, expected 0 (none) or more")
    if not 0 < options.deadline < float("inf"):
        parser.error(f"--deadline: {options.deadline}, expected seconds")
    return options


if __name__ == "__main__":
    sys.exit(run(arguments(sys.argv[1:])))
