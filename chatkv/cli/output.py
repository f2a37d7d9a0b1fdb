"""Tables on stdout. Cells are plain text, never markup."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chatkv.files import is_special, write_whole
from chatkv.text import one_line

_PIPED_WIDTH = 240


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, whole: int = 0) -> None:
    """Print ``rows`` under ``heads``; a head that starts with ``>`` is for a column of numbers.

    The first ``whole`` columns are as wide as they need; others give way in a narrow terminal.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:  # A pipe has no width: don't fold what another program reads.
        console.width = _PIPED_WIDTH
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, head in enumerate(heads):
        table.add_column(
            Text(head.lstrip(">")),
            justify="right" if head.startswith(">") else "left",
            no_wrap=at < whole,
        )
    for row in rows:
        table.add_row(*(Text(one_line(cell, 200)) for cell in row))
    with console.capture() as text:
        console.print(table)
    # Through print, so that a reader that went away is noticed where every command notices it.
    print("\n".join(line.rstrip() for line in text.get().splitlines()))


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr, gone at the end; yields ``advance(label, done, total)`` (total 0: unknown).

    Where stderr is no terminal: one line for each new label.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if not sys.stderr.isatty():
        last = ""

        def line(label: str, done: int, total: int) -> None:
            nonlocal last
            if label != last:
                last = label
                print(f"{label} ...", file=sys.stderr, flush=True)

        yield line
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def advance(label: str, done: int, total: int) -> None:
            bar.update(task, description=label, completed=done, total=total or None)

        yield advance


def check_target(path: Path | None) -> None:
    """Before figures are measured: can they be written to ``path`` (``-``: stdout)? Raises OSError."""
    if path is None or str(path) == "-":
        return
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if is_special(path) and os.access(path, os.W_OK):
        return  # it is written to as it is
    if not os.access(path.parent, os.W_OK | os.X_OK):
        problem = errno.EACCES if path.parent.is_dir() else errno.ENOENT
        raise OSError(problem, os.strerror(problem), str(path.parent))


def write_json(path: Path | None, data: Any) -> bool:
    """Write ``data`` to ``path``, whole or not at all; ``-`` is stdout, None nowhere. Raises OSError.

    True where stdout is left for tables.
    """
    if path is None:
        return True
    text = json.dumps(data, indent=1) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
        return False
    write_whole(path, text)
    return True
