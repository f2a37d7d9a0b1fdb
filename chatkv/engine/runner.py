"""One forward for a planned step: from the scheduler's work to rows of logits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from chatkv.attention.base import AttentionBackend, PagedBatch
from chatkv.kvcache.cache import Copy, KVCache, blocks_for
from chatkv.model.decoder import Decoder, copy_slots
from chatkv.scheduler.scheduler import Work


class Runner:
    """Owns the KV tensor ``[layers, blocks, 2, block_size, kv_heads, head_dim]`` and the backend."""

    def __init__(self, decoder: Decoder, backend: AttentionBackend, num_blocks: int, block_size: int) -> None:
        self.decoder = decoder
        self.backend = backend
        self.block_size = block_size
        self.kv = decoder.new_kv(num_blocks, block_size)

    def copy(self, copies: Iterable[Copy]) -> None:
        """Carry out ``copies``."""
        for copy in copies:
            copy_slots(self.kv, copy.source, copy.target, copy.tokens)

    @torch.inference_mode()
    def run(self, work: list[Work], cache: KVCache) -> torch.Tensor:
        """Copy slots, write K/V of all of ``work``; fp32 logits [rows, vocab] on the CPU.

        One row for each work that samples, in their order.
        """
        for item in work:
            self.copy(item.copies)
        size = self.block_size
        ids, positions, slots, pages, last = [], [], [], [], []
        for item in work:
            end = item.start + item.length
            at = np.arange(item.start, end)
            blocks = cache.row(item.request.id).blocks.array[: blocks_for(end, size)]
            ids.append(item.request.tokens[item.start : end])
            positions.append(at)
            slots.append(blocks[at // size].astype(np.int64) * size + at % size)
            pages.append(blocks)
            last.append((end - 1) % size + 1)
        qo_indptr = _indptr([item.length for item in work])
        batch = PagedBatch(
            qo_indptr=qo_indptr,
            kv_indptr=_indptr([len(p) for p in pages]),
            kv_indices=np.concatenate(pages),
            last_page_len=np.array(last, dtype=np.int32),
            block_size=size,
        )
        self.backend.plan(batch)
        samples = np.array([item.samples for item in work])
        rows = (qo_indptr[1:] - 1)[samples].astype(np.int64)
        device = self.decoder.device
        logits = self.decoder.forward(
            torch.from_numpy(np.concatenate(ids).astype(np.int64)).to(device),
            torch.from_numpy(np.concatenate(positions)).to(device),
            torch.from_numpy(np.concatenate(slots)).to(device),
            self.kv,
            self.backend,
            torch.from_numpy(rows).to(device),
        )
        return logits.cpu()


def _indptr(lengths: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
