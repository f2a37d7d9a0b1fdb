"""From how a command ended to an exit code and, where something was wrong, one line on stderr."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn

from chatkv.errors import ChatkvError, UsageError
from chatkv.text import one_line

INTERRUPTED = 130
_LINE_LIMIT = 2000
_PATHS = ("--sessions", "--record-screen", "--output", "-o", "--json", "--svg")


def invoke(arguments: Sequence[str], own: Any = None, name: str = "chatkv") -> int:
    """Run the command line and return its exit code. ``own``: another one, of typer, called ``name``.

    0 good, 1 failure (nobody reads the output any more: 1, silently), 2 wrong use, 130 ctrl-c.
    Errors that a person can act on are told in one line; any other is a fault of chatkv and keeps
    its traceback.
    """
    try:
        from chatkv.cli.shells import carry_out

        if own is None and carry_out(arguments):
            return 0
        from chatkv.cli.app import app
        from chatkv.cli.completion import VARIABLE
        from chatkv.cli.defaults import Defaults

        _refuse_blank_paths(arguments)
        asks_help = not {"-h", "--help"}.isdisjoint(arguments)
        completes = VARIABLE in os.environ
        code = (own or app)(
            list(arguments),
            prog_name=name,
            standalone_mode=False,
            default_map={} if completes or own else Defaults(lenient=asks_help),
        )
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except ChatkvError as error:
        return tell(str(error), error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return tell(f"{where}{error.strerror or error}", 1)
    except Exception as error:
        # typer's own (a wrong option, a missing argument); it has no public base class.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else name
        return tell(f"{format_message().rstrip('.')}; see {command} --help", 2)


def _refuse_blank_paths(arguments: Sequence[str]) -> None:
    """A path that is empty would be the current folder: most likely a variable that is not set."""
    for before, given in pairwise(("", *arguments)):
        option, equals, value = given.partition("=")
        option, value = (option, value) if equals else (before, given)
        if option in _PATHS and not value.strip():
            raise UsageError(f"{option} takes a path, and what is given is empty")


def tell(message: str, code: int) -> int:
    """Write ``message`` as one printable line to stderr and return ``code``."""
    try:
        print(f"chatkv: {one_line(message, _LINE_LIMIT)}", file=sys.stderr)
    except OSError:
        _drop_output()
    return code


def leave(code: int) -> NoReturn:
    """End the process with what has to be done at the end, but don't take the interpreter apart.

    With torch loaded that takes more than a second, in which a person waits for the shell; and a thread
    that is still inside torch then aborts the process.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are no daemons
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:  # nobody reads, or the terminal is gone
        _drop_output()
    os._exit(code)


def _drop_output() -> None:
    """Nobody reads any more: keep the interpreter's own flush at exit from complaining."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())
