"""Traces through the cache core, with the numbers that other implementations give on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chatkv.bench.trace import run_trace
from chatkv.bench.trace_file import look_through
from chatkv.cli.outcome import invoke
from chatkv.kvcache.kinds import make_cache

DATA = Path(__file__).parents[1] / "data"
# Third-party traces are not ours to copy: they are read where they lie beside the repository.
PUBLIC = Path(__file__).parents[3] / "shared" / "fixtures" / "traces"


def public(name: str) -> Path:
    path = PUBLIC / name
    if not path.is_file():
        pytest.skip(f"the public trace {name} is not on this machine")
    return path


@pytest.mark.parametrize("cache", ["radix", "hash"])
@pytest.mark.parametrize(
    ("blocks", "hits"), [(1_000, 12_990), (10_000, 62_005), (20_000, 84_692), (None, 105_592)]
)
def test_mooncake_block_by_block_from_the_leaves(cache: str, blocks: int | None, hits: int) -> None:
    trace = look_through(public("mooncake_conversation.jsonl"))
    assert (trace.block_size, trace.requests) == (512, 12_031)
    pool = blocks or trace.num_blocks
    result = run_trace(make_cache(cache, pool, 1, strict=True, grain="block"), trace)
    assert result.requests == 12_031
    assert (result.hit_blocks, result.blocks) == (hits, 276_491)
    assert result.hit_tokens == 512 * hits == sum(result.hits)
    assert (result.evicted_blocks == 0) == (blocks is None)
    assert result.bad_lines == []


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize(("name", "hits"), [("roundrobin", 0), ("shuffled", 10_752)])
def test_shared_prefixes_through_2048_tokens(name: str, hits: int, size: int) -> None:
    result = run_trace(make_cache("radix", 2048 // size, size, strict=True), DATA / f"wl_gsp_{name}.jsonl")
    assert (result.hit_tokens, result.tokens) == (hits, 18_432)


@pytest.mark.parametrize(("size", "hits"), [(1, 19_304), (16, 17_216)])
def test_short_chats_lose_by_rounding(size: int, hits: int) -> None:
    path = public("wl_dummyconv_rr.jsonl")
    pool = look_through(path, size).num_blocks
    result = run_trace(make_cache("radix", pool, size, strict=True), path)
    assert (result.hit_tokens, result.tokens) == (hits, 21_988)
    exact = run_trace(make_cache("radix", pool, size), path)
    assert exact.hit_tokens >= 19_304  # copied slots make up for it, and a little more
    assert (exact.copied_tokens > 0) == (size > 1)


def test_without_a_cache_nothing_is_hit() -> None:
    result = run_trace(make_cache("none", 4096, 1), DATA / "wl_gsp_shuffled.jsonl")
    assert (result.hit_tokens, result.evicted_blocks, result.not_admitted) == (0, 0, 0)


def test_what_can_not_fit_is_not_admitted_and_bad_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines = [
        '{"session": "a", "turn": 0, "prompt": [1, 2, 3, 4, 5], "output": [6]}',
        "{torn",
        "[1, 2]",
        '{"prompt": [], "output": [1]}',
        '{"prompt": [1], "output": ["x"]}',
        '{"prompt": [1]}',
        '{"prompt": [9999999999], "output": [1]}',
        "",
        '{"session": "a", "turn": 1, "prompt": [1, 2, 3, 4, 5, 6, 7], "output": []}',
        json.dumps({"prompt": list(range(50)), "output": [1]}),
    ]
    path.write_text("\n".join(lines))
    result = run_trace(make_cache("radix", 4, 4), path)
    assert (result.requests, result.not_admitted) == (3, 1)
    assert result.hits == [0, 5, 0]
    assert [line.split()[1] for line in result.bad_lines] == ["2", "3", "4", "5", "6", "7"]


def test_the_command_writes_what_it_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    trace = str(DATA / "wl_gsp_shuffled.jsonl")
    code = invoke(["bench", "trace", trace, "--num-blocks", "128", "--strict-blocks", "--json", str(out)])
    assert code == 0
    shown = capsys.readouterr().out
    assert "58.33" in shown
    assert "node" in shown
    written = json.loads(out.read_text())
    assert written["settings"]["evict_grain"] == "node"
    assert written["hit_tokens"] == sum(written["hits"]) == 10_752


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--cache", "lru"], 2, "--cache"),
        (["--eviction", "rand"], 2, "lru, lfu"),
        (["--evict-grain", "leaf"], 2, "node, block"),
        (["--cache", "hash", "--eviction", "lfu"], 2, "lru"),
        (["--num-blocks", "0"], 2, "--num-blocks"),
        (["--num-blocks", str(2**26 + 1)], 2, "--num-blocks"),
    ],
)
def test_a_bad_option_is_one_line(
    options: list[str], code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["bench", "trace", str(DATA / "wl_gsp_shuffled.jsonl"), *options]) == code
    error = capsys.readouterr().err
    assert word in error
    assert error.count("\n") == 1
