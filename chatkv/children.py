"""Processes that chatkv starts. None of them runs code that merely lies in somebody's current folder.

Python puts the current folder first on the path for ``-m`` and ``-c``: a ``random.py`` in a downloaded folder
would be run by a child that was started there. So every Python that is started gets ``-P`` or ``-I``, and
every child but the chat itself (whose person means paths from where they are) a working folder of its own.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

# Behind all else on the path: chatkv may lie among other packages, or be a checkout that nobody installed,
# and what it needs may have been found by a PYTHONPATH that the child is not to start with.
_RUN = (
    "import os, runpy, sys; sys.path += sys.argv[1].split(os.pathsep); sys.argv = sys.argv[2:]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
ROOT = Path(__file__).resolve().parents[1]
"""The folder that this very chatkv is imported from."""

_PATHS = (
    "CHATKV_CACHE", "CHATKV_CONFIG", "CHATKV_DATA", "FLASHINFER_WORKSPACE_BASE", "HF_HOME", "HF_HUB_CACHE",
    "HF_TOKEN_PATH", "PIP_CACHE_DIR", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_CONFIG_FILE", "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_LOG", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
    "TMPDIR", "TRANSFORMERS_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
)  # fmt: skip
"""Variables that hold paths (pip's also several, or addresses), meant from where chatkv was started."""


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs the module ``name`` of this very chatkv with this interpreter."""
    found_in = [str(ROOT), *filter(os.path.isabs, sys.path)]
    return [sys.executable, "-P", "-c", _RUN, os.pathsep.join(found_in), name, *arguments]


def pip(*arguments: str) -> list[str]:
    """The command that runs this interpreter's pip, not a ``pip.py`` of the folder or of ``PYTHONPATH``."""
    return [sys.executable, "-I", "-m", "pip", *arguments]


def same_command() -> list[str]:
    """The command that this process was started with, safe to run again from any folder."""
    given = sys.orig_argv[1:]
    options = list(itertools.takewhile(lambda word: word.startswith("-") and word != "-m", given))
    behind = given[len(options) :]
    if behind[:2] == ["-m", "chatkv"]:
        _, *rest = module("chatkv", *behind[2:])
        return [sys.executable, *options, *rest]
    return [sys.executable, "-P", *given]


def environment(**more: str) -> dict[str, str]:
    """This process's environment for a child in another folder: paths are absolute, and relative entries of
    ``PYTHONPATH`` (an empty one is the current folder) are left out.
    """
    made = dict(os.environ)
    for name in _PATHS:
        if value := made.get(name):
            whole = os.path.abspath(os.path.expanduser(value))
            made[name] = _of_pip(value) if name.startswith("PIP_") else whole
    if "PYTHONPATH" in made:
        named = made["PYTHONPATH"].split(os.pathsep)
        made["PYTHONPATH"] = os.pathsep.join(entry for entry in named if os.path.isabs(entry))
    return made | more


def _of_pip(value: str) -> str:
    """One or several paths, from here; addresses and what is no path here stay."""
    if os.path.exists(value):
        return os.path.abspath(value)
    return " ".join(os.path.abspath(part) if os.path.exists(part) else part for part in value.split())
