"""How much room an admission leaves to the requests that run already.

``prompt``: the rest of their prompts, and one token each; an answer takes its blocks as it grows, and
where the pool is too small for all of them, the last to arrive gives way. ``ratio``: SGLang's rule, a part
of the answers that may still come is kept free as well, so that fewer have to give way and fewer run.
"""

from __future__ import annotations

from collections.abc import Iterable

from chatkv.kvcache.cache import KVCache, blocks_for
from chatkv.scheduler.names import ADMISSIONS
from chatkv.scheduler.request import Request

MAX_RESERVED = 4096
"""Nobody reserves more tokens for an answer, however long it may become."""


class NewTokenRatio:
    """What part of the answers still to come is kept free for running requests.

    It starts at 0.7 and falls to 0.098 in 600 steps; after a preemption it is computed again from how
    far those who run have come, as if each had 20 tokens more [S7].
    """

    START, LEAST, STEPS, MARGIN = 0.7, 0.098, 600, 20

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Nobody runs: begin anew."""
        self.value = self.START

    def step(self) -> None:
        """A step without a preemption."""
        self.value = max(self.value - (self.START - self.LEAST) / self.STEPS, self.LEAST)

    def preempted(self, running: Iterable[Request]) -> None:
        """Someone had to give way to ``running``."""
        requests = list(running)
        decoded = sum(r.output_tokens for r in requests)
        limit = sum(r.max_tokens for r in requests)
        self.value = min((decoded + self.MARGIN * len(requests)) / (limit + 1), 1.0)


class Admission:
    """``headroom`` is what ``KVCache.open`` is to leave free. Raises ValueError for an unknown rule."""

    def __init__(self, rule: str = "prompt") -> None:
        if rule not in ADMISSIONS:
            raise ValueError(f"unknown admission rule {rule!r}: choose one of {', '.join(ADMISSIONS)}")
        self.rule = rule
        self.ratio = NewTokenRatio()

    def headroom(self, cache: KVCache, candidate: Request, running: list[Request], fresh: set[int]) -> int:
        """Blocks to keep free beside the prompt of ``candidate``; 0 where nobody runs.

        ``fresh``: ids of those admitted in this step, who reserve all of their answers.
        """
        size = cache.block_size
        if self.rule == "prompt" or not running:
            return sum(blocks_for(r.num_tokens + 1, size) - len(cache.row(r.id).blocks) for r in running)
        reserved = answer_reserve(candidate) + size
        for r in running:
            share = 1.0 if r.id in fresh else self.ratio.value
            wanted = r.num_tokens + max(int(share * answer_reserve(r)), 1)
            reserved += max(wanted - len(cache.row(r.id).blocks) * size, 0)
        return blocks_for(reserved, size)


def answer_reserve(request: Request) -> int:
    """How many more tokens its answer may have, as far as anyone reserves for them."""
    return min(request.max_tokens - request.output_tokens, MAX_RESERVED)
