"""Where the tokens of a session's last prompt came from, in a line."""

from __future__ import annotations

from chatkv.insight.mirror import Mirror
from chatkv.insight.reuse import reused
from chatkv.kvcache.events import PromptAccounted


def last_accounted(mirror: Mirror, session: str | None) -> PromptAccounted | None:
    """The account of the newest request of ``session`` that has one."""
    found = [view.accounting for view in mirror.requests.values() if view.session == session]
    return max((a for a in found if a is not None), key=lambda a: a.request, default=None)


def account_line(account: PromptAccounted) -> str:
    """``hit 396 (12 copied) · evicted 22 (at 1840 for request 7)``: what is zero is left out."""
    when = "" if account.evicted_seq is None else f" (at {account.evicted_seq}"
    if when:
        when += ")" if account.evicted_by is None else f" for request {account.evicted_by})"
    where = "" if account.diverged_at is None else f" (at token {account.diverged_at})"
    hit = account.hit + account.copied
    parts = (
        ("evicted", account.evicted, when),
        ("diverged", account.diverged, where),
        ("first seen", account.first_seen, ""),
        ("rounding", account.rounding, ""),
        ("other namespace", account.other_namespace, ""),
        ("reuse off", account.bypassed, ""),
        ("last token", account.last_token, ""),
    )
    told = [f"{name} {count}{more}" for name, count, more in parts if count]
    return " · ".join([f"hit {reused(hit, account.copied)}", *told] if hit else told)
