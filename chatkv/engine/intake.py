"""From what was asked to a request that can be queued, or to the reason why not."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard, cast

import numpy as np

from chatkv.engine.messages import MAX_ANSWERS, GenerateRequest, Prompt, Turn
from chatkv.errors import ChatkvError, in_words
from chatkv.model.tokenizer import Codec
from chatkv.scheduler.request import Request

logger = logging.getLogger(__name__)


class TurnedDown(NamedTuple):
    """``reason``: ``error`` or ``refused`` (then it has a prompt); ``message``: one line."""

    reason: str
    message: str
    prompt_tokens: int = 0


def take_in(
    id: int, generate: GenerateRequest, codec: Codec, max_context: int, vocab: int
) -> Request | TurnedDown:
    """Check and tokenise what was asked. Nothing of a prompt is ever dropped to make it fit.

    ``vocab``: the model computes ids below it; another one would fail the forward of everybody.
    """
    problem = _check_answers(generate.n) or generate.sampling.problem()
    if problem:
        return TurnedDown("error", problem)
    try:
        prompt = encode(generate.prompt, codec)
    except ChatkvError as error:
        return TurnedDown("error", str(error))
    except Exception as error:
        logger.exception("request %d could not be tokenised", id)
        return TurnedDown("error", f"this prompt could not be tokenised: {in_words(error)}")
    if not len(prompt):
        return TurnedDown("error", "this prompt has no tokens: write something first")
    unknown = next((token for token in prompt if not 0 <= token < vocab), None)
    if unknown is not None:
        message = (
            f"this prompt has token id {unknown}, the model has 0 to {vocab - 1}: an answer in it is of "
            "another model or its file is damaged; fork an earlier message, or start a new session"
        )
        return TurnedDown("error", message)
    if len(prompt) >= max_context:
        message = (
            f"this prompt has {len(prompt)} tokens, the context holds {max_context} with the answer: "
            "shorten it, fork an earlier message, or start a new session"
        )
        return TurnedDown("refused", message, len(prompt))
    return Request(
        id,
        generate.session,
        np.array(prompt, dtype=np.int32),
        max_tokens=generate.sampling.max_tokens,
        namespace=generate.namespace,
        priority=generate.sampling.priority,
    )


def encode(prompt: Prompt, codec: Codec) -> Sequence[int]:
    """Token ids of whatever was asked. Raises ModelError."""
    if isinstance(prompt, str):
        return codec.encode_prompt(prompt)
    if is_chat(prompt):
        return codec.encode_chat(prompt)
    return cast("tuple[int, ...]", prompt)


def is_chat(prompt: Prompt) -> TypeGuard[tuple[Turn, ...]]:
    """Whether ``prompt`` is a conversation, not token ids or a text."""
    return not isinstance(prompt, str) and all(isinstance(part, Turn) for part in prompt[:1])


def _check_answers(n: int) -> str | None:
    return None if 1 <= n <= MAX_ANSWERS else f"n must be 1 to {MAX_ANSWERS} answers, got {n}"
