"""The chat in a browser: one app process, drawn by textual-serve's page, behind a token.

Nothing here imports Textual, and aiohttp only ``server`` and ``serve`` do.
"""

from __future__ import annotations

import os
import sys

from chatkv.errors import UsageError

DRIVER = "chatkv.tui.web_driver:BrowserDriver"
"""What ``TEXTUAL_DRIVER`` says in the app's process; Textual imports it there."""
EXTRA = "textual-serve>=1.1.3,<1.2"
"""What has to be installed, as in pyproject.toml."""


def talks_to_browser() -> bool:
    """Whether this process was started by ``--web`` (or textual-serve), which it talks to in packets.

    Raises UsageError where it would write them to a terminal.
    """
    if not os.environ.get("TEXTUAL_DRIVER", "").endswith((":BrowserDriver", ":WebDriver")):
        return False
    if any(stream is None or stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise UsageError("TEXTUAL_DRIVER asks for a browser's screen, but this is a terminal: unset it")
    return True
