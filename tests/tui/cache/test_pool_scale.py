"""Steps of the map's scale, and what a dense cell shows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chatkv.insight.nodes import BlockState
from chatkv.tui.cache.pool_scale import Scale, gather


def steps(scale: Scale, by: int) -> list[int]:
    """Blocks a cell, step by step until nothing changes."""
    seen = [scale.per_cell]
    while True:
        scale.chosen = scale.nearer(by)
        if scale.per_cell == seen[-1]:
            return seen
        seen.append(scale.per_cell)


@given(st.integers(1, 3000), st.none() | st.integers(1, 4000))
def test_zoom_goes_step_by_step_from_all_to_each_and_back(fit: int, chosen: int | None) -> None:
    scale = Scale(fit, chosen)
    assert 1 <= scale.per_cell <= fit
    seen = steps(scale, -1)
    assert scale.per_cell == fit
    assert seen == sorted(set(seen))
    out = steps(scale, 1)
    assert out == scale.levels[::-1]
    assert out[-1] == 1
    assert all(before <= 2 * after for before, after in pairwise(out))


@given(st.lists(st.integers(0, len(BlockState) - 1), max_size=80), st.integers(1, 12), st.integers(0, 79))
def test_a_cell_shows_the_state_most_of_its_taken_blocks_are_in(
    states: list[int], per_cell: int, mine: int
) -> None:
    marks = np.zeros(len(states), np.bool_)
    marks[mine : mine + 1] = True
    cells = gather(np.array(states, np.uint8), marks, per_cell)
    assert [len(part) for part in cells] == [-(-len(states) // per_cell)] * 3
    for at, (state, marked, sparse) in enumerate(zip(*(part.tolist() for part in cells), strict=True)):
        among = states[at * per_cell : (at + 1) * per_cell]
        taken = [each for each in among if each != BlockState.FREE]
        if taken:
            assert taken.count(state) == max(map(taken.count, taken))
        else:
            assert state == BlockState.FREE
        assert sparse == (0 < len(taken) < among.count(BlockState.FREE))
        assert marked == (at * per_cell <= mine < min(len(states), (at + 1) * per_cell))
