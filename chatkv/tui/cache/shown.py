"""Whether a picture is the one that was drawn last, so that the same again costs nothing."""

from __future__ import annotations

from chatkv.insight.mirror import Mirror


class Shown:
    """Remembers the mirror, the moment and the session that were shown last."""

    def __init__(self) -> None:
        self._mirror: Mirror | None = None
        self._at: tuple[int, int, str | None] = (-1, -1, None)

    def again(self, mirror: Mirror, session: str | None) -> bool:
        """True where this was shown last time; if not, it is remembered as shown now."""
        # A new cache's clock starts over and may reach the same seq, but the structure's version grows on.
        at = (mirror.seq, mirror.structure_version, session)
        if mirror is self._mirror and at == self._at:
            return True
        self._mirror, self._at = mirror, at
        return False
