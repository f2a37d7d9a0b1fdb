"""Plays a film as a browser does, so far as it needs: the rows that are seen at a moment."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, fromstring

from chatkv.tui.recording.rows import CELL, LINE

SVG = "{http://www.w3.org/2000/svg}"


class Player:
    def __init__(self, picture: str) -> None:
        self.root = fromstring(picture)
        self.css = self.root.findtext(f"{SVG}style") or ""
        self.shared = {group.get("id"): group for group in self.root.iter(f"{SVG}g") if group.get("id")}
        lengths = re.findall(r"animation:r\d+ ([\d.]+)s step-end infinite", self.css)
        assert len(set(lengths)) <= 1
        self.seconds = float(lengths[0]) if lengths else 0.0

    def at(self, seconds: float | None = None) -> list[str]:
        """The rows at ``seconds``; None: where nothing is animated."""
        rows: dict[int, str] = {}
        for group in self.root.findall(f"{SVG}g"):
            y = _shift(group)
            inside: Element = group
            place = 0
            if (reel := group.find(f"{SVG}g[@class]")) is not None:
                place = -_shift(reel) if seconds is None else self._place(reel, seconds)
                inside = reel
            for row in inside:
                if _shift(row) == place:
                    rows[y // LINE] = self._text(row)
        return [rows.get(y, "") for y in range(max(rows, default=-1) + 1)]

    def _place(self, reel: Element, seconds: float) -> int:
        name = (reel.get("class") or "").split()[-1]
        frames = re.search(rf"@keyframes {name}\{{(.*)\}}", self.css)
        assert frames
        moves = re.findall(r"([\d.]+)%\{transform:translate\(0,(-?\d+)px\)\}", frames[1])
        assert [float(percent) for percent, _ in moves] == sorted(float(percent) for percent, _ in moves)
        seen = [-int(shift) for percent, shift in moves if float(percent) <= 100 * seconds / self.seconds]
        return seen[-1]

    def _text(self, row: Element) -> str:
        if row.tag == f"{SVG}use":
            row = self.shared[(row.get("href") or "")[1:]]
        line = ""
        for text in row.iter(f"{SVG}text"):
            at = round(float(text.get("x") or 0) / CELL)
            line = line.ljust(at) + (text.text or "")
        return line


def _shift(element: Element) -> int:
    found = re.fullmatch(r"translate\(0 (-?\d+)\)", element.get("transform") or "translate(0 0)")
    assert found
    return int(found[1])
