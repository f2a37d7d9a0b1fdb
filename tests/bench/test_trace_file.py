"""What trace files say, in all the forms that they come in: read right, or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatkv.bench import trace_file
from chatkv.bench.trace import TraceResult, run_trace
from chatkv.bench.trace_file import Entry, look_through, read_trace
from chatkv.cli.outcome import invoke
from chatkv.errors import ChatkvError, UsageError
from chatkv.kvcache.kinds import make_cache

DATA = Path(__file__).parents[1] / "data" / "traces"


def written(folder: Path, *lines: dict[str, Any] | str) -> Path:
    path = folder / "t.jsonl"
    path.write_text("".join((it if isinstance(it, str) else json.dumps(it)) + "\n" for it in lines))
    return path


def asked(length: int, *ids: object, **more: object) -> dict[str, Any]:
    return {"timestamp": 0, "input_length": length, "output_length": 1, "hash_ids": list(ids), **more}


def entries(path: Path) -> tuple[list[Entry], list[str]]:
    problems: list[str] = []
    return list(read_trace(look_through(path), problems.append)), problems


def served(path: Path, cache: str = "radix") -> TraceResult:
    trace = look_through(path)
    return run_trace(make_cache(cache, trace.num_blocks, trace.cache_block), trace)


@pytest.mark.parametrize(
    ("name", "size", "hits", "bad"),
    [
        ("u64", 512, [0, 0, 512], []),
        ("bailian", 16, [0, 32, 32], []),
        ("bom", 512, [0, 0], []),  # the last token is always computed, and with it its block
        ("typo", 512, [0, 512], ["2", "4"]),
        ("unordered", 512, [0, 512, 0], []),
    ],
)
@pytest.mark.parametrize("cache", ["radix", "hash"])
def test_files_of_all_kinds(cache: str, name: str, size: int, hits: list[int], bad: list[str]) -> None:
    assert look_through(DATA / f"{name}.jsonl").block_size == size
    result = served(DATA / f"{name}.jsonl", cache)
    assert result.hits == hits
    assert [line.split()[1] for line in result.bad_lines] == bad


@pytest.mark.parametrize(
    "ids",
    [
        [2**63, 2**63 + 1, 2**64 - 1],
        [-(2**63), -1, 2**64 - 1],
        [2**32 + 7, 2**33 + 7, 7],
        [2**53, 2**53 + 1, 2**53 + 2],
        ["a1", "a2", "a"],
        ["1", 1, "01"],
        ["x" * 9 + "\ud800", "x" * 9 + "\ud801", "x" * 9 + "�"],
    ],
)
def test_different_ids_are_different_blocks(tmp_path: Path, ids: list[object]) -> None:
    result = served(written(tmp_path, *(asked(1024, id, 5) for id in (*ids, *ids))))
    assert result.hits == [0] * len(ids) + [512] * len(ids)
    assert result.bad_lines == []


def test_bytes_that_are_no_text_are_no_ids(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    one = json.dumps(asked(1024, "ID", "z")).encode() + b"\n"
    path.write_bytes(one + one.replace(b"ID", b"\xff") + one.replace(b"ID", b"\xfe"))
    found, problems = entries(path)
    assert len(found) == 1
    assert problems == [f"line {n} skipped: not UTF-8 text" for n in (2, 3)]


@pytest.mark.parametrize("size", [16, 64, 512, 100, 1])
@pytest.mark.parametrize("begun", [False, True])
def test_the_block_size_is_what_goes_with_the_lengths(tmp_path: Path, size: int, begun: bool) -> None:
    lengths = [7 * size + size // 3, 20 * size, 31 * size + size - 1, 50 * size + 1]
    lines = [asked(n, *range(-(-n // size) if begun else n // size)) for n in lengths]
    trace = look_through(written(tmp_path, *lines))
    assert (trace.block_size, trace.told_by, trace.requests) == (size, "lengths", 4)
    result = run_trace(make_cache("radix", trace.num_blocks, 1), trace)
    full = [n // size for n in lengths]
    # Each prompt goes on from the one before it, whose last block was full or was not stored.
    assert result.hits == [0, *(size * n for n in full[:3])]
    assert (result.blocks, result.not_admitted, result.evicted_blocks) == (sum(full), 0, 0)


def test_a_last_block_without_an_id_leaves_the_full_ones_to_be_found(tmp_path: Path) -> None:
    floor = served(written(tmp_path, asked(1100, 1, 2), asked(1100, 1, 2), asked(1024, 1, 2), asked(90)))
    assert floor.hits == [0, 1024, 512, 0]
    assert floor.bad_lines == []


@pytest.mark.parametrize(
    "lines",
    [
        [{"block_size": 48}, asked(96, 1, 2), asked(100, 1, 2, 3)],
        [asked(96, 1, 2, block_size=48), asked(100, 1, 2, 3, block_size=48)],
        [{"version": 1, "page_size": 48}, asked(96, 1, 2), asked(100, 1, 2, 3)],
    ],
)
def test_a_file_may_tell_its_block_size(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    path = written(tmp_path, *lines)
    trace = look_through(path)
    assert (trace.block_size, trace.told_by, trace.requests) == (48, "file", 2)
    assert served(path).hits == [0, 96]
    assert look_through(path, 48).told_by == "file"
    with pytest.raises(UsageError, match="says that its blocks have 48 tokens: --block-size must be 48"):
        look_through(path, 16)


def test_two_block_sizes_in_a_file_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, asked(32, 1, 2, block_size=16), asked(128, 1, 2, block_size=64))
    with pytest.raises(ChatkvError, match=r"16 tokens \(line 1\) and of 64 \(line 2\): split it"):
        look_through(path)
    # Told by nobody, the fewer ones are skipped: their ids mean something else.
    lines = [asked(16 * n, *range(n)) for n in (5, 6, 7)]
    found, problems = entries(written(tmp_path, *lines, asked(5 * 512, *range(5))))
    assert [len(entry.prompt) for entry in found] == [5, 6, 7]
    assert problems == ["line 4 skipped: input_length 2560 does not go with 5 hash_ids of 16 tokens"]


def test_an_option_tells_what_the_file_leaves_open(tmp_path: Path) -> None:
    open_to_many = written(tmp_path, asked(600, 1), asked(700, 1))
    assert look_through(open_to_many).block_size == 512
    assert look_through(open_to_many, 1000).block_size == 1000
    odd = written(tmp_path, asked(300, 1), asked(301, 2, 3, 4), asked(9, 4, 5, 6, 7), asked(7, *range(5)))
    with pytest.raises(ChatkvError, match=r"block size can't be told: .* give --block-size"):
        look_through(odd)
    with pytest.raises(UsageError, match=r"hashes of 512-token blocks: .* \(with that go 1 of 1"):
        look_through(written(tmp_path, asked(1024, 1, 2)), 16)


def test_forms_in_one_file_are_kept_apart(tmp_path: Path) -> None:
    tokens = {"session": "s", "prompt": [1, 2, 3], "output": [4]}
    hashes = [asked(1500, 1, 2, 3), asked(1500, 1, 2, 3)]
    found, problems = entries(written(tmp_path, *hashes, tokens))
    assert [entry.scale for entry in found] == [512, 512]
    assert problems == ["line 3 skipped: it has token ids, the requests before it have hash_ids"]
    found, problems = entries(written(tmp_path, tokens, *hashes, tokens))
    assert [(entry.scale, entry.session) for entry in found] == [(1, "s"), (1, "s")]
    assert problems == [
        f"line {n} skipped: it has hash_ids, the requests before it have token ids" for n in (2, 3)
    ]


def test_whose_a_request_is_stays_known(tmp_path: Path) -> None:
    lines = [
        asked(5, 1, session="a"),
        asked(5, 1, session_id="b", chat_id=9),
        asked(5, 1, conversation_id=7),
        asked(5, 1, chat_id=1, parent_chat_id=-1),
        asked(5, 1, chat_id=2, parent_chat_id=1),
        asked(5, 1, chat_id=3, parent_chat_id=2),
        asked(5, 1, chat_id=4, parent_chat_id=77),
        asked(5, 1, session=None),
        asked(5, 1, session=["x"]),
    ]
    found, problems = entries(written(tmp_path, *lines))
    assert [entry.session for entry in found] == ["a", "b", "7", "1", "1", "1", "77", ""]
    assert problems == ["line 9 skipped: session must be text or a whole number"]


BAD: list[tuple[dict[str, Any] | str, str]] = [
    (asked(600, 1, 2.0), "hash_ids must be a list of whole numbers of 64 bits, or of strings"),
    (asked(600, 1, True), "hash_ids must be a list of whole numbers of 64 bits, or of strings"),
    (asked(600, 1, 2**64), "hash_ids must be a list of whole numbers of 64 bits, or of strings"),
    (asked(600, 1, [2]), "hash_ids must be a list of whole numbers of 64 bits, or of strings"),
    ({"input_length": 600, "hash_ids": "12"}, "hash_ids must be a list of whole"),
    ({"input_length": 600}, "'hash_ids' is missing"),
    ({"hash_ids": [1, 2]}, "'input_length' is missing"),
    (asked(0), "input_length must be a whole number from 1, got 0"),
    (asked(2**70, 1, 2), "input_length must be a whole number from 1, got 1180591620717411303424"),
    ({"input_length": 600.0, "hash_ids": [1, 2]}, "input_length must be a whole number from 1, got 600.0"),
    ({"input_length": True, "hash_ids": [1]}, "input_length must be a whole number from 1, got True"),
    ({"text": "hi", "block_size": 0}, "block_size must be a whole number from 1, got 0"),
    ({"ContextTokens": 5, "GeneratedTokens": 6}, "neither hash_ids nor a prompt (it has ContextTokens, Gen"),
    ("{}", "neither hash_ids nor a prompt (it has nothing)"),
    ("[1, 2]", "not a JSON object: one request a line"),
    ("7", "not a JSON object"),
    ('{"input_length": 5, "hash_ids": [1}', "not JSON (Expecting ',' delimiter, column 35)"),
    ('{"input_length": ' + "9" * 5000 + "}", "not JSON (a number with too many digits)"),
    ("[" * 100_000, "not JSON (nested too deep)"),
    ({"prompt": [1], "output": [2**31]}, "output must be a list of whole numbers of 32 bits"),
    ({"prompt": "text", "output": []}, "prompt must be a list of whole numbers of 32 bits"),
    ({"prompt": [], "output": []}, "prompt is empty"),
    ({"prompt": [1]}, "'output' is missing"),
]


@pytest.mark.parametrize(("line", "why"), BAD)
def test_the_reason_of_a_refusal_is_told(
    tmp_path: Path, line: dict[str, Any] | str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["bench", "trace", str(written(tmp_path, line))]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1].startswith(
        f"chatkv: {tmp_path / 't.jsonl'}: no line of this file is a request (line 1: {why}"
    )
    good = (
        {"prompt": [1, 2], "output": [3]} if isinstance(line, dict) and "prompt" in line else asked(600, 1, 2)
    )
    found, problems = entries(written(tmp_path, good, line, good))
    assert len(found) == 2
    assert len(problems) == 1
    assert problems[0].startswith(f"line 2 skipped: {why}")


def test_a_line_that_never_ends_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MAX_LINE", 100)
    found, problems = entries(written(tmp_path, asked(600, 1, 2), "x" * 1000, asked(600, 1, 2)))
    assert len(found) == 2
    assert problems == ["line 2 skipped: it has more than 100 bytes"]


def test_byte_order_marks_wherever_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, asked(600, 1, 2), "﻿" + json.dumps(asked(600, 1, 2)), "﻿")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    found, problems = entries(path)
    assert (len(found), problems) == (2, [])
    path.write_bytes("\n".join(map(json.dumps, [asked(600, 1, 2)])).encode("utf-16"))
    with pytest.raises(ChatkvError, match=r"\(line 1: not UTF-8 text\)"):
        look_through(path)


def test_thousands_of_bad_lines_are_counted(tmp_path: Path) -> None:
    result = served(written(tmp_path, asked(600, 1, 2), *["{"] * 150))
    assert len(result.bad_lines) == 101
    assert result.bad_lines[-1] == "50 more lines skipped"


def test_the_command_tells_where_the_block_size_is_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, asked(1024, 1, 2))
    assert invoke(["bench", "trace", str(path), "--block-size", "16"]) == 2
    assert "512" in capsys.readouterr().err
    for options, source in (([], "lengths"), (["--block-size", "512"], "option")):
        assert invoke(["bench", "trace", str(path), *options]) == 0
        assert f"block_size 512 block_size_from {source}" in " ".join(capsys.readouterr().out.split())
    assert invoke(["bench", "trace", str(tmp_path / "none.jsonl")]) == 1
