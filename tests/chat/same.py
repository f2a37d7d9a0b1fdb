"""Whether two conversations are the same."""

from typing import Any

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
