"""chatkv: an LLM engine that shows what its KV cache does, as a library and as a terminal chat.

    from chatkv import LLM, SamplingParams

    with LLM("smollm2-135m") as llm:
        print(llm.chat([{"role": "user", "content": "Hello!"}], SamplingParams(max_tokens=40)).text)

Names are imported when they are used: ``import chatkv`` alone loads neither torch nor Textual.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatkv.engine.messages import Turn
    from chatkv.errors import ChatkvError
    from chatkv.insight.mirror import Mirror
    from chatkv.insight.snapshot import Snapshot
    from chatkv.kvcache.events import EventLog
    from chatkv.kvcache.hash_cache import HashCache
    from chatkv.kvcache.radix_cache import RadixCache
    from chatkv.llm import LLM
    from chatkv.outputs import Output, Stream
    from chatkv.sampling import SamplingParams

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "ChatkvError",
    "EventLog",
    "HashCache",
    "Mirror",
    "Output",
    "RadixCache",
    "SamplingParams",
    "Snapshot",
    "Stream",
    "Turn",
    "__version__",
]

_HOMES = {
    "LLM": "chatkv.llm",
    "Output": "chatkv.outputs",
    "Stream": "chatkv.outputs",
    "SamplingParams": "chatkv.sampling",
    "Turn": "chatkv.engine.messages",
    "ChatkvError": "chatkv.errors",
    "EventLog": "chatkv.kvcache.events",
    "HashCache": "chatkv.kvcache.hash_cache",
    "RadixCache": "chatkv.kvcache.radix_cache",
    "Mirror": "chatkv.insight.mirror",
    "Snapshot": "chatkv.insight.snapshot",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'chatkv' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value = getattr(import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
