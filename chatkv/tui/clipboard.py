"""The system's clipboard, beside the terminal's own (OSC 52, which not every terminal has)."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress

TIMEOUT_S = 3.0


def tool(env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> tuple[str, ...] | None:
    """The program that takes what is copied on its standard input; None where there is none."""
    wanted: list[tuple[str, ...]] = []
    if platform == "darwin":
        wanted.append(("pbcopy",))
    if env.get("WAYLAND_DISPLAY"):
        wanted.append(("wl-copy",))
    if env.get("DISPLAY"):
        wanted += [("xclip", "-selection", "clipboard"), ("xsel", "--input", "--clipboard")]
    return next((command for command in wanted if shutil.which(command[0], path=env.get("PATH"))), None)


async def copy(text: str, command: tuple[str, ...]) -> None:
    """Hand ``text`` over; a clipboard that does not answer is let go, and no error is one of the chat's."""
    with suppress(OSError):
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd="/",  # some stay to hand the text out, and would keep this folder's disk busy
        )
        try:
            data = text.encode("utf-8", "replace")
            await asyncio.wait_for(process.communicate(data), TIMEOUT_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
