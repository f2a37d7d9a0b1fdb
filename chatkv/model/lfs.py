"""Git LFS: what lies in a repository in place of a large file until that is fetched."""

from __future__ import annotations

from pathlib import Path

from chatkv.model.errors import ModelError

_BEGINS = b"version https://git-lfs.github.com/spec/"


def refuse_pointer(path: Path) -> None:
    """Raise ModelError where the file ``path`` is a pointer; one that can't be read is left to others."""
    if not path.is_file():  # a pipe would be waited for
        return
    try:
        with path.open("rb") as handle:
            begins = handle.read(len(_BEGINS))
    except OSError:
        return
    if begins == _BEGINS:
        raise ModelError(
            f"{path} is a git-lfs pointer, not the file itself: run 'git lfs install' once, then "
            "'git lfs pull' in its folder"
        )
