from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import run as measure
from benchmarks.engines import command as bench_compare
from benchmarks.engines import compare as bench
from benchmarks.engines.compare import CASES, Comparison
from benchmarks.engines.peers import process


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Figures without measuring; the names that were to be measured."""
    asked: list[list[str]] = []

    def fake(names: list[str], *rest: object, pythons: dict[str, str]) -> Comparison:
        asked.append(names)
        figures = {case.title: {name: [10.0 * (i + 1)] for i, name in enumerate(names)} for case in CASES}
        return Comparison(dict.fromkeys(names, "1.0"), figures)

    (tmp_path / "config.json").write_text(
        json.dumps(
            {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1}
        )
    )
    monkeypatch.setattr(bench, "compare", fake)
    monkeypatch.setattr("chatkv.model.catalog.resolve", lambda model, progress: tmp_path)
    monkeypatch.setattr("chatkv.model.config.DecoderConfig.load", lambda folder: type("C", (), {"vocab": 9}))
    return asked


def test_table_json_and_plot(
    measured: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, svg = tmp_path / "out.json", tmp_path / "out.svg"
    arguments = ["--with", "transformers", "--no-quality", "--json", str(out), "--svg", str(svg)]
    assert measure(["engines", *arguments]) == 0
    assert measured == [["chatkv", "transformers"]]
    shown = capsys.readouterr().out
    assert "10.0 (10.0–10.0)" in shown
    line = next(line for line in shown.splitlines() if line.startswith("first token"))
    assert line.split()[-1] == "2.00"  # half the time
    assert json.loads(out.read_text())["figures"][CASES[0].title]["transformers"] == [20.0]
    assert CASES[0].title.replace(" ", "&#160;") in svg.read_text()


def test_what_is_not_installed_is_left_out_and_named(
    measured: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "installed", lambda name, python: name == "transformers")
    assert measure(["engines", "--no-quality"]) == 0
    assert measured == [["chatkv", "transformers"]]
    assert "pip install llama-cpp-python" in capsys.readouterr().err


def test_an_unknown_engine_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert measure(["engines", "--with", "exllama"]) == 2
    assert "exllama" in capsys.readouterr().err


def test_the_gguf_of_a_model_folder(tmp_path: Path) -> None:
    assert bench_compare._gguf(tmp_path) is None
    manifest = tmp_path / "chatkv.json"
    for text in ("[]", "{", '{"gguf": 3}', '{"gguf": "gone.gguf"}'):
        manifest.write_text(text)
        assert bench_compare._gguf(tmp_path) is None
    (tmp_path / "m.gguf").touch()
    manifest.write_text('{"gguf": "m.gguf"}')
    assert bench_compare._gguf(tmp_path) == tmp_path / "m.gguf"


@pytest.mark.parametrize("given", ["vllm", "other=/bin/sh", "vllm=", "vllm=/no/such", "vllm=/tmp"])
def test_an_interpreter_that_is_none_is_a_usage_error(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure(["engines", "--python", given]) == 2
    assert "--python" in capsys.readouterr().err
