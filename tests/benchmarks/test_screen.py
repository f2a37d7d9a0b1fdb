"""The app in a pseudo terminal of its own: what is drawn is read, what is pressed arrives."""

from __future__ import annotations

import pytest

from benchmarks.screen.keys import measure_keys
from benchmarks.screen.terminal import Terminal
from chatkv.errors import ChatkvError


def test_frames_of_a_small_tree() -> None:
    stages: list[str] = []
    order = {"measure": "frames", "nodes": 60, "rounds": 2, "idle_s": 0.1}
    with Terminal(order, 120, 50, lambda stage, done, total: stages.append(stage)) as terminal:
        result = terminal.wait("result", 120.0)
    assert stages == ["making a tree", "drawing"]
    assert result["nodes"] == 64
    assert {"chat", "tree", "blocks", "prompt"} <= set(result["panes"])
    for seconds in (result["frame"], result["show"], result["pause"], *result["panes"].values()):
        assert all(value > 0 for value in seconds)
    assert terminal.drawn > 120 * 50


def test_every_key_shows_while_four_answers_stream() -> None:
    keys = measure_keys({"measure": "made-up stream", "nodes": 60}, 120, 36, 5, 2, lambda *told: None)
    assert {kind: len(seconds) for kind, seconds in keys.seconds.items()} == {
        "letter": 5,
        "session": 2,
        "help": 2,
    }
    assert all(value is not None for seconds in keys.seconds.values() for value in seconds)
    assert 0 < keys.share <= 1


def test_what_goes_wrong_in_there_is_told_in_one_line() -> None:
    with (
        Terminal({"measure": "nothing of the kind"}, 80, 24) as terminal,
        pytest.raises(ChatkvError, match="the measured screen failed: KeyError: 'nothing of the kind'"),
    ):
        terminal.wait("result", 60.0)
