"""``--install-completion`` and ``--show-completion``, for the shell that asks or the one that is named."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from chatkv.cli.completion import VARIABLE
from chatkv.errors import ChatkvError, UsageError
from chatkv.files import MIB, UnreadableError, read_file, write_whole

INSTALL, SHOW = "--install-completion", "--show-completion"

BASH = """\
_chatkv_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(variable)s=complete_bash $1 ) )
    return 0
}
complete -o default -F _chatkv_completion chatkv
"""
ZSH = """\
#compdef chatkv

_chatkv_completion() {
  eval "$(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" %(variable)s=complete_zsh chatkv)"
}
# zsh runs this file at the first tab, as the completion itself.
if [[ "${funcstack[1]}" == "_chatkv" ]]; then
  _chatkv_completion "$@"
else
  compdef _chatkv_completion chatkv
fi
"""
FISH = (
    "complete --command chatkv --no-files"
    ' --arguments "(env %(variable)s=complete_fish _TYPER_COMPLETE_FISH_ACTION=get-args'
    ' _TYPER_COMPLETE_ARGS=(commandline -cp) chatkv)"'
    ' --condition "env %(variable)s=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args'
    ' _TYPER_COMPLETE_ARGS=(commandline -cp) chatkv"\n'
)
"""The scripts are typer's, but for zsh's: there the first tab of a shell did nothing."""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def carry_out(arguments: Sequence[str]) -> bool:
    """True where the arguments asked for one of the two, which is done then.

    Raises ChatkvError where it can't be.
    """
    option, equals, named = arguments[0].partition("=") if arguments else ("", "", "")
    if option not in (INSTALL, SHOW):
        return False
    rest = [*([named] if equals else []), *arguments[1:]]
    shell = _shell(option, rest)
    if option == SHOW:
        print(SCRIPTS[shell] % {"variable": VARIABLE}, end="")
        return True
    try:
        path = install(shell)
    except OSError as error:
        raise ChatkvError(
            f"can't install it: {error.filename}: {error.strerror}; {SHOW} {shell} prints the script"
        ) from error
    print(f"{shell} completion is in {path}; it works in the next shell that is started")
    return True


def install(shell: str) -> Path:
    """Put the script where ``shell`` finds it; a line is added to its start-up file where it needs one."""
    home = Path.home()
    if shell == "bash":
        path = home / ".bash_completions" / "chatkv.sh"
        start, line = home / ".bashrc", f"source '{path}'"
    elif shell == "zsh":
        path = home / ".zfunc" / "_chatkv"
        start = Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
        line = "fpath+=~/.zfunc; autoload -Uz compinit; compinit"
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        path, start, line = folder / "fish" / "completions" / "chatkv.fish", None, ""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, SCRIPTS[shell] % {"variable": VARIABLE})
    if start is not None:
        _add_line(start, line)
    return path


def _add_line(path: Path, line: str) -> None:
    """At the end of a person's own file, if it is not there; nothing else in it changes."""
    try:
        there = read_file(path, MIB) if os.path.lexists(path) else b""
    except UnreadableError as error:
        raise ChatkvError(f"can't install it: {path} {error}; add this line to it: {line}") from None
    if line.encode() not in there:
        with path.open("ab") as file:
            file.write(b"\n" * (not there.endswith(b"\n") and there != b"") + line.encode() + b"\n")


def _shell(option: str, named: Sequence[str]) -> str:
    known = ", ".join(SCRIPTS)
    if len(named) > 1 or (named and named[0] not in SCRIPTS):
        raise UsageError(f"{option} takes one of {known}, or nothing for this shell; got {' '.join(named)!r}")
    if named:
        return named[0]
    import shellingham  # type: ignore[import-untyped]  # typer's own

    try:
        shell = str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        shell = Path(os.environ.get("SHELL", "")).name
    if shell not in SCRIPTS:
        raise UsageError(f"{option} can't tell which shell this is: name one of {known} behind it")
    return shell
