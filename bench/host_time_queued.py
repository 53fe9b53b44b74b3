"""What a call costs its thread that only queues work, on a CPU rank, of two builds of the package in turn: no GPU is needed.

    python bench/host_time_queued.py FOLDER FOLDER    # in each an unpacked wheel; before and after a change, say

Each form of call queues a round's half in every slot, which is timed, and then waits for all of them, which is not.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import time

NUM_COMMUNICATORS, NUM_SLOTS, NUM_BATCHES = 8, 8, 400


def forms(baton):
    """By name: what goes before, what queues in all slots, and what ends it."""
    import torch
    world = baton.World.local(1, device="cpu")[0]
    communicators = [baton.ExpertParallel(world, num_experts=8, top_k=2, hidden=256, num_max_tokens_per_rank=16, num_slots=NUM_SLOTS)
                     for _ in range(NUM_COMMUNICATORS)]
    places = [(ep, slot) for ep in communicators for slot in range(NUM_SLOTS)]
    tokens, topk_idx, topk_weights = torch.ones(16, 256).bfloat16(), torch.arange(32, dtype=torch.int32).view(16, 2) % 8, torch.full((16, 2), 0.5)
    out = torch.zeros(16, 256)

    def by_place(_):
        for ep, slot in places:
            ep.dispatch_async(tokens, topk_idx, topk_weights, slot=slot)

    def by_name(_):
        for ep, slot in places:
            ep.dispatch_async(tokens=tokens, topk_idx=topk_idx, topk_weights=topk_weights, slot=slot, num_sms=0, stream=None)

    def received(_=None):
        return [ep.dispatch_wait(slot=slot).tokens for ep, slot in places]

    def answered(rows):
        for its, (ep, slot) in zip(rows, places):
            ep.combine_async(its, slot=slot)

    def answered_by_name(rows):
        for its, (ep, slot) in zip(rows, places):
            ep.combine_async(expert_output=its, num_rows=-1, slot=slot, stream=None)

    def combined(_=None):
        for ep, slot in places:
            ep.combine_wait(out, slot=slot)

    def begun():
        by_place(None)
        return received()

    def ended(_):
        answered(received())
        combined()

    return {"dispatch_async(tokens, topk_idx, topk_weights, slot=s)": (tuple, by_place, ended),
            "dispatch_async(tokens=t, topk_idx=i, topk_weights=w, slot=s, num_sms=0, stream=None)": (tuple, by_name, ended),
            "combine_async(rows, slot=s)": (begun, answered, combined),
            "combine_async(expert_output=rows, num_rows=-1, slot=s, stream=None)": (begun, answered_by_name, combined)}


def serve():
    """Says which forms there are, and then times a batch of the form that each line of the input names, in us a call."""
    import baton
    known = forms(baton)
    print("\t".join(known), flush=True)
    for line in sys.stdin:
        begin, work, end = known[line.strip()]
        state = begin()
        began = time.perf_counter()
        work(state)
        took = time.perf_counter() - began
        end(state)
        print(took / (NUM_COMMUNICATORS * NUM_SLOTS) * 1e6, flush=True)


def main(folders):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # cores of a busy machine differ
    servers = [subprocess.Popen([sys.executable, __file__], env={**os.environ, "PYTHONPATH": str(pathlib.Path(folder).resolve())}, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE) for folder in folders]

    def batch(server, name):
        server.stdin.write(f"{name}\n")
        server.stdin.flush()
        return float(server.stdout.readline())

    names = [server.stdout.readline().rstrip("\n").split("\t") for server in servers][0]
    for name in names:
        for server in servers:
            batch(server, name)
        seen = [[batch(server, name) for server in servers] for _ in range(NUM_BATCHES)]
        print(name)
        for folder, its in zip(folders, zip(*seen)):
            low, middle, high = statistics.quantiles(its, n=4)
            print(f"  {folder}: {middle:.2f} us a call, quartiles {low:.2f} to {high:.2f}, {min(its):.2f} at least")
        low, middle, high = statistics.quantiles([late - early for early, late in seen], n=4)
        print(f"  the second less the first, of batches that follow each other: {middle:.2f}, quartiles {low:.2f} to {high:.2f}")
    for server in servers:
        server.stdin.close()
        server.wait()


if __name__ == "__main__":
    main(sys.argv[1:]) if len(sys.argv) == 3 else serve()
