"""Keys that come before the sessions have been read are no less safe."""

from pathlib import Path

import pytest

from chatkv.chat.store import SessionStore
from chatkv.engine.messages import Delta
from chatkv.tui.sessions.book import SessionBook


def told(line: str, *rest: str) -> None:
    pytest.fail(line)


@pytest.mark.parametrize("others", [0, 2])
def test_what_was_asked_before_the_sessions_were_read_is_one_session_and_kept(
    tmp_path: Path, others: int
) -> None:
    for number in range(others):
        other = SessionBook(SessionStore(tmp_path), told)
        other.ask(other.current, f"other {number}")
    book = SessionBook(SessionStore(tmp_path), told)
    session = book.current
    book.ask(session, "early")
    running = book.start(session, None)
    book.load()
    assert book.current is session
    assert [s.conversation.path()[0].text for s in book.sessions].count("early") == 1
    assert len(book.sessions) == others + 1
    running.request = 1
    book.add(Delta(1, session.key, "an answer", (7,)))
    book.keep_unfinished()
    saved = "".join(path.read_text() for path in tmp_path.glob("*.jsonl"))
    assert saved.count('"early"') == 1
    assert "an answer" in saved
