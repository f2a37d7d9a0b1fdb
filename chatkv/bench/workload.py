"""A seeded workload of chats: several sessions share a system prompt and take turns."""

from __future__ import annotations

import random
from dataclasses import dataclass

from chatkv.errors import UsageError

# Plain words, so that a prompt's length in tokens hardly depends on the seed.
_TEXT = """
the a river stone light winter garden book train city small large green quiet early late old new walk
read build measure explain compare describe list name find why how what when where which water fire wind
earth metal glass paper cloud street window house table music number letter word
"""
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class Workload:
    """``groups`` system prompts, each shared by ``sessions / groups`` sessions of ``turns`` turns."""

    sessions: int = 8
    turns: int = 3
    groups: int = 2
    system_words: int = 150
    user_words: int = 30
    answer_tokens: int = 32
    seed: int = 0

    def validate(self) -> Workload:
        """Return self; raise UsageError naming the option that can't work."""
        for name in ("sessions", "turns", "groups", "system_words", "user_words", "answer_tokens"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")
        return self


@dataclass(frozen=True, slots=True)
class Script:
    """One session: its system prompt and what its person says, turn by turn."""

    session: str
    system: str
    turns: tuple[str, ...]


def random_words(rng: random.Random, n: int) -> str:
    """``n`` plain words."""
    return " ".join(rng.choice(_WORDS) for _ in range(n))


def scripts(workload: Workload) -> list[Script]:
    """The sessions of a workload; the same for the same seed."""
    rng = random.Random(workload.seed)

    systems = [random_words(rng, workload.system_words) for _ in range(workload.groups)]
    return [
        Script(
            f"s{index}",
            systems[index % workload.groups],
            tuple(random_words(rng, workload.user_words) for _ in range(workload.turns)),
        )
        for index in range(workload.sessions)
    ]
