from __future__ import annotations

import json
import os
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from chatkv.errors import ChatkvError
from chatkv.insight.snapshot import Snapshot, SnapshotError
from chatkv.kvcache import events as kv
from chatkv.scheduler import events as sched
from tests.insight.streams import Stream


def full_stream() -> Stream:
    """Something in every list of a snapshot."""
    stream = Stream(num_blocks=12)
    stream.whole_request(1, 1, [1, 2, 3, 4], [0, 1])
    stream.whole_request(2, 2, [7], [2])
    stream.whole_request(3, 3, [8, 8], [3])
    stream.evict(3)
    stream.emit(kv.NodeSplit, node=1, upper=4, at=2)
    stream.emit(sched.RequestQueued, request=5, session="b", prompt_tokens=9, max_tokens=2)
    stream.open(6, session="b", prompt=4)
    stream.lock(4, 6)
    stream.emit(kv.PrefixReused, request=6, path=(4,), blocks=[0], tokens=2)
    stream.allocate(6, 5)
    stream.write(6, 1)
    return stream


def take(stream: Stream) -> Snapshot:
    return Snapshot.from_mirror(
        stream.mirror,
        model="m",
        attention="torch/cpu",
        wall_s=1.5e9,
        sessions={"b": "poem", "a": "rust"},
        decode=lambda ids: "".join(chr(96 + i) for i in ids),
    )


def test_what_it_says() -> None:
    snapshot = take(full_stream())
    assert [(node.id, node.parent, node.text, node.mark, node.blocks) for node in snapshot.nodes] == [
        (4, 0, "ab", "reused", (0,)),
        (1, 4, "cd", "idle", (1,)),
        (2, 0, "g", "idle", (2,)),
    ]
    assert [(run.state, run.count) for run in snapshot.block_map] == [
        ("reused", 1),
        ("idle", 2),
        ("evicted", 1),
        ("free", 1),
        ("new", 1),
        ("free", 6),
    ]
    assert (snapshot.pool.free, snapshot.pool.evictable, snapshot.pool.protected) == (8, 2, 2)
    assert [(ghost.node, ghost.text) for ghost in snapshot.ghosts] == [(3, "hh")]
    assert [(row.request, row.blocks, row.written, row.reused_blocks) for row in snapshot.rows] == [
        (6, (0, 5), 3, 1)
    ]
    assert {request.id: request.state for request in snapshot.requests} == {
        1: "finished",
        2: "finished",
        3: "finished",
        5: "waiting",
        6: "running",
    }
    assert [(item.id, item.name) for item in snapshot.sessions] == [("a", "rust"), ("b", "poem")]
    assert snapshot.totals.evicted_blocks == 1


def test_an_empty_mirror_has_a_snapshot() -> None:
    snapshot = Snapshot.from_mirror(Stream(num_blocks=0).mirror)
    assert snapshot.block_map == ()
    assert Snapshot.from_json(snapshot.to_json()) == snapshot


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    snapshot = take(full_stream())
    hostile = replace(snapshot, model="\ud800\x1b<&>雪", wall_s=None)
    path = tmp_path / "a.json"
    for saved in (snapshot, hostile):
        saved.save(path)
        assert Snapshot.load(path) == saved
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def broken(change: dict[str, Any]) -> str:
    """The file's text with ``{"nodes.0.locks": value}`` set; ``...`` deletes."""
    data = json.loads(take(full_stream()).to_json())
    for dotted, value in change.items():
        *way, last = (int(part) if part.isdigit() else part for part in dotted.split("."))
        at = data
        for part in way:
            at = at[part]
        if value is ...:
            del at[last]
        else:
            at[last] = value
    return json.dumps(data)


# Nothing in it contradicts itself.
TOO_MANY = {
    "config.num_blocks": 10**13,
    "pool": {"free": 10**13, "evictable": 0, "protected": 0},
    "block_map": [{"state": "free", "count": 10**13}],
    "nodes": [],
    "rows": [],
}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "torn"),
        (broken({})[:-20], "torn"),
        (broken({})[:400], "torn"),
        ("hello }", "not JSON"),
        ("[" * 100_000, "not JSON|torn"),
        ("[1]", "is not a snapshot"),
        ("{}", "is not a snapshot"),
        (broken({"schema": "other"}), "is not a snapshot"),
        (broken({"version": 2}), "version 2.*up to 1: update"),
        (broken({"version": "1"}), "version must be"),
        (broken({"version": True}), "version must be"),
        (broken({"seq": ...}), "lacks 'seq'"),
        (broken({"seq": "9"}), "snapshot.seq must be a whole number, got a text"),
        (broken({"seq": True}), "snapshot.seq must be a whole number"),
        (broken({"wall_s": float("nan")}), "NaN is no JSON number"),
        (broken({"nodes": {}}), "snapshot.nodes must be a list, got an object"),
        (broken({"nodes.0": 3}), r"snapshot.nodes\[0\] must be an object"),
        (broken({"nodes.0.tokens.1": 1.5}), r"snapshot.nodes\[0\].tokens\[1\] must be a whole number"),
        (broken({"nodes.0.locks": ...}), r"snapshot.nodes\[0\] lacks 'locks'"),
        (broken({"nodes.0.locks": -1}), "node 4 has -1 locks"),
        (broken({"nodes.0.blocks.0": 12}), "node 4 names block 12 of 12"),
        (broken({"nodes.0.blocks.0": 1}), "node 1 has a block twice"),
        (broken({"nodes.0.parent": 2}), "node 4 comes before its parent 2"),
        (broken({"nodes.1.id": 4}), "node 4 is there twice"),
        (broken({"nodes.0.mark": "odd"}), "mark 'odd'"),
        (broken({"nodes.0.tokens": []}), "0 tokens in 1 blocks"),
        (broken({"pool.free": 9}), "do not sum to 12"),
        (broken({"pool.free": -1}), "negative"),
        (broken({"block_map.0.state": "odd"}), "block_map has 1 blocks 'odd'"),
        (broken({"block_map.0.count": 2}), "block_map does not cover 12 blocks"),
        (broken({"config.block_size": 0}), "blocks of 0 tokens"),
        (broken(TOO_MANY), "10000000000000 blocks are more than the 16777216 that can be shown"),
        (broken({"rows.0.blocks.0": -3}), "row 6 names block -3"),
        (broken({"rows.0.written": 5}), "row 6 has 5 tokens in 2 blocks"),
        (broken({"ghosts.0.path": []}), "ghost of node 3"),
        (broken({"requests.0.state": "odd"}), "request 1 has the state 'odd'"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(SnapshotError, match=message) as caught:
        Snapshot.load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1


def test_unknown_fields_are_ignored() -> None:
    text = broken({"later": 1, "nodes.0.later": [1]})
    assert Snapshot.from_json(text) == take(full_stream())


def test_files_that_are_no_text_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, message in (("binary", "not UTF-8"), ("missing", "no such file"), (".", "is not a file")):
        with pytest.raises(SnapshotError, match=message):
            Snapshot.load(tmp_path / name)


def test_what_can_not_be_written_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = take(full_stream())
    with pytest.raises(ChatkvError, match="can't be written: No such file"):
        snapshot.save(tmp_path / "nowhere" / "a.json")
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(ChatkvError, match="can't be written: Not a directory"):
        snapshot.save(path / "b.json")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SnapshotError, match="No space left on device"):
        snapshot.save(path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "chatkv/insight/snapshot.schema.json").read_text(encoding="utf-8")
)
KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


def complaints(rule: dict[str, Any], value: Any, where: str = "") -> list[str]:
    """What the shipped schema has against ``value``: the keywords it uses, no others."""
    known = {"$schema", "title", "description", "$defs", "$ref", "type", "required", "properties", "items"}
    assert set(rule) <= known | {"const", "enum"}
    if "$ref" in rule:
        return complaints(SCHEMA["$defs"][rule["$ref"].removeprefix("#/$defs/")], value, where)
    if "const" in rule:
        return [] if value == rule["const"] else [f"{where}: not {rule['const']}"]
    names = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    if not any(isinstance(value, KINDS[n]) and (n == "boolean" or type(value) is not bool) for n in names):
        return [f"{where}: {value!r} is not {names}"]
    if "enum" in rule and value not in rule["enum"]:
        return [f"{where}: {value!r} is not one of {rule['enum']}"]
    out = [f"{where}: lacks {key}" for key in rule.get("required", ()) if key not in value]
    for key, below in rule.get("properties", {}).items():
        if key in value:
            out += complaints(below, value[key], f"{where}.{key}")
    if "items" in rule:
        out += [
            line for i, item in enumerate(value) for line in complaints(rule["items"], item, f"{where}[{i}]")
        ]
    return out


def test_the_schema_accepts_what_is_written_and_refuses_what_is_not_read() -> None:
    assert complaints(SCHEMA, json.loads(broken({}))) == []
    for change in ({"seq": "9"}, {"nodes.0.mark": "odd"}, {"rows.0.blocks.0": 1.5}, {"totals.hit": ...}):
        assert complaints(SCHEMA, json.loads(broken(change))), change


def test_the_schema_names_every_field_in_order() -> None:
    from chatkv.insight import snapshot_records

    assert list(SCHEMA["properties"]) == ["schema", "version", *(f.name for f in fields(Snapshot))]
    assert SCHEMA["required"] == list(SCHEMA["properties"])
    for name, rule in SCHEMA["$defs"].items():
        record = getattr(snapshot_records, name)
        assert list(rule["properties"]) == rule["required"] == [f.name for f in fields(record)]
    assert not re.findall("``", json.dumps(SCHEMA))
