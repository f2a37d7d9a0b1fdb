from __future__ import annotations

import pytest

from chatkv.insight.kinds import Names, caption
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched
from tests.insight.streams import ints

GONE = {"strategy": "lru", "rank": 1, "age": 9, "request": None}

CASES: list[tuple[kv.Event, str | None]] = [
    (
        kv.PrefixReused(seq=1, request=3, path=(1, 2), blocks=ints(0, 1), tokens=128),
        "request 3 reused 128 tokens in 2 nodes: no need to compute them again",
    ),
    (
        kv.SlotsCopied(seq=1, request=3, node=7, source=9, target=10, tokens=13),
        "request 3 reused 13 tokens by copying from node 7: of a block only the beginning is the same",
    ),
    (
        kv.NodeSplit(seq=1, node=7, upper=9, at=128),
        "node 7 split at 128 tokens: two prompts now share its first part, node 9",
    ),
    (
        kv.NodeEvicted(seq=1, node=4, tokens=22, blocks=ints(1, 2), reason="room", leaves=5, **GONE),  # type: ignore[arg-type]
        "node 4 evicted: 22 tokens, least recently used of 5 leaves nobody uses",
    ),
    (
        kv.NodeEvicted(seq=1, node=4, tokens=1, blocks=ints(1), reason="superseded", leaves=5, **GONE),  # type: ignore[arg-type]
        "node 4 gave way to a block that starts with the same 1 token",
    ),
    (
        kv.ChildrenMoved(seq=1, node=4, heir=6),
        "node 6 takes the place of node 4: it holds the same tokens",
    ),
    (
        kv.NodeTrimmed(seq=1, node=4, tokens=16, blocks=ints(1), reason="room", leaves=1, **GONE),  # type: ignore[arg-type]
        "node 4 lost its last 16 tokens: the only leaf nobody uses",
    ),
    (
        kv.NodeStored(seq=1, node=5, parent=0, namespace="", tokens=ints(1, 2), blocks=ints(1), request=3),
        "node 5 stored under the root by request 3: 2 tokens in 1 block, now others can reuse them",
    ),
    (
        kv.PromptAccounted(
            seq=1,
            request=3,
            prompt_tokens=10,
            hit=4,
            copied=2,
            first_seen=3,
            evicted=0,
            diverged=0,
            rounding=0,
            last_token=1,
            other_namespace=0,
        ),
        "request 3: of 10 prompt tokens 6 (2 copied) reused, 3 never seen before, "
        "1 the last token, always computed",
    ),
    (
        sched.RequestAdmitted(seq=1, request=3, cached=8, copied=0, waiting=2, overtaken=5),
        "request 3 runs: 8 tokens need no computing, 2 still wait; 5 later ones ran first",
    ),
    (
        sched.PinRefused(seq=1, node=4, reason="9 of 8 blocks would be held back"),
        "node 4 not pinned: 9 of 8 blocks would be held back",
    ),
    (
        sched.RequestRefused(seq=1, request=3, session="a", reason="too long\x1b[2J\nshorten it"),
        "request 3 refused: too long␛[2J↵shorten it",
    ),
    (
        sched.RequestFinished(
            seq=1,
            request=3,
            session="a",
            reason="stop",
            prompt_tokens=10,
            output_tokens=11,
            cached=6,
            copied=0,
            computed=4,
            ttft_s=0.1,
            decode_s=0.5,
        ),
        "request 3 over (the model ended its answer): 11 tokens at 20.0 tok/s, 6 of 10 prompt tokens reused",
    ),
    (sched.FirstToken(seq=1, request=3, ttft_s=0.0412), "request 3 has its first token after 41 ms"),
    (kv.TokensWritten(seq=1, request=3, count=1), None),
    (sched.StepDone(seq=1, step=1, step_s=0.1, forward_s=0.1), None),
]


@pytest.mark.parametrize(("event", "sentence"), CASES, ids=lambda case: type(case).__name__)
def test_sentences(event: kv.Event, sentence: str | None) -> None:
    assert caption(event) == sentence


def test_nodes_are_called_what_the_caller_calls_them() -> None:
    event = kv.NodeSplit(seq=1, node=7, upper=9, at=16)
    told = caption(event, Names({7: "“sys prompt”", 9: "node 9"}.__getitem__))
    assert told is not None
    assert told.startswith("“sys prompt” split at 16 tokens")
