"""Checkpoints of which each rank reads what it needs."""
import json
import pathlib
import re
import threading
from typing import Any, Dict, Iterable, Iterator, Optional, Tuple

import torch
from torch import nn

from .._arrays import torch_device
from .._errors import BadFile, Unsupported
from .._world import World
from ..torch._layer import Experts
from ._replace import parallelize

OF_ONE_EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(gate_proj|up_proj|down_proj|w1|w2|w3)\.weight$")
one_at_a_time = threading.Lock()
PART = {"gate_proj": "gate", "w1": "gate", "up_proj": "up", "w3": "up", "down_proj": "down", "w2": "down"}
RENAMED = ((".block_sparse_moe.", ".mlp."),)  # Mixtral's files are older than its modules


def files_of(folder: pathlib.Path) -> list:
    index = folder / "model.safetensors.index.json"
    names = sorted(set(json.loads(index.read_text())["weight_map"].values())) if index.exists() else ["model.safetensors"]
    for name in names:
        if not (folder / name).exists():
            raise BadFile(f"{folder / name}: there is no such file; expected a checkpoint in safetensors")
    return [folder / name for name in names]


def with_progress(names: Iterable[str], what: str) -> Iterable[str]:
    """The same, shown on a terminal where tqdm is there."""
    try:
        from tqdm import tqdm
    except ImportError:
        return names
    return tqdm(names, desc=what, unit=" tensors", disable=None)  # None: unless standard error is a terminal


def tensors_of(folder: pathlib.Path) -> Iterator[Tuple[str, Any]]:
    """Names, as modules have them, and what reads a tensor when it is called."""
    from safetensors import safe_open
    for path in files_of(folder):
        with safe_open(path, framework="pt") as opened:
            for name in with_progress(opened.keys(), path.name):
                read = (lambda name=name, opened=opened: opened.get_slice(name))
                for old, new in RENAMED:
                    name = name.replace(old, new)
                yield name, read


def fill_experts(experts: Dict[str, Experts], name: str, read: Any) -> bool:
    """Whether `name` is of experts; copies this rank's."""
    if match := OF_ONE_EXPERT.match(name):
        module, number, part = experts[match[1]], int(match[2]), PART[match[3]]
        own = module.ep.local_experts
        if number in own:
            getattr(module, part).data[number - own.start].copy_(read()[:])
        return True
    parent, _, last = name.rpartition(".")
    if parent not in experts or last not in ("gate_up_proj", "down_proj"):
        return False
    module = experts[parent]
    own = module.ep.local_experts
    weights = read()[own.start:own.stop]
    if last == "down_proj":
        module.down.data.copy_(weights)
    else:
        module.gate.data.copy_(weights[:, :module.gate.shape[1]])
        module.up.data.copy_(weights[:, module.gate.shape[1]:])
    return True


def type_of(model: nn.Module, name: str, value: torch.Tensor) -> torch.dtype:
    """bfloat16, but for what a model wants to have in float32, and what is no fraction."""
    kept = {*(getattr(model, "_keep_in_fp32_modules", None) or ()), *(getattr(model, "_keep_in_fp32_modules_strict", None) or ())}
    if not value.is_floating_point():
        return value.dtype
    return torch.float32 if any(part in name for part in kept) else torch.bfloat16


def rebuild_buffers(model: nn.Module, device: str) -> None:
    """Those that no checkpoint has, as of rotary embeddings: by modules that make them of a config."""
    for name, module in list(model.named_modules()):
        lost = [buffer for buffer, value in module.named_buffers(recurse=False) if value is not None and value.is_meta]
        if not lost or not set(lost) <= module._non_persistent_buffers_set:
            continue
        if not hasattr(module, "config"):
            raise Unsupported(f"model: {name}.{lost[0]} is in no checkpoint, and its module has no config to make it of")
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, type(module)(module.config).to(device))


def from_pretrained(folder: Any, world: World, *, model_class: Optional[type] = None, num_max_tokens_per_rank: int = 4096) -> nn.Module:
    """The model in `folder`, a checkpoint in safetensors with its config.json, in bfloat16 on the world's device, its experts as
    `parallelize` spreads them: each rank reads and holds its own experts' weights alone. Collective.

    `model_class`: a class of transformers; None: AutoModelForCausalLM's choice.
    """
    import transformers
    folder, device = pathlib.Path(folder), torch_device(world)
    config = transformers.AutoConfig.from_pretrained(folder)
    with one_at_a_time, torch.device("meta"):  # types of new parameters are a process's, not a thread's
        model = model_class._from_config(config, dtype=torch.bfloat16) if model_class else \
            transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    parallelize(model, world, num_max_tokens_per_rank=num_max_tokens_per_rank)
    experts = {name: module for name, module in model.named_modules() if isinstance(module, Experts)}
    wanted = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, read in tensors_of(folder):
        if fill_experts(experts, name, read):
            continue
        if name not in wanted:
            continue  # as heads that a class does not have
        parent, _, last = name.rpartition(".")
        owner, value = model.get_submodule(parent), read()[:].to(device, type_of(model, name, wanted[name]))
        if last in owner._parameters:
            value = nn.Parameter(value, requires_grad=False)
        setattr(owner, last, value)
    rebuild_buffers(model, device)
    model.tie_weights()
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if value.is_meta:
            raise BadFile(f"{folder}: it has no {name}, of {list(value.shape)}")
    if (folder / "generation_config.json").exists():
        model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    return model.eval()
