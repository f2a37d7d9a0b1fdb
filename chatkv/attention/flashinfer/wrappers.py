"""FlashInfer's wrapper classes as chatkv makes, plans and runs them: every call to the library is in here.

All arguments go by name and nothing private is touched, so that a version whose signatures only grew will
do. ``fa2`` is pinned: the library's own choice changes with its version and with the length of a prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from chatkv.attention.base import PagedBatch
from chatkv.attention.flashinfer.rules import Heads, Limits, wants_tensor_cores

BACKEND = "fa2"


class Wrappers:
    """Makes wrappers for one model on one device, and owns the memory they share.

    The caller is one thread with one CUDA stream.
    """

    def __init__(self, library: ModuleType, heads: Heads, device: torch.device, limits: Limits) -> None:
        self._library, self.heads, self.device, self._limits = library, heads, device, limits
        self.tensor_cores = wants_tensor_cores(heads.group)
        use(device)
        self._staging = Staging(device)
        self._workspaces = Workspaces(device)

    def prefill(self) -> Any:
        """A wrapper for any step. Compiles its kernel where there is none yet: minutes, once."""
        wrapper = self._library.BatchPrefillWithPagedKVCacheWrapper(
            float_workspace_buffer=self._workspaces.shared, kv_layout="NHD", backend=BACKEND
        )
        size = self._limits.block_size
        self._workspaces.fit(wrapper, [self._prefill_plan(s, size) for s in self._extreme_prefills()])
        return wrapper

    def decode(self) -> Any:
        """A wrapper for steps of one new token a request. Compiles as ``prefill`` does."""
        wrapper = self._new_decode()
        limits = self._limits
        pages = limits.pages(limits.context)
        steps = [_even(1, 1, pages, limits.block_size), _even(limits.requests, 1, pages, limits.block_size)]
        self._workspaces.fit(wrapper, [self._decode_plan(step, limits.block_size) for step in steps])
        return wrapper

    def graph_decode(self, indptr: torch.Tensor, indices: torch.Tensor, last: torch.Tensor) -> Any:
        """A decode wrapper over these device buffers (int32 ``[rows + 1]``, ``[pages]``, ``[rows]``)."""
        wrapper = self._new_decode(
            use_cuda_graph=True,
            paged_kv_indptr_buffer=indptr,
            paged_kv_indices_buffer=indices,
            paged_kv_last_page_len_buffer=last,
        )
        rows, size = len(last), self._limits.block_size
        # Whatever the lengths are, it needs the same: a graph's grid is fixed.
        self._workspaces.fit(wrapper, [self._decode_plan(_even(rows, 1, len(indices) // rows, size), size)])
        return wrapper

    def plan_prefill(self, wrapper: Any, batch: PagedBatch) -> None:
        """Plan a valid batch; ValueError where no scratch memory of a bearable size is enough."""
        with self._staged(batch) as staged:
            self._workspaces.plan(wrapper, self._prefill_plan(staged, batch.block_size))

    def plan_decode(self, wrapper: Any, batch: PagedBatch, *, fixed: bool = False) -> None:
        """Plan a valid batch of one new token a request. ``fixed``: the wrapper must keep its workspace,
        as a captured graph holds its address.
        """
        with self._staged(batch) as staged:
            arguments = self._decode_plan(staged, batch.block_size)
            if fixed:
                wrapper.plan(**arguments)
            else:
                self._workspaces.plan(wrapper, arguments)

    def run(self, wrapper: Any, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        """``wrapper.run`` behind the checks it lacks; raises ValueError where something doesn't fit."""
        heads = self.heads
        if q.shape[1:] != (heads.heads, heads.head_dim) or kv.shape[3:] != (heads.kv_heads, heads.head_dim):
            raise ValueError(
                f"planned {heads.heads}/{heads.kv_heads} heads of {heads.head_dim}, "
                f"got q {tuple(q.shape)} and KV {tuple(kv.shape)}"
            )
        if q.dtype != heads.dtype or kv.dtype != heads.dtype:
            raise ValueError(f"planned {heads.dtype}, got q in {q.dtype} and KV in {kv.dtype}")
        if not kv.is_contiguous():
            raise ValueError("FlashInfer needs contiguous KV, so that K and V have equal strides")
        use(self.device)
        if q.stride(2) != 1 or q.stride(1) != heads.head_dim:
            q = q.contiguous()  # rows may lie apart, as in a view into q, k and v; what is in a row may not
        # Without ``out`` the prefill wrapper makes one and fills it with zeros: a kernel more in each layer.
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        attended: torch.Tensor = wrapper.run(q=q, paged_kv_cache=kv, out=out)
        return attended

    # --- inside -------------------------------------------------------------------------------------

    @contextmanager
    def _staged(self, batch: PagedBatch) -> Iterator[Staged]:
        use(self.device)
        staged = self._staging.stage(batch)
        self._staging.settle()
        try:
            yield staged
        finally:  # a plan that fails may have asked for copies as well
            self._staging.sent()

    def _new_decode(self, **graph: Any) -> Any:
        return self._library.BatchDecodeWithPagedKVCacheWrapper(
            float_workspace_buffer=self._workspaces.shared,
            kv_layout="NHD",
            use_tensor_cores=self.tensor_cores,
            backend=BACKEND,
            **graph,
        )

    def _prefill_plan(self, staged: Staged, block_size: int) -> dict[str, Any]:
        return {
            "qo_indptr": staged.qo_indptr,
            "paged_kv_indptr": staged.kv_indptr,
            "paged_kv_indices": staged.kv_indices,
            "paged_kv_last_page_len": staged.last_page_len,
            "head_dim_qk": self.heads.head_dim,
            "causal": True,  # the library's default is False
            # Else the library looks for it with Python's max over a tensor. (That it does so for the longest
            # context as well can't be helped: given max_sequence_kv, 0.6.18 leaves out what fa2 needs.)
            "max_token_per_sequence": staged.longest,
            **self._either_plan(block_size),
        }

    def _decode_plan(self, staged: Staged, block_size: int) -> dict[str, Any]:
        # With tensor cores a plan takes twice as long (200 against 108 microseconds for 64 requests on one
        # slow core): the library takes Python's max over the tensor of lengths, and no argument that all
        # supported versions have spares it that. Without tensor cores it doesn't.
        return {
            "indptr": staged.kv_indptr,
            "indices": staged.kv_indices,
            "last_page_len": staged.last_page_len,
            "head_dim": self.heads.head_dim,
            **self._either_plan(block_size),
        }

    def _either_plan(self, block_size: int) -> dict[str, Any]:
        heads = self.heads
        return {
            "num_qo_heads": heads.heads,
            "num_kv_heads": heads.kv_heads,
            "page_size": block_size,
            "pos_encoding_mode": "NONE",
            "sm_scale": 1 / math.sqrt(heads.head_dim),
            # The library's default is float16, whatever the tensors are.
            "q_data_type": heads.dtype,
            "kv_data_type": heads.dtype,
            "o_data_type": heads.dtype,
        }

    def _extreme_prefills(self) -> list[Staged]:
        """The steps that need most scratch: a prompt behind a long prefix, long or just over a small tile."""
        limits, size = self._limits, self._limits.block_size
        tokens = limits.batch_tokens
        short = min(tokens, 64 // self.heads.group + 1)
        return [
            _even(1, new, max(limits.pages(limits.context), limits.pages(new)), size)
            for new in (tokens, short)
        ]


def use(device: torch.device) -> None:
    """Plans and kernels go to the *current* device, whatever the tensors say (flashinfer#924)."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def _even(requests: int, new: int, pages: int, block_size: int) -> Staged:
    """``requests`` alike: ``new`` tokens each over ``pages`` full blocks. Only the lengths of it are read."""
    steps = np.arange(requests + 1, dtype=np.int32)
    return Staged(
        qo_indptr=torch.from_numpy(steps * new),
        kv_indptr=torch.from_numpy(steps * pages),
        kv_indices=torch.zeros(requests * pages, dtype=torch.int32),
        last_page_len=torch.full((requests,), block_size, dtype=torch.int32),
        longest=new,
    )


SETS = 2


@dataclass(frozen=True, slots=True)
class Staged:
    """A batch's arrays in int32: indptrs and lengths on the host, block ids on the device."""

    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    last_page_len: torch.Tensor
    longest: int
    """The most new tokens of a request."""


@dataclass(slots=True)
class _Set:
    room: HostRoom
    event: Event | None = None


class Staging:
    """``stage`` a batch, ``settle`` right before the plan, ``sent`` right behind it."""

    def __init__(
        self, device: torch.device, *, pin: bool | None = None, event: Callable[[], Event] | None = None
    ) -> None:
        """On a CPU nothing is pinned, and copies are over when they return. ``pin``, ``event``: for tests."""
        on_gpu = device.type == "cuda"
        self._device = device
        pinned = on_gpu if pin is None else pin
        self._new_event = event if event is not None or not on_gpu else torch.cuda.Event
        self._sets = [_Set(HostRoom(pinned)) for _ in range(SETS)]
        self._turn = 0

    def stage(self, batch: PagedBatch) -> Staged:
        """Copy ``batch`` into the set whose last use lies furthest back."""
        self._turn = (self._turn + 1) % SETS
        own = self._sets[self._turn]
        if own.event is not None:
            own.event.synchronize()
        return Staged(
            qo_indptr=_put(own, "qo_indptr", batch.qo_indptr),
            kv_indptr=_put(own, "kv_indptr", batch.kv_indptr),
            # Block ids alone are read by kernels only: a plan that gets them from the host would wait.
            kv_indices=_put(own, "kv_indices", batch.kv_indices).to(self._device, non_blocking=True),
            last_page_len=_put(own, "last_page_len", batch.last_page_len),
            longest=int(batch.q_lens.max(initial=0)),
        )

    def settle(self) -> None:
        """Wait for the copies of the plan before: they may still read the library's own pinned buffer."""
        before = self._sets[self._turn - 1].event
        if before is not None:
            before.synchronize()

    def sent(self) -> None:
        """All copies of this batch have been asked for."""
        if self._new_event is not None:
            own = self._sets[self._turn]
            own.event = own.event or self._new_event()
            own.event.record()


def _put(own: _Set, name: str, array: npt.NDArray[np.int32]) -> torch.Tensor:
    view = own.room.take(name, len(array), torch.int32)
    view.numpy()[...] = array
    return view


FIRST_BYTES = 1 << 20
"""Until it's known what is needed: a wrapper can be asked only once it has some."""
FLOAT_BYTES = 256 << 20
"""Where the library can't tell what it needs (vLLM's value)."""
INT_BYTES = 8 << 20
"""The library's own value for a wrapper's plan."""
MOST_BYTES = 2 << 30
MARGIN = 1.25
"""Over the largest of a few extreme steps: the steps between them may need a little more."""


class Workspaces:
    """Owns the shared float workspace of all wrappers on ``device``."""

    def __init__(self, device: torch.device, float_bytes: int = FIRST_BYTES) -> None:
        self._device = device
        self.shared = self._zeros(float_bytes)

    def fit(self, wrapper: Any, plans: list[Mapping[str, Any]]) -> None:
        """Give ``wrapper`` what the largest of ``plans`` needs, by the library's own count.

        ``plans``: keyword arguments of its ``plan``. The shared workspace only grows; wrappers that had
        the one before keep it, so that captured graphs stay valid.
        """
        needs = [need for need in (needed(wrapper, plan) for plan in plans) if need is not None]
        if not needs:
            self._reserve(FLOAT_BYTES)
            wrapper.reset_workspace_buffer(self.shared, self._zeros(INT_BYTES))
            return
        self._reserve(int(max(float_bytes for float_bytes, _ in needs) * MARGIN))
        ints = max(INT_BYTES, int(max(int_bytes for _, int_bytes in needs) * MARGIN))
        wrapper.reset_workspace_buffer(self.shared, self._zeros(ints))

    def plan(self, wrapper: Any, arguments: Mapping[str, Any]) -> None:
        """``wrapper.plan(**arguments)``; with more memory once more where the library ran out of it."""
        try:
            wrapper.plan(**arguments)
            return
        except Exception as error:  # tvm-ffi turns a C++ error into whichever class it finds
            if "overflow" not in str(error).lower():
                raise
        need = needed(wrapper, arguments) or (2 * self.shared.numel(), 2 * INT_BYTES)
        if need[0] > MOST_BYTES:
            raise ValueError(
                f"FlashInfer wants {need[0] >> 20} MiB of scratch memory for this step: "
                "lower --max-batch-tokens or --max-running"
            )
        self._reserve(need[0])
        wrapper.reset_workspace_buffer(self.shared, self._zeros(max(INT_BYTES, need[1])))
        wrapper.plan(**arguments)

    def _reserve(self, float_bytes: int) -> None:
        if float_bytes > self.shared.numel():
            self.shared = self._zeros(float_bytes)

    def _zeros(self, size: int) -> torch.Tensor:
        # Decode kernels count on zeros at their first use. Whole pages, so that any alignment is met.
        return torch.zeros((size + 4095) // 4096 * 4096, dtype=torch.uint8, device=self._device)


def needed(wrapper: Any, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
    """Bytes of float and int workspace a plan takes; None where this build of the library can't tell."""
    try:
        float_bytes, int_bytes = wrapper.workspace_size(**arguments)
    except (AttributeError, NotImplementedError):
        return None
    return int(float_bytes), int(int_bytes)


class Event(Protocol):
    """A mark in the device's queue of work, as ``torch.cuda.Event`` is."""

    def record(self) -> None:
        """Put the mark behind all that was asked for so far."""

    def synchronize(self) -> None:
        """Wait until the device has passed the mark."""


class HostRoom:
    """Pieces of memory by name, used again step after step; one that is too small is replaced by a larger."""

    def __init__(self, pin: bool) -> None:
        """``pin``: in memory that is never moved, which a GPU can reach."""
        self._pin = pin
        self._pieces: dict[str, torch.Tensor] = {}

    def take(self, name: str, count: int, dtype: torch.dtype) -> torch.Tensor:
        """``[count]``; what was written there under this name before may still be in it."""
        piece = self._pieces.get(name)
        if piece is None or len(piece) < count:
            size = 1 << max(count - 1, 15).bit_length()
            piece = self._pieces[name] = torch.empty(size, dtype=dtype, pin_memory=self._pin)
        return piece[:count]
