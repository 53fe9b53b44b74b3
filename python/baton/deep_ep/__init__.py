"""DeepEP's interface over baton, for torch tensors: `import baton.deep_ep as deep_ep` in place of `import deep_ep`.

Ranks are processes of one machine, on its GPUs or on CPUs; between machines there is nothing here, and it says so. What differs from
DeepEP is in docs/deep_ep.md: everything runs on the current stream, and communicators are made at the first call that needs them.
"""
import torch as _torch

from ._buffer import Buffer
from ._events import EventHandle, EventOverlap
from ._layout import Config

topk_idx_t = _torch.int64
__all__ = ["Buffer", "Config", "EventHandle", "EventOverlap", "topk_idx_t"]
