"""Sampling per session and presets: what may be set, and what files may say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chatkv.chat.errors import ChatError
from chatkv.chat.presets import Preset, load_presets, save_preset
from chatkv.chat.settings import PARAMETERS, parameter, value
from chatkv.chat.store import SessionStore
from tests.chat.shared import only_file, reload, say


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("temperature", "0.7", 0.7),
        ("temperature", "1", 1),
        ("top_p", "1", 1),
        ("seed", "3", 3),
        ("top_k", "+5", 5),
        ("priority", "-3", -3),
    ],
)
def test_values(name: str, text: str, wanted: object) -> None:
    assert value(name, text) == wanted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("temperature", "warm"),
        ("temperature", "-1"),
        ("temperature", "NaN"),
        ("temperature", "1e999"),
        ("temperature", "true"),
        ("temperature", "9" * 500),
        ("top_p", "0"),
        ("top_p", "1.1"),
        ("top_k", "2.5"),
        ("priority", "1001"),
        ("max_tokens", "0"),
        ("seed", "[" * 5000),
        ("seed", '"3"'),
    ],
)
def test_what_may_not_be_set_is_said_with_the_range(name: str, text: str) -> None:
    with pytest.raises(ChatError) as caught:
        value(name, text)
    assert f"{name} must be {PARAMETERS[name].wanted}, got " in str(caught.value)
    assert len(str(caught.value)) < 150


def test_parameters_by_a_beginning() -> None:
    assert parameter("temp") == "temperature"
    assert parameter("Top-P") == "top_p"
    with pytest.raises(ChatError, match="top_p or top_k"):
        parameter("top")
    with pytest.raises(ChatError, match="there is no parameter heat; there are temperature"):
        parameter("heat")


def test_sampling_is_kept_forked_and_copied(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    conv = store.create()
    say(store, conv, "hi")
    store.set_sampling(conv, {"temperature": 0.5, "seed": 3})
    store.set_sampling(conv, {"temperature": 0.7})
    fork = store.fork(conv, conv.path()[0].id)
    own = store.adopt(conv)
    assert [c.sampling for c in reload(store)] == [{"temperature": 0.7}] * 3
    store.set_sampling(fork, {})
    assert fork.sampling == {}
    assert own.sampling == conv.sampling == {"temperature": 0.7}


def test_a_file_with_strange_sampling_keeps_what_is_good(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.create("x")
    path = only_file(tmp_path)
    header = json.loads(path.read_text()) | {"sampling": {"temperature": "hot", "seed": 4, "\x1b[2J": 1}}
    path.write_text(json.dumps(header) + '\n{"chatkv":"sampling","sampling":[1]}\n')
    (conv,), problems = SessionStore(tmp_path).load_all()
    assert conv.sampling == {"seed": 4}
    told = [str(problem) for problem in problems]
    assert len(told) == 3
    assert "line 1: temperature must be a number from 0 to 100, got 'hot'" in told[0]
    assert "\x1b" not in "".join(told)
    assert 'line 2: "sampling" is not an object' in told[2]


def test_a_file_without_sampling_loads_as_before(tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").write_text(
        '{"chatkv":"session","version":1,"id":"a","created":"2026-01-01T00:00:00+00:00"}\n'
        '{"chatkv":"message","id":"m","parent":null,"role":"user","text":"hi"}\n'
    )
    (conv,) = reload(SessionStore(tmp_path))
    assert conv.sampling == {}


def test_presets_are_saved_loaded_and_replace_built_in_ones(tmp_path: Path) -> None:
    folder = tmp_path / "presets"
    assert set(load_presets(folder)[0]) == {"precise", "balanced", "creative"}
    mine = Preset("mine", 'say "hi"\\\n\ttwice ⑂ \x7f\ud800', {"temperature": 0.25, "max_tokens": 9})
    save_preset(folder, mine)
    save_preset(folder, Preset("precise", None, {"top_k": 1}))
    presets, faults = load_presets(folder)
    assert faults == []
    assert presets["mine"].system == 'say "hi"\\\n\ttwice ⑂ \ufffd'
    assert presets["mine"].sampling == mine.sampling
    assert presets["precise"].sampling == {"top_k": 1}


@pytest.mark.parametrize("name", ["", "../x", "a b", "x" * 41, "a/b"])
def test_a_preset_needs_a_name_that_is_a_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ChatError, match="letters, digits"):
        save_preset(tmp_path, Preset(name))
    assert list(tmp_path.iterdir()) == []


def test_preset_files_with_faults_are_told_and_the_others_work(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("=")
    (tmp_path / "kind.toml").write_text("system = 3")
    (tmp_path / "half.toml").write_text('temperature = "hot"\nseed = 1\nheat = 2')
    (tmp_path / "bin.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "dir.toml").mkdir()
    presets, faults = load_presets(tmp_path)
    assert presets["half"].sampling == {"seed": 1}
    assert "bad" not in presets
    assert [fault.split(":")[0] for fault in faults] == [
        "preset bad.toml",
        "preset bin.toml",
        "preset dir.toml",
        "preset half.toml",
        "preset half.toml",
        "preset kind.toml",
    ]
