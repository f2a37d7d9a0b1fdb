"""The engine's figures, with times that are given."""

from __future__ import annotations

import pytest

from chatkv.engine.messages import EngineStats
from chatkv.engine.stats import EVERY_S, GAPS_KEPT, STEPS_KEPT, TTFTS_KEPT, Counts, Meter, Percentiles
from tests.engine.conftest import Tiny
from tests.engine.rig import Rig

NOW = Counts(1, 2, 3, 4, 5, 6)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_percentiles_by_the_nearest_rank() -> None:
    assert Percentiles.of([]) == Percentiles(None, None, None)
    assert Percentiles.of([3.0]) == Percentiles(3.0, 3.0, 3.0)
    assert Percentiles.of(range(100, 0, -1)) == Percentiles(50, 90, 99)


def test_windows_are_bounded() -> None:
    meter = Meter()
    for value in range(3 * GAPS_KEPT):
        meter.gap(value)
        meter.began(10, 4, value)
    stats = meter.stats(NOW)
    assert stats.inter_token_s.p50 == 2 * GAPS_KEPT + GAPS_KEPT // 2 - 1
    assert stats.ttft_s.p50 == 3 * GAPS_KEPT - TTFTS_KEPT // 2 - 1
    assert (stats.prompt_tokens, stats.reused_tokens) == (30 * GAPS_KEPT, 12 * GAPS_KEPT)
    assert stats.hit_rate == pytest.approx(0.4)


def test_speeds_apart_and_what_reuse_saved() -> None:
    meter = Meter()
    assert meter.stats(NOW) == EngineStats(
        1, 2, None, None, Percentiles(), Percentiles(), 0, 0, 3, 4, 5, 6, None
    )
    # A step costs 10 ms, and 2 ms for each token.
    for prefill, decode in [(100, 0), (0, 1), (0, 2), (50, 2)] * 2:
        meter.step(prefill, decode, 0.010 + 0.002 * (prefill + decode))
    meter.began(400, 300, 0.5)
    stats = meter.stats(NOW)
    assert stats.prefill_tps == pytest.approx(150 / (0.210 + 0.114))
    assert stats.decode_tps == pytest.approx(5 / (0.012 + 0.014 + 0.114))
    assert stats.saved_s == pytest.approx(300 * 0.002)


def test_what_was_saved_never_gets_less_and_waits_until_its_price_is_known() -> None:
    meter = Meter()
    meter.began(400, 100, 0.5)
    for decode in (1, 2) * 10:
        meter.step(0, decode, 0.010 + 0.050 * decode)  # one answer more is not one prompt token more
    assert meter.stats(NOW).saved_s is None
    meter = Meter()
    meter.began(400, 100, 0.5)
    for prefill in (100, 50) * 5:
        meter.step(prefill, 0, 0.010 + 0.002 * prefill)
    assert meter.stats(NOW).saved_s == pytest.approx(100 * 0.002)
    for decode in (1, 2) * STEPS_KEPT:
        meter.step(0, decode, 0.010)
    assert meter.stats(NOW).saved_s == pytest.approx(100 * 0.002)
    meter.began(400, 10, 0.5)
    for prefill in (100, 50) * STEPS_KEPT:
        meter.step(prefill, 0, 0.010 + 0.001 * prefill)
    assert meter.stats(NOW).saved_s == pytest.approx(100 * 0.002 + 10 * 0.001)


def test_steps_of_one_size_tell_no_cost() -> None:
    meter = Meter()
    for _ in range(20):
        meter.step(0, 1, 0.01)
    assert meter.stats(NOW).saved_s is None


def test_figures_are_told_now_and_then_and_at_the_end() -> None:
    clock = Clock()
    meter = Meter(clock)
    assert not meter.due(idle=True)
    told = []
    for _ in range(40):
        meter.step(0, 1, 0.01)
        told.append(meter.due(idle=False))
        clock.now += EVERY_S / 4
    assert told == [True, False, False, False] * 10
    assert meter.due(idle=True)
    assert not meter.due(idle=True)


def test_the_engine_tells_them(tiny_llama: Tiny) -> None:
    clock = Clock()
    rig = Rig(tiny_llama.decoder, clock=clock)
    prompt = list(range(3, 23))
    rig.answer(prompt, max_tokens=5)
    rig.answer(prompt, max_tokens=5)
    rig.ask_ids([9, *prompt], n=2, max_tokens=5)
    rig.ask_ids([8, *prompt], max_tokens=5)
    rig.step()
    clock.now += 1
    rig.step()
    told = [batch.stats for batch in rig.batches if batch.stats is not None]
    assert len(told) == 4  # the first step, the end of each of the two, and now
    last = told[-1]
    assert (last.running, last.waiting) == (3, 0)
    assert last.blocks_used + last.blocks_cached + last.blocks_free == 64
    assert last.blocks_used == rig.cache.protected
    # 20 + 20 + 21 + 21 + 21 tokens were asked; of the second 19 were cached, of the fork's child all.
    assert (last.prompt_tokens, last.reused_tokens) == (103, 19 + 21)
    rig.run()
    end = [batch.stats for batch in rig.batches if batch.stats is not None][-1]
    assert (end.running, end.blocks_used) == (0, 0)
    assert end.inter_token_s.p50 is not None
    assert end.decode_tps is not None
    assert rig.core.stats == end


def test_a_stopped_request_is_seen_to_be_gone(tiny_llama: Tiny) -> None:
    rig = Rig(tiny_llama.decoder)
    id = rig.ask_ids([5, 6, 7], max_tokens=50)
    rig.step()
    rig.core.stop(id)
    rig.take()
    stats = rig.batches[-1].stats
    assert stats is not None
    assert (stats.running, stats.blocks_used) == (0, 0)
