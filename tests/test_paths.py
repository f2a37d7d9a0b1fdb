"""Where things are kept, and what a wheel holds."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from chatkv import paths

ROOT = Path(__file__).resolve().parent.parent


def test_the_environment_overrides_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable, folder in (
        ("CHATKV_DATA", paths.data_dir),
        ("CHATKV_CACHE", paths.cache_dir),
        ("CHATKV_CONFIG", paths.config_dir),
    ):
        monkeypatch.delenv(variable, raising=False)
        assert folder().name == "chatkv"
        monkeypatch.setenv(variable, "~/mine")
        assert folder() == tmp_path / "mine"
        monkeypatch.setenv(variable, "")
        assert folder().name == "chatkv"


def test_shipped_folders_are_found_in_a_checkout() -> None:
    assert (paths.packaged("themes") / "chatkv-dark.toml").is_file()
    assert list(paths.packaged("sessions").glob("*.jsonl"))


def test_the_wheel_holds_everything_and_finds_it(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    for pattern in ("*.py", "*.tcss", "*.schema.json", "py.typed"):
        for file in (ROOT / "chatkv").rglob(pattern):
            assert str(file.relative_to(ROOT)) in names
    for folder in ("themes", "sessions"):
        for file in (ROOT / folder).iterdir():
            assert f"chatkv/_data/{folder}/{file.name}" in names
    assert not [name for name in names if name.startswith(("tests/", "themes/", "sessions/"))]
    probe = "from chatkv.paths import *; print(packaged('themes')); print(packaged('sessions'))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {probe}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    data = tmp_path / "site" / "chatkv" / "_data"
    assert done.stdout.split() == [str(data / "themes"), str(data / "sessions")]
