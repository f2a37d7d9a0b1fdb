"""The options that say how tokens are chosen, for every command that has answers made."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from chatkv.errors import UsageError

_PANEL = "Sampling"

Temperature = Annotated[float, typer.Option(help="0: always the likeliest token.", rich_help_panel=_PANEL)]
TopP = Annotated[
    float, typer.Option(help="Sample from this share of the probability.", rich_help_panel=_PANEL)
]
TopK = Annotated[int, typer.Option(help="Sample from this many tokens; 0: from all.", rich_help_panel=_PANEL)]
MinP = Annotated[
    float,
    typer.Option(
        help="Sample from tokens at least this likely, beside the likeliest; 0: from all.",
        rich_help_panel=_PANEL,
    ),
]
RepetitionPenalty = Annotated[
    float,
    typer.Option(help="Above 1: what prompt or answer has is less likely.", rich_help_panel=_PANEL),
]
PresencePenalty = Annotated[
    float, typer.Option(help="Above 0: what the answer has is less likely.", rich_help_panel=_PANEL)
]
FrequencyPenalty = Annotated[
    float, typer.Option(help="The same, for each time that it has it.", rich_help_panel=_PANEL)
]
Stop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="End an answer before this text; may be given again.",
        rich_help_panel=_PANEL,
    ),
]
MaxTokens = Annotated[int, typer.Option(help="Tokens an answer may have.", rich_help_panel=_PANEL)]
Seed = Annotated[int | None, typer.Option(help="For the same answers every time.", rich_help_panel=_PANEL)]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify", help="Compute each answer again without the cache, and compare the logits."
    ),
]


def checked(**values: Any) -> Any:
    """The ``Sampling`` of these values. Raises UsageError that names the option that can't work."""
    from chatkv.engine.messages import Sampling
    from chatkv.engine.sampling_check import check_sampling

    values["stop"] = tuple(values.get("stop") or ())
    sampling = Sampling(**values)
    problem = check_sampling(sampling)
    if problem is not None:
        name, rest = problem.split(" ", 1)
        raise UsageError(f"--{name.replace('_', '-')} {rest}")
    return sampling
