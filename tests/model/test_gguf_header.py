"""Counts, lengths and offsets that a GGUF file can't have."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatkv.model.errors import ModelError
from chatkv.model.gguf_header import Header, read_header
from tests.model.gguf_files import write_gguf

HUGE = 2**40


def text(value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def array(kind: int, count: int, data: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + data


def tensor(name: str, shape: list[int], kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def file(
    keys: list[bytes],
    tensors: list[bytes],
    data: int = 256,
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, *(counts or (len(tensors), len(keys))))
    head += b"".join([*keys, *tensors])
    return head + bytes(-len(head) % 32) + bytes(data)


GOOD = file([key("a", 4, struct.pack("<I", 7))], [tensor("t", [32, 2])])

HOSTILE: list[tuple[bytes, str]] = [
    (b"", "is not a GGUF file"),
    (b"GGUF", "it ends inside the version"),
    (file([], [], version=1), "its version is 1, and only"),
    (file([], [], version=3 << 24), "its bytes are in big-endian order"),
    (file([], [], counts=(HUGE, 0)), "tensors: 1,099,511,627,776, more than the file has room for"),
    (file([], [], counts=(0, 2**64 - 1)), "keys: 18,446,744,073,709,551,615, more than the file"),
    (file([], [], data=2_000_000, counts=(70_000, 0)), "tensors: 70,000; at most 65,536 are read"),
    (file([key("a", 9, array(4, HUGE))], []), "a: elements: 1,099,511,627,776, more than the file"),
    (file([key("a", 9, array(8, HUGE))], []), "a: elements: 1,099,511,627,776, more than the file"),
    (file([key("a", 9, array(0, 5_000_000))], [], 6_000_000), "a: elements: 5,000,000; at most 4,194,304"),
    (file([key("a", 9, array(9, 1, array(9, 1)))], []), "a has a value of type 9, which is not known"),
    (file([key("a", 13, b"")], []), "a has a value of type 13, which is not known"),
    (file([key("a", 8, struct.pack("<Q", 2**63))], []), "a has 9,223,372,036,854,775,808 bytes; at most"),
    (file([key("a", 8, struct.pack("<Q", 5000))], []), "it ends inside a"),
    (file([struct.pack("<Q", HUGE)], []), "a key has 1,099,511,627,776 bytes; at most"),
    (file([key("a", 8, text(b"\xff\xff"))], []), "a is not UTF-8 text"),
    (file([key("a", 7, b"\1"), key("a", 7, b"\0")], []), "a is there twice"),
    (file([key("general.alignment", 4, struct.pack("<I", 3))], []), "alignment must be a power of 2, got 3"),
    (file([key("general.alignment", 4, struct.pack("<I", 1 << 31))], []), "alignment must be a power of 2"),
    (file([], [tensor("t", [])]), "tensor t has 0 dimensions; 1 to 4"),
    (file([], [text("t") + struct.pack("<I", 2**31)]), "tensor t has 2147483648 dimensions; 1 to 4"),
    (file([], [tensor("t", [HUGE, HUGE, HUGE, HUGE])]), "which is not in a file of"),
    (file([], [tensor("t", [0, 4])]), "which is not in a file of"),
    (file([], [tensor("t", [32, 2], kind=99)]), "tensor t is of type 99, which is not known"),
    (file([], [tensor("t", [33], kind=2)]), "tensor t has rows of 33, which are no blocks of 32"),
    (file([], [tensor("t", [32, 2], offset=2**63)]), "tensor t ends 9,223,372,036,854,775,808 bytes behind"),
    (file([], [tensor("t", [32, 2], offset=32)]), "tensor t ends 32 bytes behind the end of the file"),
    (file([], [tensor("t", [8]), tensor("t", [8], offset=32)]), "tensor t is there twice"),
    (file([], [tensor("t", [16]), tensor("u", [16], offset=32)]), "tensor u lies over another"),
    (file([], [tensor(f"t{i}", [64]) for i in range(50)]), "lies over another"),
]  # fmt: skip


def read(folder: Path, content: bytes) -> Header:
    path = folder / "m.gguf"
    path.write_bytes(content)
    return read_header(path)


def test_a_small_header(tmp_path: Path) -> None:
    header = read(tmp_path, GOOD)
    assert header.metadata == {"a": 7}
    assert header.tensors["t"].shape == (32, 2)
    assert header.tensors["t"].data.shape == (2, 128)


@pytest.mark.parametrize(("content", "says"), HOSTILE, ids=[says for _, says in HOSTILE])
def test_what_can_not_be_is_refused_before_memory_is_taken(content: bytes, says: str, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ModelError) as caught:
            read(tmp_path, content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    told = str(caught.value)
    assert says in told
    assert told.startswith(str(tmp_path / "m.gguf"))
    assert "\n" not in told
    assert peak < 2 * len(content) + (1 << 20)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_it_reads_what_the_gguf_package_reads(name: str, tmp_path: Path) -> None:
    extra: dict[str, Any] = {
        "x.floats": [0.5, -1.5],
        "x.words": ["a", "é☃"],
        "x.one": 2.5,
        "x.whole": [1, -2],
    }
    write_gguf(tmp_path / "m.gguf", name, extra=extra, quantised=gguf.GGMLQuantizationType.Q8_0)
    theirs = gguf.GGUFReader(tmp_path / "m.gguf")
    ours = read_header(tmp_path / "m.gguf")
    want = {k: f.contents() for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert ours.metadata == want
    assert [*ours.tensors] == [t.name for t in theirs.tensors]
    for each in theirs.tensors:
        mine = ours.tensors[each.name]
        assert (mine.shape, mine.kind) == (tuple(each.shape.tolist()), each.tensor_type)
        assert mine.data.tobytes() == each.data.tobytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    write_gguf(path)
    return path.read_bytes()


_ODD = st.sampled_from([0, 1, 2, 7, 8, 9, 255, 2**16, 2**31, 2**32 - 1, HUGE, 2**63, 2**64 - 1])
_CHANGES = st.lists(st.tuples(st.integers(0, 2000), _ODD, st.sampled_from(["<B", "<I", "<Q"])), max_size=4)


def _reads_or_tells(
    folder: Path, content: bytes, changes: list[tuple[int, int, str]], cut: int | None
) -> None:
    damaged = bytearray(content)
    for at, value, form in changes:
        size = struct.calcsize(form)
        if at + size <= len(damaged):
            damaged[at : at + size] = struct.pack(form, value % 256**size)
    told = ""
    try:
        read(folder, bytes(damaged[:cut]))
    except ModelError as error:
        told = str(error)
    assert "\n" not in told


@given(changes=_CHANGES, cut=st.none() | st.integers(0, 3000))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_read_or_refused(
    whole: bytes, tmp_path: Path, changes: list[tuple[int, int, str]], cut: int | None
) -> None:
    _reads_or_tells(tmp_path, GOOD, changes, cut)
    _reads_or_tells(tmp_path, whole, changes, cut)


@pytest.mark.nightly
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 60_000), _ODD, st.sampled_from(["<B", "<I", "<Q"])), max_size=8
    ),
    cut=st.none() | st.integers(0, 100_000),
)
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_damage_long(
    whole: bytes, tmp_path: Path, changes: list[tuple[int, int, str]], cut: int | None
) -> None:
    _reads_or_tells(tmp_path, whole, changes, cut)
