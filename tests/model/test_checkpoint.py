from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from chatkv.model.decoder import Decoder
from chatkv.model.errors import ModelError
from tests.model.tiny import Requests, full_logits, save

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def last_logits(folder: Path) -> torch.Tensor:
    requests = Requests(Decoder.load(folder, torch.float32), 16, 2)
    return requests.step({requests.open(8): PROMPT})[0]


def test_shards_load_like_one_file(tmp_path: Path) -> None:
    model = save("llama", tmp_path, max_shard_size="60KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    torch.testing.assert_close(last_logits(tmp_path), full_logits(model, PROMPT)[-1], atol=1e-4, rtol=0)


def test_names_without_the_model_prefix(tmp_path: Path) -> None:
    model = save("llama", tmp_path)
    file = tmp_path / "model.safetensors"
    save_file({k.removeprefix("model."): v for k, v in load_file(file).items()}, file)
    torch.testing.assert_close(last_logits(tmp_path), full_logits(model, PROMPT)[-1], atol=1e-4, rtol=0)


def edit(folder: Path, **changes: torch.Tensor | None) -> None:
    file = folder / "model.safetensors"
    tensors = load_file(file) | {k.replace("__", "."): v for k, v in changes.items()}
    save_file({k: v for k, v in tensors.items() if v is not None}, file)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model__layers__1__mlp__up_proj__weight": None}, r"layers\.1\.mlp\.up_proj\.weight is missing"),
        ({"lm_head__weight": None}, r"lm_head\.weight is missing"),
        ({"model__norm__weight": torch.zeros(47)}, r"has shape \[47\], config.json says \[48\]"),
        ({"model__norm__weight": torch.zeros(48, dtype=torch.int8)}, "int8"),
        ({"model__layers__0__self_attn__q_proj__bias": torch.zeros(96)}, "q_proj.bias is not part of"),
    ],
)
def test_wrong_tensors_are_named(tmp_path: Path, changes: dict[str, torch.Tensor | None], says: str) -> None:
    save("llama", tmp_path)
    edit(tmp_path, **changes)
    with pytest.raises(ModelError, match=says):
        Decoder.load(tmp_path, torch.float32)


def test_a_cut_file(tmp_path: Path) -> None:
    save("llama", tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ModelError, match="not a readable safetensors"):
        Decoder.load(tmp_path, torch.float32)


def test_a_missing_shard(tmp_path: Path) -> None:
    save("llama", tmp_path, max_shard_size="60KB")
    min(tmp_path.glob("*.safetensors")).unlink()
    with pytest.raises(ModelError, match=r"shard .* is missing"):
        Decoder.load(tmp_path, torch.float32)


def test_an_index_may_not_point_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "model.safetensors"
    save("llama", inside)
    (inside / "model.safetensors").rename(outside)
    names = load_file(outside)
    index = {"weight_map": dict.fromkeys(names, "../model.safetensors")}
    (inside / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="is missing"):
        Decoder.load(inside, torch.float32)
