"""Streaming GRPO trainer, weight registry and inference worker of ATDP."""
