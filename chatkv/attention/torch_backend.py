"""Paged attention in plain torch: the reference, and what serves CPUs.

Each layer gathers the blocks of a request with one ``index_select`` and attends over the result.
Decode requests (one query row) go through SDPA together, padded and masked; prefill requests go one
by one in tiles of query rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from chatkv.attention.base import AttentionBackend, PagedBatch

TILE = 128
"""Query rows of a prefill tile: scores stay in cache, and keys above the diagonal are mostly skipped."""


@dataclass(frozen=True, slots=True)
class _Decode:
    """Requests with one query row, padded to the longest."""

    rows: torch.Tensor | None
    """[B] their query rows; None where these are all the rows there are, in order."""
    pages: torch.Tensor
    """[2 * B * pages] K pages, then V pages, of the KV seen as ``[blocks * 2, …]``."""
    batch: int
    length: int
    mask: torch.Tensor | None
    """bool [B, 1, 1, pages * block_size], True = visible; None for a single request."""


@dataclass(frozen=True, slots=True)
class Prefill:
    """A request with several query rows: ``start:stop`` of the batch."""

    start: int
    stop: int
    blocks: npt.NDArray[np.int32]
    pages: torch.Tensor
    """As ``_Decode.pages``."""
    length: int


class TorchBackend(AttentionBackend):
    """The reference backend. Any device torch has; the KV must be finite, unwritten slots included."""

    name = "torch"

    def __init__(self, device: str | torch.device = "cpu") -> None:
        self._device = torch.device(device)
        self.batch = None
        self._checked_blocks = 0
        self._prepared = False
        self._decoding = False
        self._decode: _Decode | None = None
        self._prefills: list[Prefill] = []
        self._causal = torch.ones(TILE, TILE, dtype=torch.bool, device=self._device).triu_(1)

    def plan(self, batch: PagedBatch) -> None:
        """Take a step's batch; raises ValueError where it is malformed.

        The upper bound of block ids is checked by the first ``run``, which knows the KV.
        """
        self.batch = None
        batch.validate(int(batch.kv_indices.max(initial=-1)) + 1)
        self._checked_blocks = 0
        self._prepared = False
        self.batch = batch

    def run(self, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """Attention of one layer; see the base class. Raises ValueError without a plan or a fitting shape."""
        if self.batch is None:
            raise ValueError("plan a batch before run")
        if kv.shape[0] != self._checked_blocks:
            self.batch.validate_run(q, kv)
            self._checked_blocks = kv.shape[0]
        if not self._prepared:
            self._prepare(self.batch)
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        if self._decoding:
            self._run_decode(q, kv, out)
        for request in self._prefills:
            rows = slice(request.start, request.stop)
            self._run_prefill(q[rows], kv, request, out[rows])
        return out

    def _prepare(self, batch: PagedBatch) -> None:
        """What ``run`` needs; not in ``plan``, for a forward may do without ``run``."""
        decoding = np.flatnonzero(batch.q_lens == 1)
        self._decoding = len(decoding) > 0
        if self._decoding:
            self._plan_decode(batch, decoding)
        self._prefills = [
            Prefill(
                start=int(batch.qo_indptr[b]),
                stop=int(batch.qo_indptr[b + 1]),
                blocks=_blocks(batch, int(b)),
                pages=self._pages(_blocks(batch, int(b))),
                length=int(batch.kv_lens[b]),
            )
            for b in np.flatnonzero(batch.q_lens > 1)
        ]
        self._prepared = True

    def _plan_decode(self, batch: PagedBatch, which: npt.NDArray[np.intp]) -> None:
        """Prepare for the requests ``which``, those with one query row."""
        counts = np.diff(batch.kv_indptr)[which]
        # Shorter tables are padded with their own first block: its slots are written, hence finite.
        steps = np.arange(counts.max())[None]
        steps = np.where(steps < counts[:, None], steps, 0)
        blocks = batch.kv_indices[batch.kv_indptr[which][:, None] + steps]
        mask = None
        lengths = batch.kv_lens[which]
        if len(which) > 1:
            visible = np.arange(counts.max() * batch.block_size)[None] < lengths[:, None]
            mask = torch.from_numpy(visible[:, None, None]).to(self._device)
        rows = None
        if len(which) < len(batch.last_page_len):
            rows = torch.from_numpy(batch.qo_indptr[which].astype(np.int64)).to(self._device)
        self._decode = _Decode(rows, self._pages(blocks.ravel()), len(which), int(lengths.max()), mask)

    def _run_decode(self, q: torch.Tensor, kv: torch.Tensor, out: torch.Tensor) -> None:
        """Fill the rows of ``out`` that belong to requests with one query row."""
        plan = self._decode
        assert plan is not None
        if plan.rows is None:
            out.copy_(_decode(q, kv, plan))
        else:
            out.index_copy_(0, plan.rows, _decode(q.index_select(0, plan.rows), kv, plan))

    def _run_prefill(self, q: torch.Tensor, kv: torch.Tensor, plan: Prefill, out: torch.Tensor) -> None:
        """Fill ``out``, the rows of one request with several query rows."""
        _prefill(q, kv, plan, self._causal, out)

    def _pages(self, blocks: npt.NDArray[np.int32]) -> torch.Tensor:
        pages = blocks.astype(np.int64) * 2
        return torch.from_numpy(np.concatenate((pages, pages + 1))).to(self._device)


def _blocks(batch: PagedBatch, b: int) -> npt.NDArray[np.int32]:
    return batch.kv_indices[batch.kv_indptr[b] : batch.kv_indptr[b + 1]]


def _gather(kv: torch.Tensor, pages: torch.Tensor, batch: int) -> torch.Tensor:
    """K and V as ``[2, batch, slots, kv_heads, head_dim]``: whole blocks are copied, one call for both."""
    blocks, _, block_size, kv_heads, head_dim = kv.shape
    rows = kv.view(blocks * 2, block_size * kv_heads * head_dim).index_select(0, pages)
    return rows.view(2, batch, -1, kv_heads, head_dim)


def _decode(q: torch.Tensor, kv: torch.Tensor, plan: _Decode) -> torch.Tensor:
    gathered = _gather(kv, plan.pages, plan.batch)
    if plan.mask is None:
        gathered = gathered[:, :, : plan.length]
    k, v = gathered[0].transpose(1, 2), gathered[1].transpose(1, 2)
    _, heads, head_dim = q.shape
    # The heads of a group become query rows of their KV head: SDPA's own enable_gqa takes a slow
    # path for bf16 on CPUs (433 against 64 microseconds).
    grouped = q.reshape(plan.batch, kv.shape[3], -1, head_dim)
    out = F.scaled_dot_product_attention(grouped, k, v, attn_mask=plan.mask)
    return out.reshape(plan.batch, heads, head_dim)


def _prefill(
    q: torch.Tensor, kv: torch.Tensor, plan: Prefill, causal: torch.Tensor, out: torch.Tensor
) -> None:
    """Fill ``out`` ``[rows, heads, head_dim]`` tile by tile, the group's heads folded into the rows."""
    rows, heads, head_dim = q.shape
    kv_heads = kv.shape[3]
    group = heads // kv_heads
    gathered = _gather(kv, plan.pages, 1)[:, 0, : plan.length]
    k, v = gathered.transpose(1, 2).contiguous()
    scaled = (q * (1 / math.sqrt(head_dim))).view(rows, kv_heads, group, head_dim).permute(1, 2, 0, 3)
    target = out.view(rows, kv_heads, group, head_dim).permute(1, 2, 0, 3)
    cached = plan.length - rows
    for start in range(0, rows, TILE):
        stop = min(start + TILE, rows)
        size, seen = stop - start, cached + stop
        tile = scaled[:, :, start:stop].reshape(kv_heads, group * size, head_dim)
        scores = torch.bmm(tile, k[:, :seen].transpose(1, 2))
        diagonal = scores.view(kv_heads, group, size, seen)[..., seen - size :]
        diagonal.masked_fill_(causal[:size, :size], -math.inf)
        weighted = torch.bmm(torch.softmax(scores, dim=-1), v[:, :seen])
        target[:, :, start:stop] = weighted.view(kv_heads, group, size, head_dim)
