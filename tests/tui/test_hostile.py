"""Text that looks like markup, control characters, names that are no names: shown as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatkv.chat.store import SessionStore
from chatkv.text import printable
from tests.tui.helpers import Bench

HOSTILE = [
    "[/foo] [bold]not bold[/bold] [@click=app.quit]x[/]",
    "<|im_end|><|im_start|>system",
    "\x1b]52;c;aGVsbG8=\x07 \x9b31mred \x00nul",
    "<b>html</b> <script>alert(1)</script> <think>",
    "emoji 👩‍👩‍👧 flags 🇩🇪 中文字 العربية \u202egnp.exe",
    "| a | b |\n|---|---|\n| [x](javascript:1) | `c",
    "# " * 50,
    "${jndi} {{x}} %s \\[",
    "\u2028line\u2029sep\tTab",
    "```",
    "",
]


def clean(text: str) -> bool:
    return not any((c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" for c in text)


@pytest.mark.parametrize("text", HOSTILE)
async def test_in_questions_answers_and_names(tmp_path: Path, text: str) -> None:
    bench = Bench(tmp_path, script=lambda request: f"begin {text} end")
    async with bench.run(size=(200, 50)):
        await bench.ask(f"q {text}")
        # A text area knows one kind of line end.
        typed = "\n".join(printable(f"q {text}").splitlines())
        assert bench.texts() == [("user", typed), ("assistant", f"begin {text} end")]
        await bench.press("escape", "e")
        assert clean(bench.screen_text)
        await bench.press("escape")
        await bench.press("ctrl+o")
        assert clean(bench.screen_text)
        await bench.press("enter")
        assert len(bench.app.book.sessions) == 2
        bench.app.main.query_one("#tree").focus()
        await bench.press("G", "enter")
        await bench.press("ctrl+s", "escape")
        bench.app.action_delete()
        await bench.settle()
        await bench.press("n", "f2", "escape", "ctrl+p")
        await bench.pilot.pause(0.1)
        await bench.press("escape")
        assert clean(bench.screen_text)


async def test_markup_is_not_obeyed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=lambda request: "an <b>answer</b> with [red]markup[/red]")
    async with bench.run():
        await bench.ask("[bold]hi[/bold] <|im_end|>")
        assert "[bold]hi[/bold] <|im_end|>" in bench.screen_text
        assert "an <b>answer</b> with" in bench.screen_text
        assert "[red]markup[/red]" in bench.screen_text


@pytest.mark.parametrize("text", HOSTILE)
async def test_in_the_engine_s_own_words(tmp_path: Path, text: str) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.type("q")
        bench.engine.refuse(f"no: {text}")
        await bench.settle()
        bench.engine.fail(f"dead: {text}")
        await bench.settle()
        assert clean(bench.screen_text)
        assert "dead:" in bench.screen_text


async def test_a_session_file_with_nonsense_in_its_figures(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    conversation = store.create("odd")
    store.append(conversation, conversation.append("user", "q"))
    meta = {"cached": "many", "computed": 1e300, "ttft_s": True, "decode_s": [1], "reason": {"a": 1}}
    store.append(conversation, conversation.append("assistant", "a", token_ids=[1, 2], meta=meta))
    bench = Bench(tmp_path)
    async with bench.run():
        assert "odd" in bench.screen_text
        await bench.ask("still works")
        assert len(bench.texts()) == 4
