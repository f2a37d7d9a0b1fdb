"""What a model thinks is kept apart from its answer, and from the next prompt where the template says so."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from chatkv.engine.messages import Turn
from chatkv.model.thinking import ThinkingSplitter
from chatkv.model.tokenizer import Codec
from tests.model.templates import make
from tests.model.test_codec import transformers_ids


def split(text: str, sizes: list[int], thinks: bool = True, opened: bool = False) -> tuple[str, str]:
    splitter, at, parts = ThinkingSplitter(thinks, opened), 0, []
    for size in [*sizes, len(text)]:
        parts.append(splitter.push(text[at : at + size]))
        at += size
    parts.append(splitter.flush())
    return "".join(p[0] for p in parts), "".join(p[1] for p in parts)


@pytest.mark.parametrize(
    ("text", "opened", "thinking", "answer"),
    [
        ("<think>\nso\n\nand </th\n</think>\n\nwell\n", False, "so\n\nand </th", "well\n"),
        ("\n <think>so</think>well", False, "so", "well"),
        ("<think>\n\n</think>\n\nwell", False, "", "well"),
        ("<think>never ends </thin", False, "never ends </thin", ""),
        ("<think>a\n", False, "a", ""),
        ("  <thinker", False, "", "  <thinker"),
        ("well <think>no</think>", False, "", "well <think>no</think>"),
        ("<think>a</think>b</think><think>c", False, "a", "b</think><think>c"),
        ("<thi", False, "", "<thi"),
        ("\n", False, "", "\n"),
        ("", False, "", ""),
        ("so\n</think>\n\nwell", True, "so", "well"),
        ("<think>\nso</think>well", True, "so", "well"),
        ("<thi", True, "<thi", ""),
        ("</think>well", True, "", "well"),
    ],
)
def test_in_pieces_of_any_size(text: str, opened: bool, thinking: str, answer: str) -> None:
    rng = random.Random(0)
    for _ in range(30):
        sizes = [rng.randrange(1, 5) for _ in range(rng.randrange(0, 30))]
        assert split(text, sizes, opened=opened) == (thinking, answer)
    assert split(text, [1] * len(text), opened=opened) == (thinking, answer)
    assert split(text, [1] * len(text), thinks=False) == ("", text)


THINKING = ["qwen3", "special-thinking", "spelled-thinking", "opens-thinking"]


def tokens(codec: Codec, text: str) -> tuple[int, ...]:
    """Ids as a model samples them: the tags as marks where there are some."""
    ids: list[int] = []
    marks = {name: i for i in range(500) if (name := codec.piece(i)) in ("<think>", "</think>", "<|im_end|>")}
    rest = text
    while rest:
        at, name = min(((rest.find(m), m) for m in marks if m in rest), default=(len(rest), ""))
        ids += codec.encode_later(rest[:at]) + ([marks[name]] if name else [])
        rest = rest[at + len(name) :]
    return tuple(ids)


@pytest.mark.parametrize("family", THINKING)
def test_text_of_an_answer_comes_apart_token_by_token(family: str, tmp_path: Path) -> None:
    codec = Codec.load(make(family, tmp_path))
    opened = family == "opens-thinking"
    detokenizer, splitter = codec.detokenizer(), codec.splitter()
    ids = tokens(codec, ("" if opened else "<think>\n") + "naïve\n</think>\n\n你好")
    parts = [splitter.push(detokenizer.push(token)) for token in ids]
    parts += [splitter.push(detokenizer.flush()), splitter.flush()]
    assert "".join(p[0] for p in parts) == "naïve"
    assert "".join(p[1] for p in parts) == "你好"


@pytest.mark.parametrize("family", ["llama3", "mistral", "qwen2.5"])
def test_models_that_do_not_think_just_write(family: str, tmp_path: Path) -> None:
    splitter = Codec.load(make(family, tmp_path)).splitter()
    assert splitter.push("<think>a</think>b") == ("", "<think>a</think>b")


@pytest.mark.parametrize("family", THINKING)
def test_the_next_prompt_is_what_the_template_makes_of_it(family: str, tmp_path: Path) -> None:
    """From sampled ids exactly what the template, given all the text, would write: without the thinking."""
    folder = make(family, tmp_path)
    codec = Codec.load(folder)
    opened = family == "opens-thinking"
    said = ("" if opened else "<think>\n") + "so long\n</think>\n\nHello there"
    sampled = tokens(codec, said)
    turns = [Turn("user", "a")] if opened else [Turn("system", "Be brief."), Turn("user", "a")]
    for question in ("more", "again", "the end"):
        first = codec.encode_chat(turns)
        turns = [*turns, Turn("assistant", "Hello there", sampled), Turn("user", question)]
        prompt = codec.encode_chat(turns)
        as_text = [t if t.token_ids is None else Turn(t.role, said) for t in turns]
        assert prompt == transformers_ids(folder, as_text)
        assert "so long" not in codec.decode(prompt)
        # All stays as it was, up to where the span was opened: only what follows is computed anew.
        kept = len(first) - (2 if opened else 0)
        assert prompt[:kept] == first[:kept]


@pytest.mark.parametrize("family", THINKING)
def test_an_answer_without_thinking_stays_as_sampled(family: str, tmp_path: Path) -> None:
    codec = Codec.load(make(family, tmp_path))
    if family == "opens-thinking":
        pytest.skip("there the template opens the span itself")
    newline = codec.encode_later("\n")
    ids = (*newline, *newline, *codec.encode_later("Hello"))
    first = codec.encode_chat([Turn("user", "a")])
    prompt = codec.encode_chat([Turn("user", "a"), Turn("assistant", "\n\nHello", ids), Turn("user", "b")])
    assert prompt[: len(first) + len(ids)] == [*first, *ids]


@pytest.mark.parametrize("family", THINKING)
def test_thinking_that_was_cut_short_leaves_an_empty_answer(family: str, tmp_path: Path) -> None:
    codec = Codec.load(make(family, tmp_path))
    ids = tokens(codec, "<think>\nso lo")
    turns = [Turn("user", "a"), Turn("assistant", "", ids), Turn("user", "b")]
    without = [turns[0], Turn("assistant", ""), turns[2]]
    assert codec.encode_chat(turns) == codec.encode_chat(without)


@pytest.mark.parametrize("family", THINKING)
def test_thinking_of_which_only_the_text_is_known_goes_in_as_sampled(family: str, tmp_path: Path) -> None:
    """Of an imported answer, or another model's: the template drops or keeps it as that of one's own."""
    folder = make(family, tmp_path)
    codec, fresh = Codec.load(folder), Codec.load(folder)
    opened = family == "opens-thinking"
    said = ("" if opened else "<think>\n") + "so long\n</think>\n\nHello"
    own, other = [Turn("user", "a")], [Turn("user", "a")]
    for question in ("b", "c"):
        own += [Turn("assistant", "Hello", tokens(codec, said)), Turn("user", question)]
        other += [Turn("assistant", "Hello", thinking="so long"), Turn("user", question)]
        assert fresh.encode_chat(other) == codec.encode_chat(own)


def test_where_the_template_keeps_thinking_that_of_others_is_kept(tmp_path: Path) -> None:
    folder = make("qwen3", tmp_path)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    codec = Codec.load(folder)
    sampled = tokens(codec, "<think>\nso long\n</think>\n\nHello")
    own = [Turn("user", "a"), Turn("assistant", "Hello", sampled), Turn("user", "b")]
    other = [own[0], Turn("assistant", "Hello", thinking="so long"), own[2]]
    prompt = codec.encode_chat(other)
    assert prompt == codec.encode_chat(own)
    assert "so long" in codec.decode(prompt)


def test_a_model_that_does_not_think_reads_no_thinking(tmp_path: Path) -> None:
    codec = Codec.load(make("qwen2.5", tmp_path))
    turns = [Turn("user", "a"), Turn("assistant", "Hello", thinking="so long"), Turn("user", "b")]
    assert codec.encode_chat(turns) == codec.encode_chat([turns[0], Turn("assistant", "Hello"), turns[2]])


def test_what_a_person_types_is_text(tmp_path: Path) -> None:
    codec = Codec.load(make("qwen3", tmp_path))
    marks = {i for i in range(500) if "think>" in codec.piece(i)}
    for turns in (
        [Turn("user", "<think>a</think>")],
        [
            Turn("system", "</think>"),
            Turn("user", "a"),
            Turn("assistant", "<think>"),
            Turn("user", "</think>"),
        ],
    ):
        prompt = codec.encode_chat(turns)
        assert not marks & set(prompt)
        assert turns[-1].text in codec.decode(prompt)
