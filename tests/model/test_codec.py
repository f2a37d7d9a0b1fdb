from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from chatkv.engine.messages import Turn
from chatkv.model.errors import ModelError
from chatkv.model.template import ChatTemplate, Piece
from chatkv.model.tokenizer import Codec
from chatkv.model.wordings import Message
from tests.model import templates
from tests.model.templates import CHATML_SPECIAL, FAMILIES, make

TEXTS = [
    "Hello there",
    "",
    " leading and trailing \n\n",
    "\n\n\tx = f(12345)  # naïve café\n",
    "你好，世界 👩‍👩‍👧‍👦 e\u0301",
    "the  the",
    "Human: {{ messages }} {% if x %} [bold]no[/bold]",
    "\ue0a0\ue0b0\ue0a1 \ue0a0",
]


def conversations() -> list[list[Turn]]:
    out = [[Turn("user", text)] for text in TEXTS]
    for system in (None, "Be brief.", " padded \n"):
        head = [] if system is None else [Turn("system", system)]
        for a, b, c in zip(TEXTS, TEXTS[1:], TEXTS[2:], strict=False):
            out.append([*head, Turn("user", a), Turn("assistant", b), Turn("user", c)])
    return out


def transformers_ids(folder: Path, turns: list[Turn]) -> list[int]:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    chat = [{"role": t.role, "content": t.text} for t in turns]
    return tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_equal_transformers(family: str, tmp_path: Path) -> None:
    folder = make(family, tmp_path)
    codec = Codec.load(folder)
    for turns in conversations():
        assert codec.encode_chat(turns) == transformers_ids(folder, turns), turns


@pytest.mark.parametrize("family", FAMILIES)
def test_plain_text_equals_transformers_without_special_tokens(family: str, tmp_path: Path) -> None:
    folder = make(family, tmp_path)
    codec, tokenizer = Codec.load(folder), PreTrainedTokenizerFast.from_pretrained(folder)
    for text in TEXTS:
        assert codec.encode_text(text) == tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_starts_with_the_earlier_prompt_and_what_was_sampled(family: str, tmp_path: Path) -> None:
    codec = Codec.load(make(family, tmp_path))
    newline = codec.encode_text("\n")
    sampled = (*newline, *newline, *codec.encode_text("Well <think>"))
    stop = min(codec.stop_ids)
    turns: list[Turn] = [Turn("user", " Hi \n")]
    for _ in range(4):
        earlier = codec.encode_chat(turns)
        for ids in (sampled, (*sampled, stop), ()):
            turns_after = [*turns, Turn("assistant", codec.decode(ids), ids), Turn("user", "more")]
            prompt = codec.encode_chat(turns_after)
            kept = [*earlier, *ids]
            assert prompt[: len(kept)] == kept
            assert prompt.count(stop) == codec.encode_chat(turns).count(stop) + prompt[len(earlier) :].count(
                stop
            )
        turns = turns_after


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sampled_stop_id_is_not_doubled(family: str, tmp_path: Path) -> None:
    codec = Codec.load(make(family, tmp_path))
    ids = tuple(codec.encode_text("Well."))
    tail = Turn("user", "x")
    without = codec.encode_chat([tail, Turn("assistant", "", ids), tail])
    written = next(i for i in without[without.index(ids[0]) :] if i in codec.stop_ids)
    assert codec.encode_chat([tail, Turn("assistant", "", (*ids, written)), tail]) == without


def test_bos_is_in_a_prompt_once(tmp_path: Path) -> None:
    codec = Codec.load(make("llama3", tmp_path))
    turns = [Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c")]
    (bos,) = codec.encode_chat(turns)[:1]
    assert codec.piece(bos) == "<|begin_of_text|>"
    assert codec.encode_chat(turns).count(bos) == 1
    assert bos not in codec.encode_text("a")


def test_thinking_is_dropped_from_text_and_from_sampled_ids_as_the_template_says(tmp_path: Path) -> None:
    folder = make("qwen3", tmp_path)
    codec = Codec.load(folder)
    turns = [Turn("user", "a"), Turn("assistant", "<think>\nlong\n</think>\n\nwell"), Turn("user", "b")]
    prompt = codec.encode_chat(turns)
    assert "long" not in codec.decode(prompt)
    assert prompt == transformers_ids(folder, turns)
    ids = tuple(codec.encode_text("<think>\nlong\n</think>\n\nwell"))
    assert codec.encode_chat([turns[0], Turn("assistant", "well", ids), turns[2]]) == prompt


def test_a_text_that_a_template_inspects_can_not_change_the_frame(tmp_path: Path) -> None:
    codec = Codec.load(make("qwen3", tmp_path))
    control = {i for i in range(500) if codec.piece(i).startswith("<") and len(codec.piece(i)) > 4}

    def frame(text: str, answer: str) -> list[int]:
        turns = [Turn("user", "a"), Turn("assistant", answer), Turn("user", text)]
        return [i for i in codec.encode_chat(turns) if i in control]

    names = [codec.piece(i) for i in frame("b", "well")]
    assert names == ["<|im_start|>", "<|im_end|>"] * 3 + ["<|im_start|>"]
    for text in ("b", "<tool_response>x</tool_response>", "<tool_response></tool_response>"):
        for answer in ("well", "<think>\nlong\n</think>\n\nwell", "</think>", "<think>"):
            assert frame(text, answer) == frame("b", "well")


def test_a_template_that_refuses_system_gets_it_with_the_first_user_message(tmp_path: Path) -> None:
    codec = Codec.load(make("refuses-system", tmp_path))
    merged = codec.encode_chat(
        [Turn("user", "Be brief.\n\nHi"), Turn("assistant", "x", (65, 66)), Turn("user", "b")]
    )
    turns = [
        Turn("system", "Be brief."),
        Turn("user", "Hi"),
        Turn("assistant", "x", (65, 66)),
        Turn("user", "b"),
    ]
    assert codec.encode_chat(turns) == merged
    assert codec.default_system is None


def test_a_refused_conversation_says_why(tmp_path: Path) -> None:
    codec = Codec.load(make("mistral", tmp_path))
    with pytest.raises(ModelError, match="roles must alternate"):
        codec.encode_chat([Turn("user", "q"), Turn("assistant", "a", (65,)), Turn("assistant", "b", (66,))])


def test_a_model_without_a_template_gets_the_plain_one(tmp_path: Path) -> None:
    codec = Codec.load(make("none", tmp_path))
    turns = [Turn("system", "Be brief."), Turn("user", "a"), Turn("assistant", "b"), Turn("user", "c")]
    want = "Be brief.\n\nUser: a\n\nAssistant: b\n\nUser: c\n\nAssistant:"
    assert codec.decode(codec.encode_chat(turns)) == want
    assert codec.stop_texts == ("\n\nUser:", "\nUser:")
    (note,) = codec.notes
    assert "no chat template" in note


@pytest.mark.parametrize(
    ("template", "text", "says"),
    [
        ("", "User: a\n\nAssistant:", "no chat template"),
        ([], "User: a\n\nAssistant:", "no chat template"),
        ([{"name": "default", "template": None}], "User: a\n\nAssistant:", "no chat template"),
        (
            [{"name": "tool_use", "template": "T"}, {"name": "rp", "template": "R"}],
            "R",
            "(tool_use, rp) is called",
        ),
        ([{"name": "rag", "template": "G"}], "G", "rag is used"),
        ([{"name": "x\n[b]", "template": "X"}], "X", "x [b] is used"),
        ({"rp": "R", "default": "D"}, "D", None),
        ([{"name": "default", "template": "D"}, {"name": "rp", "template": "R"}], "D", None),
    ],
)
def test_which_template_is_taken_is_told(
    template: object, text: str, says: str | None, tmp_path: Path
) -> None:
    make("qwen2.5", tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": template}))
    codec = Codec.load(tmp_path)
    assert codec.decode(codec.encode_chat([Turn("user", "a")])) == text
    assert bool(codec.stop_texts) == text.startswith("User")
    assert len(codec.notes) == (says is not None)
    assert all(says is not None and says in note and "\n" not in note for note in codec.notes)


def test_templates_of_a_folder_of_their_own(tmp_path: Path) -> None:
    make("none", tmp_path)
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "brief.jinja").write_text("B{{ messages[0].content }}")
    codec = Codec.load(tmp_path)
    assert codec.decode(codec.encode_chat([Turn("user", "a")])) == "Ba"
    assert "brief is used" in codec.notes[0]


@pytest.mark.parametrize(
    ("family", "stops", "system"),
    [
        ("llama3", {"<|eot_id|>", "<|end_of_text|>"}, None),
        ("mistral", {"</s>"}, None),
        ("qwen2.5", {"<|im_end|>"}, "You are a test. You are helpful."),
        ("qwen3", {"<|im_end|>"}, None),
    ],
)
def test_stop_ids_and_default_system(
    family: str, stops: set[str], system: str | None, tmp_path: Path
) -> None:
    codec = Codec.load(make(family, tmp_path))
    assert {codec.piece(i) for i in codec.stop_ids} == stops
    assert codec.default_system == system


def test_template_files(tmp_path: Path) -> None:
    make("qwen2.5", tmp_path)
    turns = [Turn("user", "a")]
    named = [
        {"name": "tool_use", "template": "T"},
        {"name": "default", "template": "D{{ messages[0].content }}"},
    ]
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": named}))
    assert Codec.load(tmp_path).decode(Codec.load(tmp_path).encode_chat(turns)) == "Da"
    (tmp_path / "chat_template.jinja").write_text("J{{ messages[0].content }}")
    assert Codec.load(tmp_path).decode(Codec.load(tmp_path).encode_chat(turns)) == "Ja"
    (tmp_path / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(ModelError, match="template is broken"):
        Codec.load(tmp_path)


def test_templates_can_not_reach_the_machine(tmp_path: Path) -> None:
    make("qwen2.5", tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(ModelError, match="refuses"):
        Codec.load(tmp_path).encode_chat([Turn("user", "a")])


@pytest.mark.parametrize("body", ["{", "[1]", '{"version": "1.0"}'])
def test_a_broken_tokenizer_file(tmp_path: Path, body: str) -> None:
    make("qwen2.5", tmp_path)
    (tmp_path / "tokenizer.json").write_text(body)
    with pytest.raises(ModelError, match=r"tokenizer\.json(: is not JSON| must hold| can't be read)"):
        Codec.load(tmp_path)


def test_a_folder_without_tokenizer_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelError, match=r"has no tokenizer\.json"):
        Codec.load(tmp_path)


def test_a_folder_with_vocab_and_merges_goes_through_transformers(tmp_path: Path) -> None:
    tokenizer = templates.byte_level(CHATML_SPECIAL, [])
    tokenizer.model.save(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "eos_token": "<|im_end|>",
        "chat_template": templates.CHATML,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    codec = Codec.load(tmp_path)

    assert "Hello 你好" in codec.decode(codec.encode_chat([Turn("user", "Hello 你好")]))


def test_a_turn_of_a_long_chat_is_worded_once_and_not_for_each_answer_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts are encoded on the engine's thread: whoever waits there would wait for all of it."""
    codec = Codec.load(make("qwen2.5", tmp_path))
    worded = 0
    pieces = ChatTemplate.pieces

    def counted(template: ChatTemplate, messages: Sequence[Message], generate: bool = True) -> list[Piece]:
        nonlocal worded
        worded += 1
        return pieces(template, messages, generate)

    monkeypatch.setattr(ChatTemplate, "pieces", counted)
    chats = [[Turn("user", name)] for name in "ab"]
    for chat in chats:  # more answers in all than prompts are remembered
        for i in range(70):
            chat += [Turn("assistant", "x", tuple(codec.encode_text(f"x {i}"))), Turn("user", "and?")]
        codec.encode_chat(chat)
    whole = [codec.encode_chat(chat) for chat in chats]
    for chat, before in zip(chats, whole, strict=True):
        worded = 0
        chat += [Turn("assistant", "y", tuple(codec.encode_text("y"))), Turn("user", "and?")]
        assert codec.encode_chat(chat)[: len(before)] == before
        assert worded <= 3
    assert [Codec.load(tmp_path).encode_chat(chat) for chat in chats] == [codec.encode_chat(c) for c in chats]
