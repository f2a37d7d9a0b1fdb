"""Divides an area among panes: arithmetic without widgets. ``arranged`` is what the rest is for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from textual.geometry import Region, Size

Weights = Mapping[str, Mapping[str, float]]
"""Split → part → its share, where a person has moved a line; what is missing has its size by default."""

LEAST = Size(16, 3)
"""A pane is never made smaller by hand: its border and a line."""


@dataclass(frozen=True)
class Stack:
    """Panes that share one place: the one in front is seen, the others are tabs on its border."""

    key: str
    panes: tuple[str, ...]
    need: Size = LEAST
    """Under this an arrangement with fewer places is the better one."""
    want: int = 0
    """Cells along the split it stands in."""
    grow: int = 0
    """Its share of what all wants leave."""


@dataclass(frozen=True)
class Split:
    """Parts side by side, or one under the other."""

    key: str
    down: bool
    parts: tuple[Part, ...]
    want: int = 0
    grow: int = 0


Part = Stack | Split


class Line(NamedTuple):
    """The border between two neighbours; it can be moved. ``region`` has the border cells of both."""

    split: str
    down: bool
    """True: the parts are above each other, and the line moves up and down."""
    before: str
    after: str
    at: int
    """Where the second one begins."""
    region: Region
    panes_before: tuple[str, ...]
    panes_after: tuple[str, ...]


@dataclass
class Plan:
    """Where everything is. All is relative to the area that was divided."""

    regions: dict[str, Region] = field(default_factory=dict)
    """Of the panes that are seen, in the order they are read."""
    lines: list[Line] = field(default_factory=list)
    """Those inside others come later."""
    stacks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Stack → all of its panes, those behind too."""
    lengths: dict[str, dict[str, int]] = field(default_factory=dict)
    """Split → part → cells."""

    def stack_of(self, pane: str) -> tuple[str, ...]:
        """The panes that share its place, itself among them; nothing where it has none."""
        return next((panes for panes in self.stacks.values() if pane in panes), ())


def without(part: Part, hidden: Collection[str]) -> Part | None:
    """What is left of it without the panes that are hidden."""
    if isinstance(part, Stack):
        panes = tuple(pane for pane in part.panes if pane not in hidden)
        return replace(part, panes=panes) if panes else None
    parts = tuple(left for one in part.parts if (left := without(one, hidden)) is not None)
    return replace(part, parts=parts) if parts else None


def need_of(part: Part, least: bool = False) -> Size:
    """Under this its panes are too small to be read (``least``: to be seen at all)."""
    if isinstance(part, Stack):
        return LEAST if least else part.need
    sizes = [need_of(one, least) for one in part.parts]
    widths, heights = [size.width for size in sizes], [size.height for size in sizes]
    return Size(max(widths), sum(heights)) if part.down else Size(sum(widths), max(heights))


def panes_of(part: Part) -> tuple[str, ...]:
    """All of them, in order."""
    if isinstance(part, Stack):
        return part.panes
    return tuple(pane for one in part.parts for pane in panes_of(one))


def arranged(
    choices: Sequence[Part],
    size: Size,
    hidden: Collection[str],
    weights: Weights,
    front: Callable[[Sequence[str]], str],
) -> Plan:
    """The first of ``choices`` that ``size`` has room for, else the last, divided.

    ``front`` says which of several panes in one place is seen.
    """
    left = [part for choice in choices if (part := without(choice, hidden)) is not None]
    plan = Plan()
    if left and size.area > 0:
        chosen = next((part for part in left if _fits(part, size)), left[-1])
        _place(chosen, size.region, weights, front, plan)
    return plan


def _fits(part: Part, size: Size) -> bool:
    need = need_of(part)
    return need.width <= size.width and need.height <= size.height


def _place(
    part: Part, region: Region, weights: Weights, front: Callable[[Sequence[str]], str], plan: Plan
) -> None:
    if isinstance(part, Stack):
        plan.stacks[part.key] = part.panes
        plan.regions[front(part.panes)] = region
        return
    lengths = _divide(part, region.height if part.down else region.width, weights.get(part.key, {}))
    plan.lengths[part.key] = {one.key: length for one, length in zip(part.parts, lengths, strict=True)}
    at = region.y if part.down else region.x
    places: list[Region] = []
    for one, length, before in zip(part.parts, lengths, (None, *part.parts), strict=False):
        if before is not None and length and plan.lengths[part.key][before.key]:
            strip = (
                Region(region.x, at - 1, region.width, 2)
                if part.down
                else Region(at - 1, region.y, 2, region.height)
            )
            plan.lines.append(
                Line(part.key, part.down, before.key, one.key, at, strip, panes_of(before), panes_of(one))
            )
        places.append(
            Region(region.x, at, region.width, length)
            if part.down
            else Region(at, region.y, length, region.height)
        )
        at += length
    for one, place in zip(part.parts, places, strict=True):
        _place(one, place, weights, front, plan)


def _divide(split: Split, length: int, weights: Mapping[str, float]) -> list[int]:
    """Cells for each part; together ``length``."""

    def along(size: Size) -> int:
        return size.height if split.down else size.width

    least = [along(need_of(one, least=True)) for one in split.parts]
    need = [max(few, along(need_of(one))) for one, few in zip(split.parts, least, strict=True)]
    want = [max(enough, one.want) for one, enough in zip(split.parts, need, strict=True)]
    usual = _by_default(length, want, [one.grow for one in split.parts], need, least)
    if not any(one.key in weights for one in split.parts):
        return usual
    shares = [weights.get(one.key, cells / length) for one, cells in zip(split.parts, usual, strict=True)]
    return at_least(length, shares, least)


def _by_default(
    length: int, want: list[int], grow: list[int], need: list[int], least: list[int]
) -> list[int]:
    if length >= sum(want):
        if not any(grow):
            return at_least(length, want, want)
        fixed = sum(cells for cells, share in zip(want, grow, strict=True) if not share)
        floors = [cells for cells, share in zip(want, grow, strict=True) if share]
        grown = iter(at_least(length - fixed, [share for share in grow if share], floors))
        return [next(grown) if share else cells for cells, share in zip(want, grow, strict=True)]
    for low, high in ((need, want), (least, need)):
        if length >= sum(low):
            rest = shared(length - sum(low), [b - a for a, b in zip(low, high, strict=True)])
            return [cells + more for cells, more in zip(low, rest, strict=True)]
    return shared(length, least)


def shared(length: int, weights: Sequence[float]) -> list[int]:
    """``length`` in whole cells, in proportion to ``weights``; together exactly ``length``."""
    total = sum(weights)
    out, done, so_far = [], 0, 0.0
    for at, weight in enumerate(weights, 1):
        so_far += weight
        end = length if at == len(weights) else round(length * so_far / total) if total > 0 else 0
        out.append(end - done)
        done = end
    return out


def at_least(length: int, weights: Sequence[float], least: Sequence[int]) -> list[int]:
    """In proportion to ``weights``, none under its ``least`` where there is room for all of them."""
    if length < sum(least):
        return shared(length, least)
    held: set[int] = set()
    while True:
        free = [i for i in range(len(weights)) if i not in held]
        room = length - sum(least[i] for i in held)
        cells = dict(zip(free, shared(room, [weights[i] for i in free]), strict=True))
        short = {i for i in free if cells[i] < least[i]}
        if not short:
            return [cells.get(i, least[i]) for i in range(len(weights))]
        held |= short
