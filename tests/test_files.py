"""Whole or not at all."""

import os
import threading
from pathlib import Path

import pytest

from chatkv.files import write_whole


def test_takes_the_place_of_an_older_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, "one")
    write_whole(path, "zwei ü")
    assert path.read_text("utf-8") == "zwei ü"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_modes(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "open", "x")
        write_whole(tmp_path / "own", b"x", private=True)
    finally:
        os.umask(before)
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o666 & ~umask
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o600


def test_a_text_that_cannot_be_encoded_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    assert path.read_text() == "old"


def test_a_failed_replacement_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_a_long_name(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    write_whole(path, "x")
    assert path.read_text() == "x"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("old")
    (tmp_path / "a").symlink_to("b")
    write_whole(tmp_path / "a", "new")
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "b").read_text() == "new"


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_whole(pipe, "through")
    reader.join(10)
    assert read == [b"through"]
    assert pipe.is_fifo()
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]
