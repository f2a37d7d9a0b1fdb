"""Reads a folder's tokenizer; each version of its file is tried out in another process first, once.

A fixed padding of 2^28 ends the process, a pattern may never end, a rule may multiply a text.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from tokenizers import Tokenizer

from chatkv.files import MIB, UnreadableError, private_folder, read_file
from chatkv.model.confined import Confined
from chatkv.model.errors import LimitError, ModelError
from chatkv.model.lfs import refuse_pointer
from chatkv.model.panics import LOADING
from chatkv.paths import cache_dir

MAX_BYTES = 64 * MIB
CPU_S = 60
"""Seconds of processor time for a trial; the largest real ones take some tenths."""
_RULES = 1
"""Raise it where the trial looks for more: what passed an older one is tried again."""


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of ``folder``, without padding and truncation. Raises ModelError, LimitError."""
    file = folder / "tokenizer.json"
    if file.is_file():
        refuse_pointer(file)
        try:
            data = read_file(file, MAX_BYTES)
        except UnreadableError as error:
            raise ModelError(f"{file} {error}") from None
        _try_once(data, file)
    else:
        data = _converted(folder)
    try:
        with LOADING:
            tokenizer = Tokenizer.from_buffer(data)
            tokenizer.no_padding()
            tokenizer.no_truncation()
    except ModelError:
        raise
    except Exception as error:
        # The library raises bare Exception for anything wrong with the file.
        raise ModelError(f"{file} can't be read ({str(error)[:120]}); download it again") from None
    return tokenizer


def _try_once(data: bytes, file: Path) -> None:
    passed = cache_dir() / "tokenizers" / f"{hashlib.sha256(data).hexdigest()}-{_RULES}"
    if passed.exists():
        return
    process = Confined("chatkv.model.tokenizer_process", f"the tokenizer of {file}")
    try:
        process.ask({"file": str(file.absolute())}, CPU_S)
    finally:
        process.close()
    with suppress(OSError):  # a cache that can't be written: it is tried each time
        private_folder(passed.parent)
        passed.touch(mode=0o600)


def _converted(folder: Path) -> bytes:
    process = Confined("chatkv.model.tokenizer_process", f"the tokenizer of {folder}")
    try:
        return str(process.ask({"folder": str(folder.absolute())}, CPU_S)).encode()
    except LimitError:
        raise
    except ModelError as error:
        raise ModelError(
            f"{folder} has no tokenizer.json and its other tokenizer files can't be read ({error}); "
            "add the tokenizer.json"
        ) from None
    finally:
        process.close()
