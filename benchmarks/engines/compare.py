"""Engines side by side on the same work: the same weights, prompts, token counts and threads, in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from benchmarks.engines.peers.base import DECODED, Setup
from benchmarks.engines.peers.process import PeerProcess

PREFIX = 1000
MORE = 30


@dataclass(frozen=True, slots=True)
class Case:
    """``kind`` is the method of ``Peer``; a figure is ``tokens`` a second, or ms where ``tokens`` is 0."""

    title: str
    kind: str
    length: int
    batch: int = 1
    tokens: int = 0

    @property
    def unit(self) -> str:
        """Of its figures."""
        return "tok/s" if self.tokens else "ms"

    def figure(self, seconds: float) -> float:
        """What is shown."""
        return self.tokens / seconds if self.tokens else 1000 * seconds

    def ratio(self, ours: float, theirs: float) -> float:
        """How many times as fast ours is."""
        return ours / theirs if self.tokens else theirs / ours


CASES = (
    Case("decode, batch 1, context 64", "decode", 64, 1, DECODED - 1),
    Case("decode, batch 1, context 1000", "decode", 1000, 1, DECODED - 1),
    Case("decode, batch 4, context 64", "decode", 64, 4, 4 * (DECODED - 1)),
    Case("decode, batch 4, context 1000", "decode", 1000, 4, 4 * (DECODED - 1)),
    Case("prefill of 1024 tokens", "prefill", 1024, 1, 1024),
    Case(f"first token, {PREFIX + MORE} new", "prefill", PREFIX + MORE),
    Case(f"first token, {PREFIX} cached + {MORE} new", "cached", PREFIX + MORE),
)
MAX_TOKENS = 1280
BATCH = 4


@dataclass
class Comparison:
    """``figures[case title][peer]``: one for each round, in the case's unit."""

    about: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def middle(self, case: Case, peer: str) -> float | None:
        """The median, None where the peer can't do the case."""
        made = self.figures[case.title].get(peer)
        return median(made) if made else None


def compare(
    names: list[str],
    setup: Setup,
    vocabulary: int,
    rounds: int,
    progress: Callable[[str, int, int], None],
    seed: int = 0,
    pythons: Mapping[str, str] | None = None,
) -> Comparison:
    """Measure every case with every peer of ``names`` in turn, ``rounds`` times after one uncounted round.

    Every round has prompts of its own (random ids below ``vocabulary``). ``pythons``: interpreters of
    engines that are not installed for ours. Raises ChatkvError.
    """
    out = Comparison(figures={case.title: {} for case in CASES})
    rng = np.random.default_rng(seed)
    with ExitStack() as stack:
        peers = []
        for name in names:
            progress(f"loading {name}", 0, 0)
            peer = PeerProcess(name, setup, (pythons or {}).get(name))
            stack.callback(peer.close)
            peers.append(peer)
            out.about[name] = peer.about
        done, total = 0, (rounds + 1) * len(CASES) * len(peers)
        for round in range(rounds + 1):
            for case in CASES:
                prompts = rng.integers(0, vocabulary, (case.batch, case.length)).tolist()
                arguments = _arguments(case, prompts)
                for peer in peers:
                    progress(f"{peer.name}: {case.title}", done, total)
                    done += 1
                    if peer.most_at_once is not None and peer.most_at_once < case.batch:
                        continue
                    seconds = peer.seconds(case.kind, *arguments)
                    if round:  # the first one warms up
                        out.figures[case.title].setdefault(peer.name, []).append(case.figure(seconds))
    return out


def _arguments(case: Case, prompts: list[list[int]]) -> list[object]:
    if case.kind == "decode":
        return [prompts]
    if case.kind == "cached":
        return [prompts[0][:PREFIX], prompts[0][PREFIX:]]
    return [prompts[0]]
