"""A widget's styles, found once until the stylesheet gives it others."""

from __future__ import annotations

from rich.style import Style
from textual.widget import Widget


class KeptStyles(Widget):
    """Textual looks for them anew after each refresh, through all ancestors: longer than a row takes to draw.

    For widgets whose ancestors' backgrounds change with the theme alone. Not the first base of a class.
    """

    _kept: dict[tuple[str, bool], Style] | None = None

    def style_of(self, component: str = "", partial: bool = False) -> Style:
        """That of a component class, or the widget's own; ``partial``: without what lies under it."""
        if self._kept is None:
            self._kept = {}
        style = self._kept.get((component, partial))
        if style is None:
            if component:
                style = self.get_component_rich_style(component, partial=partial)
            else:
                style = self.rich_style
            self._kept[component, partial] = style
        return style

    def notify_style_update(self) -> None:
        """Other colours."""
        self._kept = None
        super().notify_style_update()
