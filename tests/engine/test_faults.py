"""Whatever raises in the engine's thread is told: what a command breaks it breaks alone, what ends the thread
ends everybody's waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from chatkv.engine import thread
from chatkv.engine.config import EngineConfig
from chatkv.engine.core import EngineCore
from chatkv.engine.generation import Generation
from chatkv.engine.messages import (
    Batch,
    Failed,
    Finished,
    GenerateRequest,
    Loading,
    Measured,
    Ready,
    Sampling,
    Verified,
)
from tests.engine.rig import Heard

PROMPT = tuple(range(3, 23))


class PanicException(BaseException):
    """What a panic of Rust code comes as: no Exception."""


class UnsayableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


FAULTS = [
    RuntimeError("a fault\nof two lines"),
    MemoryError(),
    RecursionError("too deep"),
    SystemExit(3),
    KeyboardInterrupt(),
    PanicException("index out of bounds"),
    UnsayableError(),
]


def name(fault: object) -> str:
    return type(fault).__name__


def raising(fault: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise fault

    return fail


def asked(session: str = "s", tokens: int = 3) -> GenerateRequest:
    return GenerateRequest(session, PROMPT, Sampling(max_tokens=tokens))


def one_line_of(message: str, fault: BaseException) -> None:
    assert "\n" not in message
    assert type(fault).__name__ in message


def everybody_is_told(engine: thread.Engine, heard: Heard, open: list[int], fault: BaseException) -> None:
    """``Failed`` and an end for each of ``open`` come; what is asked from now on is answered at once."""
    failed = heard.until(lambda m: isinstance(m, Failed))
    one_line_of(failed.message, fault)
    for request in open:
        finished = heard.finished(request)
        assert (finished.reason, finished.message) == ("error", failed.message)
    late = engine.submit(asked())
    assert heard.finished(late).message == failed.message
    engine.measure(7, "s", PROMPT)
    assert Measured(7, 0, 0, failed.message) in heard.all
    engine.verify(3)
    assert failed.message in heard.verified(3).message
    engine.stop(late)
    engine.clear_cache()
    engine.pin(1, True)
    assert engine.decode([]) == ""
    engine._thread.join(60)
    assert not engine.alive
    assert engine.close()
    assert engine._open == {}
    assert engine._commands.qsize() <= 1  # that of close


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("fault", FAULTS, ids=name)
def test_what_ends_the_loading_is_told(
    monkeypatch: pytest.MonkeyPatch, config: EngineConfig, fault: BaseException
) -> None:
    monkeypatch.setattr("chatkv.engine.loading.build", raising(fault))
    heard = Heard()
    engine = thread.Engine(config, heard)
    early = engine.submit(asked())
    engine.measure(1, "s", PROMPT)
    engine.verify(early)
    engine.start()
    everybody_is_told(engine, heard, [early], fault)
    said = heard.all
    assert Measured(1, 0, 0, next(m.message for m in said if isinstance(m, Failed))) in said
    assert any(isinstance(m, Batch) and m.verified and m.verified[0].request == early for m in said)


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("fault", FAULTS, ids=name)
def test_what_ends_the_loop_is_told(
    monkeypatch: pytest.MonkeyPatch, config: EngineConfig, fault: BaseException
) -> None:
    monkeypatch.setattr(EngineCore, "step", raising(fault))
    heard = Heard()
    engine = thread.Engine(config, heard)
    engine.start()
    heard.until(lambda m: isinstance(m, Ready))
    two = [engine.submit(asked("a")), engine.submit(asked("b"))]
    everybody_is_told(engine, heard, two, fault)


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("deaf_to", [Loading, Ready, Batch])
def test_a_listener_that_fails_once_hears_of_the_end(config: EngineConfig, deaf_to: type) -> None:
    heard = Heard()
    fault = PanicException("the listener broke down")
    deaf = [True]

    def listener(said: Any) -> None:
        if isinstance(said, deaf_to) and deaf and deaf.pop():
            raise fault
        heard(said)

    engine = thread.Engine(config, listener)
    early = engine.submit(asked())
    engine.start()
    everybody_is_told(engine, heard, [early], fault)


@pytest.mark.usefixtures("numbers")
def test_a_listener_that_always_fails_ends_the_thread(config: EngineConfig) -> None:
    engine = thread.Engine(config, raising(SystemExit()))
    engine.start()
    engine._thread.join(60)
    assert not engine.alive


def test_a_thread_that_can_not_be_started_is_told(
    monkeypatch: pytest.MonkeyPatch, config: EngineConfig
) -> None:
    fault = RuntimeError("can't start new thread")
    monkeypatch.setattr(threading.Thread, "start", raising(fault))
    heard = Heard()
    engine = thread.Engine(config, heard)
    early = engine.submit(asked())
    engine.start()
    monkeypatch.undo()
    assert "can't start new thread" in heard.until(lambda m: isinstance(m, Failed)).message
    assert heard.finished(early).reason == "error"
    assert engine.close()


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("fault", FAULTS, ids=name)
def test_a_bad_command_fails_alone(
    monkeypatch: pytest.MonkeyPatch, config: EngineConfig, fault: BaseException
) -> None:
    heard = Heard()
    engine = thread.Engine(config, heard)
    engine.start()
    going_on = engine.submit(asked("long", 200))
    heard.until(lambda m: isinstance(m, Batch) and bool(m.deltas))

    def broken(command: str) -> None:
        monkeypatch.setattr(EngineCore, command, raising(fault))

    def note(word: str) -> None:
        batch = heard.until(lambda m: isinstance(m, Batch) and bool(m.notes))
        assert word in batch.notes[0]
        one_line_of(batch.notes[0], fault)

    broken("add")
    several = engine.submit(GenerateRequest("s", PROMPT, n=3))
    for request in range(several, several + 3):
        finished = heard.finished(request)
        assert finished.reason == "error"
        one_line_of(finished.message, fault)
    broken("verify")
    engine.verify(9)
    one_line_of(heard.verified(9).message, fault)
    monkeypatch.setattr("chatkv.engine.measure.measure", raising(fault))
    engine.measure(4, "s", PROMPT)
    measured = heard.until(lambda m: isinstance(m, Measured))
    assert measured.ticket == 4
    one_line_of(measured.problem, fault)
    broken("clear_cache")
    engine.clear_cache()
    note("cleared")
    broken("pin")
    engine.pin(1, True)
    note("pinned")
    broken("stop")
    engine.stop(going_on)
    note(f"request {going_on} goes on")
    monkeypatch.undo()
    after = engine.submit(asked("after"))
    assert heard.finished(after).reason == "length"
    engine.stop(going_on)
    assert heard.finished(going_on).reason == "aborted"
    assert not any(isinstance(m, Failed) for m in heard.all)
    assert engine.close(60)


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("part", ["draw", "push", "flush", "kept_ids", "__init__"])
def test_an_answer_that_can_not_be_told_ends_alone(
    monkeypatch: pytest.MonkeyPatch, config: EngineConfig, part: str
) -> None:
    heard = Heard()
    engine = thread.Engine(config, heard)
    engine.start()
    heard.until(lambda m: isinstance(m, Ready))
    usual = getattr(Generation, part)

    def fail(generation: Generation, *args: Any, **kwargs: Any) -> Any:
        request = args[0] if part == "__init__" else generation.request
        if request.session == "bad":
            raise ValueError("no text")
        return usual(generation, *args, **kwargs)

    if part == "kept_ids":
        usual = usual.fget
        monkeypatch.setattr(Generation, part, property(fail))
    else:
        monkeypatch.setattr(Generation, part, fail)
    bad, good = engine.submit(asked("bad")), engine.submit(asked("good"))
    ended: list[Finished] = []
    while len(ended) < 2:
        ended += heard.until(lambda m: isinstance(m, Batch) and bool(m.finished)).finished
    by_id = {finished.request: finished for finished in ended}
    assert (by_id[bad].reason, by_id[good].reason) == ("error", "length")
    assert "no text" in by_id[bad].message
    again = engine.submit(asked("good"))
    assert heard.finished(again).reason == "length"
    assert engine.close(60)


@pytest.mark.usefixtures("numbers")
def test_verifying_that_breaks_down_is_told(monkeypatch: pytest.MonkeyPatch, config: EngineConfig) -> None:
    heard = Heard()
    engine = thread.Engine(config, heard)
    engine.start()
    request = engine.submit(asked())
    heard.finished(request)
    monkeypatch.setattr("chatkv.engine.verifier.Verification", raising(MemoryError("no room")))
    engine.verify(request)
    assert "MemoryError: no room" in heard.verified(request).message
    assert heard.finished(engine.submit(asked())).reason == "length"
    assert engine.close(60)


def test_what_is_ordered_while_the_engine_dies_is_answered(config: EngineConfig) -> None:
    """From many threads at once: nobody's order is lost between the queue's end and the failure."""
    answered: dict[int, int] = {}
    heard = threading.Event()

    def listener(said: Any) -> None:
        if isinstance(said, Measured):
            answered[said.ticket] = answered.get(said.ticket, 0) + 1
        elif isinstance(said, Failed):
            heard.set()

    engine = thread.Engine(config, listener)
    go = threading.Event()

    def ask(first: int) -> None:
        go.wait()
        for ticket in range(first, first + 300):
            engine.measure(ticket, "s", PROMPT)

    askers = [threading.Thread(target=ask, args=(n * 300,)) for n in range(4)]
    for asker in askers:
        asker.start()
    go.set()
    time.sleep(0.0005)
    engine._fail("gone")
    for asker in askers:
        asker.join()
    assert heard.is_set()
    assert answered == dict.fromkeys(range(1200), 1)


def test_verified_says_what_it_is_of() -> None:
    from chatkv.engine.messages import unverified

    assert unverified(3, "s", "why") == Verified(
        3, "s", 0, 0, 0.0, 0, None, 0.0, "request 3 can't be verified: why"
    )
