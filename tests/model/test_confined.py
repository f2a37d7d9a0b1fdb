"""What a downloaded chat template does with time, memory and output."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chatkv.model import confined_template
from chatkv.model.confined import Confined
from chatkv.model.confined_template import ConfinedTemplate, open_template
from chatkv.model.errors import LimitError, ModelError
from chatkv.model.template import ChatTemplate
from chatkv.model.wordings import Message
from tests.model.templates import CHATML, LLAMA3, MISTRAL, QWEN3

CHAT = [
    Message("system", "s"),
    Message("user", " u\ud83d "),
    Message("assistant", "a", True),
    Message("user", "v"),
]


@pytest.fixture(autouse=True)
def one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confined_template, "CPU_S", 1)


@pytest.mark.parametrize("source", [CHATML, LLAMA3, MISTRAL, QWEN3])
@pytest.mark.parametrize("generate", [True, False])
def test_it_is_the_same_in_another_process(source: str, generate: bool) -> None:
    variables = {"bos_token": "<s>", "eos_token": "</s>"}
    here, there = ChatTemplate(source, variables), ConfinedTemplate(source, variables)
    assert there.pieces(CHAT, generate) == here.pieces(CHAT, generate)


def test_a_refusal_is_the_same_in_another_process() -> None:
    source = "{{ raise_exception('not\\nthis') }}"
    told = []
    for template in (ChatTemplate(source, {}), ConfinedTemplate(source, {})):
        with pytest.raises(ModelError) as caught:
            template.pieces(CHAT)
        told.append(str(caught.value))
    assert told == ["the model's chat template refuses this conversation: not this"] * 2


def laughs(name: str) -> str:
    sets = [f"{{% set {name}{i + 1} = [{name}{i}, {name}{i}] %}}" for i in range(40)]
    return f"{{% set {name}0 = ['ha', 'ha'] %}}" + "".join(sets)


DOUBLED = "{% set n = namespace(x='ha') %}" + "{% set n.x = n.x ~ n.x %}" * 40
TIME = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "power": "{{ (7 ** 9999999) % 10 }}",
    "laughs compared": laughs("a") + laughs("b") + "{{ a40 == b40 }}",
    "macros": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "lipsum": "{{ lipsum(n=9999999) | length }}",
    "sorted": "{% for a in range(9999) %}{% set x = range(99999) | sort(reverse=true) %}{% endfor %}",
    "recursive loop": "{% for a in [1] recursive %}{{ loop([1, 2]) if loop.depth < 40 }}{% endfor %}",
    "one of them": "{% if messages | length > 2 %}{% for a in range(99999) %}{% for b in range(99999) %}"
    "{% endfor %}{% endfor %}{% endif %}ok",
}
MEMORY = {
    "product": "{{ 'ha' * 9999999999 }}",
    "list": "{{ ([0] * 9999999999) | length }}",
    "doubled": DOUBLED + "{{ n.x | length }}",
    "laughs": laughs("a") + "{{ a40 }}",
    "laughs as JSON": laughs("a") + "{{ a40 | tojson | length }}",
    "join": "{{ (['ha' * 9999999] * 9999) | join | length }}",
    "format": "{{ '%999999999d' | format(1) | length }}",
    "braces": "{{ '{:>9999999999}'.format('ha') | length }}",
    "justified": "{{ 'ha'.ljust(9999999999) | length }}",
    "centred": "{{ 'ha' | center(9999999999) | length }}",
    "replaced": "{{ ('h' * 99999) | replace('h', 'ha' * 99999) | length }}",
    "indented": "{{ 'ha\nha' | indent(9999999999) | length }}",
}
OUTPUT = {
    "loop": "{% for a in range(99999) %}hahahahaha{% endfor %}",
    "product": "{{ 'ha' * 9999999 }}",
    "messages": "{% for m in messages %}{{ m.content * 99999 }}{% endfor %}",
}


def told(source: str) -> str:
    with pytest.raises(LimitError) as caught:
        ConfinedTemplate("{{ messages[0].role }}" + source, {}).pieces(CHAT)
    assert "\n" not in str(caught.value)
    assert ConfinedTemplate(CHATML, {}).pieces(CHAT) == ChatTemplate(CHATML, {}).pieces(CHAT)
    return str(caught.value)


QUICK = ("loops", "power", "laughs compared", "one of them")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in TIME]
)
def test_one_that_does_not_end_is_ended(name: str) -> None:
    said = told(TIME[name])
    assert said == "the model's chat template takes more than 1 s of processor time: use another model" or (
        "MiB of memory" in said
    )


@pytest.mark.parametrize("name", MEMORY)
def test_one_that_fills_the_memory_is_ended(name: str) -> None:
    said = told(MEMORY[name])
    assert "MiB of memory: use another model" in said or "of processor time" in said


@pytest.mark.parametrize("name", OUTPUT)
def test_one_that_writes_without_end_is_refused(name: str) -> None:
    assert "the model's chat template writes" in told(OUTPUT[name])


@pytest.mark.parametrize(
    "source",
    [
        "{% for",
        "{{ " + "(" * 5000 + ")" * 5000 + " }}",
        "{% if a %}" * 500 + "{% endif %}" * 500,
        "{% for a in b %}" * 100 + "{% endfor %}" * 100,
        "{{ " + "-" * 20_000 + "1 }}",
        "{{ " + "[" * 20_000,
    ],
)
def test_one_that_can_not_be_compiled_is_broken(source: str) -> None:
    with pytest.raises(ModelError, match="chat template") as caught:
        ConfinedTemplate(source, {})
    assert "\n" not in str(caught.value)


def test_others_go_on_while_it_holds_the_interpreter() -> None:
    template = ConfinedTemplate("{{ (messages | length + 3) ** 9999999 }}", {})
    caught: list[BaseException] = []

    def render() -> None:
        try:
            template.pieces(CHAT)
        except LimitError as error:
            caught.append(error)

    asking = threading.Thread(target=render)
    asking.start()
    turns = 0
    while asking.is_alive():
        turns += 1
        time.sleep(0.002)
    assert caught
    # In this process the power is one step of the interpreter: nobody else would have had a turn.
    assert turns > 10


@pytest.fixture
def process() -> Iterator[Confined]:
    made = Confined("chatkv.model.template_process", "the template")
    yield made
    made.close()


QUESTION: dict[str, Any] = {"source": "x", "variables": {}, "messages": [], "generate": True}


def test_a_process_that_was_killed_is_started_anew(process: Confined) -> None:
    assert process.ask(QUESTION, 5) == [["x", None]]
    assert process._process is not None
    process._process.kill()
    process._process.wait()
    assert process.ask(QUESTION, 5) == [["x", None]]


def test_one_that_is_stopped_is_not_waited_for(process: Confined, monkeypatch: pytest.MonkeyPatch) -> None:
    process.ask(QUESTION, 5)
    assert process._process is not None
    os.kill(process._process.pid, signal.SIGSTOP)
    monkeypatch.setattr("chatkv.model.confined.PATIENCE", 0.2)
    with pytest.raises(LimitError, match="the template gives no answer"):
        process.ask(QUESTION | {"source": "y" * 4_000_000}, 1)


def test_it_ends_with_the_one_who_asks(process: Confined) -> None:
    process.ask(QUESTION, 5)
    running = process._process
    assert running is not None
    assert running.stdin is not None
    running.stdin.close()
    assert running.wait(60) == 0


def test_many_ask_at_once(process: Confined) -> None:
    answers: list[Any] = []

    def ask(text: str) -> None:
        answers.append((text, process.ask(QUESTION | {"source": text}, 5)))

    threads = [threading.Thread(target=ask, args=(f"t{i}",)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted((f"t{i}", [[f"t{i}", None]]) for i in range(20))


def test_what_is_known_to_end_is_rendered_here(smollm2_folder: Any) -> None:
    from chatkv.model.tokenizer_folder import TokenizerFolder

    source = TokenizerFolder.load(smollm2_folder).template
    assert isinstance(open_template(source, {}), ChatTemplate)
    assert isinstance(open_template(None, {}), ChatTemplate)
    assert isinstance(open_template(CHATML, {}), ConfinedTemplate)
