"""Answers on disk when the engine has ended them, not when the screen takes them in."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable

from chatkv.chat.store import SessionStore
from chatkv.chat.tree import Message, new_id
from chatkv.engine.messages import Finished
from chatkv.tui.sessions.session import Session

logger = logging.getLogger(__name__)


class WriteAhead:
    """``hear`` runs on the engine's thread, all else on the screen's."""

    def __init__(self, store: SessionStore) -> None:
        self.model = ""
        """Names whose token ids a new answer's are; known once the engine is ready."""
        self._store = store
        self._lock = threading.RLock()  # a failed engine tells the end within ``ask``
        self._asked: dict[int, tuple[Session, str]] = {}
        """Request → whose it is, and the message that it answers."""
        self._written: dict[int, Message] = {}

    def ask(self, session: Session, submit: Callable[[], int]) -> None:
        """``submit`` asks for the answers of ``session`` and returns the first one's request."""
        with self._lock:  # an answer that ends at once waits until it is known whose it is
            session.number(submit())
            self._asked.update(
                (each.request, (session, each.parent)) for each in session.answers if each.request
            )

    def hear(self, ended: Iterable[Finished]) -> None:
        """Write what these answers say; never raises."""
        for finished in ended:
            try:
                with self._lock:
                    session, parent = self._asked.pop(finished.request, (None, ""))
                    if session is not None and says(finished):
                        message = answer(finished, parent, self.model)
                        self._written[finished.request] = message
                        self._store.keep(session.conversation, message)
            except Exception:  # the screen will write it, and tell why it can't
                logger.exception("an answer could not be written when it ended")

    def take(self, request: int | None) -> Message | None:
        """What was written of it; None: nothing, and nothing will be."""
        if request is None:
            return None
        with self._lock:
            self._asked.pop(request, None)
            return self._written.pop(request, None)

    def forget(self) -> None:
        """Nothing more comes of what was asked."""
        with self._lock:
            self._asked.clear()
            self._written.clear()


def says(finished: Finished) -> bool:
    """Whether there is an answer, if only an empty one."""
    return bool(finished.token_ids) or finished.reason == "stop"


def answer(finished: Finished, parent: str, model: str) -> Message:
    """The message that is kept of an answer to ``parent``."""
    why = {"why": finished.message} if finished.message else {}
    meta = {**_meta(finished), **why}
    return made(parent, finished.text, finished.thinking, finished.token_ids, finished.reason, model, meta)


def made(
    parent: str,
    text: str,
    thinking: str,
    token_ids: Iterable[int],
    reason: str,
    model: str,
    meta: dict[str, object],
) -> Message:
    """A message of ``model``; ``reason``: why it ended there."""
    thought = {"thinking": thinking} if thinking else {}
    meta = {**meta, **thought, "reason": reason, "model": model, "time": time.time()}
    return Message(new_id(), parent, "assistant", text, tuple(token_ids), meta)


def _meta(finished: Finished) -> dict[str, object]:
    sure: dict[str, object] = {}
    if finished.logprobs and all(math.isfinite(token.logprob) for token in finished.logprobs):
        least = min(finished.logprobs, key=lambda token: token.logprob)
        sure["logprob_mean"] = sum(token.logprob for token in finished.logprobs) / len(finished.logprobs)
        sure["logprob_least"] = [least.text, least.logprob]
    return {
        **sure,
        "prompt_tokens": finished.prompt_tokens,
        "cached": finished.cached,
        "copied": finished.copied,
        "computed": finished.computed,
        "ttft_s": finished.ttft_s,
        "decode_s": finished.decode_s,
    }
