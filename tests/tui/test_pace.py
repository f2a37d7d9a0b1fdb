"""Drawing takes its share of the time and no more, but never stops."""

from __future__ import annotations

import itertools

import pytest

from chatkv.tui.pace import Pace


@pytest.mark.parametrize(
    ("cost", "frames"),
    [(0.0, 120), (0.003, 120), (0.006, 60), (0.1, 40)],
    ids=["nothing", "little", "more than its share", "far more"],
)
def test_frames_in_ten_seconds(cost: float, frames: int) -> None:
    now = spent = 0.0
    pace = Pace(0.05, 0.25, lambda: now, lambda: spent)
    drawn = []
    for tick in range(120):
        now = (tick + 1) / 12
        if pace.due():
            drawn.append(now)
            spent += cost
    assert len(drawn) == pytest.approx(frames, abs=6)
    assert max(b - a for a, b in itertools.pairwise(drawn)) < 0.25 + 1.5 / 12


def test_an_expensive_moment_is_soon_forgotten() -> None:
    now = spent = 0.0
    pace = Pace(0.05, 0.25, lambda: now, lambda: spent)
    spent = 5.0
    late = 0
    for tick in range(60):
        now = (tick + 1) / 12
        late += not pace.due()
    assert 10 < late < 26
    now, spent = 100.0, 5.001
    assert pace.due()
