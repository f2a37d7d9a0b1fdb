"""``python -m benchmarks core|engines|gpu|screen``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from benchmarks.core.command import cache
from benchmarks.engines.command import compare
from benchmarks.gpu.command import gpu
from benchmarks.screen.command import screen
from chatkv.cli.outcome import invoke, leave

NAME = "python -m benchmarks"

app = typer.Typer(help="How its makers measure chatkv.", pretty_exceptions_enable=False)
app.command("core")(cache)
app.command("engines")(compare)
app.command("gpu")(gpu)
app.command("screen")(screen)


def run(arguments: Sequence[str]) -> int:
    """Run one of the measurements; its exit code."""
    return invoke(arguments, app, NAME)


if __name__ == "__main__":
    code = run(sys.argv[1:])
    if "torch" in sys.modules:
        leave(code)
    sys.exit(code)
