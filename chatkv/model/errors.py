"""The model package's errors."""

from __future__ import annotations

from chatkv.errors import ChatkvError


class ModelError(ChatkvError):
    """A model can't be found, fetched, converted, read or run.

    The message is one line for a person: what is wrong and what to do about it.
    """


class LimitError(ModelError):
    """What a model's files ask for takes more time, memory or output than it may."""
