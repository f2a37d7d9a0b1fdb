from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import transformers

from chatkv.engine import loading
from chatkv.engine.config import EngineConfig
from chatkv.model.decoder import Decoder
from tests.engine.rig import NumberCodec, load
from tests.model.tiny import save


class Tiny(NamedTuple):
    folder: Path
    reference: transformers.PreTrainedModel
    decoder: Decoder


def tiny(name: str, folder: Path, attention: str = "auto") -> Tiny:
    reference = save(name, folder)
    return Tiny(folder, reference, load(folder, attention))


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return tiny("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny folders have no tokenizer: numbers are their text."""
    monkeypatch.setattr(loading.Codec, "load", lambda folder: NumberCodec())
    monkeypatch.setattr(loading, "resolve", lambda model, progress: Path(model))


@pytest.fixture
def config(tiny_llama: Tiny) -> EngineConfig:
    return EngineConfig(model=str(tiny_llama.folder), num_blocks=64, block_size=4, dtype="fp32")
