"""Chinese and Japanese fill their lines; everything else breaks as before."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatkv.tui.wrapping import _CLOSING, _OPENING, _typed_pieces, _words, pieces
from tests.tui.helpers import Bench


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I said 你好世界", ["I ", "said ", "你", "好", "世", "界"]),
        ("好，再见。end", ["好，", "再", "见。", "end"]),
        ("他说「你好」吗（abc）", ["他", "说", "「你", "好」", "吗", "（abc）"]),
        ("カード一枚", ["カー", "ド", "一", "枚"]),
        ("한국어는 띄어쓰기", ["한국어는 ", "띄어쓰기"]),
        ("ends with （", ["ends ", "with ", "（"]),
        ("。", ["。"]),
        ("か\u3099中\ufe00文", ["か\u3099", "中\ufe00", "文"]),
    ],
)
def test_pieces(text: str, parts: list[str]) -> None:
    assert [piece for _, _, piece in pieces(text)] == parts


@given(st.text(alphabet="ab (.，。「」中文ー한 \u3000\n\t👩\u200d\u0301", max_size=30))
def test_nothing_is_lost_and_marks_stay_where_they_belong(text: str) -> None:
    found = list(pieces(text))
    if text.strip():
        assert "".join(piece for _, _, piece in found) == text
    for start, end, piece in found:
        assert text[start:end] == piece
    for (_, _, one), (_, _, other) in itertools.pairwise(found):
        assert one[-1] not in _OPENING or other[0] in _OPENING
        assert other[0] not in _CLOSING or one[-1].isspace() or one[-1] in _OPENING


@given(st.text(alphabet="ab (.[]\n\t-한👩é", max_size=30))
def test_what_has_spaces_breaks_at_them_as_before(text: str) -> None:
    assert list(pieces(text)) == list(_words(text))


@given(st.text(alphabet="ab ，「中한 \t👩", max_size=30))
def test_what_is_typed_stays_whole(text: str) -> None:
    found = list(_typed_pieces(text))
    assert "".join(piece for _, _, piece in found) == text
    assert all(text[start:end] == piece for start, end, piece in found)


async def test_a_sentence_begins_where_there_is_room(tmp_path: Path) -> None:
    text = "I said " + "你好世界这是一个很长的句子" * 4
    bench = Bench(tmp_path, script=lambda request: text)
    async with bench.run(size=(80, 24)):
        await bench.press("c", "space", *("你好世界" * 18))
        assert bench.app.main.prompt.wrapped_document.height == 2
        bench.app.main.prompt.load("")
        await bench.ask(text)
        assert "you    I said 你好世界" in bench.screen_text
        assert "smol   I said 你好世界" in bench.screen_text
