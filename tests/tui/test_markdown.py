"""Markdown laid out in rows."""

from __future__ import annotations

from time import process_time

import pytest
from pygments.lexer import Lexer
from rich.cells import cell_len
from textual.content import Content

from chatkv.tui.chat.fence import Fence
from chatkv.tui.chat.markdown import Document
from chatkv.tui.chat.rows import Laid, stacked
from chatkv.tui.wrapping import break_between_characters

ALL = """\
Text with **bold** and `code`,
and a second line that is long enough to be wrapped at forty cells.

# Heading

- one
- two
  1. first
  2. second is wrapped, because it is longer than there is room

> quoted
>
> > twice

```python
def answer(question): return cache.get(question)
```

| a | bb |
|:--|---:|
| 1 | two words or more, which take several rows |

---

你好世界这是一个没有空格的句子它必须换行因为它比四十个单元格宽得多。
[x]: nowhere
"""


def drawn(laid: Laid, width: int) -> list[str]:
    lines = []
    for row in laid.rows:
        line = "".join(text for text, _ in row.before) + row.text.plain
        line += "".join(text for text, _ in row.after)
        lines.append(line[:width].rstrip())
    return lines


def shown(text: str, width: int = 40) -> list[str]:
    return drawn(stacked(Document(text).blocks, width), width)


@pytest.mark.parametrize("step", [1, 7, 50])
def test_what_came_in_pieces_looks_like_the_whole(step: int) -> None:
    growing = Document()
    for at in range(0, len(ALL), step):
        growing.append(ALL[at : at + step])
    growing.end()
    assert drawn(stacked(growing.blocks, 40), 40) == shown(ALL)


@pytest.mark.parametrize(
    "text",
    [
        "1. one\n\n2. two\n\n3. three\n",  # "2" alone is a paragraph
        "a paragraph\n***bold*** and more",  # "***" alone is a rule
        "a paragraph\n#tag",  # "#" alone is a heading
        "- one\n**two** goes on",  # "*" alone is another list
        "a paragraph\n| a | b |\n|---|---x",  # without the x it is a table
        "one\u2028line\n\n- two\n\nthree",  # a line break to Python, and none to Markdown
    ],
)
def test_what_looks_like_something_else_until_its_line_is_whole(text: str) -> None:
    growing = Document()
    for character in text:
        growing.append(character)
    growing.end()
    assert drawn(stacked(growing.blocks, 40), 40) == shown(text)


def test_code_that_was_moved_stays_so_while_more_comes() -> None:
    growing = Document("before\n```\n" + "x" * 60)
    stacked(growing.blocks, 40)
    assert growing.blocks[1].scroll(6)
    for character in "\nmore\n```\nand then text":
        growing.append(character)
        assert stacked(growing.blocks, 40).rows[2].x == 6


def test_blocks_that_are_over_are_not_made_again() -> None:
    document = Document("one\n\ntwo\n\nthr")
    before = document.blocks[:2]
    document.append("ee\n\nfour")
    assert len(document.blocks) == 4
    assert all(was is now for was, now in zip(before, document.blocks, strict=False))


@pytest.mark.parametrize("width", [4, 13, 40, 200])
def test_rows_fit(width: int) -> None:
    break_between_characters()
    for row in stacked(Document(ALL).blocks, width).rows:
        if row.under != ("fence",) and not row.text.plain.startswith(("│", "┌", "├", "└")):
            assert row.indent + cell_len(row.text.plain) <= max(width, 14)


def test_lists_are_copied_with_their_marks_and_without_breaks() -> None:
    laid = stacked(Document("- one\n- two\n  - a nested one that is wrapped").blocks, 20)
    assert drawn(laid, 20) == ["• one", "• two", "  ▪ a nested one", "    that is wrapped"]
    assert laid.lines == ["• one", "• two", "  ▪ a nested one that is wrapped"]
    for row in laid.rows:
        assert laid.lines[row.line][row.x :].startswith(row.text.plain)


def test_a_table_has_its_columns_where_it_says() -> None:
    assert shown("| a | b | c |\n|---|--:|:-:|\n| 1 | 2 | 3 |\n| long | longer | longest |", 60) == [
        "┌──────┬────────┬─────────┐",
        "│ a    │      b │    c    │",
        "├──────┼────────┼─────────┤",
        "│ 1    │      2 │    3    │",
        "├──────┼────────┼─────────┤",
        "│ long │ longer │ longest │",
        "└──────┴────────┴─────────┘",
    ]
    assert shown("| a | b |\n|---|---|\n| 1 | one two three |", 17)[3:6] == [
        "│ 1 │ one two   │",
        "│   │ three     │",
        "└───┴───────────┘",
    ]


def test_numbers_go_on_from_the_first() -> None:
    assert shown("9. a\n1. b") == ["  9. a", " 10. b"]


def test_a_link_that_is_defined_at_the_end_holds_for_all() -> None:
    document = Document("see [there]\n\nmore\n\n")
    document.append("[there]: https://example.org")
    document.end()
    assert drawn(stacked(document.blocks, 40), 40) == ["see there", "", "more"]


def test_code_moves_sideways_and_no_further_than_it_is_wide() -> None:
    fence = Document("```\n0123456789\nab\n```").blocks[0]
    assert drawn(fence.lay(8), 99) == [" 012345›", " ab"], "it shows which line goes on"
    assert fence.too_wide
    assert fence.scroll(3)
    assert drawn(fence.lay(8), 99) == ["‹345678›", "‹"]
    assert [(row.text.plain, row.x) for row in fence.lay(8).rows] == [("345678", 3), ("", 2)]
    assert fence.scroll(3)
    assert not fence.scroll(3), "its end is seen"
    assert drawn(fence.lay(8), 99) == ["‹456789", "‹"]
    assert fence.lay(8).lines == ["0123456789", "ab"], "all of it is copied"
    assert fence.scroll(-9)
    assert not fence.scroll(-1)
    assert drawn(fence.lay(12), 99) == [" 0123456789", " ab"]
    assert not fence.too_wide


CODE = "".join(
    f'def f{n}(a):\n    """Says.\n\nMore.\n"""\n    return [{n},\n        \'x\ty\']  # why\n\n'
    for n in range(40)
)


@pytest.mark.parametrize("step", [7, 997])
def test_code_that_came_in_pieces_has_the_colours_of_the_whole(step: int) -> None:
    text = f"```python\n{CODE}```"
    growing = Document()
    for at in range(0, len(text), step):
        growing.append(text[at : at + step])
        stacked(growing.blocks, 60)
    now, whole = (stacked(d.blocks, 60).rows for d in (growing, Document(text)))
    assert [row.text.plain for row in now] == [row.text.plain for row in whole]
    assert [row.text.spans for row in now] == [row.text.spans for row in whole]
    assert len({span.style for row in whole for span in row.text.spans}) > 4


def test_only_the_last_part_of_long_code_is_highlighted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = Fence._highlight

    def counted(fence: Fence, code: str, lexer: Lexer | None) -> tuple[Content, bool]:
        read.append(code.count("\n"))
        return real(fence, code, lexer)

    monkeypatch.setattr(Fence, "_highlight", counted)
    growing = Document(f"```python\n{CODE}")
    stacked(growing.blocks, 60)
    read.clear()
    growing.append("x = 1\n")
    stacked(growing.blocks, 60)
    assert sum(read) < 90


def test_a_text_that_is_not_closed_yet_is_not_marked_as_wrong() -> None:
    for rows in (stacked(Document(f"```python\nx = {end}").blocks, 60).rows for end in ("'ab", "$?", "ab")):
        assert not [span for row in rows for span in row.text.spans if "error" in str(span.style)]


def test_code_of_no_language_or_with_endless_lines_is_plain() -> None:
    for text in ("```\nimport os\n```", "```nonsense\nimport os\n```", f"```py\n{'x = 1; ' * 400}\n```"):
        (row,) = stacked(Document(text).blocks, 60).rows
        assert [span.style for span in row.text.spans] == ["$text"]


@pytest.mark.parametrize("step", [999, 30_000])
def test_a_paragraph_that_is_very_long_is_plain_and_all_there(step: int) -> None:
    text = "".join(f"word{n} **b** 你好 " for n in range(2000)) + "\n\nend"
    growing = Document()
    for at in range(0, len(text), step):
        growing.append(text[at : at + step])
        stacked(growing.blocks, 40)
    laid = stacked(growing.blocks, 40)
    assert drawn(laid, 40) == shown(text)
    assert laid.lines == [text.split("\n")[0].strip(), "end"]
    for row in laid.rows:
        assert laid.lines[row.line][row.x :].startswith(row.text.plain.rstrip())
        assert row.text.cell_length <= 40


HOSTILE = {
    "spaces": " " * 50_000 + "a",
    "word in code": "```\n" + "x" * 50_000,
    "brackets": "[" * 50_000,
    "links": "[a](" * 12_000,
    "stars": "*a **b " * 7_000,
    "addresses": "http://example.org/a " * 2_500,
    "columns": "\n".join(("| a " * 60 + "|", "|---" * 60 + "|", *["| some words " * 60 + "|"] * 20)),
    "wide word": "你好" * 25_000,
    "families": "👩\u200d👩\u200d👧" * 6_000,
    "marks": "z\u0301\u0302" * 16_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_takes_seconds_to_read_a_little_more(name: str) -> None:
    """Some of these took half a minute."""
    document = Document(HOSTILE[name])
    stacked(document.blocks, 60)
    start = process_time()
    for _ in range(4):
        document.append(" more")
        laid = stacked(document.blocks, 60)
    assert process_time() - start < 2
    assert all(row.indent + row.text.cell_length + row.outdent <= 60 for row in laid.rows)


def test_half_of_a_wide_character_leaves_a_blank() -> None:
    fence = Document("```\n你好世界ab\n```").blocks[0]
    assert drawn(fence.lay(8), 99) == [" 你好世›"]
    assert fence.scroll(1)
    assert drawn(fence.lay(8), 99) == ["‹ 好世›"]
    assert fence.scroll(1)
    assert [row.x for row in fence.lay(8).rows] == [1]
    # What is drawn onto the character before it stays with that.
    fence = Document("```\nabcde\u0301\u200b❤\ufe0f👩\u200d👩\u200d👧x\n```").blocks[0]
    assert fence.lay(7).rows[0].text.plain == "abcde\u0301\u200b"
    assert fence.scroll(5)
    assert fence.lay(7).rows[0].text.plain == "❤\ufe0f👩\u200d👩\u200d👧x"
    assert not fence.scroll(1)


def test_a_table_of_more_columns_than_there_is_room_for_moves_sideways() -> None:
    cells = [f"column {number}" for number in range(9)]
    lines = [cells, ["---"] * 9, cells]
    table = Document("\n".join(f"| {' | '.join(line)} |" for line in lines)).blocks[0]
    first = drawn(table.lay(30), 99)
    assert first[0] == " ┌────────┬────────┬────────┬›"
    assert first[1] == " │ column │ column │ column │›"
    assert first[2] == " │ 0      │ 1      │ 2      │›"
    assert table.scroll(20)
    assert drawn(table.lay(30), 99)[2] == "‹2      │ 3      │ 4      │ 5›"
    assert table.scroll(999)
    assert drawn(table.lay(30), 99)[2].endswith("│ 8      │")
    assert drawn(table.lay(200), 200)[0].endswith("┐")
    assert not table.too_wide


@pytest.mark.parametrize("width", [20, 47, 100])
@pytest.mark.parametrize("mark", ["- ", "> ", "1. ", "> - "])
def test_what_is_nested_deep_is_all_there_and_has_room(mark: str, width: int) -> None:
    deep = 30
    if mark in ("- ", "1. "):
        text = "\n".join(" " * len(mark) * level + f"{mark}item number {level}" for level in range(deep))
    else:
        text = "\n>\n".join(mark * (level + 1) + f"item number {level}" for level in range(deep))
    text += "\n\nend"
    laid = stacked(Document(text).blocks, width)
    rows = drawn(laid, width)
    said = " ".join(" ".join(row.text.plain for row in laid.rows).split())
    for level in range(deep):
        assert f"item number {level}" in said
    assert rows[-1] == "end"
    assert all(row.indent + row.text.cell_length <= width for row in laid.rows)
    assert len(rows) < deep * 20
    in_one_row = "\n".join([mark * deep + "all in a row", "", "end"])
    laid = stacked(Document(in_one_row).blocks, width)
    assert "all in a row" in " ".join(row.text.plain for row in laid.rows)
    assert all(row.indent + row.text.cell_length <= width for row in laid.rows)


def test_html_is_text() -> None:
    assert shown("<think>a</think>\n\n<b>b</b> &amp;") == ["<think>a</think>", "", "<b>b</b> &"]
