"""Stand-ins for what needs a GPU: a library that records calls, and compiled modules written in torch."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch


class Call(NamedTuple):
    """``name`` is ``Class.method``; ``arguments`` are what was given by name, ``args`` what was not."""

    name: str
    args: tuple[Any, ...]
    arguments: dict[str, Any]
    wrapper: Any


class Recorder:
    """A library whose wrappers compute nothing. ``needs``: what ``workspace_size`` says; None: it can't."""

    def __init__(self, needs: tuple[int, int] | None = (4 << 20, 1 << 20)) -> None:
        self.calls: list[Call] = []
        self.needs = needs
        self.fails: list[Exception] = []
        """Raised by the next plans, one each."""
        self.BatchPrefillWithPagedKVCacheWrapper = self._class("BatchPrefillWithPagedKVCacheWrapper")
        self.BatchDecodeWithPagedKVCacheWrapper = self._class("BatchDecodeWithPagedKVCacheWrapper")

    def named(self, end: str) -> list[Call]:
        return [call for call in self.calls if call.name.endswith(end)]

    def _class(recorder, name: str) -> type:  # noqa: N805
        def record(method: str, wrapper: Any, args: tuple[Any, ...], arguments: dict[str, Any]) -> None:
            recorder.calls.append(Call(f"{name}.{method}", args, arguments, wrapper))

        class Wrapper:
            def __init__(self, *args: Any, **arguments: Any) -> None:
                record("__init__", self, args, arguments)

            def plan(self, *args: Any, **arguments: Any) -> None:
                record("plan", self, args, arguments)
                if recorder.fails:
                    raise recorder.fails.pop(0)

            def run(self, *args: Any, **arguments: Any) -> torch.Tensor:
                record("run", self, args, arguments)
                return arguments["out"].zero_()

            def workspace_size(self, *args: Any, **arguments: Any) -> tuple[int, int]:
                record("workspace_size", self, args, arguments)
                if recorder.needs is None:
                    raise NotImplementedError
                return recorder.needs

            def reset_workspace_buffer(self, *args: Any, **arguments: Any) -> None:
                record("reset_workspace_buffer", self, args, arguments)

        return Wrapper


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    last_page_len: torch.Tensor,
    out: torch.Tensor,
    causal: bool,
    scale: float,
) -> None:
    """What the kernels compute, in fp32: ``k`` and ``v`` are ``[blocks, block_size, kv_heads, head_dim]``."""
    size, group = k.shape[1], q.shape[1] // k.shape[2]
    for b in range(len(last_page_len)):
        rows = slice(int(qo_indptr[b]), int(qo_indptr[b + 1]))
        pages = kv_indices[int(kv_indptr[b]) : int(kv_indptr[b + 1])].long()
        length = (len(pages) - 1) * size + int(last_page_len[b]) if len(pages) else 0
        keys, values = (
            x[pages].flatten(0, 1)[:length].float().repeat_interleave(group, dim=1) for x in (k, v)
        )
        queries = q[rows].float()
        scores = torch.einsum("qhd,khd->hqk", queries, keys) * scale
        if causal:
            seen = torch.arange(len(queries))[:, None] + length - len(queries)
            scores = scores.masked_fill(torch.arange(length)[None] > seen, -torch.inf)
        out[rows] = torch.einsum("hqk,khd->qhd", scores.softmax(-1), values).to(out.dtype)


class CompiledModules:
    """What ``get_batch_…_module`` returns: the real wrappers' calls end here instead of in CUDA."""

    def __init__(self) -> None:
        self.planned: list[tuple[str, tuple[Any, ...]]] = []
        self.asked: list[tuple[Any, ...]] = []
        """The arguments the modules were asked for with: backend, dtypes, index dtype, head sizes …"""
        self.wrong = 0.0
        """Added to every output."""

    def prefill(self, backend: str, *args: Any) -> SimpleNamespace:
        self.asked.append(("prefill", backend, *args))

        def run(*a: Any) -> None:
            q, k, v, qo_indptr, kv_indptr, kv_indices, last, out = a[3:11]
            mask_mode, layout, window = a[12:15]
            assert (layout, window) == (0, -1)
            attend(q, k, v, qo_indptr, kv_indptr, kv_indices, last, out, mask_mode == 1, a[23])
            out += self.wrong

        return SimpleNamespace(plan=self._plan("prefill"), paged_run=run, workspace_size=self._size)

    def decode(self, *args: Any) -> SimpleNamespace:
        self.asked.append(("decode", *args))

        def run(*a: Any) -> None:
            q, k, v, kv_indptr, kv_indices, last, out = a[3:10]
            layout, window = a[11:13]
            assert (layout, window) == (0, -1)
            rows = torch.arange(len(last) + 1)
            attend(q, k, v, rows, kv_indptr, kv_indices, last, out, False, a[16])
            out += self.wrong

        return SimpleNamespace(plan=self._plan("decode"), run=run, workspace_size=self._size)

    def _plan(self, kind: str) -> Callable[..., list[int]]:
        def plan(*args: Any) -> list[int]:
            self.planned.append((kind, args))
            return [0]

        return plan

    @staticmethod
    def _size(*args: Any) -> tuple[int, int]:
        return 1 << 20, 1 << 20


class RealFlashInfer(NamedTuple):
    """The installed library, and what stands in for its compiled modules."""

    library: ModuleType
    modules: CompiledModules
