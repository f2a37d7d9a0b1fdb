"""Text in terminal cells: cut and padded so that columns stay where they are.

A wide character takes two cells, a combining one none. What terminals disagree about (joiners,
variation selectors, direction controls) is taken out, because a row that one terminal draws a
cell wider than we counted shifts everything behind it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from rich._wrap import divide_line
from rich.cells import cell_len, set_cell_size

_UNSTEADY = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U0001f3fb-\U0001f3ff\U000e0000-\U000e01ef\ud800-\udfff]"
)
_BARS = "▁▂▃▄▅▆▇█"


def steady(text: str) -> str:
    """``text`` in one line, without what has no width of its own or a doubtful one."""
    return _UNSTEADY.sub("", text)


def clip(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells; a cut one ends in ``…``."""
    text = steady(text)
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…" if width > 0 else ""


def pad(text: str, width: int) -> str:
    """``text`` in exactly ``width`` cells."""
    text = clip(text, width)
    return text + " " * (width - cell_len(text))


def wrapped(text: str, width: int) -> list[str]:
    """``text`` on as many lines of ``width`` cells as it takes, broken between words; at least one."""
    text = steady(text)
    cuts = [0, *divide_line(text, width), len(text)]
    return [text[start:end].strip() for start, end in itertools.pairwise(cuts)]


def sparkline(values: Iterable[float], width: int, top: float | None = None) -> str:
    """The last ``width`` values as bars; ``top`` is a full bar's value (the largest one by default)."""
    shown = list(values)[-width:] if width > 0 else []
    top = max(shown, default=0.0) if top is None else top
    if top <= 0:
        return _BARS[0] * len(shown)
    last = len(_BARS) - 1
    return "".join(_BARS[round(min(1.0, max(0.0, v / top)) * last)] for v in shown)


def folded(parts: Iterable[tuple[str, str]], width: int) -> list[str]:
    """``(separator before it, text)`` parts in lines of at most ``width`` cells; they end between parts."""
    lines: list[str] = []
    for separator, text in parts:
        if lines and cell_len(lines[-1]) + cell_len(separator) + cell_len(text) <= width:
            lines[-1] += separator + text
        else:
            lines.append(text)
    return lines


def join_that_fit(parts: Sequence[tuple[str, int]], separator: str, width: int) -> str:
    """Join the ``(text, importance)`` parts in order; the least important go until ``width`` cells hold them.

    The most important part stays, cut if need be.
    """
    kept = list(parts)
    while len(kept) > 1 and cell_len(separator.join(text for text, _ in kept)) > width:
        kept.remove(min(reversed(kept), key=lambda part: part[1]))
    return clip(separator.join(text for text, _ in kept), width)
