"""Chat templates: which part of a rendered prompt the template wrote, and which part a person or a model did.

A template sees placeholders instead of the texts, so its own words (and the control tokens among
them) are known for certain; the texts are put in afterwards, as plain text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

from chatkv.model.errors import LimitError, ModelError
from chatkv.model.wordings import Message, wordings
from chatkv.text import one_line

PLAIN_TEMPLATE = """\
{{ bos_token }}{% for message in messages %}
{% if message['role'] == 'system' %}
{{ message['content'] + '\n\n' }}
{%- else %}
{{ message['role'] | capitalize + ': ' + message['content'] + '\n\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}
{{ 'Assistant:' }}
{%- endif %}
"""
"""For models without a template of their own: ``User: …``, blank line, ``Assistant: …``."""

PLAIN_STOPS = ("\n\nUser:", "\nUser:")
"""There an answer to it ends: a model that was never taught to leave off goes on with the other's part."""

# Characters that a template may write: of its own, about each message, and for each one of the texts.
_OUTPUT, _OUTPUT_A_MESSAGE, _TIMES = 1 << 18, 1 << 12, 4

# Private-use characters have no case and are no white space: filters such as trim leave them alone.
_OPEN, _CLOSE, _DIGIT = "\ue0a0", "\ue0a1", 0xE0B0


class Piece(NamedTuple):
    """A part of a rendered prompt. ``message``: index of the message it came from; None: the template."""

    text: str
    message: int | None


class ChatTemplate:
    """A compiled Jinja chat template, in the sandbox and with the helpers that transformers gives it."""

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        """Compile ``source``; ``variables`` are ``bos_token`` and the like. Raises ModelError."""
        self._variables = dict(variables)
        try:
            self._template = _environment().from_string(source)
        except MemoryError:
            raise
        except Exception as error:
            # Beside Jinja's own errors: Python's compiler and the stack have their limits.
            reason = one_line(str(error) or type(error).__name__, 200)
            raise ModelError(
                f"the model's chat template is broken ({reason}); use another model folder"
            ) from None

    def render(self, messages: Sequence[tuple[str, str]], generate: bool = True) -> str:
        """The prompt for (role, text) pairs; ``generate``: with the opening of the next answer.

        Raises ModelError, and LimitError where the template writes out of all proportion to the texts.
        """
        content = [{"role": role, "content": text} for role, text in messages]
        most = _OUTPUT + _OUTPUT_A_MESSAGE * len(content) + _TIMES * sum(len(text) for _, text in messages)
        try:
            rendered = self._template.render(
                messages=content,
                tools=None,
                documents=None,
                add_generation_prompt=generate,
                **self._variables,
            )
        except MemoryError:
            raise
        except Exception as error:
            # Templates are programs out of a download: whatever they raise is theirs.
            reason = one_line(str(error) or type(error).__name__, 200)
            raise ModelError(f"the model's chat template refuses this conversation: {reason}") from None
        if len(rendered) > most:
            raise LimitError(
                f"the model's chat template writes {len(rendered):,} characters about this conversation, "
                f"more than {most:,}: use another model"
            )
        return rendered

    def pieces(self, messages: Sequence[Message], generate: bool = True) -> list[Piece]:
        """The rendered prompt in pieces; joined, they are what rendering the texts themselves gives.

        Where a template rewrites a text (trims it, drops its reasoning), the piece is the rewritten one.
        Where a text changes what the template writes elsewhere, or is refused, it goes in unchanged:
        no text can ever alter the frame. A conversation that the template refuses, or of which it drops a
        system message, goes in as the first of its other ``wordings`` that the template takes whole.
        Raises ModelError.
        """
        refused: ModelError | None = None
        partly: list[Piece] | None = None
        for said, places in wordings(messages):
            try:
                found = self._pieces(said, generate)
            except LimitError:
                raise
            except ModelError as error:
                refused = refused or error
                continue
            shown = {piece.message for piece in found}
            whole = all(i in shown for i, m in enumerate(said) if m.role == "system" and m.text.strip())
            placed = [p if p.message is None else Piece(p.text, places[p.message]) for p in found]
            if whole:
                return placed
            partly = partly or placed
        if partly is not None:
            return partly
        assert refused is not None, "there is at least the wording as it is"
        raise refused

    def _pieces(self, messages: Sequence[Message], generate: bool) -> list[Piece]:
        """The pieces of this wording. Raises ModelError where the template refuses it."""
        roles = [m.role for m in messages]
        holders = [_placeholder(i) for i in range(len(messages))]
        skeleton = self.render(list(zip(roles, holders, strict=True)), generate)
        frame = _split(skeleton, len(messages))
        shown = [h if m.opaque else m.text for m, h in zip(messages, holders, strict=True)]
        texts = list(shown)
        if _join(frame, texts) != self._try(roles, shown, generate):
            for i, message in enumerate(messages):
                if not message.opaque:
                    texts[i] = self._as_written(roles, holders, i, message.text, skeleton, generate)
        return [Piece(texts[p.message], p.message) if p.message is not None else p for p in frame]

    def _as_written(
        self, roles: list[str], holders: list[str], i: int, text: str, skeleton: str, generate: bool
    ) -> str:
        """What the template makes of ``text`` in place ``i``, or ``text`` where that can't be told apart."""
        before, found, after = skeleton.partition(holders[i])
        if not found or holders[i] in after:
            return text
        alone = self._try(roles, [*holders[:i], text, *holders[i + 1 :]], generate)
        if alone is None or len(alone) < len(before) + len(after):
            return text
        if alone.startswith(before) and alone.endswith(after):
            return alone[len(before) : len(alone) - len(after)]
        return text

    def _try(self, roles: list[str], texts: list[str], generate: bool) -> str | None:
        try:
            return self.render(list(zip(roles, texts, strict=True)), generate)
        except LimitError:
            raise
        except ModelError:
            return None


def _placeholder(i: int) -> str:
    return _OPEN + "".join(chr(_DIGIT + int(digit)) for digit in str(i)) + _CLOSE


def _split(skeleton: str, count: int) -> list[Piece]:
    """Cut at the placeholders of ``count`` messages; a template's own private-use characters stay text."""
    names = {_placeholder(i): i for i in range(count)}
    pieces: list[Piece] = []
    rest = skeleton
    while rest:
        start = rest.find(_OPEN)
        end = rest.find(_CLOSE, start) + 1
        if start < 0 or not end:
            pieces.append(Piece(rest, None))
            break
        if start:
            pieces.append(Piece(rest[:start], None))
        name = rest[start:end]
        pieces.append(Piece(name, names.get(name)))
        rest = rest[end:]
    return pieces


def _join(frame: list[Piece], texts: list[str]) -> str:
    return "".join(p.text if p.message is None else texts[p.message] for p in frame)


class _Generation(jinja2.ext.Extension):
    """``{% generation %}`` marks the assistant's part for training; here its body is just rendered."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes HTML.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)
