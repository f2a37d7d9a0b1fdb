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
        "parts of type image_url",
        "messages of role tool",
        "messages without text",
        "messages of role ['x']",
        "a message that is no object",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "neither JSON nor JSONL|holds no conversation"),
        ("hello", "neither JSON nor JSONL"),
        ("[" * 100_000, "not JSON that can be read"),
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
    for name, line in (("none", "there is no file"), (".", "is not a file"), ("bin", "not UTF-8")):
        with pytest.raises(ChatError, match=line):
            read_chats(tmp_path / name)
    monkeypatch.setattr("chatkv.chat.exchange.MAX_BYTES", 1)
    with pytest.raises(ChatError, match="2 bytes; at most 1"):
        read_chats(tmp_path / "bin")
