"""The command line. torch and textual are imported only inside the commands that need them."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """The ``chatkv`` command: run it on ``sys.argv`` and leave with its exit code."""
    from chatkv.cli.outcome import invoke, leave

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal or pipe that can't show a character gets a "?", not a crash.
        sys.stdout.reconfigure(errors="replace")
    code = invoke(sys.argv[1:])
    if "torch" in sys.modules:
        leave(code)
    sys.exit(code)
