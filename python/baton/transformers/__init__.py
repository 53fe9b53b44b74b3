"""Hugging Face's models with their experts spread over ranks: those whose experts are gate_up_proj and down_proj of [experts, ...], as
Qwen3-MoE, Mixtral and DeepSeek-V3 have them from version 5 of transformers on."""
from ._load import from_pretrained
from ._replace import parallelize

__all__ = ["from_pretrained", "parallelize"]
