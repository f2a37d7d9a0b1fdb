from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.engines import compare
from benchmarks.engines.compare import CASES, Case, Comparison
from benchmarks.engines.peers import huggingface
from benchmarks.engines.peers import vllm as vllm_peer
from benchmarks.engines.peers.base import DECODED, Peer, Setup
from benchmarks.engines.peers.huggingface import HuggingFace
from benchmarks.engines.peers.ours import Ours
from benchmarks.engines.peers.process import PEERS, PeerProcess, installed
from chatkv.errors import ChatkvError


def setup_for(folder: Path) -> Setup:
    return Setup(str(folder), None, 1, 64, 2)


@pytest.mark.model
@pytest.mark.parametrize("peer", [Ours, HuggingFace])
def test_a_peer_does_the_work_it_is_asked_for(peer: type[Peer], smollm2_folder: Path) -> None:
    made = peer(setup_for(smollm2_folder))  # type: ignore[call-arg]
    assert made.about()
    prompts = [[5, 6, 7, 8] * 4, [9, 10, 11, 12] * 4]
    assert made.prefill(prompts[0]) > 0
    assert made.decode(prompts) > 0
    assert made.cached(prompts[0], prompts[1][:3]) > 0


def test_the_time_of_a_prefill_is_not_in_transformers_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    prefills = iter((7.0, 2.0))

    class Model:
        def generate(self, ids: torch.Tensor, max_new_tokens: int, **options: Any) -> None:
            clock[0] += next(prefills)  # no two take as long on a busy machine
            for token in range(max_new_tokens):
                clock[0] += 0.5 if token else 0.0
                for watch in options.get("stopping_criteria") or ():
                    assert not watch(ids, None).any()

    monkeypatch.setattr(huggingface.time, "perf_counter", lambda: clock[0])
    peer = HuggingFace.__new__(HuggingFace)
    peer._model = Model()
    assert peer.decode([[1, 2], [3, 4]]) == 0.5 * (DECODED - 1)


@pytest.mark.model
def test_ours_hits_only_where_it_is_meant_to(smollm2_folder: Path) -> None:
    ours = Ours(setup_for(smollm2_folder))
    prompt = list(range(100, 140))

    def cached() -> list[int]:
        views = ours._mirror.requests.values()
        return [view.cached for view in views if view.cached]

    ours.prefill(prompt)
    ours.prefill(prompt)
    ours.decode([prompt])
    assert cached() == []
    ours.cached(prompt, [1, 2, 3])
    assert cached() == [40]


@pytest.mark.model
def test_peers_in_processes_of_their_own(smollm2_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = (Case("few", "decode", 8, 2, 2 * (DECODED - 1)), Case("cached", "cached", 12))
    monkeypatch.setattr(compare, "CASES", cases)
    monkeypatch.setattr(compare, "PREFIX", 8)
    seen = []
    found = compare.compare(["chatkv"], setup_for(smollm2_folder), 1000, 2, lambda *step: seen.append(step))
    assert [len(found.figures[case.title]["chatkv"]) for case in cases] == [2, 2]
    assert (
        "int4" in found.about["chatkv"] or "bf16" in found.about["chatkv"] or "fp32" in found.about["chatkv"]
    )
    assert seen[-1][1:] == (5, 6)


def test_a_peer_that_fails_says_so_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ChatkvError, match=r"chatkv: .*config\.json"):
        PeerProcess("chatkv", setup_for(tmp_path))


def test_a_peer_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ChatkvError, match="ended early"):
        PeerProcess("chatkv", setup_for(tmp_path))


def test_figures_and_ratios() -> None:
    decode, first = CASES[0], CASES[-1]
    assert decode.figure(2.0) == decode.tokens / 2
    assert decode.ratio(20.0, 10.0) == 2
    assert first.figure(0.05) == 50
    assert first.ratio(10.0, 20.0) == 2
    found = Comparison(figures={decode.title: {"chatkv": [3.0, 1.0, 2.0]}})
    assert found.middle(decode, "chatkv") == 2
    assert found.middle(decode, "llama.cpp") is None


def test_llama_cpp_is_driven_as_its_interface_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[object] = []

    class Llama:
        def __init__(self, path: str, **options: object) -> None:
            calls.append((path, options["n_ctx"], options["n_threads"]))

        def reset(self) -> None:
            calls.append("reset")

        def eval(self, tokens: list[int]) -> None:
            calls.append(len(tokens))

        def sample(self, temp: float) -> int:
            assert temp == 0
            return 7

    module = ModuleType("llama_cpp")
    module.Llama, module.__version__ = Llama, "0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "llama_cpp", module)
    from benchmarks.engines.peers.llama_cpp import LlamaCpp

    with pytest.raises(ChatkvError, match="GGUF"):
        LlamaCpp(setup_for(tmp_path))
    peer = LlamaCpp(Setup("", "m.gguf", 2, 64, 1))
    peer.cached([1, 2, 3], [4])
    peer.decode([[1, 2]])
    assert calls == [("m.gguf", 64, 2), "reset", 3, 1, "reset", 2, *[1] * (DECODED - 1)]
    assert PEERS["llama.cpp"].install


def test_an_engine_is_looked_for_where_its_interpreter_finds_it(tmp_path: Path) -> None:
    assert installed("chatkv")
    assert not installed("vllm", sys.executable)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "vllm").mkdir()
    assert installed("vllm", str(python))
    with pytest.raises(ChatkvError, match="is no Python"):
        installed("vllm", str(tmp_path / "none"))


def test_vllm_is_driven_as_its_interface_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: dict[str, Any] = {}

    class Engine:
        """Gives each request a token a step; the first only after as many steps as its prompt has tokens."""

        def __init__(self) -> None:
            self.live: dict[str, list[Any]] = {}
            self.seen: list[tuple[int, int]] = []

        def add_request(self, request_id: str, prompt: dict[str, list[int]], params: dict[str, Any]) -> None:
            assert params["temperature"] == 0
            assert params["ignore_eos"]
            assert params["min_tokens"] == params["max_tokens"]
            self.seen.append((len(prompt["prompt_token_ids"]), params["max_tokens"]))
            self.live[request_id] = [len(prompt["prompt_token_ids"]), params["max_tokens"], []]

        def has_unfinished_requests(self) -> bool:
            return bool(self.live)

        def step(self) -> list[Any]:
            clock[0] += 1
            out = []
            for name, request in list(self.live.items()):
                request[0] -= 1
                if request[0] < 0:
                    request[2].append(7)
                    out.append(
                        SimpleNamespace(request_id=name, outputs=[SimpleNamespace(token_ids=request[2])])
                    )
                if len(request[2]) == request[1]:
                    del self.live[name]
            return out

    class LLM:
        def __init__(self, **options: Any) -> None:
            made.update(options)
            self.llm_engine = Engine()
            self.resets = 0

        def reset_prefix_cache(self) -> None:
            self.resets += 1

    clock = [0.0]
    module: Any = ModuleType("vllm")
    module.LLM, module.SamplingParams, module.__version__ = LLM, dict, "9"
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setattr(vllm_peer.time, "perf_counter", lambda: clock[0])
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", "VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_OMP_THREADS_BIND"):
        monkeypatch.setenv(name, "before")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    peer = vllm_peer.Vllm(setup_for(tmp_path))
    assert made["enable_prefix_caching"]
    assert made["dtype"] == "bfloat16"
    assert peer.about() == "9, bf16"
    assert peer.prefill([1, 2, 3]) == 4
    # The second of two has its first token two steps later: from there on it is decoding that is measured.
    assert peer.decode([[1], [1, 2, 3]]) == DECODED - 1
    assert peer.cached([1, 2], [3]) == 4
    assert peer._llm.resets == 3
    assert peer._llm.llm_engine.seen == [(3, 1), (1, DECODED), (3, DECODED), (2, 1), (3, 1)]
