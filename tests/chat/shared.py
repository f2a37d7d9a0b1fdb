"""What the tests of sessions share."""

from pathlib import Path
from typing import Any

from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation


def state(conv: Conversation) -> dict[str, Any]:
    """All of a conversation that must survive a restart."""
    return {
        "id": conv.id,
        "name": conv.name,
        "given": conv.given_name,
        "created": conv.created,
        "system": conv.system,
        "forked_from": conv.forked_from,
        "messages": list(conv.messages.values()),
        "head": conv.head,
        "roots": conv.children(None),
    }


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.jsonl")
    return path


def say(store: SessionStore, conv: Conversation, *texts: str) -> None:
    for text in texts:
        store.append(conv, conv.append("user", text))


def reload(store: SessionStore) -> list[Conversation]:
    found, problems = SessionStore(store.folder).load_all()
    assert not problems
    return found
