from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.engines.quality import mean_kl
from chatkv.attention.native_backend import NativeBackend
from chatkv.attention.torch_backend import TorchBackend
from chatkv.engine import compute_cpu
from chatkv.engine.compute import build
from chatkv.engine.config import EngineError
from chatkv.model import linear, quantise
from chatkv.model.dtype import auto_dtype
from chatkv.model.linear import PACKED_ROWS, WIDENED_ROWS, Int4Linear, Int8Linear, Linear, WidenedLinear
from tests.model.tiny import save
from tests.native.kernels import native, variants

bf16 = pytest.mark.skipif(auto_dtype() != torch.bfloat16, reason="this CPU has no bf16 instructions")


def test_torch_by_choice_and_native_where_it_can_be_had(tmp_path: Path) -> None:
    save("llama", tmp_path)
    assert type(build(tmp_path, "fp32", "torch").backend) is TorchBackend
    native(torch.float32)
    built = build(tmp_path, "fp32", "auto")
    assert isinstance(built.backend, NativeBackend)
    assert (built.attention, built.dtype, built.notes) == ("native/cpu", "fp32", ())


def test_what_can_not_be_had_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save("llama", tmp_path)
    monkeypatch.setattr(compute_cpu, "why_not", lambda: "not built")
    built = build(tmp_path, "fp32", "auto")
    assert built.attention == "torch/cpu"
    assert "not built" in built.notes[0]
    with pytest.raises(EngineError, match="--attention native can't be had: not built"):
        build(tmp_path, "fp32", "native")
    monkeypatch.setattr(compute_cpu, "unusable", lambda form: f"no {form} here")
    with pytest.raises(EngineError, match="--dtype int4 can't be had: no int4 here"):
        build(tmp_path, "int4", "auto")


def test_random_weights_are_not_packed_unasked(tmp_path: Path) -> None:
    save("llama-wide-heads", tmp_path)
    assert build(tmp_path, "auto", "auto").dtype in ("bf16", "fp32")


def test_columns_that_fill_no_groups_stay_in_8_bits(tmp_path: Path) -> None:
    save("llama", tmp_path)  # hidden 48: one group and a half
    layer = build(tmp_path, "int4", "auto").decoder.weights.layers[0]
    assert type(layer.qkv) is Int8Linear


def four_bit(rows: int, columns: int) -> torch.Tensor:
    """Weights as a Q4_1 file gives them: 16 evenly spaced values in each group, both ends in use."""
    codes = torch.randint(0, 16, (rows, columns // 32, 32))
    codes[..., 0], codes[..., 1] = 0, 15
    step = torch.rand(rows, columns // 32, 1) * 0.01 + 1e-3
    return (codes * step - 7.3 * step).view(rows, columns).to(torch.bfloat16)


@pytest.mark.parametrize("rows", [1, PACKED_ROWS, PACKED_ROWS + 1, 100])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_products_equal_plain_ones(rows: int, bias: bool) -> None:
    weight = four_bit(96, 128)
    plain = Linear(weight, torch.randn(96).to(torch.bfloat16) if bias else None)
    x = torch.randn(rows, 128).to(torch.bfloat16)
    want = plain(x).float()
    # Scales are rounded to bf16 once more: 2^-8 of the terms' size, which is about 0.02 here.
    for packed in (Int4Linear(plain, *quantise.codes4(weight)), Int8Linear(plain, *quantise.codes8(weight))):
        torch.testing.assert_close(packed(x).float(), want, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("rows", [1, WIDENED_ROWS, 100])
@pytest.mark.parametrize("bias", [False, True])
def test_widened_products_are_those_of_fp32(rows: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "WIDENED_AT_ONCE", 40 * 128)  # three pieces
    weight = torch.randn(96, 128).to(torch.bfloat16)
    offset = torch.randn(96).to(torch.bfloat16) if bias else None
    x = torch.randn(rows, 128).to(torch.bfloat16)
    want = torch.nn.functional.linear(x.float(), weight.float(), None if offset is None else offset.float())
    got = WidenedLinear(weight, offset)(x)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), want, atol=2**-6, rtol=2**-7)


def test_a_checkpoint_that_was_4_bit_is_recognised() -> None:
    assert quantise._loss(four_bit(64, 128)) <= quantise.EXACT
    assert quantise._loss(torch.randn(64, 128).to(torch.bfloat16)) > 4 * quantise.EXACT


def test_an_operator_that_gives_wrong_numbers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantise, "_packed", lambda linear, form: Linear(linear.weight * 2))
    assert "wrong numbers" in str(quantise.unusable.__wrapped__("int4"))

    def broken(linear: Linear, form: str) -> Linear:
        raise RuntimeError("no such operator\nmore")

    monkeypatch.setattr(quantise, "_packed", broken)
    assert "no such operator" in str(quantise.unusable.__wrapped__("int4"))


@bf16
@pytest.mark.model
def test_the_default_model_is_packed_to_4_bits_and_stays_near_fp32(smollm2_folder: Path) -> None:
    built = build(smollm2_folder, "auto", "auto")
    assert built.dtype == "int4"
    assert (built.decoder.fused is not None) == isinstance(built.backend, NativeBackend)
    assert mean_kl(smollm2_folder, ["int4"])["int4"] <= 0.004


@pytest.mark.model
def test_a_cpu_without_bf16_packs_too_and_computes_prompts_in_fp32(
    smollm2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native(torch.bfloat16)
    monkeypatch.setattr(compute_cpu, "auto_dtype", lambda: torch.float32)
    built = build(smollm2_folder, "auto", "auto")
    assert (built.dtype, built.attention, built.notes) == ("int4+fp32", "native/cpu", ())
    weights = built.decoder.weights
    assert {type(weights.layers[3].down), type(weights.head)} == {WidenedLinear}
    assert built.decoder.fused is not None
    # The prompts have more rows than a compiled step takes.
    assert mean_kl(smollm2_folder, ["auto"])["auto"] <= 0.004
    monkeypatch.setattr(compute_cpu, "why_not", lambda: "not built")
    built = build(smollm2_folder, "auto", "auto")
    assert (built.dtype, built.attention, built.decoder.dtype) == ("fp32", "torch/cpu", torch.float32)


@pytest.mark.model
def test_with_vnni_a_cpu_without_bf16_needs_no_other_weights(
    smollm2_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vnni = next((k for k in variants(torch.bfloat16) if k.variant.endswith("-vnni")), None)
    if vnni is None:
        pytest.skip("this CPU has no VNNI")
    monkeypatch.setattr(compute_cpu, "auto_dtype", lambda: torch.float32)
    usual = compute_cpu.kernels
    monkeypatch.setattr(
        compute_cpu, "kernels", lambda dtype: vnni if dtype == torch.bfloat16 else usual(dtype)
    )
    built = build(smollm2_folder, "auto", "auto")
    assert built.dtype == "int4"
    monkeypatch.setattr(WidenedLinear, "__call__", None)  # a prompt is a step, too
    mean = mean_kl(smollm2_folder, ["auto"])["auto"]
    assert mean <= 0.004


def test_without_bf16_what_was_not_4_bit_stays_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native(torch.bfloat16)
    save("llama-wide-heads", tmp_path)
    monkeypatch.setattr(compute_cpu, "auto_dtype", lambda: torch.float32)
    built = build(tmp_path, "auto", "auto")
    assert (built.dtype, built.decoder.dtype, built.decoder.fused) == ("fp32", torch.float32, None)


@bf16
@pytest.mark.model
def test_without_kernels_torch_has_the_packed_products(smollm2_folder: Path) -> None:
    built = build(smollm2_folder, "auto", "torch")
    assert (built.dtype, built.decoder.fused) == ("int4", None)
    assert type(built.decoder.weights.layers[0].down) is Int4Linear
    assert type(built.decoder.weights.head) is Int8Linear
