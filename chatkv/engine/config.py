"""Every choice that shapes an engine, in one frozen record. No torch here: the CLI builds it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chatkv.errors import ChatkvError
from chatkv.kvcache.eviction import STRATEGIES
from chatkv.scheduler.names import ADMISSIONS, MAX_OVERTAKEN, POLICIES

CACHES = ("radix", "hash", "none")
GRAINS = ("node", "block")
DTYPES = ("auto", "fp32", "bf16", "fp16", "int8", "int4")
ATTENTIONS = ("auto", "flashinfer", "native", "torch")
MAX_BLOCK_SIZE = 256
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")


class EngineError(ChatkvError):
    """The engine can't start or go on; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What to load and how much memory to give it.

    ``kv_memory`` is in bytes. With neither ``kv_memory`` nor ``num_blocks`` the pool is sized to the
    machine (see ``engine/sizing.py``).
    """

    model: str = "smollm2-135m"
    block_size: int = 16
    kv_memory: int | None = None
    num_blocks: int | None = None
    max_context: int | None = None
    max_batch_tokens: int = 512
    device: str = "auto"
    """``cpu``, ``cuda`` or ``cuda:1``; ``auto`` is the first GPU where there is one."""
    dtype: str = "auto"
    """``fp16`` is for GPUs; ``int8`` and ``int4`` are forms of the weights for a CPU's products of few rows,
    and the rest is bf16 then."""
    attention: str = "auto"
    """``flashinfer``: kernels for NVIDIA GPUs; ``native``: compiled ones for CPUs (also for norms and the
    like); ``torch``: the reference, on either."""
    cuda_graphs: bool = True
    """On a GPU with FlashInfer: steps in which all requests decode are captured at the start and replayed."""
    cache: str = "radix"
    strict: bool = False
    """Round matches down to whole blocks, as SGLang and vLLM do."""
    eviction: str = "lru"
    """Which evictable leaf goes first."""
    evict_grain: str = "node"
    """``node``: whole nodes; ``block``: block by block from a leaf's end. It changes hit rates."""
    max_running: int = 64
    """Requests that run at once; the others wait."""
    policy: str = "fcfs"
    """In what order waiting requests are admitted."""
    max_overtaken: int = MAX_OVERTAKEN
    """How often a waiting request may be overtaken before its turn comes; 0: the policy alone decides."""
    admission: str = "prompt"
    """What an admission leaves free for the answers of those who run."""
    threads: int | None = None
    verify: bool = False
    """Compute every answer again without the cache when it is over, and compare."""

    def validate(self) -> EngineConfig:
        """Return self; raise EngineError that names the option where a value can't work."""
        if not 1 <= self.block_size <= MAX_BLOCK_SIZE:
            raise EngineError(
                f"--block-size must be 1 to {MAX_BLOCK_SIZE}, got {self.block_size}", exit_code=2
            )
        if self.kv_memory is not None and self.num_blocks is not None:
            raise EngineError("give --kv-memory or --num-blocks, not both", exit_code=2)
        for name, value in (
            ("--kv-memory", self.kv_memory),
            ("--num-blocks", self.num_blocks),
            ("--max-context", self.max_context),
            ("--max-batch-tokens", self.max_batch_tokens),
            ("--max-running", self.max_running),
            ("--threads", self.threads),
        ):
            if value is not None and value < 1:
                raise EngineError(f"{name} must be at least 1, got {value}", exit_code=2)
        if self.max_overtaken < 0:
            raise EngineError(f"--max-overtaken must be at least 0, got {self.max_overtaken}", exit_code=2)
        for option, choice, known in (
            ("--cache", self.cache, CACHES),
            ("--eviction", self.eviction, tuple(STRATEGIES)),
            ("--evict-grain", self.evict_grain, GRAINS),
            ("--policy", self.policy, POLICIES),
            ("--admission", self.admission, ADMISSIONS),
        ):
            if choice not in known:
                raise EngineError(f"{option} must be one of {', '.join(known)}, got {choice!r}", exit_code=2)
        if self.cache == "hash" and self.eviction != "lru":
            raise EngineError(
                "--cache hash evicts in the order of its queue: --eviction must be lru", exit_code=2
            )
        if _DEVICE.fullmatch(self.device) is None:
            raise EngineError(f"--device must be auto, cpu, cuda or cuda:N, got {self.device!r}", exit_code=2)
        if self.dtype not in DTYPES:
            raise EngineError(f"--dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}", exit_code=2)
        if self.attention not in ATTENTIONS:
            names = ", ".join(ATTENTIONS)
            raise EngineError(f"--attention must be one of {names}, got {self.attention!r}", exit_code=2)
        return self
