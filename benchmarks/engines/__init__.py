"""This engine beside others on the same weights."""
