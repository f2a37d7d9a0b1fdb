"""Where sessions stand in the tree."""

from __future__ import annotations

from chatkv.insight.ends import KEPT, Ends


def asked(ends: Ends, request: int, session: str, node: int) -> None:
    ends.start(request, session)
    ends.reach(request, node)
    ends.close(request, session)


def test_a_session_goes_back_to_where_an_earlier_request_ended_or_what_is_left_of_it() -> None:
    ends = Ends()
    asked(ends, 1, "a", 5)
    asked(ends, 2, "a", 6)
    ends.replace(5, 4)
    twin = ends.copy()
    assert ends.stand("a", 1)
    assert not ends.stand("a", 1)
    assert ends.stand("fork", 2)
    assert ends.sessions == {"a": 4, "fork": 6}
    assert set(ends) == {4, 6}
    assert twin.sessions == {"a": 6}
    assert twin.stand("a", 1)
    assert not ends.stand("a", 3)
    ends.clear()
    assert not ends.stand("a", 2)


def test_a_request_that_was_put_back_and_went_on_ended_where_it_ended_last() -> None:
    ends = Ends()
    asked(ends, 1, "a", 5)
    asked(ends, 1, "a", 7)
    ends.replace(5, 4)
    asked(ends, 2, "a", 8)
    assert ends.stand("a", 1)
    assert ends.sessions == {"a": 7}


def test_no_more_of_them_are_kept_than_anyone_goes_back_to() -> None:
    ends = Ends()
    for request in range(KEPT + 10):
        asked(ends, request, "a", request + 1)
    assert not ends.stand("a", 9)
    assert ends.stand("a", 10)
