"""``chatkv run``: check every option, then open the chat."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from chatkv.cli import choices
from chatkv.cli import sampling as options
from chatkv.cli.choices import MEMORY, QUEUE
from chatkv.cli.defaults import from_file, naming_the_file, settings_of
from chatkv.cli.models import check_model
from chatkv.cli.sizes import MAX_BLOCKS, parse_size
from chatkv.cli.surroundings import is_terminal, log_to_file, unkept
from chatkv.engine.config import MAX_BLOCK_SIZE, EngineConfig
from chatkv.errors import UsageError
from chatkv.native.choice import chosen as check_native
from chatkv.web import talks_to_browser

_DEFAULT = EngineConfig()
_BROWSER = "Browser"


def run(
    context: typer.Context,
    model: choices.Model = _DEFAULT.model,
    sessions: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where the sessions are kept; default: your data folder.",
            callback=choices.folder,
        ),
    ] = None,
    save: Annotated[
        bool,
        typer.Option("--save/--no-save", help="Keep what is said; else sessions are only read."),
    ] = True,
    theme: choices.Theme = None,
    device: choices.Device = _DEFAULT.device,
    dtype: choices.Dtype = _DEFAULT.dtype,
    attention: choices.Attention = _DEFAULT.attention,
    cuda_graphs: choices.CudaGraphs = _DEFAULT.cuda_graphs,
    threads: Annotated[
        int | None, typer.Option(min=1, max=1024, help="CPU threads; default: as the machine has.")
    ] = None,
    block_size: Annotated[
        int,
        typer.Option(min=1, max=MAX_BLOCK_SIZE, help="Tokens a KV block.", rich_help_panel=MEMORY),
    ] = _DEFAULT.block_size,
    kv_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Size of the KV pool, like 512MiB.", rich_help_panel=MEMORY),
    ] = None,
    num_blocks: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_BLOCKS,
            help="Size of the KV pool in blocks, instead.",
            rich_help_panel=MEMORY,
        ),
    ] = None,
    max_context: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=choices.MOST,
            help="Tokens a conversation may have; default: the model's.",
            rich_help_panel=MEMORY,
        ),
    ] = None,
    max_batch_tokens: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="Tokens a step may compute.", rich_help_panel=MEMORY)
    ] = _DEFAULT.max_batch_tokens,
    cache: choices.Cache = _DEFAULT.cache,
    eviction: choices.Eviction = _DEFAULT.eviction,
    evict_grain: choices.EvictGrain = _DEFAULT.evict_grain,
    strict_blocks: Annotated[
        bool,
        typer.Option(
            "--strict-blocks/--no-strict-blocks",
            help="Reuse whole blocks only.",
            rich_help_panel=MEMORY,
        ),
    ] = False,
    max_running: Annotated[
        int, typer.Option(min=1, max=choices.MOST, help="Requests that run at once.", rich_help_panel=QUEUE)
    ] = _DEFAULT.max_running,
    policy: choices.Policy = _DEFAULT.policy,
    max_overtaken: Annotated[
        int,
        typer.Option(
            min=0,
            max=choices.MOST,
            help="How often a waiting request may be overtaken; 0: no bound.",
            rich_help_panel=QUEUE,
        ),
    ] = _DEFAULT.max_overtaken,
    admission: choices.Admission = _DEFAULT.admission,
    temperature: options.Temperature = 0.0,
    top_p: options.TopP = 1.0,
    top_k: options.TopK = 0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.RepetitionPenalty = 1.0,
    presence_penalty: options.PresencePenalty = 0.0,
    frequency_penalty: options.FrequencyPenalty = 0.0,
    stop: options.Stop = None,
    max_tokens: options.MaxTokens = 512,
    seed: options.Seed = None,
    verify: options.Verify = False,
    tour: Annotated[bool, typer.Option("--tour", help="Begin with a short look around.")] = False,
    record_screen: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.svg", help="Record the screen; the film is written on quitting.", dir_okay=False
        ),
    ] = None,
    web: Annotated[
        bool,
        typer.Option(
            "--web", help="Show it in a browser instead; prints the address.", rich_help_panel=_BROWSER
        ),
    ] = False,
    web_host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            help="Who may come: 127.0.0.1, this machine alone.",
            rich_help_panel=_BROWSER,
            callback=choices.host,
        ),
    ] = None,
    web_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Its port; default: a free one.", rich_help_panel=_BROWSER),
    ] = None,
) -> None:
    """Open the chat, with the radix tree and the block table beside it."""
    from chatkv.chat.store import SessionStore
    from chatkv.paths import data_dir

    # Of two that say the same, what is typed goes before what the file says.
    if from_file(context, "num_blocks") and kv_memory is not None and not from_file(context, "kv_memory"):
        num_blocks = None
    if from_file(context, "kv_memory") and num_blocks is not None and not from_file(context, "num_blocks"):
        kv_memory = None
    check_native()
    with naming_the_file(context):
        config = EngineConfig(
            model=model,
            block_size=block_size,
            kv_memory=None if kv_memory is None else parse_size(kv_memory, "--kv-memory"),
            num_blocks=num_blocks,
            max_context=max_context,
            max_batch_tokens=max_batch_tokens,
            device=device,
            dtype=dtype,
            attention=attention,
            cuda_graphs=cuda_graphs,
            cache=cache,
            strict=strict_blocks,
            eviction=eviction,
            evict_grain=evict_grain,
            max_running=max_running,
            policy=policy,
            max_overtaken=max_overtaken,
            admission=admission,
            threads=threads,
            verify=verify,
        ).validate()
        sampling = options.checked(
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            stop=stop,
            max_tokens=max_tokens,
            seed=seed,
        )
    with naming_the_file(context, "model"):
        check_model(model)
    typed = [name for name in ("web_host", "web_port") if not from_file(context, name)]
    if any(context.params[name] is not None for name in typed) and not web:
        raise UsageError("--web-host and --web-port need --web")
    in_browser = talks_to_browser()
    if record_screen is not None:
        if web or in_browser:
            raise UsageError("--record-screen records a terminal: it does not go with --web")
        from chatkv.tui.recording.recorder import check_target

        record_screen = check_target(record_screen)
    if not web and not in_browser and not is_terminal():
        raise UsageError(
            "chatkv run needs a terminal as stdin, stdout and stderr; without one: --web, or chatkv bench"
        )
    folder = Path(os.path.expanduser(sessions or data_dir() / "sessions")).absolute()
    store = SessionStore(folder, unkept(folder, save, asked_for=sessions is not None))

    if web and not in_browser:
        from chatkv.web.serve import serve

        # The app runs as this very command; its driver tells it that it is in the browser.
        raise typer.Exit(serve([sys.executable, *sys.orig_argv[1:]], web_host or "127.0.0.1", web_port or 0))

    log_to_file()
    from chatkv.tui.app import run as open_chat

    raise typer.Exit(
        open_chat(
            config,
            sampling,
            store,
            theme,
            tour=tour,
            keymap=settings_of(context).keys,
            record=record_screen,
        )
    )
