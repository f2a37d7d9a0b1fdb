from __future__ import annotations

import json
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from chatkv.engine.messages import Turn
from chatkv.model.errors import ModelError
from chatkv.model.gguf import GgufFile, convert
from chatkv.model.gguf_tokenizer import stop_ids, tokenizer_files
from chatkv.model.tokenizer import Codec
from tests.model.gguf_files import write_gguf
from tests.model.templates import CHATML, CHATML_SPECIAL, CORPUS, byte_level

TEXTS = [
    *CORPUS[:3],
    "Hello there, how are you?  It's fine; don't you'll we've.",
    "def f(x):\n    return x + 1  # no digits\n\n\tif x == y: pass",
    "你好，世界。混合 English 和中文",
    "👩‍👩‍👧‍👦🏳️‍🌈 emoji e\u0301 naïve café ÅÄÖ",
    "   \n\n \t\r\n  x   ",
    "snake_case camelCase $%^&*() <b>x</b> https://example.org/a?b=c&d",
    "1",
    "12 345 x1y22z333 4,444.5",
    " 2024-01-02 ٣٤ ½ ²",
]
WITHOUT_DIGITS = [t for t in TEXTS if not any(c.isnumeric() for c in t)]


def codec_of(gguf_file: Path, folder: Path) -> Codec:
    folder.mkdir()
    convert(gguf_file, folder, lambda fraction: None)
    return Codec.load(folder)


@pytest.mark.parametrize("pre", ["llama-bpe", "qwen2", "default"])
def test_ids_equal_transformers_own_gguf_tokenizer(pre: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", tokenizer=byte_level(CHATML_SPECIAL, ["<think>"]), pre=pre)
    codec = codec_of(tmp_path / "m.gguf", tmp_path / "out")
    theirs = AutoTokenizer.from_pretrained(tmp_path, gguf_file="m.gguf")
    for text in TEXTS:
        if pre == "qwen2":
            # Qwen's own tokenizer composes characters first; transformers forgets that for GGUF files.
            assert codec.encode_text(text) == codec.encode_text(unicodedata.normalize("NFC", text))
            text = unicodedata.normalize("NFC", text)
        assert codec.encode_text(text) == theirs.encode(text, add_special_tokens=False), text
        assert codec.decode(codec.encode_text(text)) == theirs.decode(codec.encode_text(text))


def test_smollm_splits_every_digit(tmp_path: Path) -> None:
    """transformers has no rule for ``smollm``; the model's own tokenizer.json has this one."""
    tokenizer = byte_level(CHATML_SPECIAL, [])
    write_gguf(tmp_path / "m.gguf", tokenizer=tokenizer, pre="smollm")
    codec = codec_of(tmp_path / "m.gguf", tmp_path / "out")
    tokenizer.normalizer = None  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    for text in TEXTS:
        assert codec.encode_text(text) == tokenizer.encode(text, add_special_tokens=False).ids, text
    assert [codec.piece(i) for i in codec.encode_text(" 123")] == [" ", "1", "2", "3"]


def test_the_chat_template_and_stop_ids_come_along(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    codec = codec_of(tmp_path / "m.gguf", tmp_path / "out")
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path / "out")
    assert theirs.chat_template == CHATML
    chat = [{"role": "user", "content": "Hi"}]
    want = theirs.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    assert codec.encode_chat([Turn("user", "Hi")]) == want
    assert {codec.piece(i) for i in codec.stop_ids} == {"<|im_end|>"}


@pytest.mark.parametrize(
    ("extra", "stops"),
    [
        ({"eot": 400, "eom": 401}, {400, 401, 407}),
        ({"eot": 400, "eos": None}, {400, 407}),
        ({"eot": 401, "eom": 401}, {401, 407}),
        ({"eot": 9999, "eom": 2**31}, {407}),
    ],
)
def test_ends_of_a_turn_and_a_message_are_stop_ids(
    extra: dict[str, int | None], stops: set[int], tmp_path: Path
) -> None:
    tokenizer = byte_level(CHATML_SPECIAL, [])
    assert tokenizer.token_to_id("<|im_end|>") == 407  # what the template ends an answer with
    keys = {f"tokenizer.ggml.{name}_token_id": value for name, value in extra.items()}
    write_gguf(tmp_path / "m.gguf", tokenizer=tokenizer, extra=keys)
    assert codec_of(tmp_path / "m.gguf", tmp_path / "out").stop_ids == stops


@pytest.mark.parametrize(
    ("pre", "added", "begins"),
    [
        ("llama-bpe", None, True),
        ("llama-bpe", False, False),
        ("tekken", None, True),
        ("qwen2", None, False),
        ("qwen2", True, True),
        ("default", None, False),
    ],
)
def test_bos_is_added_where_llama_cpp_adds_it(
    pre: str, added: bool | None, begins: bool, tmp_path: Path
) -> None:
    tokenizer = byte_level(CHATML_SPECIAL, [])
    write_gguf(
        tmp_path / "m.gguf", tokenizer=tokenizer, pre=pre, extra={"tokenizer.ggml.add_bos_token": added}
    )
    ids = codec_of(tmp_path / "m.gguf", tmp_path / "out").encode_prompt("hello")
    assert (ids[0] == tokenizer.token_to_id("<|endoftext|>")) == begins


def test_sentencepiece_has_its_ids_where_the_file_is_silent(tmp_path: Path) -> None:
    metadata = sentencepiece_metadata(True)
    silent = {k: v for k, v in metadata.items() if not k.endswith("_token_id")}
    assert tokenizer_files(silent, Path("m.gguf")) == tokenizer_files(metadata, Path("m.gguf"))
    assert stop_ids(silent) == stop_ids(metadata) == 2


def test_named_templates_of_a_gguf_file(tmp_path: Path) -> None:
    write_gguf(
        tmp_path / "m.gguf",
        extra={
            "tokenizer.chat_template": None,
            "tokenizer.chat_template.tool_use": "T",
            "tokenizer.chat_template.rp": "R{{ messages[0].content }}",
        },
    )
    codec = codec_of(tmp_path / "m.gguf", tmp_path / "out")
    assert codec.decode(codec.encode_chat([Turn("user", "a")])) == "Ra"
    assert "rp is used" in codec.notes[0]


def sentencepiece_metadata(prefix: bool) -> dict[str, object]:
    """A score-based vocabulary as llama.cpp stores it: pieces, scores, types."""
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    pieces += [(f"<0x{b:02X}>", 0.0, 6) for b in range(256)]
    words = ["th", "▁th", "▁the", "he", "in", "▁in", "er", "▁▁", "▁▁▁▁", "▁a", "qu", "▁qu", "ick"]
    pieces += [(word, -float(i), 1) for i, word in enumerate(words)]
    letters = sorted(set("the quick brown fox jumps over a lazy dog.,!\n世界".replace(" ", "▁")))
    pieces += [(letter, -100.0 - i, 1) for i, letter in enumerate(letters)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [p for p, _, _ in pieces],
        "tokenizer.ggml.scores": [s for _, s, _ in pieces],
        "tokenizer.ggml.token_type": [t for _, _, t in pieces],
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_space_prefix": prefix,
    }


def llama_cpp_spm(metadata: dict[str, object], text: str) -> list[int]:
    """llama.cpp's SPM tokenizer: join the neighbours that make the best-scored piece, leftmost first."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]  # type: ignore[assignment]
    scores: list[float] = metadata["tokenizer.ggml.scores"]  # type: ignore[assignment]
    ids = {t: i for i, t in enumerate(tokens) if i > 2}
    text = text.replace(" ", "▁")
    parts = list("▁" + text if metadata["tokenizer.ggml.add_space_prefix"] and text else text)
    while True:
        pairs = [(-scores[ids[a + b]], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in ids]
        if not pairs:
            break
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    out: list[int] = []
    for part in parts:
        out += [ids[part]] if part in ids else [ids[f"<0x{b:02X}>"] for b in part.encode()]
    return out


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece_vocabularies(prefix: bool, tmp_path: Path) -> None:
    metadata = sentencepiece_metadata(prefix)
    for file, content in tokenizer_files(metadata, Path("m.gguf")).items():
        (tmp_path / file).write_text(json.dumps(content))
    codec = Codec.load(tmp_path)
    for text in ["the quick fox", "  in    the  \n\n", "世界 你好 👩‍👩‍👧", "thethether", "a", "</s> the <s>"]:
        ids = codec.encode_text(text)
        assert ids == llama_cpp_spm(metadata, text), text
        assert codec.decode(ids) == text


def test_transformers_reads_the_sentencepiece_tokenizer_alike(tmp_path: Path) -> None:
    for file, content in tokenizer_files(sentencepiece_metadata(True), Path("m.gguf")).items():
        (tmp_path / file).write_text(json.dumps(content))
    theirs, codec = PreTrainedTokenizerFast.from_pretrained(tmp_path), Codec.load(tmp_path)
    for text in TEXTS:
        assert theirs.encode(text, add_special_tokens=False) == codec.encode_text(text)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokenizer.ggml.tokens": None}, "no tokenizer"),
        ({"tokenizer.ggml.token_type": [1]}, "token types"),
        ({"tokenizer.ggml.model": "bert"}, "'bert' is not supported; only gpt2 and llama"),
        ({"tokenizer.ggml.scores": None}, "no scores"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.merges": None}, "no merges"),
    ],
)
def test_incomplete_metadata(change: dict[str, object], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        tokenizer_files(sentencepiece_metadata(True) | change, Path("m.gguf"))


@pytest.mark.model
def test_the_real_tokenizer(smollm2_folder: Path) -> None:
    """Equal to transformers' GGUF reading, except for digits, where that lacks the model's rule."""
    (file,) = smollm2_folder.glob("*.gguf")
    codec = Codec.load(smollm2_folder)
    theirs = AutoTokenizer.from_pretrained(smollm2_folder, gguf_file=file.name)
    for text in WITHOUT_DIGITS:
        assert codec.encode_text(text) == theirs.encode(text, add_special_tokens=False), text
    own = Tokenizer.from_file(str(smollm2_folder / "tokenizer.json"))
    assert own.encode("12 345").tokens == ["1", "2", "Ġ", "3", "4", "5"]
    metadata = GgufFile(file).metadata
    assert metadata["tokenizer.ggml.pre"] == "smollm"
    assert len(metadata["tokenizer.ggml.tokens"]) == own.get_vocab_size() == 49152
