"""``pip install`` with its progress: what is being done, how far it is, how long it has taken.

The Makefile runs it with the environment's own Python: ``python tools/install.py WHAT …`` takes what ``pip
install`` takes. In a terminal one line changes in place; elsewhere (CI, a file) each stage and each large
download is a line, and what is small is left out. Only Python's own library is there yet.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

EVERY_S = 0.2
LARGE_BYTES = 20e6
"""Smaller downloads are over before anybody has read a line on them."""
PIP = (
    *(sys.executable, "-P", "-m", "pip", "--disable-pip-version-check"),
    *("install", "--progress-bar", "off"),
)
UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
PACKAGE = re.compile(
    r"(?:Collecting |Requirement already satisfied: |Processing (?:.*/)?)([\w.-]+?)(?:-\d.*)?[\s<>=!~;\[(]"
)
DOWNLOAD = re.compile(r"\s*Downloading (\S+?)(?:\.metadata)? \(([\d.]+) (bytes|kB|MB|GB)\)")


class Stages:
    """Where pip is, out of the lines that it prints: its versions have said these for years."""

    def __init__(self, temporary: Path, packages: Path) -> None:
        """``temporary``: where downloads arrive. ``packages``: where what is installed goes."""
        self._temporary, self._packages = temporary, packages
        self._before = 0
        self._file, self._bytes = "", 0.0
        self._found: set[str] = set()
        self._installing = 0
        self._stage = "starting pip"

    def take(self, line: str) -> str | None:
        """Take a line of pip's; what to print where nobody sees the line change, if anything."""
        if match := PACKAGE.match(line):
            self._file = ""
            self._found.add(re.sub(r"[-_.]+", "-", match[1]).lower())
            self._stage = f"looking for packages, {len(self._found)} so far"
        elif (match := DOWNLOAD.match(line)) and ".metadata (" not in line:
            self._file, self._bytes = match[1].rpartition("/")[2], float(match[2]) * UNITS[match[3]]
            self._stage = f"downloading {self._file.partition('-')[0]}"
            if self._bytes >= LARGE_BYTES:
                return f"{self._stage} ({match[2]} {match[3]})"
        elif "Building" in line and " for chatkv" in line:
            return self._next("compiling the kernels")
        elif "Installing build dependencies" in line:
            return self._next("getting what the build needs")
        elif line.startswith("Installing collected packages: "):
            self._installing, self._before = line.count(",") + 1, self._installed()
            return self._next(f"installing {self._installing} packages")
        return None

    def _next(self, stage: str) -> str | None:
        if stage == self._stage:
            return None
        self._file, self._stage = "", stage
        return stage

    def now(self) -> str:
        """The stage and how far it is."""
        if self._file and self._bytes:
            done = min(self._arrived() / self._bytes, 1.0)
            return f"{self._stage}, {done:.0%} of {self._bytes / 1e6:,.0f} MB"
        if self._installing:
            done = min(max(self._installed() - self._before, 0), self._installing)
            return f"installing packages, {done} of {self._installing}"
        return self._stage

    def _arrived(self) -> int:
        """Bytes of the file that is being downloaded."""
        most = 0
        for folder, _, names in os.walk(self._temporary):
            if self._file in names:
                try:
                    most = max(most, os.stat(os.path.join(folder, self._file)).st_size)
                except OSError:
                    continue  # pip moved it just now
        return most

    def _installed(self) -> int:
        return sum(1 for name in os.listdir(self._packages) if name.endswith(".dist-info"))


def main(arguments: list[str]) -> int:
    """Run pip; its exit code. Where it fails, the end of what it said is on stderr."""
    started, shown = time.monotonic(), sys.stdout.isatty()
    with tempfile.TemporaryDirectory(prefix="chatkv-install-") as folder:
        stages = Stages(Path(folder), Path(sysconfig.get_path("purelib")))
        pip = subprocess.Popen(
            [*PIP, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # pip writes what it downloads under TMPDIR while it arrives: its size is the progress.
            env=os.environ | {"TMPDIR": folder, "PYTHONUNBUFFERED": "1", "PIP_NO_COLOR": "1"},
            text=True,
            errors="replace",
        )
        last: deque[str] = deque(maxlen=40)

        def listen() -> None:
            assert pip.stdout is not None
            for line in pip.stdout:
                last.append(line.rstrip())
                told = stages.take(line)
                if told is not None and not shown:
                    print(f"  {told}", flush=True)

        ears = threading.Thread(target=listen, daemon=True)
        ears.start()
        try:
            while ears.is_alive():
                if shown:
                    _draw(f"  {stages.now()} · {_clock(started)}")
                ears.join(EVERY_S)
            code = pip.wait()
        except KeyboardInterrupt:
            code = 130
        finally:
            pip.kill()
            pip.wait()
            if shown:
                _draw("")
    if code == 0:
        print(f"  installed in {_clock(started)}", flush=True)
    else:
        print("\n".join(last), file=sys.stderr, flush=True)
    return code


def _draw(text: str) -> None:
    """Put ``text`` in the place of the line, on a terminal of any width."""
    print(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)


def _clock(started: float) -> str:
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    return f"{minutes}:{seconds:02}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
