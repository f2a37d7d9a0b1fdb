"""The arithmetic of panes: whatever is hidden, at any size, the area is covered, and nothing twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.geometry import Region, Size

from chatkv.tui.layout import BODY, CACHE_PANES, COLUMN, Arrangement
from chatkv.tui.split import LEAST, Part, Plan, Split, Weights, arranged, at_least, need_of, panes_of, shared

LAYOUTS: tuple[Sequence[Part], ...] = (
    [BODY[Arrangement.TWO]],
    [BODY[Arrangement.THREE]],
    COLUMN[Arrangement.TWO],
    COLUMN[Arrangement.THREE],
)


def keys(part: Part) -> list[tuple[str, str]]:
    """(split, part) of all in it."""
    if not isinstance(part, Split):
        return []
    return [(part.key, one.key) for one in part.parts] + [pair for one in part.parts for pair in keys(one)]


def first(panes: Sequence[str]) -> str:
    return panes[0]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Sequence[Part], Size, set[str], Weights]:
    choices = draw(st.sampled_from(LAYOUTS))
    panes = sorted({pane for part in choices for pane in panes_of(part)})
    pairs = sorted({pair for part in choices for pair in keys(part)})
    size = Size(draw(st.integers(1, 320)), draw(st.integers(1, 120)))
    weights: dict[str, dict[str, float]] = {}
    for split, part in draw(st.lists(st.sampled_from(pairs))):
        weights.setdefault(split, {})[part] = draw(st.floats(1e-4, 1.0))
    return choices, size, draw(st.sets(st.sampled_from(panes))), weights


def covers(plan: Plan, size: Size) -> bool:
    """Each cell belongs to exactly one pane."""
    owners = [region for region in plan.regions.values() if region.area]
    return sum(region.area for region in owners) == size.area and not any(
        a.overlaps(b) for i, a in enumerate(owners) for b in owners[:i]
    )


@settings(deadline=None, max_examples=300)
@given(cases())
def test_the_area_is_covered_once(case: tuple[Sequence[Part], Size, set[str], Weights]) -> None:
    choices, size, hidden, weights = case
    plan = arranged(choices, size, hidden, weights, first)
    shown = {pane for part in choices for pane in panes_of(part)} - hidden
    if not shown:
        assert plan == Plan()
        return
    assert covers(plan, size)
    assert {pane for panes in plan.stacks.values() for pane in panes} == shown
    assert set(plan.regions) <= shown
    for line in plan.lines:
        assert line.region in size.region
        lengths = plan.lengths[line.split]
        assert {line.before, line.after} <= set(lengths)
    if need_of(choices[0], least=True).width <= size.width and need_of(choices[0]).height <= size.height:
        assert all(r.width >= LEAST.width and r.height >= LEAST.height for r in plan.regions.values())


@given(st.integers(0, 500), st.lists(st.floats(0, 1e6), min_size=1, max_size=9))
def test_shares_are_whole_and_complete(length: int, weights: list[float]) -> None:
    cells = shared(length, weights)
    assert sum(cells) == length
    assert min(cells) >= 0


@given(st.integers(0, 500), st.lists(st.tuples(st.floats(1e-6, 1e6), st.integers(1, 30)), min_size=1))
def test_nobody_gets_less_than_the_least(length: int, parts: list[tuple[float, int]]) -> None:
    least = [few for _, few in parts]
    cells = at_least(length, [weight for weight, _ in parts], least)
    assert sum(cells) == length
    if length >= sum(least):
        assert all(got >= few for got, few in zip(cells, least, strict=True))


@pytest.mark.parametrize(
    ("height", "places"),
    [(27, ["tree", "blocks", "metrics"]), (18, ["tree", "blocks"]), (10, ["tree"])],
)
def test_a_low_column_has_fewer_places_and_the_same_panes(height: int, places: list[str]) -> None:
    plan = arranged(COLUMN[Arrangement.TWO], Size(60, height), (), {}, first)
    assert list(plan.regions) == places
    assert {pane for panes in plan.stacks.values() for pane in panes} == set(CACHE_PANES)


def test_proportions_stay_when_the_terminal_changes() -> None:
    weights = {"column": {"tree": 0.5, "middle": 0.25, "lower": 0.25}}
    for height in (40, 80):
        plan = arranged(COLUMN[Arrangement.TWO], Size(60, height), (), weights, first)
        assert plan.lengths["column"] == {"tree": height // 2, "middle": height // 4, "lower": height // 4}


def test_a_hidden_panes_room_goes_to_its_neighbours() -> None:
    plan = arranged([BODY[Arrangement.TWO]], Size(120, 30), {"sessions", "cache"}, {}, first)
    assert plan.regions == {"chat": Region(0, 0, 120, 30)}
