"""Conversations that a strict chat template refuses, or drops a part of: nothing that was said is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.model.template import ChatTemplate
from chatkv.model.tokenizer import Codec
from chatkv.model.wordings import Message, wordings
from tests.model.templates import make
from tests.model.test_codec import Turn

STRICT = (
    "{%- for m in messages -%}"
    "{%- if m.role != ('user', 'assistant')[loop.index0 % 2] -%}"
    "{{ raise_exception('must alternate') }}{%- endif -%}"
    "{{ '<' + m.role + '>' + m.content }}"
    "{%- endfor -%}{{ '<assistant>' if add_generation_prompt }}"
)
"""User and assistant in turns, nothing else."""
ONE_SYSTEM = (
    "{%- if messages[0].role == 'system' -%}{{ '<system>' + messages[0].content }}"
    "{%- set messages = messages[1:] -%}{%- endif -%}" + STRICT
)
DROPS = (
    "{%- for m in messages -%}{%- if m.role != 'system' -%}{{ '<' + m.role + '>' + m.content }}{%- endif -%}"
    "{%- endfor -%}{{ '<assistant>' if add_generation_prompt }}"
)
"""System messages are left out without a word."""
DROPS_LATER = (
    "{%- if messages[0].role == 'system' -%}{{ '<system>' + messages[0].content }}{%- endif -%}" + DROPS
)
ANY = "{%- for m in messages -%}{{ '<' + m.role + '>' + m.content }}{%- endfor -%}<assistant>"


def shown(template: str, *messages: tuple[str, str]) -> str:
    pieces = ChatTemplate(template, {}).pieces([Message(role, text) for role, text in messages])
    return "".join(piece.text for piece in pieces)


S, S2, U, A, V = ("system", "s"), ("system", "t"), ("user", "u"), ("assistant", "a"), ("user", "v")


@pytest.mark.parametrize(
    ("messages", "strict", "with_system"),
    [
        ([S, U], "<user>s\n\nu", "<system>s<user>u"),
        ([S, S2, U], "<user>s\n\nt\n\nu", "<system>s<user>t\n\nu"),
        ([U, A, S, V], "<user>u<assistant>a<user>s\n\nv", None),
        ([U, A, V, S], "<user>u<assistant>a<user>v\n\ns", None),
        ([U, S, V], "<user>u\n\ns\n\nv", None),
        ([U, A, S, A, V], "<user>u<assistant>a<user>s<assistant>a<user>v", None),
        (
            [S, U, A, S2, V],
            "<user>s\n\nu<assistant>a<user>t\n\nv",
            "<system>s<user>u<assistant>a<user>t\n\nv",
        ),
        ([U, A, A, V], "<user>u<assistant>a\n\na<user>v", None),
        ([A, U], "<user><assistant>a<user>u", None),
        ([S, A, U], "<user>s<assistant>a<user>u", None),
    ],
)
def test_nothing_is_lost_on_strict_templates(
    messages: list[tuple[str, str]], strict: str, with_system: str | None
) -> None:
    assert shown(STRICT, *messages) == strict + "<assistant>"
    assert shown(ONE_SYSTEM, *messages) == (with_system or strict) + "<assistant>"
    # A template that takes it as it is gets it as it is.
    assert shown(ANY, *messages) == "".join(f"<{role}>{text}" for role, text in messages) + "<assistant>"


def test_what_a_template_drops_without_a_word_is_said_by_the_user() -> None:
    assert shown(DROPS, S, U) == "<user>s\n\nu<assistant>"
    assert shown(DROPS_LATER, S, U, A, S2, V) == "<system>s<user>u<assistant>a<user>t\n\nv<assistant>"
    assert shown(DROPS, ("system", " \n"), U) == "<user>u<assistant>", "there is nothing to lose"


def test_a_piece_belongs_to_the_last_message_in_it() -> None:
    messages = [Message(*it) for it in (S, U)] + [
        Message("assistant", "a", opaque=True),
        Message(*S2),
        Message(*V),
    ]
    pieces = ChatTemplate(STRICT, {}).pieces(messages)
    assert [p.message for p in pieces if p.message is not None] == [1, 2, 4]
    made_up = ChatTemplate(STRICT, {}).pieces([Message(*A), Message(*U)])
    assert [p.message for p in made_up if p.message is not None] == [0, 1]


def test_texts_that_must_not_matter_are_joined_with_none() -> None:
    assert len(list(wordings([Message("system", "s", opaque=True), Message("user", "u", opaque=True)]))) == 1
    answers = [
        Message("user", "u"),
        Message("assistant", "a", opaque=True),
        Message("assistant", "b", opaque=True),
    ]
    assert [it.messages for it in wordings(answers)] == [answers]


@pytest.mark.parametrize("family", ["mistral", "refuses-system", "qwen3", "qwen2.5", "llama3", "none"])
def test_a_chat_with_a_later_system_message_goes_on_with_its_prefix(family: str, tmp_path: Path) -> None:
    codec = Codec.load(make(family, tmp_path))
    turns = [
        Turn("system", "Be brief."),
        Turn("user", "Hi"),
        Turn("assistant", "x", (65, 66)),
        Turn("system", "In French."),
        Turn("user", "Well?"),
    ]
    first = codec.encode_chat(turns[:2])
    second = codec.encode_chat(turns)
    assert second[: len(first) + 2] == [*first, 65, 66]
    for text in ("Be brief.", "In French.", "Well?"):
        assert text in codec.decode(second)
    third = codec.encode_chat([*turns, Turn("assistant", "y", (67,)), Turn("user", "And?")])
    assert third[: len(second) + 1] == [*second, 67]
