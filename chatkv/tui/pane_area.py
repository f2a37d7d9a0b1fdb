"""A container that puts its children where a plan says; those the plan leaves out are not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.containers import Container
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.message import Message
from textual.widget import Widget

from chatkv.tui.split import Plan

Planner = Callable[[Size], Plan]


class PlanLayout(Layout):
    """Asks ``place`` for the regions of the children, by id."""

    name = "plan"

    def __init__(self, place: Callable[[Size], Mapping[str, Region]]) -> None:
        self._place = place

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> ArrangeResult:
        """One placement for each child that has a region."""
        parent.pre_layout(self)
        regions = self._place(size)
        return [
            WidgetPlacement(region, NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if (region := regions.get(child.id or "")) is not None
        ]


class PaneArea(Container):
    """``planner`` is asked at every new size, and after ``again``."""

    class Rearranged(Message):
        """Other panes are seen than before, or they are elsewhere."""

    def __init__(self, *children: Widget, planner: Planner, id: str | None = None) -> None:
        super().__init__(*children, id=id)
        self.planner = planner
        self.plan = Plan()
        self._plan_layout = PlanLayout(self.place)

    @property
    def layout(self) -> Layout:
        """Not by style: no style sheet knows the plan."""
        return self._plan_layout

    def place(self, size: Size) -> Mapping[str, Region]:
        """Child id → where it is, in an area of ``size``."""
        plan = self.planner(size)
        if plan != self.plan:
            self.plan = plan
            self.post_message(self.Rearranged())
        return plan.regions

    def again(self) -> None:
        """What the planner goes by has changed."""
        for child in self.children[:1]:
            child.refresh(layout=True)  # of a child: it drops what its container had arranged
