"""Conversations as trees, and their names."""

import pytest

from chatkv.chat.errors import ChatError
from chatkv.chat.tree import NAME_LIMIT, UNNAMED, Conversation, clean_name
from chatkv.text import one_line, printable


def test_editing_makes_a_sibling_and_keeps_the_old_branch() -> None:
    conv = Conversation()
    first = conv.append("user", "one")
    answer = conv.append("assistant", "1", token_ids=[5, 6])
    conv.set_head(None)
    edited = conv.append("user", "uno")
    assert [m.text for m in conv.path()] == ["uno"]
    assert conv.siblings(first.id) == [first, edited] == conv.children(None)
    assert conv.path(answer.id) == [first, answer]
    assert conv.latest(first.id) == answer.id
    again = conv.append("assistant", "one", parent=first.id)
    assert conv.siblings(again.id) == [answer, again]
    assert conv.head == conv.latest(first.id) == again.id


def test_what_is_not_there_is_told() -> None:
    conv = Conversation(name="mine")
    message = conv.append("user", "x")
    for wrong in (
        lambda: conv.set_head("nope"),
        lambda: conv.path("nope"),
        lambda: conv.append("user", "y", parent="nope"),
        lambda: conv.add(message),
    ):
        with pytest.raises(ChatError, match="session 'mine'"):
            wrong()
    assert list(conv.messages) == [message.id] == [conv.head]


def test_sampled_ids_belong_to_their_model() -> None:
    message = Conversation().append("assistant", "hi", token_ids=[1, 2], meta={"model": "a"})
    assert message.ids_for("a") == (1, 2)
    assert message.ids_for("b") is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hello there", "Hello there"),
        ("  one\ntwo\tthree  ", "one two three"),
        ("one two three four five six seven", "one two three four five six…"),
        ("x" * 5000, "x" * (NAME_LIMIT - 1) + "…"),
        ("\x1b]52;c;aGk=\x07 \u202eabc", "]52;c;aGk= abc"),
        ("中文聊天", "中文聊天"),
        ("\x00\n", UNNAMED),
    ],
)
def test_the_default_name_is_the_first_words(text: str, name: str) -> None:
    conv = Conversation()
    assert conv.name == UNNAMED
    conv.append("system", "not me")
    conv.append("user", text)
    assert conv.name == name
    assert len(conv.name) <= NAME_LIMIT


def test_a_given_name_is_one_line_and_not_empty() -> None:
    assert clean_name(" a\r\nb\x9b31m ") == "a b31m"
    assert len(clean_name("é" * 1000)) == NAME_LIMIT
    for empty in ("", " \n", "\x1b", "\u2028"):
        with pytest.raises(ChatError, match="can't be empty"):
            clean_name(empty)


def test_printable_keeps_text_and_drops_controls() -> None:
    assert printable("a\tb\r\nc\rd\x00\x1b[0m\x85\x7f\ud800é") == "a\tb\nc\nd[0m\ufffdé"
    assert printable("a\u202egnp.\u2066b\u2069\u200e\u200f\u061c\u202a") == "agnp.b"
    assert printable("👩\u200d💻 שלום") == "👩\u200d💻 שלום"
    assert one_line("a\u202e\u2028b") == "a b"
    assert one_line("a" * 59 + " " + "b" * 10**6) == "a" * 59 + "…"
    assert one_line("a" * 60) == "a" * 60
