"""The library's door: ``from chatkv import LLM``."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rich.console

import chatkv
from chatkv import LLM, Mirror, Output, SamplingParams, Snapshot, Turn
from chatkv.engine import loading
from chatkv.engine.messages import Finished
from chatkv.insight.codec import encode
from chatkv.kvcache.events import NodeStored
from tests.engine.conftest import Tiny, tiny
from tests.engine.rig import NumberCodec, expected

PROMPT = list(range(3, 23))
QUESTION = [{"role": "user", "content": "Name three colours."}]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return tiny("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def llm(model: Tiny) -> Iterator[LLM]:
    """A tiny random model whose text is numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading.Codec, "load", lambda folder: NumberCodec())
        patch.setattr(loading, "resolve", lambda name, progress: Path(name))
        llm = LLM(str(model.folder), num_blocks=64, block_size=4, dtype="fp32", threads=1)
    with llm:
        yield llm


@pytest.fixture(autouse=True)
def empty(request: pytest.FixtureRequest) -> None:
    if "llm" in request.fixturenames:
        request.getfixturevalue("llm").clear_cache()


def greedy(tokens: int, **more: Any) -> SamplingParams:
    return SamplingParams(max_tokens=tokens, **more)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, chatkv; assert not {'torch', 'textual', 'numpy', 'rich'} & set(sys.modules);"
        "[getattr(chatkv, name) for name in chatkv.__all__];"
        "print(sorted({'torch', 'textual', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_every_exported_name_is_there_and_no_other() -> None:
    assert {name for name in chatkv.__all__ if not hasattr(chatkv, name)} == set()
    assert set(chatkv.__all__) <= set(dir(chatkv))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = chatkv.nothing


def test_token_ids_equal_transformers_and_are_reused(llm: LLM, model: Tiny) -> None:
    first = llm.generate(PROMPT, greedy(6))
    again = llm.generate(np.array(PROMPT), greedy(6))
    assert list(first.token_ids) == list(again.token_ids) == expected(model.reference, PROMPT, 6)
    assert (first.prompt_tokens, first.reused, first.computed) == (20, 0, 20)
    assert (again.reused, again.copied, again.computed) == (19, 3, 1)
    assert (first.finish_reason, first.ok, first.error) == ("length", True, "")
    assert first.ttft_s is not None and first.ttft_s > 0  # noqa: PT018


def test_many_prompts_are_answered_in_their_order_in_one_batch(llm: LLM, model: Tiny) -> None:
    prompts = [PROMPT, [5, 6, 7], PROMPT[:9]]
    outputs = llm.generate(prompts, [greedy(n) for n in (3, 9, 5)])
    for prompt, tokens, output in zip(prompts, (3, 9, 5), outputs, strict=True):
        assert list(output.token_ids) == expected(model.reference, prompt, tokens)
    assert llm.generate([]) == []
    with pytest.raises(ValueError, match="3 prompts need as many"):
        llm.generate(prompts, [greedy(3)])


def test_a_chat_goes_on_with_the_sampled_ids(llm: LLM) -> None:
    messages: list[Any] = [{"role": "user", "content": "3 4 5 6 7 8 9"}]
    first = llm.chat(messages, greedy(8))
    messages += [first.turn, Turn("user", "10 11")]
    assert llm.lookup(messages).reused == 14
    second = llm.chat(messages, greedy(4))
    assert (second.prompt_tokens, second.reused) == (17, 14)


def test_a_refused_prompt_ends_alone(llm: LLM) -> None:
    good, bad, none = llm.generate([PROMPT, [3, 10**6], "no number"], greedy(2))
    assert good.ok
    assert (bad.finish_reason, bad.ok) == ("error", False)
    assert "token id 1000000" in bad.error
    assert "could not be tokenised" in none.error


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (5, "got int"),
        ([{"role": "tool", "content": "x"}], "role must be"),
        ([{"role": "user", "content": 5}], "content must be text"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "only text parts"),
        ([3, None], "got a list with"),
        ([True], "got a list with"),
    ],
)
def test_what_is_no_prompt_is_said_before_it_is_asked(llm: LLM, prompt: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        llm.generate(prompt)


def test_a_stream_is_the_answer_bit_by_bit(llm: LLM, model: Tiny) -> None:
    stream = llm.stream(PROMPT, greedy(7))
    with pytest.raises(RuntimeError, match="not complete"):
        _ = stream.output
    deltas = list(stream)
    assert [id for delta in deltas for id in delta.token_ids] == expected(model.reference, PROMPT, 7)
    assert "".join(delta.text for delta in deltas) == stream.output.text
    assert list(stream) == []


def test_leaving_a_stream_stops_its_request(llm: LLM) -> None:
    ended: list[Finished] = []
    real = llm._hand_on
    try:
        llm._hand_on = lambda said: (ended.append(said) if isinstance(said, Finished) else None, real(said))  # type: ignore[method-assign,assignment]
        for leave in (lambda s: s.close(), lambda s: s.__exit__(), lambda s: s.__del__()):
            stream = llm.stream(PROMPT, greedy(200))
            next(stream)
            leave(stream)
            for _ in stream:
                pass
            assert stream.output.finish_reason == "aborted"
    finally:
        del llm._hand_on  # type: ignore[method-assign]
    assert [finished.reason for finished in ended] == ["aborted"] * 3


def test_several_answers_are_awaited_in_one_loop(llm: LLM, model: Tiny) -> None:
    async def one(prompt: list[int]) -> Output:
        async with llm.stream(prompt, greedy(5)) as stream:
            async for _ in stream:
                pass
        return stream.output

    async def all_of_them() -> list[Output]:
        return await asyncio.gather(*(one(PROMPT[i:]) for i in range(4)))

    for i, output in enumerate(asyncio.run(all_of_them())):
        assert list(output.token_ids) == expected(model.reference, PROMPT[i:], 5)


def test_threads_may_share_one_engine(llm: LLM, model: Tiny) -> None:
    answers: dict[int, Output] = {}
    threads = [
        threading.Thread(target=lambda i=i: answers.update({i: llm.generate(PROMPT[i:], greedy(5))}))
        for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, output in answers.items():
        assert list(output.token_ids) == expected(model.reference, PROMPT[i:], 5)
    assert len(answers) == 6


def test_log_probabilities_come_where_asked_for(llm: LLM) -> None:
    output = llm.generate(PROMPT, greedy(3, logprobs=2))
    assert [lp.token_id for lp in output.logprobs] == list(output.token_ids)
    assert all(lp.rank == 1 and len(lp.top) == 2 for lp in output.logprobs)


def test_events_are_heard_until_the_end_is_asked_for(llm: LLM, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []
    end = llm.events.subscribe(heard.append)
    llm.events.subscribe(lambda event: 1 / 0)
    llm.generate(PROMPT, greedy(2))
    assert [event for event in heard if isinstance(event, NodeStored)]
    assert "ZeroDivisionError" in caplog.text
    end()
    count = len(heard)
    llm.generate(PROMPT[1:], greedy(2))
    assert len(heard) == count


def test_the_mirror_and_the_snapshot_show_what_the_cache_holds(llm: LLM, tmp_path: Path) -> None:
    llm.generate(PROMPT, greedy(4), session="one")
    llm.generate([*PROMPT[:8], 50, 51, 52, 53], greedy(4), session="two")
    mirror = llm.mirror
    assert isinstance(mirror, Mirror)
    assert any({"one", "two"} <= node.sessions for node in mirror.nodes.values())
    snapshot = llm.snapshot()
    snapshot.save(tmp_path / "now.json")
    assert encode(Snapshot.load(tmp_path / "now.json")) == encode(snapshot)
    assert "3 4 5" in llm._repr_html_()
    assert llm._repr_html_().startswith("<svg")
    console = rich.console.Console(width=60, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(llm)
    assert max(map(len, console.export_text().splitlines())) <= 60


def test_what_nobody_looks_at_does_not_pile_up(llm: LLM) -> None:
    for _ in range(40):
        for _ in llm.stream(PROMPT, greedy(3)):
            pass
    assert len(llm._unfolded) < 40
    assert llm.mirror.check() == []
    assert llm._inboxes == {}
    assert llm._early == {}


@pytest.mark.parametrize("fault", [ValueError(), SystemExit()])
def test_a_listener_that_raises_is_dropped(llm: LLM, fault: BaseException) -> None:
    def listener(event: object) -> None:
        raise fault

    llm.events.subscribe(listener)
    assert llm.generate(PROMPT, greedy(2)).ok
    assert llm.generate(PROMPT, greedy(2)).ok


def test_an_engine_that_died_answers_everybody(model: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading.Codec, "load", lambda folder: NumberCodec())
    monkeypatch.setattr(loading, "resolve", lambda name, progress: Path(name))
    with LLM(str(model.folder), num_blocks=64, block_size=4, dtype="fp32", threads=1) as llm:

        def die() -> None:
            raise SystemExit(3)

        monkeypatch.setattr("chatkv.engine.core.EngineCore.step", lambda core: die())
        outputs = llm.generate([PROMPT, PROMPT], greedy(3))
        assert [output.error for output in outputs] == ["the engine stopped: SystemExit: 3"] * 2
        assert llm.lookup(PROMPT).problem == "the engine stopped: SystemExit: 3"


def test_a_closed_one_says_so(model: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading.Codec, "load", lambda folder: NumberCodec())
    monkeypatch.setattr(loading, "resolve", lambda name, progress: Path(name))
    with LLM(str(model.folder), num_blocks=64, block_size=4, dtype="fp32") as llm:
        stream = llm.stream(PROMPT, greedy(200))
        next(stream)
    for _ in stream:
        pass
    assert stream.output.error == "the engine was closed"
    with pytest.raises(chatkv.ChatkvError, match="closed"):
        llm.generate(PROMPT)
    llm.close()


def test_what_can_not_be_loaded_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(chatkv.ChatkvError, match=r"config\.json"):
        LLM(str(tmp_path))
    with pytest.raises(TypeError, match="no option 'blocks'"):
        LLM(blocks=5)
    with pytest.raises(chatkv.ChatkvError, match="--block-size must be"):
        LLM(block_size=0)


@pytest.mark.model
def test_the_real_model_goes_on_with_a_text(smollm2_folder: Path) -> None:
    with LLM(num_blocks=64, threads=1, dtype="fp32") as llm:
        first, second = llm.generate(["The capital of France is", "The capital of France is"], greedy(4))
        assert first.text.startswith(" Paris")
        assert second.text == first.text
        answer = llm.chat(QUESTION, greedy(12))
        assert answer.finish_reason in ("stop", "length")
        assert llm.decode(answer.token_ids).startswith(answer.text[:10])
