"""Tables on stdout. Cells are plain text, never markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chatkv.text import one_line

_PIPED_WIDTH = 240


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print ``rows`` under ``heads``; a head that starts with ``>`` is for a column of numbers."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:  # A pipe has no width: don't fold what another program reads.
        console.width = _PIPED_WIDTH
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(Text(head.lstrip(">")), justify="right" if head.startswith(">") else "left")
    for row in rows:
        table.add_row(*(Text(one_line(cell, 200)) for cell in row))
    with console.capture() as text:
        console.print(table)
    # Through print, so that a reader that went away is noticed where every command notices it.
    print("\n".join(line.rstrip() for line in text.get().splitlines()))
