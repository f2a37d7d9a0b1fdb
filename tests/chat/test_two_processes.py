"""Two processes that say, delete, undo and look, killed again and again: what they told of is there."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest

from chatkv.chat.reader import read

WRITER = """
import random, sys
from pathlib import Path
from chatkv.chat.errors import ChatError
from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Message, new_id

store, dice, deleted = SessionStore(Path(sys.argv[1])), random.Random(sys.argv[2]), []
store.load_all()
while True:
    what = dice.random()
    convs = store.conversations
    try:
        if not convs or what < 0.1:
            store.load_new()
            for conv in convs:
                store.catch_up(conv)
            if not store.conversations and not deleted:
                store.create()
        elif what < 0.2:
            store.delete(convs[0])
            deleted.append(convs[0])
        elif what < 0.5:
            conv = dice.choice(convs)
            answer = Message(new_id(), conv.head, "assistant", "x" * dice.randrange(3000), (1, 2, 3))
            store.keep(conv, answer)
            if not store.unsaved(conv):
                print(answer.id, flush=True)
            store.append(conv, answer)
        else:
            conv = dice.choice(convs)
            said = conv.append("user", "x" * dice.randrange(3000))
            store.append(conv, said)
            print(said.id, flush=True)
    except ChatError as error:
        assert "no such file" in str(error), error  # the other has deleted it
    if deleted and dice.random() < 0.2:
        store.undelete(deleted.pop())
"""


class Writer:
    """One of them, and what it has told of."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.told: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), seed], stdout=subprocess.PIPE, text=True
        )

    def kill(self, after: int) -> None:
        """Once it has told of ``after`` messages."""
        assert self._process.stdout is not None
        with self._process:
            self.told += [self._process.stdout.readline() for _ in range(after)]
            assert all(self.told), "it ended by itself"
            self._process.kill()
            self.told += self._process.stdout


def lost_in(folder: Path, kills: int, seed: int) -> tuple[set[str], int]:
    """What was told of and is in no file after so many kills; how many messages were told of."""
    dice, told = random.Random(seed), set[str]()
    numbers = itertools.count()
    writers = [Writer(folder, f"{seed} {next(numbers)}") for _ in range(2)]
    for _ in range(kills):
        victim = dice.randrange(2)
        writers[victim].kill(dice.randint(1, 40))
        told.update(line.strip() for line in writers[victim].told if line.endswith("\n"))
        writers[victim] = Writer(folder, f"{seed} {next(numbers)}")
    for writer in writers:
        writer.kill(1)
        told.update(line.strip() for line in writer.told if line.endswith("\n"))
    found: set[str] = set()
    for path in (*folder.glob("*.jsonl"), *folder.glob("deleted/*.jsonl")):
        found.update(read(path).conversation.messages)
    return told - found, len(told)


def test_nothing_that_was_told_of_is_lost(tmp_path: Path) -> None:
    lost, told = lost_in(tmp_path, 10, 1)
    assert not lost
    assert told > 10


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 7))
def test_nothing_is_lost_in_many_kills(seed: int, tmp_path: Path) -> None:
    lost, told = lost_in(tmp_path, 200, seed)
    assert not lost
    assert told > 200
