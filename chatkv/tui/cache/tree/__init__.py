"""The radix tree pane: its rows, how they are found, and how they are drawn."""
