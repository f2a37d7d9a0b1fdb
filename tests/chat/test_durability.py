"""What is on disk after a full disk, a kill, and a second process."""

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from chatkv.chat.errors import ChatError
from chatkv.chat.store import SessionStore
from tests.chat.shared import reload, say, state


def test_a_failed_write_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")

    def full(descriptor: int, data: bytes) -> int:
        return real(descriptor, data[: len(data) // 2])

    real = os.write
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ChatError, match="no space left") as told:
        say(store, conv, "lost on disk")
    assert "\n" not in str(told.value)
    monkeypatch.undo()
    assert [m.text for m in conv.path()] == ["lost on disk"]
    say(store, conv, "next")
    (back,), (problem,) = SessionStore(tmp_path).load_all()
    assert state(back) == state(conv)
    assert problem.line == 2


def test_a_write_that_could_not_be_confirmed_is_not_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")

    def broken(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(ChatError, match="input/output error"):
        say(store, conv, "x")
    with pytest.raises(ChatError, match="can't make a session"):
        store.create("b")
    monkeypatch.undo()
    say(store, conv, "y")
    assert [state(c) for c in reload(store)] == [state(conv)]
    assert not list(tmp_path.glob(".*"))


CHILD = """
import sys
from pathlib import Path
from chatkv.chat.store import SessionStore
store = SessionStore(Path(sys.argv[1]))
conv = store.create("a")
for n in range(10**6):
    store.append(conv, conv.append("user", f"message {n} " + "x" * 3000))
    print(n, flush=True)
"""


def test_after_a_kill_every_finished_message_is_there(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    finished = [int(child.stdout.readline()) for _ in range(20)][-1]
    child.send_signal(signal.SIGKILL)
    rest = child.stdout.read().split()
    child.wait()
    finished = int(rest[-1]) if rest else finished
    (conv,), problems = SessionStore(tmp_path).load_all()
    assert len(conv.messages) >= finished + 1
    assert len(problems) <= 1


def write_many(folder: Path, who: str, start: Barrier) -> None:
    store = SessionStore(folder)
    (conv,), _ = store.load_all()
    start.wait(60)
    for n in range(50):
        store.append(conv, conv.append("user", f"{who}{n}" + "x" * 5000))


def test_two_processes_do_not_corrupt_one_another(tmp_path: Path) -> None:
    SessionStore(tmp_path).create("a")
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Barrier(2)
    writers = [spawn.Process(target=write_many, args=(tmp_path, who, start)) for who in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    (conv,) = reload(SessionStore(tmp_path))
    assert len(conv.messages) == 100
    assert len(conv.children(None)) == 2
