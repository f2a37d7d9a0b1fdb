"""The step loop that joins cache, scheduler, attention and model, in its own thread."""
