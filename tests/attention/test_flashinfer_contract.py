"""Every call chatkv makes to FlashInfer is one that all supported versions take.

The calls are recorded from the backend at work and bound to recorded signatures, and to those of the
installed library where there is one. The plan of decode takes ``**kwargs``: what it
passes them to was recorded.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from chatkv.attention.flashinfer.backend import FlashInferBackend
from chatkv.attention.flashinfer.rules import Heads
from tests.attention.batches import random_case
from tests.attention.flashinfer_fakes import Call, Recorder

DATA = Path(__file__).parents[1] / "data" / "flashinfer"
VERSIONS = ("0.6.18.post1", "0.7.2.post1", "0.7.4")
CPU = torch.device("cpu")


def surface(version: str) -> dict[str, list[list[Any]]]:
    """Name → parameters, each with its name, kind and default's repr."""
    out = {}
    for part in ("contract", "workspace"):
        recorded = json.loads((DATA / f"{part}_{version}.json").read_text())
        assert recorded["version"] == version
        out |= recorded["surface"]
    return out


def signature(parameters: list[list[Any]]) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(
                name,
                getattr(inspect.Parameter, kind),
                default=inspect.Parameter.empty if default is None else default,
            )
            for name, kind, default in parameters
        ]
    )


def live_signature(library: ModuleType, name: str) -> inspect.Signature:
    owner, method = name.split(".")
    if method == "plan" and "Decode" in owner:
        method = "_plan_impl"
    return inspect.signature(getattr(getattr(library, owner), method))


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    """All calls of a backend's life, with both decode kernels, graphs, and a workspace too small."""
    out = []
    for group in (3, 7):
        recorder = Recorder()
        cases = [
            random_case(lens, 16, 2, group, 64, torch.bfloat16, seed=0)
            for lens in ([(5, 9), (1, 3)], [(1, 20), (1, 3)])
        ]
        backend = FlashInferBackend(recorder, Heads(2 * group, 2, 64, torch.bfloat16), CPU)  # type: ignore[arg-type]
        for case in cases:
            recorder.fails = [RuntimeError("Buffer overflow when allocating memory for batch_prefill_tmp_v")]
            backend.plan(case.batch)
            backend.run(case.q, case.kv)
        graph = backend.graph(2, 64)
        graph.plan(cases[1].batch)
        graph.run(cases[1].q, cases[1].kv)
        out += recorder.calls
    return out


def test_the_whole_of_what_is_used_was_recorded(calls: list[Call]) -> None:
    methods = ("__init__", "plan", "run", "workspace_size", "reset_workspace_buffer")
    wrappers = ("BatchPrefillWithPagedKVCacheWrapper", "BatchDecodeWithPagedKVCacheWrapper")
    assert {call.name for call in calls} == {f"{w}.{m}" for w in wrappers for m in methods}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_call_binds_to_the_recorded_signatures(calls: list[Call], version: str) -> None:
    known = surface(version)
    for call in calls:
        signature(known[call.name]).bind(call.wrapper, *call.args, **call.arguments)


def test_a_call_with_an_unknown_or_missing_argument_would_be_found() -> None:
    plan = signature(surface("0.7.4")["BatchDecodeWithPagedKVCacheWrapper.plan"])
    with pytest.raises(TypeError, match="num_heads"):
        plan.bind(None, None, None, None, 1, 1, 64, 16, num_heads=3)
    with pytest.raises(TypeError, match="missing"):
        plan.bind(None, indptr=None)


def test_what_has_a_treacherous_default_is_given(calls: list[Call]) -> None:
    for call in calls:
        # ``reset_workspace_buffer`` has two parameters, with these names in all versions.
        assert not call.args or call.name.endswith("reset_workspace_buffer"), call.name
        if call.name.endswith(("plan", "workspace_size")):
            given = call.arguments
            dtypes = {given["q_data_type"], given["kv_data_type"], given["o_data_type"]}
            assert dtypes == {torch.bfloat16}
            if "Prefill" in call.name:
                assert given["causal"] is True
                assert given["max_token_per_sequence"] > 0
        if call.name.endswith("__init__"):
            assert call.arguments["backend"] == "fa2"
            assert call.arguments["kv_layout"] == "NHD"
        if call.name.endswith("run"):
            assert isinstance(call.arguments["paged_kv_cache"], torch.Tensor)


def test_plans_get_int32_everywhere(calls: list[Call]) -> None:
    for call in calls:
        if call.name.endswith("plan"):
            for name, value in call.arguments.items():
                if isinstance(value, torch.Tensor):
                    assert value.dtype == torch.int32, name


def test_the_installed_library_takes_every_call(flashinfer: ModuleType, calls: list[Call]) -> None:
    for call in calls:
        live_signature(flashinfer, call.name).bind(call.wrapper, *call.args, **call.arguments)


def test_the_installed_library_has_the_signatures_of_its_record(flashinfer: ModuleType) -> None:
    version = flashinfer.__version__
    if version not in VERSIONS:
        pytest.skip(f"FlashInfer {version} is installed, recorded were {', '.join(VERSIONS)}")
    for name, recorded in surface(version).items():
        if not name.startswith(("BatchPrefill", "BatchDecode")):
            continue  # not in use
        live = [
            [p.name, p.kind.name, None if p.default is p.empty else repr(p.default)]
            for p in live_signature(flashinfer, name).parameters.values()
        ]
        assert live == recorded, name
