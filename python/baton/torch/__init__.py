"""PyTorch's operators of baton, which torch.compile and torch.export trace, and a mixture-of-experts layer. Forward only: none has a gradient.

Importing this registers torch.ops.baton.dispatch, .expert_mlp, .combine, .experts (all three in one), .gemm, .grouped_gemm,
.varlen_attention and .attention_with_kvcache. Operators take numbers, not objects: `number_of(ep)` is that of a communicator.
"""
from ._layer import Experts, MoELayer
from ._operators import number_of

__all__ = ["Experts", "MoELayer", "number_of"]
