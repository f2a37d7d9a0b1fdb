"""How long a device computes, by its own clock, and what of that is attention."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import torch

ROUNDS = 16

logger = logging.getLogger(__name__)


def wait(device: torch.device) -> None:
    """Until ``device`` has done what was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_seconds(call: Callable[[], object], device: torch.device, rounds: int = ROUNDS) -> float:
    """Seconds that ``call`` keeps ``device`` busy, one call right behind another.

    On a GPU by its own events: what the host needs to ask for it is not in it, unless that takes longer.
    """
    call()
    wait(device)
    if device.type != "cuda":
        begun = time.perf_counter()
        for _ in range(rounds):
            call()
        return (time.perf_counter() - begun) / rounds
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    first.record()
    for _ in range(rounds):
        call()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 1000 / rounds


def kernel_seconds(
    call: Callable[[], object], device: torch.device, rounds: int = ROUNDS
) -> dict[str, float]:
    """Seconds of each kernel of ``call`` by its name, those that are replayed in a graph among them.

    Empty on a CPU, and where the driver lets nobody trace (it is in the log then).
    """
    if device.type != "cuda":
        return {}
    from torch.autograd import DeviceType  # type: ignore[attr-defined]
    from torch.profiler import ProfilerActivity, profile

    seconds: dict[str, float] = defaultdict(float)
    try:
        wait(device)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as traced:
            for _ in range(rounds):
                call()
            wait(device)
        for event in traced.events():
            if event.device_type == DeviceType.CUDA:
                seconds[event.name] += event.time_range.elapsed_us() / 1e6 / rounds
    except RuntimeError:
        logger.exception("kernels could not be traced")
    return dict(seconds)


def attention_seconds(kernels: Mapping[str, float]) -> float | None:
    """What of them is FlashInfer's, which computes nothing but attention here; None where there is none."""
    own = [seconds for name, seconds in kernels.items() if "flashinfer" in name.lower()]
    return sum(own) if own else None
