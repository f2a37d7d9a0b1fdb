"""Decode steps as CUDA graphs: hundreds of kernel launches become one replay.

A graph has a fixed number of rows and reads its inputs at fixed addresses, so there is one for each of a few
numbers of rows (``BUCKETS``), and a step takes the smallest that it fits in. Padded rows write their K and V
into the *spare* block: it lies behind the pool's, so that no request, and no account of blocks, knows of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.flashinfer.backend import BUCKETS, FlashInferBackend, GraphDecode, bucket
from chatkv.attention.flashinfer.probe import telling
from chatkv.attention.flashinfer.wrappers import Event
from chatkv.engine.cuda_graph import Graph
from chatkv.model.decoder import Decoder

logger = logging.getLogger(__name__)

MOST_PAGES = 1 << 22
"""Block ids a graph has room for, at most (16 MiB of them); longer steps are not replayed."""
TOLERANCE = 0.05
"""Of the size of a step's logits, between it and its replay: the same kernels, so that they hardly differ."""

Int64Array = npt.NDArray[np.int64]


class Rows(NamedTuple):
    """A step's answer on the device. Valid until the next step."""

    logits: torch.Tensor
    """fp32 [rows, vocab]"""
    picks: torch.Tensor | None
    """int64 [rows], as ``pick`` gives them, where that was computed along."""


def pick(logits: torch.Tensor) -> torch.Tensor:
    """The likeliest id of each row, the first of equals; -1 where a logit is not a number. int64 [rows]."""
    values, ids = logits.max(-1)  # to both this and argmax, what is not a number is the largest
    # torch.where would bring -1 in by a copy, which waits and can't be captured.
    return ids.masked_fill(values.isnan(), -1)


def sizes(requests: int) -> tuple[int, ...]:
    """The rows of the graphs for an engine in which at most ``requests`` run at once."""
    largest = bucket(requests) or BUCKETS[-1]
    return tuple(rows for rows in BUCKETS if rows <= largest)


class DecodeGraphs:
    """Owns the graphs of one decoder over one KV tensor, whose last block is the spare one."""

    def __init__(
        self,
        decoder: Decoder,
        backend: FlashInferBackend,
        kv: torch.Tensor,
        new_graph: Callable[[], Graph],
        *,
        requests: int,
        context: int,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """``requests``: the most that run at once; ``context``: the most tokens one of them has. ``tell``:
        hears, once, of steps that were to be replayed and could not be.
        """
        self._decoder, self._backend, self._kv, self._new_graph = decoder, backend, kv, new_graph
        self._spare, self._block_size = kv.shape[1] - 1, kv.shape[3]
        self._pages = max(min(-(-context // self._block_size), self._spare), 1)
        self._sizes = sizes(requests)
        self._steps: dict[int, _Step] = {}
        self._unfit: set[int] = set()
        """Rows of graphs whose plan has failed: it would fail again, at each step."""
        self._tell, self._told = tell, False

    @property
    def rows(self) -> int:
        """The most requests a step may have to be replayed; 0 before ``capture``."""
        return max(self._steps, default=0)

    @torch.inference_mode()
    def capture(self, progress: Callable[[str, float | None], None]) -> None:
        """Capture all of them, which takes some seconds; raises what the device raises, and then has none."""
        try:
            # The largest first: the others find its memory and need hardly any of their own.
            for done, rows in enumerate(reversed(self._sizes)):
                progress("capturing CUDA graphs", done / len(self._sizes))
                pages = min(rows * self._pages, MOST_PAGES)
                attention = self._backend.graph(rows, max(pages, rows))
                step = _Step(self._decoder, attention, self._kv, self._new_graph())
                step.capture(self._idle(rows), self._slots(rows))
                off = step.off(self._idle(rows), self._slots(rows))
                if not off <= TOLERANCE:  # nan is wrong, too
                    raise RuntimeError(f"a replay of {rows} rows is off by {off:.2g} from its step")
                self._steps[rows] = step
        except Exception:
            self._steps.clear()
            raise

    @torch.inference_mode()
    def run(
        self, batch: PagedBatch, ids: Int64Array, positions: Int64Array, slots: Int64Array
    ) -> Rows | None:
        """A step in which each request has one new token; None where no graph takes it, or can't be planned.

        Plans, writes K/V and computes. Raises ValueError for a malformed batch, and for a block that isn't
        the pool's.
        """
        requests = len(batch.last_page_len)
        step = self._steps.get(bucket(requests) or 0)
        if step is None or step.attention.rows in self._unfit:
            return None
        if not step.attention.fits(batch):
            self._note(f"{requests} requests with {len(batch.kv_indices):,} blocks are more than they hold")
            return None
        if int(batch.kv_indices.max(initial=0)) >= self._spare:
            raise ValueError(f"kv_indices must lie in 0..{self._spare - 1}")
        try:
            # Before every replay: where contexts are split, and so what is read, is in the plan.
            step.attention.plan(batch)
        except Exception as error:  # of any class: a workspace too small, more parts than the graph has
            batch.validate(self._spare)
            logger.exception("a graph of %d rows could not be planned", step.attention.rows)
            self._unfit.add(step.attention.rows)
            self._note(f"a plan for {step.attention.rows} rows failed: {telling(error)}")
            return None
        return step.run(ids, positions, slots, self._slots(step.attention.rows))

    def _note(self, why: str) -> None:
        if not self._told:
            self._told = True
            self._tell(f"some steps go without CUDA graphs, and are slower: {why}")

    def again(self, requests: int) -> None:
        """Replay the step of ``requests`` that was just run, to find out how long the device takes."""
        self._steps[bucket(requests) or 0].again()

    def attend_only(self, batch: PagedBatch) -> Callable[[], None]:
        """Replays attention over ``batch`` in all layers with nothing between, to be compared with a step."""
        rows = bucket(len(batch.last_page_len)) or 0
        attention = self._backend.graph(rows, self._steps[rows].attention.pages)
        c = self._decoder.config
        q = torch.randn(rows, c.num_heads, c.head_dim, dtype=self._decoder.dtype, device=self._decoder.device)
        attention.plan(batch)

        def attend() -> None:
            for layer in self._kv:
                attention.run(q, layer)

        graph = self._new_graph()
        with torch.inference_mode():
            graph.capture(attend)
        return graph.replay

    def _slots(self, rows: int) -> Int64Array:
        """Where padded rows write; not all in one place as far as the block has room."""
        return self._spare * self._block_size + np.arange(rows, dtype=np.int64) % self._block_size

    def _idle(self, rows: int) -> PagedBatch:
        """A step of ``rows`` requests in the spare block only: each sees the slots up to its own."""
        steps = np.arange(rows + 1, dtype=np.int32)
        spare = np.full(rows, self._spare, dtype=np.int32)
        return PagedBatch(steps, steps, spare, steps[:-1] % self._block_size + 1, self._block_size)


class _Step:
    """One graph with its inputs."""

    def __init__(self, decoder: Decoder, attention: GraphDecode, kv: torch.Tensor, graph: Graph) -> None:
        self.attention = attention
        self._decoder, self._kv, self._graph = decoder, kv, graph
        rows, device = attention.rows, decoder.device
        on_gpu = device.type == "cuda"
        # Ids, positions and slots of all rows, on the host and where the graph reads them.
        self._host = torch.zeros(3, rows, dtype=torch.int64, pin_memory=on_gpu)
        self._inputs = torch.zeros(3, rows, dtype=torch.int64, device=device)
        self._all = torch.arange(rows, device=device)
        self._sent: Event | None = _event() if on_gpu else None
        self._rows: Rows | None = None

    def capture(self, idle: PagedBatch, slots: Int64Array) -> None:
        """Capture over ``idle``, which fills all rows."""
        none = np.zeros(0, dtype=np.int64)
        self._fill(none, none, none, slots)
        self.attention.plan(idle)
        self._graph.capture(self._compute)

    def off(self, idle: PagedBatch, slots: Int64Array) -> float:
        """How far a replay is from the same step without a graph, in the size of its logits.

        Its inputs are others than those of the capture: what was not recorded, or at another address, shows.
        """
        offsets = slots % idle.block_size  # rows of the same slot write the same
        self._fill((offsets + 1) % self._decoder.config.vocab, offsets, slots, slots)
        self.attention.plan(idle)
        wanted = self._logits()
        self._graph.replay()
        assert self._rows is not None
        return float((self._rows.logits - wanted).norm() / wanted.norm())

    def run(self, ids: Int64Array, positions: Int64Array, slots: Int64Array, spare: Int64Array) -> Rows:
        """Replay what was planned; ``spare``: the slots of all rows that are padded."""
        self._fill(ids, positions, slots, spare)
        self._graph.replay()
        assert self._rows is not None
        logits, picks = self._rows
        return Rows(logits[: len(ids)], picks[: len(ids)] if picks is not None else None)

    def again(self) -> None:
        """Replay as it is."""
        self._graph.replay()

    def _compute(self) -> None:
        logits = self._logits()
        # A replay writes into the tensors of the capture.
        self._rows = Rows(logits, pick(logits))

    def _logits(self) -> torch.Tensor:
        ids, positions, slots = self._inputs
        return self._decoder.forward(ids, positions, slots, self._kv, self.attention, self._all)

    def _fill(self, ids: Int64Array, positions: Int64Array, slots: Int64Array, spare: Int64Array) -> None:
        if self._sent is not None:
            self._sent.synchronize()  # the copy before may still read what is written now
        host, n = self._host.numpy(), len(ids)
        host[0, :n], host[1, :n], host[2, :n] = ids, positions, slots
        host[:2, n:] = 0
        host[2, n:] = spare[n:]
        self._inputs.copy_(self._host, non_blocking=True)
        if self._sent is not None:
            self._sent.record()


def _event() -> Event:
    event: Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    return event
