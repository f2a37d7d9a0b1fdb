"""Ask a model three ways, and see what its KV cache spared.

python examples/generate.py [MODEL]
"""

from __future__ import annotations

import sys
from pathlib import Path

from chatkv import LLM, SamplingParams
from chatkv.insight.export import save_snapshot


def main(model: str) -> None:
    params = SamplingParams(max_tokens=24)
    with LLM(model, num_blocks=256) as llm:
        # Two texts that begin alike: the second is computed only from where it differs.
        for text in ("The quick brown fox jumps over the lazy", "The quick brown fox sleeps under the old"):
            output = llm.generate(text, params)
            print(f"{output.reused} reused, {output.computed} computed: {output.text!r}")

        # A chat of two turns. ``turn`` carries the sampled ids, so all of the first turn is found again.
        messages = [{"role": "user", "content": "Name a colour."}]
        first = llm.chat(messages, params)
        second = llm.chat([*messages, first.turn, {"role": "user", "content": "Another one."}], params)
        print(f"second turn: {second.reused} of {second.prompt_tokens} tokens reused")

        # Token ids, as they come.
        for delta in (stream := llm.stream(first.token_ids, params)):
            print(delta.text, end="", flush=True)
        print(f"\n{stream.output.finish_reason}, first token after {stream.output.ttft_s or 0:.3f} s")

        save_snapshot(llm.snapshot(), Path("cache.svg"), "svg")
        print("the tree is drawn in cache.svg")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "smollm2-135m")
