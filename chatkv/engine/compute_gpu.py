"""What a GPU computes with: FlashInfer's attention where it can be had, else torch's, and why."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from chatkv.attention.base import AttentionBackend
from chatkv.attention.flashinfer import probe
from chatkv.attention.flashinfer.probe import FlashInferError
from chatkv.attention.flashinfer.rules import Heads, Limits, arch
from chatkv.attention.torch_backend import TorchBackend
from chatkv.engine.config import EngineError
from chatkv.engine.devices import Place
from chatkv.model.checkpoint import DecoderWeights
from chatkv.model.config import DecoderConfig
from chatkv.model.decoder import Decoder
from chatkv.model.dtype import PACKED, parse_dtype
from chatkv.model.store import Progress

logger = logging.getLogger(__name__)


def build_on_gpu(
    load: Callable[[torch.dtype, str], DecoderWeights],
    config: DecoderConfig,
    dtype: str,
    attention: str,
    place: Place,
    limits: Limits,
    progress: Progress,
    notes: list[str],
) -> tuple[Decoder, AttentionBackend]:
    """The decoder of ``config`` and its attention on ``place``; appends to ``notes`` what was taken and why.

    Raises what ``load`` raises, and EngineError where something named can't be had.
    """
    if dtype in PACKED:
        raise EngineError(f"--dtype {dtype} is for CPUs, and this is {place.device}: use --dtype bf16")
    compute_dtype = parse_dtype(dtype, place.capability)
    # Before the weights: what can't be had is said without a wait.
    backend = _attention(config, compute_dtype, attention, place, limits, progress, notes)
    progress("loading weights", None)
    with torch.inference_mode():
        weights = load(compute_dtype, str(place.device))
    return Decoder(config, weights), backend


def _attention(
    config: DecoderConfig,
    dtype: torch.dtype,
    attention: str,
    place: Place,
    limits: Limits,
    progress: Progress,
    notes: list[str],
) -> AttentionBackend:
    if attention == "native":
        raise EngineError(
            f"--attention native is for CPUs, and this is {place.device}: use auto, or --device cpu"
        )
    if attention == "torch":
        return TorchBackend(place.device)
    assert place.capability is not None
    heads = Heads(config.num_heads, config.num_kv_heads, config.head_dim, dtype)
    progress("starting FlashInfer (the first time it compiles for minutes)", None)
    try:
        if torch.version.hip is not None:
            raise FlashInferError("this torch is built for ROCm, and it needs CUDA")
        backend = probe.start(heads, place.device, place.capability, limits)
    except FlashInferError as error:
        _check_alive(place.device, error)
        if attention == "flashinfer":
            raise EngineError(
                f"--attention flashinfer can't be had: {error}; use --attention torch"
            ) from None
        notes.append(f"attention by torch, because FlashInfer can't be had: {error}")
        return TorchBackend(place.device)
    version = probe.version()
    notes.append(
        f"attention by FlashInfer {version}: {place.name} ({arch(place.capability)}) passed its trial"
    )
    return backend


def _check_alive(device: torch.device, cause: FlashInferError) -> None:
    """A kernel that reads where it must not takes the process's whole use of the GPU with it."""
    if device.type != "cuda":
        return
    try:
        torch.cuda.synchronize(device)
    except RuntimeError:
        logger.exception("%s is unusable after FlashInfer's trial", device)
        raise EngineError(f"FlashInfer's trial broke {device} ({cause}): use --attention torch") from None
