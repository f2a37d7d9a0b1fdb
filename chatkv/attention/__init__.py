"""Paged attention behind one interface: torch anywhere, compiled kernels on CPUs, FlashInfer on GPUs."""
