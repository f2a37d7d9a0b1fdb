"""What the screen costs: frames, keys, an idle screen, and what it takes from the engine's speed."""
