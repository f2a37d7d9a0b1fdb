"""A context that is nearly full: the gauge says it of the session on the screen, a line of any other."""

from __future__ import annotations

from pathlib import Path

from chatkv.engine.messages import Batch, ContextNear
from tests.tui.helpers import Bench


def near(bench: Bench, session: str) -> None:
    bench.engine.listener(Batch(1.0, (), (), (), near=(ContextNear(1, session, 1700, 2048),)))


async def test_of_a_session_in_the_background_it_is_told_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        bench.app.book.rename(bench.session, "long [one]")
        await bench.ask("one")
        key = bench.session.key
        near(bench, key)
        await bench.settle()
        assert not bench.said, "the gauge says it"
        warning = bench.app.theme_variables["warning"]
        chat = bench.app.main.chat
        chat.show_context((1_900, 2_048))
        await chat.sync()
        assert (chat.has_class("-near"), chat.styles.border_subtitle_color.hex) == (True, warning)
        await bench.press("ctrl+n")
        near(bench, key)
        near(bench, key)
        near(bench, "gone")
        await bench.settle()
        told = "'long [one]' has used 1,700 of 2,048 tokens of its context: "
        told += "ctrl+o forks earlier, ctrl+n begins anew"
        assert bench.said == [told]


async def test_the_gauge_is_of_the_session_that_is_shown(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        chat, first = bench.app.main.chat, bench.session
        of_first = str(chat.border_subtitle)
        await bench.pilot.press("ctrl+n")
        await bench.pilot.pause()
        assert "context" in of_first
        assert not chat.border_subtitle
        bench.app.book.switch(first)
        await bench.app.main.show_session(first)
        assert str(chat.border_subtitle) == of_first


async def test_and_where_another_pane_hides_the_gauge(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run((80, 24)):
        await bench.ask("one")
        bench.app.main.go_to("tree")
        await bench.settle()
        near(bench, bench.session.key)
        await bench.settle()
        assert len(bench.said) == 1


async def test_what_the_engine_can_not_have_any_more_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        bench.engine.listener(Batch(1.0, (), (), (), notes=("some steps go without [b]graphs[/b]",)))
        await bench.settle()
        assert bench.said == ["some steps go without [b]graphs[/b]"]
