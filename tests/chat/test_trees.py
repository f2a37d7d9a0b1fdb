"""Exports that hold a tree of messages: every branch comes in, and the chat goes on where it stood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatkv.chat import exchange
from chatkv.chat.errors import ChatError
from chatkv.chat.exchange import as_json, as_markdown, in_words, read_chats
from tests.chat.files import A, B, U, V, branches, chat, one, read, texts

DATA = Path(__file__).parents[1] / "data" / "chats"


def chatgpt(*nodes: tuple[str, str | None, Any], at: str | None = None, **more: Any) -> dict[str, Any]:
    """Nodes are (id, parent, message); a message is (role, text) or as it stands in the export."""
    mapping: dict[str, Any] = {}
    for number, (id, parent, message) in enumerate(nodes):
        if isinstance(message, tuple):
            role, content = message
            content = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
            message = {"id": id, "author": {"role": role}, "content": content, "create_time": 1.7e9 + number}
        mapping[id] = {"id": id, "message": message, "parent": parent, "children": []}
        if parent in mapping:
            mapping[parent]["children"].append(id)
    return {"title": "T", "create_time": 1.7e9, "mapping": mapping, "current_node": at, **more}


def test_chatgpt_every_branch_comes_in_and_it_goes_on_at_the_current_node() -> None:
    (conv,) = read_chats(DATA / "chatgpt_conversations.json").conversations
    assert (conv.name, conv.system) == ("Colours", None)
    assert [text for _, text in texts(conv)] == ["Name a colour", "Blue", "Another", "Green"]
    assert branches(conv) == [["Name a colour", "Red"], ["Name a colour", "Blue", "Another", "Green"]]
    first, second = conv.siblings(conv.path()[1].id)
    assert (first.text, second.text) == ("Red", "Blue")
    assert conv.created.timestamp() == pytest.approx(1700000000.1)
    assert conv.path()[0].meta["time"] == 1700000000.5


def test_chatgpt_what_is_hidden_or_of_tools_goes_and_what_is_behind_it_moves_up(tmp_path: Path) -> None:
    hidden = {"is_visually_hidden_from_conversation": True}
    call = {
        "author": {"role": "assistant"},
        "recipient": "python",
        "content": {"content_type": "code", "text": "1"},
    }
    memo = {
        "content_type": "user_editable_context",
        "user_profile": "I am Ann.",
        "user_instructions": "Be brief.",
    }
    tree = chatgpt(
        ("root", None, None),
        ("s", "root", ("system", "")),
        ("c", "s", {"author": {"role": "user"}, "content": memo, "metadata": hidden}),
        (
            "u",
            "c",
            (
                "user",
                {"content_type": "multimodal_text", "parts": [{"content_type": "image_asset_pointer"}, "q"]},
            ),
        ),
        (
            "h",
            "u",
            {
                "author": {"role": "user"},
                "content": {"content_type": "text", "parts": ["secret"]},
                "metadata": hidden,
            },
        ),
        (
            "t",
            "h",
            ("assistant", {"content_type": "thoughts", "thoughts": [{"summary": "Sum", "content": "so"}]}),
        ),
        ("p", "t", call),
        ("o", "p", ("tool", {"content_type": "execution_output", "text": "5"})),
        ("k", "o", ("assistant", {"content_type": "reasoning_recap", "content": "Thought for 3s"})),
        ("a", "k", ("assistant", "a")),
        ("a2", "k", ("assistant", "b")),
        (
            "v",
            "a",
            (
                "user",
                {
                    "content_type": "multimodal_text",
                    "parts": [{"content_type": "audio_transcription", "text": "r"}],
                },
            ),
        ),
        at="v",
    )
    imported = read(tmp_path, [tree])
    (conv,) = imported.conversations
    assert conv.system == "I am Ann.\nBe brief."
    assert texts(conv) == [U, A, V]
    assert branches(conv) == [["q", "a", "r"], ["q", "b"]]
    assert {m.thinking for m in conv.messages.values() if m.role == "assistant"} == {"Sum\nso"}
    assert imported.left_out == [
        "1 image",
        "1 hidden message",
        "1 tool call",
        "1 tool result",
        "1 reasoning recap",
    ]
    assert in_words(imported).startswith("1 session, 4 messages (1 of other versions); left out: 1 image")


def test_the_current_node_may_be_anywhere(tmp_path: Path) -> None:
    nodes = (("u", None, U), ("a", "u", A), ("t", "a", ("tool", "x")), ("b", "t", B), ("v", "a", V))
    assert texts(one(tmp_path, chatgpt(*nodes, at="t"))) == [U, A]
    assert texts(one(tmp_path, chatgpt(*nodes, at="b"))) == [U, ("assistant", "a\n\nb")]
    assert texts(one(tmp_path, chatgpt(*nodes, at="u"))) == [U]
    assert texts(one(tmp_path, chatgpt(*nodes, at="gone"))) == [U, A, V], "at the newest"
    assert branches(one(tmp_path, chatgpt(*nodes, at="v"))) == [["q", "a\n\nb"], ["q", "a", "r"]]


def test_first_messages_may_be_versions_too(tmp_path: Path) -> None:
    tree = chatgpt(("s", None, ("system", "S")), ("u", "s", U), ("v", "s", V), ("a", "v", A), at="a")
    conv = one(tmp_path, tree)
    assert (conv.system, branches(conv)) == ("S", [["q"], ["r", "a"]])
    other = one(
        tmp_path,
        chatgpt(
            ("s", None, ("system", "S")), ("u", "s", U), ("t", None, ("system", "T")), ("v", "t", V), at="v"
        ),
    )
    assert (other.system, branches(other)) == ("T", [["S", "q"], ["r"]])


def test_broken_trees_lose_nothing(tmp_path: Path) -> None:
    nodes = (("u", None, U), ("a", "lost", A), ("v", "b", V), ("b", "v", B))
    conv = one(tmp_path, chatgpt(*nodes, at="a"))
    assert branches(conv) == [["q"], ["a"], ["r", "b"]]
    tree = chatgpt(("u", None, U), ("a", None, A))
    tree["mapping"]["u"]["children"] = ["a", "a", "none", 5, "u"]
    assert texts(one(tmp_path, tree)) == [U, A]
    tree["mapping"] |= {"x": None, "y": {"message": "?"}, "z": {"message": {"author": 5}}}
    imported = read(tmp_path, tree)
    assert texts(imported.conversations[0]) == [U, A]
    assert imported.left_out == ["1 message of role 5"]


def test_a_tree_as_deep_as_a_file_can_be(tmp_path: Path) -> None:
    nodes = [(str(n), str(n - 1) if n else None, (U, A)[n % 2]) for n in range(20_000)]
    (tmp_path / "x").write_text(json.dumps(chatgpt(*nodes, at="19999")))
    (conv,) = read_chats(tmp_path / "x").conversations
    assert len(conv.path()) == 20_000


def test_rows_of_one_speaker_that_branch_everywhere_stay_within_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MAX_BYTES", 1_000_000)
    nodes: list[tuple[str, str | None, Any]] = [("0", None, ("assistant", "x" * 100))]
    for n in range(1, 1500):
        nodes += [(f"{n}", f"{n - 1}", ("assistant", "x" * 100)), (f"u{n}", f"{n - 1}", U)]
    (tmp_path / "x").write_text(json.dumps(chatgpt(*nodes)))
    (conv,) = (imported := read_chats(tmp_path / "x")).conversations
    assert sum(len(m.text) for m in conv.messages.values()) <= 1_000_000
    assert "beyond what a file may hold" in in_words(imported)


def webui(*nodes: tuple[str, str | None, str, str], at: str, **more: Any) -> dict[str, Any]:
    messages: dict[str, Any] = {}
    for id, parent, role, content in nodes:
        messages[id] = {
            "id": id,
            "parentId": parent,
            "childrenIds": [],
            "role": role,
            "content": content,
            "timestamp": 1_700_000_000,
        }
        if parent:
            messages[parent]["childrenIds"].append(id)
    inner = {"title": "T", "history": {"messages": messages, "currentId": at}, "messages": [], **more}
    return {"id": "c", "user_id": "u", "title": "T", "chat": inner, "created_at": 1_700_000_000}


def test_open_webui(tmp_path: Path) -> None:
    thought = (
        '<details type="reasoning" done="true" duration="2">\n<summary>Thought for 2 seconds</summary>\n'
    )
    thought += "> so\n> \n> 1 &lt; 2\n</details>\na"
    call = '<details type="tool_calls" done="true" id="x" arguments="&quot;&quot;">\n'
    call += "<summary>Tool Executed</summary>\n</details>\n"
    other = "<details><summary>More</summary>kept</details>"
    tree = webui(
        ("1", None, "user", "q"),
        ("2", "1", "assistant", thought),
        ("3", "1", "assistant", call + "b" + other),
        ("4", "3", "user", "r"),
        at="2",
        params={"system": "S"},
    )
    imported = read(tmp_path, [tree])
    (conv,) = imported.conversations
    assert (conv.name, conv.system, texts(conv)) == ("T", "S", [U, A])
    assert conv.path()[1].thinking == "so\n\n1 < 2"
    assert branches(conv) == [["q", "a"], ["q", f"b{other}", "r"]]
    assert imported.left_out == ["1 tool call"]
    assert one(tmp_path, tree["chat"]).name == "T"
    linear = {"chat": {"title": "L", "messages": chat(U, A)}}
    assert (one(tmp_path, linear).name, texts(one(tmp_path, linear))) == ("L", [U, A])


@pytest.mark.parametrize(
    "text",
    [
        '<details type="reasoning">never ends',
        '<details type="reasoning"',
        "a <details> b",
        "<details",
        '<details type="other"><summary>x</summary></details>',
    ],
)
def test_details_that_are_none_are_text(tmp_path: Path, text: str) -> None:
    assert texts(one(tmp_path, {"messages": chat(U, ("assistant", text))})) == [U, ("assistant", text)]


def test_claude(tmp_path: Path) -> None:
    def message(id: str, parent: str | None, sender: str, *parts: Any, **more: Any) -> dict[str, Any]:
        said = [it if isinstance(it, dict) else {"type": "text", "text": it} for it in parts]
        text = "\n".join(it for it in parts if isinstance(it, str))
        link = {} if parent == "" else {"parent_message_uuid": parent}
        return {
            "uuid": id,
            "sender": sender,
            "text": text,
            "content": said,
            "created_at": "2025-05-01T10:00:00Z",
            **link,
            **more,
        }

    root = "00000000-0000-4000-8000-000000000000"
    paste = [{"file_name": "notes.txt", "extracted_content": "pasted"}]
    messages = [
        message(
            "1", root, "human", "q", attachments=paste, files=[{"file_name": "x.png", "file_kind": "image"}]
        ),
        message("2", "1", "assistant", {"type": "thinking", "thinking": "so"}, {"type": "tool_use"}, "a"),
        message("3", "1", "assistant", "b"),
        message("4", "2", "human", "r"),
    ]
    tree = {
        "uuid": "c",
        "name": "N",
        "created_at": "2025-05-01T10:00:00Z",
        "chat_messages": messages,
        "current_leaf_message_uuid": "3",
    }
    imported = read(tmp_path, [tree])
    (conv,) = imported.conversations
    question = "q\nnotes.txt:\npasted"
    assert (conv.name, conv.created.year) == ("N", 2025)
    assert branches(conv) == [[question, "a", "r"], [question, "b"]]
    assert texts(conv)[1] == B
    assert [m.thinking for m in conv.messages.values()] == ["", "so", "", ""]
    assert imported.left_out == ["1 image", "1 tool call"]
    plain = [message("1", "", "human", "q"), message("2", "", "assistant", "a")]
    assert texts(one(tmp_path, {"name": "", "chat_messages": plain})) == [U, A]


# Whatever is in a file

_NAMES = """
messages role content user assistant system tool from value conversations mapping message author parent
children parts content_type current_node chat history currentId parentId childrenIds chat_messages sender
uuid body response parent_message_uuid choices input output type text thinking refusal a b
"""
_WORDS = st.sampled_from(_NAMES.split())
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | _WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_WORDS, inner, max_size=5),
    max_leaves=30,
)


@given(_JSON)
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_is_in_a_file_gives_sessions_or_one_line(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "x"
    path.write_text(json.dumps(value))
    try:
        imported = read_chats(path)
    except ChatError as error:
        told = str(error)
    else:
        told = in_words(imported)
        for conv in imported.conversations:
            assert as_json(conv)
            assert as_markdown(conv)
    assert "\n" not in told


@given(
    st.lists(
        st.tuples(st.integers(-1, 12), st.sampled_from(["user", "assistant", "system", "tool"])),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 11),
)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_each_text_of_any_tree_is_in_the_session(
    tmp_path: Path, shape: list[tuple[int, str]], head: int
) -> None:
    nodes = [(str(n), str(parent), (role, f"[{n}]")) for n, (parent, role) in enumerate(shape)]
    (tmp_path / "x").write_text(json.dumps(chatgpt(*nodes, at=str(head))))
    try:
        conversations = read_chats(tmp_path / "x").conversations
    except ChatError:
        conversations = []
    if all(role in ("system", "tool") for _, role in shape):
        assert conversations == []
        return
    (conv,) = conversations
    everything = "".join([conv.system or "", *(m.text for m in conv.messages.values())])
    for n, (_, role) in enumerate(shape):
        assert role == "tool" or f"[{n}]" in everything
    for message in conv.messages.values():
        before = None if message.parent is None else conv.messages[message.parent]
        assert before is None or before.role != message.role or message.role == "system"
