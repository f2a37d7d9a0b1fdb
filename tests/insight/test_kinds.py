"""The one table of kinds of events has a place for each, and what it says fits the rest."""

from __future__ import annotations

import inspect

import pytest

from chatkv.insight.kinds import KINDS, UNTOLD, touched
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched

EVENTS = [
    event
    for module in (kv, sched)
    for _, event in inspect.getmembers(module, inspect.isclass)
    if issubclass(event, kv.Event) and event is not kv.Event
]
QUIET = {kv.TokensWritten, kv.RequestClosed, sched.QueueOrdered, sched.StepPlanned, sched.StepDone}
"""Kinds that are only counted: there is nothing to say of one alone."""


@pytest.mark.parametrize("event", EVENTS)
def test_every_kind_is_told_or_left_out_on_purpose(event: type[kv.Event]) -> None:
    assert (event in KINDS) is (event not in QUIET)


@pytest.mark.parametrize("event", KINDS)
def test_what_is_told_has_a_sentence_and_what_has_a_past_says_of_what(event: type[kv.Event]) -> None:
    kind = KINDS[event]
    assert kind.weight is None or kind.sentence is not None
    if kind.node_past is not None:
        assert kind.nodes is not UNTOLD.nodes
    if kind.block_past is not None and event is not kv.CacheCleared:
        assert kind.blocks is not UNTOLD.blocks


def test_an_event_of_another_module_is_about_nothing() -> None:
    class Unknown(kv.Event):
        pass

    assert touched(Unknown(seq=1)) == ((), (), None)
