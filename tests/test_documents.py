"""JSON and TOML from outside: bounds, and messages that name the field."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatkv.documents import DEPTH, DIGITS, DocumentError, parse_json, parse_toml

NINES = "9" * 400


def nested(levels: int, inside: str = "") -> str:
    return "[" * levels + inside + "]" * levels


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON (line 1, column 1: Expecting value)"),
        ('{"a": 1,\n "b"', "is not JSON (line 2, column 5: Expecting ':' delimiter)"),
        (f'{{"a": {{"b": [1, {NINES}]}}}}', "a.b: a number of 400 digits; at most 20 are read"),
        (f'{{"a": -{"9" * 5000}}}', "a: a number of 5000 digits; at most 20 are read"),
        (f'{{"a": 0.{"1" * 2000}}}', "a: a number of 2,002 characters; at most 1,100 are read"),
        ('{"a": 1, "b": 1e999}', "b: 1e999 is too large for a number"),
        ('{"b": -1E+0400}', "b: -1E+0400 is too large for a number"),
        ('{"a": [NaN]}', "a: NaN is no JSON number"),
        ("-Infinity", "-Infinity is no JSON number"),
        (nested(DEPTH + 1), "lists and objects are nested more than 100 deep"),
        (f'{{"x": {{}}, "a": {{"b": {nested(DEPTH)}}}}}', "a.b: lists and objects are nested more than"),
        ('{"a": [' * 50_000, "a.a.a.a.a.a: lists and objects are nested more than 100 deep"),
        ("[" * 100_000, "lists and objects are nested more than 100 deep"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_json(text: str, says: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_json(text)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    "value",
    [
        2**64 - 1, -(2**63), 0.1, 1e308, 5e-324, 1e300, [], {}, None, True, "e100",
        {"a": [1, 2.5, {"b": None}], "e1234": "9" * 50},
        {"long": "[" * 500 + "{" * 500 + "9" * 500, "escaped": '"\\"[[[[', "wide": "é\ud83d☃"},
    ],
)  # fmt: skip
def test_what_json_can_say_is_read_as_ever(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert parse_json(text) == value
    assert parse_json(nested(DEPTH - 1, "1"))


def test_transformers_own_constants_where_they_are_meant() -> None:
    assert parse_json('{"a": -Infinity}', constants=True) == {"a": float("-inf")}
    with pytest.raises(DocumentError, match="a: 1e999 is too large"):
        parse_json('{"b": Infinity, "a": 1e999}', constants=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = ", "is not TOML: Invalid value (at end of document)"),
        (f"[run]\ntop_p = {NINES}", "run.top_p: a number of 400 digits; at most 20 are read"),
        (f"a = [1, [-{NINES}]]", "a: a number of 400 digits; at most 20 are read"),
        (f"x = 1\na = 0x{'f' * 20_000}", "a: a number of thousands of digits; at most 20 are read"),
        (f"x = 1\na = {'9' * 5000}", "line 2: a number of thousands of digits; at most 20 are read"),
        (f"x = 1\na = {'1_' * 5000}0", "line 2: a number of thousands of digits; at most 20 are read"),
        (f"a = {nested(DEPTH + 1)}", "values are nested more than 100 deep"),
        (f"a = {nested(50_000)}", "values are nested more than 100 deep"),
        ("a = {" + "b = {" * 50_000, "values are nested more than 100 deep"),
        ("\n" + "a." * 100_000 + "a = 1", "line 2: a key of more than 20 parts"),
        ("[" + '"a" . ' * 100_000 + "a]", "line 1: a key of more than 20 parts"),
        ("x = {" + "'a'.b." * 100_000 + "a = 1}", "line 1: a key of more than 20 parts"),
    ],
)
def test_what_is_wrong_with_toml(text: str, says: str) -> None:
    before = time.process_time()
    with pytest.raises(DocumentError) as caught:
        parse_toml(text)
    assert str(caught.value) == says
    # Where a key of so many parts is not noticed, this is minutes and gigabytes.
    assert time.process_time() - before < 20


def test_prose_in_toml_may_have_dots() -> None:
    prose = "One. Two. Three words. " * 50 + "..." * 50
    assert parse_toml(f'a = "{prose}"\nb = """\n{prose}\n"""\n[x.y.z]\nw.v = 1.5') == {
        "a": prose,
        "b": prose + "\n",
        "x": {"y": {"z": {"w": {"v": 1.5}}}},
    }


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**DIGITS) + 1, 10**DIGITS - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)
_WORDS = ["9" * 30, "1e400", "NaN", "true", "0x", '"a"', '"a":', "a", "a.", "[a]", "a=", "[[", "{{", '"""']
_PARTS = st.sampled_from([*"{}[]:,\"\\1-.=\n'e \u00e9\ud83d", *_WORDS])
_TIMES = st.integers(1, 3) | st.sampled_from([101, 1500])


@given(value=_VALUES, indent=st.none() | st.integers(0, 2))
@settings(max_examples=100, deadline=None)
def test_every_json_value_is_read(value: Any, indent: int | None) -> None:
    assert parse_json(json.dumps(value, indent=indent)) == value


def _reads_or_tells(text: str) -> None:
    for parse in (parse_json, parse_toml):
        try:
            parse(text)
        except DocumentError as error:
            told = str(error)
            assert told
            assert "\n" not in told
            assert len(told) < 400
    with suppress(DocumentError):
        parse_json(text, constants=True)


@given(parts=st.lists(st.tuples(_PARTS, _TIMES), max_size=12))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_is_read_or_refused_in_one_line(parts: list[tuple[str, int]]) -> None:
    _reads_or_tells("".join(part * times for part, times in parts))


@pytest.mark.nightly
@given(parts=st.lists(st.tuples(_PARTS, _TIMES | st.just(20_000)), max_size=30))
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_long(parts: list[tuple[str, int]]) -> None:
    _reads_or_tells("".join(part * times for part, times in parts))
