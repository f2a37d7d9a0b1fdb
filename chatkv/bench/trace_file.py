"""What is in a trace file: the form and block size of its requests, and the requests one by one.

JSONL, a request a line, in one of two forms; a file has one of them:

* Hashes (Mooncake, FAST'25; Qwen-Bailian; …): ``{"input_length": n, "hash_ids": [...]}``. An id (a whole
  number of 64 bits, or a string) stands for a block of tokens and all before them. The last, partly filled
  block has an id or has none. Blocks have as many tokens as a ``block_size`` in the file says (of a line of
  its own or of every request), else as goes with the most requests. Only full blocks are stored or hit, and
  the last token is always computed.
* Token ids: ``{"session": …, "turn": …, "prompt": [...], "output": [...]}``; ``prompt[:-1]`` is looked
  up, ``prompt + output[:-1]`` is stored, as after a real request.

A request may have a ``priority`` (0; a larger one goes first). Its ``session`` (``session_id``, or the first
of a chain of ``parent_chat_id``) is kept. Requests are taken in file order: times, in whatever unit, are not
read.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from chatkv.errors import ChatkvError, UsageError
from chatkv.files import MIB, UnreadableError, open_file, read_again
from chatkv.kvcache.cache import blocks_for
from chatkv.kvcache.events import Int32Array
from chatkv.sampling import MOST_PRIORITY
from chatkv.text import one_line

DEFAULT_BLOCK = 16
"""Tokens a block where the file has token ids."""
MAX_LINE = 64 * MIB
MAX_BYTES = 16 * 1024 * MIB
MAX_PIPE = 1024 * MIB
"""Of a trace that comes through a pipe, which is kept as it can't be read twice."""
_MAX_LENGTH = 2**40
_USUAL = (512, 16, 64, 128, 32, 256, 1024, 2048, 8, 4096, 4, 2, 1)
"""Block sizes of traces, the most likely first."""


class Entry(NamedTuple):
    """One request in the cache's units: ``scale`` tokens a unit (1, or a block of hashes)."""

    session: str
    prompt: Int32Array
    """Looked up, but for its last unit."""
    stored: Int32Array
    """Written and kept, from the start of the prompt."""
    tokens: int
    scale: int
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """A file that was looked through. ``unit``: tokens of one of the cache's units; 1 for token ids."""

    path: Path
    hashes: bool
    """Whether it has the form of hashes."""
    unit: int
    block_size: int
    """In tokens."""
    told_by: str
    """Where the block size is from: ``file``, ``option``, ``lengths`` or ``default``."""
    requests: int
    num_blocks: int
    """So many blocks hold all of them at once."""

    @property
    def cache_block(self) -> int:
        """The block size of a cache for it, in the cache's units."""
        return self.block_size // self.unit


@contextmanager
def readable(path: Path) -> Iterator[Path]:
    """The trace as a file that can be gone through several times: a pipe is read once, into a temporary one.

    Raises ChatkvError.
    """
    try:
        with read_again(path, MAX_PIPE) as file:
            yield file
    except UnreadableError as error:
        raise ChatkvError(f"{path} {error}") from None


def look_through(path: Path, block_size: int | None = None) -> Trace:
    """Look through the trace at ``path``; ``block_size`` None: as the file has it.

    Raises ChatkvError where it can't be read or no line of it is a request (the first reason is told), and
    UsageError where its blocks are not of ``block_size``.
    """
    reader = _Reader()
    told: dict[int, int] = {}
    lengths, counts = array("q"), array("q")
    requests = blocks = 0
    why = ""
    size = block_size or DEFAULT_BLOCK
    for number, line in _lines(path):
        try:
            record = reader.request(_record(line))
            if isinstance(record, int):
                told.setdefault(record, number)
            elif reader.hashes:
                length, ids = _hashes(record)
                if (own := _told(record)) is not None:
                    told.setdefault(own, number)
                lengths.append(length)
                counts.append(len(ids))
            else:
                entry = _tokens(record, "")
                requests += 1
                blocks += blocks_for(max(len(entry.prompt), len(entry.stored)), size) + 1
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            why = why or f"line {number}: {_said(error)}"
    if not lengths and not requests:
        raise _no_trace(path, why)
    if not reader.hashes:
        told_by = "default" if block_size is None else "option"
        return Trace(path, False, 1, size, told_by, requests, blocks)
    tokens, ids_each = np.array(lengths), np.array(counts)
    size, told_by = _block_size(path, tokens, ids_each, told, block_size)
    fits = _fits(tokens, ids_each, size)
    if not fits.any():
        raise _no_trace(path, why or _mismatch(int(tokens[0]), int(ids_each[0]), size))
    units = ids_each[fits] + (ids_each[fits] * size < tokens[fits]) + 1
    return Trace(path, True, size, size, told_by, int(fits.sum()), int(units.sum()))


def read_trace(trace: Trace, problem: Callable[[str], None]) -> Iterator[Entry]:
    """The requests of ``trace``; a line that is none is skipped, and ``problem`` hears its number and why.

    Raises ChatkvError where the file can't be read.
    """
    reader = _Reader()
    for number, line in _lines(trace.path):
        try:
            record = reader.request(_record(line))
            if isinstance(record, int):
                continue
            session = reader.session(record)
            entry = reader.hashed(record, session, trace.unit) if trace.hashes else _tokens(record, session)
            yield entry._replace(priority=_priority(record))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            problem(f"line {number} skipped: {_said(error)}")


class _Reader:
    """What one line of a file says about the next: its form, the ids and chats that were met."""

    def __init__(self) -> None:
        self.hashes: bool | None = None
        self._ids: dict[int | str, int] = {}
        self._chats: dict[str, str] = {}

    def request(self, record: dict[str, Any]) -> dict[str, Any] | int:
        """``record`` if it is a request of the file's form, or the block size that it tells instead.

        Raises ValueError for another form than the one that the file began with.
        """
        hashes, tokens = "hash_ids" in record, "prompt" in record
        if not hashes and not tokens and "input_length" not in record:
            if (told := _told(record)) is not None:
                return told
            known = ", ".join(one_line(key, 20) for key in list(record)[:4])
            raise ValueError(f"neither hash_ids nor a prompt (it has {known or 'nothing'})")
        if not hashes and not tokens:
            raise KeyError("hash_ids")
        if self.hashes is None:
            self.hashes = hashes
        elif self.hashes != hashes:
            names = ("token ids", "hash_ids")
            raise ValueError(f"it has {names[hashes]}, the requests before it have {names[not hashes]}")
        return record

    def session(self, record: dict[str, Any]) -> str:
        """Whose the request is; "": nobody's."""
        for key in ("session", "session_id", "conversation_id"):
            if record.get(key) is not None:
                return _name(record[key], key)
        if record.get("chat_id") is None:
            return ""
        chat, parent = _name(record["chat_id"], "chat_id"), record.get("parent_chat_id")
        root = chat
        if parent is not None and parent not in (-1, "-1", ""):
            before = _name(parent, "parent_chat_id")
            root = self._chats.get(before, before)
        self._chats[chat] = root
        return root

    def hashed(self, record: dict[str, Any], session: str, block_size: int) -> Entry:
        """The request with its ids as numbers of 32 bits, different ones for different ids."""
        length, given = _hashes(record)
        if not length // block_size <= len(given) <= blocks_for(length, block_size):
            raise ValueError(_mismatch(length, len(given), block_size))
        # 0 stands for what has no id: a partly filled last block, which nobody looks up.
        known = self._ids
        ids = np.array([known.setdefault(id, len(known) + 1) for id in given], dtype=np.int32)
        full = length // block_size
        prompt = ids if len(ids) * block_size >= length else np.append(ids, np.int32(0))
        return Entry(session, prompt, ids[:full], length, block_size)


def _hashes(record: dict[str, Any]) -> tuple[int, list[int | str]]:
    """(input length, ids)."""
    length, ids = record["input_length"], record["hash_ids"]
    if type(length) is not int or not 0 < length < _MAX_LENGTH:
        raise ValueError(f"input_length must be a whole number from 1, got {one_line(repr(length), 30)}")
    if not isinstance(ids, list) or not all(
        type(id) is str or (type(id) is int and -(2**63) <= id < 2**64) for id in ids
    ):
        raise ValueError("hash_ids must be a list of whole numbers of 64 bits, or of strings")
    return length, ids


def _tokens(record: dict[str, Any], session: str) -> Entry:
    prompt, output = _token_ids(record["prompt"], "prompt"), _token_ids(record["output"], "output")
    if not len(prompt):
        raise ValueError("prompt is empty")
    return Entry(session, prompt, np.concatenate((prompt, output[:-1])), len(prompt), 1)


def _priority(record: dict[str, Any]) -> int:
    """Larger goes first, and is evicted last by the strategy ``priority``."""
    given = record.get("priority")
    if given is None:
        return 0
    if type(given) is not int or not -MOST_PRIORITY <= given <= MOST_PRIORITY:
        shown = one_line(repr(given), 30)
        raise ValueError(
            f"priority must be a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}, got {shown}"
        )
    return given


def _token_ids(value: Any, name: str) -> Int32Array:
    if not isinstance(value, list) or not all(type(i) is int and -(2**31) <= i < 2**31 for i in value):
        raise ValueError(f"{name} must be a list of whole numbers of 32 bits")
    return np.array(value, dtype=np.int32)


def _told(record: dict[str, Any]) -> int | None:
    """The block size that a line tells."""
    for key in ("block_size", "hash_block_size", "page_size"):
        if (told := record.get(key)) is not None:
            if type(told) is not int or not 0 < told < 2**31:
                raise ValueError(f"{key} must be a whole number from 1, got {one_line(repr(told), 30)}")
            return told
    return None


def _name(value: Any, key: str) -> str:
    if type(value) not in (str, int):
        raise ValueError(f"{key} must be text or a whole number")
    return str(value)


# How many tokens a block of hashes has

_Lengths = npt.NDArray[np.int64]


def _fits(tokens: _Lengths, ids: _Lengths, size: int) -> npt.NDArray[np.bool_]:
    """Which requests go with blocks of ``size`` tokens, whether the last block has an id or not."""
    return (ids >= tokens // size) & (ids <= -(-tokens // size))


def _likeness(tokens: _Lengths, ids: _Lengths, size: int) -> int:
    """How many requests go with ``size`` where all count their last block in the same way."""
    whole, begun = tokens // size, -(-tokens // size)
    return max(int((ids == whole).sum()), int((ids == begun).sum()))


def _implied(tokens: _Lengths, ids: _Lengths) -> list[int]:
    """Sizes that are the only ones to go with all requests, where the last block has an id or has none."""
    found = []
    several, some = ids > 1, ids > 0
    if several.any() and some.all():
        least, most = (-(-tokens // ids)).max(), ((tokens[several] - 1) // (ids[several] - 1)).min()
        found += [int(least)] if least == most else []
    if some.any():
        least, most = (tokens // (ids + 1) + 1).max(), (tokens[some] // ids[some]).min()
        found += [int(least)] if least == most else []
    return found


def _block_size(
    path: Path, tokens: _Lengths, ids: _Lengths, told: dict[int, int], wanted: int | None
) -> tuple[int, str]:
    """(tokens a block, what told it)."""
    if len(told) > 1:
        (one, at), (other, there) = list(told.items())[:2]
        raise ChatkvError(
            f"{path}: blocks of {one} tokens (line {at}) and of {other} (line {there}): "
            "split it into a file for each"
        )
    if told:
        (size,) = told
        if wanted not in (None, size):
            raise UsageError(
                f"{path.name} says that its blocks have {size} tokens: --block-size must be {size}"
            )
        return size, "file"
    sizes = [*_USUAL, *_implied(tokens, ids)]
    best = max(sizes, key=lambda size: _likeness(tokens, ids, size))
    likeness = _likeness(tokens, ids, best)
    if wanted is not None:
        if _likeness(tokens, ids, wanted) < likeness:
            raise UsageError(
                f"{path.name} gives hashes of {best}-token blocks: --block-size must be {best} (with that "
                f"go {likeness:,} of {len(ids):,} requests, with {wanted} {_likeness(tokens, ids, wanted):,})"
            )
        return wanted, "option"
    if 2 * likeness < len(ids):
        raise ChatkvError(
            f"{path}: the block size can't be told: {best} tokens goes with {likeness:,} of {len(ids):,} "
            f"requests only ({_mismatch(int(tokens[0]), int(ids[0]), best)}); give --block-size"
        )
    return best, "lengths"


def _mismatch(length: int, ids: int, size: int) -> str:
    return f"input_length {length} does not go with {ids} hash_ids of {size} tokens"


# Lines


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not empty, from 1; of one that is too long, the beginning."""
    try:
        with open_file(path, MAX_BYTES) as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    _skip_line(file)
                if line.strip(b"\xef\xbb\xbf \t\r\n"):
                    yield number, line
    except UnreadableError as error:
        raise ChatkvError(f"{path} {error}") from None
    except OSError as error:
        raise ChatkvError(f"{path}: {error.strerror or error}") from None


def _skip_line(file: BinaryIO) -> None:
    while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
        pass


def _record(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE:
        raise ValueError(f"it has more than {MAX_LINE:,} bytes")
    try:
        # A file that was joined from several has a byte-order mark within, too.
        record = json.loads(line.decode("utf-8").lstrip("\ufeff").strip())
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("not JSON (nested too deep)") from None
    except ValueError:
        raise ValueError("not JSON (a number with too many digits)") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object" + (": one request a line" if isinstance(record, list) else ""))
    return record


def _said(error: Exception) -> str:
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)


def _no_trace(path: Path, why: str) -> ChatkvError:
    told = f" ({why})" if why else ""
    return ChatkvError(
        f"{path}: no line of this file is a request{told}; see chatkv bench trace --help for the forms"
    )
