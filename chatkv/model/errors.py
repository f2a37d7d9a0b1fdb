"""The model package's one error."""

from __future__ import annotations

from chatkv.errors import ChatkvError


class ModelError(ChatkvError):
    """A model can't be found, fetched, converted, read or run.

    The message is one line for a person: what is wrong and what to do about it.
    """
