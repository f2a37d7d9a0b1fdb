"""Text ↔ token ids, and conversations → prompts, on the ``tokenizers`` library alone.

transformers would do, but importing it takes longer than everything else at a start. What is
different on purpose: control tokens come from the template's own words only. What a person or a
model wrote is plain text, whatever it spells.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from chatkv.model.confined_template import open_template
from chatkv.model.detokenizer import DECODING, Detokenizer, TokenBytes, is_byte_level
from chatkv.model.plaintext import PlainEncoder, any_of
from chatkv.model.probe import after_answer, behind, default_system, thinking
from chatkv.model.template import PLAIN_STOPS, Piece
from chatkv.model.thinking import CLOSE, OPEN, ThinkingSplitter
from chatkv.model.tokenizer_folder import TokenizerFolder
from chatkv.model.wordings import Message

__all__ = ["Codec", "Detokenizer", "ThinkingSplitter", "Turn"]


_PROMPTS_KEPT = 64
"""Prompts asked for lately that are remembered: the next turn of a chat encodes its new part only."""

_Key = tuple[tuple[str, str, tuple[int, ...] | None], ...]


class Turn(Protocol):
    """One message of a conversation; ``token_ids`` are the ids a model sampled for it, where known.

    ``thinking`` is what was thought before an answer whose ids are not known; else it may be empty.
    """

    @property
    def role(self) -> str: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102
    @property
    def token_ids(self) -> tuple[int, ...] | None: ...  # noqa: D102
    @property
    def thinking(self) -> str: ...  # noqa: D102


class _Sampled(NamedTuple):
    """An answer as if this model had sampled it."""

    role: str
    text: str
    token_ids: tuple[int, ...]
    thinking: str = ""


class Codec:
    """A model's tokenizer and chat template."""

    stop_ids: frozenset[int]
    """Ids that end an answer: the checkpoint's, and what its template writes after one."""
    default_system: str | None
    """What the template says as the system where no message does; None: nothing."""
    stop_texts: tuple[str, ...]
    """Texts that end an answer in a chat, beside those that a request has."""
    notes: tuple[str, ...]
    """What was assumed because the model's files do not say it: one line each, for a person."""

    def __init__(self, source: TokenizerFolder) -> None:
        """Set up from what a folder holds; raises ModelError where its template is broken."""
        tokenizer = source.tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._tokenizer = tokenizer
        self._plain = PlainEncoder(tokenizer, source.eos_ids)
        self._control = {t.content: i for i, t in added.items() if i in self._plain.control_ids}
        self._pattern = any_of(self._control)
        self._lstrip = {t.content for t in added.values() if t.lstrip}
        self._rstrip = {t.content for t in added.values() if t.rstrip}
        self._special_ids = frozenset(i for i, t in added.items() if t.special)
        self._bytes: TokenBytes | None = None
        if is_byte_level(tokenizer):
            self._bytes = TokenBytes(tokenizer, self._special_ids)
        variables = source.special_tokens
        if source.template is None and not source.adds_bos:
            variables = variables | {"bos_token": ""}
        bos = self._control.get(variables.get("bos_token", "")) if source.adds_bos else None
        self._begins = [] if bos is None else [bos]
        self._prompts: OrderedDict[_Key, tuple[int, ...]] = OrderedDict()
        self._template = open_template(source.template, variables)
        self.stop_texts = () if source.template else PLAIN_STOPS
        self.notes = source.notes
        self.stop_ids = source.eos_ids | self._end_of_turn(variables.get("bos_token"))
        self.default_system = default_system(self._template)
        self._close_id = self._control.get(CLOSE)
        self._thinks = {OPEN, CLOSE} <= set(self._control) or CLOSE in (source.template or "")
        self._thinking = thinking(self._template)
        # Marks that the tokenizer calls special have no text of their own, and still have to be seen.
        self._marks = {
            self._control[name]: name
            for name in (OPEN, CLOSE)
            if self._thinks and self._control.get(name) in self._special_ids
        }

    @classmethod
    def load(cls, folder: Path) -> Codec:
        """Read ``tokenizer.json`` and its neighbours out of a Hugging Face folder. Raises ModelError.

        A folder without ``tokenizer.json`` goes through transformers, which takes a second more.
        """
        return cls(TokenizerFolder.load(folder))

    def encode_text(self, text: str) -> list[int]:
        """Ids of a plain text: no BOS, and never a control id, whatever it spells."""
        return self._plain.encode(text)

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a text to go on with: ``encode_text``, behind BOS where the tokenizer adds one."""
        return [*self._begins, *self._plain.encode(text)]

    def encode_later(self, text: str) -> list[int]:
        """As ``encode_text``, for a text that does not start its prompt."""
        return self._plain.encode(text, first=False)

    def encode_chat(self, turns: Sequence[Turn]) -> list[int]:
        """The prompt that asks for the next answer to ``turns``.

        Equals transformers' ``apply_chat_template`` where no text spells a control token and no ids are
        given; BOS is in it once where the template writes it. An answer with ``token_ids`` goes in as
        exactly those ids behind exactly the prompt that it answered, so what was sampled then is found
        again; a stop id at their end is left to the template where the template writes one there.
        Where the template drops the thinking of earlier answers, the ids after it go in: what follows is
        then computed anew, and is found again from the turn after. Thinking without ids goes the same way,
        as if this model had thought it; to a model that does not think it is not shown.

        Raises ModelError where the template refuses the conversation.
        """
        turns = [self._as_sampled(turn) for turn in turns]
        messages = [Message(t.role, t.text, t.role == "assistant" and t.token_ids is not None) for t in turns]
        ends = [*(i for i, message in enumerate(messages) if message.opaque), len(turns)]
        # A chat goes on from the longest of its prompts that is remembered: usually its last one.
        keys = [_key(turns[:end]) for end in ends]
        known = next((i for i in reversed(range(len(ends))) if keys[i] in self._prompts), None)
        ids: tuple[int, ...] = ()
        if known is not None:
            self._prompts.move_to_end(keys[known])
            ids = self._prompts[keys[known]]
        for i in range(0 if known is None else known + 1, len(ends)):
            end, before = ends[i], ends[i - 1] if i else None
            ids = self._prompt(turns[:end], messages[:end], before, ids)
        self._prompts[keys[-1]] = ids
        while len(self._prompts) > _PROMPTS_KEPT:
            self._prompts.popitem(last=False)
        return list(ids)

    def _prompt(
        self, turns: Sequence[Turn], messages: list[Message], before: int | None, earlier: tuple[int, ...]
    ) -> tuple[int, ...]:
        """The prompt of ``turns``. ``earlier`` is that of the turns before ``before``, the last known answer.

        Building on it, instead of on what the template writes about the past, keeps every prompt a
        prefix of the next: templates may word history otherwise than the opening of an answer.
        """
        pieces = self._template.pieces(messages)
        shown = [i for i, piece in enumerate(pieces) if piece.message == before]
        if before is None or not shown:
            ids = tuple(self._encode(pieces, first=True))
        else:
            answer = turns[before].token_ids or ()
            following = self._encode(pieces[shown[-1] + 1 :], first=False)
            without = self._without_thinking(answer)
            if without is not None:
                reopened = self._reopened(earlier, pieces, messages[:before])
                if reopened is not None:
                    earlier, answer = reopened, without
            if answer and answer[-1] in self.stop_ids and self._closes(following):
                answer = answer[:-1]
            ids = (*earlier, *answer, *following)
        return ids

    def _as_sampled(self, turn: Turn) -> Turn:
        if turn.role != "assistant" or turn.token_ids is not None or not (turn.thinking and self._thinks):
            return turn
        pieces = [
            Piece("" if self._thinking.opened else f"{OPEN}\n", None),
            Piece(turn.thinking, 0),
            Piece(f"\n{CLOSE}\n\n", None),
            Piece(turn.text, 0),
        ]
        return _Sampled(turn.role, turn.text, tuple(self._encode(pieces, first=False)))

    def _without_thinking(self, answer: tuple[int, ...]) -> tuple[int, ...] | None:
        """The ids of ``answer`` behind its thinking; None where it has none, or the template keeps it."""
        if not (self._thinks and self._thinking.dropped):
            return None
        if self._close_id in answer:
            at = answer.index(self._close_id) + 1
            while not self._thinking.newlines and at < len(answer):
                text = "" if answer[at] in self.stop_ids else self.decode(answer[at : at + 1])
                if not text.startswith("\n"):
                    break
                at += 1
                if rest := text.lstrip("\n"):
                    return (*self.encode_later(rest), *answer[at:])
            return answer[at:]
        splitter, detokenizer = self.splitter(), self.detokenizer()
        text = "".join(map(detokenizer.push, answer)) + detokenizer.flush()
        parts = splitter.push(text), splitter.flush()
        said = "".join(part[1] for part in parts)
        return None if said == text else tuple(self.encode_later(said))

    def _reopened(
        self, earlier: tuple[int, ...], pieces: list[Piece], asked: list[Message]
    ) -> tuple[int, ...] | None:
        """``earlier`` with the opening of its answer as the template words it in history, else None."""
        opening = self._encode(behind(self._template.pieces(asked), len(asked) - 1), first=False)
        between = behind(pieces, len(asked) - 1)
        worded = [p for i, p in enumerate(between) if all(q.message is None for q in between[: i + 1])]
        if not opening or list(earlier[-len(opening) :]) != opening:
            return None
        return (*earlier[: -len(opening)], *self._encode(worded, first=False))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids`` without special tokens."""
        with DECODING:
            return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def piece(self, token_id: int) -> str:
        """One token for the eye: control tokens by their name, bytes of a cut character as ``\\xe4``."""
        token = self._tokenizer.id_to_token(token_id)
        if token is None or token_id in self._plain.control_ids:
            return token or f"<{token_id}>"
        if self._bytes is not None:
            return self._bytes[token_id].decode("utf-8", "backslashreplace")
        return str(token).replace("▁", " ")

    def detokenizer(self) -> Detokenizer:
        """A fresh incremental decoder for one answer."""
        return Detokenizer(self._tokenizer, self._special_ids, self._bytes, self._marks)

    def splitter(self, chat: bool = True) -> ThinkingSplitter:
        """A fresh splitter of one answer's text into thinking and answer; without ``chat`` all is text."""
        return ThinkingSplitter(self._thinks and chat, self._thinking.opened and chat)

    def _encode(self, run: Iterable[Piece], first: bool) -> list[int]:
        """Ids of a run of pieces: control tokens in the template's parts, and the plain text between them.

        Plain text is encoded across the borders of pieces, as a tokenizer sees the rendered whole.
        """
        run = list(run)
        text = "".join(piece.text for piece in run)
        ids: list[int] = []
        done = begin = 0
        for piece in run:
            end = begin + len(piece.text)
            matches = self._pattern.finditer(text, begin, end) if piece.message is None else ()
            for match in matches:
                stop, name = match.start(), match.group()
                if name in self._lstrip:
                    stop = max(done, len(text[:stop].rstrip()))
                ids += self._plain.encode(text[done:stop], first and not ids)
                ids.append(self._control[name])
                done = match.end()
                if name in self._rstrip:
                    done = len(text) - len(text[done:].lstrip())
            begin = end
        return ids + self._plain.encode(text[done:], first and not ids)

    def _closes(self, following: Sequence[int]) -> bool:
        """True where the first thing in ``following`` but white space is a stop id."""
        for token_id in following:
            if token_id in self.stop_ids:
                return True
            if token_id in self._plain.control_ids or self.decode([token_id]).strip():
                return False
        return False

    def _end_of_turn(self, bos: str | None) -> frozenset[int]:
        """The control token that the template writes right after an answer (``<|im_end|>`` …)."""
        match = self._pattern.match(after_answer(self._template).lstrip())
        if match is None or match.group() == bos:
            return frozenset()
        return frozenset({self._control[match.group()]}) & self._special_ids


def _key(turns: Sequence[Turn]) -> _Key:
    """What a prompt is made of."""
    return tuple((t.role, t.text, t.token_ids) for t in turns)
