"""``chatkv run`` ended from outside: ``kill``, or its terminal's window closed."""

from __future__ import annotations

import os
import signal
import termios
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.tui.recording.player import Player

pytestmark = pytest.mark.model


@pytest.mark.parametrize("way", ["killed", "closed"])
def test_the_recording_the_answer_and_what_is_typed_are_kept(
    tmp_path: Path, smollm2_folder: Path, way: str
) -> None:
    film = tmp_path / "film.svg"
    with Terminal(
        tmp_path, "--model", str(smollm2_folder), "--max-tokens", "2000", "--record-screen", str(film)
    ) as terminal:
        terminal.until("invariants hold", 120)
        terminal.type("Write a long essay about the history of the sea.\r")
        terminal.until("▌", 60)
        os.write(terminal.master, b"half a \xff question")  # a byte of another charset
        terminal.until("question", 20)
        for _ in range(20):
            terminal.read(0.1)
        if way == "killed":
            terminal.process.send_signal(signal.SIGTERM)
            assert terminal.over() == 128 + signal.SIGTERM
            assert termios.tcgetattr(terminal.slave)[3] == terminal.cooked[3]
            assert b"\x1b[?1049l" in terminal.seen  # the shell's own screen is back
            assert b"Traceback" not in terminal.seen
        else:
            terminal.close()
            assert terminal.over() == 128 + signal.SIGHUP
        (conversation,) = terminal.sessions()
    question, answer = conversation.path()
    assert question.text == "Write a long essay about the history of the sea."
    assert answer.meta["reason"] == "quit"
    assert answer.token_ids
    assert conversation.draft == "half a \ufffd question"
    assert any("\ufffd quest" in line for line in Player(film.read_text("utf-8")).at())
    log = tmp_path / "data" / "chatkv.log"
    assert not log.exists() or "Traceback" not in log.read_text("utf-8")


def test_all_is_drawn_again_after_a_stop(tmp_path: Path, smollm2_folder: Path) -> None:
    with Terminal(tmp_path, "--model", str(smollm2_folder)) as terminal:
        terminal.until("invariants hold", 120)
        for _ in range(10):
            terminal.read(0.1)
        terminal.process.send_signal(signal.SIGTSTP)
        # As a shell does: it goes on when it has stopped, not when it is about to.
        assert os.WIFSTOPPED(os.waitpid(terminal.process.pid, os.WUNTRACED)[1])
        terminal.process.send_signal(signal.SIGCONT)
        terminal.until("palette", 20)
        for part in ("chatkv", "Radix tree", "invariants hold", "Prompt"):
            assert part.encode() in terminal.seen, part
        terminal.type("\x11")
        assert terminal.over() == 0
