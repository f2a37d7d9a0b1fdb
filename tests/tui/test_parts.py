"""What needs no screen: figures, folding lines, the feed, names."""

from __future__ import annotations

import pytest

from chatkv.chat.tree import Conversation
from chatkv.kvcache.events import CacheCreated, Event, RequestOpened
from chatkv.tui.chat.figures import answer_parts, ending, fold, seconds, tokens_per_second
from chatkv.tui.chat.messages import cut
from chatkv.tui.chat.who import short_name
from chatkv.tui.chip_row import row_width
from chatkv.tui.feed import Feed
from chatkv.tui.sessions.item import Item, chips
from chatkv.tui.sessions.session import Session


def test_answer_parts() -> None:
    meta = {
        "cached": 384,
        "copied": 12,
        "computed": 22,
        "ttft_s": 0.041,
        "decode_s": 1.0,
        "reason": "stop",
        "prompt_tokens": 406,
    }
    assert answer_parts(meta, 39) == ["reused 384 (12 copied)", "computed 22", "ttft 41 ms", "38.0 tok/s"]
    assert answer_parts({**meta, "copied": 0, "reason": "aborted"}, 1) == [
        "reused 384",
        "computed 22",
        "ttft 41 ms",
        "stopped",
    ]
    assert answer_parts({}, 10) == []
    sure = {"logprob_mean": -0.25, "logprob_least": ["Pa\nris", -4.2]}
    assert answer_parts(sure, 1) == ["log-probability -0.25 a token, least -4.20 at 'Pa ris'"]
    for odd in (None, 3, ["x"], ["x", "y"], [1, 2]):
        assert answer_parts({"logprob_mean": -0.25, "logprob_least": odd}, 1) == [
            "log-probability -0.25 a token"
        ]


def test_why_it_ended_is_told_once() -> None:
    full = {"reason": "cache full"}
    assert ending(full).startswith("the KV pool is full · stop other sessions")
    assert ending({**full, "why": "it fills\x1b all 64 blocks"}) == "it fills all 64 blocks"
    for odd in (None, 3, ["x"], ""):
        assert ending({**full, "why": odd}) == ending(full)
    assert answer_parts(full, 1) == []
    assert ending({"reason": "aborted"}) == ending({"reason": "stop"}) == ending({"reason": ["x"]}) == ""


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "9", True, None, [1], 10**400])
def test_odd_values_in_a_session_file_are_left_out(value: object) -> None:
    assert answer_parts({"cached": value, "ttft_s": value, "decode_s": value}, 5) == []


def test_speed_counts_from_the_first_token() -> None:
    assert tokens_per_second(11, 2.0) == 5.0
    assert tokens_per_second(1, 2.0) is None
    assert tokens_per_second(11, 0.0) is None
    assert tokens_per_second(11, None) is None


def test_seconds() -> None:
    assert [seconds(s) for s in (0.0414, 1.239, 73.2)] == ["41 ms", "1.24 s", "73 s"]


def test_folding_breaks_between_parts() -> None:
    assert fold(["aaaa", "bbbb", "cc"], 11) == ["aaaa │ bbbb", "cc"]
    assert fold(["longer than the width"], 5) == ["longer than the width"]
    assert fold([], 10) == []


def test_a_long_message_is_cut_for_show() -> None:
    assert cut("short") == "short"
    assert cut("x" * 5_000).endswith("… 1,000 more characters (all of it was sent)")
    assert cut("a\n" * 100).count("\n") == 60


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("SmolLM2-135M-Instruct", "smol"),
        ("smollm2-135m", "smollm"),
        ("Qwen/Qwen3-0.6B", "qwen"),
        ("meta-llama/Llama-3.2-1B", "llama"),
        ("/models/123", "model"),
        ("GPT", "gpt"),
    ],
)
def test_short_names(model: str, name: str) -> None:
    assert short_name(model) == name


def test_a_row_is_as_wide_as_it_should_be_with_wide_characters() -> None:
    for name in ("rust", "中文字" * 20, "x" * 60):
        for width in (12, 24, 40):
            row = Item("s1", 3, name, "●", True, 71).row(width)
            assert row.cell_length == width
            assert row.plain.endswith("●  71")


def created(seq: int) -> CacheCreated:
    return CacheCreated(
        seq=seq, num_blocks=4, block_size=16, cache="radix", eviction="lru", grain="node", strict=False
    )


def opened(seq: int) -> Event:
    return RequestOpened(seq=seq, request=seq, session="s1", namespace="", prompt_tokens=3, resumed=False)


def test_a_frozen_feed_keeps_what_comes() -> None:
    feed = Feed()
    feed.take([created(1)], 1.0)
    feed.freeze(True)
    feed.take([opened(2)], 2.0)
    feed.take([opened(3)], 3.0)
    assert (feed.mirror.seq, feed.latest) == (1, 3)
    feed.freeze(False)
    assert (feed.mirror.seq, feed.latest, feed.mirror.gaps) == (3, 3, [])
    assert [e.seq for e in feed.take_recent()] == [1, 2, 3]
    assert feed.take_recent() == []


def test_hit_percent_of_the_last_answer() -> None:
    session = Session("s1", Conversation())
    assert session.hit_percent is None
    session.conversation.append("user", "q")
    session.conversation.append("assistant", "a", meta={"cached": 71, "prompt_tokens": 100})
    assert session.hit_percent == 71
    session.conversation.append("assistant", "a", meta={"cached": 5, "prompt_tokens": 0})
    assert session.hit_percent is None


def test_names_in_chips_are_cut_so_that_all_fit() -> None:
    listed = tuple(Item(f"s{n}", n, "a rather long name of it", " ", n == 1, None) for n in range(1, 5))
    for width in (100, 80, 70, 60, 52):
        assert row_width(chips(listed, width)) <= width
    assert chips(listed, 200)[0].text == "1 a rather long nam…"
    assert chips(listed, 10)[0].text == "1 a rathe…"
