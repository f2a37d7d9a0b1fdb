"""What the engine keeps for a request beside the scheduler's view: sampling, text, times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from chatkv.engine.logprobs import logprob_of
from chatkv.engine.messages import Delta, Sampling, TokenLogprob
from chatkv.engine.sampling import Sampler
from chatkv.engine.stops import StopStrings
from chatkv.model.tokenizer import Codec
from chatkv.scheduler.request import Request


@dataclass(frozen=True, slots=True)
class Sibling:
    """Another answer to a prompt: it waits until the prompt is computed, then forks."""

    id: int
    sampling: Sampling


def siblings(ids: Sequence[int], sampling: Sampling) -> tuple[Sibling, ...]:
    """All but the first of ``ids``, each with a seed of its own where one is given."""
    return tuple(
        Sibling(
            id, sampling if sampling.seed is None else replace(sampling, seed=(sampling.seed + i) % 2**63)
        )
        for i, id in enumerate(ids)
        if i
    )


class Generation:
    """One answer on its way: token → text → thinking | answer → stop strings."""

    def __init__(
        self,
        request: Request,
        sampling: Sampling,
        codec: Codec,
        queued: float,
        siblings: tuple[Sibling, ...] = (),
        *,
        chat: bool = True,
    ) -> None:
        """``queued``: ``time.perf_counter()`` when it was asked for. ``chat``: it answers a conversation."""
        self.request = request
        self.sampling = sampling
        self.siblings = siblings
        self.queued = queued
        self.first: float | None = None
        self.last = queued
        self.told_near = False
        self._codec, self._chat = codec, chat
        self._sampler = Sampler(sampling, request.tokens[: request.prompt_tokens].tolist())
        self._detokenizer = codec.detokenizer()
        self._splitter = codec.splitter(chat)
        ends = codec.stop_texts if chat and not sampling.ignore_stop else ()
        self._stops = StopStrings((*sampling.stop, *ends))
        self._raw: list[str] = []
        """Of each sampled token: the text that came with it …"""
        self._whole: list[bool] = []
        """… and whether that text ends where the token does."""
        self._rest = ""
        self._thinking: list[str] = []
        self._text: list[str] = []
        self._logprobs: list[TokenLogprob] = []

    def sibling(self, sibling: Sibling, behind: tuple[Sibling, ...] = ()) -> Generation:
        """Another answer to the same prompt, from its beginning; ``behind`` wait for it in turn."""
        own = self.request
        request = Request(
            sibling.id,
            own.session,
            own.tokens[: own.prompt_tokens],
            max_tokens=own.max_tokens,
            namespace=own.namespace,
            priority=own.priority,
        )
        return Generation(request, sibling.sampling, self._codec, self.queued, behind, chat=self._chat)

    @property
    def needs_logits(self) -> bool:
        """Whether ``draw`` needs more of a row than its likeliest id."""
        return self.sampling.logprobs is not None or not self._sampler.greedy

    def draw(self, logits: torch.Tensor) -> int:
        """The next token, from ``logits`` (fp32 [vocab], on the CPU).

        Unless it ``needs_logits``, also from the likeliest id (int64 [], -1: a logit is not a number).
        """
        token = self._sampler.draw(logits)
        if self.sampling.logprobs is not None:
            self._logprobs.append(logprob_of(logits, token, self.sampling.logprobs, self._codec.piece))
        return token

    def push(self, token: int, end: bool) -> Delta:
        """``token`` was drawn; ``end``: it ends the answer and has no text."""
        raw = "" if end else self._detokenizer.push(token)
        self._raw.append(raw)
        self._whole.append(not self._detokenizer.pending)
        thinking, text = self._splitter.push(raw)
        return self._delta(thinking, self._stops.push(text), (token,), tuple(self._logprobs[-1:]))

    @property
    def sampled(self) -> tuple[int, ...]:
        """The ids drawn so far."""
        return tuple(self.request.tokens[self.request.prompt_tokens :].tolist())

    def flush(self) -> Delta | None:
        """The answer is over: what was held back of its text, if anything."""
        self._rest = self._detokenizer.flush()
        thinking, text = self._splitter.push(self._rest)
        more, last = self._splitter.flush()
        text = self._stops.push(text + last) + self._stops.flush()
        delta = self._delta(thinking + more, text, (), ())
        return delta if delta.text or delta.thinking else None

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stops.hit is not None

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        """What was thought before it."""
        return "".join(self._thinking)

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...]:
        """Of each sampled token, where asked for."""
        return tuple(self._logprobs)

    @property
    def kept_ids(self) -> tuple[int, ...]:
        """The sampled ids, as history is to keep them.

        After a stop string, only those before it: a token that it cuts is replaced by the ids of its
        part before the cut, so that the ids spell what the person saw. (The KV of what was cut stays
        findable, but the next turn leaves it.)
        """
        ids = self.sampled
        if not self.stopped:
            return ids
        raw = "".join(self._raw) + self._rest
        cut = len(raw) - self._stops.cut
        kept = spelled = end = 0
        for index, (text, whole) in enumerate(zip(self._raw, self._whole, strict=True)):
            end += len(text)
            if end > cut:
                break
            if whole:
                kept, spelled = index + 1, end
        return (*ids[:kept], *self._codec.encode_later(raw[spelled:cut]))

    def _delta(
        self, thinking: str, text: str, ids: tuple[int, ...], logprobs: tuple[TokenLogprob, ...]
    ) -> Delta:
        if thinking:
            self._thinking.append(thinking)
        if text:
            self._text.append(text)
        return Delta(self.request.id, self.request.session, text, ids, thinking, logprobs)
