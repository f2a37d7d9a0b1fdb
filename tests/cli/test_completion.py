"""Completion of values, as a shell asks for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chatkv.chat.store import SessionStore
from chatkv.cli.completion import VARIABLE, models, some_of, themes

ASK = """\
eval "$(chatkv --show-completion bash)"
while read -r line; do
  read -ra COMP_WORDS <<< "$line"
  [[ $line == *. ]] && COMP_WORDS[-1]=""
  COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
  _chatkv_completion chatkv
  echo "${COMPREPLY[@]}"
done
"""
"""Bash itself runs the script that chatkv gives it, over lines of words; a lone dot is an empty word."""


def asked(line: str, folder: Path, *, config: str = "") -> list[str]:
    """What is offered for the last word of ``line``, in one process; its errors go nowhere else."""
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "config.toml").write_text(config)
    words = line.split(" ")
    probe = (
        "import sys, atexit\n"
        "atexit.register(lambda: print(*sorted({'torch', 'transformers', 'numpy'} & set(sys.modules)),"
        " file=sys.stderr))\n"
        "from chatkv.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe],
        env={
            **os.environ,
            "CHATKV_CONFIG": str(folder / "config"),
            "CHATKV_DATA": str(folder / "data"),
            "HF_HUB_CACHE": str(folder / "hub"),
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(len(words) - 1),
            VARIABLE: "complete_bash",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.strip() == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_in_bash(tmp_path: Path) -> None:
    command = tmp_path / "chatkv"
    command.write_text(
        f"#!/bin/sh\nexec '{sys.executable}' -c 'from chatkv.cli import main; main()' \"$@\"\n"
    )
    command.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "CHATKV_CONFIG": str(tmp_path),
        "CHATKV_DATA": str(tmp_path),
    }
    lines = "chatkv co\nchatkv run --policy l\nchatkv run --theme chatkv-d\nchatkv run --eviction .\n"
    done = subprocess.run(
        ["bash", "-c", ASK], input=lines, env=env, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[:3] == ["config", "lpm", "chatkv-dark"]
    assert done.stdout.splitlines()[3].split()[:3] == ["lru", "lfu", "fifo"]


def test_values_of_options_come_from_where_the_options_take_them(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "data" / "sessions")
    rust, poem = store.create("rust help"), store.create("poem")
    (tmp_path / "hub" / "models--org--tiny-llama").mkdir(parents=True)
    assert set(asked("chatkv sessions export ", tmp_path)) == {rust.id, poem.id}
    assert asked(f"chatkv sessions export {rust.id[:-1]}", tmp_path) == [rust.id]
    assert asked("chatkv sessions --sessions /nowhere export ", tmp_path) == []
    assert asked("chatkv run --model ", tmp_path) == ["smollm2-135m", "org/tiny-llama"]
    assert asked("chatkv fetch org", tmp_path) == ["org/tiny-llama"]
    assert asked("chatkv run --model ./", tmp_path) == []


def test_a_faulty_settings_file_does_not_show_while_completing(tmp_path: Path) -> None:
    assert asked("chatkv run --dtype f", tmp_path, config="[runn") == ["fp32", "fp16"]


def test_themes_of_ones_own_and_textuals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path))
    folder = tmp_path / "themes"
    folder.mkdir()
    (folder / "mine.toml").write_text('primary = "red"')
    (folder / "other.toml").write_text('name = "named"')
    (folder / "torn.toml").write_text("[[")
    offered = themes("")
    assert {"mine", "named", "chatkv-dark", "dracula"} <= set(offered)
    assert not {"torn", "other"} & set(offered)
    assert themes("mi") == ["mine"]


def test_lists_go_on_behind_the_comma() -> None:
    offer = some_of(("radix", "hash", "none"))
    assert offer("ra") == ["radix"]
    assert offer("radix,") == ["radix,hash", "radix,none"]
    assert offer("hash,radix,n") == ["hash,radix,none"]
    assert offer("x") == []


def test_no_hub_cache_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "nowhere"))
    assert [name for name, _ in models("")] == ["smollm2-135m"]
