"""Files of other programs' chats, made up and read in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

from chatkv.chat.exchange import Imported, as_json, as_markdown, read_chats
from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation

U, A, V, B = ("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b")


def texts(conv: Conversation, head: str | None = None) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in conv.path(head)]


def branches(conv: Conversation) -> list[list[str]]:
    ends = [id for id in conv.messages if not conv.children(id)]
    return [[text for _, text in texts(conv, end)] for end in ends]


def read(folder: Path, *values: Any) -> Imported:
    """What is imported, which comes back the same when it was kept, and when it is exported."""
    path = folder / "in"
    path.write_text("\n".join(map(json.dumps, values)))
    imported = read_chats(path)
    (folder / "out").mkdir(exist_ok=True)
    for conv in imported.conversations:
        store = SessionStore(folder / uuid4().hex)
        store.adopt(conv, created=conv.created)
        ((kept,), problems) = SessionStore(store.folder).load_all()
        assert not problems
        assert (kept.system, texts(kept), branches(kept)) == (conv.system, texts(conv), branches(conv))
        assert (kept.created, kept.given_name) == (conv.created, conv.given_name)
        if conv.head is not None:
            (folder / "out" / "x").write_text(as_json(conv))
            (back,) = read_chats(folder / "out" / "x").conversations
            assert (back.system, texts(back)) == (conv.system, texts(conv))
            assert [m.thinking for m in back.path()] == [m.thinking for m in conv.path()]
            assert (back.created, back.name) == (conv.created, conv.name)
            assert as_markdown(conv)
    return imported


def one(folder: Path, value: Any) -> Conversation:
    (conv,) = read(folder, value).conversations
    return conv


def chat(*turns: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in turns]
