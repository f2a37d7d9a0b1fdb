"""Where chatkv keeps things, and where the files it ships lie.

``CHATKV_DATA``, ``CHATKV_CACHE`` and ``CHATKV_CONFIG`` override the platform's folders.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent


def _folder(variable: str, kind: Literal["data", "cache", "config"]) -> Path:
    override = os.environ.get(variable)
    if override:
        # Unlike Path.expanduser, this leaves a ~ it can't resolve as it is.
        return Path(os.path.expanduser(override)).absolute()
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("chatkv", appauthor=False)
    return {"data": dirs.user_data_path, "cache": dirs.user_cache_path, "config": dirs.user_config_path}[kind]


def data_dir() -> Path:
    """A person's own data: their sessions lie in ``data_dir() / "sessions"``. It need not exist yet."""
    return _folder("CHATKV_DATA", "data")


def cache_dir() -> Path:
    """What can be made again: fetched and converted models. It need not exist yet."""
    return _folder("CHATKV_CACHE", "cache")


def config_dir() -> Path:
    """A person's settings: their themes lie in ``config_dir() / "themes"``. It need not exist yet."""
    return _folder("CHATKV_CONFIG", "config")


def packaged(kind: Literal["themes", "sessions"]) -> Path:
    """The shipped folder ``kind``: inside the package once installed, beside it in a checkout."""
    installed = _PACKAGE / "_data" / kind
    return installed if installed.is_dir() else _PACKAGE.parent / kind
