"""Chats of other programs in all the forms that they are kept in: nothing that was said is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chatkv.chat.exchange import in_words, read_chats
from tests.chat.files import A, B, U, V, branches, chat, one, read, texts

DATA = Path(__file__).parents[1] / "data" / "chats"


@pytest.mark.parametrize(
    ("name", "system", "said", "told"),
    [
        ("sharegpt", None, [("user", "What is a radix tree?"), ("assistant", "A compressed trie.")], ""),
        (
            "refusal",
            None,
            [("user", "x"), ("assistant", "I can't help with that."), ("user", "ok"), ("assistant", "fine")],
            "",
        ),
        (
            "parts",
            None,
            [("user", "Look:\nwhat is it?\n\nhello?"), ("assistant", "A cat.\n\nReally.")],
            "1 image",
        ),
        (
            "tools",
            "Use tools.",
            [
                ("user", "Weather?"),
                ("assistant", "It is 5 C in Oslo."),
                ("user", "And now?"),
                ("system", "From now on answer in French."),
                ("user", "Well?"),
                ("assistant", "Oui."),
            ],
            "1 speaker name, 1 tool call, 1 tool result",
        ),
        ("torn_last", None, [("user", "q"), ("assistant", "r")], "line 2 is not JSON"),
    ],
)
def test_files_of_all_kinds(name: str, system: str | None, said: list[tuple[str, str]], told: str) -> None:
    (path,) = DATA.glob(f"{name}.*")
    imported = read_chats(path)
    conv = imported.conversations[0]
    assert (conv.system, texts(conv)) == (system, said)
    assert in_words(imported).partition("; left out: ")[2] == told


# Chains


@pytest.mark.parametrize(
    "value",
    [
        {"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]},
        {"conversations": [{"from": "user", "value": "q"}, {"from": "ASSISTANT ", "value": "a"}]},
        {"conversations": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]},
        {"conversation": [{"from": "human", "text": "q"}, {"from": "chatgpt", "text": "a"}]},
        {"items": [{"from": "human", "value": "q"}, {"from": "bard", "value": "a"}], "id": "x"},
        {"conversations": [{"messages": chat(U, A)}]},
        {"data": [{"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}]},
        [chat(U, A)],
        {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": chat(U, A)}},
        {"custom_id": "1", "params": {"model": "m", "max_tokens": 5, "messages": chat(U, A)}},
        {"request": {"messages": chat(U)}, "response": {"choices": [{"message": chat(A)[0]}]}},
        {
            "body": {"messages": chat(U)},
            "response": {"status_code": 200, "body": {"choices": [{"message": chat(A)[0]}]}},
        },
        {"model": "m", "messages": chat(U), "message": chat(A)[0]},
        {
            "model": "m",
            "input": "q",
            "output": [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
            ],
        },
        {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
                {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            ]
        },
        {"messages": [{"role": "user", "content": [{"type": "text", "text": {"value": "q"}}]}, *chat(A)]},
        {
            "contents": [
                {"role": "user", "parts": [{"text": "q"}]},
                {"role": "model", "parts": [{"text": "a"}]},
            ]
        },
        {"messages": [{"role": "user", "parts": [{"type": "text", "text": "q"}]}, *chat(A)]},
        {"messages": [{"author": "user", "content": "q"}, {"sender": "assistant", "text": "a"}]},
    ],
)
def test_chains(tmp_path: Path, value: Any) -> None:
    imported = read(tmp_path, value)
    assert [texts(conv) for conv in imported.conversations] == [[U, A]]
    assert imported.left_out == []


def test_lines_of_messages_are_one_chat_and_lines_of_chats_several(tmp_path: Path) -> None:
    assert [texts(conv) for conv in read(tmp_path, *chat(U, A, V)).conversations] == [[U, A, V]]
    assert [texts(conv) for conv in read(tmp_path, chat(U, A), chat(V)).conversations] == [[U, A], [V]]
    batch = [{"custom_id": f"n{n}", "body": {"messages": chat(U)}} for n in range(3)]
    assert [conv.name for conv in read(tmp_path, *batch).conversations] == ["n0", "n1", "n2"]


def test_answers_of_a_batch(tmp_path: Path) -> None:
    good = {
        "status_code": 200,
        "body": {"choices": [{"index": n, "message": chat(it)[0]} for n, it in enumerate((A, B))]},
    }
    imported = read(
        tmp_path,
        {"id": "r1", "custom_id": "one", "response": good, "error": None},
        {
            "id": "r2",
            "custom_id": "two",
            "response": {"status_code": 400, "body": {"error": {"message": "no"}}},
        },
        {"id": "r3", "custom_id": "three", "response": None, "error": {"code": "expired"}},
        {"custom_id": "four", "result": {"type": "succeeded", "message": {"type": "message", **chat(A)[0]}}},
        {"custom_id": "five", "result": {"type": "errored", "error": {}}},
    )
    assert [conv.name for conv in imported.conversations] == ["one", "four"]
    assert branches(imported.conversations[0]) == [["a"], ["b"]], "several answers are versions"
    assert texts(imported.conversations[0]) == [A]
    assert imported.left_out == ["3 requests without an answer"]


@pytest.mark.parametrize(
    ("value", "system", "said"),
    [
        ({"system": "S", "messages": chat(U)}, "S", [U]),
        (
            {
                "system": [{"type": "text", "text": "S", "cache_control": {}}, {"type": "text", "text": "T"}],
                "messages": chat(U),
            },
            "S\nT",
            [U],
        ),
        ({"instructions": "S", "input": "q", "model": "m"}, "S", [U]),
        ({"system": "S", "conversations": [{"from": "human", "value": "q"}]}, "S", [U]),
        ({"body": {"system": "S", "messages": chat(U)}}, "S", [U]),
        (
            {
                "system_instruction": {"parts": [{"text": "S"}]},
                "contents": [{"role": "user", "parts": [{"text": "q"}]}],
            },
            "S",
            [U],
        ),
        ({"system": "S", "messages": chat(("developer", "T"), U)}, "S\n\nT", [U]),
        ({"messages": chat(("system", "S"), ("developer", "T"), U)}, "S\n\nT", [U]),
        ({"messages": chat(("system", ""), ("system", "T"), U)}, "T", [U]),
        ({"messages": chat(U, ("system", "S"))}, None, [U, ("system", "S")]),
        ({"messages": chat(("system", "S"), U, A, ("developer", "T"), V)}, "S", [U, A, ("system", "T"), V]),
        (
            {"messages": chat(U, ("system", "S"), ("system", "T"), V)},
            None,
            [U, ("system", "S"), ("system", "T"), V],
        ),
    ],
)
def test_system_texts(tmp_path: Path, value: Any, system: str | None, said: list[tuple[str, str]]) -> None:
    conv = one(tmp_path, value)
    assert (conv.system, texts(conv)) == (system, said)
    assert read(tmp_path, value).left_out == []


def part(**fields: Any) -> tuple[str, list[dict[str, Any]]]:
    return "assistant", [fields, {"type": "text", "text": "a"}]


@pytest.mark.parametrize(
    ("answer", "thinking"),
    [
        (part(type="thinking", thinking="so", signature="x"), "so"),
        (part(type="reasoning", text="so"), "so"),
        (part(type="thinking", thinking=[{"type": "text", "text": "so"}]), "so"),
        (part(type="text", text="so", thought=True), "so"),
        (("assistant", "<think>\nso\n</think>\n\na"), "so"),
    ],
)
def test_thinking_is_kept_with_its_answer(tmp_path: Path, answer: tuple[str, Any], thinking: str) -> None:
    conv = one(tmp_path, {"messages": chat(U, answer)})
    assert texts(conv) == [U, A]
    assert conv.path()[1].thinking == thinking


def test_items_of_a_response(tmp_path: Path) -> None:
    items = [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "so"}]},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "5"},
        {"type": "reasoning", "summary": [], "encrypted_content": "xx"},
        {"type": "web_search_call", "status": "completed"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
    ]
    imported = read(tmp_path, {"model": "m", "input": [*chat(U), *items]})
    (conv,) = imported.conversations
    assert texts(conv) == [U, ("assistant", "No.")]
    assert conv.path()[1].thinking == "so"
    assert imported.left_out == ["2 tool calls", "1 tool result", "1 redacted thought"]


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"type": "image", "source": {}}, "1 image"),
        ({"type": "input_image"}, "1 image"),
        ({"type": "input_audio", "input_audio": {"data": ""}}, "1 audio clip"),
        ({"type": "video_url"}, "1 video"),
        ({"type": "input_file"}, "1 file"),
        ({"type": "document", "source": {}}, "1 file"),
        ({"type": "tool_use", "id": "t", "name": "f", "input": {}}, "1 tool call"),
        ({"type": "server_tool_use"}, "1 tool call"),
        ({"type": "tool_result", "content": [{"type": "text", "text": "out"}]}, "1 tool result"),
        ({"type": "web_search_tool_result"}, "1 tool result"),
        ({"type": "redacted_thinking", "data": "x"}, "1 redacted thought"),
        ({"type": "new\x1b[31m thing"}, "1 part of type new[31m thing"),
        ({}, "1 part of type object"),
        (5, "1 part of type int"),
    ],
)
def test_parts_that_can_t_be_kept_are_named_and_counted(tmp_path: Path, part: Any, told: str) -> None:
    imported = read(tmp_path, {"messages": chat(("user", ["q", part]))})
    assert texts(imported.conversations[0]) == [U]
    assert in_words(imported) == f"1 session, 1 message; left out: {told}"
    twice = read(tmp_path, {"messages": chat(("user", ["q", part, part]))})
    noun = told.split()[1].removesuffix("y")
    assert twice.left_out[0].startswith(f"2 {noun}")
    alone = read(tmp_path, {"messages": chat(U, ("assistant", [part]), V)})
    assert texts(alone.conversations[0]) == [("user", "q\n\nr")]
    assert alone.left_out == [told], "told once, and not as a message without text, too"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"role": "tool", "content": "x"}, "1 tool result"),
        ({"from": "function_response", "value": "x"}, "1 tool result"),
        ({"from": "function_call", "value": "{}"}, "1 tool call"),
        ({"role": "assistant", "content": None, "tool_calls": [{}, {}]}, "2 tool calls"),
        ({"role": "assistant", "content": None, "function_call": {"name": "f"}}, "1 tool call"),
        ({"role": "assistant", "content": ""}, "1 message without text"),
        ({"role": "critic", "content": "x"}, "1 message of role critic"),
    ],
)
def test_messages_that_can_t_be_kept_are_named_and_counted(
    tmp_path: Path, message: dict[str, Any], told: str
) -> None:
    imported = read(tmp_path, {"messages": [*chat(U), message, *chat(A)]})
    assert texts(imported.conversations[0]) == [U, A]
    assert imported.left_out == [told]


def test_many_kinds_and_lines_are_one_line(tmp_path: Path) -> None:
    messages = [{"role": f"r{n}", "content": "x"} for n in range(50)]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join([json.dumps({"messages": [*chat(U), *messages]}), *["{"] * 9]))
    imported = read_chats(path)
    assert imported.left_out[0] == "lines 2, 3, 4 and 6 more are not JSON"
    assert imported.left_out[-1] == "38 things of other kinds"
    assert len(imported.left_out) == 14


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (1.7e9, 1.7e9),
        (1_700_000_000_123, 1_700_000_000.123),
        (1_700_000_000_000_000_000, 1.7e9),
        ("2023-11-14T22:13:20Z", 1.7e9),
        ("soon", None),
        (True, None),
        (-5, None),
        (10**400, None),
        (None, None),
    ],
)
def test_when_it_was_said(tmp_path: Path, given: Any, seconds: float | None) -> None:
    value = {"messages": [{**chat(U)[0], "timestamp": given}], "created_at": given}
    (tmp_path / "x").write_text(json.dumps(value))
    (conv,) = read_chats(tmp_path / "x").conversations
    assert conv.path()[0].meta.get("time") == seconds
    if seconds is not None:
        assert conv.created.timestamp() == pytest.approx(seconds)
