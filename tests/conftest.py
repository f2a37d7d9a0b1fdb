from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from chatkv.model.catalog import resolve

if TYPE_CHECKING:
    from tests.attention.flashinfer_fakes import RealFlashInfer


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The real default model, fetched and converted once into the user's cache."""
    return resolve("smollm2-135m", lambda stage, fraction: None)


@pytest.fixture(scope="session")
def flashinfer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The installed library, which compiles nothing; skips where it isn't installed."""
    from chatkv.attention.flashinfer import probe

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path_factory.mktemp("flashinfer")))
        # On a machine with nvcc a call with CPU tensors would start a build.
        patch.setenv("FLASHINFER_DISABLE_JIT", "1")
        try:
            library = probe.load()
        except probe.FlashInferError as error:
            pytest.skip(f"FlashInfer: {error}")
        yield library


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """``chatkv run`` sends the log to a file: not that of the tests behind it."""
    log = logging.getLogger("chatkv")
    handlers, propagate = log.handlers[:], log.propagate
    yield
    log.handlers[:], log.propagate = handlers, propagate


@pytest.fixture
def real(flashinfer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> RealFlashInfer:
    """Its own wrapper classes on the CPU: only the compiled modules and pinned memory are replaced."""
    import torch

    from tests.attention.flashinfer_fakes import CompiledModules, RealFlashInfer

    modules = CompiledModules()
    monkeypatch.setattr("flashinfer.prefill.get_batch_prefill_module", modules.prefill)
    monkeypatch.setattr("flashinfer.decode.get_batch_prefill_module", modules.prefill)
    monkeypatch.setattr("flashinfer.decode.get_batch_decode_module", modules.decode)
    empty = torch.empty

    def unpinned(*args: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        return empty(*args, **options)

    monkeypatch.setattr(torch, "empty", unpinned)
    return RealFlashInfer(flashinfer, modules)
