"""A file for the prompt: read with a limit, checked to be text, wrapped so that a model sees its end."""

from __future__ import annotations

import re
from pathlib import Path

from chatkv.errors import ChatkvError
from chatkv.files import UnreadableError, read_file
from chatkv.text import one_line, printable

MAX_BYTES = 200_000
"""More is beyond the context of the models this runs."""


class FileRefusedError(ChatkvError):
    """A file that can't go into the prompt; one line."""


def read_text_file(path: Path) -> str:
    """Its text.

    Raises:
        FileRefusedError: it is no file, too large, not text, or can't be read.
    """
    name = one_line(str(path), 120)
    try:
        data = read_file(path, MAX_BYTES)
    except UnreadableError as error:
        raise FileRefusedError(f"{name} {error}") from error
    if b"\0" in data:
        raise FileRefusedError(f"{name} is binary; only text can be inserted")
    try:
        return printable(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise FileRefusedError(f"{name} is not UTF-8 text; only text can be inserted") from None


def wrapped(path: Path, text: str) -> str:
    """The file's name and its text as a Markdown code block, whatever fences it holds itself."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    kind = re.sub(r"[^A-Za-z0-9_+-]", "", path.suffix)
    return f"{one_line(path.name, 120)}:\n{fence}{kind}\n{text.removesuffix(chr(10))}\n{fence}"
