"""``python -m benchmarks screen``: what the screen costs, and whether it meets its goals."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from typing import Annotated, Any

import typer

from chatkv.cli import choices
from chatkv.cli.defaults import naming_the_file
from chatkv.cli.models import check_model
from chatkv.cli.output import check_target, print_table, progress_bar, write_json
from chatkv.engine.config import EngineConfig

FRAME_MS, KEY_MS, IDLE, RATIO = 16.0, 50.0, 0.02, 0.95
"""The goals: at most, at most, at most (a share of one core), at least."""
NODES = (1_000, 10_000, 100_000)
_KEYS_NODES = 10_000
_LARGE, _USUAL = (120, 50), (120, 36)
_BLOCKS = 2_048
_WAIT_S = 300.0

Progress = Callable[[str, int, int], None]
Line = tuple[str, str, str, str, str, str]


def screen(
    context: typer.Context,
    model: choices.Model = choices.MODEL,
    threads: choices.Threads = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds: half a minute, more noise.")] = False,
    json_out: choices.JsonOut = None,
) -> None:
    """Frames, keys, an idle screen, and the engine's speed with the screen over that without it.

    The app runs in a pseudo terminal, so writing is counted. Frames and trees are measured with a
    made-up cache, keys with it and with the model; speeds with the model, in turn in one process.
    """
    check_target(json_out)
    with naming_the_file(context, "model"):
        check_model(model)
    from chatkv.model.catalog import from_anywhere

    config = EngineConfig(model=from_anywhere(model), threads=threads, num_blocks=_BLOCKS).validate()
    with progress_bar() as advance:
        data = _measure(config, quick, advance)
    if write_json(json_out, data):
        heads = ["", ">median", ">p95", ">worst", ">goal", "met"]
        print_table(["the screen", *heads[1:]], _drawing_lines(data["frames"]))
        print()
        print_table([f"keys, {_size(_USUAL)}, four answers stream", *heads[1:]], _key_lines(data["keys"]))
        print()
        print_table(
            [
                f"tok/s, {data['speed']['dtype']}",
                ">headless",
                ">with the screen",
                ">ratio",
                ">goal",
                "met",
                ">screen's share of a core",
            ],
            _speed_lines(data["speed"]),
        )


def _measure(config: EngineConfig, quick: bool, advance: Progress) -> dict[str, Any]:
    from benchmarks.screen.keys import measure_keys
    from benchmarks.screen.terminal import Terminal
    from chatkv import __version__

    rounds, letters, others = (15, 20, 4) if quick else (60, 60, 12)
    idle_s = 2.0 if quick else 4.0
    stages = len(NODES) + 3

    def at(stage: int) -> Progress:
        return lambda what, done, total: advance(what, stage, stages)

    frames = []
    for stage, nodes in enumerate(NODES):
        order: dict[str, Any] = {"measure": "frames", "nodes": nodes, "rounds": rounds, "idle_s": idle_s}
        with Terminal(order, *_LARGE, at(stage)) as terminal:
            frames.append(terminal.wait("result", _WAIT_S))
    streams: dict[str, dict[str, Any]] = {
        "made up": {"measure": "made-up stream", "nodes": _KEYS_NODES},
        "model": {"measure": "model stream", "config": asdict(config)},
    }
    keys = {}
    for stage, (name, stream) in enumerate(streams.items(), len(NODES)):
        keys[name] = measure_keys(stream, *_USUAL, letters, others, at(stage))._asdict()
    order = {
        "measure": "speed",
        "config": asdict(config),
        "rounds": 2 if quick else 8,
        "tokens": 64 if quick else 96,
        "idle_s": idle_s,
    }
    with Terminal(order, *_USUAL, at(stages - 1)) as terminal:
        speed = terminal.wait("result", _WAIT_S)
    versions = {"chatkv": __version__, "python": platform.python_version()}
    return {"versions": versions, "quick": quick, "frames": frames, "keys": keys, "speed": speed}


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _line(what: str, seconds: Sequence[float], goal_ms: float | None, at: float = 0.5) -> Line:
    """``goal_ms`` is met where the share ``at`` of ``seconds`` is below it."""
    from chatkv.engine.stats import percentile

    ms = [1000 * value for value in seconds]
    met = "" if goal_ms is None else _met(percentile(ms, at) < goal_ms)
    goal = "" if goal_ms is None else f"< {goal_ms:g} ms"
    return (what, _ms(median(ms)), _ms(percentile(ms, 0.95)), _ms(max(ms)), goal, met)


def _ms(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.1f}"


def _met(met: bool) -> str:
    return "yes" if met else "no"


def _drawing_lines(frames: Sequence[dict[str, Any]]) -> list[Line]:
    lines: list[Line] = []
    largest = frames[-1]
    for of in frames:
        nodes = f"{of['nodes']:,} nodes"
        goal = FRAME_MS if of is largest else None
        lines.append(_line(f"full frame, {_size(_LARGE)}, {nodes}, ms", of["frame"], goal))
    lines.append(
        _line(f"after a new layout, {largest['nodes']:,} nodes, ms", largest["layout and frame"], None)
    )
    lines += [_line(f"pane alone: {name}, ms", seconds, None) for name, seconds in largest["panes"].items()]
    for of in frames:
        nodes = f"{of['nodes']:,} nodes"
        lines.append(_line(f"first picture of a tree, {nodes}, ms", [of["first"]["show_s"]], KEY_MS))
        lines.append(_line(f"a step folded, {nodes}, ms", of["fold a step"], None))
        lines.append(_line(f"ten steps taken up by the panes, {nodes}, ms", of["show"], None))
        lines.append(_line(f"pause, and on again, {nodes}, ms", of["pause"], KEY_MS, 1.0))
    for of in frames:
        share = of["idle"]
        line = (f"idle, {of['nodes']:,} nodes, % of a core", f"{100 * share:.1f}", "", "")
        lines.append((*line, f"< {100 * IDLE:g} %", _met(share < IDLE)))
    return lines


def _key_lines(keys: dict[str, Any]) -> list[Line]:
    lines: list[Line] = []
    kinds = {"letter": "a letter", "session": "another session", "help": "the list of keys"}
    for name, of in keys.items():
        for kind, seconds in of["seconds"].items():
            seen = [value for value in seconds if value is not None]
            if seen:
                lines.append(_line(f"{name}: {kinds[kind]}, ms", seen, KEY_MS, 0.95))
            if len(seen) < len(seconds):
                lines.append(
                    (f"{name}: {kinds[kind]}, never seen", f"{len(seconds) - len(seen)}", "", "", "", "no")
                )
        share = f"{100 * of['share']:.1f}"
        lines.append((f"{name}: screen's thread meanwhile, % of a core", share, "", "", "", ""))
    return lines


def _speed_lines(speed: dict[str, Any]) -> list[tuple[str, ...]]:
    """A ratio is the median over the rounds: the two runs of a round are neighbours in time."""
    lines: list[tuple[str, ...]] = []
    for size, of in speed["batches"].items():
        for kind, what in (("decode", "decode"), ("whole", "from question to end")):
            headless, shown = of["headless"][kind], of["screen"][kind]
            ratio = median(a / b for a, b in zip(shown, headless, strict=True))
            share = median(of["screen"]["share"])
            lines.append(
                (
                    f"{what}, batch {size}",
                    f"{median(headless):.1f}",
                    f"{median(shown):.1f}",
                    f"{ratio:.3f}",
                    f"≥ {RATIO:g}",
                    _met(ratio >= RATIO),
                    f"{100 * share:.1f} %" if kind == "decode" else "",
                )
            )
    idle = speed["idle"][0]
    lines.append(
        ("idle, % of a core", "", f"{100 * idle:.1f}", "", f"< {100 * IDLE:g} %", _met(idle < IDLE), "")
    )
    return lines
