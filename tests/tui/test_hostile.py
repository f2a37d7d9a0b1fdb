"""Text that looks like markup, control characters, names that are no names: shown as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.strip import Strip

from chatkv.chat.store import SessionStore
from chatkv.text import BIDI_CONTROLS, one_line, printable
from chatkv.tui.cache.cells import steady
from chatkv.tui.layout import PANES
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
    "z\u0301\u0302\u0303\u0304 a\u200d\u200b\u2060b \u3164\u115f \U000e0041 half \ufffd",
    "\u2066\u202dtxt.exe\u2069 \u0085next\u009b0m",
    "ｗｉｄｅ" * 40,
]


def bidi(text: str) -> bool:
    return any(ord(c) in BIDI_CONTROLS for c in text)


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


async def test_in_every_pane(tmp_path: Path) -> None:
    """As sessions' names, in what tokens say, in what failed: nothing acts, and no row is shifted."""
    bench = Bench(
        tmp_path, script=lambda request: f"{request.prompt[-1].text} end", num_blocks=300, block_size=8
    )
    async with bench.run(size=(200, 50), toasts=True) as pilot:
        app, main = bench.app, bench.app.main
        for number, text in enumerate(HOSTILE):
            if number:
                await bench.pilot.press("ctrl+n")
            app.book.rename(bench.session, text or "-")
            main.prompt.load(text or "-")
            await bench.pilot.press("enter")
            await bench.pilot.pause()
            if number < len(HOSTILE) - 3:
                bench.engine.finish_all()
        app.report(f"went wrong: {' '.join(HOSTILE[:6])}")
        app.report(f"went wrong: {' '.join(HOSTILE[6:])}", "error")
        await bench.settle()
        seen(bench, 200)
        app.clear_notifications()
        for width, height in ((200, 50), (80, 24)):
            await pilot.resize_terminal(width, height)
            for pane in PANES:
                main.go_to(pane)
                if not main.one_pane:
                    main.action_zoom()
                await bench.press("G", "k", "enter")
                main.go_to(pane)
                await bench.settle()
                rows = seen(bench, width)
                if pane != "chat":
                    shown = main.query_one(f"#{pane}").region
                    for row in rows[shown.y : shown.bottom]:
                        inside = row.crop(shown.x, shown.right).text
                        assert steady(inside) == inside, pane


def seen(bench: Bench, width: int) -> list[Strip]:
    """The rows of the screen, which are text and nothing else, and as wide as it is."""
    rows = bench.app.screen._compositor.render_strips()
    assert {row.cell_length for row in rows} == {width}
    assert clean(bench.screen_text)
    assert not bidi(bench.screen_text)
    return rows


async def test_in_names_of_theme_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHATKV_CONFIG", str(tmp_path / "config"))
    folder = tmp_path / "config" / "themes"
    folder.mkdir(parents=True)
    for text in HOSTILE:
        name = text.replace("/", "").replace("\0", "")[:40]
        (folder / f"{name}.toml").write_text('primary = "red"\nname = "a\u202eb"')
        (folder / f"{name} 2.toml").write_text('primary = "red"')
    bench = Bench(tmp_path)
    async with bench.run(size=(200, 50), toasts=True):
        problems = [one_line(problem, 400) for problem in bench.app.theme_problems]
        assert len(problems) > len(HOSTILE)
        assert clean("".join(problems))
        assert not bidi("".join(problems))
        assert bench.said
        assert clean("".join(bench.said))
        assert not bidi("".join(bench.said))
        assert not bidi(bench.screen_text)
        await bench.type("/theme \x1b[1mno\u202e")
        assert clean(bench.screen_text)
        assert not bidi(bench.screen_text)


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


async def test_in_code_tables_lists_and_thinking(tmp_path: Path) -> None:
    """Also where they are cut at the edge, and moved."""
    odd = " ".join(text.replace("\n", " ") for text in HOSTILE if "`" not in text)
    cell = odd.replace("|", "")
    deep = "\n".join("  " * level + f"- {cell[level * 9 : level * 9 + 40]}" for level in range(30))
    answer = (
        f"<think>\n{odd}\n</think>\n\n```py\n{odd}\n你好 = '{odd}'\n```\n\n"
        f"| {cell} | b |\n|---|---|\n| 你好 | {cell} |\n\n"
        f"{'| a ' * 60}|\n{'|---' * 60}|\n{'| 你好 some words ' * 60}|\n\n{deep}\n\n> > > {odd}"
    )
    bench = Bench(tmp_path, script=lambda request: answer, num_blocks=999, max_context=99_999)
    async with bench.run(size=(120, 36)) as pilot:
        await bench.ask("q")
        await bench.press("escape", "t")
        for width, height in ((120, 36), (80, 24)):
            await pilot.resize_terminal(width, height)
            await bench.settle()
            for keys in (("K", "K"), ("l", "J", "l"), ("end", "l")):
                await bench.press(*keys)
                seen(bench, width)
