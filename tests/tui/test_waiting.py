"""What the chat says of an answer while no tokens of it come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from chatkv.scheduler import events as sched
from chatkv.tui.chat.messages import _progress
from chatkv.tui.desk import Desk
from chatkv.tui.sessions.running import Running
from chatkv.tui.status import doing_of
from tests.tui.cache.stories import Story


def test_it_waits_its_turn_reads_so_much_of_its_prompt_and_gives_way() -> None:
    story, running = Story(num_blocks=400), Running(2, "m")
    desk = cast(Desk, SimpleNamespace(feed=SimpleNamespace(mirror=story.mirror)))

    def said() -> str:
        running.doing = doing_of(desk, running)
        return _progress(running)[2:].split(" · esc")[0]

    assert said() == "reading the prompt"
    story.log.emit(sched.RequestQueued, request=1, session="x", prompt_tokens=9, max_tokens=9)
    story.log.emit(sched.RequestQueued, request=2, session="s", prompt_tokens=1400, max_tokens=9)
    story.log.emit(sched.QueueOrdered, policy="fcfs", order=((1, 0, 0), (2, 0, 0)))
    assert said() == "waits its turn · 2 of 2 in the queue"
    story.open(2, "s", 1400)
    story.log.emit(sched.RequestAdmitted, request=2, cached=0, copied=0, waiting=1)
    story.allocate(2, 175)
    story.write(2, 32)
    assert said() == "reading the prompt · 32 of 1,400 tokens"
    story.write(2, 1368)
    running.token_ids = [7, 8]
    assert said() == "2 tokens"
    story.log.emit(sched.RequestPreempted, request=2, reason="the pool is full")
    assert said().startswith("2 tokens · gave way to others")
