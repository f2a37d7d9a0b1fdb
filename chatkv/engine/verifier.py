"""Which finished answers are to be verified, and a slice of that work at a time beside the others'."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from chatkv.engine.config import EngineError
from chatkv.engine.messages import Verified, unverified
from chatkv.engine.runner import Runner
from chatkv.engine.verify import Answer, Verification
from chatkv.errors import in_words
from chatkv.kvcache.cache import KVCache
from chatkv.scheduler.request import Request

logger = logging.getLogger(__name__)

ANSWERS_KEPT = 256
"""Finished answers that can still be verified."""
MAX_ASKED = 64
"""Answers in line: each holds its tokens, and with --verify busy people ask faster than this computes."""
BUSY_BUDGET = 64
"""Tokens a slice may compute while people wait for answers."""


class Verifier:
    """Owns what was answered lately and the line of verifications; reports through ``told``."""

    def __init__(
        self,
        cache: KVCache,
        runner: Runner,
        piece: Callable[[int], str],
        told: Callable[[Verified], None],
        budget: int,
    ) -> None:
        """``budget``: the tokens a slice may compute while nobody waits."""
        self._cache, self._runner, self._piece, self._told = cache, runner, piece, told
        self._budget = budget
        self._answers: OrderedDict[int, Answer] = OrderedDict()
        self._asked: deque[Answer] = deque()
        self._job: tuple[Verification, Iterator[None]] | None = None
        self._busy = False

    def remember(self, request: Request) -> None:
        """It is over, and may be asked for later."""
        self._answers[request.id] = Answer(
            request.id, request.session, request.namespace, request.tokens.copy(), request.prompt_tokens
        )
        while len(self._answers) > ANSWERS_KEPT:
            self._answers.popitem(last=False)

    def ask(self, request: int) -> None:
        """Verify ``request``; ``Verified`` follows, whatever comes of it; one for all that ask meanwhile."""
        if any(asked.request == request for asked in self._asked):
            return
        answer = self._answers.get(request)
        if answer is None:
            why = (
                "only answers that are over can be, and the latest of them: ask again and verify the new one"
            )
            self._told(unverified(request, "", why))
            return
        if len(self._asked) >= MAX_ASKED:
            why = f"{MAX_ASKED} answers are in line already: ask again when they are done"
            self._told(unverified(request, answer.session, why))
            return
        self._asked.append(answer)

    @property
    def has_work(self) -> bool:
        """Whether ``step`` would do anything."""
        return bool(self._asked) or self._job is not None

    def step(self, busy: bool) -> None:
        """One forward of the verification in progress, a small one where others are ``busy``."""
        self._busy = busy
        try:
            if self._job is None:
                job = Verification(self._asked[0], self._cache, self._runner, self._piece, self._slice)
                self._job = job, job.slices()
            next(self._job[1])
        except StopIteration:
            assert self._job is not None
            self._end(self._job[0].result)
        except EngineError as error:
            self._end(unverified(self._asked[0].request, self._asked[0].session, str(error)))
        except Exception as error:
            answer = self._asked[0]
            logger.exception("request %d could not be verified", answer.request)
            self._end(unverified(answer.request, answer.session, in_words(error)))

    def _slice(self) -> int:
        return min(self._budget, BUSY_BUDGET) if self._busy else self._budget

    def _end(self, verified: Verified) -> None:
        self._job = None
        self._asked.popleft()
        self._told(verified)
