"""What people may choose, by name. Nothing heavy is imported here: the command line lists it."""

from __future__ import annotations

POLICIES = ("fcfs", "lpm", "dfs-weight", "hrrn", "shortest-prefill-first")
"""Queue policies; see ``scheduler/policy.py``."""
ADMISSIONS = ("prompt", "ratio")
"""What an admission leaves free; see ``scheduler/admission.py``."""
MATCH_LIMIT = 128
"""With more requests waiting nothing is matched: looking all of them up each step costs too much [S2]."""
MAX_OVERTAKEN = 32
"""The default bound on how often a waiting request may be overtaken."""


def policy_label(name: str, max_overtaken: int) -> str:
    """What people read: ``FCFS``, ``LPM (aging 32)``, ``LPM (no aging)``."""
    if name == "fcfs":
        return "FCFS"  # in order of arrival nobody is overtaken
    shown = name if "-" in name else name.upper()
    return f"{shown} ({f'aging {max_overtaken}' if max_overtaken else 'no aging'})"
