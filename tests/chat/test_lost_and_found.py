"""A session's file that others move, shorten, replace or take away: memory and disk make each other whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from chatkv.chat.errors import ChatError
from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation, Message
from tests.chat.shared import only_file, reload, say, state


def two(folder: Path) -> tuple[SessionStore, Conversation, SessionStore, Conversation]:
    """Two stores over a session of two messages."""
    ours = SessionStore(folder)
    conv = ours.create("a")
    say(ours, conv, "one", "two")
    theirs = SessionStore(folder)
    (twin,), _ = theirs.load_all()
    return ours, conv, theirs, twin


def texts(folder: Path) -> list[str]:
    (conv,) = reload(SessionStore(folder))
    return sorted(message.text for message in conv.messages.values())


def test_undo_of_a_delete_keeps_what_another_has_said_meanwhile(tmp_path: Path) -> None:
    ours, conv, theirs, twin = two(tmp_path)
    ours.delete(conv)
    say(theirs, twin, "while it was deleted")
    assert ours.undelete(conv) is conv
    assert "while it was deleted" in [message.text for message in conv.messages.values()]
    assert texts(tmp_path) == ["one", "two", "while it was deleted"]


def test_a_delete_keeps_what_was_deleted_before(tmp_path: Path) -> None:
    ours, conv, theirs, twin = two(tmp_path)
    say(theirs, twin, "theirs")
    ours.delete(conv)
    first = only_file(tmp_path / "deleted").read_bytes()
    say(theirs, twin, "written again")
    theirs.delete(twin)
    names = sorted(path.name for path in (tmp_path / "deleted").iterdir())
    assert names == [conv_name(conv, "-2"), conv_name(conv)]
    assert (tmp_path / "deleted" / names[1]).read_bytes() == first
    theirs.undelete(twin)
    ours.undelete(conv)
    assert texts(tmp_path) == ["one", "theirs", "two", "written again"]


def conv_name(conv: Conversation, more: str = "") -> str:
    return f"{conv.created:%Y%m%dT%H%M%S.%f}Z-{conv.id}{more}.jsonl"


def test_a_deleted_session_that_came_back_is_one_session_after_undo(tmp_path: Path) -> None:
    ours, conv, theirs, twin = two(tmp_path)
    ours.delete(conv)
    say(ours, conv, "said while deleted")
    say(theirs, twin, "and on")
    (back,), _ = ours.load_new()
    assert back.id == conv.id
    assert ours.undelete(conv) is back
    assert ours.conversations == [back]
    assert texts(tmp_path) == ["and on", "one", "said while deleted", "two"]


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def restore(path: Path) -> None:
    older = path.read_bytes().splitlines(keepends=True)[:2]
    part = path.with_suffix(".part")
    part.write_bytes(b"".join(older))
    part.replace(path)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [cut, restore, empty, Path.unlink])
@pytest.mark.parametrize("doing", ["look", "say", "rename", "delete and undo"])
def test_a_file_that_lost_something_is_made_whole(
    harm: Callable[[Path], object], doing: str, tmp_path: Path
) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a", system="S")
    say(store, conv, "one", "two")
    store.rename(conv, "b")
    store.set_sampling(conv, {"temperature": 0.5})
    store.set_head(conv, conv.path()[0].id)
    harm(only_file(tmp_path))
    match doing:
        case "look" if harm is Path.unlink:
            with pytest.raises(ChatError, match="no such file"):
                store.catch_up(conv)
            assert not list(tmp_path.glob("*.jsonl"))
            assert texts(tmp_path / "deleted") == ["one", "two"]  # who removed it wanted it gone
            return
        case "look":
            store.catch_up(conv)
        case "say":
            say(store, conv, "three")
        case "rename":
            store.rename(conv, "c")
        case _:
            store.delete(conv)
            store.undelete(conv)
    found, _ = SessionStore(tmp_path).load_all()
    before, after = state(conv), state(found[0])
    assert after == before
    assert found[0].sampling == {"temperature": 0.5}
    assert store.catch_up(conv) is None or store.catch_up(conv) is None  # what was mended is no news for ever


def test_a_lost_line_is_put_back_where_it_belongs(tmp_path: Path) -> None:
    """Also in who has read the file while the line was missing."""
    store = SessionStore(tmp_path)
    conv = store.create("a")
    say(store, conv, "one", "two", "three")
    path = only_file(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1], lines[3]]))
    late = SessionStore(tmp_path)
    (read,), problems = late.load_all()
    assert "is missing" in str(problems[0])
    store.catch_up(conv)
    late.catch_up(read)
    assert [message.text for message in read.path(conv.head)] == ["one", "two", "three"]
    assert [message.text for message in reload(store)[0].path()] == ["one", "two", "three"]
    assert list(read.messages) == list(conv.messages)


def test_an_edited_message_stays_beside_what_was_said(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")
    say(store, conv, "what was said")
    path = only_file(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"what was said", b"what was edited"))
    for _ in range(3):
        store.catch_up(conv)
    assert [message.text for message in conv.children(None)] == ["what was edited", "what was said"]
    assert texts(tmp_path) == ["what was edited", "what was said"]


def test_the_name_another_gives_counts_but_not_that_of_an_older_copy(tmp_path: Path) -> None:
    ours, conv, theirs, twin = two(tmp_path)
    theirs.rename(twin, "theirs")
    ours.catch_up(conv)
    assert conv.name == "theirs"
    restore(only_file(tmp_path))
    ours.catch_up(conv)
    assert conv.name == "theirs"
    assert reload(ours)[0].name == "theirs"


def test_what_is_kept_ahead_is_there_once(tmp_path: Path) -> None:
    ours, conv, theirs, twin = two(tmp_path)
    answer = Message("a1", conv.head, "assistant", "an answer", (1, 2))
    ours.keep(conv, answer)
    assert texts(tmp_path) == ["an answer", "one", "two"]
    assert "a1" not in conv.messages
    theirs.catch_up(twin)
    say(theirs, twin, "about it")  # to the old head
    theirs.append(twin, Message("r1", "a1", "user", "a reply to it"))
    ours.catch_up(conv)  # the reply brings the answer with it
    conv.messages.get("a1") or conv.add(answer)
    ours.append(conv, answer)
    assert [message.text for message in conv.path("r1")] == ["one", "two", "an answer", "a reply to it"]
    assert only_file(tmp_path).read_bytes().count(b'"id":"a1"') == 1
    assert state(reload(ours)[0])["messages"].count(answer) == 1


def test_what_could_not_be_kept_ahead_is_told_by_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    answer = Message("a1", None, "assistant", "an answer")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        store.keep(conv, answer)
        with pytest.raises(ChatError, match="no space left"):
            store.append(conv, answer)
        assert store.unsaved(conv)
    store.save(conv)
    assert texts(tmp_path) == ["an answer"]
    assert only_file(tmp_path).read_bytes().count(b'"id":"a1"') == 1


def test_without_hard_links_nothing_is_lost_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    ours, conv, theirs, twin = two(tmp_path)
    ours.delete(conv)
    ours.undelete(conv)
    assert texts(tmp_path) == ["one", "two"]
    ours.delete(conv)
    say(theirs, twin, "meanwhile")
    ours.undelete(conv)
    assert texts(tmp_path) == ["meanwhile", "one", "two"]


def test_what_a_full_disk_did_not_take_goes_along_with_a_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(tmp_path)
    conv = store.create("a")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(ChatError):
            say(store, conv, "one")
        store.delete(conv)
        assert store.unsaved(conv)
    store.save(conv)
    assert texts(tmp_path / "deleted") == ["one"]
