"""Nothing that was said is lost by any order of two processes, deletes, undos, kills and restores."""

from __future__ import annotations

import itertools
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.chat.world import DOINGS, TOOLS, World

Step = tuple[str, str]
BEFORE: dict[str, list[Step]] = {
    "both have it open": [],
    "b has deleted it": [("b", "delete")],
    "b has deleted it and a has gone on": [("b", "delete"), ("a", "say")],
    "both have deleted it": [("b", "delete"), ("a", "say"), ("b", "look"), ("a", "delete")],
    "an answer of a is not on its screen": [("a", "end")],
    "an older copy was restored": [("x", "restore")],
    "it has vanished": [("x", "vanish"), ("b", "look")],
}
WHAT = ("say", "end", "take", "look", "delete", "undo")
INNER = [doing for doing in DOINGS if doing[0] == "b"] + TOOLS
AFTER: list[list[Step]] = [[], [("b", "undo"), ("a", "undo")], [("a", "say"), ("b", "restart")]]
CALLS = 40
"""More than anything makes."""


def order(before: list[Step], what: str, inner: Step, at: int, kill: bool, after: list[Step]) -> int:
    """Process a does ``what``; before its system call ``at``, ``inner`` happens, and maybe a is killed.

    Returns how many calls it made.
    """
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for step in before:
            world.do(*step)
        calls = world.do("a", what, partial(world.do, *inner), at, kill)
        for step in after:
            world.do(*step)
        world.check()
        return calls


@pytest.mark.nightly
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("what", WHAT)
def test_every_doing_between_any_two_system_calls(what: str, before: str) -> None:
    for inner, kill, after in itertools.product(INNER, (False, True), AFTER):
        for at in range(CALLS):
            if order(BEFORE[before], what, inner, at, kill, after) <= at:
                break
        else:
            raise AssertionError("there are more calls")


@pytest.mark.parametrize("before", BEFORE)
def test_a_doing_between_two_system_calls(before: str) -> None:
    """Of the orders above every so many."""
    orders = list(itertools.product(WHAT, INNER, range(CALLS), (False, True), AFTER))
    for what, inner, at, kill, after in orders[sum(map(ord, before)) % 401 :: 401]:
        order(BEFORE[before], what, inner, at % 12, kill, after)


class Orders(RuleBasedStateMachine):
    """Any number of them, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self._folder.name))

    @rule(step=st.sampled_from(DOINGS + TOOLS))
    def at_leisure(self, step: Step) -> None:
        self.world.do(*step)

    @rule(
        step=st.sampled_from(DOINGS),
        inner=st.sampled_from(DOINGS + TOOLS),
        at=st.integers(0, 25),
        kill=st.booleans(),
    )
    def interrupted(self, step: Step, inner: Step, at: int, kill: bool) -> None:
        if inner[0] != step[0]:
            self.world.do(*step, partial(self.world.do, *inner), at, kill)

    @rule(who=st.sampled_from("ab"))
    def start_again(self, who: str) -> None:
        self.world.start(who)

    def teardown(self) -> None:
        try:
            self.world.check()
        finally:
            self._folder.cleanup()


def test_random_orders() -> None:
    run_state_machine_as_test(
        Orders, settings=settings(max_examples=60, stateful_step_count=15, deadline=None)
    )


@pytest.mark.nightly
def test_many_random_orders() -> None:
    run_state_machine_as_test(
        Orders, settings=settings(max_examples=20_000, stateful_step_count=30, deadline=None)
    )
