from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.model.catalog import resolve


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The real default model, fetched and converted once into the user's cache."""
    return resolve("smollm2-135m", lambda stage, fraction: None)
