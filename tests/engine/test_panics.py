"""A tokenizer whose Rust code panics: real ones, by what a damaged tokenizer.json may hold."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel

from chatkv.model.errors import ModelError
from chatkv.model.tokenizer import Codec
from chatkv.model.tokenizer_folder import TokenizerFolder
from tests.engine.conftest import Tiny
from tests.engine.rig import NumberCodec, Rig


def words() -> Tokenizer:
    tokenizer = Tokenizer(WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def broken_charsmap(tokenizer: Tokenizer) -> Tokenizer:
    """Its normaliser looks far outside of a table."""
    charsmap = struct.pack("<I", 8) + b"\xff" * 8 + b"a\0"
    tokenizer.normalizer = normalizers.Precompiled(charsmap)
    return tokenizer


def codec_of(tokenizer: Tokenizer) -> Codec:
    return Codec(TokenizerFolder(tokenizer, None, {}, frozenset(), adds_bos=False))


def test_a_panic_of_encoding_is_a_model_error() -> None:
    codec = codec_of(broken_charsmap(words()))
    for encode in (codec.encode_text, codec.encode_prompt, codec.encode_later):
        with pytest.raises(ModelError, match=r"broke down when it was to read a text .*index out of bounds"):
            encode("a b")


def test_a_panic_of_decoding_is_a_model_error() -> None:
    tokenizer = words()
    tokenizer.decoder = decoders.Strip("a", 5, 5)
    codec = codec_of(tokenizer)
    with pytest.raises(ModelError, match="write out tokens"):
        codec.decode([0, 1])
    detokenizer = codec.detokenizer()
    with pytest.raises(ModelError, match="write out tokens"):
        detokenizer.push(0)


def test_a_panic_of_loading_is_a_model_error(tmp_path: Path) -> None:
    tokenizer = words()
    tokenizer.post_processor = processors.TemplateProcessing(single="a:0 $A", special_tokens=[("a", 0)])
    content = json.loads(tokenizer.to_str())
    content["post_processor"]["special_tokens"] = {}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match="read its own files"):
        TokenizerFolder.load(tmp_path)


class Unwritable:
    """Every token's text is that of id 0, which panics."""

    pending = False

    def __init__(self, codec: Codec) -> None:
        self._detokenizer = codec.detokenizer()

    def push(self, token: int) -> str:
        return self._detokenizer.push(0)

    def flush(self) -> str:
        return self._detokenizer.flush()


class BrokenCodec(NumberCodec):
    """Ids can be read, texts can't; no answer can be written out."""

    def __init__(self) -> None:
        self._reads = codec_of(broken_charsmap(words()))
        tokenizer = words()
        tokenizer.decoder = decoders.Strip("a", 5, 5)
        self._writes = codec_of(tokenizer)

    def encode_prompt(self, text: str) -> list[int]:
        return self._reads.encode_prompt(text)

    def detokenizer(self) -> Unwritable:  # type: ignore[override]
        return Unwritable(self._writes)


def test_a_request_whose_text_makes_it_panic_ends_alone(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder, BrokenCodec())
    bad = rig.ask("a b a", max_tokens=3)
    assert rig.finished[bad].reason == "error"
    assert "broke down" in rig.finished[bad].message
    unreadable = rig.ask_ids([5, 6, 8], max_tokens=200)
    rig.run()
    assert rig.finished[unreadable].reason == "error"
    assert "write out tokens" in rig.finished[unreadable].message
    rig.core.codec = NumberCodec()  # type: ignore[assignment]
    assert rig.answer([5, 6, 8], max_tokens=3).reason == "length"
