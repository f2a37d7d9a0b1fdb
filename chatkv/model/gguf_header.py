"""The header of a GGUF file: every count, length and offset in it is checked against the file's size first.

The gguf package's own reader believes them: a count of 2^40 fills the memory before anything is read.
"""

from __future__ import annotations

import math
import mmap
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chatkv.files import UnreadableError, open_file
from chatkv.model.errors import ModelError
from chatkv.model.lfs import refuse_pointer
from chatkv.text import one_line

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", _BOOL: "B", 10: "Q", 11: "q", 12: "d"}
"""Type of a value → its struct code."""

MAX_KEYS = 65_536
MAX_TENSORS = 65_536
MAX_ELEMENTS = 4_194_304
"""Of all arrays together; the largest vocabularies and their merges have a million."""
MAX_STRING = 1 << 24
MAX_NAME = 65_535
_MAX_DIMENSIONS = 4


class Tensor(NamedTuple):
    """A tensor whose bytes are all in the file. ``shape``: the fastest dimension first, as GGUF has it."""

    name: str
    kind: int
    """``gguf.GGMLQuantizationType``."""
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8]
    """``[rows, bytes of a row]``, mapped from the file."""


class Header(NamedTuple):
    """What a GGUF file says about itself, and where its tensors are."""

    metadata: dict[str, Any]
    tensors: dict[str, Tensor]


def read_header(path: Path) -> Header:
    """Read and check ``path``; raises ModelError where it is no GGUF file, or a broken one."""
    try:
        with open_file(path) as file:
            if file.read(4) != _MAGIC:
                refuse_pointer(path)
                raise ModelError(
                    f"{path} is not a GGUF file; download it again, or give a Hugging Face folder"
                )
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except UnreadableError as error:
        raise ModelError(f"{path} {error}") from None
    except OSError as error:
        raise ModelError(f"can't read {path}: {error.strerror or error}") from None
    try:
        return _Walk(mapped).header()
    except _BrokenError as error:
        raise ModelError(f"{path} is a broken GGUF file: {error}; download it again") from None


class _BrokenError(Exception):
    pass


class _Walk:
    """Reads on from ``_at``, never behind the file's end."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._at, self._elements = data, len(_MAGIC), 0

    def header(self) -> Header:
        version = self._number("I", "the version")
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
            told = "its bytes are in big-endian order" if swapped else f"its version is {version}"
            raise _BrokenError(f"{told}, and only versions 2 and 3 in little-endian order are read")
        # A tensor takes at least 28 bytes here, a key with its value 13.
        tensors = self._count("tensors", 28, MAX_TENSORS)
        keys = self._count("keys", 13, MAX_KEYS)
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            key = self._string("a key", MAX_NAME)
            if key in metadata:
                raise _BrokenError(f"{_shown(key)} is there twice")
            metadata[key] = self._value(key)
        return Header(metadata, self._tensors(tensors, metadata))

    def _tensors(self, count: int, metadata: dict[str, Any]) -> dict[str, Tensor]:
        described = [self._description() for _ in range(count)]
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
            raise _BrokenError(f"general.alignment must be a power of 2, got {_shown(alignment)}")
        start = -(-self._at // alignment) * alignment
        tensors: dict[str, Tensor] = {}
        end = 0
        for name, shape, kind, offset, row, rows in sorted(described, key=lambda each: each[3]):
            if name in tensors:
                raise _BrokenError(f"tensor {_shown(name)} is there twice")
            if offset < end:
                raise _BrokenError(f"tensor {_shown(name)} lies over another")
            end = offset + row * rows
            if start + end > len(self._data):
                missing = start + end - len(self._data)
                raise _BrokenError(f"tensor {_shown(name)} ends {missing:,} bytes behind the end of the file")
            data = np.frombuffer(self._data, np.uint8, row * rows, start + offset).reshape(rows, row)
            tensors[name] = Tensor(name, kind, shape, data)
        return {each[0]: tensors[each[0]] for each in described}

    def _description(self) -> tuple[str, tuple[int, ...], int, int, int, int]:
        """Name, shape, kind, offset, bytes of a row, rows."""
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        name = self._string("a tensor's name", MAX_NAME)
        where = f"tensor {_shown(name)}"
        dimensions = self._number("I", where)
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise _BrokenError(f"{where} has {dimensions} dimensions; 1 to {_MAX_DIMENSIONS} are read")
        shape = tuple(self._number("Q", where) for _ in range(dimensions))
        kind, offset = self._number("I", where), self._number("Q", where)
        try:
            block, size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        except (KeyError, ValueError):
            raise _BrokenError(f"{where} is of type {kind}, which is not known") from None
        elements = math.prod(shape)
        if not 1 <= elements <= len(self._data) // size * block:
            raise _BrokenError(
                f"{where} is {list(shape)}, which is not in a file of {len(self._data):,} bytes"
            )
        if shape[0] % block:
            raise _BrokenError(f"{where} has rows of {shape[0]}, which are no blocks of {block}")
        return name, shape, kind, offset, shape[0] // block * size, elements // shape[0]

    def _value(self, key: str) -> Any:
        kind = self._number("I", _shown(key))
        if kind == _STRING:
            return self._string(_shown(key), MAX_STRING)
        if kind != _ARRAY:
            return self._numbers(key, kind, 1)[0]
        kind = self._number("I", _shown(key))
        least = 8 if kind == _STRING else self._size(key, kind)
        count = self._count(f"{_shown(key)}: elements", least, MAX_ELEMENTS - self._elements)
        self._elements += count
        if kind == _STRING:
            return [self._string(_shown(key), MAX_STRING) for _ in range(count)]
        return self._numbers(key, kind, count)

    def _numbers(self, key: str, kind: int, count: int) -> list[Any]:
        size = self._size(key, kind)
        values = struct.unpack(f"<{count}{_NUMBERS[kind]}", self._bytes(size * count, _shown(key)))
        return [value != 0 for value in values] if kind == _BOOL else list(values)

    def _size(self, key: str, kind: int) -> int:
        if kind not in _NUMBERS:
            raise _BrokenError(f"{_shown(key)} has a value of type {kind}, which is not known here")
        return struct.calcsize(f"<{_NUMBERS[kind]}")

    def _count(self, what: str, least: int, limit: int) -> int:
        """A count of things of ``least`` bytes each."""
        count = self._number("Q", what)
        if count > (len(self._data) - self._at) // least:
            raise _BrokenError(f"{what}: {count:,}, more than the file has room for")
        if count > limit:
            raise _BrokenError(f"{what}: {count:,}; at most {limit:,} are read")
        return count

    def _string(self, what: str, limit: int) -> str:
        length = self._number("Q", what)
        if length > limit:
            raise _BrokenError(f"{what} has {length:,} bytes; at most {limit:,} are read")
        try:
            return self._bytes(length, what).decode()
        except UnicodeDecodeError:
            raise _BrokenError(f"{what} is not UTF-8 text") from None

    def _number(self, code: str, what: str) -> int:
        value: int = struct.unpack(f"<{code}", self._bytes(struct.calcsize(f"<{code}"), what))[0]
        return value

    def _bytes(self, count: int, what: str) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise _BrokenError(f"it ends inside {what}")
        data, self._at = self._data[self._at : end], end
        return data


def _shown(value: object) -> str:
    return one_line(value if isinstance(value, str) else repr(value), 80)
