"""Where every prompt token came from, and why the computed ones were not reused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from chatkv.kvcache.accounting import NAMESPACES_KEPT
from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.events import Event, EventLog, PromptAccounted
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix_cache import RadixCache

REASONS = (
    "hit",
    "copied",
    "first_seen",
    "evicted",
    "diverged",
    "rounding",
    "last_token",
    "other_namespace",
    "bypassed",
)


class Told:
    """A cache whose requests run one after another, and what it told of each prompt."""

    def __init__(self, kind: type[KVCache], blocks: int = 64, size: int = 4, **options: bool) -> None:
        self.events: list[Event] = []
        self.cache = kind(blocks, size, log=EventLog(self.events.append), **options)
        self.next_id = 1

    def ask(
        self,
        prompt: list[int],
        answer: Sequence[int] = (),
        session: str = "",
        namespace: str = "",
        reuse: bool = True,
    ) -> dict[str, int]:
        """Run a request whole; the reasons that are not 0."""
        id, self.next_id = self.next_id, self.next_id + 1
        opened = self.cache.open(id, prompt, session=session, namespace=namespace, reuse=reuse)
        assert opened is not None
        tokens = [*prompt, *answer[:-1]]
        assert self.cache.grow(id, len(tokens))
        self.cache.commit(id, tokens[opened.cached :])
        self.cache.close(id, "finished")
        self.cache.check_integrity()
        told = self.last
        parts = {name: getattr(told, name) for name in REASONS}
        assert sum(parts.values()) == told.prompt_tokens == len(prompt)
        assert told.hit + told.copied == opened.cached
        return {name: count for name, count in parts.items() if count}

    @property
    def last(self) -> PromptAccounted:
        return [e for e in self.events if isinstance(e, PromptAccounted)][-1]


A = list(range(100, 110))


def test_a_chat_is_a_hit_but_for_what_is_new() -> None:
    told = Told(RadixCache)
    assert told.ask(A, [1, 2, 3], "s") == {"first_seen": 10}
    # 12 tokens have KV: 3 blocks.
    assert told.ask([*A, 1, 2, 3, 50, 51], [4], "s") == {"hit": 12, "first_seen": 3}
    assert told.ask([*A, 1, 2, 3, 50, 51, 4, 60], [], "s") == {"hit": 12, "copied": 3, "first_seen": 2}


def test_the_last_token_is_computed_again() -> None:
    told = Told(RadixCache)
    told.ask(A)
    assert told.ask(A) == {"hit": 8, "copied": 1, "last_token": 1}


def test_b5_strict_the_whole_last_block_goes_with_it() -> None:
    told = Told(RadixCache, strict=True)
    told.ask(A[:8])
    assert told.ask(A[:8]) == {"hit": 4, "rounding": 3, "last_token": 1}


@pytest.mark.parametrize("kind", [RadixCache, HashCache])
def test_rounding_to_whole_blocks_in_one_session(kind: type[KVCache]) -> None:
    told = Told(kind, strict=True)
    told.ask(A, [1, 2, 3, 4, 5], "s")  # 14 tokens, 12 in whole blocks
    assert told.ask([*A, 1, 2, 3, 4, 5, 60], [], "s") == {"hit": 12, "rounding": 2, "first_seen": 2}


def test_rounding_is_seen_across_sessions_where_the_tree_tells() -> None:
    told = Told(RadixCache, strict=True)
    told.ask([*A, 7, 8], [], "s")
    assert told.ask([*A, 50, 51], [], "t") == {"hit": 8, "rounding": 2, "first_seen": 2}


@pytest.mark.parametrize("kind", [RadixCache, HashCache])
def test_which_token_broke_the_cache(kind: type[KVCache]) -> None:
    told = Told(kind)
    told.ask(A, [1, 2, 3], "s")
    changed = [*A[:5], 999, *A[6:], 1, 2, 3, 60]
    parts = told.ask(changed, [], "s")
    assert parts.pop("hit") == 4
    assert parts.pop("copied" if kind is RadixCache else "rounding") == 1
    assert parts == {"diverged": 9}
    assert told.last.diverged_at == 5


@pytest.mark.parametrize("kind", [RadixCache, HashCache])
def test_evicted_when_and_for_whom(kind: type[KVCache]) -> None:
    told = Told(kind, blocks=4)
    told.ask(A[:8], [], "s")
    thief = told.next_id
    told.ask(list(range(300, 316)))
    gone = [e for e in told.events if type(e).__name__ == "NodeEvicted"]
    assert told.ask([*A[:8], 60], [], "s") == {"evicted": 8, "first_seen": 1}
    assert told.last.evicted_by == thief
    assert told.last.evicted_seq in {e.seq for e in gone}


def test_a_lost_tail_is_told_too() -> None:
    told = Told(RadixCache, blocks=4)
    told.ask(A[:7], [], "s")
    told.ask(list(range(300, 316)))
    assert told.ask([*A[:7], 60], [], "t") == {"evicted": 7, "first_seen": 1}


def test_what_came_back_is_not_gone() -> None:
    told = Told(RadixCache, blocks=4)
    told.ask(A[:8])
    told.ask(list(range(300, 316)))
    told.ask(A[:8])
    assert told.ask([*A[:8], 1]) == {"hit": 8, "first_seen": 1}


@pytest.mark.parametrize("kind", [RadixCache, HashCache])
def test_another_namespace_is_named(kind: type[KVCache]) -> None:
    told = Told(kind)
    told.ask(A[:8], [], "s", "lora-a")
    assert told.ask([*A[:8], 9], [], "t", "lora-b") == {"other_namespace": 8, "first_seen": 1}


def test_reuse_that_was_not_wanted() -> None:
    assert Told(NoneCache).ask(A) == {"bypassed": 10}
    told = Told(RadixCache)
    told.ask(A)
    assert told.ask(A, reuse=False) == {"bypassed": 10}


def test_a_preempted_request_is_accounted_once() -> None:
    told = Told(RadixCache)
    assert told.cache.open(1, A, session="s") is not None
    assert told.cache.grow(1, 10)
    told.cache.commit(1, A)
    told.cache.close(1, "preempted")
    assert told.cache.open(1, [*A, 1], session="s", resumed=True) is not None
    assert sum(isinstance(e, PromptAccounted) for e in told.events) == 1


@pytest.mark.parametrize("kind", [RadixCache, HashCache, NoneCache])
@pytest.mark.parametrize("size", [1, 4, 16])
def test_it_always_sums(kind: type[KVCache], size: int) -> None:
    rng = np.random.default_rng(size)
    told = Told(kind, blocks=1 + 160 // size, size=size)
    earlier: list[list[int]] = [[]]
    for _ in range(300):
        base = earlier[int(rng.integers(len(earlier)))]
        own = rng.integers(0, 9, int(rng.integers(0, 20))).tolist()
        prompt = base[: int(rng.integers(len(base) + 1))] + own or [1]
        earlier = [*earlier[-20:], prompt[:60]]
        answer = rng.integers(0, 3, int(rng.integers(1, 20))).tolist()
        told.ask(prompt, answer, str(rng.integers(4)), str(rng.integers(2)))
    seen = {
        name for e in told.events if isinstance(e, PromptAccounted) for name in REASONS if getattr(e, name)
    }
    if kind is not NoneCache and size < 16:  # at 16, few of these prompts fill a block
        assert {"hit", "last_token", "evicted", "first_seen"} <= seen


def test_forked_answers_share_their_prompt() -> None:
    told = Told(RadixCache)
    assert told.cache.open(1, A) is not None
    assert told.cache.grow(1, 10)
    told.cache.commit(1, A)
    assert told.cache.fork(1, 2) is not None
    assert (told.last.request, told.last.hit, told.last.copied) == (2, 8, 2)
    told.cache.check_integrity()


def test_the_latest_namespaces_are_remembered() -> None:
    told = Told(RadixCache, blocks=1024)
    told.ask(A[:8], namespace="early")
    told.ask(A[:4], namespace="often")
    for i in range(2 * NAMESPACES_KEPT):
        told.ask([100, i], namespace=f"n{i}")
        told.ask([101], namespace="often")
    ledger = told.cache._ledger
    assert ledger is not None
    assert len(ledger._namespaces) == NAMESPACES_KEPT
    assert told.ask(A[:9], namespace="new") == {"other_namespace": 4, "first_seen": 5}


@pytest.mark.parametrize("kind", [RadixCache, HashCache])
def test_what_is_remembered_of_prompts_is_bounded_and_right(
    monkeypatch: pytest.MonkeyPatch, kind: type[KVCache]
) -> None:
    """A namespace for each request, prompts of less than a block: tidied or not, the reasons are the same."""
    lot = np.random.default_rng(5)
    asked: list[tuple[list[int], str]] = []
    for n in range(400):
        name = f"tenant {n}" if n % 3 else f"tenant {n % 7}"
        asked.append((lot.integers(1, 4, int(lot.integers(1, 14))).tolist(), name if n % 5 else ""))

    def told(spare: int) -> tuple[list[dict[str, int]], int]:
        monkeypatch.setattr("chatkv.kvcache.history._SPARE", spare)
        monkeypatch.setattr("chatkv.kvcache.accounting.GONE_PER_BLOCK", 2)
        run = Told(kind, blocks=24)
        out = [run.ask(prompt, [1], namespace=namespace) for prompt, namespace in asked]
        assert run.cache._ledger is not None
        return out, len(run.cache._ledger._history._entries)

    tidied, few = told(0)
    untidied, many = told(10**9)
    assert tidied == untidied
    assert few < 200 < many
