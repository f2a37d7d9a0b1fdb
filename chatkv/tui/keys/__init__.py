"""Keys: what can be bound, what is bound now, and a person's own choice."""
