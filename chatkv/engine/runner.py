"""One forward for a planned step: from the scheduler's work to rows of logits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from chatkv.attention.base import AttentionBackend, PagedBatch
from chatkv.engine.graphs import DecodeGraphs, Int64Array, Rows
from chatkv.engine.readback import Readback
from chatkv.kvcache.cache import Copy, KVCache, blocks_for
from chatkv.kvcache.events import Int32Array
from chatkv.model.decoder import Decoder, copy_slots
from chatkv.scheduler.plan import Work


class Part(NamedTuple):
    """One sequence's share of a forward: compute ``ids`` from position ``start`` on.

    ``blocks``: those of the whole sequence up to the end of ``ids``. ``rows``: of how many of the last
    ids the logits are wanted.
    """

    ids: Int32Array
    start: int
    blocks: Int32Array
    rows: int


class Runner:
    """Owns the KV tensor ``[layers, blocks, 2, block_size, kv_heads, head_dim]`` and the backend."""

    def __init__(
        self,
        decoder: Decoder,
        backend: AttentionBackend,
        num_blocks: int,
        block_size: int,
        *,
        spare: bool = False,
        picks: bool | None = None,
    ) -> None:
        """``spare``: one block more than the pool has, behind it, for graphs. ``picks``: whether a greedy
        step's ids are found where the logits are; None: on a GPU, where copying logits takes longer.
        """
        self.decoder = decoder
        self.backend = backend
        self.block_size = block_size
        self.kv = decoder.new_kv(num_blocks + spare, block_size)
        self.picks = decoder.device.type != "cpu" if picks is None else picks
        self.graphs: DecodeGraphs | None = None
        """Over ``kv``: take the steps that fit."""
        self._readback = Readback(decoder.device)

    def copy(self, copies: Iterable[Copy]) -> None:
        """Carry out ``copies``."""
        for copy in copies:
            copy_slots(self.kv, copy.source, copy.target, copy.tokens)

    def run(
        self, work: list[Work], cache: KVCache, *, whole: Sequence[bool] | None = None
    ) -> Sequence[torch.Tensor]:
        """Copy slots, write K/V of all of ``work``; one tensor on the CPU for each work that samples.

        In their order: fp32 logits [vocab] where ``whole``, else the likeliest id (int64 [], -1 where a logit
        is not a number). ``whole`` None: logits of all. They stand until the next run.
        """
        parts = []
        for item in work:
            if item.copies:
                self.copy(item.copies)
            request, start = item.request, item.start
            end = start + item.length
            blocks = cache.row(request.id).blocks.array[: blocks_for(end, self.block_size)]
            parts.append(Part(request.tokens[start:end], start, blocks, int(item.samples)))
        return self._read(self._compute(parts, self.kv), whole)

    def forward(self, parts: Sequence[Part], kv: torch.Tensor) -> torch.Tensor:
        """Write K/V of all ``parts`` into ``kv``; fp32 logits [sum of rows, vocab] on the CPU."""
        return self._compute(parts, kv).logits.cpu()

    @torch.inference_mode()
    def _read(self, rows: Rows, whole: Sequence[bool] | None) -> Sequence[torch.Tensor]:
        return self._readback.read(rows, whole)

    @torch.inference_mode()
    def _compute(self, parts: Sequence[Part], kv: torch.Tensor) -> Rows:
        batch, ids, positions, slots, rows = laid_out(parts, self.block_size)
        if self.graphs is not None and kv is self.kv and len(ids) == len(parts) == len(rows):
            replayed = self.graphs.run(batch, ids, positions, slots)
            if replayed is not None:
                return replayed
        self.backend.plan(batch)
        # One copy: each waits for the device.
        sent = torch.from_numpy(np.concatenate((ids, positions, slots, rows))).to(self.decoder.device)
        n = len(ids)
        logits = self.decoder.forward(
            sent[:n], sent[n : 2 * n], sent[2 * n : 3 * n], kv, self.backend, sent[3 * n :]
        )
        return Rows(logits, None)


def laid_out(
    parts: Sequence[Part], size: int
) -> tuple[PagedBatch, Int64Array, Int64Array, Int64Array, Int64Array]:
    """The batch of ``parts``; ids, positions and slots of its tokens, and the rows whose logits are wanted.

    Without a loop over parts: a step of many requests that decode is short, and the device waits for it.
    """
    lens = np.array([len(part.ids) for part in parts])
    starts = np.array([part.start for part in parts])
    pages = np.array([len(part.blocks) for part in parts])
    ends = starts + lens
    qo_indptr, kv_indptr = _indptr(lens), _indptr(pages)
    kv_indices = np.concatenate([part.blocks for part in parts])
    # Of each token: which part it belongs to, its place there, and its position in the sequence.
    of = np.repeat(np.arange(len(parts)), lens)
    place = np.arange(len(of)) - qo_indptr[of]
    positions = starts[of] + place
    slots = kv_indices[kv_indptr[of] + positions // size].astype(np.int64) * size + positions % size
    unwanted = lens - np.array([part.rows for part in parts])
    batch = PagedBatch(qo_indptr, kv_indptr, kv_indices, ((ends - 1) % size + 1).astype(np.int32), size)
    ids = np.concatenate([part.ids for part in parts]).astype(np.int64)
    return batch, ids, positions, slots, np.flatnonzero(place >= unwanted[of])


def _indptr(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
