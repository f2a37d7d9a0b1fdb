"""Which theme the app wears: the one asked for, else the one chosen last; its file is followed."""

from __future__ import annotations

import os
from typing import Literal

from textual.app import App
from textual.theme import BUILTIN_THEMES
from textual.widget import Widget
from textual.widgets._toast import Toast

from chatkv.paths import config_dir, packaged
from chatkv.text import one_line
from chatkv.tui.remembered import Remembered
from chatkv.tui.theme_folder import ThemeFolder
from chatkv.tui.themes import DEFAULT_THEME, LIGHT_THEME, TERMINAL_THEME, load_themes, variable_defaults

LOOK_S = 0.5
"""How often the person's folder of themes is looked at. A change is taken at the second look."""


ROWS_OF_ONE = 9
"""Of the screen, for each line that is shown at a time."""


class ThemedApp(App[None]):
    """Has words to the person, too: faults of theme files are told with them."""

    def __init__(self, theme: str | None, remembered: Remembered) -> None:
        """``theme`` None: the one chosen last, or the terminal's own where colours are few, or what goes with
        the terminal's background.
        """
        # Without colours the terminal's own are left alone: Textual would turn each of ours into a grey, and
        # what is the terminal's into black.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.remembered = remembered
        shipped, problems = load_themes([packaged("themes")])
        self._own_themes = ThemeFolder(
            config_dir() / "themes", {*BUILTIN_THEMES, *(theme.name for theme in shipped)}
        )
        own = self._own_themes.take()
        for good in (*shipped, *own.themes):
            self.register_theme(good)
        self.theme_problems = [str(problem) for problem in (*problems, *own.problems)]
        """Told once there is a screen to tell them on."""
        self.goes_by_background = False
        """Nobody has chosen a theme: a dark one or a light one, as the terminal is."""
        self._worn = theme or self._choose()
        self.theme = self._worn

    @property
    def few_colours(self) -> bool:
        """True where a theme's own colours can't be shown as they are meant: 16 colours, or ``NO_COLOR``."""
        return self.no_color or self.console.color_system not in ("256", "truecolor")

    def _choose(self) -> str:
        if self.few_colours:
            return TERMINAL_THEME
        chosen = self.remembered.get("theme", "")
        if not chosen:
            self.goes_by_background = True
            return DEFAULT_THEME
        if chosen not in self.available_themes:
            self.theme_problems.append(f"the theme {one_line(chosen, 40)} is not there any more")
            return DEFAULT_THEME
        return chosen

    def see_background(self, light: bool) -> None:
        """The terminal's background is a light one, or a dark one."""
        if self.goes_by_background:
            self._worn = LIGHT_THEME if light else DEFAULT_THEME
            self.theme = self._worn

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Colours of the cache's states and the like, for themes that don't set them."""
        return variable_defaults(self.current_theme)

    def get_css_variables(self) -> dict[str, str]:
        """Without colours every theme is as the terminal's, which tells otherwise what colours tell."""
        variables = super().get_css_variables()
        terminal = self.available_themes.get(TERMINAL_THEME)
        if self.no_color and terminal is not None:
            variables = {**variable_defaults(terminal), **terminal.to_color_system().generate()}
            self.theme_variables = variables
        return variables

    def watch_theme(self, name: str) -> None:
        """What a person chooses is worn the next time too."""
        if name != self._worn:
            self.goes_by_background = False
            self._worn = name
            self.remembered.set("theme", name)

    def follow_themes(self) -> None:
        """From now on, take what changes in the person's folder."""
        self.set_interval(LOOK_S, self.look_at_themes)

    def look_at_themes(self) -> None:
        """Take what has changed in the person's folder, if anything has."""
        changes = self._own_themes.poll()
        if changes is None:
            return
        for problem in changes.problems:
            self.report(str(problem))
        for name in changes.gone:
            if name == self.theme:
                self.report(f"the theme {name} is gone; its colours stay until another is chosen")
            else:
                self.unregister_theme(name)
        for theme in changes.themes:
            known = theme.name in self.available_themes
            self.register_theme(theme)
            if theme.name == self.theme:
                self.mutate_reactive(App.theme)
            elif not known:
                self.say(f"a new theme: {theme.name}")

    def report(self, line: str, severity: Literal["warning", "error"] = "warning") -> None:
        """One line that matters but stops nothing."""
        self.notify(one_line(line, 400), severity=severity, markup=False, timeout=8)

    def say(self, line: str) -> None:
        """One line of good news."""
        self.notify(one_line(line, 400), markup=False, timeout=5)

    def _refresh_notifications(self) -> None:
        """Only the newest are shown: a pile of them reached down to what is being typed."""
        most = max(2, self.size.height // ROWS_OF_ONE)
        for old in sorted(self._notifications, key=lambda said: said.raised_at)[:-most]:
            self._unnotify(old, refresh=False)
        for toast in self.screen.query(Toast):
            # Textual's own way leaves what holds the toast, and the room that it takes.
            if toast._notification not in self._notifications and isinstance(toast.parent, Widget):
                toast.parent.remove()
        super()._refresh_notifications()
