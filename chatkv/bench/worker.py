"""One measured run in a process of its own, so that its peak memory is its own.

It reads a JSON object with ``kind``, ``config``, ``workload`` and
``sampling`` from stdin and writes JSON lines: ``{"progress": [stage, done, total]}`` …, then
``{"result": …}`` or ``{"error": line}``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from chatkv import children
from chatkv.bench.hot_cold import HotCold
from chatkv.bench.workload import Workload
from chatkv.engine.config import EngineConfig
from chatkv.engine.messages import Sampling
from chatkv.errors import ChatkvError
from chatkv.temporaries import temporary_folder
from chatkv.text import one_line


def run_apart(
    config: EngineConfig,
    workload: Workload | HotCold,
    sampling: Sampling,
    progress: Callable[[str, int, int], None],
) -> dict[str, object]:
    """Run ``workload`` in a new process; its result as a dict. Raises ChatkvError."""
    from chatkv.model.catalog import from_anywhere

    with (
        temporary_folder() as folder,
        subprocess.Popen(
            children.module("chatkv.bench.worker"),
            cwd=folder,
            env=children.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            asked = {
                "kind": type(workload).__name__,
                "config": asdict(config) | {"model": from_anywhere(config.model)},
                "workload": asdict(workload),
                "sampling": asdict(sampling),
            }
            process.stdin.write(json.dumps(asked))
            process.stdin.close()
            for line in process.stdout:
                message = json.loads(line)
                if "progress" in message:
                    progress(*message["progress"])
                elif "error" in message:
                    raise ChatkvError(message["error"])
                else:
                    result: dict[str, object] = message["result"]
                    return result
        except BaseException:
            process.kill()
            raise
    raise ChatkvError(f"a measured run ended early (exit code {process.returncode}): see the lines above")


def run_in_turn(
    configs: Mapping[str, EngineConfig],
    workload: Workload | HotCold,
    sampling: Sampling,
    rounds: int,
    progress: Callable[[str, int, int], None],
) -> dict[str, list[dict[str, Any]]]:
    """``rounds`` passes over ``configs``, each run apart; the results by the name of the config."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in configs}
    for index in range(rounds):
        for name, config in configs.items():

            def tell(stage: str, done: int, total: int, label: str = f"{name} {index + 1}/{rounds}") -> None:
                progress(f"{label} · {stage}", done, total)

            runs[name].append(run_apart(config, workload, sampling, tell))
    return runs


def main() -> None:
    """The child's side. Whatever ends the run is told in one line."""
    asked = json.load(sys.stdin)

    def tell(**message: object) -> None:
        print(json.dumps(message), flush=True)

    def progress(stage: str, done: int, total: int) -> None:
        tell(progress=[stage, done, total])

    try:
        from chatkv.bench import chats, hot_cold

        config, sampling = EngineConfig(**asked["config"]), Sampling(**asked["sampling"])
        result: chats.ChatsResult | hot_cold.HotColdResult
        if asked["kind"] == "HotCold":
            result = hot_cold.run_hot_cold(config, HotCold(**asked["workload"]), sampling, progress)
        else:
            result = chats.run_chats(config, Workload(**asked["workload"]), sampling, progress)
    except ChatkvError as error:
        tell(error=str(error))
    except Exception as error:
        tell(error=one_line(f"a measured run failed: {type(error).__name__}: {error}", 400))
    else:
        tell(result=asdict(result))


if __name__ == "__main__":
    main()
