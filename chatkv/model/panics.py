"""A panic of the tokenizer's Rust code is an error like others, though Python is not told so."""

from __future__ import annotations

from types import TracebackType

from chatkv.errors import in_words
from chatkv.model.errors import ModelError


class NoPanic:
    """``with NoPanic("read this text"): …``: a panic in there is a ModelError.

    pyo3's PanicException is no Exception, and can't be imported. What is handed over can't have come to harm
    by it: the library changes nothing when it encodes or decodes.
    """

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and type(error).__name__ == "PanicException":
            why = in_words(error).partition(": ")[2]
            raise ModelError(
                f"the tokenizer broke down when it was to {self._doing} ({why}): its files may be damaged, "
                "fetch the model again"
            ) from error


LOADING = NoPanic("read its own files")
"""For whatever is done with a tokenizer before it is taken."""
