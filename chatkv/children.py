"""Python processes of our own: what lies in the folder where somebody works is never run by them.

``python -m`` and ``python -c`` put the current folder first on the path of modules: a ``random.py`` or a
``pip.py`` there would be run. ``-P`` leaves it out; a relative entry of PYTHONPATH means the same folder.
"""

from __future__ import annotations

import os
import site
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parent.parent


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs ``module`` under this interpreter, with ``environment``."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``base`` (this process's own) with a PYTHONPATH that is the same in every folder.

    A checkout that is not installed stays importable.
    """
    env = dict(os.environ if base is None else base)
    named = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(entry)]
    if str(_CHECKOUT) not in (*site.getsitepackages(), site.getusersitepackages(), *named):
        named.append(str(_CHECKOUT))
    env.pop("PYTHONPATH", None)
    return env | ({"PYTHONPATH": os.pathsep.join(named)} if named else {})


@contextmanager
def own_folder() -> Iterator[str]:
    """Give a new empty folder to run in; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="chatkv-", ignore_cleanup_errors=True) as folder:
        yield folder


def absolute(name: str) -> str:
    """Return a model's name as it is, and its path made absolute where it is one: a child runs elsewhere."""
    path = os.path.expanduser(name)
    try:
        return os.path.abspath(path) if name and os.path.exists(path) else name
    except ValueError:  # a NUL in it
        return name
