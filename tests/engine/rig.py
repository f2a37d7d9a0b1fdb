"""Engines for tests: tiny random models whose "text" is token ids written as numbers."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from chatkv.attention.base import AttentionBackend
from chatkv.attention.native_backend import NativeBackend
from chatkv.attention.torch_backend import TorchBackend
from chatkv.engine.compute import build
from chatkv.engine.core import EngineCore
from chatkv.engine.cuda_graph import Graph
from chatkv.engine.graph_start import start_graphs
from chatkv.engine.messages import Batch, Finished, GenerateRequest, Sampling, TokenLogprob, Turn, Verified
from chatkv.engine.outbox import Outbox
from chatkv.engine.runner import Runner
from chatkv.kvcache.cache import KVCache
from chatkv.kvcache.events import EventLog
from chatkv.kvcache.hash_cache import HashCache
from chatkv.kvcache.none_cache import NoneCache
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.model.decoder import Decoder
from chatkv.model.native_operators import NativeOperators
from chatkv.model.thinking import ThinkingSplitter
from chatkv.scheduler.scheduler import Scheduler


class Heard:
    """Everything a listener heard, and waiting for it."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.all: list[Any] = []

    def __call__(self, message: Any) -> None:
        self.all.append(message)
        self.messages.put(message)

    def until(self, wanted: Callable[[Any], bool]) -> Any:
        while True:
            message = self.messages.get(timeout=60)
            if wanted(message):
                return message

    def finished(self, request: int) -> Finished:
        """However long ago it was."""
        return self._among(lambda batch: batch.finished, request)

    def verified(self, request: int) -> Verified:
        return self._among(lambda batch: batch.verified, request)

    def _among(self, part: Callable[[Batch], Iterable[Any]], request: int) -> Any:
        while True:
            for message in self.all:
                if isinstance(message, Batch):
                    for each in part(message):
                        if each.request == request:
                            return each
            self.messages.get(timeout=60)


class NumberDetokenizer:
    pending = False

    def push(self, token: int) -> str:
        return f"{token} "

    def flush(self) -> str:
        return ""


class NumberCodec:
    """Stands in for ``Codec`` where a model has no tokenizer: text is ids separated by spaces."""

    stop_ids: frozenset[int] = frozenset()
    stop_texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    default_system = None
    thinks = False
    opened = False

    def encode_chat(self, turns: Sequence[Turn]) -> list[int]:
        ids: list[int] = []
        for turn in turns:
            ids += list(turn.token_ids) if turn.token_ids is not None else [int(n) for n in turn.text.split()]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(str(i) for i in ids)

    def detokenizer(self) -> NumberDetokenizer:
        return NumberDetokenizer()

    def splitter(self, chat: bool = True) -> ThinkingSplitter:
        return ThinkingSplitter(self.thinks and chat, self.opened and chat)

    def encode_prompt(self, text: str) -> list[int]:
        return [int(n) for n in text.split()]

    def encode_later(self, text: str) -> list[int]:
        return [int(n) for n in text.split()]

    def piece(self, token: int) -> str:
        return str(token)


CACHES: dict[str, type[KVCache]] = {"radix": RadixCache, "hash": HashCache, "none": NoneCache}


class Rig:
    """An engine over ``decoder``, stepped by hand, with the integrity of its cache checked each time."""

    def __init__(
        self,
        decoder: Decoder,
        codec: Any = None,
        *,
        cache: str = "radix",
        num_blocks: int = 64,
        block_size: int = 4,
        max_batch_tokens: int = 64,
        max_context: int = 10_000,
        strict: bool = False,
        verify: bool = False,
        clock: Callable[[], float] = time.perf_counter,
        backend: AttentionBackend | None = None,
        new_graph: Callable[[], Graph] | None = None,
        picks: bool | None = None,
        **scheduling: Any,
    ) -> None:
        self.outbox = Outbox()
        self.cache = CACHES[cache](
            num_blocks, block_size, strict=strict, log=EventLog(self.outbox.events.append)
        )
        scheduler = Scheduler(self.cache, max_batch_tokens=max_batch_tokens, **scheduling)
        runner = Runner(
            decoder,
            backend or backend_for(decoder),
            num_blocks,
            block_size,
            spare=new_graph is not None,
            picks=picks,
        )
        self.runner = runner
        self.stages: list[tuple[str, float | None]] = []
        if new_graph is not None:
            self.graph_note = start_graphs(
                runner,
                new_graph,
                requests=scheduling.get("max_running", 64),
                context=max_context,
                progress=lambda *stage: self.stages.append(stage),
                tell=self.outbox.notes.append,
            )
        self.core = EngineCore(
            self.cache,
            scheduler,
            runner,
            codec or NumberCodec(),
            max_context,
            self.outbox,
            verify=verify,
            clock=clock,
        )
        self.events: list[Any] = []
        self.texts: dict[int, str] = {}
        self.thoughts: dict[int, str] = {}
        self.logprobs: dict[int, list[TokenLogprob]] = {}
        self.batches: list[Batch] = []
        self.verified: list[Verified] = []
        self.notes: list[str] = []
        self.finished: dict[int, Finished] = {}
        self.next_id = 1
        self.take()

    def ask(
        self,
        prompt: Sequence[Turn] | Sequence[int] | str,
        session: str = "s",
        n: int = 1,
        namespace: str = "",
        **sampling: Any,
    ) -> int:
        id, self.next_id = self.next_id, self.next_id + n
        request = GenerateRequest(
            session, prompt if isinstance(prompt, str) else tuple(prompt), Sampling(**sampling), namespace, n
        )
        self.core.add(id, request, time.perf_counter())
        self.take()
        return id

    def ask_ids(self, ids: Sequence[int], session: str = "s", **options: Any) -> int:
        return self.ask(ids, session, **options)

    def step(self) -> None:
        self.core.step()
        self.cache.check_integrity()
        # Waste: under one block a request, whatever happened.
        assert self.cache.unfilled <= (self.cache.block_size - 1) * len(self.cache.rows)
        self.take()

    def take(self) -> None:
        batch = self.outbox.drain()
        if batch is None:
            return
        self.events += batch.events
        for delta in batch.deltas:
            self.texts[delta.request] = self.texts.get(delta.request, "") + delta.text
            self.thoughts[delta.request] = self.thoughts.get(delta.request, "") + delta.thinking
            self.logprobs.setdefault(delta.request, []).extend(delta.logprobs)
        for done in batch.finished:
            assert done.request not in self.finished, "finished twice"
            self.finished[done.request] = done
            assert self.texts.get(done.request, "") == done.text
            assert self.thoughts.get(done.request, "") == done.thinking
            assert tuple(self.logprobs.get(done.request, [])) == done.logprobs
        self.verified += batch.verified
        self.notes += batch.notes
        self.batches.append(batch)

    def run(self) -> None:
        steps = 0
        while self.core.has_work:
            self.step()
            steps += 1
            assert steps < 100_000
        assert self.cache.protected == 0

    def answer(self, ids: Sequence[int], **sampling: Any) -> Finished:
        id = self.ask_ids(ids, **sampling)
        self.run()
        return self.finished[id]


def expected(model: transformers.PreTrainedModel, prompt: Sequence[int], tokens: int) -> list[int]:
    """What transformers' own generate answers, greedily and without an end."""
    with torch.inference_mode():
        out = model.generate(
            torch.tensor([list(prompt)]),
            attention_mask=torch.ones(1, len(prompt)),  # id 0 may be sampled, and is no padding
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
    return out[0, len(prompt) :].tolist()


def load(folder: Path, attention: str = "auto") -> Decoder:
    """In fp32, with the operators ``attention`` gives on this machine."""
    return build(folder, "fp32", attention).decoder


def backend_for(decoder: Decoder) -> AttentionBackend:
    operators = decoder.operators
    return NativeBackend(operators.kernels) if isinstance(operators, NativeOperators) else TorchBackend()
