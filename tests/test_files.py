"""Whole or not at all."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from chatkv.files import UnreadableError, private_folder, read_again, read_file, tidy, write_whole
from chatkv.temporaries import make_part


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


def hostile(tmp_path: Path) -> dict[str, Path]:
    """Names that are no files to read, and the words each is refused with."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "large").write_bytes(b"x" * 11)
    return {
        "is not a file: it is a device": Path("/dev/zero"),
        "a pipe": tmp_path / "fifo",
        "it is a folder": tmp_path / "folder",
        "is a link to nothing": tmp_path / "dangling",
        "is not there: there is no such file": tmp_path / "none",
        "at most 10 are read": tmp_path / "large",
        "can't be read": Path("a\0b"),
        "can't be read: File name too long": Path("x" * 300),
    }


@pytest.mark.parametrize("pipe", [False, True])
def test_what_is_no_file_is_refused_and_nothing_waits(
    tmp_path: Path, pipe: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatkv.files.NO_WRITER_S", 0.05)
    for words, path in hostile(tmp_path).items():
        with pytest.raises(UnreadableError, match=words):
            read_file(path, 10, pipe=pipe)


def test_a_pipe_whose_writer_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatkv.files.SILENT_S", 0.05)
    os.mkfifo(tmp_path / "fifo")
    held = os.open(tmp_path / "fifo", os.O_RDWR)
    for said in (b"", b"half"):
        os.write(held, said)
        with pytest.raises(UnreadableError, match="through which nothing came"):
            read_file(tmp_path / "fifo", 10, pipe=True)
    os.close(held)


def test_a_writer_that_comes_late_is_heard(tmp_path: Path) -> None:
    """It waits in its own open() until the pipe is opened for reading."""
    os.mkfifo(tmp_path / "fifo")
    for said in (b"said", b""):
        writer = threading.Thread(target=(tmp_path / "fifo").write_bytes, args=(said,))
        writer.start()
        with read_again(tmp_path / "fifo", 10) as again:
            assert again.name == "fifo"
            assert [again.read_bytes() for _ in range(2)] == [said] * 2
        writer.join()
        assert not again.exists()
    (tmp_path / "file").write_text("x")
    with read_again(tmp_path / "file", 10) as again:
        assert again == tmp_path / "file"


WRITER = """
import os, sys
from pathlib import Path
from chatkv import files
def killed(*_):
    os.kill(os.getpid(), 9)
files.os.replace = killed
files.write_whole(Path(sys.argv[1]), "half", private=True)
"""


def test_the_part_of_a_killed_write_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "film.svg")]
    assert subprocess.run(command, check=False).returncode == -9
    (part,) = tmp_path.iterdir()
    assert part.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr("chatkv.files._looked_through", set())
    write_whole(tmp_path / "other.svg", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["other.svg"]


def test_nobody_s_own_folder_is_narrowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CHATKV_DATA may name anything: a home, or what everybody may write to."""
    home, everybody = tmp_path / "home", tmp_path / "tmp"
    for folder, mode in ((home, 0o755), (everybody, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
        for name in ("screen.json", "program"):
            (folder / name).touch()
            (folder / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    for folder, mode in ((home, 0o755), (everybody, 0o1777), (tmp_path, tmp_path.stat().st_mode & 0o7777)):
        tidy(folder, "*.json")
        assert folder.stat().st_mode & 0o7777 == mode
    assert (home / "program").stat().st_mode & 0o777 == 0o755
    assert (home / "screen.json").stat().st_mode & 0o777 == 0o700


def test_a_pipe_is_read_once_with_a_limit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for text, limit in (("ten bytes.", 10), ("eleven byte", 10)):
        # Held open for reading, so that the writer need not wait for the reader.
        held = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(tmp_path / "fifo", os.O_WRONLY)
        os.write(writer, text.encode())
        threading.Timer(0.01, os.close, (writer,)).start()
        if len(text) <= limit:
            assert read_file(tmp_path / "fifo", limit, pipe=True) == text.encode()
        else:
            with pytest.raises(UnreadableError, match="more than 10 bytes"):
                read_file(tmp_path / "fifo", limit, pipe=True)
        os.close(held)


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_private_folders_and_tidying(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        private_folder(tmp_path / "a" / "b")
        wide = tmp_path / "wide"
        wide.mkdir(mode=0o755)
        wide.chmod(0o755)
        (wide / "s.jsonl").touch()
        (wide / "s.jsonl").chmod(0o644)
        for name in (".s.jsonl.abcdefgh.part", ".s.jsonl.chatkv-abcdefgh.part", ".mine.part"):
            (wide / name).write_text("torn")
        handle, live = make_part(wide / "live")
        (wide / "link").symlink_to(tmp_path / "other")
        (tmp_path / "other").write_text("not ours")
        (tmp_path / "other").chmod(0o644)
        tidy(wide)
        tidy(tmp_path / "none")
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "wide")] == [0o700] * 3
    assert (wide / "s.jsonl").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o644
    assert {p.name for p in wide.iterdir()} == {Path(live).name, ".mine.part", "link", "s.jsonl"}
    os.close(handle)
    tidy(wide, "s.*")
    assert {p.name for p in wide.iterdir()} == {".mine.part", "link", "s.jsonl"}
    private_folder(wide)
    with pytest.raises(FileExistsError):
        private_folder(wide / "s.jsonl")
