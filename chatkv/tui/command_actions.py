"""What is typed with a ``/`` before it is carried out here; everything else is sent."""

from __future__ import annotations

import os
from pathlib import Path

from textual import on

from chatkv.chat.errors import ChatError
from chatkv.chat.exchange import export_to, in_words, read_chats
from chatkv.chat.presets import Preset, load_presets, save_preset
from chatkv.chat.settings import DEFAULT_WORDS, describe, parameter, value
from chatkv.errors import ChatkvError
from chatkv.paths import config_dir
from chatkv.text import one_line
from chatkv.tui.asking import SEVERAL, AskingApp
from chatkv.tui.chat.commands import BY_NAME, Call, parse, unknown
from chatkv.tui.chat.offers import Choice, Sources
from chatkv.tui.chat.prompt import Prompt
from chatkv.tui.keys.current import hint
from chatkv.tui.sessions.session import Session


class CommandsApp(AskingApp):
    """A command that can't be carried out is one line, and stays in the prompt."""

    async def _begin(self) -> None:
        await super()._begin()
        self.main.prompt.sources = Sources(self._preset_names, lambda: sorted(self.available_themes))

    async def send(self, session: Session, text: str) -> None:
        """Carry out a command; send anything else."""
        call = parse(text)
        if call is None:
            await super().send(session, text)
            return
        if session is not self.book.current:
            self.keep_text(session, text)
            return
        session.sent.append(text)
        self.main.prompt.set_history(session.sent)
        try:
            await self._carry_out(session, call)
        except ChatkvError as error:
            self.report(str(error))
            self.keep_text(session, text)
        self.main.changed()

    async def _carry_out(self, session: Session, call: Call) -> None:
        command = BY_NAME.get(call.name)
        if command is None:
            raise ChatError(unknown(call.name))
        if command.action:
            if call.rest:
                raise ChatError(f"/{command.name} takes nothing behind it")
            await self.run_action(command.action)
            return
        match command.name, call.rest:
            case "system", "":
                self.action_system()
            case "system", text:
                self.set_system(session, text)
            case "set", rest:
                self._set(session, rest)
            case "preset", rest:
                self._preset(session, rest)
            case "rename", "":
                self.action_rename()
            case "rename", name:
                self.book.rename(session, name)
            case "answers", rest if not rest or (rest.isdecimal() and len(rest) < 4):
                await self.answer_times(session, int(rest or SEVERAL))
            case ("pin" | "unpin") as name, "":
                self._pin(session, name == "pin")
            case "file", path if path:
                self._insert(path)
            case "export", rest if " " in rest:
                self._export(session, *rest.split(" ", 1))
            case "import", path if path:
                await self._import(path)
            case "search", wanted:
                self.action_search(wanted)
            case "clear", "":
                self._begin_again(session)
            case "clear", "cache":
                await self.run_action("clear_cache")
            case "theme", "":
                self.action_change_theme()
            case "theme", name:
                self._theme(name)
            case name, _:
                raise ChatError(f"usage: /{name} {command.args}")

    # Settings

    def _set(self, session: Session, rest: str) -> None:
        sampling = dict(session.conversation.sampling)
        if not rest:
            self.say(f"set here: {describe(sampling) or 'nothing, all is as chatkv run was started'}")
            return
        word, _, text = rest.partition(" ")
        if word in DEFAULT_WORDS and not text:
            sampling = {}
        else:
            name, text = parameter(word), text.strip()
            if not text:
                now = getattr(self.desk.sampling(session), name)
                self.say(f"{name} {'random' if now is None else now}")
                return
            if text in DEFAULT_WORDS:
                sampling.pop(name, None)
            else:
                sampling[name] = value(name, text)
        self.book.set_sampling(session, sampling)

    def _preset(self, session: Session, rest: str) -> None:
        folder = config_dir() / "presets"
        conversation = session.conversation
        presets, faults = load_presets(folder)
        for fault in faults[:2]:
            self.report(fault)
        word, _, name = rest.partition(" ")
        if not rest:
            self.say(" · ".join(presets))
        elif word == "save":
            preset = Preset(name.strip(), conversation.system, dict(conversation.sampling))
            self.say(f"saved {save_preset(folder, preset)}")
        elif rest in presets:
            preset = presets[rest]
            if preset.system is not None:
                self.set_system(session, preset.system)
            self.book.set_sampling(session, preset.sampling)
            self.say(f"{preset.name}: {preset.what}")
        else:
            raise ChatError(f"there is no preset {one_line(rest, 40)}; there are {', '.join(presets)}")

    def _preset_names(self) -> list[tuple[str, str]]:
        return [(preset.name, preset.what) for preset in load_presets(config_dir() / "presets")[0].values()]

    def _theme(self, name: str) -> None:
        if name not in self.available_themes:
            raise ChatError(f"there is no theme {one_line(name, 40)}; /theme alone lists them")
        self.theme = name

    # The conversation

    def _pin(self, session: Session, pinned: bool) -> None:
        mirror = self.desk.feed.mirror
        tip = mirror.tip_of(session.key)
        if tip is None:
            raise ChatError("nothing of this session is in the cache yet")
        path = mirror.path(tip)
        if pinned:
            self.desk.pin(tip, True)
            tokens = sum(len(mirror.nodes[node].tokens) for node in path)
            self.say(f"{tokens:,} tokens of this session are evicted last; /unpin lets them go")
            return
        held = [node for node in path if mirror.nodes[node].pinned]
        if not held:
            raise ChatError("nothing of this session is pinned")
        for node in held:
            self.desk.pin(node, False)

    def _begin_again(self, session: Session) -> None:
        if session.running:
            raise ChatError(f"{hint('back')} stops the answer first")
        if session.head is None:
            raise ChatError("there is nothing to clear: the conversation has not begun")
        session.notice = None
        self.book.set_head(session, None)
        self.say(
            f"begun again; what was said is kept: {hint('chat.older_version')} on your next message "
            "goes back to it"
        )

    def _insert(self, path: str) -> None:
        self.main.prompt.insert_file(Choice("", file=_path(path)))

    def _export(self, session: Session, kind: str, path: str) -> None:
        if session.head is None:
            raise ChatError("there is nothing to export yet: send a message first")
        export_to(session.conversation, kind, _path(path))
        self.say(f"wrote {_path(path)}")

    async def _import(self, path: str) -> None:
        imported = read_chats(_path(path))
        await self.go(lambda: self.book.take_in(imported.conversations))
        self.say(f"imported {in_words(imported)}")

    @on(Prompt.Refused)
    def _refused(self, event: Prompt.Refused) -> None:
        event.stop()
        self.report(event.reason)


def _path(typed: str) -> Path:
    """As a shell would read it: quotes off, ``~`` resolved."""
    return Path(os.path.expanduser(typed.strip().strip("\"'")))
