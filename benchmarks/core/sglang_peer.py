"""SGLang's own Python radix cache, to be measured beside ours: read from an installed ``sglang`` wheel.

``pip install --no-deps sglang`` is enough: of the package only the modules of its radix cache are run, and
what they import besides (kernels, servers, metrics) is replaced by empty stand-ins that the paths measured
here never use.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from array import array
from collections.abc import Sequence
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

HOW_TO_INSTALL = "pip install --no-deps sglang"
_REAL = tuple(
    f"sglang.srt.mem_cache.{name}"
    for name in ("radix_cache", "base_prefix_cache", "cache_init_params", "events", "utils", "evict_policy")
)


class _Nothing:
    """Stands in for whatever a stand-in module is asked for: a class, a function, a decorator."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __call__(self, *args: object, **kwargs: object) -> _Nothing:
        return self

    def __getattr__(self, name: str) -> _Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing


class _Finder(MetaPathFinder, Loader):
    """Serves every ``sglang`` module but the real ones as an empty package."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name.split(".")[0] != "sglang":
            return None
        file = self.root.joinpath(*name.split("."))
        if name in _REAL:
            return importlib.util.spec_from_file_location(name, file.with_suffix(".py"))
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _StandIn(spec.name)
        if spec.name == "sglang.srt.utils.common":
            module.ceil_align = lambda n, by: -(-n // by) * by  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


class SGLangTree:
    """Match, insert and evict through SGLang's ``RadixCache``; values are int64 slot ids.

    Raises ImportError where sglang is not installed or its radix cache can't be loaded.
    """

    def __init__(self, page_size: int) -> None:
        import torch

        self._torch = torch
        cache = _module()
        self._cache, self._key = cache, cache.RadixKey
        self._params = importlib.import_module("sglang.srt.mem_cache.base_prefix_cache")
        self.tree = cache.RadixCache.create_simulated(mock_allocator=_Allocator(torch), page_size=page_size)

    def key(self, tokens: Sequence[int], session: str = "") -> Any:
        """Token ids as SGLang keeps them."""
        return self._key(array("q", tokens))

    def slots(self, n: int) -> Any:
        """Slot ids for ``n`` tokens."""
        return self._torch.arange(n, dtype=self._torch.int64)

    def match(self, key: Any) -> int:
        """The number of cached tokens ``key`` starts with."""
        return int(self.tree.match_prefix(self._params.MatchPrefixParams(key=key)).device_prefix_len)

    def insert(self, key: Any, slots: Any) -> int:
        """Store; how many tokens were there before."""
        return int(self.tree.insert(self._params.InsertParams(key=key, value=slots)).prefix_len)

    def evict(self, tokens: int) -> None:
        """Evict at least ``tokens`` tokens."""
        self.tree.evict(self._params.EvictParams(num_tokens=tokens))

    @property
    def cached_tokens(self) -> int:
        """Tokens in the tree."""
        return int(self.tree.evictable_size() + self.tree.protected_size())


class _Allocator:
    """Takes freed slots back and forgets them."""

    def __init__(self, torch: Any) -> None:
        self.device = torch.device("cpu")

    def free(self, slots: object) -> None:
        pass

    def free_segment(self, slots: object, start_pos: int) -> None:
        pass


def installed() -> Path | None:
    """The folder that holds ``sglang``, or None; nothing of it is imported."""
    for entry in sys.path:
        if (Path(entry) / "sglang" / "srt" / "mem_cache" / "radix_cache.py").is_file():
            return Path(entry)
    return None


def version() -> str:
    """The version of the installed ``sglang``, or "unknown"."""
    try:
        return metadata.version("sglang")
    except metadata.PackageNotFoundError:
        return "unknown"


def _module() -> Any:
    root = installed()
    if root is None:
        raise ImportError(f"sglang is not installed ({HOW_TO_INSTALL})")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(root))
    return importlib.import_module("sglang.srt.mem_cache.radix_cache")
