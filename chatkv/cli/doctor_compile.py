"""``chatkv doctor --compile``: FlashInfer's kernels for a model, before a chat waits for them."""

from __future__ import annotations

import time

import typer

from chatkv.errors import ChatkvError


def compile_kernels(model: str, device: str) -> None:
    """Compile and try them, with a line of what is going on; raises ChatkvError with the reason."""
    import torch

    from chatkv.attention.flashinfer import probe
    from chatkv.attention.flashinfer.probe import FlashInferError
    from chatkv.attention.flashinfer.rules import Heads, Limits
    from chatkv.cli.doctor_tools import tools
    from chatkv.cli.output import progress_bar
    from chatkv.engine.devices import pick
    from chatkv.model.catalog import resolve
    from chatkv.model.config import DecoderConfig
    from chatkv.model.dtype import dtype_name, parse_dtype

    place = pick(device, [])
    if place.capability is None:
        raise ChatkvError("--compile needs an NVIDIA GPU, and this is the CPU: nothing is compiled for it")
    dtype = parse_dtype("auto", place.capability)
    begun = time.perf_counter()
    with progress_bar() as advance:
        folder = resolve(model, lambda stage, fraction: advance(stage, 0, 0))
        config = DecoderConfig.load(folder)
        heads = Heads(config.num_heads, config.num_kv_heads, config.head_dim, dtype)
        what = f"head_dim {heads.head_dim} in {dtype_name(dtype)}"
        advance(f"compiling FlashInfer's kernels for {what}; the first time takes minutes", 0, 0)
        try:
            probe.start(heads, place.device, place.capability, Limits())
            if place.device.type == "cuda":
                torch.cuda.synchronize(place.device)
        except (FlashInferError, RuntimeError) as error:
            used = tools(torch.version.cuda, place.capability)
            missing = "; ".join(f"{tool.name} {tool.said}" for tool in used if not tool.found)
            said = str(error).strip().partition("\n")[0]
            raise ChatkvError(
                f"FlashInfer can't be had: {said}" + (f" ({missing})" if missing else "")
            ) from None
    typer.echo(f"kernels for {what} are there and right ({time.perf_counter() - begun:.1f} s)")
