"""What vLLM and SGLang ask of an adapter, where they are not installed: names, signatures and fields, as read in their releases.

vLLM 0.33.0: vllm/model_executor/layers/fused_moe/modular_kernel.py, topk_weight_and_reduce.py; vllm/v1/worker/ubatching.py
SGLang 0.5.23: sglang/srt/layers/moe/token_dispatcher/base.py, deepep.py; sglang/srt/layers/moe/topk.py

Each class states what its namesake promises and does nothing else, so that the adapters' own work runs without an engine.
"""
import abc
import dataclasses
import enum
import inspect
import sys
import types
from typing import Any, List, NamedTuple, Optional

VLLM = "vllm.model_executor.layers.fused_moe.modular_kernel"
SGLANG = "sglang.srt.layers.moe.token_dispatcher"
PREPARE = ["self", "a1", "topk_weights", "topk_ids", "num_experts", "expert_map", "apply_router_weight_on_input", "quant_config",
           "defer_input_quant"]
FINALIZE = ["self", "output", "fused_expert_output", "topk_weights", "topk_ids", "apply_router_weight_on_input", "weight_and_reduce_impl"]
SIGNATURES = {"prepare": PREPARE, "prepare_async": PREPARE, "finalize": FINALIZE, "finalize_async": FINALIZE, "topk_indices_dtype": ["self"],
              "max_num_tokens_per_rank": ["self"], "num_dispatchers": ["self"], "output_is_reduced": ["self"], "supports_async": ["self"]}


class FusedMoEActivationFormat(enum.Enum):
    Standard = ("standard",)
    BatchedExperts = ("batched_experts",)


@dataclasses.dataclass
class ExpertTokensMetadata:
    expert_num_tokens: Any
    expert_num_tokens_cpu: Any


class FusedMoEPrepareAndFinalizeModular(abc.ABC):
    @property
    @abc.abstractmethod
    def activation_format(self): ...


for name in ("prepare", "finalize", "topk_indices_dtype", "max_num_tokens_per_rank", "num_dispatchers", "output_is_reduced"):
    setattr(FusedMoEPrepareAndFinalizeModular, name, abc.abstractmethod(lambda self: None))
abc.update_abstractmethods(FusedMoEPrepareAndFinalizeModular)


class TopKWeightAndReduceDelegate:
    """Experts whose output nobody has weighted or added up."""


class TopKWeightAndReduceNoOP:
    """Experts that have done both."""


class DispatchOutputFormat(enum.Enum):
    DEEPEP_NORMAL = "deepep_normal"
    DEEPEP_LL = "deepep_ll"


class DeepEPNormalDispatchOutput(NamedTuple):
    hidden_states: Any
    hidden_states_scale: Any
    topk_ids: Any
    topk_weights: Any
    num_recv_tokens_per_expert: List[int]
    format = DispatchOutputFormat.DEEPEP_NORMAL


class DeepEPLLDispatchOutput(NamedTuple):
    hidden_states: Any
    hidden_states_scale: Any
    topk_ids: Any
    topk_weights: Any
    masked_m: Any
    expected_m: int
    format = DispatchOutputFormat.DEEPEP_LL


class DeepEPNormalCombineInput(NamedTuple):
    hidden_states: Any
    topk_ids: Any
    topk_weights: Any


class DeepEPLLCombineInput(DeepEPNormalCombineInput):
    pass


class StandardTopKOutput(NamedTuple):
    topk_weights: Any
    topk_ids: Any
    router_logits: Any


class BaseDispatcher(abc.ABC):
    def __init__(self):
        self.quant_config: dict = {}

    @abc.abstractmethod
    def dispatch(self, hidden_states, topk_output): ...

    @abc.abstractmethod
    def combine(self, combine_input): ...

    def set_quant_config(self, quant_config: dict) -> None:
        self.quant_config = quant_config


class quantised(NamedTuple):
    """What adapters read of vLLM's FusedMoEQuantConfig."""

    quant_dtype: Any = None
    block_shape: Optional[list] = None
    per_act_token_quant: bool = False
    a1_scale: Any = None
    a1_gscale: Any = None


def module(name, **has):
    made = types.ModuleType(name)
    made.__dict__.update(has)
    return made


def stand_in_for_vllm(monkeypatch, micro_batch=lambda: 0):
    mine = sys.modules[__name__]
    names = ("FusedMoEActivationFormat", "ExpertTokensMetadata", "FusedMoEPrepareAndFinalizeModular")
    monkeypatch.setitem(sys.modules, VLLM, module(VLLM, **{name: getattr(mine, name) for name in names}))
    monkeypatch.setitem(sys.modules, "vllm.v1.worker.ubatching", module("ubatching", dbo_current_ubatch_id=micro_batch))


def stand_in_for_sglang(monkeypatch):
    mine = sys.modules[__name__]
    names = ("DeepEPNormalDispatchOutput", "DeepEPLLDispatchOutput", "DeepEPNormalCombineInput", "DeepEPLLCombineInput")
    monkeypatch.setitem(sys.modules, f"{SGLANG}.deepep", module("deepep", **{name: getattr(mine, name) for name in names}))
    monkeypatch.setitem(sys.modules, f"{SGLANG}.base", module("base", BaseDispatcher=BaseDispatcher))


def parameters(function):
    return list(inspect.signature(function).parameters)
