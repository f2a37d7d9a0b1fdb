from __future__ import annotations

import pytest

from tests.insight.streams import Stream


@pytest.fixture
def stream() -> Stream:
    return Stream()
