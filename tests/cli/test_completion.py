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
from chatkv.cli.outcome import invoke
from chatkv.cli.shells import SCRIPTS

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


def test_each_shell_has_its_script_and_is_told_of_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("ZDOTDIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".zshrc").write_bytes(b"  export NAME=\xe9")
    places = {"bash": ".bash_completions/chatkv.sh", "zsh": ".zfunc/_chatkv"}
    for shell in ("bash", "zsh", "fish"):
        assert invoke(["--show-completion", shell]) == 0
        script = capsys.readouterr().out
        assert f"{VARIABLE}=complete_{shell}" in script
        for _ in range(2):
            assert invoke([f"--install-completion={shell}"]) == 0
        place = tmp_path / places.get(shell, ".config/fish/completions/chatkv.fish")
        assert place.read_text() == script
        assert str(place) in capsys.readouterr().out
        if shutil.which(shell):
            subprocess.run([shell, "-n", str(place)], check=True)
    line = b"fpath+=~/.zfunc; autoload -Uz compinit; compinit\n"
    assert (tmp_path / ".zshrc").read_bytes() == b"  export NAME=\xe9\n" + line
    assert (tmp_path / ".bashrc").read_text() == f"source '{tmp_path}/.bash_completions/chatkv.sh'\n"
    for wrong in (["ksh"], ["zsh", "bash"]):
        assert invoke(["--install-completion", *wrong]) == 2
        assert "takes one of bash, zsh, fish" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh here")
def test_the_first_tab_in_zsh_offers_something(tmp_path: Path) -> None:
    (tmp_path / "chatkv").write_text('#!/bin/sh\necho "print -r -- offered $_TYPER_COMPLETE_ARGS"\n')
    (tmp_path / "chatkv").chmod(0o755)
    (tmp_path / "_chatkv").write_text(SCRIPTS["zsh"] % {"variable": VARIABLE})
    asked = "fpath+=($PWD); words=(chatkv run); CURRENT=2; autoload -Uz _chatkv; _chatkv"
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["zsh", "-f", "-c", asked], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "offered chatkv run\n"


@pytest.mark.parametrize("name", ["a \\$(touch pwned) b", "`touch pwned`", '"\\"$(touch pwned)"\';[x]'])
def test_a_sessions_name_is_never_more_than_words_to_a_shell(tmp_path: Path, name: str) -> None:
    session = SessionStore(tmp_path / "sessions").create(name)
    (tmp_path / "sessions" / "20260101T000000Z-$(touch pwned).jsonl").write_text("")
    env = {**os.environ, "CHATKV_DATA": str(tmp_path), "CHATKV_CONFIG": str(tmp_path)}
    for shell in ("zsh", "fish"):
        asks = {"_TYPER_COMPLETE_ARGS": "chatkv sessions export ", VARIABLE: f"complete_{shell}"}
        more = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        done = subprocess.run(
            [sys.executable, "-m", "chatkv"], env={**env, **asks, **more}, capture_output=True, text=True
        )
        assert session.id in done.stdout
        assert "touch pwned" in done.stdout
        assert not set("\\`$[") & set(done.stdout.removeprefix("_arguments"))
