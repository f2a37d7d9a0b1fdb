"""The figures of the session on the screen."""

from __future__ import annotations

from chatkv.insight.requests import PREEMPTED
from chatkv.tui.cache.status import StatusValues
from chatkv.tui.chat.figures import number, tokens_per_second
from chatkv.tui.desk import Desk
from chatkv.tui.sessions.running import Running
from chatkv.tui.sessions.session import Session


def status_of(desk: Desk) -> StatusValues:
    """While an answer runs, its figures; otherwise those of the last one."""
    session, ready, mirror = desk.book.current, desk.ready, desk.feed.mirror
    waiting = sum(view.state == "waiting" for view in mirror.requests.values())
    message = f"{waiting} waiting" if waiting and session.running and not session.running.token_ids else ""
    if ready is None:
        return StatusValues(message=message)
    used = (mirror.num_blocks - mirror.free) * ready.bytes_per_block
    speed, ttft, prompt, cached, out = _figures(desk, session)
    return StatusValues(
        tokens_per_s=speed,
        ttft_s=ttft,
        context=(prompt + out, ready.max_context),
        hit=(cached, prompt) if prompt else None,
        kv_bytes=used,
        pinned=len(mirror.pinned) or None,
        message=message,
    )


def context_of(desk: Desk) -> tuple[int, int] | None:
    """Tokens of the session on the screen, and how many there may be; None where that is not known."""
    if desk.ready is None:
        return None
    _, _, prompt, _, out = _figures(desk, desk.book.current)
    return (prompt + out, desk.ready.max_context) if prompt else None


def doing_of(desk: Desk, running: Running) -> str:
    """What no tokens come for: its turn has not come, or its prompt is being read; empty while it answers."""
    mirror = desk.feed.mirror
    view = mirror.requests.get(running.request or 0)
    if view is None or view.over:
        return ""
    if view.waits:
        again = "gave way to others" if view.state == PREEMPTED else "waits its turn"
        if view.place is None:
            return again
        return f"{again} · {view.place + 1} of {len(mirror.waiting)} in the queue"
    row = mirror.rows.get(view.id)
    if row is None or not row.written < row.prompt_tokens:
        return ""
    return f"reading the prompt · {row.written:,} of {row.prompt_tokens:,} tokens"


def _figures(desk: Desk, session: Session) -> tuple[float | None, float | None, int, int, int]:
    """tok/s, seconds to the first token, prompt tokens, reused ones of them, tokens of the answer."""
    running = session.running
    if running is not None:
        view = desk.feed.mirror.requests.get(running.request or 0)
        out = len(running.token_ids)
        if view is None:
            return running.tokens_per_second, None, 0, 0, out
        return running.tokens_per_second, view.ttft_s, view.prompt_tokens, view.cached, out
    answer = session.last_answer
    if answer is None:
        return None, None, 0, 0, 0
    out = len(answer.token_ids or ())
    meta = answer.meta
    return (
        tokens_per_second(out, number(meta, "decode_s")),
        number(meta, "ttft_s"),
        int(number(meta, "prompt_tokens") or 0),
        int(number(meta, "cached") or 0),
        out,
    )
