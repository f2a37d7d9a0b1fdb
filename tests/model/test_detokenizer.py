from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatkv.model.tokenizer import Codec
from tests.model.templates import FAMILIES, make


@pytest.fixture(scope="module", params=FAMILIES)
def codec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Codec:
    return Codec.load(make(request.param, tmp_path_factory.mktemp(request.param)))


def pushes(codec: Codec, ids: list[int]) -> list[str]:
    detokenizer = codec.detokenizer()
    return [*(detokenizer.push(i) for i in ids), detokenizer.flush()]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.integers(0, 430), max_size=40))
def test_the_parts_add_up_for_any_ids(codec: Codec, ids: list[int]) -> None:
    assert "".join(pushes(codec, ids)) == codec.decode(ids)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=30))
def test_no_part_ends_in_half_a_character(codec: Codec, text: str) -> None:
    parts = pushes(codec, codec.encode_text(text))
    assert "".join(parts).count("\ufffd") == codec.decode(codec.encode_text(text)).count("\ufffd")
    assert "".join(parts) == codec.decode(codec.encode_text(text))


def test_a_character_over_several_tokens_comes_whole(codec: Codec) -> None:
    parts = pushes(codec, codec.encode_text("a😀b"))
    assert [p for p in parts if p] in (["a", "😀", "b"], ["a", "😀b"])


def test_an_answer_cut_inside_a_character_ends_in_a_replacement(codec: Codec) -> None:
    ids = codec.encode_text("a😀")[:-1]
    parts = pushes(codec, ids)
    assert set(parts[-1]) == {"\ufffd"}
    assert "".join(parts) == codec.decode(ids)


def test_special_tokens_and_unknown_ids_are_silent(codec: Codec) -> None:
    stop = min(codec.stop_ids)
    ids = [stop, *codec.encode_text("the fox"), stop, 100_000, *codec.encode_text(" x")]
    assert "".join(pushes(codec, ids)) == codec.decode(ids)


def test_pieces_are_for_the_eye(codec: Codec) -> None:
    assert codec.piece(min(codec.stop_ids)).strip("<|/>[]_") != ""
    assert codec.piece(100_000) == "<100000>"
    shown = "".join(codec.piece(i) for i in codec.encode_text("the fox"))
    assert shown.strip() == "the fox"
    cut = [codec.piece(i) for i in codec.encode_text("😀")]
    assert "".join(cut).strip().lower() in ("\\xf0\\x9f\\x98\\x80", "<0xf0><0x9f><0x98><0x80>")
