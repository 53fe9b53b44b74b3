"""Adapters for engines: `baton.engines.vllm` for vLLM's modular fused-MoE, `baton.engines.sglang` for SGLang's dispatchers. Both need PyTorch;
neither imports its engine before an adapter is made. Which versions they are written against, and what was run: docs/engines.md.
"""
