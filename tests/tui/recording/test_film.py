"""Frames become one SVG that plays them in order, in bounded memory."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

import pytest
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from chatkv.tui.recording import film
from chatkv.tui.recording.film import HOLD_S, LONGEST_S, Film
from chatkv.tui.recording.rows import CELL, Ink, row_svg
from tests.tui.recording.player import SVG, Player
from tests.tui.test_hostile import HOSTILE

INK = Ink(DEFAULT_TERMINAL_THEME, "#dddddd", "#111111")


def row(text: str, style: str = "") -> str:
    return row_svg([Segment(text, Style.parse(style))], INK)


def filmed(*frames: tuple[float, list[str]]) -> Film:
    made = Film("#111111")
    for now, rows in frames:
        made.add(now, max((len(text) for text in rows), default=0), [row(text) for text in rows])
    return made


def test_frames_are_seen_in_their_order() -> None:
    screens = [["one", "same"], ["two", "same"], ["", "same", "more"], ["one", "same"]]
    made = filmed(*((7.0 + i, screen) for i, screen in enumerate(screens)))
    player = Player(made.svg())
    assert player.seconds == pytest.approx(3 + HOLD_S)
    assert [player.at(t) for t in (0, 0.99, 1, 2.5, 3, 4.9)] == [
        screens[0],
        screens[0],
        screens[1],
        screens[2],
        screens[0],
        screens[0],
    ]
    # What doesn't move is not animated; where nothing can be, the end is seen.
    assert made.svg().count("@keyframes") == 2
    assert player.at() == screens[-1]


def test_one_frame_is_a_picture() -> None:
    picture = filmed((0, ["a", "b"])).svg()
    assert Player(picture).at() == ["a", "b"]
    assert "animation" not in picture
    assert "keyframes" not in picture
    assert Player(Film("#000000").svg()).at() == []


def test_what_stays_the_same_is_no_frame() -> None:
    made = filmed((0, ["a"]), (1, ["a"]), (2, ["b"]), (3, ["b"]))
    assert [frame.at for frame in made.frames] == [0, 2]


def test_long_waits_are_cut() -> None:
    made = filmed((0, ["a"]), (1, ["b"]), (3600, ["c"]), (3601, ["d"]))
    assert [frame.at for frame in made.frames] == [0, 1, 1 + LONGEST_S, 2 + LONGEST_S]


def test_a_text_that_scrolls_is_written_once() -> None:
    lines = [f"line number {n}" for n in range(30)]
    made = filmed(*((n / 10, lines[n : n + 10]) for n in range(20)))
    picture = made.svg()
    assert picture.count(">line number 15<") == 1
    player = Player(picture)
    for n in range(20):
        assert player.at(n / 10 + 0.01) == lines[n : n + 10]


def test_a_screen_that_grows_and_shrinks() -> None:
    made = filmed((0, ["abc", "d"]), (1, ["a", "b", "c"]), (2, ["x"]))
    root = fromstring(made.svg())
    assert float(root.get("width") or 0) == pytest.approx(3 * CELL + 20)
    player = Player(made.svg())
    assert [player.at(t) for t in (0, 1, 2)] == [["abc", "d"], ["a", "b", "c"], ["x"]]


def test_memory_is_bounded_and_the_whole_film_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film, "MAX_FRAMES", 50)
    made = filmed(*((n / 10, [f"frame {n}", "status"]) for n in range(1000)))
    assert 20 < len(made.frames) <= 50
    assert made.every > 1
    player = Player(made.svg())
    assert player.at(0)[0].startswith("frame ")
    assert player.at()[0] == "frame 999"
    assert made.seconds == pytest.approx(99.9)
    shown = [int(player.at(second)[0].split()[1]) for second in range(100)]
    assert shown == sorted(shown)
    assert all(abs(number - second * 10) <= made.every * 20 for second, number in enumerate(shown))


def test_rows_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film, "MAX_CHARACTERS", 20_000)
    made = filmed(*((n / 10, [f"{n} " * 50]) for n in range(500)))
    assert len(made.svg()) < 60_000
    assert Player(made.svg()).at()[0].startswith("499 ")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text: str) -> None:
    made = filmed((0, [f"a{text}", "<!--"]), (1, [f"b{text}", "]]>"]))
    picture = made.svg()
    root = fromstring(picture)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "style", "defs", "clipPath", "rect", "g", "use", "text"),
    }
    assert Player(picture).at(1)[0].startswith("b")


def test_a_row_has_its_styles_and_its_cells() -> None:
    segments = [
        Segment("bold", Style.parse("bold red")),
        Segment("  "),
        Segment("on", Style.parse("underline on blue")),
        Segment("中文字", Style.parse("reverse")),
        Segment("é\u0301x"),
        Segment("dim", Style.parse("dim #ffffff on #000000")),
    ]
    texts = list(fromstring(f"<g>{row_svg(segments, INK)}</g>").iter("text"))
    assert [text.text for text in texts] == ["bold", "on", "中", "文", "字", "é\u0301x", "dim"]
    assert [round(float(text.get("x") or 0) / CELL) for text in texts] == [0, 6, 8, 10, 12, 14, 16]
    assert [round(float(text.get("textLength") or 0) / CELL) for text in texts] == [4, 2, 2, 2, 2, 2, 3]
    assert texts[0].get("class") == "b"
    assert texts[1].get("class") == "u"
    assert texts[2].get("fill") == INK.ground
    assert texts[-1].get("fill") == "#7f7f7f"


def test_what_xml_can_t_hold_is_replaced() -> None:
    picture = filmed((0, ["a\x00b\x1bc\ud800d\ufffee"])).svg()
    assert Player(picture).at() == ["a\ufffdb\ufffdc\ufffdd\ufffde"]
