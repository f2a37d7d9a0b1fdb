"""Modal screens: confirm, ask for a line, help."""
