"""chatkv: a terminal chat that shows, live, what the engine's KV cache does."""

__version__ = "0.1.0"
