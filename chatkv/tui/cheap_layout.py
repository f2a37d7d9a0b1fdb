"""Layouts of the whole screen that Textual makes although nothing can move by them, left out."""

from __future__ import annotations

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.widget import Widget


def set_extent(view: ScrollView, extent: Size, redraw: bool = True) -> None:
    """What ``view`` scrolls through is so large now. Its own size must not depend on that.

    Not to ``redraw`` is for who looks which of its lines are others.
    """
    if extent == view.virtual_size:
        return
    # Assigning it lays out everything; only the scrollbars follow from it, and they ask for that themselves.
    view.set_reactive(Widget.virtual_size, extent)
    if view.size and view.is_attached:
        view._scroll_update(extent)
        if redraw:
            view.refresh()


_size_updated = Widget._size_updated


def lay_out_once() -> None:
    """From now on a layout that gives widgets another size is not followed by a second one.

    Textual makes it for the sake of scrollbars, which ask for it themselves when they come or go.
    """
    Widget._size_updated = _without_layout  # type: ignore[method-assign]


def _without_layout(
    self: Widget, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
) -> bool:
    return _size_updated(self, size, virtual_size, container_size, layout=False)
