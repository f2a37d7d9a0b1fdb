"""A cache at one moment, as a file: versioned JSON that says all that the screen showed.

The fields are those of the records in ``snapshot_records.py``; the same as JSON Schema is shipped in
``snapshot.schema.json``. ``version`` grows when a field changes its meaning or goes; a reader ignores
fields it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np

from chatkv.documents import DocumentError, parse_json
from chatkv.errors import ChatkvError
from chatkv.files import MIB, UnreadableError, read_text, write_whole
from chatkv.insight import snapshot_records as records
from chatkv.insight.codec import FieldError, decode, encode
from chatkv.insight.consistency import inconsistency
from chatkv.insight.nodes import BlockState, Node
from chatkv.insight.state import MirrorState
from chatkv.kvcache.events import ROOT, Int32Array

SCHEMA = "chatkv.snapshot"
VERSION = 1
MAX_BYTES = 512 * MIB

Decode = Callable[[Sequence[int]], str]


class SnapshotError(ChatkvError):
    """A snapshot can't be read or written; one line that says why and what to do."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """``schema`` and ``version`` come first in the file, then these fields in this order."""

    model: str
    attention: str
    """Attention backend and device."""
    seq: int
    """The logical clock: how many records the cache and the scheduler had emitted."""
    epoch: int
    """How many requests had been opened."""
    wall_s: float | None
    """When it was taken, seconds since 1970."""
    config: records.Config
    pool: records.Pool
    block_map: tuple[records.Run, ...]
    """What each block looks like, from block 0 on, run-length coded."""
    nodes: tuple[records.NodeRecord, ...]
    ghosts: tuple[records.GhostRecord, ...]
    rows: tuple[records.RowRecord, ...]
    requests: tuple[records.RequestRecord, ...]
    sessions: tuple[records.SessionName, ...]
    totals: records.TotalsRecord

    @classmethod
    def from_mirror(
        cls,
        mirror: MirrorState,
        *,
        model: str = "",
        attention: str = "",
        wall_s: float | None = None,
        sessions: Mapping[str, str] | None = None,
        decode: Decode | None = None,
    ) -> Self:
        """What ``mirror`` shows now. ``sessions``: id → name. ``decode``: token ids → text."""
        config = records.Config(
            mirror.num_blocks, mirror.block_size, mirror.cache, mirror.eviction, mirror.grain, mirror.strict
        )
        return cls(
            model=model,
            attention=attention,
            seq=mirror.seq,
            epoch=mirror.epoch,
            wall_s=wall_s,
            config=config,
            pool=records.Pool(mirror.free, mirror.evictable, mirror.protected),
            block_map=_runs(mirror),
            nodes=tuple(_node(node, decode) for node in _parents_first(mirror)),
            ghosts=_ghosts(mirror, decode),
            rows=_rows(mirror),
            requests=_requests(mirror),
            sessions=tuple(records.SessionName(*item) for item in sorted((sessions or {}).items())),
            totals=records.TotalsRecord(
                **{f.name: getattr(mirror.totals, f.name) for f in fields(records.TotalsRecord)}
            ),
        )

    def to_json(self) -> str:
        """The file's text: ASCII, one line for each top-level field."""
        parts = {"schema": SCHEMA, "version": VERSION, **encode(self)}
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in parts.items())
        return f"{{\n{lines}\n}}\n"

    @classmethod
    def from_json(cls, text: str, where: str = "the snapshot") -> Self:
        """Read ``to_json``'s text. Raises SnapshotError; ``where`` names the text in its message."""
        try:
            data = parse_json(text)
        except DocumentError as error:
            if text.strip() and not text.lstrip().startswith("{"):
                raise SnapshotError(f"{where} is not a snapshot: it is not JSON") from None
            if not text.rstrip().endswith("}"):
                raise SnapshotError(f"{where} ends too early (torn): export it again") from None
            raise SnapshotError(f"{where}: {error}") from None
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise SnapshotError(f'{where} is not a snapshot: it lacks "schema": "{SCHEMA}"')
        version = data.get("version")
        if type(version) is not int or version < 1:
            raise SnapshotError(f"{where}: version must be a whole number from 1 on")
        if version > VERSION:
            raise SnapshotError(
                f"{where} has version {version}, this chatkv reads up to {VERSION}: update chatkv"
            )
        try:
            snapshot = decode(cls, data, "snapshot")
        except FieldError as error:
            raise SnapshotError(f"{where}: {error}") from None
        if (trouble := inconsistency(snapshot)) is not None:
            raise SnapshotError(f"{where} contradicts itself: {trouble}")
        return snapshot

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file. Raises SnapshotError."""
        try:
            text = read_text(path, MAX_BYTES, pipe=True)
        except UnreadableError as error:
            raise SnapshotError(f"{path} {error}") from None
        return cls.from_json(text, str(path))

    def save(self, path: Path) -> None:
        """Write the file as a whole or not at all, for the person's own eyes. Raises SnapshotError."""
        write_snapshot(path, self.to_json())

    def _repr_html_(self) -> str:
        """Return the picture that a notebook shows."""
        from chatkv.insight.svg import render_svg

        return render_svg(self)

    def __rich__(self) -> Any:
        """Return what rich prints."""
        from rich.console import Group
        from rich.text import Text

        from chatkv.insight.render import render_text

        return Group(Text(render_text(self).rstrip(), no_wrap=True, overflow="ellipsis"))


def write_snapshot(path: Path, text: str) -> None:
    """A snapshot in some format, whole or not at all. Raises SnapshotError."""
    try:
        write_whole(path, text, private=True)  # it holds what was said
    except OSError as error:
        raise SnapshotError(f"{path} can't be written: {error.strerror}") from None


def _runs(mirror: MirrorState) -> tuple[records.Run, ...]:
    states = mirror.block_states()
    starts = np.flatnonzero(np.diff(states, prepend=255)) if len(states) else np.zeros(0, np.int64)
    ends = [*starts[1:].tolist(), len(states)]
    return tuple(
        records.Run(BlockState(int(states[start])).name.lower(), end - start)
        for start, end in zip(starts.tolist(), ends, strict=False)
    )


def _parents_first(mirror: MirrorState) -> list[Node]:
    out: list[Node] = []
    stack = mirror.nodes[ROOT].children[::-1]
    while stack:
        node = mirror.nodes[stack.pop()]
        out.append(node)
        stack.extend(node.children[::-1])
    return out


def _text(tokens: Int32Array, decode: Decode | None) -> str:
    return "" if decode is None else decode(tokens.tolist())


def _node(node: Node, decode: Decode | None) -> records.NodeRecord:
    return records.NodeRecord(
        id=node.id,
        parent=node.parent,
        namespace=node.namespace,
        tokens=tuple(node.tokens.tolist()),
        text=_text(node.tokens, decode),
        blocks=tuple(node.blocks.tolist()),
        locks=node.locks,
        hits=node.hits,
        mark=node.mark.value,
        pinned=node.pinned,
        tail=node.is_tail,
        request=node.request,
        sessions=tuple(sorted(node.sessions)),
        created_seq=node.created_seq,
        last_seq=node.last_seq,
        created_epoch=node.created_epoch,
        used_epoch=node.used_epoch,
    )


def _ghosts(mirror: MirrorState, decode: Decode | None) -> tuple[records.GhostRecord, ...]:
    return tuple(
        records.GhostRecord(
            node=ghost.node,
            parent=ghost.parent,
            path=ghost.path,
            tokens=tuple(ghost.tokens.tolist()),
            text=_text(ghost.tokens, decode),
            blocks=tuple(ghost.blocks.tolist()),
            part=ghost.part,
            reason=ghost.reason,
            evicted_seq=ghost.evicted_seq,
            evicted_epoch=ghost.evicted_epoch,
            wall_s=ghost.wall,
            sessions=tuple(sorted(ghost.sessions)),
        )
        for ghost in mirror.ghosts.values()
    )


def _rows(mirror: MirrorState) -> tuple[records.RowRecord, ...]:
    names = [f.name for f in fields(records.RowRecord) if f.name != "blocks"]
    return tuple(
        records.RowRecord(blocks=tuple(row.blocks), **{name: getattr(row, name) for name in names})
        for row in mirror.rows.values()
    )


def _requests(mirror: MirrorState) -> tuple[records.RequestRecord, ...]:
    names = [f.name for f in fields(records.RequestRecord)]
    made: list[dict[str, Any]] = [
        {name: getattr(view, name) for name in names} for view in mirror.requests.values()
    ]
    return tuple(records.RequestRecord(**values) for values in made)
