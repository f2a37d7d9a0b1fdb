"""Every choice that shapes an engine, in one frozen record. No torch here: the command line builds it.

Annotations are evaluated (no ``from __future__``): ``chatkv/schema.py`` reads what they hold.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Self

from chatkv.errors import ChatkvError
from chatkv.kvcache.eviction import STRATEGIES
from chatkv.scheduler.names import ADMISSIONS, MAX_OVERTAKEN, POLICIES
from chatkv.schema import option, problem_of

CACHES = ("radix", "hash", "none")
GRAINS = ("node", "block")
DTYPES = ("auto", "fp32", "bf16", "fp16", "int8", "int4")
ATTENTIONS = ("auto", "flashinfer", "native", "torch")
MAX_BLOCK_SIZE = 256
MAX_BLOCKS = 1 << 26
"""The most blocks of a pool: the lists of free and used ones then have some 600 MB."""
MOST = 1 << 24
"""Of anything that is counted and has no bound of its own: what is typed beyond it is a mistake."""
MEMORY = "Memory"
QUEUE = "Queue"
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")


class EngineError(ChatkvError):
    """The engine can't start or go on; the message is one line that says what to do."""


def _device(name: str) -> str | None:
    return None if _DEVICE.fullmatch(name) else "auto, cpu, cuda or cuda:N"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What to load and how much memory to give it.

    With neither ``kv_memory`` nor ``num_blocks`` the pool is sized to the machine (see ``engine/sizing.py``).
    """

    model: Annotated[
        str, option("A name from 'chatkv models', a Hugging Face folder or org/name, or a GGUF file.")
    ] = "smollm2-135m"
    block_size: Annotated[int, option("Tokens a KV block.", ge=1, le=MAX_BLOCK_SIZE, panel=MEMORY)] = 16
    kv_memory: (
        Annotated[
            int,
            option(
                "Size of the KV pool, like 512MiB.",
                ge=1,
                panel=MEMORY,
                metavar="SIZE",
                size=True,
                example="512MiB",
            ),
        ]
        | None
    ) = None
    """In bytes."""
    num_blocks: (
        Annotated[
            int,
            option("Size of the KV pool in blocks, instead.", ge=1, le=MAX_BLOCKS, panel=MEMORY, example=64),
        ]
        | None
    ) = None
    max_context: (
        Annotated[
            int,
            option(
                "Tokens a conversation may have; default: the model's.",
                ge=1,
                le=MOST,
                panel=MEMORY,
                example=2048,
            ),
        ]
        | None
    ) = None
    max_batch_tokens: Annotated[int, option("Tokens a step may compute.", ge=1, le=MOST, panel=MEMORY)] = 512
    device: Annotated[
        str,
        option(
            "Where it computes; auto: on a GPU, if there is one.", check=_device, metavar="auto|cpu|cuda[:N]"
        ),
    ] = "auto"
    dtype: Annotated[str, option("What the model computes in.", choices=lambda: DTYPES)] = "auto"
    """``fp16`` is for GPUs; ``int8`` and ``int4`` are forms of the weights for a CPU's products of few rows,
    and the rest is bf16 then."""
    attention: Annotated[str, option("What computes attention.", choices=lambda: ATTENTIONS)] = "auto"
    """``flashinfer``: kernels for NVIDIA GPUs; ``native``: compiled ones for CPUs (also for norms and the
    like); ``torch``: the reference, on either."""
    cuda_graphs: Annotated[bool, option("FlashInfer's decode steps as CUDA graphs.")] = True
    """On a GPU with FlashInfer: steps in which all requests decode are captured at the start and replayed."""
    cache: Annotated[str, option("How prefixes are reused.", choices=lambda: CACHES, panel=MEMORY)] = "radix"
    strict: Annotated[bool, option("Reuse whole blocks only.", flag="strict_blocks", panel=MEMORY)] = False
    """Round matches down to whole blocks, as SGLang and vLLM do."""
    eviction: Annotated[
        str, option("Which leaf is evicted first.", choices=lambda: STRATEGIES, panel=MEMORY)
    ] = "lru"
    evict_grain: Annotated[
        str, option("Evict whole nodes, or block by block.", choices=lambda: GRAINS, panel=MEMORY)
    ] = "node"
    """``node``: whole nodes; ``block``: block by block from a leaf's end. It changes hit rates."""
    max_running: Annotated[int, option("Requests that run at once.", ge=1, le=MOST, panel=QUEUE)] = 64
    """The others wait."""
    policy: Annotated[
        str, option("Which waiting request goes first.", choices=lambda: POLICIES, panel=QUEUE)
    ] = "fcfs"
    max_overtaken: Annotated[
        int,
        option("How often a waiting request may be overtaken; 0: no bound.", ge=0, le=MOST, panel=QUEUE),
    ] = MAX_OVERTAKEN
    admission: Annotated[
        str,
        option(
            "Room kept for running answers: none, or a part as in SGLang.",
            choices=lambda: ADMISSIONS,
            panel=QUEUE,
        ),
    ] = "prompt"
    threads: (
        Annotated[int, option("CPU threads; default: as the machine has.", ge=1, le=1024, example=4)] | None
    ) = None
    verify: Annotated[
        bool, option("Compute each answer again without the cache, and compare the logits.")
    ] = False

    def validate(self) -> Self:
        """Return self; raise EngineError that names the option where a value can't work."""
        if (found := problem_of(self)) is not None:
            raise EngineError(f"{found[0].option} {found[1]}", exit_code=2)
        if self.kv_memory is not None and self.num_blocks is not None:
            raise EngineError("give --kv-memory or --num-blocks, not both", exit_code=2)
        if self.cache == "hash" and self.eviction != "lru":
            raise EngineError(
                "--cache hash evicts in the order of its queue: --eviction must be lru", exit_code=2
            )
        return self
