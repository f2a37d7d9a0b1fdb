"""What both sides of a measurement know. No textual here: the command line reads it, too."""

from __future__ import annotations

NAMES = ("alpha", "bravo", "charlie", "delta")
"""What the sessions are called that stream; alt+1 … alt+4 go to them."""
BATCHES = (1, 4)
"""Answers at once."""
