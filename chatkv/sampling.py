"""How the next token is chosen: what may be set, with its bounds. No torch here."""

from dataclasses import dataclass
from typing import Annotated

from chatkv.schema import option, problem_of

PANEL = "Sampling"
MOST_TOKENS = 2**31 - 1
MAX_LOGPROBS = 20
MOST_PRIORITY = 1000


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What each value does, and in which order, is told in ``engine/sampling.py``.

    As it stands, nothing but ``temperature`` 0 (greedy) acts: each other value is neutral.
    """

    temperature: Annotated[float, option("0: always the likeliest token.", ge=0, le=100, panel=PANEL)] = 0.0
    top_p: Annotated[float, option("Sample from this share of the probability.", gt=0, le=1, panel=PANEL)] = (
        1.0
    )
    top_k: Annotated[
        int, option("Sample from this many tokens; 0: from all.", ge=0, le=MOST_TOKENS, panel=PANEL)
    ] = 0
    max_tokens: Annotated[int, option("Tokens an answer may have.", ge=1, le=MOST_TOKENS, panel=PANEL)] = 512
    seed: (
        Annotated[
            int,
            option("For the same answers every time.", ge=0, le=2**63 - 1, panel=PANEL, example=1),
        ]
        | None
    ) = None
    """None draws one."""
    ignore_stop: bool = False
    """Go on after the model's own end: for measurements, where answers must be of one length."""
    min_p: Annotated[
        float,
        option(
            "Sample from tokens at least this likely, beside the likeliest; 0: from all.",
            ge=0,
            le=1,
            panel=PANEL,
        ),
    ] = 0.0
    repetition_penalty: Annotated[
        float,
        option("Above 1: what prompt or answer has is less likely.", ge=0.01, le=100, panel=PANEL),
    ] = 1.0
    presence_penalty: Annotated[
        float, option("Above 0: what the answer has is less likely.", ge=-10, le=10, panel=PANEL)
    ] = 0.0
    frequency_penalty: Annotated[
        float, option("The same, for each time that it has it.", ge=-10, le=10, panel=PANEL)
    ] = 0.0
    stop: Annotated[
        tuple[str, ...],
        option(
            "End an answer before this text; may be given again.",
            le=16,
            length=256,
            panel=PANEL,
            metavar="TEXT",
            example=["END"],
        ),
    ] = ()
    """The answer ends before the first of these (thinking is not searched)."""
    logprobs: (
        Annotated[
            int,
            option(
                "Record each token's log-probability, and those of so many others.",
                ge=0,
                le=MAX_LOGPROBS,
                panel=PANEL,
                example=0,
            ),
        ]
        | None
    ) = None
    """None: no log-probabilities; n: those of the chosen token and of the n likeliest."""

    priority: Annotated[
        int,
        option(
            "Larger: served before others, and evicted after them by --eviction priority.",
            ge=-MOST_PRIORITY,
            le=MOST_PRIORITY,
            panel=PANEL,
        ),
    ] = 0
    """Says nothing about the token that comes next: it is for the queue and the cache."""

    def problem(self) -> str | None:
        """Return one line that begins with the name of a value that can't work, else None."""
        found = problem_of(self)
        return None if found is None else f"{found[0].name} {found[1]}"
