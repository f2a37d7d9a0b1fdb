"""Sessions as trees of messages, and their files."""
