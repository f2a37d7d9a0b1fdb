"""What a prompt would cost, before anyone asks for its answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from chatkv.engine.messages import Measured, Turn
from chatkv.errors import ChatkvError
from chatkv.kvcache.cache import KVCache
from chatkv.model.tokenizer import Codec

logger = logging.getLogger(__name__)


def measure(ticket: int, session: str, turns: Sequence[Turn], codec: Codec, cache: KVCache) -> Measured:
    """Its tokens, and how many of them are in the cache now. Changes nothing; never raises."""
    try:
        prompt = codec.encode_chat(turns)
        reused = cache.peek(prompt, session=session)
    except ChatkvError as error:
        return Measured(ticket, 0, 0, str(error))
    except Exception as error:
        logger.exception("a prompt could not be measured")
        return Measured(ticket, 0, 0, f"this prompt could not be measured: {type(error).__name__}: {error}")
    return Measured(ticket, len(prompt), reused)
