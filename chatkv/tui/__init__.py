"""The Textual app: screens, widgets, key bindings."""
