"""Layouts of the whole screen that Textual makes although nothing can move by them, left out."""

from __future__ import annotations

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.widget import Widget


def set_extent(view: ScrollView, extent: Size) -> None:
    """What ``view`` scrolls through is so large now. Its own size must not depend on that."""
    if extent == view.virtual_size:
        return
    # Assigning it lays out everything; only the scrollbars follow from it, and they ask for that themselves.
    view.set_reactive(Widget.virtual_size, extent)
    if view.size and view.is_attached:
        view._scroll_update(extent)
        view.refresh()


class LaidOutOnce:
    """Mixed into what grows with the text in it: a layout that gives it another size is not done twice.

    Textual does so for the sake of scrollbars, which ask for it themselves when they come or go. It is no
    widget itself: a widget takes its style sheet from the first base that is one.
    """

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        updated: bool = super()._size_updated(  # type: ignore[misc]
            size, virtual_size, container_size, layout=False
        )
        return updated
