"""``chatkv run`` in a terminal: quitting while an answer is being made."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal

pytestmark = pytest.mark.model


def chat_and_quit(folder: Path, model: Path) -> float:
    with Terminal(folder, "--model", str(model), "--max-tokens", "2000") as terminal:
        terminal.until("invariants hold", 120)
        terminal.type("Write a long essay about the history of the sea.")
        terminal.type("\r")
        terminal.until("▌", 60)  # stands before how many tokens there are
        start = time.monotonic()
        terminal.type("\x11")
        assert terminal.over() == 0
        took = time.monotonic() - start
        (conversation,) = terminal.sessions()
    question, answer = conversation.path()
    assert question.text == "Write a long essay about the history of the sea."
    assert answer.meta["reason"] == "quit"
    assert answer.token_ids
    return took


def test_it_ends_in_under_a_second_and_keeps_what_has_come(tmp_path: Path, smollm2_folder: Path) -> None:
    took: list[float] = []
    # A machine that is busy with other things may need longer, once.
    while not took or (min(took) >= 1.0 and len(took) < 3):
        took.append(chat_and_quit(tmp_path / str(len(took)), smollm2_folder))
    assert min(took) < 1.0, took
