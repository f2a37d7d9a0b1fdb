"""The next token from a row of logits. Each request has its own generator, so its text depends on its
own seed only and not on who else is in the batch.

In this order, each step as transformers' processor of the same name defines it:

1. ``repetition_penalty`` p, over every token of the prompt and of the answer so far (as in vLLM too): a
   positive logit is divided by p, a negative one multiplied.
2. ``frequency_penalty`` × how often the answer so far has the token, and ``presence_penalty`` where it
   has it at all, are subtracted (OpenAI's and vLLM's; transformers has neither). The prompt doesn't count.
3. ``temperature`` below ``GREEDY_BELOW``: the likeliest token. Otherwise the logits are divided by it.
4. ``top_k``: the k likeliest, and those as likely as the last of them.
5. ``top_p``: the fewest of what is left, likeliest first, whose probability reaches top_p.
6. ``min_p``: of what is left, what is at least min_p times as likely as the likeliest.
7. One of what is left, by its probability.

vLLM differs in one place: there min_p comes before top_k and top_p.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from chatkv.engine.likeliest import likeliest
from chatkv.engine.messages import Sampling

GREEDY_BELOW = 1e-4
"""Dividing logits by less than this can only overflow; the likeliest token has all the probability."""
FIRST_LOOK = 512
"""top_p sorts this many of the likeliest first; they nearly always hold its mass, and all takes long."""
_NEVER = float("-inf")
_NOT_NUMBERS = "the model gave logits that are not numbers"


class Sampler:
    """Draws the tokens of one request. ``sampling``: one without a ``problem``."""

    def __init__(self, sampling: Sampling, prompt: Sequence[int] = ()) -> None:
        """``prompt``: the ids that the repetition penalty counts from the start."""
        self.sampling = sampling
        self._prompt = prompt
        self._generator = torch.Generator()
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed)
        s = sampling
        self._repeats = s.repetition_penalty != 1
        self._counts_matter = s.presence_penalty != 0 or s.frequency_penalty != 0
        self._seen: torch.Tensor | None = None
        self._counts: torch.Tensor | None = None

    @property
    def greedy(self) -> bool:
        """Whether the likeliest id is the next token, whatever was before: ``draw`` takes it for logits."""
        return self.sampling.temperature < GREEDY_BELOW and not (self._repeats or self._counts_matter)

    def draw(self, logits: torch.Tensor) -> int:
        """One token id from ``logits`` (fp32 [vocab], on the CPU), which stay as they are.

        Where this is ``greedy``, also from the likeliest id itself (int64 [], -1: there is none).
        """
        if not logits.dim():
            token = int(logits)
            if token < 0:
                raise ValueError(_NOT_NUMBERS)
            return token
        if self._repeats or self._counts_matter:
            logits = self._penalized(logits)
        if self.sampling.temperature < GREEDY_BELOW:
            token = likeliest(logits)
            if token < 0:
                raise ValueError(_NOT_NUMBERS)
        else:
            ids, probs = self.filtered(logits)
            token = self._pick(ids, probs)
        self._remember(token)
        return token

    def filtered(self, logits: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Steps 3 to 6, not greedy: the ids left, in order (None: all), and their probabilities (float64)."""
        s = self.sampling
        if logits.isnan().any():
            raise ValueError(_NOT_NUMBERS)
        logits = logits / s.temperature
        ids: torch.Tensor | None = None
        if 0 < s.top_k < len(logits):
            kth = logits.topk(s.top_k).values[-1]
            ids = (logits >= kth).nonzero().squeeze(1)
            logits = logits[ids]
        probs = logits.double().softmax(-1)
        if s.top_p < 1:
            kept = _nucleus(probs, s.top_p)
            ids = kept if ids is None else ids[kept]
            probs = probs[kept]
        if s.min_p > 0:
            kept = (probs >= s.min_p * probs.max()).nonzero().squeeze(1)
            ids = kept if ids is None else ids[kept]
            probs = probs[kept]
        return ids, probs / probs.sum()

    def _pick(self, ids: torch.Tensor | None, probs: torch.Tensor) -> int:
        # One number a token, laid on the ids in their order: rounding in the logits hardly moves it.
        at = torch.rand((), generator=self._generator, dtype=torch.float64)
        sums = probs.cumsum(0)
        index = int(torch.searchsorted(sums, at * sums[-1], right=True))
        index = min(index, len(probs) - 1)
        return index if ids is None else int(ids[index])

    def _penalized(self, logits: torch.Tensor) -> torch.Tensor:
        s = self.sampling
        if self._seen is None or self._counts is None:
            self._counts = torch.zeros(len(logits))
            self._seen = torch.zeros(len(logits), dtype=torch.bool)
            self._seen[torch.as_tensor(self._prompt, dtype=torch.int64)] = True
        if self._repeats:
            ids = self._seen.nonzero().squeeze(1)
            some = logits[ids]
            some = torch.where(some < 0, some * s.repetition_penalty, some / s.repetition_penalty)
            logits = logits.index_copy(0, ids, some)
        if self._counts_matter:
            ids = self._counts.nonzero().squeeze(1)
            counts = self._counts[ids]
            logits = logits.index_add(0, ids, -s.frequency_penalty * counts - s.presence_penalty)
        return logits

    def _remember(self, token: int) -> None:
        if self._seen is not None and self._counts is not None:
            self._seen[token] = True
            self._counts[token] += 1


def _nucleus(probs: torch.Tensor, top_p: float) -> torch.Tensor:
    """The ids, in order, of the fewest likeliest whose mass reaches ``top_p``."""
    if len(probs) > 2 * FIRST_LOOK:
        ordered, index = probs.topk(FIRST_LOOK)
        if ordered.sum() >= top_p:
            return index[_reaches(ordered, top_p)].sort().values
    ordered, index = probs.sort(descending=True, stable=True)
    return index[_reaches(ordered, top_p)].sort().values


def _reaches(ordered: torch.Tensor, top_p: float) -> torch.Tensor:
    # What comes after that mass is reached goes; the likeliest always stays.
    keep = ordered.cumsum(0) - ordered < top_p
    keep[0] = True
    return keep
