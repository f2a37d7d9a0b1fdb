"""Reverse video in lists, which Textual's style sheets ask for and its 8.2 drops.

Where nothing may be painted (the terminal's own colours, ``NO_COLOR``) it is all that shows a list's cursor.
"""

from __future__ import annotations

from textual.style import Style
from textual.widget import Widget

_REVERSE = Style(reverse=True)
_get_visual_style = Widget.get_visual_style


def keep_reverse() -> None:
    """From now on ``text-style: reverse`` of a component class reaches the screen."""
    Widget.get_visual_style = _with_reverse  # type: ignore[method-assign]


def _with_reverse(self: Widget, *component_classes: str, partial: bool = False) -> Style:
    style = _get_visual_style(self, *component_classes, partial=partial)
    if component_classes and style.reverse is None:
        last = self.get_component_styles(component_classes[-1])
        if last.text_style.reverse:
            return style + _REVERSE
    return style
