"""Expert parallelism for mixture-of-experts models, on NVLink machines and on laptops without a GPU.

    worlds = baton.World.local(4, device="cpu")
    ep = baton.ExpertParallel.create_all(worlds, num_experts=64, top_k=8, hidden=256, num_max_tokens_per_rank=128)
    recv = baton.dispatch_all(ep, tokens, topk_idx, topk_weights)
    out = baton.combine_all(ep, expert_out)

`python -m baton` is the program: doctor, bench, generate, check.
"""
from . import attention
from ._core import build_info
from ._core import version as _version
from ._errors import (BadFile, CudaError, DeviceError, Error, InvalidArgument, OutOfMemory, Stuck, TransportError, Unsupported)
from ._expert_parallel import (ExpertParallel, Members, combine_all, dispatch_all, reacquire_all, release_all, set_members_all, why_not,
                               workspace_bytes)
from ._padded import Padded, pad_rows, unpad_rows
from ._products import expert_mlp, gemm, grouped_gemm
from ._received import Received
from ._world import World

__version__ = _version()
__all__ = ["BadFile", "CudaError", "DeviceError", "Error", "ExpertParallel", "InvalidArgument", "Members", "OutOfMemory", "Padded", "Received", "Stuck",
           "TransportError", "Unsupported", "World", "attention", "build_info", "combine_all", "dispatch_all", "expert_mlp", "gemm",
           "grouped_gemm", "pad_rows", "reacquire_all", "release_all", "set_members_all", "unpad_rows", "why_not", "workspace_bytes"]
