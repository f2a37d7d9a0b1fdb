"""The chained hash of a full block, and the hashes of a session's prompts, extended from turn to turn.

A block's hash is the SHA-256 of its parent's hash and its own tokens; the first block's of the namespace
as well, which the later ones inherit through the chain. It is the same in every process.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from chatkv.kvcache.events import Int32Array
from chatkv.kvcache.node import common_prefix

Hash = bytes
"""32 bytes."""


def block_hash(parent: Hash | None, tokens: Int32Array, namespace: str = "") -> Hash:
    """The hash of a full block (``tokens`` int32 [block size]); ``namespace`` counts where parent is None."""
    return chained_hash(parent, token_bytes(tokens), namespace)


def chained_hash(parent: Hash | None, tokens: bytes, namespace: str) -> Hash:
    """``block_hash`` of tokens that are bytes already."""
    chained = sha256(namespace.encode("utf-8", "surrogatepass")).digest() if parent is None else parent
    return sha256(chained + tokens).digest()


def token_bytes(tokens: Int32Array) -> bytes:
    """Four bytes a token, little-endian on every machine."""
    return tokens.astype("<i4", copy=False).tobytes()


class _Chain(NamedTuple):
    tokens: Int32Array
    hashes: list[Hash]


class SessionHashes:
    """Hash chains by session and namespace: a turn hashes only the blocks that its last one did not.

    Holds the latest chain of the ``kept`` sessions used last. Right whatever is asked in whatever order:
    a chain is used only as far as its tokens are the same.
    """

    __slots__ = ("_chains", "block_size", "computed", "kept")

    def __init__(self, block_size: int, kept: int = 256) -> None:
        self.block_size = block_size
        self.kept = kept
        self.computed = 0
        """How many block hashes were computed so far."""
        self._chains: dict[tuple[str, str], _Chain] = {}

    def __len__(self) -> int:
        return len(self._chains)

    def chain(self, session: str, namespace: str, tokens: Int32Array) -> list[Hash]:
        """The hashes of all full blocks of ``tokens`` (int32 [n]), remembered for the next turn."""
        known = self._chains.get((session, namespace))
        hashes: list[Hash] = []
        if known is not None:
            shared = common_prefix(known.tokens, tokens)
            hashes = known.hashes[: shared // self.block_size]
            if shared == len(tokens):
                return hashes
        self.extend(hashes, namespace, tokens)
        self.remember(session, namespace, tokens, hashes)
        return hashes

    def chain_of(
        self, own: list[Hash] | None, session: str, namespace: str, tokens: Int32Array
    ) -> list[Hash]:
        """As ``chain``, out of a request's ``own`` list, which then has them; None: it keeps none.

        ``own`` is empty, or has the hashes of the first blocks of ``tokens``.
        """
        if not own:
            hashes = self.chain(session, namespace, tokens)
            if own is None:
                return hashes
            own += hashes
        else:
            self.extend(own, namespace, tokens)
        return own

    def extend(self, hashes: list[Hash], namespace: str, tokens: Int32Array) -> None:
        """Append what is missing until each full block of ``tokens`` has its hash."""
        size, start = self.block_size, len(hashes)
        missing = len(tokens) // size - start
        if missing <= 0:
            return
        data = token_bytes(tokens[start * size : (start + missing) * size])
        width = len(data) // missing
        parent = hashes[-1] if hashes else None
        for at in range(0, len(data), width):
            parent = chained_hash(parent, data[at : at + width], namespace)
            hashes.append(parent)
        self.computed += missing

    def remember(self, session: str, namespace: str, tokens: Int32Array, hashes: list[Hash]) -> None:
        """``hashes`` belong to the first blocks of ``tokens``; both are copied."""
        key = session, namespace
        self._chains.pop(key, None)
        self._chains[key] = _Chain(tokens.copy(), hashes.copy())
        if len(self._chains) > self.kept:
            del self._chains[next(iter(self._chains))]
