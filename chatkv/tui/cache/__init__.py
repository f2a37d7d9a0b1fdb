"""Widgets that show a folded cache: tree, block map, block table, metrics, events, inspector."""
