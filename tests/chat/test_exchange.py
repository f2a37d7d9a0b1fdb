"""Conversations to and from other programs: what is written reads back, what is strange is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatkv.chat.errors import ChatError
from chatkv.chat.exchange import as_json, as_markdown, export_to, in_words, read_chats
from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Conversation
from chatkv.text import printable

CHAT = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "yo"},
]


def conversation() -> Conversation:
    conv = Conversation(name="a talk", system="Be brief.")
    first = conv.append("user", "Hi\x1b[31m **there**")
    conv.append("assistant", "other branch")
    conv.append("assistant", "```py\nx\n```\n\ud800", parent=first.id)
    return conv


def texts(conv: Conversation) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in conv.path()]


def test_markdown_has_the_branch_that_is_seen_and_no_controls() -> None:
    assert as_markdown(conversation()) == (
        "# a talk\n\n**system**\n\nBe brief.\n\n**user**\n\nHi[31m **there**\n\n"
        "**assistant**\n\n```py\nx\n```\n\ufffd\n"
    )


def test_json_comes_back_the_same(tmp_path: Path) -> None:
    conv = conversation()
    conv.sampling = {"temperature": 0.5}
    path = tmp_path / "a.json"
    path.write_text(as_json(conv))
    imported = read_chats(path)
    (back,) = imported.conversations
    assert (back.name, back.system, texts(back)) == ("a talk", "Be brief.", texts(conv))
    assert in_words(imported) == "1 session, 2 messages"
    assert json.loads(path.read_text())["sampling"] == {"temperature": 0.5}
    assert SessionStore(tmp_path / "s").adopt(back).path()


def test_an_existing_file_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    export_to(conversation(), "md", path)
    with pytest.raises(ChatError, match="is there already"):
        export_to(conversation(), "md", path)
    with pytest.raises(ChatError, match="as md or json, not as pdf"):
        export_to(conversation(), "pdf", tmp_path / "x")
    with pytest.raises(ChatError, match="can't write"):
        export_to(conversation(), "md", tmp_path / "no" / "x")
    assert [p.name for p in tmp_path.iterdir()] == ["a.md"]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"messages": CHAT}),
        json.dumps(CHAT),
        json.dumps([{"messages": CHAT}]),
        json.dumps({"messages": CHAT}) + "\n",
        "\ufeff" + json.dumps({"messages": CHAT}),
        json.dumps([{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]),
    ],
)
def test_forms(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    (conv,) = read_chats(tmp_path / "x").conversations
    assert texts(conv) == [("user", "hi"), ("assistant", "yo")]


def test_jsonl_gives_a_session_a_line_and_tells_of_bad_ones(tmp_path: Path) -> None:
    good = json.dumps({"messages": CHAT, "name": "n\nm"})
    (tmp_path / "x.jsonl").write_text(f"{good}\n\n{{torn\n{good}\n")
    imported = read_chats(tmp_path / "x.jsonl")
    assert [conv.name for conv in imported.conversations] == ["n m", "n m"]
    assert in_words(imported) == "2 sessions, 4 messages; left out: line 2 is not JSON"


def test_parts_tools_and_turns_of_one_role(tmp_path: Path) -> None:
    messages: list[Any] = [
        {"role": "developer", "content": "D"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}, "at"],
        },
        {"role": "user", "content": "this"},
        {"role": "tool", "content": "out"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "assistant", "content": "ok"},
        {"role": ["x"], "content": "?"},
        "text",
    ]
    (tmp_path / "x").write_text(json.dumps({"messages": messages}))
    imported = read_chats(tmp_path / "x")
    (conv,) = imported.conversations
    assert conv.system == "D"
    assert texts(conv) == [("user", "look\nat\n\nthis"), ("assistant", "ok")]
    assert imported.left_out == [
        "1 image",
        "1 tool result",
        "1 message without text",
        "1 message of role ['x']",
        "1 message that is no object",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "neither JSON nor JSONL|holds no conversation"),
        ("hello", "neither JSON nor JSONL"),
        ("[" * 100_000, "not JSON that can be read: it is nested too deep"),
        ('{"messages": ' + "9" * 5000 + "}", "not JSON that can be read: a number has too many digits"),
        ('{"body": ' * 480 + '[{"role": 1}]' + "}" * 480, "holds no conversation"),
        ("{}", "holds no conversation"),
        ("[]", "holds no conversation"),
        ("3", "holds no conversation"),
        ('"line 5"', "holds no conversation"),
        ('{"messages": 3}', "holds no conversation"),
        ('{"messages": [{"role": "user"}]}', "without text"),
        ('{"messages": [{"role": "system", "content": "only"}]}', "without a text"),
        ('[{"messages": [[[]]]}, 4]', "no object"),
    ],
)
def test_what_is_no_chat_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "x\x1b").write_text(text)
    with pytest.raises(ChatError, match=line) as caught:
        read_chats(tmp_path / "x\x1b")
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").write_bytes(b"\xff\0")
    for name, line in (("none", "there is no such file"), (".", "is not a file"), ("bin", "not UTF-8")):
        with pytest.raises(ChatError, match=line):
            read_chats(tmp_path / name)
    monkeypatch.setattr("chatkv.chat.exchange.MAX_BYTES", 1)
    with pytest.raises(ChatError, match="2 bytes; at most 1"):
        read_chats(tmp_path / "bin")


def brought(tmp_path: Path, *messages: dict[str, Any]) -> Conversation:
    """The one conversation of these, as it is kept: imported, saved and loaded again."""
    (tmp_path / "x.json").write_text(json.dumps({"messages": [{"role": "user", "content": "q"}, *messages]}))
    (conv,) = read_chats(tmp_path / "x.json").conversations
    SessionStore(tmp_path / "s").adopt(conv)
    ((kept,), problems) = SessionStore(tmp_path / "s").load_all()
    assert not problems
    return kept


@pytest.mark.parametrize(
    ("content", "thinking", "answer"),
    [
        ("<think>\nso\n\nlong\n</think>\n\nwell\n", "so\n\nlong", "well\n"),
        (" \n<think>so</think>well", "so", "well"),
        ("<think>\n\n</think>\n\nwell", "", "well"),
        ("<think>never ends\n", "never ends", ""),
        ("<think>a</think>b</think><think>c</think>", "a", "b</think><think>c</think>"),
        ("<think>a\ud800\r</think>\r\nb", "a\ud800\r", "\r\nb"),
        # A template that opens the span itself leaves this of it.
        ("so\nlong\n</think>\n\nwell", "so\nlong", "well"),
        ("</think>\nwell", "", "well"),
        # None of these is a span.
        ("say </think> to end it\n", "", "say </think> to end it\n"),
        ("```\n<think>\nx\n</think>\n```", "", "```\n<think>\nx\n</think>\n```"),
        ("  <thinker", "", "  <thinker"),
        ("well <think>no</think>", "", "well <think>no</think>"),
    ],
)
def test_thinking_in_an_answer_s_text_comes_apart_and_back(
    tmp_path: Path, content: str, thinking: str, answer: str
) -> None:
    conv = brought(tmp_path, {"role": "assistant", "content": content})
    (message,) = conv.path()[1:]
    assert (message.thinking, message.text) == (thinking, answer)
    assert json.loads(as_json(conv))["messages"][1:] == [{"role": "assistant", "content": content}]
    assert as_markdown(conv).endswith(f"**assistant**\n\n{printable(content)}\n")
    (tmp_path / "again.json").write_text(as_json(conv))
    (again,) = read_chats(tmp_path / "again.json").conversations
    assert [(m.thinking, m.text) for m in again.path()] == [("", "q"), (thinking, answer)]


def test_thinking_is_looked_for_in_answers_alone(tmp_path: Path) -> None:
    conv = brought(tmp_path, {"role": "user", "content": "<think>mine</think>"})
    assert texts(conv) == [("user", "q\n\n<think>mine</think>")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_thinking_in_a_field_of_its_own(tmp_path: Path, field: str) -> None:
    conv = brought(tmp_path, {"role": "assistant", "content": "<think>said</think>well", field: "so"})
    (message,) = conv.path()[1:]
    assert (message.thinking, message.text) == ("so", "<think>said</think>well")
    told = {"role": "assistant", "content": "<think>said</think>well", "reasoning_content": "so"}
    assert json.loads(as_json(conv))["messages"][1:] == [told]


def test_a_model_s_own_thinking_is_exported_and_comes_back(tmp_path: Path) -> None:
    conv = Conversation(name="n")
    conv.append("user", "q")
    conv.append("assistant", "well", token_ids=[1, 2], meta={"thinking": "so", "model": "m"})
    assert json.loads(as_json(conv))["messages"][1]["reasoning_content"] == "so"
    (tmp_path / "x.json").write_text(as_json(conv))
    (back,) = read_chats(tmp_path / "x.json").conversations
    assert [(m.thinking, m.text) for m in back.path()] == [("", "q"), ("so", "well")]


def test_answers_in_a_row_are_one_with_all_that_was_thought(tmp_path: Path) -> None:
    one = {"role": "assistant", "content": "<think>\na\n</think>\n\nx"}
    two = {"role": "assistant", "content": None, "reasoning": "b"}
    three = {"role": "assistant", "content": "<think>c</think>z"}
    conv = brought(tmp_path, one, two, three)
    assert [(m.thinking, m.text) for m in conv.path()[1:]] == [("a\n\nb\n\nc", "x\n\nz")]
    content = "<think>\na\n\nb\n\nc\n</think>\n\nx\n\nz"
    assert json.loads(as_json(conv))["messages"][1]["content"] == content


def test_thinking_in_a_text_that_was_imported_before_comes_apart_when_loaded(tmp_path: Path) -> None:
    """Files of earlier versions have it so."""
    conv = Conversation(name="n")
    conv.append("user", "<think>q</think>", meta={"imported": True})
    conv.append("assistant", "<think>so</think>well", meta={"imported": True})
    conv.append("user", "q")
    conv.append("assistant", "<think>its own text</think>", token_ids=[1])
    SessionStore(tmp_path / "s").adopt(conv)
    ((kept,), _) = SessionStore(tmp_path / "s").load_all()
    assert [(m.thinking, m.text) for m in kept.path()] == [
        ("", "<think>q</think>"),
        ("so", "well"),
        ("", "q"),
        ("", "<think>its own text</think>"),
    ]
    assert json.loads(as_json(kept))["messages"] == json.loads(as_json(conv))["messages"]


@pytest.mark.parametrize("around", [None, 3, [], ["a"], ["<think>", 3], "ab", {"a": "b"}])
def test_a_strange_note_about_where_thinking_stood_is_left_alone(around: object) -> None:
    conv = Conversation(name="n")
    conv.append("assistant", "well", meta={"thinking": "so", "thinking_in": around, "imported": True})
    told = {"role": "assistant", "content": "well", "reasoning_content": "so"}
    assert json.loads(as_json(conv))["messages"] == [told]
    conv.append("assistant", "well", meta={"thinking": ["so"]})
    assert conv.path()[-1].thinking == ""
