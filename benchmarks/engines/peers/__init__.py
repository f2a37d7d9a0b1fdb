"""Engines that ``python -m benchmarks engines`` measures, each in a process of its own."""
