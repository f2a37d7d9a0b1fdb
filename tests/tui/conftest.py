"""What the app changes in Textual holds for every test of the screen, whichever comes first."""

from __future__ import annotations

from chatkv.tui.cheap_layout import lay_out_once

lay_out_once()
