"""The ``/`` commands: what there is, and how a line is read as one."""

from __future__ import annotations

import re
from typing import NamedTuple


class Command(NamedTuple):
    """``args`` as people read them; ``takes`` says what is offered while they are typed.

    ``action``: the app's action that it is another name for (then it takes nothing); empty: the app
    reads the arguments itself.
    """

    name: str
    args: str
    what: str
    action: str = ""
    takes: str = ""


COMMANDS: tuple[Command, ...] = (
    Command("system", "[TEXT]", "the session's system prompt; alone: edit it"),
    Command(
        "set", "[NAME [VALUE|default]]", "how answers are sampled; alone: as it is now", takes="parameter"
    ),
    Command("preset", "[NAME | save NAME]", "system prompt and sampling under a name", takes="preset"),
    Command("new", "", "an empty session", "new"),
    Command("fork", "", "a session that shares everything up to a message; its cost is shown", "fork"),
    Command("regenerate", "", "answer again; the old answer stays beside it", "regenerate"),
    Command("answers", "[NUMBER]", "several answers at once, which share their prompt's cache"),
    Command("edit", "", "edit the last question, or the selected one", "edit"),
    Command("pin", "", "keep what this session has in the cache: evicted last"),
    Command("unpin", "", "no longer"),
    Command("verify", "", "compute the last answer again without the cache, and compare", "verify"),
    Command("rename", "[NAME]", "name the session"),
    Command("file", "PATH", "insert a text file, as @PATH does", takes="path"),
    Command("copy", "", "the last answer, or the selected message, as Markdown", "copy_answer"),
    Command("export", "md|json FILE", "write the conversation to a file", takes="export"),
    Command("import", "FILE", "sessions from OpenAI-style chat JSON or JSONL", takes="path"),
    Command("sessions", "", "the list of sessions", "sessions"),
    Command("search", "[TEXT]", "search what was said in all sessions"),
    Command("delete", "", "delete the session (asks)", "delete"),
    Command("undo", "", "bring back the session deleted last", "undelete"),
    Command(
        "clear", "[cache]", "begin the conversation again; cache: forget every cached prefix", takes="clear"
    ),
    Command("stop", "", "stop the answers of all sessions", "stop_all"),
    Command("restart-engine", "", "start the engine again after it has stopped", "restart_engine"),
    Command("theme", "[NAME]", "the colours", takes="theme"),
    Command("help", "", "all keys and commands", "help"),
    Command("tour", "", "a short look around", "tour"),
    Command("quit", "", "running answers are kept as far as they came", "quit"),
)

BY_NAME = {command.name: command for command in COMMANDS}

_LINE = re.compile(r"(?:[^\S\n]*\n)*/([A-Za-z][A-Za-z-]*)(?:\s+(.*))?", re.DOTALL)


class Call(NamedTuple):
    """A line that is a command: its name, and the rest."""

    name: str
    rest: str


def parse(text: str) -> Call | None:
    """The command in ``text``; None where it is a text to be sent.

    A command is a slash at the very start of a line and one word of letters; before that line there may be
    blank ones. So ``//``, a path (``/usr/bin``), a lone ``/`` and whatever has a space before its slash are
    text, and sent as they are.
    """
    match = _LINE.fullmatch(text.rstrip())
    return None if match is None else Call(match[1].casefold(), (match[2] or "").strip())


def unknown(name: str) -> str:
    """What to say of a command that is none."""
    near = [command.name for command in COMMANDS if command.name.startswith(name[:2])]
    meant = f"did you mean /{' or /'.join(near[:3])}? " if near else ""
    return f"there is no command /{name}: {meant}/help lists them; a space before the slash sends it as text"
