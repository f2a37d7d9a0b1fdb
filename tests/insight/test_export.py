from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatkv.errors import UsageError
from chatkv.insight import layout
from chatkv.insight.export import export_snapshot, save_snapshot
from chatkv.insight.mirror import Mirror
from chatkv.insight.nodes import BlockState
from chatkv.insight.snapshot import Snapshot
from chatkv.insight.snapshot_records import SessionName
from chatkv.kvcache import events as kv
from chatkv.kvcache.hash_cache import HashCache
from tests.insight.streams import Stream

SVG = "{http://www.w3.org/2000/svg}"


def small() -> Stream:
    stream = Stream(num_blocks=8)
    stream.whole_request(1, 1, [1, 2, 3, 4], [0, 1])
    stream.emit(kv.NodeSplit, node=1, upper=2, at=2)
    stream.evict(1)
    stream.open(2, session="b", prompt=4)
    stream.lock(2, 2)
    stream.emit(kv.PrefixReused, request=2, path=(2,), blocks=[0], tokens=2)
    stream.allocate(2, 4)
    stream.write(2, 1)
    return stream


def take(stream: Stream, text: str = "", name: str = "") -> Snapshot:
    return Snapshot.from_mirror(
        stream.mirror,
        model="m",
        attention="torch/cpu",
        wall_s=0.0,
        sessions={"b": name},
        decode=lambda _: text,
    )


def test_text() -> None:
    snapshot = Snapshot.from_mirror(
        small().mirror,
        model="m",
        wall_s=0.0,
        sessions={"a": "rust", "b": "poem"},
        decode=lambda ids: "".join(chr(96 + i) for i in ids),
    )
    assert export_snapshot(snapshot, "text") == (
        "chatkv · m · seq 13 · 1970-01-01 00:00:00 UTC\n"
        "8 blocks of 2 tokens · radix · lru · grain node · exact to the token\n"
        "6 free · 0 evictable · 2 protected\n"
        "hit rate 22.2% of 9 prompt tokens: 2 reused, 7 computed\n"
        "0 tokens generated · 1 request finished · 0 refused · 0 preempted\n"
        "1 eviction of 1 block\n"
        "+ new  = reused  x evicted  # locked  · idle  . free\n"
        "\n"
        "Radix tree · 1 node\n"
        "root\n"
        "└─= ab    node 2 · 2 tok · 1 blk · locks 1 · hits 1 · rust, poem\n"
        "  └─x cd  node 1 evicted at 8 · 2 tok · 1 blk · rust\n"
        "\n"
        "Blocks 2/8 · 2 tok\n"
        "0 =x..+...\n"
        "\n"
        "Block table\n"
        "request 2 poem: 3 tok, 2 reused, blocks 0 4\n"
    )


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_svg_shows_colour_and_glyph_of_every_block() -> None:
    svg = export_snapshot(take(small(), text="hello"), "svg")
    root = ElementTree.fromstring(svg)
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert "block 0: reused" in titles
    assert "block 1: evicted" in titles
    assert "block 4: new" in titles
    boxes = {}
    for group in root.iter(f"{SVG}g"):
        title, rect, text = group.find(f"{SVG}title"), group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        assert rect is not None
        assert text is not None
        if title is not None:
            boxes[title.text] = (rect.get("stroke"), text.text)
    assert boxes["block 4: new"] == ("#009e73", "+")
    assert boxes["block 0: reused"] == ("#0072b2", "=")
    assert boxes["block 1: evicted"] == ("#d55e00", "x")
    assert len(boxes) == 8
    assert texts(svg).count("hello") == 2
    assert root.get("font-family") == "Fira Code, DejaVu Sans Mono, monospace"
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x", 0)) + float(rect.get("width", 0)) <= width
        assert float(rect.get("y", 0)) + float(rect.get("height", 0)) <= height


HOSTILE = "</text><script>alert(1)</script>&amp; \x1b]52;c;aGk=\x07 \x9b2J \u202eevil ]]> <!-- \ud800"


def test_hostile_text_stays_text() -> None:
    snapshot = take(small(), text=HOSTILE, name=HOSTILE)
    svg, text = export_snapshot(snapshot, "svg"), export_snapshot(snapshot, "text")
    svg.encode()
    root = ElementTree.fromstring(svg)
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "title", "style", "rect", "g", "text", "path"}
    assert any(shown.startswith("</text><script>") for shown in texts(svg))
    for char in "\x1b\x07\x9b\u202e":
        assert char not in svg
        assert char not in text


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=60))
def test_any_text_makes_a_picture_that_opens(anything: str) -> None:
    snapshot = replace(take(small(), anything, anything), model=anything, attention=anything)
    snapshot = replace(snapshot, config=replace(snapshot.config, cache=anything, eviction=anything))
    ElementTree.fromstring(export_snapshot(snapshot, "svg"))
    text = export_snapshot(snapshot, "text")
    assert all(char == "\n" or unicodedata.category(char) not in ("Cc", "Cs") for char in text)


def test_big_trees_and_pools_are_cut_and_say_so() -> None:
    stream = Stream(num_blocks=20_000)
    stream.open(1)
    stream.allocate(1, *range(20_000))
    for node in range(1, 1601):
        stream.store(node, kv.ROOT if node < 801 else node - 1, [node, node], [2 * node], request=1)
    snapshot = take(stream)
    svg, text = export_snapshot(snapshot, "svg"), export_snapshot(snapshot, "text")
    assert "… 1,400 more nodes not shown" in texts(svg)
    assert "… 761 more nodes not shown" in text.splitlines(), "800 at the root, the last one 40 deep"
    assert "⋮ 19968 more blocks, all new" in texts(svg)
    assert max(map(len, text.splitlines())) < 250


def test_a_chequered_map_is_cut() -> None:
    stream = Stream(num_blocks=10_000)
    stream.open(1)
    stream.allocate(1, *range(0, 10_000, 2))
    snapshot = take(stream)
    shown = layout.MAP_COLUMNS * layout.MAP_ROWS
    assert f"… {10_000 - shown:,} more blocks not shown" in export_snapshot(snapshot, "text").splitlines()


def test_a_ghost_hangs_under_what_is_left_of_its_path() -> None:
    stream = Stream(num_blocks=8)
    stream.open(1)
    stream.allocate(1, *range(6))
    for node in (1, 2, 3):
        stream.store(node, node - 1, [node, node], [node - 1], request=1)
    stream.evict(3)
    stream.evict(2)
    rows, left = layout.tree_rows(take(stream), 10, 10)
    assert [(row.state, row.depth, row.above) for row in rows] == [
        (BlockState.NEW, 0, -1),
        (BlockState.EVICTED, 1, 0),
        (BlockState.EVICTED, 2, 1),
    ]
    stream.evict(1)
    stream.open(2)
    snapshot = take(stream)
    lonely = replace(snapshot, ghosts=snapshot.ghosts[:1])
    assert [(row.depth, row.detail[:6]) for row in layout.tree_rows(lonely, 10, 10)[0]] == [(0, "node 3")]
    assert left == 0


def test_a_chain_of_blocks_is_drawn_as_one() -> None:
    mirror = Mirror()
    cache = HashCache(24, 2, log=kv.EventLog(mirror.apply))
    for request, prompt in enumerate(([1, 1, 2, 2, 3, 3, 4], [1, 1, 2, 2, 5, 5, 6, 6, 7]), 1):
        opened = cache.open(request, prompt, session="a")
        assert opened is not None
        assert cache.grow(request, len(prompt))
        cache.commit(request, prompt[opened.cached :])
        cache.close(request, "finished")
    snapshot = Snapshot.from_mirror(mirror, decode=lambda ids: " ".join(map(str, ids)))
    rows, left = layout.tree_rows(snapshot, 10, 2)
    assert [(row.depth, row.chained, row.above) for row in rows] == [
        (0, False, -1),
        (0, True, 0),
        (1, False, 1),
        (1, False, 1),
        (1, True, 3),
    ]
    assert left == 0
    text = export_snapshot(snapshot, "text").splitlines()
    at = text.index("Tree of blocks · 5 blocks")
    assert [line[:6] for line in text[at + 2 : at + 7]] == ["└─= 1 ", "  = 2 ", "  ├─· ", "  └─+ ", "    + "]
    assert "Tree of blocks · 5 blocks" in export_snapshot(snapshot, "svg")


def test_spans_of_blocks() -> None:
    assert layout.spans([4, 9, 10, 11, 31]) == "4 9-11 31"
    assert layout.spans([]) == "none"
    assert layout.spans(range(0, 40, 2), limit=3) == "0 2 4 and 17 more"


def test_json_is_the_file_and_others_are_refused(tmp_path: Path) -> None:
    snapshot = take(small())
    assert export_snapshot(snapshot, "json") == snapshot.to_json()
    with pytest.raises(UsageError, match="unknown format 'png': choose one of json, svg, text"):
        export_snapshot(snapshot, "png")
    save_snapshot(replace(snapshot, sessions=(SessionName("b", "雪"),)), tmp_path / "a.svg", "svg")
    assert (tmp_path / "a.svg").stat().st_mode & 0o777 == 0o600  # it holds what was said
    assert "雪" in (tmp_path / "a.svg").read_text(encoding="utf-8")
