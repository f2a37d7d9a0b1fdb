from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from chatkv.errors import UsageError
from chatkv.model.dtype import auto_dtype
from chatkv.model.quantise import codes4, codes8
from chatkv.native import build, choice, library
from tests.native.kernels import native

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    # bf16: sums in another order may round to the neighbour.
    tolerance = 1e-5 if want.dtype == torch.float32 else 2**-6
    torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)


@DTYPES
@pytest.mark.parametrize("rows", [1, 5, 200])
@pytest.mark.parametrize("width", [576, 48, 19])
def test_add_norm(dtype: torch.dtype, rows: int, width: int) -> None:
    kernels = native(dtype)
    h, delta = torch.randn(2, rows, width).to(dtype) * 3
    weight, out, before = torch.randn(width).to(dtype), torch.empty(rows, width, dtype=dtype), h.clone()
    args = (weight.data_ptr(), out.data_ptr(), rows, width, 1e-5)
    kernels.add_norm(h.data_ptr(), None, *args)
    assert torch.equal(h, before)
    close(out, F.rms_norm(h, (width,), weight, 1e-5))
    kernels.add_norm(h.data_ptr(), delta.data_ptr(), *args)
    assert torch.equal(h, before + delta)
    close(out, F.rms_norm(before + delta, (width,), weight, 1e-5))


@DTYPES
@pytest.mark.parametrize(("rows", "width"), [(1, 1536), (3, 80), (100, 1536), (2, 21)])
def test_gated(dtype: torch.dtype, rows: int, width: int) -> None:
    kernels = native(dtype)
    gate_up = torch.randn(rows, 2 * width).to(dtype) * 8
    gate_up[0, :4] = torch.tensor([-120.0, 120.0, 0.0, -88.5])
    out = torch.empty(rows, width, dtype=dtype)
    kernels.gated(gate_up.data_ptr(), out.data_ptr(), rows, width)
    gate, up = gate_up.float().chunk(2, dim=-1)
    close(out, (F.silu(gate) * up).to(dtype))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 9),
    columns=st.sampled_from([32, 64, 576]),
    size=st.sampled_from([1e-3, 1.0, 50.0]),
    seed=st.integers(0, 2**31),
)
@DTYPES
def test_codes_equal_those_of_torch(
    dtype: torch.dtype, rows: int, columns: int, size: float, seed: int
) -> None:
    native(dtype)
    weight = (torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * size).to(dtype)
    weight[0, :32] = 0
    # Doubles have no kernel, so that torch's form runs; their steps differ in the last place only.
    for form in (codes4, codes8):
        (got, steps), (want, reference) = form(weight), form(weight.double())
        torch.testing.assert_close(steps, reference.float(), rtol=1e-5, atol=1e-12)
        assert (got.int() - want.int()).abs().max() <= 1
        assert ((got.int() - want.int()) != 0).float().mean() < 0.02


def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    native(torch.float32)
    monkeypatch.setattr(library, "ABI", library.ABI + 1)
    why = library._library.__wrapped__()
    assert isinstance(why, str)
    assert "another version" in why


def test_without_a_library_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "HERE", tmp_path)
    assert "compiler" in str(library._library.__wrapped__())
    for name in choice.NAMES:
        (tmp_path / f"kernels-{name}.so").write_bytes(b"no library")
    assert "install chatkv again" in str(library._library.__wrapped__())
    monkeypatch.setenv("CHATKV_NATIVE", "0")
    assert "CHATKV_NATIVE" in str(library._library.__wrapped__())


def test_a_kind_of_cpu_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {*choice.NAMES} == {*build.VARIANTS, *build.OLD_X86, "base"}
    native(torch.float32)
    for name in library._variants():
        monkeypatch.setenv("CHATKV_NATIVE", name)
        found = library._library.__wrapped__()
        assert isinstance(found, str) or found[1] == name
        assert auto_dtype() == torch.float32 or name in choice.WITH_BF16
    monkeypatch.setattr(library, "_variants", lambda: ["x86-64-v3"])
    monkeypatch.setenv("CHATKV_NATIVE", "x86-64-v4-amx")
    with pytest.raises(UsageError, match=r"no such instructions.*x86-64-v3"):
        library._library.__wrapped__()


def test_the_slowest_to_compile_is_made_where_it_is_run_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = tmp_path / "cpuinfo"
    monkeypatch.setattr(build, "Path", lambda path: said)
    for machine, flags, made in (
        ("x86_64", "sse2 avx2 fma", set(build.VARIANTS)),
        ("x86_64", "sse2 avx fma", {*build.VARIANTS, "x86-64"}),
        ("aarch64", "asimd", {"base"}),
    ):
        said.write_text(f"flags : {flags} \n")
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        assert set(build.variants()) == made
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert library._variants() == ["x86-64"]


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler"])
def test_a_compiler_that_fails_leaves_nothing(
    compiler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CC", compiler)
    assert build.build(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
