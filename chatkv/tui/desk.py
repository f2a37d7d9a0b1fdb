"""Between the engine and the sessions: who asks, who answers, what happens when it fails. No widgets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from chatkv.chat.settings import plain
from chatkv.chat.tree import Message
from chatkv.engine.messages import (
    Batch,
    ContextNear,
    EngineMessage,
    Failed,
    GenerateRequest,
    Loading,
    Measured,
    Ready,
    Sampling,
    Turn,
    Verified,
)
from chatkv.errors import ChatkvError
from chatkv.tui.engine_port import EnginePort
from chatkv.tui.feed import Feed
from chatkv.tui.keys.current import hint
from chatkv.tui.sessions.book import SessionBook
from chatkv.tui.sessions.session import Session

AGAIN = "/restart-engine starts it again"
"""What a person can do where the engine is over."""


class Desk:
    """Questions asked before the engine is ready wait, and go out when it is."""

    def __init__(self, book: SessionBook, sampling: Sampling) -> None:
        self.book = book
        self.feed = Feed()
        self.ready: Ready | None = None
        self.failed = ""
        """Why there is no engine (any more); empty while there is hope."""
        self.loading = Loading("starting")
        self.returned: Callable[[Session, str], None] = lambda session, text: None
        """Told where a question got no answer: its text belongs back into the prompt."""
        self.near: Callable[[Session, ContextNear], None] = lambda session, near: None
        """Told where an answer has used most of its session's context."""
        self.noted: Callable[[str], None] = lambda line: None
        """Told what the engine can't have any more."""
        self._sampling = sampling
        self._engine: EnginePort | None = None
        self._measuring: dict[int, Callable[[Measured], None]] = {}
        self._tickets = itertools.count(1)
        self._verifying: dict[int, tuple[Session, str]] = {}
        """Request → its session and the id of its answer."""

    def connect(self, engine: EnginePort) -> None:
        """Use this engine and start it."""
        self._engine = engine
        engine.start()

    def restart(self, engine: EnginePort) -> None:
        """Use this engine in place of one that is over. Sessions stay; of the cache nothing is left."""
        self.book.forget_requests()
        self.feed = Feed()
        self.ready, self.failed, self.loading = None, "", Loading("starting the engine again")
        self.connect(engine)

    def watch(self) -> None:
        """See whether the engine is there: where its thread could not even tell its end, it is told here."""
        if self._engine is not None and not self.failed and not self._engine.alive:
            self.hear(Failed("the engine is gone, and could not say why"))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids; empty before the engine is ready."""
        return self._engine.decode(ids) if self._engine and self.ready else ""

    def hear(self, said: EngineMessage) -> None:
        """Take in one message of the engine."""
        match said:
            case Loading():
                self.loading = said
            case Ready():
                self.ready = said
                self.book.model = said.model
                for session in self.book.running:
                    self._submit(session)
            case Failed():
                self._fail(said.message)
            case Batch():
                self._hear_batch(said)
            case Measured():
                if told := self._measuring.pop(said.ticket, None):
                    told(said)

    def refusal(self, session: Session) -> str:
        """Why ``session`` can't be asked now, in one line that says what to do; empty where it can."""
        if self.failed:
            return f"there is no model to answer: {self.failed} · {AGAIN}"
        if session.running:
            return f"this session is still answering; {hint('back')} stops it"
        return ""

    def ask(self, session: Session, text: str) -> None:
        """Put the question into the conversation and have it answered."""
        self.book.ask(session, text)
        self.answer(session)

    def answer(self, session: Session, at: Message | None = None, answers: int = 1) -> None:
        """Have ``at`` (None: the head) answered; where it is an answer, its question is answered again.

        Several ``answers`` are computed at once over one prompt, whose blocks they share.
        """
        self.book.start(session, None, at, answers)
        if self.ready:
            self._submit(session)

    def stop(self, session: Session) -> None:
        """Stop its answers; what has come of them is kept."""
        running = session.running
        if running is None:
            return
        if running.request is None:
            self._give_up(session, "stopped before the model was ready")
        elif self._engine:
            for each in session.answers:
                if each.request is not None and not each.over:
                    each.stopping = True
                    self._engine.stop(each.request)

    def stop_all(self) -> int:
        """Stop every answer; how many there were."""
        running = self.book.running
        for session in running:
            self.stop(session)
        return len(running)

    def clear_cache(self) -> bool:
        """Forget every cached prefix (the engine does it when no request holds one).

        False where there is no cache: the engine is not ready yet, or has failed.
        """
        if self._engine is None or not self.works:
            return False
        self._engine.clear_cache()
        return True

    @property
    def works(self) -> bool:
        """True while there is an engine that takes requests."""
        return self._engine is not None and self.ready is not None and not self.failed

    def measure(self, session: Session, behind: Message, told: Callable[[Measured], None]) -> bool:
        """Have the prompt measured that comes behind a message of ``session``: for a question its own,
        for an answer that of an empty next question. False, and nothing follows, without an engine.
        """
        if self._engine is None or not self.works:
            return False
        turns = session.turns(self.book.model, behind.id)
        if behind.role != "user":
            turns = (*turns, Turn("user", ""))
        ticket = next(self._tickets)
        self._measuring[ticket] = told
        self._engine.measure(ticket, session.key, turns)
        return True

    def verify(self, session: Session, answer: Message) -> str:
        """Have an answer computed again without the cache; a line where that can't be done, else empty."""
        request = session.requests.get(answer.id)
        if self._engine is None or not self.works:
            return "there is no model yet to verify with"
        if request is None:
            return f"only answers of this run can be verified: {hint('again')} has it answered again"
        self._verifying[request] = (session, answer.id)
        self._engine.verify(request)
        return ""

    def pin(self, node: int, pinned: bool) -> None:
        """Have a node of the cache evicted last, or no longer."""
        if self._engine is not None and self.works:
            self._engine.pin(node, pinned)

    def close(self, timeout: float) -> bool:
        """End the engine's thread; True where it is over within ``timeout`` seconds."""
        return self._engine is None or self._engine.close(timeout)

    def sampling(self, session: Session) -> Sampling:
        """How its answers are sampled."""
        return replace(self._sampling, **plain(session.conversation.sampling))

    def _submit(self, session: Session) -> None:
        running = session.running
        if self._engine is None or running is None or running.request is not None:
            return
        try:
            turns, sampling = session.turns(self.book.model), self.sampling(session)
            asked = GenerateRequest(session.key, turns, sampling, n=len(session.answers))
            self.book.ahead.ask(session, partial(self._engine.submit, asked))
        except ChatkvError as error:
            self._give_up(session, str(error))

    def _fail(self, why: str) -> None:
        """Nothing more will come of what anybody waits for. What was asked is not asked again by itself: it
        may be what the engine died of.
        """
        self.failed = why
        for session in self.book.running:
            self._give_up(session, why)
        measuring, self._measuring = self._measuring, {}
        for ticket, told in measuring.items():
            told(Measured(ticket, 0, 0, why))
        verifying, self._verifying = self._verifying, {}
        for session, answer in verifying.values():
            session.notes[answer] = f"not verified: {why}"

    def _give_up(self, session: Session, reason: str) -> None:
        if text := self.book.give_up(session, reason):
            self.returned(session, text)

    def _hear_batch(self, batch: Batch) -> None:
        self.feed.take(batch.events, batch.wall_s)
        if batch.stats is not None:
            self.feed.take_stats(batch.stats)
        for delta in batch.deltas:
            self.book.add(delta)
        for finished in batch.finished:
            ended = self.book.finish(finished)
            if ended and ended[1]:
                self.returned(*ended)
        for near in batch.near:
            if (session := self.book.by_key(near.session)) is not None:
                self.near(session, near)
        for verified in batch.verified:
            self._note(verified)
        for line in batch.notes:
            self.noted(line)

    def _note(self, verified: Verified) -> None:
        """Under its answer, whether it was asked for here or comes by itself (``--verify``)."""
        if asked := self._verifying.pop(verified.request, None):
            session, answer = asked
            session.notes[answer] = verified.message
        elif (of := self.book.by_key(verified.session)) is not None:
            for answer, request in of.requests.items():
                if request == verified.request:
                    of.notes[answer] = verified.message
