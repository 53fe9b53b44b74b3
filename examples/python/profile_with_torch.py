"""A layer of experts under torch.profiler: profile_with_torch.py [cpu | cuda] [TRACE.json]

Operators of `torch.ops.baton` are lines of their own. On a GPU their kernels are below them, and NVTX ranges in the domain "baton" have kernels' names
without arguments, such as "ep::per_rank::dispatch", which Nsight Systems shows beside its own: nsys profile --trace cuda,nvtx python3 ...
"""
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function

import baton
import baton.torch

device, trace = (*sys.argv[1:], *("cpu", "")[len(sys.argv) - 1:])
world = baton.World.from_all_gather(None, 0, 1, device)
layer = baton.torch.MoELayer(world, num_experts=8, top_k=2, hidden=64, intermediate=128, num_max_tokens_per_rank=256)
number, weights = baton.torch.number_of(layer.experts.ep), (layer.experts.gate, layer.experts.up, layer.experts.down)
x = torch.randn(64, 64, device=layer.router.weight.device).bfloat16()


def step():
    with record_function("router"):
        topk_weights, topk_idx = torch.softmax(layer.router(x).float(), dim=-1).topk(2)
    rows, *_ = torch.ops.baton.dispatch(x, topk_idx, topk_weights, number)
    return torch.ops.baton.combine(torch.ops.baton.expert_mlp(rows, *weights, number), len(x), number)


with torch.no_grad():
    step()  # what is made once is no part of it
    with profile(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")) as profiler:
        for _ in range(5):
            step()
for event in profiler.key_averages():
    if event.key.startswith("baton::") or event.key == "router":
        print(f"{event.key:<20} {event.count:>3} times, {event.cpu_time_total / event.count:>9.1f} us each on the CPU")
if trace:
    profiler.export_chrome_trace(trace)
