"""What a prompt would cost, before anyone asks for its answer."""

from __future__ import annotations

import logging

from chatkv.engine.intake import encode
from chatkv.engine.messages import Measured, Prompt
from chatkv.errors import ChatkvError, in_words
from chatkv.kvcache.cache import KVCache
from chatkv.model.tokenizer import Codec

logger = logging.getLogger(__name__)


def measure(ticket: int, session: str, prompt: Prompt, codec: Codec, cache: KVCache) -> Measured:
    """Count the tokens of ``prompt``, and those of them that are in the cache now.

    Changes nothing; never raises: ``Measured.problem`` says what was wrong.
    """
    try:
        ids = encode(prompt, codec)
        reused = cache.peek(ids, session=session)
    except ChatkvError as error:
        return Measured(ticket, 0, 0, str(error))
    except Exception as error:
        logger.exception("a prompt could not be measured")
        return Measured(ticket, 0, 0, f"this prompt could not be measured: {in_words(error)}")
    return Measured(ticket, len(ids), reused)
