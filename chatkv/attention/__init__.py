"""Paged attention behind one interface: torch on CPUs (and any GPU)."""
