"""What a rank of torch's tensors does in a process of its own, on its GPU or on a CPU: python rank_of_torch.py WHAT DEVICE. test_ranks_of_torch starts
one for each rank."""
import json
import os
import pathlib
import signal
import sys
import threading
import time

import numpy
import torch

import baton
import baton.torch
from rounds import assert_scaled, round_data
from test_frameworks import multiplied, of_torch
from test_package import ON_GPUS, run_blocks

SOURCE = pathlib.Path(os.environ.get("BATON_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def check_rounds(world):
    """Three rounds of ranks that bring unequal numbers of tokens."""
    framework, gpu = of_torch(world.device), world.device_index
    data = round_data(num_ranks=world.size)
    ep = baton.ExpertParallel(world, **data.sizes())
    for missing in range(3):
        mine = slice(0, 16 - missing * world.rank)
        tokens, idx, weights = (framework.array(array[mine], gpu) for array in data.given(world.rank))
        out = ep.combine(multiplied(framework, ep.dispatch(tokens, idx, weights), gpu))
        world.synchronize()
        whole = numpy.zeros(data.tokens[0].shape, numpy.float32)
        whole[mine] = framework.numpy(out)
        data_of_rank = data.tokens[world.rank].copy()
        data.tokens[world.rank][mine.stop:] = 0
        assert_scaled(data, world.rank, whole)
        data.tokens[world.rank] = data_of_rank


def from_env(device):
    check_rounds(baton.World.from_env(device))


def from_torch(device):
    """As users of torch.distributed have it: their backend, their current GPU."""
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    world = baton.World.from_torch(device=device)
    assert world.device == "cpu" or world.device_index == torch.cuda.current_device()
    check_rounds(world)
    torch.distributed.destroy_process_group()


def captured(device):
    """A layer in a CUDA graph, replayed with other tokens, beside the same without one."""
    world = baton.World.from_env(device)
    torch.cuda.set_device(world.device_index)
    layer = baton.torch.MoELayer(world, 16, 4, 256, 128, num_max_tokens_per_rank=64)
    torch.manual_seed(3)
    layer.router.weight.copy_(torch.randn(16, 256).bfloat16())
    torch.manual_seed(4 + world.rank)
    x = torch.randn(24, 256, device="cuda").bfloat16()
    layer(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = layer(x)
    for _ in range(5):
        x.copy_(torch.randn(24, 256))
        graph.replay()
        replayed = out.clone()
        assert torch.equal(replayed, layer(x))
    assert replayed.abs().max() > 0


def late(device):
    """A peer that does not come: an exception that names it, after which the process goes on."""
    world = baton.World.from_env(device)
    data = round_data(num_ranks=world.size)
    ep = baton.ExpertParallel(world, **data.sizes())
    if world.rank == 0:
        framework = of_torch(device)
        began = time.monotonic()
        try:
            ep.dispatch(*(framework.array(array, world.device_index) for array in data.given(0)))
            world.synchronize()
        except baton.Stuck as error:
            assert error.rank == 0 and error.peer > 0 and error.phase == "dispatch.ids", error
            assert time.monotonic() - began < 20
            print("stuck:", error)
        if device == "cuda":
            assert (torch.ones(4, device="cuda") * 2).sum().item() == 8
    else:
        time.sleep(4)


def interrupted(device):
    """Ctrl-C while a peer does not come, long before the deadline; then the process goes on."""
    world = baton.World.from_env(device)
    data = round_data(num_ranks=world.size)
    ep = baton.ExpertParallel(world, **data.sizes())
    if world.rank > 0:
        return time.sleep(4)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    framework, began = of_torch(device), time.monotonic()
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        ep.dispatch(*(framework.array(array, world.device_index) for array in data.given(0)))
        world.synchronize()
    except KeyboardInterrupt:
        print("interrupted")
    assert time.monotonic() - began < 20
    if device == "cuda":
        assert (torch.ones(4, device="cuda") * 2).sum().item() == 8


def deep_ep(device):
    """DeepEP's calls on more than one rank, against what they should give, and those of low latency in a CUDA graph."""
    from baton import deep_ep as interface
    world = baton.World.from_env(device)
    on = "cpu" if device == "cpu" else f"cuda:{world.device_index}"
    if device == "cuda":
        torch.cuda.set_device(world.device_index)  # a graph is of the current GPU
    buffer = interface.Buffer(world=world, num_max_tokens_per_rank=32)
    torch.manual_seed(world.rank)
    x, idx = torch.randn(9, 256, device=on).bfloat16(), torch.rand(9, 8, device=on).topk(3)[1]
    weights = torch.rand(9, 3, device=on)
    per_rank, _, per_expert, there, _ = buffer.get_dispatch_layout(idx, 8)
    for is_async in (False, True):
        recv_x, ids, its, counts, handle, event = buffer.dispatch(
            x, num_tokens_per_rank=per_rank, num_tokens_per_expert=per_expert, is_token_in_rank=there, topk_idx=idx, topk_weights=weights,
            async_finish=is_async, previous_event=buffer.capture())
        event.current_stream_wait() if is_async else None
        assert counts == [int((ids == e).sum()) for e in range(8 // world.size)]
        out, sums, _ = buffer.combine(recv_x, handle, topk_weights=its)
        expected = x.float() * there.sum(1, keepdim=True)
        assert torch.allclose(out.float(), expected, rtol=2 ** -7) and torch.allclose(sums, weights, rtol=2 ** -22)

    for use_fp8 in (False, True):
        for is_hooked in (False, True):
            low_latency(world, buffer, (x, idx, weights), use_fp8, is_hooked)


def low_latency(world, buffer, given, use_fp8, is_hooked):
    """Experts that each multiply by another factor: called, and in a CUDA graph that is replayed with other tokens, ids and weights."""
    x, idx, weights = (one.clone() for one in given)
    factors = 1 + torch.arange(8, device=x.device) / 2
    own_factors = factors.view(world.size, -1, 1, 1)[world.rank]

    def layer(into):
        rows, _, its, _, hook = buffer.low_latency_dispatch(x, idx, 32, 8, use_fp8=use_fp8, return_recv_hook=is_hooked)
        hook() if is_hooked else None
        if use_fp8:
            values, scales = rows
            rows = (values.float().unflatten(-1, (-1, 128)) * scales.unsqueeze(-1)).flatten(-2).bfloat16()
        rows = (rows * own_factors).bfloat16()
        _, _, hook = buffer.low_latency_combine(rows, idx, weights, its, out=into, return_recv_hook=is_hooked)
        hook() if is_hooked else None

    def assert_right(out):
        expected = x.float() * (torch.where(idx >= 0, weights, 0) * factors[idx.clamp(min=0)]).sum(1, keepdim=True)
        errors = (out.float() - expected).norm(dim=1)
        assert (errors <= expected.norm(dim=1) * (2 ** -4 if use_fp8 else 2 ** -7)).all(), errors

    first, again = torch.zeros_like(x), torch.zeros_like(x)
    for _ in range(3):
        layer(first)
        assert_right(first)
    if world.device == "cpu":
        return
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer(again)
    assert not again.any()
    for _ in range(3):
        graph.replay()
    world.synchronize()  # which says what torch's does not: that a rank replayed less often
    assert torch.equal(again, first)
    for _ in range(20):
        x.copy_(torch.randn(x.shape))
        idx.copy_(torch.rand(idx.size(0), 8).topk(idx.size(1))[1])
        weights.copy_(torch.rand(weights.shape))
        idx[0, 1] = -1
        graph.replay()
        world.synchronize()
        assert_right(again)


class Undecided:
    """Where bfloat16 does not say which of two bytes comes next: how far transformers' own model in bfloat16 is from the same in float32, at worst in a text.
    Ranks round their parts of a token's sum to bfloat16, so among many a text may part there from what one writes."""

    def __init__(self, own, exact, texts, length):
        self.exact, self.noise = exact, {}
        for text in texts:
            ids = torch.tensor([list((text["prompt"] + text["greedy_continuation"][:length]).encode())], device=exact.device)
            rounded, right = (its(ids).logits[0].float() for its in (own, exact))
            largest = right.topk(2).indices
            gaps = [logits.gather(1, largest).diff(dim=1) for logits in (rounded, right)]
            self.noise[text["prompt"]] = (gaps[0] - gaps[1]).abs().max().item()

    def where(self, text, written, wanted):
        """Whether `written` first differs from `wanted` where it may."""
        at = next(i for i, (one, other) in enumerate(zip(written, wanted)) if one != other)
        logits = self.exact(torch.tensor([[*text["prompt"].encode(), *wanted[:at]]], device=self.exact.device)).logits[0, -1]
        return bool(logits[wanted[at]] - logits[written[at]] <= self.noise[text["prompt"]])


def model(device):
    """The small model writes what it should, loaded by its experts and loaded whole; on GPUs all texts, and beside transformers itself."""
    import transformers

    import baton.transformers
    world = baton.World.from_env(device)
    folder = SOURCE / "data" / "tiny-moe"
    texts = json.loads((folder / "greedy.json").read_text())
    count, length = (len(texts), 96) if device == "cuda" else (2, 24)
    place = "cpu" if device == "cpu" else f"cuda:{world.device_index}"
    own, exact = (transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(place) for dtype in (torch.bfloat16, torch.float32))
    models = {"transformers": own, "parallelize": None, "from_pretrained": baton.transformers.from_pretrained(folder, world, num_max_tokens_per_rank=128)}
    undecided = Undecided(own, exact, texts[:count], length)
    for name in models:
        its = models[name] or baton.transformers.parallelize(own, world, num_max_tokens_per_rank=128)  # which changes it: `own` has written by now
        right, parted = 0, 0
        for text in texts[:count]:
            ids = torch.tensor([list(text["prompt"].encode())], device=own.device)
            out = its.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=length, do_sample=False, pad_token_id=0)
            written, wanted = out[0, ids.shape[1]:].tolist(), [*text["greedy_continuation"].encode()][:length]
            right += written == wanted
            parted += written != wanted and world.size > 2 and name != "transformers" and undecided.where(text, written, wanted)
        print(f"{name}: {right} of {count}, {parted} parted where bfloat16 does not decide")
        assert right + parted == count


def page(device):
    """What the page for GPUs shows, as torchrun starts it."""
    run_blocks(ON_GPUS, device)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        {"from_env": from_env, "from_torch": from_torch, "captured": captured, "late": late, "interrupted": interrupted, "deep_ep": deep_ep, "model": model,
         "page": page}[sys.argv[1]](sys.argv[2])
