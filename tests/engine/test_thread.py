"""The engine in its thread: loading, failing, stopping, closing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chatkv.engine import loading, thread
from chatkv.engine.config import EngineConfig, EngineError
from chatkv.engine.messages import Batch, Failed, GenerateRequest, Loading, Ready, Sampling, Turn
from chatkv.engine.sizing import pool_blocks
from tests.engine.conftest import Tiny
from tests.engine.rig import Heard, NumberCodec, expected

PROMPT = list(range(3, 23))
TURNS = (Turn("user", " ".join(map(str, PROMPT))),)


@pytest.mark.usefixtures("numbers")
def test_a_request_submitted_while_loading_is_answered(tiny_llama: Tiny, config: EngineConfig) -> None:
    heard = Heard()
    engine = thread.Engine(config, heard)
    assert engine.decode([1, 2]) == ""
    id = engine.submit(GenerateRequest("s", TURNS, Sampling(max_tokens=5)))
    engine.start()
    assert isinstance(heard.until(lambda m: not isinstance(m, Loading)), Ready)
    created = heard.until(lambda m: isinstance(m, Batch))
    assert type(created.events[0]).__name__ == "CacheCreated"
    assert list(heard.finished(id).token_ids) == expected(tiny_llama.reference, PROMPT, 5)
    assert engine.decode([1, 2]) == "1 2"
    engine.close()
    assert not engine._thread.is_alive()


@pytest.mark.usefixtures("numbers")
def test_stop_and_close_do_not_wait_for_an_answer(config: EngineConfig) -> None:
    heard = Heard()
    engine = thread.Engine(config, heard)
    engine.start()
    id = engine.submit(GenerateRequest("s", TURNS, Sampling(max_tokens=200)))
    other = engine.submit(GenerateRequest("t", TURNS, Sampling(max_tokens=200)))
    heard.until(lambda m: isinstance(m, Batch) and bool(m.deltas))
    engine.stop(id)
    engine.stop(id)
    assert heard.finished(id).reason == "aborted"
    engine.clear_cache()
    engine.close()
    assert not engine._thread.is_alive()
    assert other != id


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model": "/no/such/folder"}, "no/such"),
        ({"max_context": 10**6}, "max-context"),
        ({"num_blocks": 10**12}, "num-blocks"),
        ({"num_blocks": None, "kv_memory": 10}, "kv-memory"),
    ],
)
def test_what_can_not_start_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, config: EngineConfig, change: dict[str, Any], word: str
) -> None:
    monkeypatch.setattr(loading.Codec, "load", lambda folder: NumberCodec())
    heard = Heard()
    fields = {name: getattr(config, name) for name in config.__dataclass_fields__}
    if "model" not in change:
        monkeypatch.setattr(loading, "resolve", lambda model, progress: Path(model))
    engine = thread.Engine(EngineConfig(**{**fields, **change}), heard)
    early = engine.submit(GenerateRequest("s", TURNS))
    engine.start()
    failed = heard.until(lambda m: isinstance(m, Failed))
    assert word in failed.message
    assert "\n" not in failed.message
    assert heard.finished(early).message == failed.message
    late = engine.submit(GenerateRequest("s", TURNS))
    assert heard.finished(late).reason == "error"
    engine.stop(late)
    engine.close()


def test_closing_before_starting_is_fine(config: EngineConfig) -> None:
    thread.Engine(config, lambda message: None).close()


def test_the_default_pool_fits_the_machine() -> None:
    config = EngineConfig()
    assert pool_blocks(config, 1 << 20, 1 << 40) == 512
    assert pool_blocks(config, 1 << 20, 400 << 20) == 100
    assert pool_blocks(EngineConfig(kv_memory=10 << 20), 1 << 20, 1 << 40) == 10
    assert pool_blocks(EngineConfig(num_blocks=3), 1 << 20, 1 << 40) == 3


@pytest.mark.parametrize(
    "bad",
    [
        {"block_size": 0},
        {"block_size": 257},
        {"num_blocks": 0},
        {"kv_memory": -1},
        {"kv_memory": 1, "num_blocks": 1},
        {"cache": "lru"},
        {"dtype": "fp8"},
        {"eviction": "rand"},
        {"evict_grain": "leaf"},
        {"cache": "hash", "eviction": "lfu"},
        {"max_batch_tokens": 0},
    ],
)
def test_a_bad_configuration_names_the_option(bad: dict[str, Any]) -> None:
    with pytest.raises(EngineError, match="--") as caught:
        EngineConfig(**bad).validate()
    assert caught.value.exit_code == 2
