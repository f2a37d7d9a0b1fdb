"""What can go wrong with sessions and their files."""

from __future__ import annotations

from chatkv.errors import ChatkvError


class ChatError(ChatkvError):
    """A session that can't be saved, named, forked or found. Nothing in memory is lost by it."""
