from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import transformers

from chatkv.model.decoder import Decoder
from tests.engine.rig import load
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
