from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatkv.insight.visible import cells, cut, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\nc\td", "a↵b↵c⇥d"),
        ("\x1b]52;c;xx\x07", "␛]52;c;xx␇"),
        ("\x00\x7f\x85\x9b31m", "␀␡↵31m"),
        ("\u2028\u2029", "↵↵"),
        ("abc\u202egnp.\u2066x\u200b\ufeff", "abcgnp.x"),
        ("\ud800\ufffe", "\ufffd\ufffd"),
        ("👩\u200d💻 雪", "👩\u200d💻 雪"),
        ("[/b] &lt; <|im_end|>", "[/b] &lt; <|im_end|>"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_that_acts_on_a_terminal_or_breaks_a_line_is_left(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in shown)
    assert not any(
        unicodedata.bidirectional(char) in ("RLO", "LRO", "RLE", "LRE", "RLI", "LRI") for char in shown
    )
    assert visible(shown) == shown


@given(st.text(), st.integers(1, 30))
def test_a_cut_text_fits(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert cells(short) <= limit
    assert short == visible(text) or short.endswith("…")


def test_cells_of_wide_and_combining_characters() -> None:
    assert cells("雪a") == 3
    assert cells("e\u0301") == 1
    assert cut("雪雪雪", 4) == "雪…"
    assert cut("x" * 1_000_000, 5) == "xxxx…"
