"""Paged batches for tests: random block tables with their dense twin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from chatkv.attention.base import PagedBatch


def paged_batch(
    tables: list[list[int]], q_lens: list[int], kv_lens: list[int], block_size: int
) -> PagedBatch:
    pages = [math.ceil(n / block_size) for n in kv_lens]
    return PagedBatch(
        qo_indptr=np.cumsum([0, *q_lens]).astype(np.int32),
        kv_indptr=np.cumsum([0, *pages]).astype(np.int32),
        kv_indices=np.array([b for t, p in zip(tables, pages, strict=True) for b in t[:p]], dtype=np.int32),
        last_page_len=np.array(
            [n - (p - 1) * block_size for n, p in zip(kv_lens, pages, strict=True)], dtype=np.int32
        ),
        block_size=block_size,
    )


@dataclass
class Case:
    """A batch, its queries ``[tokens, heads, dim]``, its paged KV, and each request's dense K and V."""

    batch: PagedBatch
    q: torch.Tensor
    kv: torch.Tensor
    dense: list[tuple[torch.Tensor, torch.Tensor]]


def random_case(
    lens: list[tuple[int, int]],
    block_size: int,
    kv_heads: int,
    group: int,
    head_dim: int,
    dtype: torch.dtype,
    seed: int,
) -> Case:
    """``lens``: (new, in all) tokens of each request. Unused slots hold large numbers: reading one shows."""
    generator = torch.Generator().manual_seed(seed)
    pages = [math.ceil(n / block_size) for _, n in lens]
    order = torch.randperm(sum(pages) + 3, generator=generator).tolist()
    kv = torch.full((len(order), 2, block_size, kv_heads, head_dim), 1e4, dtype=dtype)
    tables, dense = [], []
    for (_, n), count in zip(lens, pages, strict=True):
        table, order = order[:count], order[count:]
        k, v = torch.randn(2, n, kv_heads, head_dim, generator=generator).to(dtype)
        for position in range(n):
            block, offset = table[position // block_size], position % block_size
            kv[block, 0, offset], kv[block, 1, offset] = k[position], v[position]
        tables.append(table)
        dense.append((k, v))
    q = torch.randn(sum(q for q, _ in lens), kv_heads * group, head_dim, generator=generator).to(dtype)
    batch = paged_batch(tables, [q for q, _ in lens], [n for _, n in lens], block_size)
    return Case(batch, q, kv, dense)


def dense_attention(case: Case) -> torch.Tensor:
    """Causal attention, bottom-right aligned, written out in fp64."""
    rows = []
    for b, (k, v) in enumerate(case.dense):
        q = case.q[case.batch.qo_indptr[b] : case.batch.qo_indptr[b + 1]].double()
        group = q.shape[1] // k.shape[1]
        keys, values = (x.double().repeat_interleave(group, dim=1) for x in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, keys) / math.sqrt(q.shape[-1])
        visible = torch.arange(len(k))[None] <= torch.arange(len(q))[:, None] + len(k) - len(q)
        weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
        rows.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(rows)
