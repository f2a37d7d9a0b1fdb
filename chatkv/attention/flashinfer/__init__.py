"""Attention on NVIDIA GPUs by FlashInfer (arXiv 2501.01005)."""
