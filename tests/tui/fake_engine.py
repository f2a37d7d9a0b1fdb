"""An engine whose cache is real and whose model reads from a script, so that the app's tests are quick.

Nothing happens until a test says so: ``ready()``, then ``step()`` for each forward.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chatkv.engine.messages import (
    Batch,
    Delta,
    EngineMessage,
    Failed,
    Finished,
    GenerateRequest,
    Loading,
    Measured,
    Ready,
    Turn,
    Verified,
)
from chatkv.kvcache.errors import CacheError
from chatkv.kvcache.events import Event, EventLog
from chatkv.kvcache.radix_cache import RadixCache
from chatkv.model.thinking import ThinkingSplitter
from chatkv.scheduler import events as sched

Script = Callable[[GenerateRequest], str]


def echo(request: GenerateRequest) -> str:
    return f"You said: {request.prompt[-1].text}"


@dataclass
class _Open:
    id: int
    asked: GenerateRequest
    prompt: list[int]
    answer: list[int]
    cached: int = 0
    copied: int = 0
    out: list[int] = field(default_factory=list)
    splitter: ThinkingSplitter = field(default_factory=lambda: ThinkingSplitter(thinks=True))
    thinking: str = ""
    text: str = ""

    def push(self, piece: str, last: bool) -> tuple[str, str]:
        thinking, text = self.splitter.push(piece)
        if last:
            rest = self.splitter.flush()
            thinking, text = thinking + rest[0], text + rest[1]
        self.thinking += thinking
        self.text += text
        return thinking, text


class FakeEngine:
    """Same verbs as ``chatkv.engine.thread.Engine``. A token is a word with the space before it."""

    def __init__(
        self,
        listener: Callable[[EngineMessage], None],
        *,
        script: Script = echo,
        num_blocks: int = 64,
        block_size: int = 16,
        max_context: int = 2048,
    ) -> None:
        self.listener = listener
        self.script = script
        self.max_context = max_context
        self.requests: list[GenerateRequest] = []
        self.closed = False
        self.started = False
        self.alive = True
        self._events: list[Event] = []
        self._log = EventLog(self._events.append)
        self._cache = RadixCache(num_blocks, block_size, log=self._log)
        self._vocabulary: dict[str, int] = {}
        self._pieces: list[str] = []
        self._waiting: list[_Open] = []
        self._running: list[_Open] = []
        self._stops: set[int] = set()
        self._steps = 0
        self._clock = 1_700_000_000.0

    # What the app calls

    def start(self) -> None:
        self.started = True
        self.listener(Loading("loading torch", None))

    def submit(self, request: GenerateRequest) -> int:
        prompt = self._prompt(request.prompt)
        first = len(self.requests) + 1
        for id in range(first, first + request.answers):
            self.requests.append(request)
            self._waiting.append(_Open(id, request, prompt, self.encode(self.script(request))))
        return first

    def _prompt(self, turns: Sequence[Turn]) -> list[int]:
        prompt = []
        for turn in turns:
            prompt += self.encode(f"<{turn.role}>")
            prompt += list(turn.token_ids) if turn.token_ids is not None else self.encode(turn.text)
        return prompt + self.encode("<assistant>")

    def stop(self, request: int) -> None:
        self._stops.add(request)

    def clear_cache(self) -> None:
        self._cache.clear()
        self._send()

    def pin(self, node: int, pinned: bool) -> None:
        try:
            self._cache.pin(node, pinned)
        except CacheError as error:
            self._log.emit(sched.PinRefused, node=node, reason=str(error))
        self._send()

    def measure(self, ticket: int, session: str, turns: Sequence[Turn]) -> None:
        prompt = self._prompt(turns)
        self.listener(Measured(ticket, len(prompt), self._cache.peek(prompt)))

    def verify(self, request: int) -> None:
        session = self.requests[request - 1].session
        told = Verified(request, session, 3, 2, 0.25, 1, None, 0.5, f"request {request}: the same 3 tokens")
        self.listener(Batch(self._clock, (), (), (), verified=(told,)))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._pieces[i] for i in ids)

    def close(self, timeout: float = 1.0) -> bool:
        self.closed = True
        return True

    # What a test calls

    def ready(self, *notes: str) -> None:
        self.listener(
            Ready(
                model="SmolLM2-135M",
                architecture="LlamaForCausalLM",
                attention="torch/cpu",
                dtype="bf16",
                cache="radix",
                policy="FCFS",
                block_size=self._cache.block_size,
                num_blocks=self._cache.num_blocks,
                bytes_per_block=368_640,
                max_context=self.max_context,
                default_system=None,
                load_s=1.5,
                notes=notes,
            )
        )
        self._send()

    def fail(self, message: str) -> None:
        self.listener(Failed(message))

    def encode(self, text: str) -> list[int]:
        ids = []
        for piece in re.findall(r" ?[^\s\W]+|<\w+>|\s|\W", text):
            if piece not in self._vocabulary:
                self._vocabulary[piece] = len(self._pieces)
                self._pieces.append(piece)
            ids.append(self._vocabulary[piece])
        return ids

    def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            self._step()

    def finish_all(self) -> None:
        while self._waiting or self._running:
            self._step()

    def refuse(self, message: str) -> None:
        """The next waiting request is refused."""
        request = self._waiting.pop(0)
        self._log.emit(
            sched.RequestRefused, request=request.id, session=request.asked.session, reason=message
        )
        self._send(finished=[self._finished(request, "refused", message)])

    def error(self, message: str) -> None:
        """The oldest running request dies."""
        request = self._running.pop(0)
        self._cache.close(request.id, "aborted")
        self._send(finished=[self._finished(request, "error", message)])

    def _step(self) -> None:
        finished: list[Finished] = []
        deltas: list[Delta] = []
        for request in [r for r in self._waiting + self._running if r.id in self._stops]:
            if request in self._running:
                self._running.remove(request)
                self._cache.close(request.id, "aborted")
            else:
                self._waiting.remove(request)
            finished.append(self._finished(request, "aborted"))
        prefill: list[tuple[int, int]] = []
        fresh: list[_Open] = []
        for request in list(self._waiting):
            session = request.asked.session
            self._log.emit(
                sched.RequestQueued,
                request=request.id,
                session=session,
                prompt_tokens=len(request.prompt),
                max_tokens=512,
            )
            opened = self._cache.open(request.id, request.prompt, session=session)
            if opened is None:
                break
            self._waiting.remove(request)
            self._running.append(request)
            fresh.append(request)
            request.cached, request.copied = opened.cached, opened.copied
            self._log.emit(
                sched.RequestAdmitted,
                request=request.id,
                cached=opened.cached,
                copied=opened.copied,
                waiting=len(self._waiting),
            )
            prefill.append((request.id, len(request.prompt) - opened.cached))
        decode = [r for r in self._running if r not in fresh]
        if self._running:
            self._steps += 1
            self._log.emit(
                sched.StepPlanned,
                step=self._steps,
                prefill=tuple(prefill),
                decode=tuple(r.id for r in decode),
                waiting=len(self._waiting),
                running=len(self._running),
            )
            for request in list(self._running):
                written = request.prompt[request.cached :] if request in fresh else request.out[-1:]
                if not self._cache.grow(request.id, len(request.prompt) + len(request.out)):
                    self._running.remove(request)
                    self._cache.close(request.id, "aborted")
                    finished.append(self._finished(request, "cache full", "the KV pool is full"))
                    continue
                self._cache.commit(request.id, written)
                token = request.answer[len(request.out)]
                request.out.append(token)
                if len(request.out) == 1:
                    self._log.emit(sched.FirstToken, request=request.id, ttft_s=0.041)
                thinking, text = request.push(self._pieces[token], len(request.out) == len(request.answer))
                deltas.append(Delta(request.id, request.asked.session, text, (token,), thinking))
                if len(request.out) == len(request.answer):
                    self._running.remove(request)
                    self._cache.close(request.id, "finished")
                    finished.append(self._finished(request, "stop"))
            self._log.emit(sched.StepDone, step=self._steps, step_s=0.026, forward_s=0.02)
        self._send(deltas, finished)

    def _finished(self, request: _Open, reason: str, message: str = "") -> Finished:
        done = Finished(
            request=request.id,
            session=request.asked.session,
            reason=reason,
            message=message,
            text=request.text,
            thinking=request.thinking,
            token_ids=tuple(request.out),
            prompt_tokens=len(request.prompt),
            cached=request.cached,
            copied=request.copied,
            computed=len(request.prompt) - request.cached if request.out else 0,
            ttft_s=0.041 if request.out else None,
            decode_s=0.026 * max(0, len(request.out) - 1),
        )
        if reason != "refused":
            self._log.emit(
                sched.RequestFinished,
                request=done.request,
                session=done.session,
                reason=reason,
                prompt_tokens=done.prompt_tokens,
                output_tokens=len(done.token_ids),
                cached=done.cached,
                copied=done.copied,
                computed=done.computed,
                ttft_s=done.ttft_s,
                decode_s=done.decode_s,
            )
        return done

    def _send(self, deltas: Sequence[Delta] = (), finished: Sequence[Finished] = ()) -> None:
        self._clock += 0.026
        events, self._events[:] = tuple(self._events), []
        self.listener(Batch(self._clock, events, tuple(deltas), tuple(finished)))
