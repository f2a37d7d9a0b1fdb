"""Several answers at once: versions that stream side by side over one prompt."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from chatkv.chat.store import SessionStore
from chatkv.engine.messages import GenerateRequest
from tests.tui.helpers import Bench

WORDS = ["red", "green blue black white", "one two three four five six"]


def different() -> Callable[[GenerateRequest], str]:
    """The first answer is "first"; of those behind it each is another one of ``WORDS``."""
    said = itertools.chain(["first"], itertools.cycle(WORDS))
    return lambda request: next(said)


async def asked(bench: Bench, command: str = "/answers 3") -> None:
    """A question with an answer, then three more of them on their way."""
    await bench.type("/set temperature 0.7")
    await bench.ask("colours?")
    await bench.type(command)


async def test_three_answers_stream_as_versions_and_are_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=different())
    async with bench.run():
        await asked(bench)
        assert [request.n for request in bench.engine.requests] == [1, 3, 3, 3]
        bench.app.main.chat.view.focus()  # type: ignore[union-attr]
        bench.engine.step(1)
        await bench.settle()
        assert "2/4 ← →" in bench.screen_text, "counted as they will be when they are over"
        await bench.press("left")
        assert "2/4 ← →" in bench.screen_text
        assert bench.said[-1].startswith("esc stops the answers first")
        await bench.press("right", "right", "right")
        assert "4/4 ← →" in bench.screen_text
        assert "one" in bench.screen_text
        bench.engine.step(1)
        await bench.settle()
        assert "one two" in bench.screen_text
        await bench.press("left", "left")
        # The first is over; what it said stands there while the others go on.
        assert "red" in bench.screen_text
        assert "done, others still run" in bench.screen_text
        assert "2/4 ← →" in bench.screen_text
        assert [m.text for m in bench.session.conversation.siblings(_last(bench))] == ["first", "red"]
        await bench.press("right")
        bench.engine.finish_all()
        await bench.settle()
        assert not bench.session.running
        assert bench.texts() == [("user", "colours?"), ("assistant", WORDS[1])]
        assert "3/4 ← →" in bench.screen_text
        await bench.press("right")
        assert bench.texts()[-1] == ("assistant", WORDS[2])
        await bench.press("left", "left", "left")
        assert bench.texts()[-1] == ("assistant", "first")
    assert bench.on_disk()[-1][-1] == ("assistant", "first")


def _last(bench: Bench) -> str:
    """Id of any answer to the question."""
    conversation = bench.session.conversation
    return next(m.id for m in conversation.messages.values() if m.role == "assistant")


async def test_they_share_the_prompts_blocks_and_are_forks_in_the_tree(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=different(), block_size=4)
    async with bench.run():
        await asked(bench)
        bench.engine.step(2)
        await bench.settle()
        mirror = bench.app.desk.feed.mirror
        rows = list(mirror.rows.values())
        assert len(rows) > 1
        assert len({row.blocks[0] for row in rows}) == 1, "the prompt's first block is one"
        bench.engine.finish_all()
        await bench.settle()
        leaves = [node for node in mirror.nodes.values() if not node.children]
        assert len(leaves) >= 2, "of an answer of one token nothing but the prompt is kept"


async def test_esc_stops_all_and_what_has_come_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=different())
    async with bench.run():
        await asked(bench)
        bench.engine.step(1)
        await bench.press("escape")
        assert [r.stopping for r in bench.session.answers] == [False, True, True]
        bench.engine.step(1)
        await bench.settle()
        assert bench.session.running is None
        assert bench.session.answers == []
        kept = [m.text for m in bench.session.conversation.messages.values() if m.role == "assistant"]
        assert kept[:2] == ["first", "red"]
        assert len(kept) == 4
        assert bench.texts()[-1] == ("assistant", "red")


async def test_quitting_keeps_what_has_come_of_each(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=different())
    async with bench.run():
        await asked(bench)
        bench.engine.step(2)
        await bench.settle()
        await bench.app.action_quit()
    (kept,), _ = SessionStore(tmp_path / "sessions").load_all()
    said = [m.text for m in kept.messages.values() if m.role == "assistant"]
    assert said == ["first", "red", "green blue", "one two"]
    assert kept.path()[-1].text == "red"


async def test_a_failing_engine_loses_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=different())
    async with bench.run():
        await asked(bench)
        bench.engine.step(1)
        await bench.settle()
        bench.engine.fail("out of memory")
        await bench.settle()
        assert bench.session.running is None
        assert bench.texts()[-1] == ("assistant", "red")
        assert "out of memory" in bench.screen_text


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            "/answers 3",
            "at temperature 0 all answers would be the same: /set temperature 0.7, then /answers 3",
        ),
        ("/answers 17", "1 to 16 answers at once, not 17"),
        ("/answers 0", "1 to 16 answers at once, not 0"),
        ("/answers many", "usage: /answers [NUMBER]"),
    ],
)
async def test_what_makes_no_sense_is_said_and_stays_in_the_prompt(
    tmp_path: Path, typed: str, said: str
) -> None:
    bench = Bench(tmp_path)
    async with bench.run():
        await bench.ask("one")
        await bench.type(typed)
        assert bench.said == [said]
        assert bench.app.main.prompt.text == typed
        assert len(bench.engine.requests) == 1


async def test_before_there_is_a_question_and_by_key(tmp_path: Path) -> None:
    bench = Bench(tmp_path, script=different())
    async with bench.run():
        await bench.type("/set temperature 1")
        await bench.app.run_action("answers")
        await bench.settle()
        assert bench.said[-1] == "there is no question to answer yet"
        await bench.ask("colours?")
        bench.app.main.chat.view.focus()  # type: ignore[union-attr]
        await bench.press("a")
        assert bench.engine.requests[-1].n == 3
