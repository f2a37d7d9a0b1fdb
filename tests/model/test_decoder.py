from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from chatkv.model.decoder import Decoder, copy_slots
from chatkv.model.native_operators import FIRST_POSITIONS, NativeOperators
from tests.model.tiny import CONFIGS, SIZES, Requests, full_logits, save
from tests.native.kernels import native


@pytest.fixture(params=["torch", "native"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def load(folder: Path, kind: str, dtype: torch.dtype = torch.float32) -> Decoder:
    plain = Decoder.load(folder, dtype)
    if kind == "torch":
        return plain
    return Decoder(plain.config, plain.weights, NativeOperators(plain.config, native(dtype)))


def prompts(*lengths: int) -> list[list[int]]:
    generator = np.random.default_rng(7)
    return [generator.integers(0, SIZES["vocab_size"], n).tolist() for n in lengths]


@pytest.mark.parametrize("block_size", [1, 16])
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_equal_transformers(kind: str, name: str, block_size: int, tmp_path: Path) -> None:
    model = save(name, tmp_path)
    decoder = load(tmp_path, kind)
    first, second, third = prompts(61, 33, 5)
    requests = Requests(decoder, block_size, 160)
    a, b, c = (requests.open(70) for _ in range(3))
    got = {a: [], b: [], c: []}

    def step(new: dict[int, list[int]]) -> None:
        rows = requests.step(new, every_row=True).split([len(t) for t in new.values()])
        for request, logits in zip(new, rows, strict=True):
            got[request].append(logits)

    step({a: first[:20], b: second})
    step({a: first[20:60], c: third[:4]})
    step({c: third[4:], a: first[60:]})
    for request, ids in ((a, first), (b, second), (c, third)):
        torch.testing.assert_close(torch.cat(got[request]), full_logits(model, ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_only_the_wanted_rows_come_out(kind: str, name: str, tmp_path: Path) -> None:
    model = save(name, tmp_path)
    decoder = load(tmp_path, kind)
    first, second = prompts(9, 14)
    requests = Requests(decoder, 16, 8)
    logits = requests.step({requests.open(9): first, requests.open(14): second})
    assert logits.shape == (2, SIZES["vocab_size"])
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits[0], full_logits(model, first)[-1], atol=1e-4, rtol=0)
    torch.testing.assert_close(logits[1], full_logits(model, second)[-1], atol=1e-4, rtol=0)


def test_a_shared_prefix_and_copied_slots_serve_another_request(kind: str, tmp_path: Path) -> None:
    model = save("llama", tmp_path)
    decoder = load(tmp_path, kind)
    shared, tail_a, tail_b = prompts(22, 6, 9)
    requests = Requests(decoder, 16, 8)
    a = requests.open(28)
    requests.step({a: shared + tail_a})
    b = requests.open(31)
    # Block 0 is shared as it is; of block 1 the first 6 slots hold the shared prefix.
    requests.tables[b][0] = requests.tables[a][0]
    copy_slots(requests.kv, requests.tables[a][1], requests.tables[b][1], 6)
    requests.done[b] = 22
    logits = requests.step({b: tail_b}, every_row=True)
    torch.testing.assert_close(logits, full_logits(model, shared + tail_b)[22:], atol=1e-4, rtol=0)


def test_copy_slots_copies_all_layers_and_nothing_else() -> None:
    kv = torch.randn(3, 5, 2, 16, 2, 4)
    before = kv.clone()
    copy_slots(kv, 4, 1, 6)
    assert torch.equal(kv[:, 1, :, :6], before[:, 4, :, :6])
    kv[:, 1, :, :6] = before[:, 1, :, :6]
    assert torch.equal(kv, before)


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2", "qwen3"])
def test_greedy_equals_generate(kind: str, name: str, tmp_path: Path) -> None:
    model = save(name, tmp_path)
    requests = Requests(load(tmp_path, kind), 16, 16)
    (prompt,) = prompts(30)
    request = requests.open(60)
    ids, feed = [], prompt
    for _ in range(24):
        feed = [int(requests.step({request: feed})[0].argmax())]
        ids += feed
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)
    assert ids == out[0, len(prompt) :].tolist()


def test_bf16_stays_near_fp32(kind: str, tmp_path: Path) -> None:
    save("llama", tmp_path)
    (prompt,) = prompts(40)
    out = []
    for dtype in (torch.float32, torch.bfloat16):
        decoder = load(tmp_path, kind, dtype)
        assert decoder.dtype == dtype
        requests = Requests(decoder, 16, 4)
        out.append(requests.step({requests.open(40): prompt})[0].log_softmax(-1))
    kl = (out[0].exp() * (out[0] - out[1])).sum().item()
    assert kl < 0.01


def test_bytes_per_block_is_what_the_pool_takes(kind: str, tmp_path: Path) -> None:
    save("llama", tmp_path)
    for dtype in (torch.float32, torch.bfloat16):
        decoder = load(tmp_path, kind, dtype)
        for block_size in (1, 16):
            assert decoder.new_kv(10, block_size).nbytes == 10 * decoder.bytes_per_block(block_size)


def test_nothing_comes_out_where_no_row_is_wanted(kind: str, tmp_path: Path) -> None:
    save("llama", tmp_path)
    requests = Requests(load(tmp_path, kind), 16, 4)
    assert requests.step({requests.open(9): prompts(9)[0]}, rows=[]).shape == (0, SIZES["vocab_size"])


def test_the_table_of_angles_grows(tmp_path: Path) -> None:
    save("llama", tmp_path)
    config = Decoder.load(tmp_path, torch.float32).config
    operators = NativeOperators(config, native(torch.float32))
    first = operators._angles[5].clone()
    last = FIRST_POSITIONS * 2 + 17
    operators.begin(torch.tensor([3, last]), torch.tensor([0, 1]), 16)
    assert len(operators._angles) > last
    assert torch.equal(operators._angles[5], first)
