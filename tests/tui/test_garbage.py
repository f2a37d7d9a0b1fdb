"""Full collections come in spare moments."""

import gc
from collections.abc import Iterator

import pytest

from chatkv.tui.garbage import QUIET_S, WORTH, Garbage


class Process:
    """Its clock, and what its collector counts."""

    def __init__(self) -> None:
        self.now = 0.0
        self.middle = 0
        self.collected = 0

    def collect(self) -> None:
        self.collected += 1
        self.middle = 0


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def garbage(process: Process) -> Iterator[Garbage]:
    garbage = Garbage(lambda: process.now, lambda: (0, 0, process.middle), process.collect)
    yield garbage
    garbage.close()


def test_collects_once_when_nobody_waits(process: Process, garbage: Garbage) -> None:
    process.middle = WORTH
    assert not garbage.look(), "the start is no spare moment"
    process.now += QUIET_S
    assert garbage.look()
    assert not garbage.look(), "there is nothing new"
    assert process.collected == 1


def test_does_not_collect_for_little(process: Process, garbage: Garbage) -> None:
    process.now, process.middle = 100.0, WORTH - 1
    assert not garbage.look()


def test_waits_while_somebody_waits(process: Process, garbage: Garbage) -> None:
    process.middle = WORTH
    for _ in range(10):
        process.now += QUIET_S - 0.1
        garbage.active()
        assert not garbage.look()
    process.now += QUIET_S
    assert garbage.look()


def test_a_full_collection_does_not_come_by_itself_soon_and_all_is_as_before_afterwards() -> None:
    before = gc.get_threshold()
    garbage = Garbage()
    assert gc.get_threshold()[:2] == before[:2]
    assert gc.get_threshold()[2] > before[2]
    garbage.close()
    assert gc.get_threshold() == before
