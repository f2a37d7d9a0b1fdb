"""The command line. torch and textual are imported only inside the commands that need them."""

from __future__ import annotations

import sys


def main() -> None:
    """The ``chatkv`` command: run it on ``sys.argv`` and leave with its exit code."""
    from chatkv.cli.outcome import invoke

    sys.exit(invoke(sys.argv[1:]))
