"""The base of every error that a person caused or can mend: one clear line, an exit code, no traceback."""

from __future__ import annotations

from chatkv.text import one_line

_SAID = 300


class ChatkvError(Exception):
    """``message`` is one line that says what to do. Exit code 2 for usage, 1 for failure."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UsageError(ChatkvError):
    """An option or argument that can't be right, found before anything was started."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=2)


def in_words(error: BaseException) -> str:
    """``ValueError: what it says`` in one printable line; never raises, whatever ``str(error)`` does."""
    name = type(error).__name__
    try:
        said = one_line(str(error), _SAID)
    except Exception:
        said = ""
    return f"{name}: {said}" if said else name
